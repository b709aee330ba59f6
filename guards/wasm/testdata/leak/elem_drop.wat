;; A dropped element segment.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (func $f)
  (elem $e func $f)
  (table $t 4 funcref)
  (global $n (mut i32) (i32.const 0))
  (func (export "guard_check_v1") (result i32)
    (if (global.get $n) (then (return (i32.const 2))))
    (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1))
    (elem.drop $e)
    (i32.const 1))
)
