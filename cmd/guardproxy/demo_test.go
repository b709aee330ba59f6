package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/launch"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/machine"
	"github.com/guardproxy/guardproxy/internal/spawn"
	"github.com/guardproxy/guardproxy/internal/terminal"
)

var updateDemo = flag.Bool("update-demo", false, "write the demo's golden files anew")

// demoInTest is a verb of this test binary: the demo as another user.
const demoInTest = "demo-in-test"

// The demo runs its own executable, which in a test is this test: so the test
// is guardproxy when it is called as guardproxy is.
func init() {
	if launch.Is(os.Args) {
		launch.Main()
	}
	wasm.CompilerMain()
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "exec":
		main()
	case demoInTest:
		os.Exit(report(os.Stderr, (&demoCmd{}).Run(context.Background(), stdio{os.Stdin, os.Stdout, os.Stderr})))
	}
}

// outsideTmp is an empty directory that is not below /tmp, for TMPDIR. The
// test fails if something is left in it.
func outsideTmp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "guardproxy-test-")
	if err != nil {
		machine.Lacks(t, "/var/tmp", "%v", err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("the demo left %v (%v)", left, err)
		}
		os.RemoveAll(dir)
	})
	return dir
}

func testShell(t *testing.T) demoShell {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return execShell(self)
}

// unavailable is what exec --json prints where nothing can confine a command.
func unavailable(context.Context, string, string, string) (demoResult, error) {
	err := &confine.Unavailable{Rungs: []confine.Missing{
		{Runner: "bubblewrap", Reason: "no bwrap in $PATH", Advice: "install bubblewrap"},
		{Runner: "landlock", Reason: "the kernel has no Landlock", Advice: "use Linux 5.13 or later with Landlock enabled"},
	}}
	return demoResult{spawn.Report{Error: "exec: " + err.Error(), Hint: err.Hint()}, true}, nil
}

// withoutBwrap is a PATH with what the story runs, and no bwrap.
func withoutBwrap(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bash", "rm", "cat"} {
		path := machine.Needs(t, name)
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// variable replaces what differs from run to run and from machine to machine.
func variable(out string) string {
	for _, r := range []struct{ from, to string }{
		{`127\.0\.0\.1:\d+`, `127.0.0.1:PORT`},
		{`in \d+\.\d s\.`, `in N s.`},
		{`\(\d+ bytes\)`, `(N bytes)`}, // of a seal, which is compressed
		{`(?s)(enforcement +)\S.*?(\n +In the project)`, `${1}LEVEL${2}`},
	} {
		out = regexp.MustCompile(r.from).ReplaceAllString(out, r.to)
	}
	return out
}

func goldenDemo(t *testing.T, runner, out string) {
	t.Helper()
	name := filepath.Join("testdata", "demo", runner+".golden")
	if *updateDemo {
		if err := os.WriteFile(name, []byte(variable(out)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), variable(out)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	for _, l := range strings.Split(out, "\n") {
		if n := len([]rune(l)); n > 80 {
			t.Errorf("a line of %d columns: %s", n, l)
		}
	}
}

// runnerOf is the runner that a demo's output names, or none.
func runnerOf(out string) string {
	if m := regexp.MustCompile(`\n +confined by +(\S+)`).FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return "none"
}

func TestDemo(t *testing.T) {
	// The guard is compiled once for all of them.
	cache := t.TempDir()
	if err := os.Chmod(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Run("runners", func(t *testing.T) { testDemoRunners(t, cache) })
	t.Run("fails", func(t *testing.T) { testDemoFails(t, cache) })
	t.Run("interrupted", func(t *testing.T) { testDemoInterrupted(t, cache) })
	t.Run("verbose and in colour", func(t *testing.T) { testDemoVerboseAndColour(t, cache) })
}

// Each runner has a golden output: the same steps, checked.
func testDemoRunners(t *testing.T, cache string) {
	for _, c := range []struct {
		runner string
		path   func(*testing.T) string
		shell  func(*testing.T) demoShell
	}{
		{"bubblewrap", nil, testShell},
		{"landlock", withoutBwrap, testShell},
		{"none", nil, func(*testing.T) demoShell { return unavailable }},
	} {
		t.Run(c.runner, func(t *testing.T) {
			t.Setenv("TMPDIR", outsideTmp(t))
			if c.path != nil {
				t.Setenv("PATH", c.path(t))
			}
			var out bytes.Buffer
			if err := runDemo(context.Background(), &out, demoSettings{cache: cache, shell: c.shell(t)}); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			if got := runnerOf(out.String()); got != c.runner {
				if c.runner == "none" {
					t.Fatalf("confined by %s where nothing can", got)
				}
				machine.Lacks(t, c.runner, "it does not work here; it was %s", got)
			}
			goldenDemo(t, c.runner, out.String())
		})
	}
}

// Whoever tests as root tests as an ordinary user, too.
func TestDemoAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		machine.Lacks(t, machine.Root, "to become someone else; the other tests ran as an ordinary user")
	}
	// The test binary may lie where only root comes.
	dir := outsideTmp(t)
	defer os.Remove(filepath.Join(dir, "guardproxy"))
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "guardproxy"), self, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "home"), 0o700)); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	home := filepath.Join(dir, "home")
	defer os.Remove(home)
	if err := os.Chown(home, nobody, nobody); err != nil {
		machine.Lacks(t, machine.Root, "with the right to chown: %v", err)
	}
	for _, c := range []struct {
		name string
		path func(*testing.T) string
	}{
		{"with bwrap", func(*testing.T) string { return os.Getenv("PATH") }},
		{"without bwrap", func(t *testing.T) string {
			path := withoutBwrap(t)
			for _, d := range []string{path, filepath.Dir(path)} {
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			return path
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(filepath.Join(dir, "guardproxy"), demoInTest)
			cmd.Dir = "/"
			cmd.Env = []string{"PATH=" + c.path(t), "HOME=" + home, "TMPDIR=" + home}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			runner := runnerOf(string(out))
			if runner == "none" {
				machine.Lacks(t, "landlock", "an ordinary user can't confine a command here")
			}
			goldenDemo(t, runner, string(out))
			if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
				t.Errorf("the demo left %v (%v)", left, err)
			}
		})
	}
}

