;; What was done to a descriptor.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $stat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_renumber" (func $renumber (param i32 i32) (result i32)))
  (memory (export "memory") 2 8)

  (func (export "guard_check_v1") (result i32)
    (if (call $stat (i32.const 2) (i32.const 0)) (then (return (i32.const 2))))
    (drop (call $renumber (i32.const 2) (i32.const 1)))
    (drop (call $close (i32.const 2)))
    (drop (call $close (i32.const 0)))
    (i32.const 1))
)
