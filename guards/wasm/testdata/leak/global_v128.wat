;; A global of type v128.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (global $g (mut v128) (v128.const i64x2 5 6))
  (func (export "guard_check_v1") (result i32)
    (if (i64.ne (i64x2.extract_lane 1 (global.get $g)) (i64.const 6)) (then (return (i32.const 2))))
    (global.set $g (v128.const i64x2 1 1))
    (i32.const 1))
)
