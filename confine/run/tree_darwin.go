package run

import (
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// awaitExit returns when pid has ended, without reaping it: kqueue tells of it
// (kevent(2), EVFILT_PROC). Returning too early would kill the command, so only
// two answers count: that it has ended, and that there is no such process any
// more but one to be reaped. Anything else, no descriptor to be had for one, is
// tried again.
func awaitExit(pid int) {
	for !exited(pid) {
		time.Sleep(50 * time.Millisecond)
	}
}

// exited waits for pid and says whether it has ended; false is not known.
func exited(pid int) bool {
	queue, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	watch := make([]unix.Kevent_t, 1)
	unix.SetKevent(&watch[0], pid, unix.EVFILT_PROC, unix.EV_ADD)
	watch[0].Fflags = unix.NOTE_EXIT
	if _, err := unix.Kevent(queue, watch, nil, nil); err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	event := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, nil, event, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 1 && event[0].Fflags&unix.NOTE_EXIT != 0
	}
}

// Sole says that this process exists to run one command at a time. Here it only
// hears of its children even if whoever started it ignored SIGCHLD, and outlives
// a reader of its output: what leaves the command's process group can't be found
// again on this system, which the seatbelt rung's report says. Call it before
// anything else of this package.
func Sole() error {
	signal.Notify(make(chan os.Signal, 1), unix.SIGCHLD, unix.SIGPIPE)
	return nil
}

// killLeft knows of nothing: only the group was killed.
func (c *call) killLeft() int { return 0 }

// openRenames is not called: no rung of this system has a RenamePipe.
func openRenames() (ours, theirs *os.File, err error) { return nil, nil, errors.ErrUnsupported }

// answerRenames is not called, either.
func (c *call) answerRenames(*os.File) {}
