;; Jumps about in a table of branches.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (local $i i32)
    (loop $l (block $a (block $b (block $c (br_table $a $b $c $l (i32.and (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))))
      (br $l))
    (i32.const 1)))
