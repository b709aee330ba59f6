package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/guards"
)

// Names of the checks, in the order in which they are made.
const (
	CheckCases     = "cases"     // the verdict and the reason that each case asks for
	CheckRepeat    = "repeat"    // the same again
	CheckSpellings = "spellings" // the same for other spellings of the arguments
	CheckHostile   = "hostile"   // a verdict for inputs that nobody thinks of
	CheckState     = "state"     // the same after all of that, in the opposite order
)

var checks = []string{CheckCases, CheckRepeat, CheckSpellings, CheckHostile, CheckState}

// Load makes the guard for one configuration (nil for none).
type Load func(config json.RawMessage) (guards.Guard, error)

// Report is the outcome of a run.
type Report struct {
	OK       bool      `json:"ok"`
	Checks   []Check   `json:"checks"`
	Failures []Failure `json:"failures"`
	// Stopped says why the run ended early: a guard broke, or the time was up.
	Stopped string `json:"stopped,omitempty"`
}

// Check counts what was looked at under one name.
type Check struct {
	Name   string `json:"name"`
	Made   int    `json:"made"`
	Failed int    `json:"failed"`
}

// Failure is one thing that is not as it should be.
type Failure struct {
	Check  string `json:"check"`
	Case   string `json:"case"`
	Line   int    `json:"line,omitempty"` // of the file of cases
	Want   string `json:"want"`
	Got    string `json:"got"`
	Detail string `json:"detail,omitempty"`
}

// ErrConfig says that a guard could not be made for the configuration of a
// case. It wraps the error of Load.
type ErrConfig struct {
	Case string
	Err  error
}

func (e *ErrConfig) Error() string { return fmt.Sprintf("case %q: %v", e.Case, e.Err) }
func (e *ErrConfig) Unwrap() error { return e.Err }

// Broken reports whether a verdict is none: the guard failed, rather than said
// no. A call that the host itself refuses to have judged breaks no guard.
func Broken(v guards.Verdict) bool {
	switch v.Cause {
	case "", guards.CausePolicy, guards.CauseInputTooLarge, guards.CauseInputInvalid:
		return false
	}
	return true
}

// Run makes every check. It stops at the first call at which the guard breaks:
// all further ones would say the same, and may take long. The error is an
// *ErrConfig. It may be called for several guards at a time.
func Run(ctx context.Context, load Load, cases []Case) (*Report, error) {
	r := &run{ctx: ctx, load: load, byConfig: map[string]guards.Guard{}, report: &Report{Failures: []Failure{}}}
	for _, name := range checks {
		r.report.Checks = append(r.report.Checks, Check{Name: name})
	}
	err := r.all(cases)
	var stop stopped
	if errors.As(err, &stop) {
		r.report.Stopped = string(stop)
		err = nil
	}
	r.report.OK = err == nil && len(r.report.Failures) == 0 && r.report.Stopped == ""
	return r.report, err
}

// stopped ends a run.
type stopped string

func (s stopped) Error() string { return string(s) }

type run struct {
	ctx      context.Context
	load     Load
	byConfig map[string]guards.Guard
	report   *Report
}

func (r *run) all(cases []Case) error {
	config := cases[0].Config
	cases = slices.DeleteFunc(slices.Clone(cases), func(c Case) bool {
		_, ok := c.Judged()
		if !ok {
			r.count(CheckCases)
			r.fail(Failure{Check: CheckCases, Case: c.Name, Line: c.line, Want: c.Want, Got: "refused before any guard", Detail: "the proxy refuses such arguments of such a tool, so the case tests nothing"})
		}
		return !ok
	})
	first := make([]guards.Verdict, len(cases))
	for i := range cases {
		c := &cases[i]
		v, err := r.judge(CheckCases, c, c.Call.Arguments)
		if err != nil {
			return err
		}
		first[i] = v
		r.expect(c, v)
		again, err := r.judge(CheckRepeat, c, c.Call.Arguments)
		if err != nil {
			return err
		}
		r.same(CheckRepeat, c, "", first[i], again)
		for _, s := range Spellings(c.Call.Arguments) {
			v, err := r.judge(CheckSpellings, c, s.JSON)
			if err != nil {
				return err
			}
			r.same(CheckSpellings, c, s.Name, first[i], v)
		}
	}
	for _, in := range hostile() {
		if err := r.hostile(in, config); err != nil {
			return err
		}
	}
	for i := range slices.Backward(cases) {
		c := &cases[i]
		v, err := r.judge(CheckState, c, c.Call.Arguments)
		if err != nil {
			return err
		}
		r.same(CheckState, c, "after other calls", first[i], v)
	}
	return nil
}

