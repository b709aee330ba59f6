;; Exports its memory twice.
(module
  (memory (export "memory") (export "mem") 1)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
