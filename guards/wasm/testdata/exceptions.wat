;; Throws an exception. (wat2wasm --enable-exceptions)
(module
  (memory (export "memory") 1)
  (tag $e)
  (func (export "guard_check_v1") (result i32)
    (throw $e)))
