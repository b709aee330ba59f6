;; Has a 64-bit memory. (wat2wasm --enable-memory64)
(module
  (memory (export "memory") i64 1)
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
