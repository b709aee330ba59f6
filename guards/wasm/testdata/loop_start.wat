;; Never finishes its start function.
(module
  (memory (export "memory") 1)
  (func $s (loop $l (br $l)))
  (start $s)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
