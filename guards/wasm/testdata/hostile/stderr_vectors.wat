;; Writes a million vectors at once.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 256)
  
  (func (export "guard_check_v1") (result i32)
    (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1000000) (i32.const 8)))
    (i32.const 1)))
