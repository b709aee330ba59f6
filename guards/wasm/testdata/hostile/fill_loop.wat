;; Fills 4 MiB in a loop.
(module
  
  (memory (export "memory") 64)
  
  (func (export "guard_check_v1") (result i32)
    (loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 4000000)) (br $l))
    (i32.const 1)))
