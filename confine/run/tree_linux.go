package run

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// awaitExit returns when pid has ended, without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return // ended, or reaped by somebody else: Wait will say which
		}
	}
}

// sole says that Sole was called.
var sole atomic.Bool

// Sole says that this process exists to run one command at a time and has no
// other children. From then on it adopts what a command leaves behind, so that
// Run can kill it; lets no descriptor that it was started with reach a command;
// and hears of its children even if whoever started it ignored SIGCHLD, without
// which every exit status is lost. Call it before anything else of this package
// and of package confine.
func Sole() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep inherited descriptors: %w", err)
	}
	// Nobody reads it: a signal that is caught is not ignored, here or in what
	// is executed from here.
	signal.Notify(make(chan os.Signal, 1), unix.SIGCHLD)
	sole.Store(true)
	return nil
}

// killAdopted kills the children of this process until leader is the only one.
// Each may leave children of its own behind, which come here in turn. The
// leader has ended and is not reaped: that is for Wait to do.
func killAdopted(leader int) {
	for {
		others := slices.DeleteFunc(children(), func(pid int) bool { return pid == leader })
		if len(others) == 0 {
			return
		}
		for _, pid := range others {
			unix.Kill(pid, unix.SIGKILL)
		}
		for _, pid := range others {
			for {
				if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
					break
				}
			}
		}
	}
}

// children returns the children of all threads of this process
// (proc_pid_task(5)).
func children() []int {
	var pids []int
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, t := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
