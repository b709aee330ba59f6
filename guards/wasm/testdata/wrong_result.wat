;; Its verdict has the wrong type.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i64) (i64.const 1)))
