;; Needs 64 MiB of memory to start.
(module
  (memory (export "memory") 1024)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