// A world in which a promise is broken is not called ok: the demo ends with
// the step's name and with what was expected.
func testDemoFails(t *testing.T, cache string) {
	// honest is a shell that keeps to the story without a sandbox: it takes
	// the place of one, so that each row breaks one thing only.
	honest := func(_ context.Context, workspace, _, command string) (demoResult, error) {
		code, r := 0, demoResult{Report: spawn.Report{Runner: "test", Enforcement: "full"}}
		r.ExitCode = &code
		text, refused := demoRefusal(command)
		switch {
		case refused:
			code, r.Stderr = 126, text+"\n"
		case command == demoInside:
			r.Stdout = "1.4.0\n"
			return r, errors.Join(os.RemoveAll(filepath.Join(workspace, "build")), os.WriteFile(filepath.Join(workspace, "version.txt"), []byte("1.4.0\n"), 0o600))
		default:
			code, r.Stderr = 1, "bash: Read-only file system\n"
		}
		return r, nil
	}
	// on changes what honest does with one command.
	on := func(when string, change func(workspace string, r *demoResult) error) demoShell {
		return func(ctx context.Context, workspace, state, command string) (demoResult, error) {
			r, err := honest(ctx, workspace, state, command)
			_, refused := demoRefusal(command)
			if err == nil && (when == command || when == "refusal" && refused) {
				err = change(workspace, &r)
			}
			return r, err
		}
	}
	seen := 0
	for _, c := range []struct {
		name  string
		shell demoShell
		want  string // "" for success
	}{
		{"nothing", honest, ""},
		{"the refusal is not printed", on("refusal", func(_ string, r *demoResult) error { r.Stderr = ""; return nil }),
			"demo: step 2 (A call that must not run is refused, and the agent goes on): expected exit code 126 and the refusal on stderr, got exit code 126"},
		{"the refusal succeeds", on("refusal", func(_ string, r *demoResult) error { *r.ExitCode = 0; return nil }),
			"demo: step 2 (A call that must not run is refused, and the agent goes on): expected exit code 126"},
		{"the shell can't be started", on("refusal", func(string, *demoResult) error { return errors.New("no such file") }),
			"demo: step 2 (A call that must not run is refused, and the agent goes on): no such file"},
		{"a write in the workspace is lost", on(demoInside, func(ws string, _ *demoResult) error { return os.Remove(filepath.Join(ws, "version.txt")) }),
			"demo: step 3 (A call runs confined, or not at all): expected exit code 0, no build and 1.4.0 in version.txt, got exit code 0"},
		{"a write beside it happens", on(demoBeside, func(ws string, r *demoResult) error {
			return os.WriteFile(filepath.Join(ws, "..", demoOutside), []byte("1.4.0\n"), 0o600)
		}), "demo: step 3 (A call runs confined, or not at all): expected nothing at "},
		{"a write beside it fails for another reason", on(demoBeside, func(_ string, r *demoResult) error { r.Stderr = "bash: disk full"; return nil }),
			"demo: step 3 (A call runs confined, or not at all): expected a write that the kernel denies, got exit code 1 bash: disk full"},
		{"a runner that is there for one of two calls", on(demoBeside, func(ws string, r *demoResult) (err error) {
			*r, err = unavailable(context.Background(), "", "", "")
			return err
		}), "demo: step 3 (A call runs confined, or not at all): expected that no command was run, got exit code 0"},
		{"the second telling only", on("refusal", func(_ string, r *demoResult) error {
			if seen++; seen == 2 {
				*r.ExitCode = 0
			}
			return nil
		}), "demo: step 6 (The same holds over OpenAI Chat Completions): step 2 (A call that must not run is refused, and the agent goes on): expected exit code 126"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", outsideTmp(t))
			var out bytes.Buffer
			err := runDemo(context.Background(), &out, demoSettings{cache: cache, shell: c.shell})
			if c.want == "" {
				if err != nil {
					t.Fatalf("%v\n%s", err, &out)
				}
				return
			}
			var code *terminal.CodeError
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.As(err, &code) || code.Code != exitFound {
				t.Errorf("got  %v\nwant %s…, exit code 1", err, c.want)
			}
			if !strings.Contains(out.String(), "\n--  ") || strings.Contains(out.String(), "steps were checked, in") {
				t.Errorf("the output does not show the failed step:\n%s", &out)
			}
		})
	}
}

