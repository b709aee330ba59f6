;; Writes 16 MiB to stderr, for ever.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 256)
  (data (i32.const 0) "\10\00\00\00\00\00\ff\00")
  (func (export "guard_check_v1") (result i32)
    (loop $l (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))) (br $l))
    (i32.const 1)))
