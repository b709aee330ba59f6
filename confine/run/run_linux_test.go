package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/launch"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// These tests look at effects: what a command under each rung really could and
// could not do, seen from outside. Each runs once a rung that this machine
// offers, and all of them again as an ordinary user when they are run as root.

// This binary, as a command.
const (
	dialArg     = "test-dial"     // dials its argument
	trapArg     = "test-trap"     // tries the system call its arguments name
	loopbackArg = "test-loopback" // dials a server of its own
	unixArg     = "test-unix"     // dials a socket in the file system
)

func TestMain(m *testing.M) {
	if launch.Is(os.Args) {
		launch.Main()
	}
	if len(os.Args) > 1 && slices.Contains([]string{escapeArg, escapeRunArg, escapeStepArg, victimArg}, os.Args[1]) {
		escapeMain(os.Args)
	}
	if len(os.Args) > 1 && slices.Contains([]string{diagnoseArg, fakeABIArg, noNamespaces, coveredProc, containerRoot}, os.Args[1]) {
		kernelMain(os.Args)
	}
	if len(os.Args) > 1 && os.Args[1] == loopbackArg {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			var c net.Conn
			if c, err = net.Dial("tcp", l.Addr().String()); err == nil {
				c.Close()
				fmt.Print("ok")
				os.Exit(0)
			}
		}
		fmt.Print(err)
		os.Exit(9)
	}
	if len(os.Args) > 2 && (os.Args[1] == dialArg || os.Args[1] == unixArg) {
		network := "tcp"
		if os.Args[1] == unixArg {
			network = "unix"
		}
		c, err := net.Dial(network, os.Args[2])
		if err != nil {
			fmt.Println("dial:", err)
			os.Exit(9)
		}
		c.Close()
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == trapArg {
		if err := trap(os.Args[2], os.Args[3]); err != nil {
			fmt.Print(unix.ErrnoName(err.(syscall.Errno)))
			os.Exit(9)
		}
		fmt.Print("ok")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// trap makes one call, past the wrappers where they would make another.
func trap(what, arg string) error {
	path, _ := unix.BytePtrFromString(arg)
	raw := func(nr uintptr, args ...uintptr) error {
		args = append(args, 0, 0, 0)
		fd, _, e := unix.Syscall(nr, args[0], args[1], args[2])
		if e != 0 {
			return e
		}
		unix.Close(int(fd))
		return nil
	}
	name := uintptr(unsafe.Pointer(path))
	switch what {
	case "trace":
		return unix.PtraceAttach(startSleep())
	case "limits":
		pid, _ := strconv.Atoi(arg)
		var now unix.Rlimit
		return unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &now)
	case "openat":
		fd, err := unix.Open(arg, unix.O_CREAT|unix.O_WRONLY, 0o4755)
		unix.Close(fd)
		return err
	case "openat, not set-user-id":
		fd, err := unix.Open(arg, unix.O_CREAT|unix.O_WRONLY, 0o755)
		unix.Close(fd)
		return err
	case "mknodat":
		return unix.Mknod(arg, unix.S_IFREG|0o4755, 0)
	case "open": // amd64's own, by number so that this compiles elsewhere
		return raw(2, name, unix.O_CREAT|unix.O_WRONLY, 0o2755)
	case "creat":
		return raw(85, name, 0o4755)
	case "mknod":
		return raw(133, name, unix.S_IFREG|0o4755)
	}
	return unix.EINVAL
}

// startSleep starts a process to act on, and returns its number.
func startSleep() int {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if cmd.Start() != nil {
		return -1
	}
	return cmd.Process.Pid
}

// trapper puts this binary where a command of f can run it.
func (f *field) trapper() string {
	f.t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.t.Fatal(err)
	}
	path := filepath.Join(f.workspace, "trap")
	if err := os.WriteFile(path, self, 0o755); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// field is a place to try things in.
type field struct {
	t         *testing.T
	chain     *confine.Chain
	runner    string
	workspace string
	outside   string // a directory that the user could write
	own       string // own files: a directory with "secret" in it
	policy    confine.Policy
}

// each runs test once for every rung.
func each(t *testing.T, test func(*testing.T, *field)) {
	t.Helper()
	for _, r := range []struct{ runner, path string }{
		{"bubblewrap", ""},
		{"landlock", "/nonexistent"}, // no bwrap there
	} {
		t.Run(r.runner, func(t *testing.T) {
			f := newField(t)
			f.chain, f.runner = confine.New(confine.Options{Self: true, Path: r.path}), r.runner
			p, err := f.chain.Confine([]string{"true"}, f.policy)
			var unavailable *confine.Unavailable
			if errors.As(err, &unavailable) {
				machine.Lacks(t, r.runner, "neither bubblewrap nor Landlock works here: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
			if p.Enforcement.Runner != r.runner {
				machine.Lacks(t, r.runner, "%s does not work here: %+v", r.runner, p.Enforcement.Passed)
			}
			test(t, f)
		})
	}
}

func newField(t *testing.T) *field {
	t.Helper()
	// Not in /tmp where possible: that is private inside, and what is merely
	// hidden is not denied.
	base, err := os.MkdirTemp("/var/tmp", "run-test-")
	if err != nil {
		base, err = os.MkdirTemp("", "run-test-")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if base, err = filepath.EvalSymlinks(base); err != nil {
		t.Fatal(err)
	}
	f := &field{t: t, workspace: filepath.Join(base, "workspace"), outside: filepath.Join(base, "outside"), own: filepath.Join(base, "own")}
	for _, d := range []string{f.workspace, f.outside, f.own} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.write(filepath.Join(f.outside, "file"), "as it was")
	f.write(filepath.Join(f.own, "secret"), "the secret")
	state := filepath.Join(base, "state")
	f.policy = confine.Policy{Mode: confine.WorkspaceWrite, Workspace: f.workspace, Masks: []string{f.own, state}, State: state}
	return f
}

func (f *field) write(path, text string) {
	f.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return string(text)
}

type outcome struct {
	run.Result
	stdout, stderr string
	enforcement    confine.Enforcement
}

// try runs argv to its end under the field's policy.
func (f *field) try(ctx context.Context, o run.Options, argv ...string) (outcome, error) {
	f.t.Helper()
	var stdout, stderr bytes.Buffer
	var e confine.Enforcement
	o.Stdout, o.Stderr = &stdout, &stderr
	o.Prepared = func(p confine.Prepared) { e = p.Enforcement }
	r, err := run.Do(ctx, f.chain, argv, f.policy, o)
	var failure *run.Failure
	if err != nil && !errors.As(err, &failure) && ctx.Err() == nil {
		f.t.Fatal(err)
	}
	if err != nil {
		err = fmt.Errorf("%w; it said %q", err, stderr.String())
	}
	return outcome{r, stdout.String(), stderr.String(), e}, err
}

// sh runs a script and fails the test if it did not run.
func (f *field) sh(script string) outcome {
	f.t.Helper()
	out, err := f.try(context.Background(), run.Options{}, "sh", "-c", script)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func TestWrites(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		for _, c := range []struct{ name, script string }{
			{"change", "echo x > $OUT/file"},
			{"truncate", ": > $OUT/file"},
			{"create", "echo x > $OUT/new"},
			{"remove", "rm -f $OUT/file"},
			{"rename", "mv $OUT/file $OUT/moved"},
			{"through a link", "ln -s $OUT l && echo x > l/file"},
			{"make a directory", "mkdir $OUT/d"},
			{"in the home directory", "echo x > $HOME/x"},
		} {
			t.Run("outside: "+c.name, func(t *testing.T) {
				t.Setenv("OUT", f.outside)
				t.Setenv("HOME", f.outside)
				f.t = t
				out := f.sh(c.script)
				left, _ := os.ReadDir(f.outside)
				if out.ExitCode == 0 || len(left) != 1 || f.read(filepath.Join(f.outside, "file")) != "as it was" {
					t.Errorf("exit code %d, left: %v, %q", out.ExitCode, left, out.stderr)
				}
			})
		}
		f.t = t
		if out := f.sh("mkdir d && echo hello > d/new && mv d/new there && rm -r d && cat there"); out.ExitCode != 0 || out.stdout != "hello\n" {
			t.Errorf("inside: %+v", out)
		}
		if got := f.read(filepath.Join(f.workspace, "there")); got != "hello\n" {
			t.Errorf("seen from outside: %q", got)
		}
	})
}

func TestExtraWritableRoots(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		f.policy.WritableRoots = []string{f.outside}
		if out := f.sh("echo x > " + f.outside + "/file"); out.ExitCode != 0 {
			t.Errorf("granted and denied: %+v", out)
		}
		f.policy.Mode = confine.ReadOnly
		if out := f.sh("echo y > " + f.outside + "/file"); out.ExitCode == 0 || f.read(filepath.Join(f.outside, "file")) != "x\n" {
			t.Errorf("written in read-only: %+v", out)
		}
	})
}

func TestReadOnly(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		f.write(filepath.Join(f.workspace, "a"), "a")
		f.policy.Mode = confine.ReadOnly
		if out := f.sh("cat a && echo x > b"); out.ExitCode == 0 || out.stdout != "a" {
			t.Errorf("in the workspace: %+v", out)
		}
		if out := f.sh(`echo kept > "$TMPDIR/x" && cat "$TMPDIR/x" && echo x > /dev/null`); out.stdout != "kept\n" || out.ExitCode != 0 {
			t.Errorf("no temporary directory: %+v", out)
		}
	})
}

