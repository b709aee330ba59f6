;; Asks for memory until there is none, and then fills it.
(module
  
  (memory (export "memory") 1)
  
  (func (export "guard_check_v1") (result i32)
    (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    (loop $m (memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65536))) (br $m))
    (i32.const 1)))
