;; Memory that the start function has set.
;; It denies when it finds a trace of an earlier call, and leaves one.
(module
  (memory (export "memory") 2 8)
  (func $s (i32.store (i32.const 4096) (i32.add (i32.load (i32.const 4096)) (i32.const 7))))
  (start $s)
  (func (export "guard_check_v1") (result i32)
    (if (i32.ne (i32.load (i32.const 4096)) (i32.const 7)) (then (return (i32.const 2))))
    (i32.store (i32.const 4096) (i32.const 1))
    (i32.const 1))
)
