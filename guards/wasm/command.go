package wasm

import (
	"errors"
	"fmt"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// The command profile: a module that exports _start and no guard_check_v1 gets
// the input document on standard input and writes its verdict as one JSON
// object to standard output,
//
//	{"verdict":"pass"}
//	{"verdict":"deny","reason":"…"}
//
// and nothing else but white space. It is for languages that build no reactor.
// Every call is a run of the program from its first instruction, so an exit
// with code 0 is how it ends; any other code is a failure, whatever was
// written.

// maxOutput is the longest output of a command, in bytes: a reason of 300
// characters, each escaped as \uXXXX\uXXXX, and room for white space.
const maxOutput = 8 << 10

// readVerdict reads the whole output of a command. It is strict: an output in
// which two readers could see two verdicts is none.
func readVerdict(out []byte) (guards.Verdict, error) {
	var t tape.Tape
	var v guards.Verdict
	if len(out) == 0 {
		return v, errors.New("nothing was written to standard output")
	}
	if len(out) > maxOutput {
		return v, fmt.Errorf("more than %d bytes were written to standard output", maxOutput)
	}
	if err := t.Parse(out); err != nil {
		return v, fmt.Errorf("standard output is not one JSON value: %w", err)
	}
	if t.Kind(0) != tape.Object {
		return v, fmt.Errorf("standard output is %v, not an object", t.Kind(0))
	}
	for k := 1; k < t.After(0); k = t.After(k + 1) {
		if key := t.Str(k); key != "verdict" && key != "reason" {
			// Errors quote nothing: they go to logs that hold no guard's words.
			return v, errors.New("the verdict has a member beside verdict and reason")
		}
		if t.Kind(k+1) != tape.String {
			return v, fmt.Errorf("the member %s is %v, not a string", t.Str(k), t.Kind(k+1))
		}
	}
	n := t.Get(0, "verdict")
	if n < 0 {
		return v, errors.New("there is no member verdict")
	}
	switch t.Str(n) {
	case "pass":
		v.Decision = guards.Pass
		return v, nil
	case "deny":
		v.Decision = guards.Deny
	case "ask":
		v.Decision = guards.Ask
	default:
		return v, errors.New("the verdict is none of pass, deny and ask")
	}
	v.Cause = guards.CausePolicy
	if n := t.Get(0, "reason"); n >= 0 {
		v.Reason = guards.ClipReason(t.Str(n))
	}
	return v, nil
}
