//go:build linux && (amd64 || arm64)

package run_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// What the runner is to cover may vanish between the moment it was looked at and
// the moment it is covered: a socket whose server ends, a file that a program
// replaces. The runner then fails, and is started anew without it.
func TestVanished(t *testing.T) {
	bwrap := realBwrap(t)
	for _, c := range []struct {
		name   string
		times  int    // how often it vanishes in time
		back   string // "yes" if it comes back before anyone looks why
		stdin  string
		want   bool // that the command runs
		starts int  // of the runner, without the probe's
	}{
		{"never", 0, "", "", true, 1},
		{"once", 1, "", "", true, 2},
		{"once, and comes back", 1, "yes", "", true, 2},
		{"nine times", 9, "", "", true, 10},
		{"always", 99, "", "", false, 10},
		{"once, with input that can't be given again", 1, "", "input", false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newField(t)
			base := filepath.Dir(f.workspace)
			place, log, runner := filepath.Join(base, "place"), filepath.Join(base, "log"), filepath.Join(base, "runner")
			f.write(runner, "#!/bin/sh\n"+
				"n=$(wc -l < "+log+")\n"+
				"echo >> "+log+"\n"+
				"if test $n -ge 1 -a $n -le $TIMES; then rm -f "+place+"; fi\n"+
				bwrap+" \"$@\"\n"+
				"code=$?\n"+
				"if test -n \"$BACK\"; then echo it is back > "+place+"; fi\n"+
				"exit $code\n")
			if err := os.Chmod(runner, 0o755); err != nil {
				t.Fatal(err)
			}
			f.write(log, "") // its first line is the probe's
			t.Setenv("TIMES", strconv.Itoa(c.times))
			f.policy.Masks = append(f.policy.Masks, place)
			t.Setenv("BACK", c.back)
			f.policy.Env.Keep = append(f.policy.Env.Keep, "TIMES", "BACK")
			chain := confine.New(confine.Options{Self: true, Runner: []string{runner}, Homes: func() []string {
				f.write(place, "it is back") // asked before each look at the machine
				return nil
			}})
			var stdout, stderr bytes.Buffer
			var prepared int
			o := run.Options{Stdout: &stdout, Stderr: &stderr, Prepared: func(p confine.Prepared) {
				prepared++
				if p.Enforcement.Runner != "bubblewrap" {
					machine.Lacks(t, "bubblewrap", "bubblewrap does not work here: %+v", p.Enforcement.Passed)
				}
			}}
			if c.stdin != "" {
				o.Stdin = strings.NewReader(c.stdin)
			}
			result, err := run.Do(context.Background(), chain, []string{"echo", "it ran"}, f.policy, o)
			if lines := strings.Count(f.read(log), "\n") - 1; lines != c.starts || prepared != c.starts {
				t.Errorf("started %d times and prepared %d times, want %d", lines, prepared, c.starts)
			}
			if c.want {
				if err != nil || result.ExitCode != 0 || stdout.String() != "it ran\n" || stderr.Len() > 0 {
					t.Errorf("%+v, %v; it said %q, and %q on stderr", result, err, stdout.String(), stderr.String())
				}
				return
			}
			var failure *run.Failure
			if !errors.As(err, &failure) || !failure.Stale || !strings.Contains(failure.Said, place) {
				t.Fatalf("got %v (%+v), want the failure of a runner whose profile is stale", err, failure)
			}
			if stdout.Len() > 0 || stderr.String() != failure.Said {
				t.Errorf("%q on stdout, and %q on stderr: want what the last runner said, %q", stdout.String(), stderr.String(), failure.Said)
			}
		})
	}
}

