;; Writes too many and too long notes, and a reason that is no text.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "guardproxy" "reason" (func $reason (param i32 i32)))
  (import "guardproxy" "note" (func $note (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "n")
  (data (i32.const 8) "\ff\fe")
  (func (export "guard_check_v1") (result i32)
    (local $i i32)
    (loop $l
      (call $note (i32.const 0) (i32.const 5000))
      (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 20))))
    (call $reason (i32.const 8) (i32.const 5000))
    (i32.const 2)))