// guard is the guard for a configuration, made once.
func (r *run) guard(c *Case) (guards.Guard, error) {
	key := string(c.Config)
	if g, ok := r.byConfig[key]; ok {
		return g, nil
	}
	g, err := r.load(c.Config)
	if err != nil {
		return nil, &ErrConfig{c.Name, err}
	}
	r.byConfig[key] = g
	return g, nil
}

// judge gives a case's call to the guard, with args for its arguments. A guard
// that breaks is a failure and ends the run.
func (r *run) judge(check string, c *Case, args json.RawMessage) (guards.Verdict, error) {
	g, err := r.guard(c)
	if err != nil {
		return guards.Verdict{}, err
	}
	call, _ := c.judged(args)
	v, err := r.check(g, call)
	if err != nil {
		return v, err
	}
	r.count(check)
	if Broken(v) {
		r.fail(Failure{Check: check, Case: c.Name, Line: c.line, Want: c.Want, Got: "broken: " + string(v.Cause), Detail: valid(v.Detail)})
		return v, stopped("the guard broke at " + c.Name)
	}
	return v, nil
}

// check runs one guard as a chain does, which also makes its verdict
// well-formed.
func (r *run) check(g guards.Guard, call *guards.Call) (guards.Verdict, error) {
	if r.ctx.Err() != nil {
		return guards.Verdict{}, stopped("the time was up")
	}
	v := guards.Chain{{Guard: g}}.Check(r.ctx, call).Verdicts[0]
	if r.ctx.Err() != nil {
		return v, stopped("the time was up")
	}
	return v, nil
}

func (r *run) expect(c *Case, v guards.Verdict) {
	switch {
	case v.Decision.String() != c.Want:
		r.fail(Failure{Check: CheckCases, Case: c.Name, Line: c.line, Want: c.Want, Got: spellOut(v)})
	case !strings.Contains(v.Reason, c.Reason):
		r.fail(Failure{Check: CheckCases, Case: c.Name, Line: c.line, Want: fmt.Sprintf("a reason with %q", c.Reason), Got: spellOut(v)})
	case v.Decision != guards.Pass && v.Cause == guards.CausePolicy && v.Reason == "":
		r.fail(Failure{Check: CheckCases, Case: c.Name, Line: c.line, Want: "a reason", Got: spellOut(v), Detail: "the model needs to read what would be accepted"})
	}
}

// same holds a verdict to the first one. The reason may quote the call, whose
// value is the same in every spelling.
func (r *run) same(check string, c *Case, how string, want, got guards.Verdict) {
	if got.Decision == want.Decision && got.Cause == want.Cause && got.Reason == want.Reason && slices.Equal(got.Notes, want.Notes) {
		return
	}
	r.fail(Failure{Check: check, Case: c.Name, Line: c.line, Want: spellOut(want), Got: spellOut(got), Detail: how})
}

// hostile gives one input to the guard, twice.
func (r *run) hostile(in input, config json.RawMessage) error {
	c := &Case{Name: in.name, Call: in.call, Config: config}
	g, err := r.guard(c)
	if err != nil {
		return err
	}
	call, ok := c.judged(c.Call.Arguments)
	if !ok && !in.raw {
		return nil
	}
	r.count(CheckHostile)
	var verdicts [2]guards.Verdict
	for i := range verdicts {
		if verdicts[i], err = r.check(g, call); err != nil {
			return err
		}
		if v := verdicts[i]; Broken(v) {
			r.fail(Failure{Check: CheckHostile, Case: in.name, Want: "a verdict", Got: "broken: " + string(v.Cause), Detail: valid(v.Detail)})
			return stopped("the guard broke at an input: " + in.name)
		}
	}
	r.same(CheckHostile, c, "asked again", verdicts[0], verdicts[1])
	return nil
}

func (r *run) count(check string) { r.report.Checks[slices.Index(checks, check)].Made++ }

func (r *run) fail(f Failure) {
	r.report.Checks[slices.Index(checks, f.Check)].Failed++
	r.report.Failures = append(r.report.Failures, f)
}

func spellOut(v guards.Verdict) string {
	s := v.Decision.String()
	if v.Cause != "" && v.Cause != guards.CausePolicy {
		s += " (" + string(v.Cause) + ")"
	}
	if v.Reason != "" {
		s += ": " + valid(v.Reason)
	}
	return s
}
