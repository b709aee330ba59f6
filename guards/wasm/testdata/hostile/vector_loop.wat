;; Computes with vectors, for ever.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (local $v v128)
    (loop $l (local.set $v (f64x2.sqrt (f64x2.div (local.get $v) (f64x2.splat (f64.const 3))))) (br $l))
    (i32.const 1)))
