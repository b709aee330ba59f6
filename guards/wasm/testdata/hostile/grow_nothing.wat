;; Asks for no memory, for ever.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (loop $l (drop (memory.grow (i32.const 0))) (br $l))
    (i32.const 1)))
