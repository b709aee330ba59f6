;; The size of a table.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (table $t 4 funcref)
  (func (export "guard_check_v1") (result i32)
    (if (i32.ne (table.size $t) (i32.const 4)) (then (return (i32.const 2))))
    (drop (table.grow $t (ref.null func) (i32.const 1)))
    (i32.const 1))
)
