// Package conformance tests guards: whether one is right, and whether it is
// sound.
//
// Right is what its author says: a [Case] is a call, and the verdict that the
// guard is to give. Sound is what every guard has to be, whatever it guards: it
// gives the same verdict when it is asked again, the same verdict however the
// arguments are spelt in JSON, it gives one for every input, and nothing of one
// call is left in the next. [Run] checks all of it.
//
// The package knows no WebAssembly: what judges is a [guards.Guard], made by
// the caller for each configuration that the cases have. It has no clock and no
// files; the caller's context bounds its time.
package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/command"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// Limits of a file of cases.
const (
	MaxFile  = 16 << 20 // bytes
	MaxCases = 10_000
)

// Case is one line of a file of cases: a call, and what is to become of it.
type Case struct {
	Name    string          `json:"name"` // unique in the file
	Call    Call            `json:"call"`
	Session Session         `json:"session"`
	Config  json.RawMessage `json:"config"` // of the guard; {} if absent
	Dialect string          `json:"dialect"`
	Model   string          `json:"model"`
	Want    string          `json:"want"`   // pass, deny or ask
	Reason  string          `json:"reason"` // a part of the guard's reason; "" for any

	line int
}

// Call is the call of a case. What the proxy finds out about a call (its kind,
// the parsed command, the paths) is found out in the same way here.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // one object; {} if absent
	// Kind overrides the catalogue: shell, write, read, code or other.
	Kind string `json:"kind"`
}

// Session is what a case says about the session.
type Session struct {
	ID        string `json:"id"`
	Mode      string `json:"mode"`
	Approval  string `json:"approval"`
	Workspace string `json:"workspace"`
	Turn      int    `json:"turn"`
	Calls     int    `json:"calls"`
	Index     int    `json:"index"`
}

// Error says what is wrong with a file of cases, and where.
type Error struct {
	Line int // from 1; 0 for the whole file
	Err  error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint says how a case looks.
func (e *Error) Hint() string {
	return `one JSON object a line: {"name":"…","call":{"name":"bash","arguments":{"command":"…"}},"want":"deny","reason":"a part of it"}; docs/guard-abi.md has every member`
}

// Parse reads a file of cases, one JSON object a line; empty lines are skipped.
// It is strict: an unknown member, a member that stands twice, a name that
// stands twice and a verdict that is none are errors (*Error). A case that is
// misread would be a test that can't fail.
func Parse(file []byte) ([]Case, error) {
	if len(file) > MaxFile {
		return nil, &Error{0, fmt.Errorf("the file is larger than %d MiB", MaxFile>>20)}
	}
	var cases []Case
	lines := map[string]int{}
	n := 0
	for line := range bytes.Lines(file) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		c, err := parseCase(line)
		if err == nil && lines[c.Name] > 0 {
			err = fmt.Errorf("the name %q is that of line %d", c.Name, lines[c.Name])
		}
		if err == nil && len(cases) == MaxCases {
			err = fmt.Errorf("more than %d cases", MaxCases)
		}
		if err != nil {
			return nil, &Error{n, err}
		}
		c.line = n
		lines[c.Name] = n
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		return nil, &Error{0, errors.New("there is no case in the file")}
	}
	return cases, nil
}

