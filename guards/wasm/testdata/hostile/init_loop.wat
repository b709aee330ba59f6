;; Writes a passive segment again and again.
(module
  
  (memory (export "memory") 1)
  (data $d "0123456789abcdef")
  (func (export "guard_check_v1") (result i32)
    (loop $l (memory.init $d (i32.const 0) (i32.const 0) (i32.const 16)) (br $l))
    (i32.const 1)))
