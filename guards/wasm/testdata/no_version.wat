;; Exports a check without version.
(module
  (memory (export "memory") 1)
  (func (export "guard_check") (result i32) (i32.const 1)))
