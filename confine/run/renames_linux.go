package run

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Renames of a repository's configuration. git changes it by writing config.lock
// and renaming that over config, and config is a mount that the kernel lets
// nobody rename over. The launcher's filter holds each rename until this process
// has answered: for a configuration that the call may ask about it does the work
// itself, after judging it (confine.Prepared.Propose), and says that it is done.
// Every other call goes on to the kernel, which reads the arguments again; so it
// does not matter that a command can change them meanwhile. Nothing that a
// command says is used but to choose which configuration it means.

// Shapes of seccomp_unotify(2), linux/seccomp.h.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type answer struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

const (
	notifRecv  = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifSend  = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	letThrough = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// openRenames returns this process's end of a RenamePipe and the command's.
func openRenames() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	unix.SetNonblock(pair[1], false)
	return os.NewFile(uintptr(pair[0]), "renames"), os.NewFile(uintptr(pair[1]), "renames"), nil
}

// answerRenames gets the listener from the launcher and answers until no process
// is left that the filter holds.
func (c *call) answerRenames(socket *os.File) {
	conn, err := socket.SyscallConn()
	if err != nil {
		return
	}
	listener, err := -1, error(unix.EAGAIN)
	conn.Read(func(fd uintptr) bool {
		listener, err = receiveListener(int(fd))
		return err != unix.EAGAIN
	})
	if err != nil {
		return
	}
	defer unix.Close(listener)
	configs := map[[2]uint64]string{} // by the identity of their directory
	for _, config := range c.prepared.Configs() {
		var st unix.Stat_t
		if unix.Stat(filepath.Dir(config), &st) == nil {
			configs[[2]uint64{st.Dev, st.Ino}] = filepath.Dir(config)
		}
	}
	over := func() bool {
		select {
		case <-c.exited: // before Linux 5.8 nothing hangs up
			return true
		default:
			return false
		}
	}
	answerCalls(listener, over, func(n notification) answer {
		config := renamed(n, configs)
		if config == "" {
			return answer{flags: letThrough}
		}
		if err := c.prepared.Propose(config); err != nil {
			c.refused = append(c.refused, err)
			return answer{errno: -int32(unix.EPERM)}
		}
		return answer{}
	})
}

// receiveListener receives the one descriptor that somebody sends through socket.
func receiveListener(socket int) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) == 0 {
		return -1, cmp.Or(err, error(unix.ENOMSG))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, cmp.Or(err, error(unix.ENOMSG))
	}
	return fds[0], nil
}

// answerCalls answers each call that a filter's listener holds, until no process
// is left that the filter holds, or over says that nobody waits any more.
func answerCalls(listener int, over func() bool, judge func(notification) answer) {
	for {
		// A listener whose last process has gone hangs up.
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 500)
		if over() {
			return
		}
		if n == 0 && err == nil || err == unix.EINTR {
			continue
		}
		if err != nil || poll[0].Revents&unix.POLLIN == 0 {
			return
		}
		var held notification
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifRecv, uintptr(unsafe.Pointer(&held))); e != 0 {
			if e == unix.EINTR || e == unix.ENOENT { // killed meanwhile
				continue
			}
			return
		}
		a := judge(held)
		a.id = held.id
		unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifSend, uintptr(unsafe.Pointer(&a)))
	}
}

// renamed returns the configuration that a call wants to rename its lock file
// over, "" if it is any other call. What it reads belongs to the command and can
// change at any moment: a wrong answer proposes what the lock file holds, or
// leaves the kernel to refuse.
func renamed(n notification, configs map[[2]uint64]string) string {
	fromDir, from, toDir, to := int32(unix.AT_FDCWD), n.args[0], int32(unix.AT_FDCWD), n.args[1]
	if n.nr != renameNumber {
		fromDir, from, toDir, to = int32(n.args[0]), n.args[1], int32(n.args[2]), n.args[3]
	}
	if n.nr == unix.SYS_RENAMEAT2 && n.args[4] != 0 {
		return "" // an exchange, or only if there is nothing: not what git does
	}
	pid := int(n.pid)
	target := text(pid, to)
	name := filepath.Base(target)
	if name != "config" && name != "config.worktree" {
		return ""
	}
	source := text(pid, from)
	dir := directory(pid, toDir, target, configs)
	if dir == "" || filepath.Base(source) != name+".lock" || directory(pid, fromDir, source, configs) != dir {
		return ""
	}
	return filepath.Join(dir, name)
}

// directory returns the known directory that path, seen by a process, is in.
func directory(pid int, at int32, path string, known map[[2]uint64]string) string {
	proc := "/proc/" + strconv.Itoa(pid)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY}
	start := proc + "/cwd"
	switch {
	case filepath.IsAbs(path):
		start, how.Resolve = proc+"/root", unix.RESOLVE_IN_ROOT
	case at != unix.AT_FDCWD:
		start = proc + "/fd/" + strconv.Itoa(int(at))
	}
	base, err := unix.Open(start, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(base)
	fd, err := unix.Openat2(base, filepath.Dir(path), &how)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return ""
	}
	return known[[2]uint64{st.Dev, st.Ino}]
}

// text reads a path from a process's memory.
func text(pid int, at uint64) string {
	buf := make([]byte, unix.PathMax)
	read := 0
	for read < len(buf) {
		// Page by page: the path may end right before one that is not there.
		n := min(len(buf)-read, int(4096-(at+uint64(read))%4096))
		local := []unix.Iovec{{Base: &buf[read]}}
		local[0].SetLen(n)
		got, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at) + uintptr(read), Len: n}}, 0)
		if err != nil || got <= 0 {
			break
		}
		if i := bytes.IndexByte(buf[read:read+got], 0); i >= 0 {
			return string(buf[:read+i])
		}
		read += got
	}
	return ""
}
