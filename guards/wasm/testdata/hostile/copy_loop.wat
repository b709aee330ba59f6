;; Copies 8 MiB in a loop.
(module
  
  (memory (export "memory") 200)
  
  (func (export "guard_check_v1") (result i32)
    (loop $l (memory.copy (i32.const 0) (i32.const 4000000) (i32.const 8000000)) (br $l))
    (i32.const 1)))
