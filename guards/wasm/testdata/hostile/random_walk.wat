;; Reads its memory where no cache has it, each place by the one before.
(module
  (memory (export "memory") 240)
  (func (export "guard_check_v1") (result i32)
    (local $i i32)
    (loop $l
      (local.set $i (i32.rem_u (i32.add (i32.mul (local.get $i) (i32.const 1664525)) (i32.add (i32.const 1013904223) (i32.load (local.get $i)))) (i32.const 15728636)))
      (i32.store (local.get $i) (i32.add (i32.load (local.get $i)) (i32.const 1)))
      (br $l))
    (i32.const 1)))
