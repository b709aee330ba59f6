;; Traps.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    unreachable))
