//go:build linux && (amd64 || arm64)

package run_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// Machines that this one is not: a kernel with an older Landlock or none, one
// that gives no namespaces, a container that covers /proc, root without the
// powers of root. Each is made around this program, which then says what it can
// confine a command with there.

const (
	diagnoseArg   = "test-diagnose"     // prints the diagnosis
	fakeABIArg    = "test-fake-abi"     // runs its arguments where Landlock has another ABI
	noNamespaces  = "test-no-namespace" // runs its arguments where no namespace can be made
	coveredProc   = "test-covered-proc" // runs its arguments as a user whose /proc is covered in part
	containerRoot = "test-container"    // runs its arguments as root without CAP_SYS_ADMIN
)

func kernelMain(args []string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(77)
		}
	}
	become := func(argv []string) { check(unix.Exec(argv[0], argv, os.Environ())) }
	runtime.LockOSThread()
	switch args[1] {
	case diagnoseArg:
		text, err := json.Marshal(confine.New(confine.Options{Self: true, Path: args[2]}).Diagnose())
		check(err)
		fmt.Println(string(text))
		os.Exit(0)
	case fakeABIArg:
		check(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		// landlock_create_ruleset with flags asks for the version or the errata
		listener, err := seccomp([]unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
			{Code: unix.BPF_JMP | unix.BPF_JEQ, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 3},
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16 + 8*2},
			{Code: unix.BPF_JMP | unix.BPF_JEQ, K: 0, Jt: 1},
			{Code: unix.BPF_RET, K: unix.SECCOMP_RET_USER_NOTIF},
			{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
		}, 1<<3)
		check(err)
		check(unix.Sendmsg(3, []byte{1}, unix.UnixRights(listener), nil, 0))
		unix.CloseOnExec(listener)
		unix.CloseOnExec(3)
		become(args[2:])
	case noNamespaces:
		check(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		const spaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		_, err := seccomp([]unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
			{Code: unix.BPF_JMP | unix.BPF_JEQ, K: unix.SYS_CLONE3, Jf: 1},
			{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_JMP | unix.BPF_JEQ, K: unix.SYS_CLONE, Jt: 1},
			{Code: unix.BPF_JMP | unix.BPF_JEQ, K: unix.SYS_UNSHARE, Jf: 3},
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
			{Code: unix.BPF_JMP | unix.BPF_JSET, K: spaces, Jf: 1},
			{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
			{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
		}, 0)
		check(err)
		become(args[2:])
	case coveredProc:
		check(unix.Mount("/dev/null", "/proc/kallsyms", "", unix.MS_BIND, ""))
		check(unix.Setgroups(nil))
		check(unix.Setresgid(nobody, nobody, nobody))
		check(unix.Setresuid(nobody, nobody, nobody))
		become(args[2:])
	case containerRoot:
		check(unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_ADMIN, 0, 0, 0))
		become(args[2:])
	}
}

const nobody = 65534

func seccomp(p []unix.SockFilter, flags uintptr) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if e != 0 {
		return 0, e
	}
	return int(fd), nil
}

// answerABI answers what the filter of fakeABIArg holds.
func answerABI(args [6]uint64, abi int) (int64, unix.Errno) {
	switch {
	case abi == 0:
		return 0, unix.EOPNOTSUPP // off on the kernel's command line
	case args[2] == 2 && abi < 7:
		return 0, unix.EINVAL // errata can't be asked for yet
	case args[2] == 2:
		return 7, 0
	}
	return int64(abi), 0
}