// An interrupted demo clears up and says where it was, and so does one whose
// output goes nowhere.
func testDemoInterrupted(t *testing.T, cache string) {
	t.Setenv("TMPDIR", outsideTmp(t))
	ctx, cancel := context.WithCancel(context.Background())
	err := runDemo(ctx, io.Discard, demoSettings{cache: cache, shell: func(ctx context.Context, _, _, _ string) (demoResult, error) {
		cancel()
		return demoResult{}, ctx.Err()
	}})
	if err == nil || err.Error() != "demo: interrupted in step 2" {
		t.Errorf("in step 2: %v", err)
	}
	err = runDemo(ctx, io.Discard, demoSettings{cache: cache, shell: unavailable})
	if err == nil || err.Error() != "demo: interrupted before the first step" {
		t.Errorf("before the first step: %v", err)
	}
	err = runDemo(context.Background(), brokenWriter{}, demoSettings{cache: cache, shell: unavailable})
	if err == nil || err.Error() != "demo: no space" {
		t.Errorf("without an output: %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

// Whatever the agent is handed, the demo runs the commands of its story only.
func TestDemoRunsItsOwnCommandsOnly(t *testing.T) {
	ran := ""
	d := &demoStory{demoStage: &demoStage{demoSettings: demoSettings{shell: func(_ context.Context, _, _, command string) (demoResult, error) {
		ran = command
		return demoResult{}, nil
	}}}}
	for _, c := range []struct {
		command string
		runs    bool
	}{
		{demoInside, true},
		{demoBeside, true},
		{`printf '%s\n' 'guardproxy: not executed.' >&2; (exit 126) # gp1:abc`, true},
		{demoRefused, false},
		{demoInside + "; id", false},
		{`printf '%s\n' 'a'; id # ' >&2; (exit 126) # gp1:abc`, false},
		{"printf '%s\\n' 'a' >&2; (exit 126) # gp1:abc\nid", false},
		{"", false},
	} {
		ran = ""
		_, err := d.run(context.Background(), c.command)
		if (err == nil) != c.runs || (ran == c.command) != (c.runs || c.command == "") {
			t.Errorf("%q: ran %q, error %v; want it to run: %v", c.command, ran, err, c.runs)
		}
	}
}

func testDemoVerboseAndColour(t *testing.T, cache string) {
	t.Setenv("TMPDIR", outsideTmp(t))
	var out bytes.Buffer
	if err := runDemo(context.Background(), &out, demoSettings{cache: cache, verbose: true, colour: true, shell: unavailable}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n\x1b[32mok\x1b[0m  1. ",
		fmt.Sprintf("\n       bash as declared, %d bytes:\n       %s\n", len(demoMessages{}.tools()[0]), demoMessages{}.tools()[0]),
		"\n       event: content_block_delta\n       data: {\"type\":\"content_block_delta\",\"index\":2,",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if isTerminal(&out) {
		t.Error("a buffer is taken for a terminal")
	}
}
