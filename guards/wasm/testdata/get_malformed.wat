;; Passes get what is no JSON Pointer.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "guardproxy" "reason" (func $reason (param i32 i32)))
  (import "guardproxy" "note" (func $note (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "call/name")
  (func (export "guard_check_v1") (result i32)
    (drop (call $get (i32.const 0) (i32.const 9) (i32.const 0) (i32.const 0)))
    (i32.const 1)))
