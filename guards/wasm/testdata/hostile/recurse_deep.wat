;; Recurses as deep as it can.
(module
  
  (memory (export "memory") 1)
  (func $r (param i64 i64 i64) (result i64) (i64.add (local.get 0) (call $r (i64.add (local.get 0) (i64.const 1)) (local.get 1) (local.get 2))))
  (func (export "guard_check_v1") (result i32)
    (drop (call $r (i64.const 0) (i64.const 0) (i64.const 0)))
    (i32.const 1)))
