;; Asks about everything.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "guardproxy" "reason" (func $reason (param i32 i32)))
  (import "guardproxy" "note" (func $note (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "really?")
  (func (export "guard_check_v1") (result i32)
    (call $reason (i32.const 0) (i32.const 7))
    (i32.const 3)))
