;; Entries that table.fill has set.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (func $f)
  (elem declare func $f)
  (table $t 4 funcref)
  (func (export "guard_check_v1") (result i32)
    (if (i32.eqz (ref.is_null (table.get $t (i32.const 1)))) (then (return (i32.const 2))))
    (table.fill $t (i32.const 0) (ref.func $f) (i32.const 4))
    (i32.const 1))
)
