;; A global of type f64.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (global $g (mut f64) (f64.const -0))
  (func (export "guard_check_v1") (result i32)
    (if (i64.ne (i64.reinterpret_f64 (global.get $g)) (i64.const 0x8000000000000000)) (then (return (i32.const 2))))
    (global.set $g (f64.const 1))
    (i32.const 1))
)
