;; Calls a function by another type.
(module
  
  (memory (export "memory") 1)
  (type $t (func (param f64)))
  (table 1 funcref)
  (func $f)
  (elem (i32.const 0) $f)
  (func (export "guard_check_v1") (result i32)
    (call_indirect (type $t) (f64.const 0) (i32.const 0))
    (i32.const 1)))
