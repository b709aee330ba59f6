;; Wants {"ok":true} for its configuration.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "guardproxy" "reason" (func $reason (param i32 i32)))
  (import "guardproxy" "note" (func $note (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "/config/ok")
  (data (i32.const 16) "/call")
  (data (i32.const 32) "set ok to true")
  (func (export "guard_config_v1") (result i32)
    ;; there is no call yet
    (if (i32.ne (call $get (i32.const 16) (i32.const 5) (i32.const 0) (i32.const 0)) (i32.const -1)) (then unreachable))
    (drop (call $get (i32.const 0) (i32.const 10) (i32.const 100) (i32.const 4)))
    (if (i32.eq (i32.load (i32.const 100)) (i32.const 0x65757274)) (then (return (i32.const 1))))
    (call $reason (i32.const 32) (i32.const 14))
    (i32.const 2))
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
