//go:build linux && (amd64 || arm64)

package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// A sandbox that turns out to hold less, or more, than it should runs nothing.
// The claims are turned round here instead of the sandbox: what the launcher is
// told about a place is not so.
func TestCheck(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		readable := filepath.Join(f.workspace, "readable")
		f.write(readable, "anybody's")
		for _, c := range []struct {
			name  string
			claim func(*confine.CheckSpec)
			want  string // "" if it runs
		}{
			{"as it is", func(*confine.CheckSpec) {}, ""},
			{"a place outside can be written", func(c *confine.CheckSpec) { c.Outside = f.workspace }, "outside of every grant"},
			{"a place inside can't", func(c *confine.CheckSpec) { c.Temp = f.outside }, "which the policy allows"},
			{"a root is not there", func(c *confine.CheckSpec) { c.Inside = []string{f.outside + "/missing"} }, "which the policy allows"},
			{"a covered file is readable", func(c *confine.CheckSpec) { c.Covered = []string{readable} }, "should be covered"},
			{"a covered directory shows a file", func(c *confine.CheckSpec) { c.Covered = []string{f.workspace} }, "should be covered"},
		} {
			t.Run(c.name, func(t *testing.T) {
				p, err := f.chain.Confine([]string{"touch", "ran"}, f.policy)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				var spec confine.LaunchSpec
				if err := json.Unmarshal(p.Instructions, &spec); err != nil {
					t.Fatal(err)
				}
				if spec.Check.Outside == "" || len(spec.Check.Inside) == 0 || len(spec.Check.Covered) == 0 {
					t.Fatalf("there is little to check: %+v", spec.Check)
				}
				c.claim(&spec.Check)
				if p.Instructions, err = json.Marshal(spec); err != nil {
					t.Fatal(err)
				}
				_, err = run.Run(context.Background(), p, run.Options{})
				if c.want == "" {
					if err != nil {
						t.Error(err)
					}
					if err := os.Remove(filepath.Join(f.workspace, "ran")); err != nil {
						t.Error(err)
					}
				} else {
					var failure *run.Failure
					if !errors.As(err, &failure) || !strings.Contains(failure.Reason, c.want) {
						t.Errorf("got %v, want a failure with %q", err, c.want)
					}
				}
				names, _ := os.ReadDir(f.workspace)
				for _, n := range names {
					if n.Name() != "readable" {
						t.Errorf("%s was left in the workspace", n.Name())
					}
				}
			})
		}
	})
}

// A read-only policy has nothing to be written but its temporary directory.
func TestCheckReadOnly(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		f.policy.Mode = confine.ReadOnly
		p, err := f.chain.Confine([]string{"true"}, f.policy)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var spec confine.LaunchSpec
		if err := json.Unmarshal(p.Instructions, &spec); err != nil {
			t.Fatal(err)
		}
		if c := spec.Check; c.Outside == "" || len(c.Inside) != 0 || c.Temp == "" || len(c.Covered) == 0 {
			t.Errorf("it checks %+v", c)
		}
	})
}

// An attempt is held to what a proven command is, and says what the command says.
func TestAttempt(t *testing.T) {
	f := newField(t)
	proven, err := confine.New(confine.Options{Self: true}).Confine([]string{"true"}, f.policy)
	if err != nil {
		machine.Lacks(t, "bubblewrap", "nothing confines here: %v", err)
	}
	defer proven.Close()
	if proven.Enforcement.Level != confine.Full {
		machine.Lacks(t, "bubblewrap", "commands are not fully confined here: %+v", proven.Enforcement)
	}
	p, err := confine.New(confine.Options{Self: true}).Attempt([]string{"sh", "-c", "echo said >&2; touch inside; touch " + f.outside + "/made"}, f.policy)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !p.Unproven() || p.Enforcement.Level != confine.Full || p.Enforcement.Runner != proven.Enforcement.Runner {
		t.Errorf("unproven %v, %+v; a probe says %+v", p.Unproven(), p.Enforcement, proven.Enforcement)
	}
	if _, err := run.Run(context.Background(), p, run.Options{Stdin: strings.NewReader("lost")}); err == nil {
		t.Error("input was taken that another attempt would miss")
	}
	var stderr bytes.Buffer
	r, err := run.Run(context.Background(), p, run.Options{Stderr: &stderr})
	if err != nil || r.ExitCode != 1 || !strings.HasPrefix(stderr.String(), "said\n") {
		t.Errorf("%+v, %v, %q", r, err, stderr.String())
	}
	if _, err := os.Lstat(filepath.Join(f.workspace, "inside")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(f.outside, "made")); err == nil {
		t.Error("it wrote outside")
	}
}

