;; Wants 64 MiB of memory and can do without.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (drop (memory.grow (i32.const 1024)))
    (i32.const 1)))