func TestTemporaryFilesArePrivate(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		host, err := os.CreateTemp("/tmp", "run-test-")
		if err != nil {
			machine.Lacks(t, "/tmp", "%v", err)
		}
		host.Close()
		t.Cleanup(func() { os.Remove(host.Name()) })
		f.sh("echo changed > " + host.Name() + "; echo x > " + host.Name() + ".new")
		if got := f.read(host.Name()); got != "" {
			t.Errorf("another program's file was changed: %q", got)
		}
		if _, err := os.Lstat(host.Name() + ".new"); err == nil {
			os.Remove(host.Name() + ".new")
			t.Error("a file was left in /tmp")
		}
		if out := f.sh("ls -A $TMPDIR"); out.stdout != "" || out.ExitCode != 0 {
			t.Errorf("not empty: %+v", out)
		}
	})
}

func TestOwnFiles(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		key := filepath.Join(f.outside, "key")
		f.write(key, "the key")
		f.policy.Masks = append(f.policy.Masks, key, filepath.Join(f.outside, "missing"))
		secret := filepath.Join(f.own, "secret")
		out := f.sh("cat " + secret + " " + key)
		if readable := strings.Contains(out.stdout, "the "); readable == out.enforcement.OwnFilesMasked {
			t.Errorf("masked is said to be %v, and the command read %q", out.enforcement.OwnFilesMasked, out.stdout)
		}
		if f.runner == "bubblewrap" && !out.enforcement.OwnFilesMasked {
			t.Error("bubblewrap can mask files")
		}
		f.sh("echo x > " + secret + "; echo x > " + key + "; rm -f " + secret + " " + key + "; echo x > " + f.own + "/new; rmdir " + f.own)
		left, _ := os.ReadDir(f.own)
		if f.read(secret) != "the secret" || f.read(key) != "the key" || len(left) != 1 {
			t.Errorf("changed: %q, %q, %v", f.read(secret), f.read(key), left)
		}
		if _, err := os.Lstat(filepath.Join(f.outside, "missing")); err == nil {
			t.Error("masking a missing file created it")
		}
	})
}

