//go:build linux && (amd64 || arm64)

package launch

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

// The system call filter. It is a list of rules, tried from top to bottom; the
// first that matches decides, and a call that none matches is allowed. Each rule
// compiles to a block of classic BPF that leaves the accumulator as it found it,
// holding the call's number, so blocks can be put in any order (Linux,
// "Seccomp BPF", and struct seccomp_data in linux/seccomp.h).
//
// Arguments are compared by their low 32 bits, as the kernel reads the
// arguments concerned: a caller that sets the high bits changes nothing.

// rule denies calls. With arg < 0 it denies all calls in nrs. Otherwise it
// looks at that argument of them, under mask, and denies when the value is one
// of in (allow false) or none of them (allow true).
type rule struct {
	nrs  []uint32
	arg  int
	mask uint32
	in   []uint32
	// allow turns in from a list of what is denied into one of what is not.
	allow bool
	// anyBit denies when any bit of mask is set; in is unused.
	anyBit bool
	// when, if set, leaves a call alone that has none of these bits in the
	// argument whenArg: the mode of open means something only with O_CREAT.
	when    uint32
	whenArg int
	errno   unix.Errno
}

type filter []rule

func calls(e unix.Errno, nrs ...uint32) rule { return rule{nrs: nrs, arg: -1, errno: e} }

func bits(nr uint32, arg int, mask uint32) rule {
	return rule{nrs: []uint32{nr}, arg: arg, mask: mask, anyBit: true, errno: unix.EPERM}
}

func values(nr uint32, arg int, mask uint32, in ...uint32) rule {
	return rule{nrs: []uint32{nr}, arg: arg, mask: mask, in: in, errno: unix.EPERM}
}

// creating denies bits of the mode, in argument mode, of a call that creates
// files only with certain flags, in argument flags.
func creating(nr uint32, flags, mode int) rule {
	r := bits(nr, mode, setIDs)
	r.whenArg, r.when = flags, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY
	return r
}

func only(nr uint32, arg int, in ...uint32) rule {
	return rule{nrs: []uint32{nr}, arg: arg, mask: ^uint32(0), in: in, allow: true, errno: unix.EPERM}
}

const (
	allBits = ^uint32(0)
	// New namespaces. CLONE_NEWTIME shares its bit with clone's exit signal,
	// so only unshare can be asked about it.
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	setIDs = unix.S_ISUID | unix.S_ISGID

	tiocLinux   = 0x541C     // ioctl_console(2): paste and more
	fsSetXAttrs = 0x401c5820 // FS_IOC_FSSETXATTR, linux/fs.h
)