// A runner that fails at an attempt runs nothing and says nothing; then the
// probes decide.
func TestFailedAttempt(t *testing.T) {
	if os.Geteuid() != 0 {
		machine.Lacks(t, machine.Root, "only root's own bwrap is taken from a path")
	}
	f := newField(t)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "bwrap"), []byte("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	chain := confine.New(confine.Options{Self: true, Path: bin})
	p, err := chain.Attempt([]string{"touch", "ran"}, f.policy)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var stderr bytes.Buffer
	_, err = run.Run(context.Background(), p, run.Options{Stderr: &stderr})
	var failure *run.Failure
	if !p.Unproven() || !errors.As(err, &failure) || stderr.Len() > 0 {
		t.Errorf("unproven %v, %v, %q", p.Unproven(), err, stderr.String())
	}
	if _, err := os.Lstat(filepath.Join(f.workspace, "ran")); err == nil {
		t.Error("the command ran")
	}
	next, err := chain.Confine([]string{"touch", "ran"}, f.policy)
	if err != nil {
		machine.Lacks(t, "landlock", "Landlock does not work here: %v", err)
	}
	defer next.Close()
	if next.Unproven() || next.Enforcement.Runner != "landlock" || len(next.Enforcement.Passed) != 1 {
		t.Errorf("unproven %v, %+v", next.Unproven(), next.Enforcement)
	}
	again, err := chain.Attempt([]string{"touch", "ran"}, f.policy)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Unproven() || again.Enforcement.Runner != "landlock" {
		t.Errorf("what is known by now is attempted again: %+v", again.Enforcement)
	}
}

// A runner that nothing is known of gets a limited time until the command runs:
// one that hangs is ended, and is a failure that something else may follow.
func TestAttemptThatHangs(t *testing.T) {
	f := newField(t)
	launcher := filepath.Join(filepath.Dir(f.workspace), "launcher")
	f.write(launcher, "#!/bin/sh\nexec sleep 1000\n")
	if err := os.Chmod(launcher, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := confine.New(confine.Options{Launcher: launcher}).Attempt([]string{"touch", "ran"}, f.policy)
	if err != nil || !p.Unproven() {
		machine.Lacks(t, "bubblewrap", "nothing is attempted here: %v", err)
	}
	defer p.Close()
	over := make(chan time.Time, 1)
	over <- time.Time{}
	run.ReadyWhen(t, over)
	_, err = run.Run(context.Background(), p, run.Options{})
	var failure *run.Failure
	if !errors.As(err, &failure) {
		t.Errorf("got %v, want a failure", err)
	}
	if _, err := os.Lstat(filepath.Join(f.workspace, "ran")); err == nil {
		t.Error("the command ran")
	}
}

// The command itself may take longer than that.
func TestAttemptOfLongCommand(t *testing.T) {
	f := newField(t)
	proven, err := confine.New(confine.Options{Self: true}).Confine([]string{"true"}, f.policy)
	if err != nil || proven.Enforcement.Level != confine.Full {
		machine.Lacks(t, "bubblewrap", "commands are not fully confined here: %+v, %v", proven.Enforcement, err)
	}
	proven.Close()
	p, err := confine.New(confine.Options{Self: true}).Attempt([]string{"sh", "-c", "echo up >&2; read line; exit 7"}, f.policy)
	if err != nil || !p.Unproven() {
		t.Fatalf("it is not attempted: %v", err)
	}
	defer p.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	over := make(chan time.Time)
	run.ReadyWhen(t, over)
	// What comes on stderr comes once it is known that the command runs.
	up := writes(func(text string) {
		over <- time.Time{} // is taken at once, and not again
		w.WriteString("line\n")
	})
	got, err := run.Run(context.Background(), p, run.Options{Stdin: r, Stderr: up})
	if err != nil || got.ExitCode != 7 {
		t.Errorf("%+v, %v, want exit code 7", got, err)
	}
}

// writes is a writer that calls itself.
type writes func(string)

func (w writes) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }
