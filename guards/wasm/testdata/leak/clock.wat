;; The time.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (memory (export "memory") 2 8)

  (func (export "guard_check_v1") (result i32)
    (if (if (result i32) (call $clock (i32.const 1) (i64.const 1) (i32.const 0)) (then (i32.const 1)) (else (i64.ne (i64.load (i32.const 0)) (i64.const 1640995200000000000)))) (then (return (i32.const 2))))
    (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 0)))
    (i32.const 1))
)
