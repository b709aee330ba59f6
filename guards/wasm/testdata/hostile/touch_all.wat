;; Takes all memory that there is, and writes one byte of each page of it, again
;; and again: the first time, each is a fault.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (local $n i32) (local $i i32)
    (local.set $n (i32.const 16384))
    (loop $l
      (local.set $n (i32.shr_u (local.get $n) (i32.const 1)))
      (br_if $l (i32.eq (memory.grow (local.get $n)) (i32.const -1))))
    (local.set $n (i32.shl (memory.size) (i32.const 16)))
    (loop $again
      (local.set $i (i32.const 0))
      (loop $l
        (i32.store8 (local.get $i) (i32.const 7))
        (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4096))) (local.get $n))))
      (br $again))
    (i32.const 1)))