func TestEnvironment(t *testing.T) {
	t.Setenv("GUARDPROXY_TOKEN", "1")
	t.Setenv("ANTHROPIC_API_KEY", "1")
	t.Setenv("BASH_ENV", "/nonexistent")
	t.Setenv("SSH_AUTH_SOCK", "/nonexistent")
	t.Setenv("A_BUILD_SETTING", "kept")
	each(t, func(t *testing.T, f *field) {
		out := f.sh("env")
		for _, name := range []string{"GUARDPROXY_", "ANTHROPIC_API_KEY", "BASH_ENV", "SSH_AUTH_SOCK"} {
			if strings.Contains(out.stdout, name) {
				t.Errorf("%s reached the command", name)
			}
		}
		if !strings.Contains(out.stdout, "A_BUILD_SETTING=kept\n") {
			t.Errorf("an ordinary variable did not: %s", out.stdout)
		}
	})
}

func TestInheritedDescriptorsAreClosed(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		fd, err := unix.Open(f.outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		const high = 57
		if err := unix.Dup3(fd, high, 0); err != nil { // not close-on-exec
			t.Fatal(err)
		}
		defer unix.Close(high)
		out := f.sh(fmt.Sprintf("ls /proc/self/fd; echo x > /proc/self/fd/%d/new", high))
		if strings.Contains(out.stdout, fmt.Sprint(high)) {
			t.Errorf("descriptor %d was open inside: %s", high, out.stdout)
		}
		if _, err := os.Lstat(filepath.Join(f.outside, "new")); err == nil {
			t.Error("it was written through")
		}
	})
}

func TestNoNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		machine.Lacks(t, "loopback", "%v", err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	each(t, func(t *testing.T, f *field) {
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		dial := filepath.Join(f.workspace, "dial")
		if err := os.WriteFile(dial, self, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			network confine.Network
			want    int
		}{{"", 9}, {confine.NoNetwork, 9}, {confine.HostNetwork, 0}} {
			f.policy.Network = c.network
			out, err := f.try(context.Background(), run.Options{}, dial, dialArg, l.Addr().String())
			if err != nil || out.ExitCode != c.want {
				t.Errorf("network %q: exit code %d, want %d: %s%s %v", c.network, out.ExitCode, c.want, out.stdout, out.stderr, err)
			}
		}
	})
}

func TestExitCodes(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		f.write(filepath.Join(f.workspace, "plain"), "no program")
		f.write(filepath.Join(f.workspace, "script"), "exit 5\n")
		if err := os.Chmod(filepath.Join(f.workspace, "script"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			argv []string
			want int
			says string
		}{
			{"success", []string{"true"}, 0, ""},
			{"the command's own", []string{"sh", "-c", "exit 7"}, 7, ""},
			{"the runner's own number is the command's, too", []string{"sh", "-c", "exit 125"}, 125, ""},
			{"a command that does not exist", []string{"no-such-command"}, 127, "no-such-command: command not found"},
			{"a path that does not exist", []string{"./no-such-file"}, 127, "command not found"},
			{"a file that is no program", []string{"./plain"}, 126, "can't be executed"},
			{"a script without an interpreter line", []string{"./script"}, 5, ""},
			{"ended by a signal", []string{"sh", "-c", "kill -TERM $$"}, 143, ""},
			{"killed", []string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				f.t = t
				out, err := f.try(context.Background(), run.Options{}, c.argv...)
				if err != nil || out.ExitCode != c.want || out.Unknown || !strings.Contains(out.stderr, c.says) {
					t.Errorf("got %+v, %v, want exit code %d and %q", out, err, c.want, c.says)
				}
				if (out.NotExecuted != "") != (c.says != "") {
					t.Errorf("not executed: %q", out.NotExecuted)
				}
			})
		}
	})
}

func TestStdin(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		if out := f.sh("cat; echo end"); out.stdout != "end\n" {
			t.Errorf("something was on stdin: %q", out.stdout)
		}
		out, err := f.try(context.Background(), run.Options{Stdin: strings.NewReader("hello")}, "cat")
		if err != nil || out.stdout != "hello" {
			t.Errorf("got %+v, %v", out, err)
		}
	})
}

// tree is a command that leaves processes behind in every way there is: in its
// group, in sessions of their own, deaf to SIGTERM. All hold the pipe named
// alive open for writing, so reading it to its end means that none is left.
const tree = `exec 9>alive; trap '' TERM
sleep 1000 & setsid sleep 1000 & (setsid sh -c 'trap "" TERM; sleep 1000 & sleep 1000' &)
echo up >&9; `

// alive opens the pipe's other end.
func (f *field) alive() *os.File {
	f.t.Helper()
	path := filepath.Join(f.workspace, "alive")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		f.t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { r.Close() })
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	return r
}

func TestNothingSurvives(t *testing.T) {
	if err := run.Sole(); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, f *field) {
		for _, c := range []struct {
			name   string
			script string
			end    func(cancel func()) // once the tree is up
			check  func(outcome) bool
		}{
			{"a command that ends by itself", "exit 3", func(func()) {},
				func(o outcome) bool { return o.ExitCode == 3 && !o.TimedOut && !o.Canceled }},
			{"a canceled one", "sleep 1000; sleep 1000", func(cancel func()) { cancel() },
				func(o outcome) bool { return o.Canceled && o.ExitCode == 137 }},
		} {
			t.Run(c.name, func(t *testing.T) {
				f.t = t
				os.Remove(filepath.Join(f.workspace, "alive"))
				r := f.alive()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				gone := make(chan error, 1)
				go func() {
					// Until a writer comes there is no end to read to.
					first := make([]byte, 3)
					for {
						n, err := r.Read(first)
						if n > 0 {
							break
						}
						if err != nil && err != io.EOF {
							gone <- err
							return
						}
					}
					c.end(cancel)
					_, err := io.Copy(io.Discard, r)
					gone <- err
				}()
				out, err := f.try(ctx, run.Options{Grace: 100 * time.Millisecond}, "sh", "-c", tree+c.script)
				if err != nil || !c.check(out) {
					t.Errorf("got %+v, %v", out, err)
				}
				if err := <-gone; err != nil {
					t.Errorf("something survived: %v", err)
				}
			})
		}
	})
}

