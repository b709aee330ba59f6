;; Memory that was added.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)

  (func (export "guard_check_v1") (result i32)
    (if (if (result i32) (i32.ge_u (memory.grow (i32.const 1)) (i32.const 2)) (then (i32.load (i32.const 131072))) (else (i32.const 1))) (then (return (i32.const 2))))
    (i32.store (i32.const 131072) (i32.const 1))
    (i32.const 1))
)
