//go:build linux && (amd64 || arm64)

package launch

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/confine"
)

// A system call as the kernel shows it to a filter.
type call struct {
	nr, arch uint32
	args     [6]uint64
}

func sys(nr uint32, args ...uint64) call {
	c := call{nr: nr, arch: auditArch}
	copy(c.args[:], args)
	return c
}

// judge runs a program on a call: the part of classic BPF that compile uses,
// written down a second time.
func judge(p []unix.SockFilter, c call) uint32 {
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[0:], c.nr)
	binary.LittleEndian.PutUint32(data[4:], c.arch)
	for i, a := range c.args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; ; pc++ {
		in := p[pc]
		yes := func(b bool) {
			if b {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case loadWord:
			acc = binary.LittleEndian.Uint32(data[in.K:])
		case and:
			acc &= in.K
		case jump:
			pc += int(in.K)
		case jumpEq:
			yes(acc == in.K)
		case jumpGe:
			yes(acc >= in.K)
		case jumpSet:
			yes(acc&in.K != 0)
		case ret:
			return in.K
		default:
			panic(fmt.Sprintf("instruction %d: code %#x", pc, in.Code))
		}
	}
}

func TestFilter(t *testing.T) {
	const (
		allow = uint32(unix.SECCOMP_RET_ALLOW)
		kill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
		high  = uint64(1) << 40 // in the half that the kernel does not read
	)
	perm, nosys := fail(unix.EPERM), fail(unix.ENOSYS)
	none := confine.LaunchSpec{Landlock: 7}
	inet := confine.LaunchSpec{Landlock: 7, Inet: true}
	old := confine.LaunchSpec{Landlock: 2}
	foreign := sys(unix.SYS_READ)
	foreign.arch = unix.AUDIT_ARCH_I386
	for _, c := range []struct {
		name string
		spec confine.LaunchSpec
		call call
		want uint32
	}{
		{"reading", none, sys(unix.SYS_READ, 1), allow},
		{"another architecture", none, foreign, kill},
		{"io_uring does not exist", none, sys(unix.SYS_IO_URING_SETUP), nosys},
		{"clone3 does not exist", none, sys(unix.SYS_CLONE3), nosys},
		{"a thread", none, sys(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD), allow},
		{"a user namespace", none, sys(unix.SYS_CLONE, unix.CLONE_NEWUSER), perm},
		{"unsharing files", none, sys(unix.SYS_UNSHARE, unix.CLONE_FILES), allow},
		{"unsharing time", none, sys(unix.SYS_UNSHARE, unix.CLONE_NEWTIME), perm},
		{"ptrace", none, sys(unix.SYS_PTRACE), perm},
		{"ptrace where it may", confine.LaunchSpec{Trace: true}, sys(unix.SYS_PTRACE), allow},
		{"a stranger's descriptors where it may trace", confine.LaunchSpec{Trace: true}, sys(unix.SYS_PIDFD_GETFD), perm},
		{"the last in a list", none, sys(unix.SYS_FANOTIFY_INIT), perm},
		{"mount", none, sys(unix.SYS_MOUNT), perm},
		{"an ordinary ioctl", none, sys(unix.SYS_IOCTL, 0, unix.TCGETS), allow},
		{"typing into a terminal", none, sys(unix.SYS_IOCTL, 0, unix.TIOCSTI), perm},
		{"typing with high bits", none, sys(unix.SYS_IOCTL, 0, unix.TIOCSTI|high), perm},
		{"file flags", none, sys(unix.SYS_IOCTL, 0, unix.FS_IOC_SETFLAGS), perm},
		{"extended file flags", none, sys(unix.SYS_IOCTL, 0, fsSetXAttrs), perm},
		{"a unix socket", none, sys(unix.SYS_SOCKET, unix.AF_UNIX), allow},
		{"an internet socket without a network", none, sys(unix.SYS_SOCKET, unix.AF_INET), perm},
		{"an internet socket with high bits", none, sys(unix.SYS_SOCKET, unix.AF_INET|high), perm},
		{"an internet socket with a network", inet, sys(unix.SYS_SOCKET, unix.AF_INET6), allow},
		{"a packet socket", inet, sys(unix.SYS_SOCKET, unix.AF_PACKET), perm},
		{"a socket to the virtual machine's host", inet, sys(unix.SYS_SOCKET, unix.AF_VSOCK), perm},
		{"a pair", none, sys(unix.SYS_SOCKETPAIR, unix.AF_UNIX), allow},
		{"making executable", none, sys(unix.SYS_FCHMODAT, 0, 0, 0o755), allow},
		{"making set-user-id", none, sys(unix.SYS_FCHMODAT, 0, 0, 0o4755), perm},
		{"making set-group-id", none, sys(unix.SYS_FCHMOD, 0, 0o2755), perm},
		{"creating set-user-id", none, sys(unix.SYS_OPENAT, 0, 0, unix.O_CREAT|unix.O_RDWR, 0o4755), perm},
		{"an unnamed set-user-id file", none, sys(unix.SYS_OPENAT, 0, 0, unix.O_TMPFILE|unix.O_RDWR, 0o4755), perm},
		{"creating", none, sys(unix.SYS_OPENAT, 0, 0, unix.O_CREAT|unix.O_RDWR, 0o1755), allow},
		{"opening with rubbish for a mode", none, sys(unix.SYS_OPENAT, 0, 0, unix.O_RDONLY|unix.O_DIRECTORY, 0o7777), allow},
		{"a set-user-id node", none, sys(unix.SYS_MKNODAT, 0, 0, unix.S_IFREG|0o4755), perm},
		{"openat2", none, sys(unix.SYS_OPENAT2), nosys},
		{"another's limits", none, sys(unix.SYS_PRLIMIT64, 17), perm},
		{"one's own limits", none, sys(unix.SYS_PRLIMIT64, 0), allow},
		{"truncating by name", none, sys(unix.SYS_TRUNCATE), allow},
		{"truncating by name, old Landlock", old, sys(unix.SYS_TRUNCATE), perm},
		{"truncating on a read-only open, old Landlock", old, sys(unix.SYS_OPENAT, 0, 0, unix.O_TRUNC), perm},
		{"truncating on a writing open, old Landlock", old, sys(unix.SYS_OPENAT, 0, 0, unix.O_TRUNC|unix.O_WRONLY), allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(filterFor(c.spec).compile(), c.call); got != c.want {
				t.Errorf("got %#x, want %#x", got, c.want)
			}
		})
	}
	if x32Bit != 0 {
		if got := judge(filterFor(none).compile(), sys(unix.SYS_READ|x32Bit)); got != nosys {
			t.Errorf("x32: got %#x, want %#x", got, nosys)
		}
	}
}

