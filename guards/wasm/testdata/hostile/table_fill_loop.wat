;; Fills a table again and again.
(module
  
  (memory (export "memory") 1)
  (table $t 100000 funcref)
  (func (export "guard_check_v1") (result i32)
    (loop $l (table.fill $t (i32.const 0) (ref.null func) (i32.const 100000)) (br $l))
    (i32.const 1)))
