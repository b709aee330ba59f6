;; Imports a global.
(module
  (import "guardproxy" "g" (global i32))
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
