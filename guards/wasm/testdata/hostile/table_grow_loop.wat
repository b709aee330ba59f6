;; Grows a table again and again.
(module
  
  (memory (export "memory") 1)
  (table $t 1 funcref)
  (func (export "guard_check_v1") (result i32)
    (loop $l (drop (table.grow $t (ref.null func) (i32.const 1000))) (br $l))
    (i32.const 1)))
