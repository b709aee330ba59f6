;; Asks for a table of 400 million entries.
(module
  
  (memory (export "memory") 1)
  (table $t 1 funcref)
  (func (export "guard_check_v1") (result i32)
    (drop (table.grow $t (ref.null func) (i32.const 400000000)))
    (loop $l (br $l))
    (i32.const 1)))
