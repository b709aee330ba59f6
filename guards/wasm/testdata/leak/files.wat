;; A file that it makes.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory" (func $mkdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (memory (export "memory") 2 8)
  (data (i32.const 64) "trace")
  (func (export "guard_check_v1") (result i32)
    (if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 5) (i32.const 1) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 0))) (then (return (i32.const 2))))
    (if (i32.eqz (call $mkdir (i32.const 3) (i32.const 64) (i32.const 5))) (then (return (i32.const 2))))
    (if (i32.eqz (call $prestat (i32.const 3) (i32.const 0))) (then (return (i32.const 2))))
    (i32.const 1))
)
