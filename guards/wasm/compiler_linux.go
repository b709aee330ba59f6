package wasm

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitCompiler bounds the process's memory, processor time and files. The
// address space counts what the Go runtime has reserved, so the limit is put
// above what is mapped now.
func limitCompiler(bounds compileLimits) error {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(b), " ")
	pages, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return fmt.Errorf("read /proc/self/statm: %w", err)
	}
	seconds := uint64((bounds.time + time.Second - 1) / time.Second)
	for _, l := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_AS, pages*uint64(os.Getpagesize()) + bounds.memory},
		{unix.RLIMIT_CPU, seconds},
		{unix.RLIMIT_FSIZE, maxEntry},
		{unix.RLIMIT_CORE, 0},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("set resource limit %d: %w", l.resource, err)
		}
	}
	// Whoever is served meanwhile goes first. It is a courtesy: a sandbox may
	// not know the call.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 10)
	return nil
}

// bindToParent lets the kernel kill the compiler when its parent dies.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// waitFactor times its processor time is how long a compiler may take.
const waitFactor = 4

// outOfTime says whether the kernel ended a process for its processor time. At
// a hard limit it kills, and says no more than that.
func outOfTime(s *os.ProcessState, most time.Duration) bool {
	if s == nil {
		return false
	}
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && s.UserTime()+s.SystemTime() >= most*9/10
}

// selfPath is this very executable, even if another one has taken its name.
func selfPath() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}
