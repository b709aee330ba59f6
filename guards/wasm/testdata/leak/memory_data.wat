;; Memory that a data segment has set.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (data (i32.const 70000) "x")
  (func (export "guard_check_v1") (result i32)
    (if (i32.ne (i32.load8_u (i32.const 70000)) (i32.const 120)) (then (return (i32.const 2))))
    (i32.store8 (i32.const 70000) (i32.const 1))
    (i32.const 1))
)
