;; Divides by zero.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (drop (i32.div_u (i32.const 1) (memory.grow (i32.const 0))))
    (drop (i32.div_u (i32.const 1) (i32.sub (memory.size) (i32.const 1))))
    (i32.const 1)))
