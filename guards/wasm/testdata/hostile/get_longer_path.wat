;; Asks with a path that is longer than any document.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 256)
  
  (func (export "guard_check_v1") (result i32)
    (memory.fill (i32.const 0) (i32.const 47) (i32.const 2097153))
    (loop $l (drop (call $get (i32.const 0) (i32.const 2097153) (i32.const 0) (i32.const 0))) (br $l))
    (i32.const 1)))
