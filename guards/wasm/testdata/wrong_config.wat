;; Its guard_config_v1 returns nothing.
(module
  (memory (export "memory") 1)
  (func (export "guard_config_v1"))
  (func (export "guard_check_v1") (result i32)
    (i32.const 1)))
