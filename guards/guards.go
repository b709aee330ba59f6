// Package guards judges tool calls.
//
// A [Call] is one tool call that a model wrote, together with what the host
// knows about it. A [Guard] looks at a call and passes it, asks for an
// approver, or denies it. A [Chain] runs all guards whose [Match] fits and
// takes the strictest verdict, so a guard can only ever narrow what the
// others allow, and their order doesn't matter.
//
// A guard in Go implements the one method of [Guard]. Guards in other
// languages are WebAssembly modules (package guards/wasm), which see the
// call as the JSON document of [Call.Document].
//
// Whatever goes wrong denies: a guard that panics, a context that has ended,
// a call too large to judge. The verdict's [Cause] tells a guard that said no
// from a guard that broke.
package guards

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxInput is the size in bytes of the largest input document that is
// judged. A larger call is denied with [CauseInputTooLarge].
const MaxInput = 1 << 20

// MaxReason is the number of characters (Unicode code points) of a verdict's
// reason; the rest is cut off.
const MaxReason = 300

// Decision is what becomes of a call. Decisions are ordered: the larger one
// wins.
type Decision uint8

const (
	Pass Decision = iota // no objection
	Ask                  // only with an approver's consent
	Deny                 // not at all
)

// String returns "pass", "ask" or "deny".
func (d Decision) String() string {
	switch d {
	case Pass:
		return "pass"
	case Ask:
		return "ask"
	case Deny:
		return "deny"
	}
	return fmt.Sprintf("decision %d", uint8(d))
}

// Cause says why a call is not simply passed. It is empty for [Pass].
type Cause string

const (
	CausePolicy         Cause = "policy"          // the guard looked and said so
	CauseTrap           Cause = "trap"            // a WebAssembly trap
	CauseUnknownVerdict Cause = "unknown_verdict" // a value that is no verdict
	CauseExit           Cause = "exit"            // the guard ended its process, with whatever code
	CauseFuel           Cause = "fuel"            // more instructions than allowed
	CauseDeadline       Cause = "deadline"        // more time than allowed
	CauseMemory         Cause = "memory"          // more memory than allowed
	CauseHostMisuse     Cause = "host_misuse"     // a host function called wrongly
	CauseLoad           Cause = "load"            // the guard could not be started, or is closed
	CausePanic          Cause = "panic"           // a Go guard, or the host around a module, panicked
	CauseCanceled       Cause = "canceled"        // the caller's context was cancelled
	CauseInputTooLarge  Cause = "input_too_large" // the document exceeds MaxInput
	CauseInputInvalid   Cause = "input_invalid"   // the arguments are not one JSON object
)

// Verdict is one guard's answer.
type Verdict struct {
	Decision Decision
	Cause    Cause
	Guard    string   // set by the chain to the entry's name
	Reason   string   // for the model; hostile text, since it may quote the call
	Notes    []string // for the audit log only
	Detail   string   // the host's own account of a failure: for the operator's log, never for the model
	Stderr   string   // what the guard wrote to standard error: like its notes
	Observed bool     // the entry only observes: the verdict did not count

	// Took is how long the guard took; the chain measures it. Fuel is what the
	// guard burnt, 0 where that is not counted. Neither is part of the answer.
	Took time.Duration
	Fuel int64
}

// Fault is the verdict on a guard that gave none: a denial with a reason that
// fits the cause. Detail is for the operator's log.
func Fault(cause Cause, detail string) Verdict {
	return Verdict{Decision: Deny, Cause: cause, Reason: faultReasons[cause], Detail: detail}
}

var faultReasons = map[Cause]string{
	CauseTrap:           "the guard failed while it judged this call",
	CauseUnknownVerdict: "the guard gave no valid verdict",
	CauseExit:           "the guard ended without a verdict",
	CauseFuel:           "the guard did not finish within its budget",
	CauseDeadline:       "the guard did not finish in time; a smaller call may be judged faster",
	CauseMemory:         "the guard ran out of memory; a smaller call may need less",
	CauseHostMisuse:     "the guard failed while it judged this call",
	CauseLoad:           "the guard could not be started",
	CausePanic:          "the guard failed while it judged this call",
	CauseCanceled:       "the request was cancelled before the guard finished",
	CauseInputTooLarge:  "this call is too large to be judged; split it into smaller calls",
	CauseInputInvalid:   "the arguments of this call are not one JSON object",
}

