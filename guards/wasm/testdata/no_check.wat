;; Exports no check.
(module
  (memory (export "memory") 1)
  (func (export "other") (result i32) (i32.const 1)))
