;; Calls an empty place of a table.
(module
  
  (memory (export "memory") 1)
  (type $t (func))
  (table 1 funcref)
  (func (export "guard_check_v1") (result i32)
    (call_indirect (type $t) (i32.const 0))
    (i32.const 1)))
