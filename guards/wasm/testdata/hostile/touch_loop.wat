;; Writes one byte of each page, for ever.
(module
  
  (memory (export "memory") 64)
  
  (func (export "guard_check_v1") (result i32)
    (local $i i32)
    (loop $l (i32.store8 (local.get $i) (i32.const 7)) (local.set $i (i32.and (i32.add (local.get $i) (i32.const 4096)) (i32.const 0x3fffff))) (br $l))
    (i32.const 1)))
