//go:build linux && (amd64 || arm64)

package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// The escape battery: every attempt of escape_attempts_linux_test.go under every
// rung, in a fresh place. What counts is what is seen outside. An attempt that
// did not run is a failure too: a runner that refuses to start confines nothing.
//
// By default one attempt a kind is made; -escapes makes them all, each first
// without confinement, since an attempt that fails there shows nothing.

var allEscapes = flag.Bool("escapes", false, "make every escape attempt, not one a kind")

const (
	escapeArg     = "test-escape"      // makes the attempt that its arguments name
	escapeRunArg  = "test-escape-run"  // runs a command as guardproxy exec does
	escapeStepArg = "test-escape-step" // a step of one, in another process
	victimArg     = "test-victim"      // does nothing until it is killed
)

// apart runs argv under a policy, given as JSON, in a process that has no other
// children. It exits as guardproxy exec does.
func apart(path, text string, argv []string) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 125 }
	if err := run.Sole(); err != nil {
		return fail(err)
	}
	var p confine.Policy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fail(err)
	}
	chain := confine.New(confine.Options{Self: true, Path: path})
	result, err := run.Do(context.Background(), chain, argv, p, run.Options{Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		return fail(err)
	}
	return result.ExitCode
}

// outcomeLine is what an attempt prints, after a mark.
type outcomeLine struct {
	Did bool   `json:"did"`
	Err string `json:"err,omitempty"`
	Net string `json:"net"` // its network namespace
}

const mark = "attempted: "

