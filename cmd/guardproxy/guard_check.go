package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/conformance"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/config"
)

type guardTestCmd struct {
	moduleArg
	Cases    string        `arg:"" type:"path" help:"A file of cases, one JSON object a line."`
	Deadline time.Duration `default:"250ms" placeholder:"D" help:"What one call may take, as wasm.deadline in the configuration. Default: ${default}."`
	Fuel     config.Fuel   `default:"100M" placeholder:"F" help:"What one call may burn, as wasm.fuel in the configuration. Default: ${default}."`
	Within   time.Duration `default:"5s" placeholder:"D" help:"What all calls together may take. Default: ${default}."`
	JSON     bool          `name:"json" help:"Print one JSON object instead of the table, see above."`
}

func (guardTestCmd) Help() string {
	return `Five checks, with each case's call as the proxy would give it to the guard:

  cases      the verdict and the reason that each case asks for
  repeat     the same again
  spellings  the same for every spelling of the arguments: escapes, order, space
  hostile    a verdict for inputs that nobody thinks of, empty, huge, deep, broken
  state      the same after all of that, in the opposite order

A case is one line:

  {"name":"plain", "call":{"name":"bash","arguments":{"command":"rm -rf /"}},
   "session":{"workspace":"/work"}, "config":{}, "want":"deny", "reason":"root"}

want is pass, deny or ask; reason is a part of the guard's reason. session may
have id, mode, approval, workspace, turn, calls and index; call may have id and
kind (shell, write, read, code, other), which overrides what the catalogue says
of the tool's name. An unknown member is an error.

It stops at the first call at which the guard breaks (traps, runs out of fuel,
time or memory, exits, gives no verdict): denying is an answer, breaking is not.

--json prints ok, guard, sha256, bytes, checks (name, made, failed), failures
(check, case, line, want, got, detail) and, if it ended early, stopped.

Exit codes: 0 all checks passed, 1 one failed, 2 usage, 3 a module that is
refused (the reason is on stderr) or cases that can't be read (or Ctrl-C).`
}

func readCases(path string) ([]conformance.Case, error) {
	file, _, err := readRegular(path)
	if err != nil {
		return nil, withCode(exitInput, withHint(err, "name a file of cases, one JSON object a line: guardproxy guard new writes some"))
	}
	cases, err := conformance.Parse(file)
	if err != nil {
		return nil, withCode(exitInput, fmt.Errorf("%s: %w", path, err))
	}
	return cases, nil
}

// testReport is the JSON of --json.
type testReport struct {
	Guard  string `json:"guard"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
	*conformance.Report
}

func (c *guardTestCmd) Run(ctx context.Context, std stdio) error {
	m, err := c.read()
	if err != nil {
		return err
	}
	cases, err := readCases(c.Cases)
	if err != nil {
		return err
	}
	loaded := map[string]*wasm.Guard{}
	defer func() {
		for _, g := range loaded {
			g.Close()
		}
	}()
	load := func(config json.RawMessage) (guards.Guard, error) {
		if g := loaded[string(config)]; g != nil {
			return g, nil
		}
		g, err := wasm.Load(ctx, m.bytes, wasm.Options{Name: m.name, Config: config, Deadline: c.Deadline, Fuel: int64(c.Fuel), CacheDir: cacheDir()})
		if err != nil {
			return nil, err
		}
		loaded[string(config)] = g
		return g, nil
	}
	// Loading has limits of its own, and the code is then in the cache.
	if _, err := load(cases[0].Config); err != nil {
		return refused(ctx, err)
	}
	timed, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	r, err := conformance.Run(timed, load, cases)
	if err != nil {
		return refused(ctx, err)
	}
	if ctx.Err() != nil {
		return withCode(exitInput, errInterrupted)
	}
	report := testReport{m.name, m.sha256(), len(m.bytes), r}
	if c.JSON {
		err = printJSON(std.out, report)
	} else {
		err = c.table(std, report)
	}
	if err == nil && !r.OK {
		err = withCode(exitFound, nil)
	}
	return err
}

// table is the report for people.
func (c *guardTestCmd) table(std stdio, r testReport) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "guard %s, %d bytes, sha256 %s\n\n", r.Guard, r.Bytes, r.SHA256[:16])
	for _, k := range r.Checks {
		verdict := "ok"
		switch {
		case k.Failed > 0:
			verdict = "FAILED " + fmt.Sprint(k.Failed)
		case k.Made == 0:
			verdict = "not reached"
		}
		fmt.Fprintf(&b, "  %-10s %6d  %s\n", k.Name, k.Made, verdict)
	}
	for _, f := range r.Failures {
		where := f.Case
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d: %s", c.Cases, f.Line, f.Case)
		}
		fmt.Fprintf(&b, "\n%s: %s\n  want %s\n  got  %s\n", f.Check, shown(where), shown(f.Want), shown(f.Got))
		if f.Detail != "" {
			fmt.Fprintf(&b, "  %s\n", shown(f.Detail))
		}
	}
	if r.Stopped != "" {
		fmt.Fprintf(&b, "\nstopped: %s\n", shown(r.Stopped))
	}
	if r.OK {
		b.WriteString("\nall checks passed\n")
	}
	_, err := std.out.Write(b.Bytes())
	return err
}

// shown is text of a guard's or a case's for a terminal: its controls have no
// effect there.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}
