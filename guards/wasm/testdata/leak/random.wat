;; The place in the stream of random bytes.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 2 8)

  (func (export "guard_check_v1") (result i32)
    (if (if (result i32) (call $random (i32.const 0) (i32.const 8)) (then (i32.const 1)) (else (i64.ne (i64.load (i32.const 0)) (i64.const 0xe220a8397b1dcdaf)))) (then (return (i32.const 2))))
    (drop (call $random (i32.const 16) (i32.const 1000)))
    (i32.const 1))
)
