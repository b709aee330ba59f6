;; Recurses by way of a table.
(module
  
  (memory (export "memory") 1)
  (type $t (func (result i32)))
  (table 1 funcref)
  (elem (i32.const 0) $r)
  (func $r (type $t) (i32.add (i32.const 1) (call_indirect (type $t) (i32.const 0))))
  (func (export "guard_check_v1") (result i32)
    (drop (call $r))
    (i32.const 1)))
