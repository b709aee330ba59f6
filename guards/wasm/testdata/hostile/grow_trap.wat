;; Asks for 64 MiB of memory and uses it.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (drop (memory.grow (i32.const 1024)))
    (i32.store (i32.const 0x7fffffff) (i32.const 1))
    (i32.const 1)))