// A call that no rule names is allowed, whatever its arguments; one that a rule
// names whole is not, whatever its arguments.
func TestFilterDecidesByRuleAlone(t *testing.T) {
	f := filterFor(confine.LaunchSpec{Landlock: 7})
	p := f.compile()
	rapid.Check(t, func(t *rapid.T) {
		c := sys(rapid.Uint32Range(0, 600).Draw(t, "nr"))
		for i := range c.args {
			c.args[i] = rapid.Uint64().Draw(t, "arg")
		}
		named := slices.IndexFunc(f, func(r rule) bool { return slices.Contains(r.nrs, c.nr) })
		got := judge(p, c)
		if named < 0 && got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("call %d: %#x without a rule", c.nr, got)
		}
		if named >= 0 && f[named].arg < 0 && got != fail(f[named].errno) {
			t.Errorf("call %d: %#x in spite of its rule", c.nr, got)
		}
	})
}

const withoutLandlock = "test-without-landlock"

func TestMain(m *testing.M) {
	if Is(os.Args) {
		Main()
	}
	if len(os.Args) > 2 && os.Args[1] == withoutLandlock {
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			panic(err)
		}
		if err := (filter{calls(unix.ENOSYS, unix.SYS_LANDLOCK_CREATE_RULESET)}).install(); err != nil {
			panic(err)
		}
		panic(unix.Exec(os.Args[2], os.Args[2:], os.Environ()))
	}
	os.Exit(m.Run())
}

// On a kernel without Landlock and without bwrap nothing is confined, and both
// are named.
func TestNothingAvailable(t *testing.T) {
	const inner = "GUARDPROXY_TEST_INNER"
	if os.Getenv(inner) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, withoutLandlock, self, "-test.run=^TestNothingAvailable$", "-test.v")
		cmd.Env = append(os.Environ(), inner+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	t.Setenv("HOME", "/nonexistent")
	chain := confine.New(confine.Options{Self: true, Path: "/nonexistent"})
	_, err := chain.Confine([]string{"true"}, confine.Policy{Mode: confine.ReadOnly, Workspace: workspace(t)})
	if err == nil {
		t.Fatal("something was confined")
	}
	hint := err.(interface{ Hint() string }).Hint()
	for _, want := range []string{"bubblewrap: bwrap is not in PATH", "landlock: the kernel has no Landlock"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	for _, want := range []string{"apt-get install bubblewrap", "Landlock enabled"} {
		if !strings.Contains(hint, want) {
			t.Errorf("%q does not say %q", hint, want)
		}
	}
}

func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "launch-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A launcher that can't do as told runs nothing.
func TestLauncherFailsClosed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := workspace(t)
	link := filepath.Join(base, "link")
	if err := os.Symlink("/var", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, spec, says string }{
		{"a writable path that became a link", fmt.Sprintf(`{"landlock":1,"write":[%q]}`, link), "too many levels of symbolic links"},
		{"a writable path that lies behind a link", fmt.Sprintf(`{"landlock":1,"write":[%q]}`, link+"/tmp"), "too many levels of symbolic links"},
		{"a writable path that is another than was checked", fmt.Sprintf(`{"landlock":1,"write":[%q],"same":{%q:[1,1]}}`, base, base), "not what it was"},
		{"a writable path that was not there to be checked", fmt.Sprintf(`{"landlock":1,"write":[%q],"same":{%q:[0,0]}}`, base, base), "not what it was"},
		{"a Landlock that does not exist", `{"landlock":99}`, "abi 99 is not known"},
		{"a writable path that does not exist", `{"landlock":1,"write":["/nonexistent/x"]}`, "landlock"},
		{"instructions that are none", `nonsense`, "instructions"},
		{"no instructions", ``, "instructions"},
		{"instructions that it does not know", `{"landlock":1,"more":true}`, "unknown field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			w.WriteString(c.spec)
			w.Close()
			cmd := exec.Command(self, confine.LaunchArg, "3", "echo", "it ran")
			cmd.ExtraFiles = []*os.File{r}
			out, err := cmd.CombinedOutput()
			if code := err.(*exec.ExitError).ExitCode(); code != ExitFatal {
				t.Errorf("exit code %d, want %d", code, ExitFatal)
			}
			if !strings.Contains(string(out), "guardproxy: fatal: ") || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "it ran") {
				t.Errorf("got %s", out)
			}
		})
	}
}