// escapeMain is this program as an attempt.
func escapeMain(args []string) {
	switch args[1] {
	case victimArg:
		select {}
	case escapeRunArg:
		os.Exit(apart(args[2], args[3], args[4:]))
	case escapeStepArg:
		if step(args[2], args[3]) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	var t targets
	if err := json.Unmarshal([]byte(args[3]), &t); err != nil {
		panic(err)
	}
	i := slices.IndexFunc(attempts, func(a attempt) bool { return a.name == args[2] })
	err := attempts[i].try(&t)
	line := outcomeLine{Did: err == nil}
	if err != nil {
		line.Err = err.Error()
	}
	line.Net, _ = os.Readlink("/proc/self/ns/net")
	text, _ := json.Marshal(line)
	fmt.Println(mark + string(text))
	os.Exit(0)
}

// scene is the place of one attempt.
type scene struct {
	t         targets
	field     *field
	victim    *exec.Cmd
	gone      chan struct{} // closed when the victim has ended
	datagrams atomic.Bool
	shm       []byte
	terminal  [2]*os.File // master and slave
	other     *os.File    // another terminal's master
	alive     *os.File
}

func made(name string) func(*scene) bool {
	return func(s *scene) bool { _, err := os.Lstat(filepath.Join(s.t.Out, name)); return err == nil }
}

func left(name string) func(*scene) bool {
	return func(s *scene) bool { _, err := os.Stat(filepath.Join(s.t.Work, name)); return err == nil }
}

func changed(s *scene) bool {
	text, err := os.ReadFile(filepath.Join(s.t.Out, "file"))
	return err != nil || string(text) != "original\n"
}

// configured says whether the workspace's configuration names a program.
func configured(s *scene) bool {
	text, err := os.ReadFile(filepath.Join(s.t.Work, ".git/config"))
	return err != nil || strings.Contains(string(text), "fsmonitor") || strings.Contains(strings.ToLower(string(text)), "hookspath")
}

func (s *scene) victimDead() bool {
	select {
	case <-s.gone:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

func (s *scene) datagramCame() bool {
	for range 10 {
		if s.datagrams.Load() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func (s *scene) typed() bool {
	fd := int(s.terminal[1].Fd())
	if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		t.Lflag &^= unix.ICANON
		t.Cc[unix.VMIN] = 0
		unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
	unix.SetNonblock(fd, true)
	buf := make([]byte, 64)
	n, _ := unix.Read(fd, buf)
	return n > 0 && bytes.Contains(buf[:n], []byte("#"))
}

// daemonLives says whether something holds the pipe open that the daemon wrote
// to: a reader of a pipe without writers is at its end.
func (s *scene) daemonLives() bool {
	buf := make([]byte, 1)
	s.alive.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, err := s.alive.Read(buf)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		machine.Lacks(t, "terminals", "none can be made: %v", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		machine.Lacks(t, "terminals", "none can be made: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// setUp makes a scene for one attempt.
func setUp(t *testing.T, a attempt) *scene {
	t.Helper()
	f := newField(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &scene{field: f, gone: make(chan struct{})}
	base := filepath.Dir(f.workspace)
	s.t = targets{Self: filepath.Join(base, "self"), Work: f.workspace, Out: f.outside, Home: filepath.Join(base, "home"), Parent: os.Getpid()}
	self, err := os.Executable()
	must(err)
	if os.Link(self, s.t.Self) != nil {
		text, err := os.ReadFile("/proc/self/exe")
		must(err)
		must(os.WriteFile(s.t.Self, text, 0o755))
	}
	for _, d := range []string{f.outside + "/dir", s.t.Home + "/.ssh", f.workspace + "/.git/hooks"} {
		must(os.MkdirAll(d, 0o755))
	}
	f.write(f.outside+"/file", "original\n")
	f.write(s.t.Home+"/.ssh/id_rsa", "KEY")
	f.write(f.workspace+"/a", "a\n")
	f.write(f.workspace+"/.git/config", "[core]\n\tbare = false\n")
	f.write(f.workspace+"/.git/HEAD", "ref: refs/heads/main\n")
	f.policy.Hidden = []string{s.t.Home + "/.ssh"}
	tmp, err := os.CreateTemp("/tmp", "guardproxy-escape-")
	must(err)
	tmp.WriteString("original\n")
	tmp.Close()
	s.t.Tmp = tmp.Name()
	t.Cleanup(func() { os.Remove(s.t.Tmp) })

	held, err := os.OpenFile(f.outside+"/file", os.O_RDWR, 0)
	must(err)
	s.victim = exec.Command(s.t.Self, victimArg)
	s.victim.Dir = f.outside
	s.victim.Env = []string{"VICTIMS_SECRET=1"}
	s.victim.ExtraFiles = []*os.File{held}
	s.victim.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(s.victim.Start())
	held.Close()
	s.t.Victim = s.victim.Process.Pid
	go func() { s.victim.Wait(); close(s.gone) }()
	t.Cleanup(func() { s.victim.Process.Kill(); <-s.gone })

	accept := func(l net.Listener, err error) net.Listener {
		t.Helper()
		must(err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		return l
	}
	s.t.TCP = accept(net.Listen("tcp", "127.0.0.1:0")).Addr().(*net.TCPAddr).Port
	s.t.Abstract = fmt.Sprint("guardproxy-escape-", s.t.Victim)
	accept(net.Listen("unix", "@"+s.t.Abstract))
	s.t.Socket = base + "/socket"
	accept(net.Listen("unix", s.t.Socket))
	s.t.Datagram = base + "/datagram"
	d, err := net.ListenPacket("unixgram", s.t.Datagram)
	must(err)
	t.Cleanup(func() { d.Close() })
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(err)
	t.Cleanup(func() { u.Close() })
	s.t.UDP = u.LocalAddr().(*net.UDPAddr).Port
	go func() {
		if _, _, err := u.ReadFrom(make([]byte, 16)); err == nil {
			s.datagrams.Store(true)
		}
	}()
	if a.name == "ipc-shared-memory" {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		must(err)
		s.t.Shm = id
		s.shm, err = unix.SysvShmAttach(id, 0, 0)
		must(err)
		t.Cleanup(func() { unix.SysvShmDetach(s.shm); unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	}
	if a.terminal {
		s.terminal[0], s.terminal[1] = openTerminal(t)
	}
	if a.name == "ipc-terminal" {
		var slave *os.File
		s.other, slave = openTerminal(t)
		s.t.Terminal = slave.Name()
	}
	var st unix.Stat_t
	if unix.Stat("/", &st) == nil {
		s.t.Disk = st.Dev
	}
	if a.kind == "life" {
		s.alive = f.alive()
	}
	if a.before != nil {
		must(a.before(s))
	}
	if a.fd != "" {
		// Not close-on-exec, and far from those of a runner.
		path, flags := f.outside+"/file", unix.O_RDONLY
		if a.fd == "w" {
			flags = unix.O_WRONLY
		}
		if a.fd == "d" {
			path = f.outside
		}
		fd, err := unix.Open(path, flags, 0)
		must(err)
		s.t.Fd = 57
		must(unix.Dup3(fd, s.t.Fd, 0))
		unix.Close(fd)
		t.Cleanup(func() { unix.Close(s.t.Fd) })
	}
	return s
}

// escaped says what became of an attempt: whether it ran, and whether it got
// out.
func (s *scene) escaped(a attempt, stdout string) (ran, out bool, why string) {
	_, text, ok := strings.Cut(stdout, mark)
	var line outcomeLine
	if ok {
		ok = json.Unmarshal([]byte(strings.SplitN(text, "\n", 2)[0]), &line) == nil
	}
	if a.seen != nil {
		return ok, a.seen(s), line.Err
	}
	if here, err := os.Readlink("/proc/self/ns/net"); a.ownNet && err == nil && line.Net != "" && line.Net != here {
		return ok, false, "in a network of its own"
	}
	return ok, line.Did, line.Err
}

func (s *scene) argv(a attempt) []string {
	text, _ := json.Marshal(s.t)
	return []string{s.t.Self, escapeArg, a.name, string(text)}
}

// bare makes an attempt without confinement, and says whether it works. root
// makes it in a mount namespace of its own.
func bare(t *testing.T, a attempt) bool {
	t.Helper()
	s := setUp(t, a)
	argv := s.argv(a)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.t.Work
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if a.terminal {
		cmd.Stdin = s.terminal[1]
		cmd.SysProcAttr.Setctty = true
	}
	cmd.WaitDelay = 500 * time.Millisecond
	stdout, _ := cmd.Output()
	_, out, _ := s.escaped(a, string(stdout))
	if a.kind == "life" {
		// what it left behind
		exec.Command("sh", "-c", "for p in /proc/[0-9]*; do case $(readlink $p/fd/9) in "+s.t.Work+"/alive) kill -9 ${p#/proc/};; esac; done").Run()
	}
	return out
}

// Known ways out. Everything else is a failure.
var (
	// A file that had another name outside before is one file: nothing short of
	// a look at every file of the workspace before each command would tell.
	everywhere = []string{"fs-hard-link-before"}
	// Landlock's own: Enforcement.Missing names each kind.
	landlockAlone = map[string]string{
		"meta-chmod": "metadata", "meta-chown": "metadata", "meta-times": "metadata", "meta-xattr": "metadata",
		"proc-cmdline": "processes", "proc-affinity": "processes", "proc-signal-parent": "signals",
		"proc-kill": "signals", "proc-pidfd-signal": "signals", "proc-sigio": "signals",
		"ipc-socket": "sockets", "ipc-datagram": "sockets", "ipc-pair": "sockets", "ipc-abstract": "abstract",
	}
	// A place that can't be guarded: the command does not run.
	refused = []string{"ws-repository-link"}
)

// maxLandlockAlone bounds how many attempts may succeed under Landlock alone.
const maxLandlockAlone = 17

func TestEscapes(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "SOME_TOKEN", "SSH_AUTH_SOCK", "BASH_ENV", "NODE_OPTIONS", "GIT_SSH_COMMAND"} {
		t.Setenv(name, "x")
	}
	shows := map[string]bool{} // attempts that work without confinement
	if *allEscapes {
		for _, a := range attempts {
			if a.name == "ws-repository-link" || a.root && os.Geteuid() != 0 || a.user && os.Geteuid() == 0 {
				continue
			}
			t.Run("bare/"+a.name, func(t *testing.T) { shows[a.name] = bare(t, a) })
		}
		n := 0
		for name, works := range shows {
			if works {
				n++
			} else {
				t.Logf("shows nothing on this machine: %s", name)
			}
		}
		t.Logf("%d of %d attempts work without confinement", n, len(attempts))
		if n < len(shows)/2 {
			t.Errorf("only %d of %d attempts work without confinement", n, len(shows))
		}
	}
	each(t, func(t *testing.T, f *field) {
		for _, mode := range []confine.Mode{confine.WorkspaceWrite, confine.ReadOnly} {
			t.Run(string(mode), func(t *testing.T) {
				var out []string
				kinds := map[string]bool{}
				for _, a := range attempts {
					if a.root && os.Geteuid() != 0 || a.user && os.Geteuid() == 0 {
						continue
					}
					if !*allEscapes && kinds[a.kind] {
						continue
					}
					kinds[a.kind] = true
					t.Run(a.name, func(t *testing.T) {
						if confined(t, f, a, mode) {
							out = append(out, a.name)
						}
					})
				}
				slices.Sort(out)
				t.Logf("%d got out: %q", len(out), out)
				if f.runner == "landlock" && len(out) > maxLandlockAlone {
					t.Errorf("%d got out, at most %d may", len(out), maxLandlockAlone)
				}
			})
		}
	})
}

// confined makes one attempt under f's rung and says whether it got out.
func confined(t *testing.T, f *field, a attempt, mode confine.Mode) bool {
	s := setUp(t, a)
	s.field.chain, s.field.runner = f.chain, f.runner
	s.field.policy.Mode = mode
	prepared, err := f.chain.Confine(s.argv(a), s.field.policy) // which says what is enforced
	if slices.Contains(refused, a.name) && mode == confine.WorkspaceWrite {
		var r *confine.Refused
		if !errors.As(err, &r) {
			t.Errorf("got %v, want it refused", err)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	prepared.Close()
	var stdout, stderr bytes.Buffer
	o := run.Options{Stdout: &stdout, Stderr: &stderr, Timeout: time.Minute}
	if a.terminal {
		o.Stdin = s.terminal[1]
	}
	var result run.Result
	if a.apart {
		text, _ := json.Marshal(s.field.policy)
		path := ""
		if f.runner == "landlock" {
			path = "/nonexistent"
		}
		cmd := exec.Command(s.t.Self, append([]string{escapeRunArg, path, string(text)}, s.argv(a)...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.t.Work, &stdout, &stderr
		err = cmd.Run()
		result.ExitCode = cmd.ProcessState.ExitCode()
	} else {
		result, err = run.Do(context.Background(), f.chain, s.argv(a), s.field.policy, o)
	}
	if err != nil {
		t.Fatalf("it did not run: %v\n%s", err, stderr.String())
	}
	ran, out, why := s.escaped(a, stdout.String())
	killed := result.ExitCode == 128+int(unix.SIGSYS)
	if !ran && !killed {
		t.Errorf("it did not run to its end: %+v\n%s%s", result, stdout.String(), stderr.String())
	}
	if !out {
		return false
	}
	known := mode == confine.WorkspaceWrite && slices.Contains(everywhere, a.name)
	if kind := landlockAlone[a.name]; f.runner == "landlock" && kind != "" {
		known = strings.Contains(strings.Join(prepared.Enforcement.Missing, "\n"), kind)
		if !known {
			t.Errorf("the report does not say that %s are not enforced: %q", kind, prepared.Enforcement.Missing)
		}
	}
	if !known {
		t.Errorf("got out (%s), stdout %q", why, stdout.String())
	}
	if mode == confine.ReadOnly {
		for path, text := range map[string]string{"a": "a\n", ".git/config": "[core]\n\tbare = false\n"} {
			if got := s.field.read(filepath.Join(s.t.Work, path)); got != text && a.kind != "workspace" {
				t.Errorf("%s was written: %q", path, got)
			}
		}
	}
	return true
}
