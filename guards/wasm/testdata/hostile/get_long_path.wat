;; Asks with a path of 2 MiB of slashes, for ever.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 256)
  
  (func (export "guard_check_v1") (result i32)
    (memory.fill (i32.const 0) (i32.const 47) (i32.const 2097152))
    (loop $l (drop (call $get (i32.const 0) (i32.const 2097152) (i32.const 0) (i32.const 0))) (br $l))
    (i32.const 1)))
