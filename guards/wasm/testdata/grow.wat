;; Wants 64 MiB of memory and traps without.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (if (i32.eq (memory.grow (i32.const 1024)) (i32.const -1)) (then unreachable))
    (i32.const 1)))
