;; A dropped data segment.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (data $d "x")
  (func (export "guard_check_v1") (result i32)
    (if (i32.load8_u (i32.const 9)) (then (return (i32.const 2))))
    (memory.init $d (i32.const 9) (i32.const 0) (i32.const 1))
    (data.drop $d)
    (i32.const 1))
)
