;; A global of type f32.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (global $g (mut f32) (f32.const nan:0x200001))
  (func (export "guard_check_v1") (result i32)
    (if (i32.ne (i32.reinterpret_f32 (global.get $g)) (i32.const 0x7fa00001)) (then (return (i32.const 2))))
    (global.set $g (f32.const 1))
    (i32.const 1))
)
