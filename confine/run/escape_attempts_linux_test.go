//go:build linux && (amd64 || arm64)

package run_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The attempts to get out. Each does one thing inside, by the system calls
// themselves; whether it got out is decided by what is seen outside, or, where
// nothing could be seen there, by whether the call succeeded.

// targets is what an attempt is told, as JSON.
type targets struct {
	Self                       string // this program
	Work, Out, Home            string
	Tmp                        string // another program's file in /tmp
	Socket, Datagram, Abstract string
	Victim, Parent             int
	TCP, UDP                   int
	Shm                        int
	Terminal                   string // another terminal
	Fd                         int
	Disk                       uint64
}

// attempt is one way out.
type attempt struct {
	name, kind string
	try        func(*targets) error
	seen       func(*scene) bool  // nil: success is enough
	before     func(*scene) error // what an earlier command left
	fd         string             // an inherited descriptor: "w", "r" (a file outside) or "d" (its directory)
	terminal   bool               // stdin is a terminal
	ownNet     bool               // success in a network of its own is none
	root       bool               // only uid 0 could do it
	user       bool               // only an ordinary user has anything to gain
	apart      bool               // made from a process of its own, which kills all that descends from it
}

var errNothing = errors.New("nothing there")

func write(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("ESCAPED\n"))
	return err
}

