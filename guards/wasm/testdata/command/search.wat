;; A program that reads its input to the end, and passes when it holds no tilde.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 20)
  (data (i32.const 16) "{\22verdict\22:\22pass\22}")
  (data (i32.const 0) "\10\00\00\00\12\00\00\00")
  (func $say (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  
  (func (export "_start")
    (local $at i32)
    (i32.store (i32.const 4096) (i32.const 8192))
    (loop $l
      (i32.store (i32.const 4100) (i32.const 7777))
      (if (call $read (i32.const 0) (i32.const 4096) (i32.const 1) (i32.const 4104)) (then unreachable))
      (i32.store (i32.const 4096) (i32.add (i32.load (i32.const 4096)) (i32.load (i32.const 4104))))
      (br_if $l (i32.load (i32.const 4104))))
    (local.set $at (i32.const 8192))
    (loop $m
      (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 126)) (then (call $exit (i32.const 1))))
      (br_if $m (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.load (i32.const 4096)))))
    (call $say)))
