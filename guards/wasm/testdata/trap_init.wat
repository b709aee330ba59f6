;; Traps in _initialize.
(module
  (memory (export "memory") 1)
  (func (export "_initialize") unreachable)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
