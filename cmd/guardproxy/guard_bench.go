package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/conformance"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

type guardBenchCmd struct {
	moduleArg
	Cases string `arg:"" type:"path" help:"A file of cases, as for guard test."`
	Calls int    `default:"2000" placeholder:"N" help:"How many calls are measured, a tenth as many in fresh instances. Default: ${default}."`
	JSON  bool   `name:"json" help:"Print one JSON object instead of the table, see above."`
}

func (guardBenchCmd) Help() string {
	return `Judges the calls of the cases in turn, one at a time, as serve does: in an
instance that is used again and put back to its first state after each call.
Beside it, in the same run, every tenth call is judged in a fresh instance of
the same metered module; the ratio of the two says what putting back saves, and
depends far less on the machine than the times.

--json prints guard, sha256, calls, p50_us, p90_us and p99_us (of a call, put
back included), fresh_calls, fresh_p50_us, and ratio (p50_us / fresh_p50_us).

Exit codes: 0 measured, 1 the guard broke, 2 usage, 3 a module that is refused or
cases that can't be read.`
}

// benched is the JSON of --json. Times are microseconds.
type benched struct {
	Guard      string  `json:"guard"`
	SHA256     string  `json:"sha256"`
	Calls      int     `json:"calls"`
	P50        float64 `json:"p50_us"`
	P90        float64 `json:"p90_us"`
	P99        float64 `json:"p99_us"`
	FreshCalls int     `json:"fresh_calls"`
	FreshP50   float64 `json:"fresh_p50_us"`
	Ratio      float64 `json:"ratio"`
}

func (c *guardBenchCmd) Run(ctx context.Context, std stdio) error {
	if c.Calls < 10 || c.Calls > 10_000_000 {
		return withCode(exitUsage, withHint(fmt.Errorf("guard bench: --calls %d is not between 10 and 10000000", c.Calls), "leave it out to get 2000"))
	}
	m, err := c.read()
	if err != nil {
		return err
	}
	cases, err := readCases(c.Cases)
	if err != nil {
		return err
	}
	pair := map[string][2]*wasm.Guard{}
	defer func() {
		for _, p := range pair {
			p[0].Close()
			p[1].Close()
		}
	}()
	type measured struct {
		by   [2]*wasm.Guard
		call *guards.Call
	}
	var calls []measured
	for i := range cases {
		k := &cases[i]
		call, ok := k.Judged()
		if !ok {
			continue
		}
		p, ok := pair[string(k.Config)]
		if !ok {
			for n := range p {
				o := wasm.Options{Name: m.name, Config: k.Config, CacheDir: cacheDir(), Fresh: n == 1}
				if p[n], err = wasm.Load(ctx, m.bytes, o); err != nil {
					if n == 1 {
						p[0].Close()
					}
					return refused(ctx, fmt.Errorf("case %q: %w", k.Name, err))
				}
			}
			pair[string(k.Config)] = p
		}
		calls = append(calls, measured{p, call})
	}
	if len(calls) == 0 {
		return withCode(exitInput, fmt.Errorf("%s: the proxy refuses every one of these calls before any guard", c.Cases))
	}
	times := [2][]time.Duration{}
	for i := range c.Calls + len(calls) {
		k := calls[i%len(calls)]
		for n := range times {
			if n == 1 && i%10 != 0 {
				continue
			}
			start := time.Now()
			v := k.by[n].Check(ctx, k.call)
			took := time.Since(start)
			if ctx.Err() != nil {
				return withCode(exitInput, errInterrupted)
			}
			if conformance.Broken(v) {
				return fmt.Errorf("the guard broke: %s: %s", v.Cause, shown(v.Detail))
			}
			if i >= len(calls) { // once around for warmth
				times[n] = append(times[n], took)
			}
		}
	}
	at := func(n int, part float64) float64 {
		t := times[n]
		if len(t) == 0 {
			return 0
		}
		return float64(t[int(part*float64(len(t)-1))].Nanoseconds()) / 1000
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	r := benched{m.name, m.sha256(), len(times[0]), at(0, 0.5), at(0, 0.9), at(0, 0.99), len(times[1]), at(1, 0.5), 0}
	if r.FreshP50 > 0 {
		r.Ratio = r.P50 / r.FreshP50
	}
	if c.JSON {
		return printJSON(std.out, r)
	}
	_, err = fmt.Fprintf(std.out, "guard %s\n\n  put back  %8.1f us  p90 %.1f  p99 %.1f  (%d calls)\n  fresh     %8.1f us  (%d calls)\n  ratio     %8.2f\n",
		r.Guard, r.P50, r.P90, r.P99, r.Calls, r.FreshP50, r.FreshCalls, r.Ratio)
	return err
}
