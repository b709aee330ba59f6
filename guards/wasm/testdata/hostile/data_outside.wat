;; Has data behind the end of its memory.
(module
  
  (memory (export "memory") 1)
  (data (i32.const 65536) "x")
  (func (export "guard_check_v1") (result i32)

    (i32.const 1)))
