package wasm

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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
	// At the first limit of time the process can say what ends it; at the second,
	// a second later, the kernel kills it.
	spent := make(chan os.Signal, 1)
	signal.Notify(spent, unix.SIGXCPU)
	go func() {
		<-spent
		os.Exit(exitTime)
	}()
	memory := pages*uint64(os.Getpagesize()) + bounds.memory
	seconds := uint64((bounds.time + time.Second - 1) / time.Second)
	for _, l := range []struct {
		resource   int
		soft, hard uint64
	}{
		{unix.RLIMIT_AS, memory, memory},
		{unix.RLIMIT_CPU, seconds, seconds + 1},
		{unix.RLIMIT_FSIZE, maxEntry, maxEntry},
		{unix.RLIMIT_CORE, 0, 0},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.soft, Max: l.hard}); err != nil {
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

// outOfTime says whether a process ended for its processor time. Killed at the
// hard limit it can't say so; the kernel counts the limit in ticks, and what it
// reports afterwards may be less.
func outOfTime(s *os.ProcessState, most time.Duration) bool {
	if s == nil {
		return false
	}
	status, ok := s.Sys().(syscall.WaitStatus)
	return s.ExitCode() == exitTime || ok && status.Signaled() && s.UserTime()+s.SystemTime() >= most/2
}

// selfPath is this very executable, even if another one has taken its name.
func selfPath() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}
