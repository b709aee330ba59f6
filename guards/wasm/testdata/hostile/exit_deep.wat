;; Exits from the bottom of a recursion.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32) ))
  (memory (export "memory") 1)
  (func $r (param i32) (if (local.get 0) (then (call $r (i32.sub (local.get 0) (i32.const 1))) (return))) (call $proc_exit (i32.const 0)))
  (func (export "guard_check_v1") (result i32)
    (call $r (i32.const 5000))
    (i32.const 1)))
