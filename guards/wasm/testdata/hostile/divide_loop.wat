;; Divides, for ever, by the slowest numbers.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (local $i i64)
    (loop $l (local.set $i (i64.add (i64.const 0x7fffffffffffffff) (i64.div_s (i64.sub (i64.const 0x7fffffffffffffff) (local.get $i)) (i64.const 3)))) (br $l))
    (i32.const 1)))
