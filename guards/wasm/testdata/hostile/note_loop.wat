;; Writes notes of 16 MiB, for ever.
(module
  (import "guardproxy" "note" (func $note (param i32 i32)))
  (memory (export "memory") 256)
  
  (func (export "guard_check_v1") (result i32)
    (loop $l (call $note (i32.const 0) (i32.const 16777216)) (br $l))
    (i32.const 1)))
