//go:build linux && (amd64 || arm64)

package launch

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// renameCalls are all that give a file another name.
var renameCalls = append([]uint32{unix.SYS_RENAMEAT2}, archRenames...)

// handOut installs a filter that holds every rename until its listener answers,
// and sends the listener to whoever holds the other end of socket. The answer
// can only be an error, a success for something that was done in its place, or
// to let the kernel decide: what a command may not rename, the kernel refuses by
// itself (seccomp_unotify(2)).
//
// It is a filter of its own, on this thread alone: no other lives past execve.
// Where a filter has a listener already, as in a sandbox of another maker, there
// can be no second one: then nothing is sent, and renames are the kernel's.
func handOut(socket int) error {
	const (
		newListener  = 1 << 3 // SECCOMP_FILTER_FLAG_NEW_LISTENER
		waitKillable = 1 << 5 // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19
	)
	p := []unix.SockFilter{
		do(loadWord, offArch),
		test(jumpEq, auditArch, 1, 0),
		do(ret, unix.SECCOMP_RET_ALLOW), // the other filter kills it
		do(loadWord, offNr),
	}
	for i, nr := range renameCalls {
		p = append(p, test(jumpEq, nr, len(renameCalls)-i, 0))
	}
	p = append(p, do(ret, unix.SECCOMP_RET_ALLOW), do(ret, unix.SECCOMP_RET_USER_NOTIF))
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	install := func(flags uintptr) (int, unix.Errno) {
		fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		return int(fd), e
	}
	fd, e := install(newListener | waitKillable)
	if e == unix.EINVAL { // without the flag a signal makes a call start anew
		fd, e = install(newListener)
	}
	runtime.KeepAlive(p)
	switch {
	case e == unix.EBUSY:
		return nil
	case e != 0:
		return e
	}
	defer unix.Close(fd)
	if err := unix.Sendmsg(socket, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("hand out the listener: %w", err)
	}
	return nil
}
