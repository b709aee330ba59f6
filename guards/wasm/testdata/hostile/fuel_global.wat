;; Writes into every global that it has.
(module
  
  (memory (export "memory") 1)
  (global $a (mut i64) (i64.const 0))
  (global $b (mut i64) (i64.const 0))
  (func (export "guard_check_v1") (result i32)
    (loop $l (global.set $a (i64.const 0x7fffffffffffffff)) (global.set $b (i64.const 0x7fffffffffffffff)) (br $l))
    (i32.const 1)))
