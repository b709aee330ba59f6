;; Rounds and converts between numbers, the ways that take an engine the longest.
(module
  (memory (export "memory") 1)
  (func (export "guard_check_v1") (result i32)
    (local $i i64) (local $f f64)
    (loop $l
      (local.set $f (f64.copysign (f64.nearest (f64.trunc (f64.ceil (f64.floor (f64.convert_i64_u (local.get $i)))))) (f64.const -1)))
      (local.set $i (i64.popcnt (i64.add (i64.ctz (local.get $i)) (i64.trunc_sat_f64_u (f64.min (local.get $f) (f64.max (local.get $f) (f64.const nan)))))))
      (br $l))
    (i32.const 1)))
