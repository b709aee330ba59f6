//go:build linux && (amd64 || arm64)

package confine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/launch"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// The rung of macOS, on Linux: this test's binary stands in for sandbox-exec and
// for the launcher. What is shown is everything around the profile (pipes, the
// launcher's check, the probe, exit codes), and that nothing runs where the
// profile is not enforced. What the profile means is for a Mac to say.

// standIn says what this binary does as sandbox-exec.
const standIn = "TEST_STAND_IN"

func TestMain(m *testing.M) {
	if launch.Is(os.Args) {
		launch.Main()
	}
	if len(os.Args) > 4 && os.Args[1] == "-p" && os.Args[3] == "--" {
		os.Stderr.WriteString("stand-in: " + sandboxExec(os.Args[2], os.Args[4:]).Error() + "\n")
		os.Exit(71)
	}
	os.Exit(m.Run())
}

// sandboxExec becomes argv as the profile says, as far as bubblewrap can say the
// same of paths that exist: or less than that, by what is in the environment.
func sandboxExec(profile string, argv []string) error {
	how := os.Getenv(standIn)
	if how == "refuse" {
		return errors.New("sandbox_apply: Operation not permitted")
	}
	if how == "ignore" || how == "ignore the command" && !slices.Contains(argv, confine.ProbeArg) {
		return syscall.Exec(argv[0], argv, os.Environ())
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return err
	}
	args := []string{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-net", "--unshare-ipc"}
	var pins, rest []string
	rule := regexp.MustCompile(`^\((allow|deny) (file-read\* )?file-write(?:\*|-unlink) \((?:subpath|literal) "(.*)"\)\)$`)
	for line := range strings.Lines(profile) {
		r := rule.FindStringSubmatch(strings.TrimSpace(line))
		if r == nil {
			continue
		}
		path := r[3]
		st, err := os.Lstat(path)
		switch {
		case err != nil:
		case strings.Contains(line, "unlink"):
			if how != "move" {
				pins = append(pins, "--bind", path, path) // what is a mount can't be moved
			}
		case r[1] == "allow":
			switch {
			case how == "deny all":
			case rest == nil:
				args = append(args, "--bind", path, path)
			default:
				rest = append(rest, "--bind", path, path)
			}
		case r[1] == "deny" && r[2] == "":
			rest = append(rest, "--ro-bind", path, path)
		case how == "show":
		case r[1] == "deny" && st.IsDir():
			rest = append(rest, "--perms", "0111", "--tmpfs", path)
		case r[1] == "deny":
			rest = append(rest, "--ro-bind", os.DevNull, path)
		}
	}
	return syscall.Exec(bwrap, slices.Concat(args, pins, rest, []string{"--"}, argv), os.Environ())
}

// mac is a workspace for commands on a Mac that is none.
type mac struct {
	policy          confine.Policy
	outside, secret string
}

func newMac(t *testing.T, how string) (*confine.Chain, mac) {
	t.Helper()
	machine.Needs(t, "bwrap") // it does the work of the stand-in
	t.Setenv(standIn, how)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := mac{outside: filepath.Join(base, "outside"), secret: filepath.Join(base, "keys")}
	m.policy = confine.Policy{Mode: confine.WorkspaceWrite, Workspace: filepath.Join(base, "project"), Hidden: []string{m.secret}, State: filepath.Join(base, "state")}
	for _, dir := range []string{m.outside, m.secret, m.policy.Workspace, filepath.Join(m.policy.Workspace, ".claude")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(m.secret, "key"), filepath.Join(m.policy.Workspace, ".claude/settings.json")} {
		if err := os.WriteFile(file, []byte("as it was"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return confine.SeatbeltChain(self, self), m
}

func TestSeatbeltFlow(t *testing.T) {
	chain, m := newMac(t, "")
	t.Setenv("SOME_TOKEN", "x")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	for _, c := range []struct {
		name   string
		script string
		argv   []string // instead of the script
		mode   confine.Mode
		code   int
		out    string
	}{
		{name: "its exit code", script: "exit 7", code: 7},
		{name: "a signal that ends it", script: "kill -9 $$", code: 128 + 9},
		{name: "what is not there", argv: []string{"no-such-program"}, code: 127},
		{name: "what can't be executed", argv: []string{"/etc/passwd"}, code: 126},
		{name: "the workspace is where it starts", script: "pwd", out: m.policy.Workspace},
		{name: "a write in it", script: "echo x > made && cat made", out: "x"},
		{name: "in read-only, none", script: "echo x > made", mode: confine.ReadOnly, code: 2},
		{name: "a write outside", script: "echo x > " + m.outside + "/made", code: 2},
		{name: "a directory of its own", script: `echo x > "$TMPDIR/made" && cat "$TMPDIR/made"`, out: "x"},
		{name: "in read-only, too", script: `echo x > "$TMPDIR/made" && cat "$TMPDIR/made"`, mode: confine.ReadOnly, out: "x"},
		{name: "a secret", script: "cat " + m.secret + "/key", code: 1},
		{name: "a guarded place", script: "echo x > .claude/settings.json", code: 2},
		{name: "variables with secrets", script: `echo "$SOME_TOKEN"`},
		{name: "the language of messages", script: `echo "$LANG $LC_MESSAGES"`, out: "de_DE.UTF-8 C"},
		{name: "descriptors", script: `for f in /proc/$$/fd/*; do if readlink $f >/dev/null; then printf %s ${f##*/}; fi; done`, out: "012"},
		{name: "a core dump's size", script: "ulimit -c", out: "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, argv := m.policy, c.argv
			if c.mode != "" {
				p.Mode = c.mode
			}
			if argv == nil {
				argv = []string{"/bin/sh", "-c", c.script}
			}
			var out, errs bytes.Buffer
			result, err := run.Do(context.Background(), chain, argv, p, run.Options{Stdout: &out, Stderr: &errs, Prepared: func(p confine.Prepared) {
				if e := p.Enforcement; e.Level != confine.Partial || len(e.Missing) == 0 || !strings.Contains(strings.Join(e.Missing, "\n"), "environment") || e.Runner != "seatbelt" || !e.OwnFilesMasked || p.Unproven() {
					t.Errorf("prepared as %+v, unproven %v", e, p.Unproven())
				}
			}})
			if err != nil || result.ExitCode != c.code || strings.TrimSpace(out.String()) != c.out {
				t.Errorf("%v, exit code %d, %q, want %d, %q; stderr: %s", err, result.ExitCode, out.String(), c.code, c.out, errs.String())
			}
		})
	}
}

// A session's directory lies in guardproxy's state, of which nothing else can be
// read.
func TestSeatbeltSession(t *testing.T) {
	chain, m := newMac(t, "")
	m.policy.Session, m.policy.Masks = "one", []string{m.policy.State}
	other := filepath.Join(m.policy.State, "log")
	if err := os.MkdirAll(m.policy.State, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, script := range []string{`echo x > "$TMPDIR/kept"`, `cat "$TMPDIR/kept"`, "cat " + other} {
		var out, errs bytes.Buffer
		result, err := run.Do(context.Background(), chain, []string{"/bin/sh", "-c", script}, m.policy, run.Options{Stdout: &out, Stderr: &errs})
		if want := []struct {
			code int
			out  string
		}{{}, {0, "x\n"}, {1, ""}}[i]; err != nil || result.ExitCode != want.code || out.String() != want.out {
			t.Errorf("%s: %v, %d, %q; %s", script, err, result.ExitCode, out.String(), errs.String())
		}
	}
}

// What is made where nothing was, by whatever way the profile did not see, is
// moved away afterwards, and denials are told.
func TestSeatbeltAfterwards(t *testing.T) {
	chain, m := newMac(t, "")
	prepared, err := chain.Confine([]string{"/bin/sh", "-c", "echo run > .envrc; echo x > .claude/settings.json"}, m.policy)
	if err != nil {
		t.Fatal(err)
	}
	defer prepared.Close()
	var errs bytes.Buffer
	result, err := run.Run(context.Background(), prepared, run.Options{Stderr: &errs})
	if err != nil || len(result.Held) != 1 || result.Held[0].Path != filepath.Join(m.policy.Workspace, ".envrc") {
		t.Errorf("%v, held %v", err, result.Held)
	}
	if d := prepared.Classify(confine.Outcome{ExitCode: result.ExitCode, Stderr: errs.String(), Could: confine.Could}); d.Verdict != confine.Denied {
		t.Errorf("%+v of %q", d, errs.String())
	}
	// What could only be denied, without a stand-in that does it: it is named.
	if !strings.Contains(strings.Join(prepared.Argv, " "), `(deny file-write* (subpath "`+filepath.Join(m.policy.Workspace, ".envrc")+`"))`) {
		t.Errorf("the profile does not name it: %q", prepared.Argv)
	}
	d := prepared.Classify(confine.Outcome{ExitCode: 1, Stderr: "sh: .envrc: Operation not permitted", Could: confine.Could})
	if d.Verdict != confine.Denied {
		t.Errorf("a place that does not exist, denied: %+v", d)
	}
}

func TestSeatbeltEnds(t *testing.T) {
	chain, m := newMac(t, "")
	result, err := run.Do(context.Background(), chain, []string{"/bin/sh", "-c", "sleep 1000"}, m.policy, run.Options{Timeout: 100 * time.Millisecond})
	if err != nil || !result.TimedOut || result.ExitCode != 128+15 {
		t.Errorf("%v, %+v", err, result)
	}
}

// A sandbox-exec that does less than its profile says runs nothing.
func TestSeatbeltFailsClosed(t *testing.T) {
	for _, c := range []struct{ name, how, says string }{
		{"one that confines nothing", "ignore", "could be made"},
		{"one that covers nothing", "show", "should be covered"},
		{"one that denies all", "deny all", "denied"},
		{"one that lets directories move", "move", "could be moved"},
		{"one that can't start", "refuse", "sandbox_apply"},
	} {
		t.Run(c.name, func(t *testing.T) {
			chain, m := newMac(t, c.how)
			made := filepath.Join(m.policy.Workspace, "made")
			_, err := run.Do(context.Background(), chain, []string{"/bin/sh", "-c", "echo > " + made}, m.policy, run.Options{})
			var unavailable *confine.Unavailable
			if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want that no rung works, for %q", err, c.says)
			}
			if _, err := os.Lstat(made); err == nil {
				t.Error("the command ran")
			}
		})
	}
	// It has proved itself, and does no more: then each command's own check.
	t.Run("one that stopped confining", func(t *testing.T) {
		chain, m := newMac(t, "ignore the command")
		made := filepath.Join(m.policy.Workspace, "made")
		_, err := run.Do(context.Background(), chain, []string{"/bin/sh", "-c", "echo > " + made}, m.policy, run.Options{})
		var failure *run.Failure
		if !errors.As(err, &failure) || !strings.Contains(err.Error(), "could be made") {
			t.Errorf("got %v, want a failure of the runner", err)
		}
		if _, err := os.Lstat(made); err == nil {
			t.Error("the command ran")
		}
	})
}