func TestTimeout(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		out, err := f.try(context.Background(), run.Options{Timeout: time.Second}, "sh", "-c", "trap 'echo bye; exit 9' TERM; sleep 1000 & wait")
		if err != nil || !out.TimedOut || out.ExitCode != 9 || out.stdout != "bye\n" {
			t.Errorf("asked to end: got %+v, %v", out, err)
		}
		out, err = f.try(context.Background(), run.Options{Timeout: time.Second, Grace: 100 * time.Millisecond}, "sh", "-c", "trap '' TERM; sleep 1000; sleep 1000")
		if err != nil || !out.TimedOut || out.ExitCode != 137 {
			t.Errorf("made to end: got %+v, %v", out, err)
		}
	})
}

// What goes wrong before the command starts is an error, whatever exit code the
// runner leaves.
func TestRunnerFailure(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		f.policy.WritableRoots = []string{f.outside}
		p, err := f.chain.Confine([]string{"touch", "it-ran"}, f.policy)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := os.RemoveAll(f.outside); err != nil {
			t.Fatal(err)
		}
		_, err = run.Run(context.Background(), p, run.Options{})
		var failure *run.Failure
		if !errors.As(err, &failure) || failure.Runner != f.runner {
			t.Errorf("got %v, want a failure of %s", err, f.runner)
		}
		if _, err := os.Lstat(filepath.Join(f.workspace, "it-ran")); err == nil {
			t.Error("the command ran")
		}
	})
}

// What was checked is what is written to, or nothing runs: another command may
// put something else in the place of a writable root at any moment.
func TestSwappedRoots(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		for _, c := range []struct {
			name string
			put  func(path, outside string) error
		}{
			{"a link", func(path, outside string) error { return os.Symlink(outside, path) }},
			{"another directory", func(path, outside string) error { return os.Rename(outside, path) }},
		} {
			for _, root := range []string{"the workspace", "a writable root"} {
				t.Run(root+" became "+c.name, func(t *testing.T) {
					fresh := newField(t)
					fresh.chain, fresh.runner = f.chain, f.runner
					f := fresh
					second := filepath.Join(filepath.Dir(f.workspace), "second")
					if err := os.Mkdir(second, 0o755); err != nil {
						t.Fatal(err)
					}
					f.policy.WritableRoots = []string{second}
					path := f.workspace
					if root == "a writable root" {
						path = second
					}
					p, err := f.chain.Confine([]string{"sh", "-c", "echo x > " + path + "/file; echo x > new"}, f.policy)
					if err != nil {
						t.Fatal(err)
					}
					defer p.Close()
					for _, err := range []error{os.Rename(path, path+".old"), c.put(path, f.outside)} {
						if err != nil {
							t.Fatal(err)
						}
					}
					_, err = run.Run(context.Background(), p, run.Options{})
					var failure *run.Failure
					if !errors.As(err, &failure) {
						t.Errorf("got %v, want a failure of the runner", err)
					}
					if got := f.read(filepath.Join(path, "file")); got != "as it was" {
						t.Errorf("written to: %q", got)
					}
					if left, _ := os.ReadDir(path); len(left) != 1 {
						t.Errorf("left: %v", left)
					}
				})
			}
		}
	})
}

// Limits of another process would end it (RLIMIT_CPU), which no namespace and no
// Landlock scope sees among processes of one user.
func TestLimitsOfOthers(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		trap := f.trapper()
		if out := f.sh(trap + " " + trapArg + " limits 0"); out.stdout != "ok" {
			t.Errorf("its own limits: %+v", out)
		}
		if out := f.sh("sleep 1000 & " + trap + " " + trapArg + " limits $!; kill $!; exit 0"); out.stdout != "EPERM" {
			t.Errorf("those of another: %+v", out)
		}
	})
}

func TestSetUserID(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		trap, path := f.trapper(), filepath.Join(f.workspace, "made")
		if out, err := f.try(context.Background(), run.Options{}, trap, trapArg, "openat, not set-user-id", path); err != nil || out.stdout != "ok" {
			t.Fatalf("an ordinary program: %+v, %v", out, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		calls := []string{"openat", "mknodat"}
		if runtime.GOARCH == "amd64" {
			calls = append(calls, "open", "creat", "mknod")
		}
		for _, c := range calls {
			t.Run(c, func(t *testing.T) {
				f.t = t
				out, err := f.try(context.Background(), run.Options{}, trap, trapArg, c, path)
				if err != nil || out.stdout != "EPERM" {
					t.Errorf("got %+v, %v", out, err)
				}
				if _, err := os.Lstat(path); err == nil {
					os.Remove(path)
					t.Error("it was made")
				}
			})
		}
	})
}

