;; Has no memory.
(module
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
