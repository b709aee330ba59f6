;; Asks with a path that wraps around.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (drop (call $get (i32.const -8) (i32.const 16) (i32.const 0) (i32.const 0)))
    (i32.const 1)))
