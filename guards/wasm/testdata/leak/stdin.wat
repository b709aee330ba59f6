;; Where standard input was left.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2 8)
  (data (i32.const 0) "\20\00\00\00\10\00\00\00")
  (func (export "guard_check_v1") (result i32)
    (if (if (result i32) (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then (i32.const 1)) (else (i32.load (i32.const 8)))) (then (return (i32.const 2))))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.const 1))
)
