;; Passes only the first call that an instance sees.
(module
  (memory (export "memory") 1)
  (global $n (mut i32) (i32.const 0))
  (func (export "guard_check_v1") (result i32)
    (global.set $n (i32.add (global.get $n) (i32.const 1)))
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (i32.add (i32.const 0) (select (i32.const 1) (i32.const 2)
      (i32.and (i32.eq (global.get $n) (i32.const 1)) (i32.eq (i32.load (i32.const 0)) (i32.const 1)))))))
