;; Copies a table again and again.
(module
  
  (memory (export "memory") 1)
  (table $t 100000 funcref)
  (func (export "guard_check_v1") (result i32)
    (loop $l (table.copy $t $t (i32.const 0) (i32.const 1) (i32.const 99999)) (br $l))
    (i32.const 1)))