// Guard judges calls. Check must be safe for concurrent use, must not change
// the call or keep it, and should return soon after ctx ends. Its verdict
// should depend on the call alone, so that it can be replayed.
type Guard interface {
	Check(ctx context.Context, c *Call) Verdict
}

// Match selects the calls that a guard sees. An empty list matches all. A
// call whose kind or client is unknown ("") matches every list of kinds or
// clients: what is not known to be harmless is judged.
type Match struct {
	Tools   []string // tool names, byte for byte
	Kinds   []string // shell, write, read, code, other
	Clients []string // claude-code, codex, …
}

// Matches reports whether the call is one of those selected.
func (m Match) Matches(c *Call) bool {
	return among(m.Tools, c.Name) &&
		(c.Kind == "" || among(m.Kinds, c.Kind)) &&
		(c.Client == "" || among(m.Clients, c.Client))
}

func among(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return len(list) == 0
}

// Entry is a guard's place in a chain.
type Entry struct {
	Name    string
	Guard   Guard
	Match   Match
	Observe bool // report the verdict, but let it decide nothing
}

// Chain is a list of guards in configuration order. It is safe for
// concurrent use as long as nobody changes it.
type Chain []Entry

// Outcome is what a chain says about a call.
type Outcome struct {
	Decision Decision
	Cause    Cause     // of the first verdict in configuration order that decided
	Verdicts []Verdict // of all entries that matched, in configuration order
}

// Deciding returns the verdicts that led to the decision, in configuration
// order: those that count and are as strict as the outcome. None for a pass.
func (o Outcome) Deciding() []Verdict {
	var out []Verdict
	for _, v := range o.Verdicts {
		if o.Decision != Pass && !v.Observed && v.Decision == o.Decision {
			out = append(out, v)
		}
	}
	return out
}

// Check runs every guard that matches, in order, and returns the strictest
// decision. Guards run even after a denial, so that all reasons are known.
// A chain in which nothing matches passes the call.
func (ch Chain) Check(ctx context.Context, c *Call) Outcome {
	var o Outcome
	valid := false // the arguments are looked at once, if anybody judges them
	for i := range ch {
		e := &ch[i]
		if !e.Match.Matches(c) {
			continue
		}
		var v Verdict
		if !valid {
			valid = isObject(c.Arguments)
		}
		switch {
		case ctx.Err() != nil:
			v = Fault(ctxCause(ctx), ctx.Err().Error())
		case c.atLeast() > MaxInput:
			v = Fault(CauseInputTooLarge, "")
		case !valid:
			v = Fault(CauseInputInvalid, "")
		case e.Guard == nil:
			v = Fault(CauseLoad, "no guard")
		default:
			start := time.Now()
			v = check(ctx, e.Guard, c)
			v.Took = time.Since(start)
		}
		v.Guard, v.Observed = e.Name, e.Observe
		o.Verdicts = append(o.Verdicts, v)
		if !e.Observe && v.Decision > o.Decision {
			o.Decision, o.Cause = v.Decision, v.Cause
		}
	}
	return o
}

// check calls one guard and makes its verdict well-formed.
func check(ctx context.Context, g Guard, c *Call) (v Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = Fault(CausePanic, fmt.Sprint(p))
		}
	}()
	v = g.Check(ctx, c)
	switch {
	case v.Decision > Deny:
		return Fault(CauseUnknownVerdict, v.Decision.String())
	case v.Decision == Pass:
		v.Cause = ""
	case v.Cause == "":
		v.Cause = CausePolicy
	}
	v.Reason = ClipReason(v.Reason)
	return v
}

func ctxCause(ctx context.Context) Cause {
	if ctx.Err() == context.DeadlineExceeded {
		return CauseDeadline
	}
	return CauseCanceled
}

// ClipReason cuts s to [MaxReason] characters of valid UTF-8.
func ClipReason(s string) string {
	if len(s) <= MaxReason && utf8.ValidString(s) {
		return s
	}
	n := 0
	for i := range s {
		if n == MaxReason {
			s = s[:i]
			break
		}
		n++
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func isObject(raw json.RawMessage) bool {
	if len(raw) == 0 {
		return true // the document then has {}
	}
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && json.Valid(raw)
}
