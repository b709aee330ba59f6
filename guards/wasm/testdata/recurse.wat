;; Recurses without end.
(module
  (memory (export "memory") 1)
  (func $r (param i32) (result i32) (i32.add (i32.const 1) (call $r (local.get 0))))
  (func (export "guard_check_v1") (result i32)
    (call $r (i32.const 0))))
