;; Asks for 16 MiB of random bytes, for ever.
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (memory (export "memory") 256)
  
  (func (export "guard_check_v1") (result i32)
    (loop $l (drop (call $random_get (i32.const 0) (i32.const 16777216))) (br $l))
    (i32.const 1)))
