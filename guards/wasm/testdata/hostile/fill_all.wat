;; Takes all memory that there is, and fills it at once, again and again.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (local $n i32)
    (local.set $n (i32.const 16384))
    (loop $l
      (local.set $n (i32.shr_u (local.get $n) (i32.const 1)))
      (br_if $l (i32.eq (memory.grow (local.get $n)) (i32.const -1))))
    (local.set $n (i32.shl (memory.size) (i32.const 16)))
    (loop $l
      (memory.fill (i32.const 0) (i32.const 7) (local.get $n))
      (br $l))
    (i32.const 1)))
