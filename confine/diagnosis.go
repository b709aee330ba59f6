package confine

import (
	"os"
	"path/filepath"
	"slices"
)

// Diagnosis is what this machine can confine a command with.
type Diagnosis struct {
	// Level and Runner are those of the rung that is used, "" if none works.
	Level  Level
	Runner string
	// Launcher is the launcher's path, "" if there is none. Separate says that
	// it is the small program, not this one re-executed, which starts slower.
	Launcher string
	Separate bool
	// Landlock is the ABI that the kernel enforces, 0 for none.
	Landlock int
	Rungs    []RungState // in order of preference
	// Improve are commands, or other advice, that would give a better rung or
	// a more complete one.
	Improve []string
}

// RungState is what one rung can do here.
type RungState struct {
	Runner string
	// State is "used", "works" (a better one does, too), or "unavailable".
	State   string
	Level   Level    // "" if it is unavailable
	Missing []string // what it does not enforce
	Reason  string   // why it is unavailable
	Improve []string
}

// Diagnose probes every rung, not only up to the first that works. It makes a
// directory for the probes and removes it.
func (c *Chain) Diagnose() Diagnosis {
	var d Diagnosis
	if launcher, err := c.opts.launcher(); err == nil {
		d.Launcher = launcher
		d.Separate = filepath.Base(launcher) == LauncherName
	}
	d.Landlock, d.Rungs = diagnose(c.opts)
	for i := range d.Rungs {
		r := &d.Rungs[i]
		switch {
		case r.Level == "":
			r.State = "unavailable"
		case d.Runner == "":
			r.State = "used"
			d.Runner, d.Level = r.Runner, r.Level
			d.Improve = append(d.Improve, r.Improve...)
		default:
			r.State = "works"
		}
		if d.Runner == "" {
			d.Improve = append(d.Improve, r.Improve...)
		}
	}
	if d.Launcher == "" || !d.Separate {
		d.Improve = append(d.Improve, "install "+LauncherName+" beside guardproxy, for commands that start faster: go install github.com/guardproxy/guardproxy/cmd/"+LauncherName+"@latest")
	}
	d.Improve = slices.DeleteFunc(d.Improve, func(s string) bool { return s == "" })
	return d
}

// sample is the policy that a rung's completeness is told by.
func sample() (Policy, func(), error) {
	dir, err := os.MkdirTemp("", "guardproxy-doctor-")
	if err != nil {
		return Policy{}, nil, err
	}
	return Policy{Mode: WorkspaceWrite, Workspace: resolved(dir)}, func() { os.RemoveAll(dir) }, nil
}

// state is a rung's state, from what its search returned.
func state(runner string, r rung, m *Missing) RungState {
	s := RungState{Runner: runner}
	if m != nil {
		s.Reason, s.Improve = m.Reason, []string{m.Advice}
		return s
	}
	p, done, err := sample()
	if err == nil {
		defer done()
		var prepared Prepared
		if prepared, err = r.prepare([]string{"true"}, p); err == nil {
			defer prepared.Close()
			s.Level, s.Missing = prepared.Enforcement.Level, prepared.Enforcement.Missing
			return s
		}
	}
	s.Reason = err.Error()
	return s
}
