;; Never returns.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (loop $l (br $l))
    (i32.const 1)))
