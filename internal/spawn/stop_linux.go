package spawn

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stopSelf stops this process by SIGTSTP's default action, and returns when it is
// awake. The kernel does not do that to a process group that is orphaned (POSIX,
// "Definitions"), which SIGSTOP would stop for good. os/signal has no way back to
// the default action of this signal; the thread sends it to itself, so that it
// acts before the call returns.
func stopSelf() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// struct sigaction as rt_sigaction(2) takes it on all architectures that
	// have exec: SIG_DFL is all zeros.
	var plain, before struct {
		handler uintptr
		flags   uint64
		more    [2]uint64
	}
	const set = 8 // bytes in a set of signals
	action := func(to, was unsafe.Pointer) bool {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(to), uintptr(was), set, 0, 0)
		return e == 0
	}
	if action(unsafe.Pointer(&plain), unsafe.Pointer(&before)) {
		unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
		action(unsafe.Pointer(&before), nil)
	}
}
