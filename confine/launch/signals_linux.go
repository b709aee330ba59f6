//go:build linux && (amd64 || arm64)

package launch

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is struct sigaction as rt_sigaction(2) takes it on both architectures.
type action struct {
	handler  uintptr // 0 is SIG_DFL, 1 SIG_IGN
	flags    uint64
	restorer uintptr
	mask     uint64
}

// dieAsCommand gives the signals that are passed on to a command their default
// actions in this process, too, as execve is about to do: from "ready" on it is
// taken for the command, and Go would print its goroutines at SIGQUIT, and
// swallow SIGUSR1. What is ignored stays so.
func dieAsCommand() {
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2} {
		var now, plain action
		if sigaction(s, nil, &now) && now.handler > 1 {
			sigaction(s, &plain, nil)
		}
	}
}

func sigaction(s unix.Signal, set, was *action) bool {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(was)), unsafe.Sizeof(set.mask), 0, 0)
	return e == 0
}
