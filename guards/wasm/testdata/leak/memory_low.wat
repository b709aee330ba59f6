;; The first byte of memory.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)

  (func (export "guard_check_v1") (result i32)
    (if (i32.load8_u (i32.const 0)) (then (return (i32.const 2))))
    (i32.store8 (i32.const 0) (i32.const 1))
    (i32.const 1))
)
