;; Imports what does not exist.
(module
  (import "env" "evil" (func))
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
