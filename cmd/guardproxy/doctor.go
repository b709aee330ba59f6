package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/internal/config"
	"github.com/guardproxy/guardproxy/internal/spawn"
)

// doctorCmd is guardproxy doctor.
type doctorCmd struct {
	Config string `placeholder:"FILE" help:"Configuration file whose confine.runner is looked at, too."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Help is the long help.
func (doctorCmd) Help() string {
	return `Tries each way of confining a command on this machine, as guardproxy exec would,
and says which one is used, what it does not enforce, and what would improve it.

Exit codes: 0 if commands are fully confined, 1 if partially or not at all, 2 usage,
3 a configuration that can't be used.`
}

// outOfReach is what no setting brings into reach.
var outOfReach = []string{
	"calls that the provider runs itself (web search, code execution on its side, MCP connectors): they never reach the client",
	"clients that parse calls out of prose: text is not judged",
}

// doctorReport is the object of doctor --json. Its members are added to, not
// changed.
type doctorReport struct {
	System      string            `json:"system"`
	UID         int               `json:"uid"`
	Confinement confinementReport `json:"confinement"`
	OutOfReach  []string          `json:"out_of_reach"`
}

type confinementReport struct {
	Enforcement string       `json:"enforcement"` // full, partial or none
	Runner      string       `json:"runner"`
	Launcher    string       `json:"launcher"`
	Separate    bool         `json:"launcher_separate"`
	LandlockABI int          `json:"landlock_abi"`
	Rungs       []rungReport `json:"rungs"`
	Improve     []string     `json:"improve"`
}

type rungReport struct {
	Runner      string   `json:"runner"`
	State       string   `json:"state"` // used, works or unavailable
	Enforcement string   `json:"enforcement,omitempty"`
	NotEnforced []string `json:"not_enforced"`
	Reason      string   `json:"reason,omitempty"`
	Improve     []string `json:"improve"`
}

// Run is the verb.
func (c *doctorCmd) Run(io stdio) error {
	var runner []string
	if c.Config != "" {
		cfg, err := config.Load(c.Config)
		if err != nil {
			return withCode(exitInput, fmt.Errorf("doctor: %w", err))
		}
		runner = cfg.Confine.Runner
	}
	d := spawn.Chain(runner).Diagnose()
	report := doctorReport{
		System: runtime.GOOS + "/" + runtime.GOARCH, UID: os.Getuid(), OutOfReach: outOfReach,
		Confinement: confinementReport{Enforcement: "none", Runner: d.Runner, Launcher: d.Launcher, Separate: d.Separate,
			LandlockABI: d.Landlock, Rungs: []rungReport{}, Improve: filled(d.Improve)},
	}
	if d.Level != "" {
		report.Confinement.Enforcement = string(d.Level)
	}
	for _, r := range d.Rungs {
		report.Confinement.Rungs = append(report.Confinement.Rungs, rungReport{Runner: r.Runner, State: r.State, Enforcement: string(r.Level),
			NotEnforced: filled(r.Missing), Reason: r.Reason, Improve: filled(r.Improve)})
	}
	if c.JSON {
		e := json.NewEncoder(io.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(report); err != nil {
			return err
		}
	} else {
		report.print(io.out)
	}
	if d.Level != confine.Full {
		return withCode(exitFound, nil)
	}
	return nil
}

// filled is a list without empty texts, never nil: JSON has no null for it.
func filled(list []string) []string {
	out := []string{}
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (r doctorReport) print(w io.Writer) {
	c := r.Confinement
	switch c.Enforcement {
	case "none":
		fmt.Fprintln(w, "confinement: none; guardproxy exec runs nothing here")
	default:
		fmt.Fprintf(w, "confinement: %s, by %s\n", c.Enforcement, c.Runner)
	}
	for _, rung := range c.Rungs {
		fmt.Fprintf(w, "  %s: %s", rung.Runner, rung.State)
		if rung.Enforcement != "" {
			fmt.Fprintf(w, ", %s", rung.Enforcement)
		}
		if rung.Reason != "" {
			fmt.Fprintf(w, ": %s", rung.Reason)
		}
		fmt.Fprintln(w)
		for _, m := range rung.NotEnforced {
			fmt.Fprintf(w, "    not enforced: %s\n", m)
		}
	}
	switch {
	case c.Launcher == "":
	case c.Separate:
		fmt.Fprintf(w, "  launcher: %s\n", c.Launcher)
	default:
		fmt.Fprintf(w, "  launcher: guardproxy itself, which starts slower\n")
	}
	if runtime.GOOS == "linux" {
		fmt.Fprintf(w, "  landlock abi: %d\n", c.LandlockABI)
	}
	for _, i := range c.Improve {
		fmt.Fprintf(w, "to improve: %s\n", i)
	}
	for _, o := range r.OutOfReach {
		fmt.Fprintf(w, "out of reach: %s\n", o)
	}
}
