;; A global that is exported.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (global $g (export "g") (mut i32) (i32.const 5))
  (func (export "guard_check_v1") (result i32)
    (if (i32.ne (global.get $g) (i32.const 5)) (then (return (i32.const 2))))
    (global.set $g (i32.const -1))
    (i32.const 1))
)