// A runner that fails with everything in its place is started once.
func TestFailedNotStale(t *testing.T) {
	bwrap := realBwrap(t)
	f := newField(t)
	base := filepath.Dir(f.workspace)
	log, runner := filepath.Join(base, "log"), filepath.Join(base, "runner")
	f.write(runner, "#!/bin/sh\necho >> "+log+"\ntest $(wc -l < "+log+") = 1 && exec "+bwrap+" \"$@\"\necho out of order >&2\n")
	if err := os.Chmod(runner, 0o755); err != nil {
		t.Fatal(err)
	}
	chain := confine.New(confine.Options{Self: true, Runner: []string{runner}})
	var stderr bytes.Buffer
	_, err := run.Do(context.Background(), chain, []string{"true"}, f.policy, run.Options{Stderr: &stderr})
	var failure *run.Failure
	if !errors.As(err, &failure) || failure.Stale || failure.Said != "out of order\n" || stderr.String() != failure.Said {
		t.Errorf("got %v (%+v), %q on stderr", err, failure, stderr.String())
	}
	if n := strings.Count(f.read(log), "\n"); n != 2 {
		t.Errorf("the runner was started %d times", n)
	}
}

// What was moved away after a try that failed is told, too.
func TestHeldOfAllTries(t *testing.T) {
	bwrap := realBwrap(t)
	f := newField(t)
	base := filepath.Dir(f.workspace)
	place, log, runner := filepath.Join(base, "place"), filepath.Join(base, "log"), filepath.Join(base, "runner")
	f.write(runner, "#!/bin/sh\necho >> "+log+"\nif test $(wc -l < "+log+") = 2; then rm "+place+"; echo x > "+f.workspace+"/.envrc; fi\nexec "+bwrap+" \"$@\"\n")
	if err := os.Chmod(runner, 0o755); err != nil {
		t.Fatal(err)
	}
	f.write(place, "")
	f.policy.Masks = append(f.policy.Masks, place)
	chain := confine.New(confine.Options{Self: true, Runner: []string{runner}})
	got, err := run.Do(context.Background(), chain, []string{"true"}, f.policy, run.Options{})
	if err != nil || len(got.Held) != 1 || filepath.Base(got.Held[0].Path) != ".envrc" {
		t.Errorf("%+v, %v, want .envrc among what was held", got, err)
	}
	if n := strings.Count(f.read(log), "\n"); n != 3 { // the probe's is the first
		t.Errorf("the runner was started %d times", n)
	}
}

// A runner may say as much as it likes before the command runs, and what the
// command says comes behind that.
func TestRunnerSaysMuch(t *testing.T) {
	bwrap := realBwrap(t)
	for _, c := range []struct {
		name  string
		bytes int
	}{
		{"nothing", 0},
		{"a line", 80},
		{"more than a pipe holds", 300_000},
		{"nearly all that is held", 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newField(t)
			runner := filepath.Join(filepath.Dir(f.workspace), "runner")
			f.write(runner, "#!/bin/sh\nhead -c "+strconv.Itoa(c.bytes)+" /dev/zero | tr '\\0' x >&2\nexec "+bwrap+" \"$@\"\n")
			if err := os.Chmod(runner, 0o755); err != nil {
				t.Fatal(err)
			}
			chain := confine.New(confine.Options{Self: true, Runner: []string{runner}})
			var stderr bytes.Buffer
			got, err := run.Do(context.Background(), chain, []string{"sh", "-c", "echo command >&2; exit 7"}, f.policy, run.Options{Stderr: &stderr})
			if want := strings.Repeat("x", c.bytes) + "command\n"; err != nil || got.ExitCode != 7 || stderr.String() != want {
				t.Errorf("%+v, %v; %d bytes on stderr, want %d", got, err, stderr.Len(), len(want))
			}
		})
	}
}

// realBwrap is bwrap, on a machine where it confines.
func realBwrap(t *testing.T) string {
	t.Helper()
	p, err := confine.New(confine.Options{Self: true}).Confine([]string{"true"}, newField(t).policy)
	if err != nil {
		machine.Lacks(t, "bubblewrap", "nothing confines here: %v", err)
	}
	defer p.Close()
	if p.Enforcement.Runner != "bubblewrap" {
		machine.Lacks(t, "bubblewrap", "bubblewrap does not work here: %+v", p.Enforcement.Passed)
	}
	return p.Argv[0]
}
