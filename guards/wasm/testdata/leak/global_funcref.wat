;; A global that refers to a function.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (func $f)
  (elem declare func $f)
  (global $g (mut funcref) (ref.null func))
  (func (export "guard_check_v1") (result i32)
    (if (i32.eqz (ref.is_null (global.get $g))) (then (return (i32.const 2))))
    (global.set $g (ref.func $f))
    (i32.const 1))
)
