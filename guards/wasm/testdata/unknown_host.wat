;; Imports a host function that does not exist.
(module
  (import "guardproxy" "exec" (func (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
