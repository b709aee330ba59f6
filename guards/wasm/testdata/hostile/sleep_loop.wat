;; Sleeps, for ever.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sched_yield" (func $sched_yield  (result i32)))
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (loop $l (drop (call $poll_oneoff (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128))) (drop (call $sched_yield)) (br $l))
    (i32.const 1)))