// filterFor returns the rules that spec asks for.
func filterFor(spec confine.LaunchSpec) filter {
	f := filter{
		// A ring does files and sockets past this filter. Libraries fall back
		// when the call does not exist.
		calls(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER),
		// Its flags are behind a pointer, where no filter can look; the C
		// library and Go fall back to clone.
		calls(unix.ENOSYS, unix.SYS_CLONE3),
		// other processes
		calls(unix.EPERM, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PERF_EVENT_OPEN,
			unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES),
		// mounts and namespaces
		calls(unix.EPERM, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
			unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
			unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS),
		bits(unix.SYS_UNSHARE, 0, newNamespaces|unix.CLONE_NEWTIME),
		bits(unix.SYS_CLONE, 0, newNamespaces),
		// the kernel itself
		calls(unix.EPERM, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
			unix.SYS_KEYCTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_INIT_MODULE,
			unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
			unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
			unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
			unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
			unix.SYS_VHANGUP, unix.SYS_FANOTIFY_INIT),
		// System V and POSIX queues: no mount and no Landlock scope sees them
		calls(unix.EPERM, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_MSGSND,
			unix.SYS_SEMGET, unix.SYS_MQ_OPEN),
		// Typing into the user's terminal, and flags on files that were opened
		// for reading only.
		values(unix.SYS_IOCTL, 1, allBits, unix.TIOCSTI, tiocLinux, unix.TIOCSETD, unix.FS_IOC_SETFLAGS, fsSetXAttrs),
		// programs that give their caller another user
		bits(unix.SYS_FCHMOD, 1, setIDs), bits(unix.SYS_FCHMODAT, 2, setIDs), bits(unix.SYS_FCHMODAT2, 2, setIDs),
		bits(unix.SYS_MKNODAT, 2, setIDs), creating(unix.SYS_OPENAT, 2, 3),
		// Its mode is behind a pointer; whoever calls it knows kernels without.
		calls(unix.ENOSYS, unix.SYS_OPENAT2),
		// Limits of other processes: RLIMIT_CPU kills, and no Landlock scope
		// sees that.
		only(unix.SYS_PRLIMIT64, 0, 0),
	}
	families := []uint32{unix.AF_UNIX}
	if spec.Inet {
		families = append(families, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	}
	f = append(f, only(unix.SYS_SOCKET, 0, families...), only(unix.SYS_SOCKETPAIR, 0, unix.AF_UNIX))
	if !spec.Trace {
		f = append(f, calls(unix.EPERM, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV))
	}
	if spec.Alone {
		// Only the command's own priorities: those of others are in reach.
		f = append(f, only(unix.SYS_SETPRIORITY, 0, unix.PRIO_PROCESS), only(unix.SYS_SETPRIORITY, 1, 0),
			only(unix.SYS_IOPRIO_SET, 0, 1), only(unix.SYS_IOPRIO_SET, 1, 0))
	}
	if spec.Landlock > 0 && spec.Landlock < 3 {
		// This Landlock does not see truncation, so its shapes are denied.
		f = append(f, calls(unix.EPERM, unix.SYS_TRUNCATE),
			values(unix.SYS_OPENAT, 2, unix.O_ACCMODE|unix.O_TRUNC, unix.O_RDONLY|unix.O_TRUNC))
	}
	return append(f, archRules(spec)...)
}

// ---- compiling

const (
	loadWord = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpGe   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jumpSet  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	jump     = unix.BPF_JMP | unix.BPF_JA
	and      = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	ret      = unix.BPF_RET | unix.BPF_K

	offNr   = 0 // seccomp_data.nr
	offArch = 4 // seccomp_data.arch
)

// lowWord is the offset of the low half of an argument: both architectures are
// little endian.
func lowWord(arg int) uint32 { return uint32(16 + 8*arg) }

func do(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func test(code uint16, k uint32, yes, no int) unix.SockFilter {
	return unix.SockFilter{Code: code, K: k, Jt: uint8(yes), Jf: uint8(no)}
}

// compile returns the program of f for this architecture.
func (f filter) compile() []unix.SockFilter {
	p := []unix.SockFilter{
		do(loadWord, offArch),
		test(jumpEq, auditArch, 1, 0),
		// A 32-bit call has other numbers, so no rule below would fit it.
		do(ret, unix.SECCOMP_RET_KILL_PROCESS),
		do(loadWord, offNr),
	}
	if x32Bit != 0 {
		p = append(p, test(jumpGe, x32Bit, 0, 1), do(ret, fail(unix.ENOSYS)))
	}
	for _, r := range f {
		p = append(p, r.compile()...)
	}
	return append(p, do(ret, unix.SECCOMP_RET_ALLOW))
}

func (r rule) compile() []unix.SockFilter {
	var p []unix.SockFilter
	if r.arg < 0 {
		// nr == a? nr == b? … none: over the verdict
		n := len(r.nrs)
		for i, nr := range r.nrs {
			p = append(p, test(jumpEq, nr, n-i, 0))
		}
		return append(p, do(jump, 1), do(ret, fail(r.errno)))
	}
	// Denied and passed are the last two ways out of the comparison: the
	// verdict, and the reload that ends the block.
	var compare []unix.SockFilter
	if r.anyBit {
		compare = append(compare, test(jumpSet, r.mask, 0, 1))
	} else {
		compare = append(compare, do(and, r.mask))
		n := len(r.in)
		for i, v := range r.in {
			// Over the rest of the list and one more: the verdict if v is
			// allowed, the jump over the verdict if v is denied.
			compare = append(compare, test(jumpEq, v, n-i, 0))
		}
		if !r.allow {
			compare = append(compare, do(jump, 1))
		}
	}
	body := append([]unix.SockFilter{do(loadWord, lowWord(r.arg))}, compare...)
	body = append(body, do(ret, fail(r.errno)), do(loadWord, offNr))
	if r.when != 0 {
		skip := len(body) - 1 // to the reload
		body = append([]unix.SockFilter{do(loadWord, lowWord(r.whenArg)), test(jumpSet, r.when, 0, skip)}, body...)
	}
	for _, nr := range r.nrs {
		p = append(p, test(jumpEq, nr, 0, len(body)))
		p = append(p, body...)
	}
	return p
}

func fail(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e)&unix.SECCOMP_RET_DATA }

// install puts the filter on this thread, and so on what it executes. It needs
// no_new_privs, and can't be taken back.
func (f filter) install() error {
	p := f.compile()
	if len(p) > unix.BPF_MAXINSNS {
		return errors.New("too long")
	}
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if e != 0 {
		return e
	}
	return nil
}
