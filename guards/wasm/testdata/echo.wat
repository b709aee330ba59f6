;; Denies commands that begin with "n", with the command as the reason.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "guardproxy" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "/call/arguments/command")
  (func (export "guard_check_v1") (result i32)
    (local $n i32)
    (local.set $n (call $get (i32.const 0) (i32.const 23) (i32.const 1024) (i32.const 4096)))
    (if (i32.or (i32.lt_s (local.get $n) (i32.const 0)) (i32.gt_u (local.get $n) (i32.const 4096)))
      (then (return (i32.const 0))))
    (call $reason (i32.const 1024) (local.get $n))
    (select (i32.const 2) (i32.const 1) (i32.eq (i32.load8_u (i32.const 1024)) (i32.const 110)))))
