;; Divides and takes roots of the numbers that are slowest for it, two at a time.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (local $v v128)
    (local.set $v (v128.const i64x2 3 5))
    (loop $l
      (local.set $v (f64x2.div (f64x2.sqrt (f64x2.sqrt (f64x2.div (local.get $v) (v128.const f64x2 1e300 1e300)))) (v128.const f64x2 1e308 1e308)))
      (br $l))
    (i32.const 1)))
