;; Imports what metering imports.
(module
  (import "guardproxy:meter" "refill" (func $refill))
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (call $refill)
    (i32.const 1)))
