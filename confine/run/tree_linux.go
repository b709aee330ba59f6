package run

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

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
	// A reader of the output that went away must not end this process either,
	// or nobody is left to kill what the command started.
	signal.Notify(make(chan os.Signal, 1), unix.SIGCHLD, unix.SIGPIPE)
	sole.Store(true)
	return nil
}

// killLeft kills what the command left behind, where that can be known: in a
// process that called Sole. It returns how many could not be killed.
func (c *call) killLeft() int {
	if !sole.Load() {
		return 0
	}
	return killAdopted(c.cmd.Process.Pid, c.bwrap.initPID(), killTime, killChild)
}

// initPID is the sandbox's init, 0 if none was heard of. It may have gone.
func (s *bwrapStatus) initPID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// killTime bounds killAdopted: enough for a fork bomb of thousands, too short
// for a call to hang on a process that is stuck in the kernel.
const killTime = 5 * time.Second

// killAdopted kills what descends from this process until leader is its only
// child, or until the time is over, and returns how many are left. The leader
// has ended and is not reaped: that is for Wait to do.
//
// All that is there is killed in each round, not only the children: a process
// whose parent is killed comes here, but until then it goes on forking.
//
// init is the first process of the command's process namespace, 0 for none. It
// is the sandbox's and not the command's, and takes longer to end than a short
// command to run, since it is the last to leave the namespaces. Once it is
// killed and has no children, nothing else is in there and nothing can come:
// then it is not waited for.
func killAdopted(leader, init int, within time.Duration, kill func(pid, parent int)) int {
	deadline := time.Now().Add(within)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		others := descendants(leader)
		if len(others) == 0 {
			return 0
		}
		for pid, parent := range others {
			kill(pid, parent)
		}
		if _, ok := others[init]; ok && len(others) == 1 && len(children(init)) == 0 {
			return 0
		}
		reaped := false
		for pid := range others { // those that are not children say ECHILD
			got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
			reaped = reaped || err == nil && got == pid
		}
		if time.Now().After(deadline) {
			return len(descendants(leader))
		}
		if reaped {
			pause = time.Millisecond / 2
			continue
		}
		time.Sleep(pause)
	}
}

// killChild kills pid if it still is a child of parent, or of this process. Only this process's own
// children keep their number until they are reaped here; that of another may
// be given to a stranger at any moment, so the process is held by a descriptor
// before it is asked for its parent.
func killChild(pid, parent int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if parent == os.Getpid() {
			unix.Kill(pid, unix.SIGKILL)
		}
		return
	}
	defer unix.Close(fd)
	text := contents("/proc/" + strconv.Itoa(pid) + "/status")
	for _, p := range []int{parent, os.Getpid()} { // its parent may have gone meanwhile
		if strings.Contains(text, "\nPPid:\t"+strconv.Itoa(p)+"\n") {
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			return
		}
	}
}

// descendants returns the children of this process but for leader, and theirs,
// each with its parent.
func descendants(leader int) map[int]int {
	found := map[int]int{}
	var add func(parent int)
	add = func(parent int) {
		for _, pid := range children(parent) {
			if _, ok := found[pid]; !ok && pid != leader {
				found[pid] = parent
				add(pid)
			}
		}
	}
	add(os.Getpid())
	return found
}

// children returns the children of all threads of a process
// (proc_pid_task(5)).
func children(of int) []int {
	var pids []int
	dir := "/proc/" + strconv.Itoa(of) + "/task/"
	tasks, _ := os.ReadDir(dir)
	for _, t := range tasks {
		for _, f := range strings.Fields(contents(dir + t.Name() + "/children")) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// contents reads a file of /proc, as far as it can be read. It is called for each
// thread while a command line waits, and os.ReadFile would try to have such a
// file polled first.
func contents(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var text []byte
	for buf := make([]byte, 4096); ; {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return string(text)
		}
		text = append(text, buf[:n]...)
	}
}
