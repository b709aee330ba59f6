;; Its check takes a parameter.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (param i32) (result i32) (i32.const 1)))