// An ordinary user's command can't take all the processes that the user may
// have. For uid 0 the kernel has no such limit.
func TestProcessLimit(t *testing.T) {
	if os.Geteuid() == 0 {
		machine.Lacks(t, machine.User, "TestAsOrdinaryUser is one")
	}
	each(t, func(t *testing.T, f *field) {
		out := f.sh(`while read -r a b soft hard rest; do case "$a $b" in "Max processes") echo "$soft";; esac; done < /proc/self/limits`)
		n, err := strconv.Atoi(strings.TrimSpace(out.stdout))
		var before unix.Rlimit
		if e := unix.Getrlimit(unix.RLIMIT_NPROC, &before); e != nil {
			t.Fatal(e)
		}
		const running = 1 << 16 // more threads than a user has on a machine for tests
		if err != nil || n <= 0 || uint64(n) > before.Max || n > running+4096 {
			t.Errorf("limit %q, before %d", out.stdout, before.Max)
		}
	})
}

// A status that was lost is never success, and Sole brings it back.
func TestLostStatus(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		signal.Ignore(syscall.SIGCHLD) // the kernel reaps in our place
		if f.runner == "landlock" {    // bwrap itself does not work like that
			if out := f.sh("exit 0"); !out.Unknown || out.ExitCode != -1 {
				t.Errorf("got %+v", out)
			}
		}
		if err := run.Sole(); err != nil {
			t.Fatal(err)
		}
		if out := f.sh("exit 5"); out.Unknown || out.ExitCode != 5 {
			t.Errorf("after Sole: got %+v", out)
		}
	})
}

func TestRepository(t *testing.T) {
	machine.Needs(t, "git")
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	each(t, func(t *testing.T, f *field) {
		if out, err := exec.Command("git", "init", "-q", f.workspace).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, script := range []string{
			"git config user.email a@b && git config user.name a && git config core.autocrlf false",
			"echo a > a && git add a && git commit -qm a && git branch b && git checkout -q b",
			"git remote add o ./x",
		} {
			if out := f.sh(script); out.ExitCode != 0 {
				t.Errorf("%s: %+v", script, out)
			}
		}
		if f.runner != "bubblewrap" {
			return // landlock can't protect a path in a writable root, and says so
		}
		hook := filepath.Join(f.workspace, ".git", "hooks", "pre-commit")
		for _, script := range []string{
			"echo x > .git/hooks/pre-commit",
			"mv .git .git2 && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
			"rm -rf .git/hooks; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
		} {
			f.sh(script)
			if _, err := os.Lstat(hook); err == nil {
				t.Fatalf("%s: a hook was planted", script)
			}
		}
	})
}

func TestEnforcementIsHonest(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		e := f.sh("true").enforcement
		if (e.Level == confine.Full) != (len(e.Missing) == 0) {
			t.Errorf("level %s, missing %q", e.Level, e.Missing)
		}
		if f.runner == "landlock" && (e.Level != confine.Partial || len(e.Passed) == 0) {
			t.Errorf("landlock alone: %+v", e)
		}
	})
}

// A socket that listens somewhere, nobody knows where, is not covered, and that
// is said for as long as it does.
func TestRelativeSockets(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		if f.runner != "bubblewrap" {
			return // alone, Landlock says so of all sockets
		}
		t.Chdir(f.outside)
		const name = "relative-for-run-test.sock"
		named := func() bool {
			e := f.sh("true").enforcement
			return e.Level == confine.Partial && strings.Contains(strings.Join(e.Missing, "\n"), name)
		}
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if !named() {
			t.Error("it listens, and is not in the list")
		}
		l.Close()
		if named() {
			t.Error("it is in the list, and listens no more")
		}
	})
}

// All of the above as an ordinary user, when this is root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		machine.Lacks(t, machine.Root, "to become someone else; the other tests ran as an ordinary user")
	}
	binary := selfFor(t)
	home := filepath.Join(filepath.Dir(binary), "home")
	if err := errors.Join(os.Mkdir(home, 0o755), os.Chown(home, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.v", "-test.run=^Test", "-test.skip=^(TestAsOrdinaryUser|TestTable)$", "-test.timeout=8m", fmt.Sprint("-escapes=", *allEscapes))
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, machine.Env + "=" + os.Getenv(machine.Env)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWrites") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "does not work here") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
