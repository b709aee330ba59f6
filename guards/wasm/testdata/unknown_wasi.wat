;; Imports a WASI function that does not exist.
(module
  (import "wasi_snapshot_preview1" "fd_frob" (func (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
