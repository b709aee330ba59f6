;; Writes all of its memory, and then gives no verdict: it has to be put back.
(module
  (memory (export "memory") 240)
  (func (export "guard_check_v1") (result i32)
    (if (i32.load (i32.const 1000)) (then (unreachable)))
    (memory.fill (i32.const 0) (i32.const 7) (i32.const 15728640))
    (i32.const 0)))
