;; Denies every call; the reason is a sum over all memory and all globals as the
;; call found them. Then it does what the call's arguments say: ops is a list of
;; three characters each, what to do and two numbers.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "guardproxy" "reason" (func $reason (param i32 i32)))
  (import "guardproxy" "note" (func $note (param i32 i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 2 40)
  (data (i32.const 131000) "/call/arguments/ops")
  (data (i32.const 70000) "some data")
  (global $a (mut i32) (i32.const 1))
  (global $b (mut i64) (i64.const 2))
  (global $c (mut f32) (f32.const 3))
  (global $d (mut f64) (f64.const 4))
  (func (export "_initialize")
    (global.set $a (i32.const 11))
    (i32.store (i32.const 512) (i32.const 0x12345678)))
  (func (export "guard_config_v1") (result i32)
    (global.set $b (i64.const 22))
    (drop (memory.grow (i32.const 1)))
    (i32.store (i32.const 140000) (i32.const 0x12345678))
    (i32.const 1))
  (func $sum (result i64)
    (local $h i64) (local $i i32)
    (local.set $h (i64.const 0xcbf29ce484222325))
    (loop $l
      (local.set $h (i64.mul (i64.xor (local.get $h) (i64.load (local.get $i))) (i64.const 0x100000001b3)))
      (local.set $h (i64.xor (local.get $h) (i64.shr_u (local.get $h) (i64.const 29))))
      (local.set $i (i32.add (local.get $i) (i32.const 8)))
      (br_if $l (i32.lt_u (local.get $i) (i32.mul (memory.size) (i32.const 65536)))))
    (local.set $h (i64.add (i64.mul (local.get $h) (i64.const 31)) (i64.extend_i32_u (memory.size))))
    (local.set $h (i64.add (i64.mul (local.get $h) (i64.const 31)) (i64.extend_i32_u (global.get $a))))
    (local.set $h (i64.add (i64.mul (local.get $h) (i64.const 31)) (global.get $b)))
    (local.set $h (i64.add (i64.mul (local.get $h) (i64.const 31)) (i64.extend_i32_u (i32.reinterpret_f32 (global.get $c)))))
    (i64.add (i64.mul (local.get $h) (i64.const 31)) (i64.reinterpret_f64 (global.get $d))))
  (func $deep (param i32)
    (if (local.get 0) (then (call $deep (i32.sub (local.get 0) (i32.const 1))))))
  (func (export "guard_check_v1") (result i32)
    (local $h i64) (local $i i32) (local $end i32) (local $op i32) (local $x i32) (local $y i32)
    (local.set $h (call $sum))
    (loop $hex
      (i32.store8 (local.get $i) (i32.add (i32.const 97) (i32.wrap_i64 (i64.and (local.get $h) (i64.const 15)))))
      (local.set $h (i64.shr_u (local.get $h) (i64.const 4)))
      (br_if $hex (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 16))))
    (call $reason (i32.const 0) (i32.const 16))
    (local.set $end (i32.add (i32.const 1024) (call $get (i32.const 131000) (i32.const 19) (i32.const 1024) (i32.const 4096))))
    (local.set $i (i32.const 1024))
    (block $done
      (loop $l
        (br_if $done (i32.ge_s (local.get $i) (local.get $end)))
        (local.set $op (i32.load8_u (local.get $i)))
        (local.set $x (i32.load8_u offset=1 (local.get $i)))
        (local.set $y (i32.load8_u offset=2 (local.get $i)))
        (local.set $i (i32.add (local.get $i) (i32.const 3)))
        (if (i32.eq (local.get $op) (i32.const 119)) ;; w: write
          (then (i32.store8 (i32.add (i32.mul (local.get $x) (i32.const 1500)) (local.get $y)) (i32.const 255))))
        (if (i32.eq (local.get $op) (i32.const 102)) ;; f: fill
          (then (memory.fill (i32.add (i32.const 8192) (i32.mul (local.get $x) (i32.const 400))) (local.get $y) (i32.const 9000))))
        (if (i32.eq (local.get $op) (i32.const 103)) ;; g: globals
          (then
            (global.set $a (local.get $x))
            (global.set $b (i64.extend_i32_u (local.get $y)))
            (global.set $c (f32.convert_i32_u (local.get $x)))
            (global.set $d (f64.convert_i32_u (local.get $y)))))
        (if (i32.eq (local.get $op) (i32.const 109)) ;; m: more memory
          (then
            (drop (memory.grow (i32.const 1)))
            (i32.store8 (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 1)) (local.get $x))))
        (if (i32.eq (local.get $op) (i32.const 110)) ;; n: note
          (then (call $note (local.get $x) (local.get $y))))
        (if (i32.eq (local.get $op) (i32.const 122)) ;; z: random bytes
          (then (drop (call $random (i32.const 20000) (i32.mul (local.get $x) (local.get $y))))))
        (if (i32.eq (local.get $op) (i32.const 100)) ;; d: a deep stack
          (then (call $deep (i32.mul (local.get $x) (i32.const 20)))))
        (if (i32.eq (local.get $op) (i32.const 116)) (then unreachable)) ;; t: trap
        (if (i32.eq (local.get $op) (i32.const 101)) (then (call $exit (local.get $x)))) ;; e: exit
        (if (i32.eq (local.get $op) (i32.const 104)) ;; h: misuse of the host
          (then (call $note (i32.const -1) (local.get $y))))
        (if (i32.eq (local.get $op) (i32.const 108)) ;; l: without end
          (then (loop $e (br $e))))
        (br $l)))
    (i32.const 2)))