func opens(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func call(nr uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	_, _, e := unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
	if e != 0 {
		return e
	}
	return nil
}

func socketOf(domain, typ, protocol int) error {
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// withSocket calls do with a socket.
func withSocket(domain, typ, protocol int, do func(fd int) error) error {
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

func loopback(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func ofVictim(name string) func(*targets) string {
	return func(t *targets) string { return fmt.Sprintf("/proc/%d/%s", t.Victim, name) }
}

// again runs this program once more with other attributes, as a step of an
// attempt.
func again(t *targets, step string, attr *syscall.SysProcAttr) error {
	cmd := exec.Command(t.Self, escapeStepArg, step, t.Out)
	cmd.SysProcAttr = attr
	return cmd.Run()
}

// step is what again runs.
func step(name, out string) error {
	switch name {
	case "nothing":
		return nil
	case "uid 0":
		if os.Geteuid() != 0 {
			return unix.EPERM
		}
		return nil
	case "remount":
		unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err := unix.Mount(out, out, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		unix.Mount("", out, "", unix.MS_BIND|unix.MS_REMOUNT, "")
		return write(out+"/file", unix.O_WRONLY)
	}
	return errNothing
}

func userNamespace(more uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | more,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
}

var attempts = []attempt{
	// files outside
	{name: "fs-create", kind: "fs", try: func(t *targets) error { return write(t.Out+"/new", unix.O_CREAT|unix.O_WRONLY) }, seen: made("new")},
	{name: "fs-write", kind: "fs", try: func(t *targets) error { return write(t.Out+"/file", unix.O_WRONLY) }, seen: changed},
	{name: "fs-truncating-open", kind: "fs", try: func(t *targets) error { return write(t.Out+"/file", unix.O_WRONLY|unix.O_TRUNC) }, seen: changed},
	{name: "fs-truncating-read-only-open", kind: "fs", try: func(t *targets) error { return opens(t.Out+"/file", unix.O_RDONLY|unix.O_TRUNC) }, seen: changed},
	{name: "fs-truncate", kind: "fs", try: func(t *targets) error { return unix.Truncate(t.Out+"/file", 0) }, seen: changed},
	{name: "fs-rename-out", kind: "fs", try: func(t *targets) error { return unix.Rename(t.Work+"/a", t.Out+"/new") }, seen: made("new")},
	{name: "fs-rename-in", kind: "fs", try: func(t *targets) error { return unix.Rename(t.Out+"/file", t.Work+"/stolen") }, seen: changed},
	{name: "fs-rename-exchange", kind: "fs", try: func(t *targets) error {
		return unix.Renameat2(unix.AT_FDCWD, t.Work+"/a", unix.AT_FDCWD, t.Out+"/file", unix.RENAME_EXCHANGE)
	}, seen: changed},
	{name: "fs-link-out", kind: "fs", try: func(t *targets) error { return unix.Link(t.Work+"/a", t.Out+"/new") }, seen: made("new")},
	{name: "fs-link-in", kind: "fs", try: func(t *targets) error {
		if err := unix.Link(t.Out+"/file", t.Work+"/alias"); err != nil {
			return err
		}
		return write(t.Work+"/alias", unix.O_WRONLY)
	}, seen: changed},
	{name: "fs-hard-link-before", kind: "fs", before: func(s *scene) error { return os.Link(s.t.Out+"/file", s.t.Work+"/before") },
		try: func(t *targets) error { return write(t.Work+"/before", unix.O_WRONLY) }, seen: changed},
	{name: "fs-symlink-file", kind: "fs", try: func(t *targets) error {
		unix.Symlink(t.Out+"/file", t.Work+"/s")
		return write(t.Work+"/s", unix.O_WRONLY)
	}, seen: changed},
	{name: "fs-symlink-dir", kind: "fs", try: func(t *targets) error {
		unix.Symlink(t.Out, t.Work+"/d")
		return write(t.Work+"/d/new", unix.O_CREAT|unix.O_WRONLY)
	}, seen: made("new")},
	{name: "fs-symlink-race", kind: "fs", try: func(t *targets) error {
		os.Mkdir(t.Work+"/r", 0o755)
		os.WriteFile(t.Work+"/r/file", nil, 0o644)
		os.Symlink(t.Out, t.Work+"/l")
		done := make(chan bool)
		go func() {
			for range 3000 {
				unix.Renameat2(unix.AT_FDCWD, t.Work+"/r", unix.AT_FDCWD, t.Work+"/l", unix.RENAME_EXCHANGE)
			}
			close(done)
		}()
		for {
			select {
			case <-done:
				return nil
			default:
				write(t.Work+"/r/file", unix.O_WRONLY)
			}
		}
	}, seen: changed},
	{name: "fs-unlink", kind: "fs", try: func(t *targets) error { return unix.Unlink(t.Out + "/file") }, seen: changed},
	{name: "fs-rmdir", kind: "fs", try: func(t *targets) error { return unix.Rmdir(t.Out + "/dir") }, seen: func(s *scene) bool {
		_, err := os.Lstat(s.t.Out + "/dir")
		return err != nil
	}},
	{name: "fs-mkdir", kind: "fs", try: func(t *targets) error { return unix.Mkdir(t.Out+"/new", 0o755) }, seen: made("new")},
	{name: "fs-symlink", kind: "fs", try: func(t *targets) error { return unix.Symlink("/etc/passwd", t.Out+"/new") }, seen: made("new")},
	{name: "fs-fifo", kind: "fs", try: func(t *targets) error { return unix.Mknod(t.Out+"/new", unix.S_IFIFO|0o644, 0) }, seen: made("new")},
	{name: "fs-socket", kind: "fs", try: func(t *targets) error {
		return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Bind(fd, &unix.SockaddrUnix{Name: t.Out + "/new"}) })
	}, seen: made("new")},
	{name: "fs-device", kind: "fs", root: true, try: func(t *targets) error {
		if err := unix.Mknod(t.Work+"/disk", unix.S_IFBLK|0o600, int(t.Disk)); err != nil {
			return err
		}
		return opens(t.Work+"/disk", unix.O_RDWR)
	}},
	{name: "fs-unnamed-file", kind: "fs", try: func(t *targets) error {
		fd, err := unix.Open(t.Work, unix.O_TMPFILE|unix.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, t.Out+"/new", unix.AT_SYMLINK_FOLLOW)
	}, seen: made("new")},
	// their metadata
	{name: "meta-chmod", kind: "meta", try: func(t *targets) error { return unix.Chmod(t.Out+"/file", 0o600) }},
	{name: "meta-chown", kind: "meta", try: func(t *targets) error { return unix.Chown(t.Out+"/file", os.Getuid(), os.Getgid()) }},
	{name: "meta-times", kind: "meta", try: func(t *targets) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, t.Out+"/file", []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
	}},
	{name: "meta-xattr", kind: "meta", try: func(t *targets) error { return unix.Setxattr(t.Out+"/file", "user.escape", []byte("1"), 0) }},
	{name: "meta-flags", kind: "meta", try: func(t *targets) error {
		fd, err := unix.Open(t.Out+"/file", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x40)
	}},
	// inherited descriptors
	{name: "fd-write", kind: "fd", fd: "w", try: func(t *targets) error { _, err := unix.Write(t.Fd, []byte("ESCAPED\n")); return err }, seen: changed},
	{name: "fd-reopen", kind: "fd", fd: "r", try: func(t *targets) error { return write(fmt.Sprint("/proc/self/fd/", t.Fd), unix.O_WRONLY) }, seen: changed},
	{name: "fd-directory", kind: "fd", fd: "d", try: func(t *targets) error {
		_, err := unix.Openat(t.Fd, "new", unix.O_CREAT|unix.O_WRONLY, 0o644)
		return err
	}, seen: made("new")},
	{name: "fd-fchdir", kind: "fd", fd: "d", try: func(t *targets) error {
		if err := unix.Fchdir(t.Fd); err != nil {
			return err
		}
		return write("./new", unix.O_CREAT|unix.O_WRONLY)
	}, seen: made("new")},
	// other processes
	{name: "proc-mem", kind: "proc", try: func(t *targets) error { return opens(ofVictim("mem")(t), unix.O_RDWR) }},
	{name: "proc-mem-read", kind: "proc", try: func(t *targets) error { return opens(ofVictim("mem")(t), unix.O_RDONLY) }},
	{name: "proc-root", kind: "proc", try: func(t *targets) error { return write(ofVictim("root")(t)+t.Out+"/file", unix.O_WRONLY) }, seen: changed},
	{name: "proc-cwd", kind: "proc", try: func(t *targets) error { return write(ofVictim("cwd/file")(t), unix.O_WRONLY) }, seen: changed},
	{name: "proc-fd", kind: "proc", try: func(t *targets) error { return write(ofVictim("fd/3")(t), unix.O_WRONLY) }, seen: changed},
	{name: "proc-environ", kind: "proc", try: func(t *targets) error { return holds(ofVictim("environ")(t), "VICTIMS_SECRET") }},
	{name: "proc-cmdline", kind: "proc", try: func(t *targets) error { return holds(ofVictim("cmdline")(t), victimArg) }},
	{name: "proc-ptrace", kind: "proc", try: func(t *targets) error {
		err := unix.PtraceAttach(t.Victim)
		if err == nil {
			var ws unix.WaitStatus
			unix.Wait4(t.Victim, &ws, 0, nil)
			unix.PtraceDetach(t.Victim)
		}
		return err
	}},
	{name: "proc-vm-read", kind: "proc", try: func(t *targets) error {
		b := make([]byte, 1)
		_, err := unix.ProcessVMReadv(t.Victim, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: uintptr(0x400000), Len: 1}}, 0)
		if err == unix.EFAULT {
			return nil // it got as far as the victim's memory
		}
		return err
	}},
	{name: "proc-getfd", kind: "proc", try: func(t *targets) error {
		p, err := unix.PidfdOpen(t.Victim, 0)
		if err != nil {
			return err
		}
		fd, err := unix.PidfdGetfd(p, 3, 0)
		if err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte("ESCAPED\n"))
		return err
	}, seen: changed},
	{name: "proc-kill", kind: "proc", try: func(t *targets) error { return unix.Kill(t.Victim, unix.SIGKILL) }, apart: true, seen: (*scene).victimDead},
	{name: "proc-pidfd-signal", kind: "proc", try: func(t *targets) error {
		p, err := unix.PidfdOpen(t.Victim, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(p, unix.SIGKILL, nil, 0)
	}, apart: true, seen: (*scene).victimDead},
	{name: "proc-sigio", kind: "proc", try: func(t *targets) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, t.Victim); err != nil {
			return err
		}
		unix.FcntlInt(uintptr(fds[0]), 10 /* F_SETSIG */, int(unix.SIGKILL))
		if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_RDWR); err != nil {
			return err
		}
		_, err = unix.Write(fds[1], []byte("x"))
		return err
	}, apart: true, seen: (*scene).victimDead},
	{name: "proc-signal-parent", kind: "proc", try: func(t *targets) error { return unix.Kill(t.Parent, unix.SIGURG) }},
	{name: "proc-limits", kind: "proc", try: func(t *targets) error {
		return unix.Prlimit(t.Victim, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}, nil)
	}},
	{name: "proc-priority", kind: "proc", try: func(t *targets) error { return unix.Setpriority(unix.PRIO_PROCESS, t.Victim, 19) }},
	{name: "proc-affinity", kind: "proc", try: func(t *targets) error {
		var s unix.CPUSet
		s.Set(0)
		return unix.SchedSetaffinity(t.Victim, &s)
	}},
	{name: "proc-setns", kind: "proc", root: true, try: func(t *targets) error {
		fd, err := unix.Open(ofVictim("ns/mnt")(t), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		unix.Unshare(unix.CLONE_FS)
		return unix.Setns(fd, unix.CLONE_NEWNS)
	}},
	{name: "proc-runner", kind: "proc", try: func(t *targets) error { return opens("/proc/1/exe", unix.O_WRONLY) }},
	// sockets, queues, shared memory
	{name: "ipc-abstract", kind: "ipc", try: func(t *targets) error { return connect("@" + t.Abstract) }},
	{name: "ipc-socket", kind: "ipc", try: func(t *targets) error { return connect(t.Socket) }},
	{name: "ipc-datagram", kind: "ipc", try: func(t *targets) error {
		return withSocket(unix.AF_UNIX, unix.SOCK_DGRAM, 0, func(fd int) error {
			return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: t.Datagram})
		})
	}},
	{name: "ipc-pair", kind: "ipc", try: func(t *targets) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: t.Datagram})
	}},
	{name: "ipc-shared-memory", kind: "ipc", try: func(t *targets) error {
		b, err := unix.SysvShmAttach(t.Shm, 0, 0)
		if err != nil {
			return err
		}
		b[0] = 'E'
		return nil
	}, seen: func(s *scene) bool { return s.shm[0] == 'E' }},
	{name: "ipc-dev-shm", kind: "ipc", try: func(t *targets) error {
		return write(fmt.Sprint("/dev/shm/guardproxy-escape-", t.Victim), unix.O_CREAT|unix.O_WRONLY)
	}, seen: func(s *scene) bool {
		path := fmt.Sprint("/dev/shm/guardproxy-escape-", s.t.Victim)
		defer os.Remove(path)
		_, err := os.Lstat(path)
		return err == nil
	}},
	{name: "ipc-tmp", kind: "ipc", try: func(t *targets) error { return write(t.Tmp, unix.O_WRONLY) }, seen: func(s *scene) bool {
		text, _ := os.ReadFile(s.t.Tmp)
		return string(text) != "original\n"
	}},
	{name: "ipc-terminal", kind: "ipc", try: func(t *targets) error { return write(t.Terminal, unix.O_WRONLY|unix.O_NOCTTY) }, seen: func(s *scene) bool {
		return strings.Contains(drain(s.other), "ESCAPED")
	}},
	{name: "ipc-keyring", kind: "ipc", try: func(t *targets) error {
		id, err := unix.AddKey("user", "guardproxy-escape", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		if err == nil {
			unix.KeyctlInt(unix.KEYCTL_REVOKE, id, 0, 0, 0)
		}
		return err
	}},
	{name: "ipc-queue", kind: "ipc", try: func(t *targets) error {
		name, _ := unix.BytePtrFromString(fmt.Sprint("guardproxy-escape-", t.Victim))
		err := call(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0)
		if err == nil {
			call(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)))
		}
		return err
	}},
	// the network
	{name: "net-connect", kind: "net", try: func(t *targets) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Connect(fd, loopback(t.TCP)) })
	}},
	{name: "net-listen", kind: "net", ownNet: true, try: func(t *targets) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Listen(fd, 1) })
	}},
	{name: "net-fast-open", kind: "net", ownNet: true, try: func(t *targets) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, loopback(t.TCP))
		})
	}},
	{name: "net-multipath", kind: "net", ownNet: true, try: func(t *targets) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, func(fd int) error { return unix.Connect(fd, loopback(t.TCP)) })
	}},
	{name: "net-datagram", kind: "net", try: func(t *targets) error {
		c, err := net.Dial("udp", fmt.Sprint("127.0.0.1:", t.UDP))
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("x"))
		return err
	}, seen: func(s *scene) bool { return s.datagramCame() }},
	{name: "net-netlink", kind: "net", ownNet: true, try: func(*targets) error { return socketOf(unix.AF_NETLINK, unix.SOCK_RAW, 0) }},
	{name: "net-packet", kind: "net", root: true, ownNet: true, try: func(*targets) error { return socketOf(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{name: "net-vsock", kind: "net", try: func(*targets) error { return socketOf(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{name: "net-crypto", kind: "net", try: func(*targets) error { return socketOf(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
	{name: "net-32-bit", kind: "net", ownNet: true, try: func(*targets) error { return socket32() }},
	// terminals
	{name: "tty-type", kind: "tty", terminal: true, try: func(*targets) error { return typeInto(unix.TIOCSTI) }, seen: (*scene).typed},
	{name: "tty-type-high-bits", kind: "tty", terminal: true, try: func(*targets) error { return typeInto(unix.TIOCSTI | 1<<32) }, seen: (*scene).typed},
	// the kernel
	{name: "kernel-ring", kind: "kernel", try: func(*targets) error {
		var params [120]byte
		return call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)))
	}},
	{name: "kernel-handle", kind: "kernel", root: true, try: func(t *targets) error {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, t.Out+"/file", 0)
		if err != nil {
			return err
		}
		dir, err := unix.Open(t.Work, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		fd, err := unix.OpenByHandleAt(dir, h, unix.O_WRONLY)
		if err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte("ESCAPED\n"))
		return err
	}, seen: changed},
	{name: "kernel-mount", kind: "kernel", root: true, try: func(t *targets) error { return unix.Mount("t", t.Work, "tmpfs", 0, "") }},
	{name: "kernel-remount", kind: "kernel", try: func(t *targets) error {
		text, _ := os.ReadFile("/proc/self/mountinfo")
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 4 && (f[4] == "/" || strings.HasPrefix(t.Out, f[4]+"/")) {
				unix.Mount("", f[4], "", unix.MS_BIND|unix.MS_REMOUNT, "")
			}
		}
		return write(t.Out+"/file", unix.O_WRONLY)
	}, seen: changed},
	{name: "kernel-unmount", kind: "kernel", root: true, try: func(*targets) error { return unix.Unmount("/dev/shm", unix.MNT_DETACH) }},
	{name: "kernel-new-mount-api", kind: "kernel", root: true, try: func(*targets) error {
		fd, err := unix.Fsopen("tmpfs", 0)
		unix.Close(fd)
		return err
	}},
	{name: "kernel-user-namespace", kind: "kernel", try: func(t *targets) error { return again(t, "nothing", userNamespace(0)) }},
	{name: "kernel-namespace-remount", kind: "kernel", try: func(t *targets) error { return again(t, "remount", userNamespace(unix.CLONE_NEWNS)) }, seen: changed},
	{name: "kernel-clone3", kind: "kernel", try: func(*targets) error {
		// flags, and so on: all zero but CLONE_NEWUSER
		args := [11]uint64{unix.CLONE_NEWUSER}
		pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		if e != 0 {
			return e
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
		return nil
	}},
	{name: "kernel-chroot", kind: "kernel", root: true, try: func(t *targets) error { return unix.Chroot(t.Work) }},
	{name: "kernel-set-user-id", kind: "kernel", try: func(t *targets) error { return unix.Chmod(t.Work+"/a", 0o4755) }},
	{name: "kernel-become-root", kind: "kernel", user: true, try: func(*targets) error { return unix.Setuid(0) }},
	{name: "kernel-bpf", kind: "kernel", try: func(*targets) error {
		attr := [16]uint32{2 /* array */, 4, 4, 1}
		return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	}},
	{name: "kernel-userfault", kind: "kernel", try: func(*targets) error { return call(unix.SYS_USERFAULTFD, 1) }},
	{name: "kernel-perf", kind: "kernel", try: func(*targets) error {
		a := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel}
		_, err := unix.PerfEventOpen(&a, 0, -1, -1, 0)
		return err
	}},
	{name: "kernel-module", kind: "kernel", root: true, try: func(*targets) error {
		if err := call(unix.SYS_INIT_MODULE); err == unix.EFAULT || err == unix.ENOEXEC || err == unix.EINVAL {
			return nil // it got as far as reading one
		} else {
			return err
		}
	}},
	{name: "kernel-hostname", kind: "kernel", root: true, try: func(*targets) error {
		name, _ := os.Hostname()
		return unix.Sethostname([]byte(name))
	}},
	{name: "kernel-core-pattern", kind: "kernel", root: true, try: func(*targets) error { return opens("/proc/sys/kernel/core_pattern", unix.O_WRONLY) }},
	{name: "kernel-sysrq", kind: "kernel", root: true, try: func(*targets) error { return opens("/proc/sysrq-trigger", unix.O_WRONLY) }},
	{name: "kernel-sysfs", kind: "kernel", root: true, try: func(*targets) error { return opens("/sys/kernel/mm/transparent_hugepage/enabled", unix.O_WRONLY) }},
	{name: "kernel-cgroup", kind: "kernel", root: true, try: func(*targets) error {
		for _, f := range []string{"/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"} {
			if _, err := os.Stat(f); err == nil {
				return opens(f, unix.O_WRONLY)
			}
		}
		return errNothing
	}},
	{name: "kernel-disk", kind: "kernel", root: true, try: func(*targets) error {
		disks, _ := filepath.Glob("/dev/[vs]da")
		for _, d := range disks {
			return opens(d, unix.O_RDWR)
		}
		return errNothing
	}},
	{name: "kernel-log", kind: "kernel", root: true, try: func(*targets) error { return opens("/dev/kmsg", unix.O_WRONLY) }},
	// secrets
	{name: "secret-key", kind: "secret", try: func(t *targets) error { return holds(t.Home+"/.ssh/id_rsa", "KEY") }},
	{name: "secret-own", kind: "secret", try: func(t *targets) error { return holds(filepath.Dir(t.Out)+"/own/secret", "the secret") }},
	{name: "secret-environment", kind: "secret", try: func(*targets) error {
		for _, name := range []string{"ANTHROPIC_API_KEY", "SOME_TOKEN", "SSH_AUTH_SOCK", "BASH_ENV", "NODE_OPTIONS", "GIT_SSH_COMMAND"} {
			if os.Getenv(name) != "" {
				return nil
			}
		}
		return errNothing
	}},
	// what runs later
	{name: "ws-hook", kind: "workspace", try: func(t *targets) error { return write(t.Work+"/.git/hooks/pre-commit", unix.O_CREAT|unix.O_WRONLY) }, seen: left(".git/hooks/pre-commit")},
	{name: "ws-config", kind: "workspace", try: func(t *targets) error { return appendTo(t.Work+"/.git/config", "[core]\n\tfsmonitor = x\n") }, seen: configured},
	{name: "ws-config-rename", kind: "workspace", try: func(t *targets) error {
		os.WriteFile(t.Work+"/.git/config.lock", []byte("[core]\n\thooksPath = x\n"), 0o644)
		return unix.Rename(t.Work+"/.git/config.lock", t.Work+"/.git/config")
	}, seen: configured},
	{name: "ws-config-race", kind: "workspace", try: func(t *targets) error {
		// The lock file says one thing and another by turns, while renames are
		// asked for; and the path that is asked for changes.
		os.WriteFile(t.Work+"/.git/good", []byte("[core]\n\tbare = false\n"), 0o644)
		os.WriteFile(t.Work+"/.git/evil", []byte("[core]\n\thooksPath = x\n"), 0o644)
		done := make(chan bool)
		go func() {
			for i := range 400 {
				name := []string{"good", "evil"}[i%2]
				unix.Unlink(t.Work + "/.git/config.lock")
				unix.Link(t.Work+"/.git/"+name, t.Work+"/.git/config.lock")
			}
			close(done)
		}()
		for {
			select {
			case <-done:
				return nil
			default:
				unix.Rename(t.Work+"/.git/config.lock", t.Work+"/.git/config")
			}
		}
	}, seen: configured},
	{name: "ws-repository-swap", kind: "workspace", try: func(t *targets) error {
		if err := unix.Rename(t.Work+"/.git", t.Work+"/.git2"); err != nil {
			return err
		}
		os.MkdirAll(t.Work+"/.git/hooks", 0o755)
		return write(t.Work+"/.git/hooks/pre-commit", unix.O_CREAT|unix.O_WRONLY)
	}, seen: left(".git/hooks/pre-commit")},
	{name: "ws-common-dir", kind: "workspace", try: func(t *targets) error {
		os.MkdirAll(t.Work+"/evil/hooks", 0o755)
		return os.WriteFile(t.Work+"/.git/commondir", []byte("../evil\n"), 0o644)
	}, seen: left(".git/commondir")},
	{name: "ws-module-hook", kind: "workspace", try: func(t *targets) error {
		os.MkdirAll(t.Work+"/.git/modules/x/hooks", 0o755)
		return write(t.Work+"/.git/modules/x/hooks/post-checkout", unix.O_CREAT|unix.O_WRONLY)
	}, seen: left(".git/modules/x/hooks/post-checkout")},
	{name: "ws-tasks", kind: "workspace", try: func(t *targets) error {
		os.MkdirAll(t.Work+"/.vscode", 0o755)
		return write(t.Work+"/.vscode/tasks.json", unix.O_CREAT|unix.O_WRONLY)
	}, seen: left(".vscode/tasks.json")},
	{name: "ws-envrc", kind: "workspace", try: func(t *targets) error { return write(t.Work+"/.envrc", unix.O_CREAT|unix.O_WRONLY) }, seen: left(".envrc")},
	{name: "ws-agent-settings", kind: "workspace", before: func(s *scene) error {
		os.Mkdir(s.t.Work+"/.claude", 0o755)
		return os.WriteFile(s.t.Work+"/.claude/settings.json", []byte("{}\n"), 0o644)
	}, try: func(t *targets) error {
		unix.Rename(t.Work+"/.claude", t.Work+"/.claude2")
		os.Mkdir(t.Work+"/.claude", 0o755)
		return write(t.Work+"/.claude/settings.json", unix.O_CREAT|unix.O_WRONLY)
	}, seen: func(s *scene) bool {
		text, _ := os.ReadFile(s.t.Work + "/.claude/settings.json")
		return string(text) != "{}\n"
	}},
	{name: "ws-repository-link", kind: "workspace", before: func(s *scene) error {
		os.RemoveAll(s.t.Work + "/.git")
		return os.Symlink(s.t.Out, s.t.Work+"/.git")
	}, try: func(t *targets) error { return write(t.Out+"/file", unix.O_WRONLY) }, seen: changed},
	// what stays
	{name: "life-daemon", kind: "life", apart: true, try: func(t *targets) error {
		cmd := exec.Command("/bin/sh", "-c", "exec 9>alive; echo up; exec >&-; sleep 1000")
		cmd.Dir = t.Work
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		up, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		_, err = up.Read(make([]byte, 3))
		return err
	}, seen: func(s *scene) bool { return s.daemonLives() }},
}

func connect(name string) error {
	return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: name}) })
}

func holds(path, text string) error {
	got, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(got), text) {
		err = errNothing
	}
	return err
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func typeInto(request uintptr) error {
	c := byte('#')
	return call(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&c)))
}

func drain(f *os.File) string {
	buf := make([]byte, 256)
	f.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, _ := f.Read(buf)
	return string(buf[:n])
}