func parseCase(line []byte) (c Case, err error) {
	// encoding/json takes doubled keys and invalid UTF-8.
	var t tape.Tape
	if err := t.Parse(line); err != nil {
		return c, err
	}
	if t.Kind(0) != tape.Object {
		return c, fmt.Errorf("a case is an object, this is %v", t.Kind(0))
	}
	for _, at := range []string{"", "call", "session"} {
		if err := exactKeys(&t, at); err != nil {
			return c, err
		}
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	switch {
	case c.Name == "":
		return c, errors.New("the case has no name")
	case c.Call.Name == "":
		return c, errors.New("call has no name: that of the tool")
	case c.Want != "pass" && c.Want != "deny" && c.Want != "ask":
		return c, fmt.Errorf("want is %q, not pass, deny or ask", c.Want)
	case c.Want == "pass" && c.Reason != "":
		return c, errors.New("a pass has no reason")
	case c.Call.Kind != "" && !agents.Kind(c.Call.Kind).Valid():
		return c, fmt.Errorf("kind is %q, not shell, write, read, code or other", c.Call.Kind)
	case c.Session.Turn < 0 || c.Session.Calls < 0 || c.Session.Index < 0:
		return c, errors.New("a count in session is negative")
	}
	for _, o := range []struct {
		name string
		raw  json.RawMessage
	}{{"call.arguments", c.Call.Arguments}, {"config", c.Config}} {
		if len(o.raw) > 0 && o.raw[0] != '{' {
			return c, fmt.Errorf("%s is not an object", o.name)
		}
	}
	return c, nil
}

// exactKeys holds the members of an object of the case to their spelling, which
// encoding/json does not.
func exactKeys(t *tape.Tape, at string) error {
	o := 0
	if at != "" {
		if o = t.Get(0, at); o < 0 {
			return nil
		}
	}
	if t.Kind(o) != tape.Object {
		return fmt.Errorf("%s is not an object", at)
	}
	for k := o + 1; k < t.After(o); k = t.After(k + 1) {
		if key := t.Str(k); key != strings.ToLower(key) {
			return fmt.Errorf("unknown member %q", key)
		}
	}
	return nil
}

// Judged is the call as the proxy would give it to a guard. It reports false if
// the proxy would refuse the call before: the arguments are not strict JSON, or
// a known tool has its known argument in another type.
func (c *Case) Judged() (*guards.Call, bool) { return c.judged(c.Call.Arguments) }

func (c *Case) judged(args json.RawMessage) (*guards.Call, bool) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	out := &guards.Call{
		ID: c.Call.ID, Name: c.Call.Name, Arguments: args, ArgumentsRaw: string(args), Dialect: c.Dialect, Model: c.Model,
		Session: guards.Session(c.Session),
	}
	var t tape.Tape
	if t.Parse(args) != nil || t.Kind(0) != tape.Object {
		return out, false
	}
	var params []agents.Param
	for k := 1; k < t.After(0); k = t.After(k + 1) {
		if kind := t.Kind(k + 1); kind == tape.String || kind == tape.Array {
			params = append(params, agents.Param{Name: t.Str(k), Text: true})
		}
	}
	table := agents.Builtin()
	if c.Call.Kind != "" {
		table = table.WithKinds(map[string]agents.Kind{c.Call.Name: agents.Kind(c.Call.Kind)})
	}
	tool, known := table.Classify(c.Call.Name, nil, params)
	out.Kind = string(tool.Kind)
	if !known {
		out.Kind = string(agents.Other)
	}
	commands, err := tool.Commands(args)
	if err != nil {
		return out, false
	}
	paths, err := tool.PathsIn(args)
	if err != nil {
		return out, false
	}
	for _, p := range paths {
		out.Paths = append(out.Paths, guards.Path{Path: p.Path, Op: string(p.Op)})
	}
	if tool.Kind == agents.Code {
		// A program in another language is opaque. What the proxy reads of
		// some programs all the same is not read here.
		out.Shell = &guards.Shell{Opaque: true}
	}
	if tool.Kind == agents.Shell {
		out.Shell = &guards.Shell{Opaque: tool.Opaque || len(commands) == 0}
		for _, v := range commands {
			Shell(out, v.Text, v.List)
		}
	}
	return out, true
}

// Shell adds to a shell call what the proxy's reader finds in one command: the
// script, or, if list is not nil, the words. It sets c.Shell if it is nil.
func Shell(c *guards.Call, script string, list []string) {
	p := command.Parse(script)
	if list != nil {
		p = command.FromArgv(list)
	}
	if c.Shell == nil {
		c.Shell = &guards.Shell{}
	}
	c.Shell.Argv = append(c.Shell.Argv, p.Argv...)
	c.Shell.Opaque = c.Shell.Opaque || p.Opaque
	for _, f := range agents.PatchPaths(script + "\n" + strings.Join(list, "\n")) {
		c.Paths = append(c.Paths, guards.Path{Path: f.Path, Op: string(f.Op)})
	}
	for _, f := range p.Files {
		op := "read"
		if f.Write {
			op = "write"
		}
		c.Paths = append(c.Paths, guards.Path{Path: f.Path, Op: op})
	}
}

// valid is text that a report can hold.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
