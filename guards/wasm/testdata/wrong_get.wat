;; Imports get with another type.
(module
  (import "guardproxy" "get" (func (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