// selfFor puts this program where any user can run it.
func selfFor(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "run-test-kernel-")
	if err != nil {
		machine.Lacks(t, "/var/tmp", "%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(base, "self")
	for _, err := range []error{os.Chmod(base, 0o755), os.WriteFile(self, text, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return self
}

// diagnoseIn runs the diagnosis behind wrapper.
func diagnoseIn(t *testing.T, path string, attr *syscall.SysProcAttr, abi int, wrapper ...string) confine.Diagnosis {
	t.Helper()
	self := selfFor(t)
	argv := []string{self}
	for i, w := range wrapper {
		if i > 0 {
			argv = append(argv, self)
		}
		argv = append(argv, w)
	}
	if len(wrapper) > 0 {
		argv = append(argv, self)
	}
	argv = append(argv, diagnoseArg, path)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stderr = "/", attr, os.Stderr
	if slices.Contains(wrapper, fakeABIArg) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		theirs := os.NewFile(uintptr(pair[1]), "listener")
		cmd.ExtraFiles = []*os.File{theirs}
		defer theirs.Close()
		go func() {
			defer unix.Close(pair[0])
			listener, err := run.ReceiveListener(pair[0])
			if err != nil {
				return
			}
			defer unix.Close(listener)
			run.AnswerCalls(listener, func(args [6]uint64) (int64, unix.Errno) { return answerABI(args, abi) })
		}()
	}
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 77 {
		machine.Lacks(t, "namespaces", "such a machine can't be made of this one")
	}
	var d confine.Diagnosis
	if err == nil {
		err = json.Unmarshal(out, &d)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

// works is this machine as it is.
func works(t *testing.T, runner string) confine.Diagnosis {
	t.Helper()
	d := diagnoseIn(t, "", nil, 0)
	for _, r := range d.Rungs {
		if r.Runner == runner && r.Level != "" {
			return d
		}
	}
	machine.Lacks(t, runner, "%s does not work here: %+v", runner, d.Rungs)
	return d
}

func TestOldLandlock(t *testing.T) {
	newest := works(t, "landlock").Landlock
	for abi := 0; abi <= newest; abi++ {
		t.Run(strconv.Itoa(abi), func(t *testing.T) {
			d := diagnoseIn(t, "", nil, abi, fakeABIArg)
			seen := abi
			if abi == 6 {
				seen = 5 // without the fix of signals it counts as one less
			}
			if d.Landlock != seen {
				t.Errorf("taken for ABI %d, want %d", d.Landlock, seen)
			}
			bwrap, landlock := d.Rungs[0], d.Rungs[1]
			if bwrap.Level != "" {
				want := confine.Full
				if abi < 2 {
					want = confine.Partial
				}
				if bwrap.Level != want {
					t.Errorf("bubblewrap is %+v, want %s", bwrap, want)
				}
			}
			if abi < 2 {
				if landlock.State != "unavailable" || landlock.Reason == "" || len(landlock.Improve) == 0 {
					t.Errorf("landlock is %+v, want it unavailable with a reason and advice", landlock)
				}
				return
			}
			missing := strings.Join(landlock.Missing, "\n")
			for what, until := range map[string]int{"metadata": 99, "sockets in the file system": 9, "signals": 6, "abstract sockets": 6, "device ioctls": 5} {
				if got := strings.Contains(missing, what); got != (seen < until) {
					t.Errorf("%q said to be missing: %v", what, got)
				}
			}
			if landlock.Level != confine.Partial {
				t.Errorf("landlock is %+v", landlock)
			}
		})
	}
}

func TestOtherMachines(t *testing.T) {
	root := os.Geteuid() == 0
	own := works(t, "landlock")
	for _, c := range []struct {
		name    string
		root    bool // takes root to make
		attr    *syscall.SysProcAttr
		path    string
		wrapper []string
		runner  string
		level   confine.Level
		says    string // somewhere in the advice or the reasons
	}{
		{"no bwrap", false, nil, "/nonexistent", nil, "landlock", confine.Partial, "install bubblewrap"},
		{"no namespaces", false, nil, "", []string{noNamespaces}, "landlock", confine.Partial, "namespace"},
		{"inside of another confinement", false, nil, "", []string{noNamespaces, noNamespaces}, "landlock", confine.Partial, "namespace"},
		{"a covered /proc", true, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, "", []string{coveredProc}, "bubblewrap", confine.Partial, "/proc"},
		{"root in a container", true, nil, "", []string{containerRoot}, "bubblewrap", confine.Full, ""},
		{"root in a container without namespaces", true, nil, "", []string{containerRoot, noNamespaces}, "landlock", confine.Partial, "namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && !root {
				machine.Lacks(t, machine.Root, "to make such a machine")
			}
			if c.runner == "bubblewrap" && own.Runner != "bubblewrap" {
				machine.Lacks(t, "bubblewrap", "bubblewrap does not work here")
			}
			d := diagnoseIn(t, c.path, c.attr, 0, c.wrapper...)
			if d.Runner != c.runner || d.Level != c.level {
				t.Errorf("used: %s, %s, want %s, %s: %+v", d.Runner, d.Level, c.runner, c.level, d.Rungs)
			}
			text, _ := json.Marshal(d)
			if !strings.Contains(string(text), c.says) || c.level != confine.Full && len(d.Improve) == 0 {
				t.Errorf("nothing about %q in %s", c.says, text)
			}
		})
	}
	t.Run("nothing at all", func(t *testing.T) {
		d := diagnoseIn(t, "/nonexistent", nil, 0, fakeABIArg)
		if d.Runner != "" || d.Level != "" || len(d.Improve) < 2 {
			t.Errorf("%+v", d)
		}
	})
}
