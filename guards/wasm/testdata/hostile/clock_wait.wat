;; Waits for the clock to move.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 0)))
    (loop $l (drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 8))) (br_if $l (i64.eq (i64.load (i32.const 0)) (i64.load (i32.const 8)))))
    (i32.const 1)))
