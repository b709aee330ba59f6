;; Reads behind the end of its memory.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (drop (i64.load offset=4294967295 (i32.const -1)))
    (i32.const 1)))
