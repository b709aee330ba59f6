;; Call-budget asks when the model has made more calls since the user's last
;; message than a turn should need: an agent that goes in circles, or was talked
;; into something, is stopped until somebody looks. What counts is
;; session.calls, which the host counts, so nothing is kept in the guard.
;;
;; Configuration: limit, a whole number from 1 to 999999; 100 without it.
(module
  (import "guardproxy" "get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "guardproxy" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)

  (data (i32.const 0) "/session/calls")
  (data (i32.const 32) "/config/limit")
  (data (i32.const 64) "/config")
  (data (i32.const 128) "many calls were made since the user last said something. Stop here, say what was done and what is left, and let the user decide")
  (data (i32.const 320) "the only setting is limit, a whole number from 1 to 999999")
  ;; 512: what get writes

  ;; The whole number in $n bytes at 512; -1 if there is none, or it has more
  ;; than $most digits.
  (func $number (param $n i32) (param $most i32) (result i32)
    (local $i i32) (local $digit i32) (local $value i32)
    (if (i32.or (i32.lt_s (local.get $n) (i32.const 1)) (i32.gt_s (local.get $n) (local.get $most)))
      (then (return (i32.const -1))))
    (loop $next
      (local.set $digit (i32.sub (i32.load8_u offset=512 (local.get $i)) (i32.const 48)))
      (if (i32.gt_u (local.get $digit) (i32.const 9))
        (then (return (i32.const -1))))
      (local.set $value (i32.add (i32.mul (local.get $value) (i32.const 10)) (local.get $digit)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_s (local.get $i) (local.get $n))))
    (local.get $value))

  ;; The number at a pointer of $length bytes at $at.
  (func $look (param $at i32) (param $length i32) (param $most i32) (result i32)
    (call $number (call $get (local.get $at) (local.get $length) (i32.const 512) (i32.const 64)) (local.get $most)))

  (func (export "guard_check_v1") (result i32)
    (local $calls i32) (local $limit i32)
    (local.set $limit (call $look (i32.const 32) (i32.const 13) (i32.const 6)))
    (if (i32.lt_s (local.get $limit) (i32.const 1))
      (then (local.set $limit (i32.const 100))))
    (local.set $calls (call $look (i32.const 0) (i32.const 14) (i32.const 9)))
    ;; No count is no verdict: 0 denies.
    (if (i32.lt_s (local.get $calls) (i32.const 0))
      (then (return (i32.const 0))))
    (if (i32.le_s (local.get $calls) (local.get $limit))
      (then (return (i32.const 1))))
    (call $reason (i32.const 128) (i32.const 127))
    (i32.const 3))

  ;; The configuration is {} or {"limit":N}, byte by byte, since nothing else
  ;; has that length.
  (func (export "guard_config_v1") (result i32)
    (local $length i32) (local $digits i32)
    (local.set $length (call $get (i32.const 64) (i32.const 7) (i32.const 512) (i32.const 64)))
    (if (i32.eq (local.get $length) (i32.const 2))
      (then (return (i32.const 1))))
    (local.set $digits (call $get (i32.const 32) (i32.const 13) (i32.const 512) (i32.const 64)))
    (if (i32.and
          (i32.eq (local.get $length) (i32.add (local.get $digits) (i32.const 10)))
          (i32.ge_s (call $number (local.get $digits) (i32.const 6)) (i32.const 1)))
      (then (return (i32.const 1))))
    (call $reason (i32.const 320) (i32.const 58))
    (i32.const 2))
)
