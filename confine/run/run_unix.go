//go:build linux || darwin

package run

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/guardproxy/guardproxy/confine"
)

// Run runs p to its end and returns how it ended, or an error if the command
// did not run: [*Failure], or that of ctx. It does not close p.
func Run(ctx context.Context, p confine.Prepared, o Options) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{ExitCode: -1}, err
	}
	if _, file := o.Stdin.(*os.File); p.Unproven() && o.Stdin != nil && !file {
		// What was read from it for a runner that fails would be lost.
		return Result{ExitCode: -1}, errors.New("the stdin of an unproven command must be a file")
	}
	c := &call{prepared: p, exited: make(chan struct{}), done: make(chan struct{})}
	c.launcher.word = p.Ready()
	c.launcher.atReady, c.launcher.atEnd = make(chan struct{}), make(chan struct{})
	// A runner that fails may be followed by another: only the last one speaks.
	h := &held{to: o.Stderr, ready: c.launcher.atReady, over: c.launcher.atEnd}
	if h.to == nil {
		h.to = io.Discard
	}
	if o.Stdout != nil && interfaceEqual(o.Stdout, o.Stderr) {
		o.Stdout = h
	}
	o.Stderr = h
	var notReady <-chan time.Time
	if p.Unproven() {
		limit, stop := readyLimit()
		defer stop()
		notReady = limit
	}
	var l lost
	c.cmd = exec.Command(p.Argv[0], p.Argv[1:]...)
	c.cmd.Env, c.cmd.Dir = p.Env, p.Dir
	c.cmd.Stdin = o.Stdin
	c.cmd.Stdout, c.cmd.Stderr = piped(o.Stdout, o.Stderr, &l)
	c.cmd.WaitDelay = waitDelay
	// A session of its own: no terminal to type into, and a group to signal.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	began := time.Now()
	started := make(chan error, 1)
	go c.attend(started)
	if err := <-started; err != nil {
		return Result{ExitCode: -1}, &Failure{Runner: p.Enforcement.Runner, Reason: "it can't be started: " + err.Error()}
	}

	spoken := make(chan struct{})
	go func() {
		defer close(spoken)
		h.speak()
	}()

	var result Result
	var timeout <-chan time.Time
	if o.Timeout > 0 {
		t := time.NewTimer(o.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	var overdue <-chan time.Time // after a signal that asks the command to end
	var early []syscall.Signal   // what came before there was a command to get it
	ready := c.launcher.atReady
	for waiting := true; waiting; {
		select {
		case <-c.exited:
			waiting = false
		case <-ready:
			ready = nil
			for _, s := range early {
				c.forward(s)
			}
		case <-timeout:
			result.TimedOut, waiting = true, false
		case <-ctx.Done():
			result.Canceled, waiting = true, false
		case <-notReady:
			select {
			case <-c.launcher.atReady: // and what it runs may take its time
			default:
				waiting = false
				c.signals.sendGroup(syscall.SIGKILL)
			}
		case <-overdue:
			result.Canceled, waiting = true, false
		case sig := <-o.Signals:
			s, ok := sig.(syscall.Signal)
			ends := s == syscall.SIGTERM || s == syscall.SIGHUP
			switch {
			case !ok:
			case s == syscall.SIGSTOP || s == syscall.SIGCONT:
				c.pause(s)
				notReady = nil // whoever stops a runner decides how long
			case c.launcher.isReady():
				c.forward(s)
				if ends && overdue == nil {
					overdue = time.After(ForwardGrace)
				}
			case ends || s == syscall.SIGINT || s == syscall.SIGQUIT:
				// To a runner that it does not end, it would be lost.
				c.canceledBy = s
				result.Canceled, waiting = true, false
			default:
				early = append(early, s)
			}
		}
	}
	if result.TimedOut || result.Canceled {
		grace := o.Grace
		if grace <= 0 {
			grace = defaultGrace
		}
		c.stop(grace)
	}
	<-c.done
	select {
	case <-spoken:
	case <-time.After(waitDelay): // whoever reads stderr does not
	}
	result.Duration = time.Since(began)
	result.Survivors = c.survivors
	result.OutputErr = l.why()
	result.OutputTruncated = errors.Is(c.waitErr, exec.ErrWaitDelay)
	result, err := c.judge(result)
	var failure *Failure
	if errors.As(err, &failure) {
		failure.Said, failure.Stale = h.unsaid(), p.Stale()
	}
	// Everything has ended: what is left now stays.
	result.Held, result.Refused = p.Settle(), c.refused
	return result, err
}

// call is one running command.
type call struct {
	prepared confine.Prepared
	cmd      *exec.Cmd
	signals  signals
	launcher launcherStatus
	bwrap    bwrapStatus

	exited  chan struct{} // closed when the process has ended, before it is reaped
	done    chan struct{} // closed when it is reaped and its output read
	waitErr error         // of cmd.Wait; read after done
	refused []error       // what answerRenames denied; read after done
	// survivors is how many processes withstood killLeft; read after done.
	survivors int
	// canceledBy is the signal that ended the call before there was a command.
	canceledBy syscall.Signal
}

// attend starts the process, reports that on started, and stays with it to the
// end.
//
// On Linux "die with the parent" means the thread that forked, so the thread
// that starts bwrap is kept until bwrap has ended.
func (c *call) attend(started chan<- error) {
	defer close(c.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	readers, err := c.openPipes()
	if err == nil {
		err = c.cmd.Start()
	}
	for _, w := range c.cmd.ExtraFiles {
		w.Close()
	}
	if err != nil {
		for _, r := range readers {
			r.Close()
		}
		started <- err
		return
	}
	c.signals.pid = c.cmd.Process.Pid
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.readPipes(readers)
	}()
	started <- nil

	awaitExit(c.cmd.Process.Pid)
	// What is left in the group goes while the ended process still holds the
	// group's number.
	c.signals.last()
	c.survivors = c.killLeft()
	close(c.exited)
	// The pipes close with the last process that has them; one that got away
	// must not hold the call, nor what waits for the launcher's word.
	for _, r := range readers {
		r.SetDeadline(time.Now().Add(waitDelay))
	}
	c.waitErr = c.cmd.Wait()
	<-read
}

// openPipes makes a status pipe for each that the command expects, and returns
// the ends to read in the order of Prepared.Pipes. On error everything is
// closed but the write ends, which are in cmd.ExtraFiles.
func (c *call) openPipes() ([]*os.File, error) {
	var readers []*os.File
	for _, kind := range c.prepared.Pipes {
		r, w, err := open(kind)
		if err != nil {
			for _, r := range readers {
				r.Close()
			}
			return nil, err
		}
		readers = append(readers, r)
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, w)
	}
	return readers, nil
}

// open returns this process's end and the command's.
func open(kind confine.Pipe) (ours, theirs *os.File, err error) {
	switch kind {
	case confine.InstructionsPipe:
		theirs, ours, err = os.Pipe()
		return ours, theirs, err
	case confine.RenamePipe:
		return openRenames()
	}
	return os.Pipe()
}

func (c *call) readPipes(readers []*os.File) {
	finished := make(chan struct{})
	for i, kind := range c.prepared.Pipes {
		go func() {
			defer func() { readers[i].Close(); finished <- struct{}{} }()
			switch kind {
			case confine.BubblewrapPipe:
				c.bwrap.read(readers[i])
			case confine.InstructionsPipe:
				readers[i].Write(c.prepared.Instructions) // a launcher that reads none says so
			case confine.RenamePipe:
				c.answerRenames(readers[i])
			default:
				c.launcher.read(readers[i])
			}
		}()
	}
	for range readers {
		<-finished
	}
}

// stop ends the command: SIGTERM, a grace period, SIGKILL. A runner whose command
// is not there yet is not asked.
func (c *call) stop(grace time.Duration) {
	if c.launcher.isReady() && c.terminate() {
		select {
		case <-c.exited:
			return
		case <-time.After(grace):
		}
	}
	// The init of the sandbox first: when it is gone the kernel has already
	// killed all of its namespace, and bwrap is still there to see it.
	if pid := c.bwrap.childPID(); pid > 0 {
		c.signals.sendOther(pid, syscall.SIGKILL)
		select {
		case <-c.exited:
			return
		case <-time.After(time.Second):
		}
	}
	c.signals.sendGroup(syscall.SIGKILL)
}

// terminate asks the command to end and says whether that reached it.
func (c *call) terminate() bool { return c.forward(syscall.SIGTERM) }

// forward sends a signal to the command's group and says whether there was one.
func (c *call) forward(sig syscall.Signal) bool {
	if !uses(c.prepared, confine.BubblewrapPipe) {
		return c.signals.sendGroup(sig)
	}
	// bwrap itself would end at once and take the command with it. The session
	// inside is named after the init of the sandbox, which ignores the signal.
	pid := c.bwrap.childPID()
	return pid > 0 && c.signals.sendOther(-pid, sig)
}

// pause stops or wakes the command, or its runner if there is none yet.
func (c *call) pause(sig syscall.Signal) {
	if !c.forward(sig) || !c.launcher.isReady() {
		// bwrap lets its child begin when it has said which it is: what was not
		// there before bwrap stopped is there now, or is not going to be.
		c.signals.sendGroup(sig)
		c.forward(sig)
	}
}

// judge turns what the process and the pipes said into a result.
func (c *call) judge(r Result) (Result, error) {
	r.ExitCode = -1
	code, known := exitCode(c.cmd.ProcessState)
	if uses(c.prepared, confine.BubblewrapPipe) {
		// bwrap's own exit code means something only if it says so.
		code, known = c.bwrap.exitCode()
	}
	killed := 128 + int(cmp.Or(c.canceledBy, syscall.SIGKILL))
	switch {
	case (r.TimedOut || r.Canceled) && !c.launcher.ready && c.launcher.exec == "":
		// Whatever the runner said to that.
		r.ExitCode = killed
		return r, nil
	case c.launcher.fatal != "":
		return r, &Failure{Runner: c.prepared.Enforcement.Runner, Reason: c.launcher.fatal}
	case c.launcher.ready || c.launcher.exec != "":
		r.NotExecuted = c.launcher.exec
		if known && !(c.canceledBy != 0 && code == 128+int(syscall.SIGKILL)) {
			r.ExitCode = code
		} else if r.TimedOut || r.Canceled {
			r.ExitCode = killed // we did that, and bwrap went with it
		} else {
			r.Unknown = true
		}
		return r, nil
	}
	reason := "it ended without a word"
	if c.cmd.ProcessState != nil {
		reason = "it ended by itself, " + c.cmd.ProcessState.String()
	}
	return r, &Failure{Runner: c.prepared.Enforcement.Runner, Reason: reason}
}

// exitCode reads a wait status as a shell does.
func exitCode(s *os.ProcessState) (int, bool) {
	if s == nil {
		return 0, false
	}
	ws, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		return 128 + int(ws.Signal()), true
	case ok && ws.Exited():
		return ws.ExitStatus(), true
	}
	return 0, false
}

// readyTime is how long an unproven runner may take until it is ready, as long
// as a probe has.
const readyTime = 10 * time.Second

// readyLimit starts to wait for that time. Tests say themselves when it is over.
var readyLimit = func() (over <-chan time.Time, stop func() bool) {
	t := time.NewTimer(readyTime)
	return t.C, t.Stop
}

// held is a writer that waits for the command: what comes before it is ready is
// its runner's, and kept here if it never gets ready. The process behind goes on
// meanwhile.
type held struct {
	to          io.Writer
	ready, over <-chan struct{}

	mu   sync.Mutex
	said []byte // before it was ready, and not written to yet; at most maxHeld
	deaf bool   // more is thrown away
}

// maxHeld bounds what is held, in bytes. A command that has said this much is
// known to be ready, but for a moment.
const maxHeld = 1 << 20

// maxSaid bounds what is kept of a failed runner's words, in bytes.
const maxSaid = 4 << 10

func (h *held) Write(p []byte) (int, error) {
	if h.hold(p) {
		return len(p), nil
	}
	select {
	case <-h.ready:
	case <-h.over: // without a word, or behind one
	case <-time.After(readyTime): // the runner's beyond doubt, and it waits to be read
		h.mu.Lock()
		h.deaf = true
		h.mu.Unlock()
	}
	if h.hold(p) {
		return len(p), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flush()
	return h.to.Write(p)
}

// hold keeps p, or throws it away, and says so.
func (h *held) hold(p []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.ready:
		return false
	default:
	}
	select {
	case <-h.over:
		h.deaf = true
	default:
	}
	if room := maxHeld - len(h.said); h.deaf {
		p = p[:min(len(p), room)]
	} else if len(p) > room {
		return false
	}
	h.said = append(h.said, p...)
	return true
}

// speak writes what was held once the command is ready. It returns when nothing
// more can be held.
func (h *held) speak() {
	select {
	case <-h.ready:
	case <-h.over:
	}
	select {
	case <-h.ready: // both
		h.mu.Lock()
		defer h.mu.Unlock()
		h.flush()
	default:
	}
}

// unsaid is the beginning of what is held.
func (h *held) unsaid() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.said[:min(len(h.said), maxSaid)])
}

func (h *held) flush() {
	if len(h.said) > 0 {
		h.to.Write(h.said)
		h.said = nil
	}
}

// piped hides that a writer is a file, so that the command gets a pipe. What is
// equal stays equal: os/exec then uses one pipe for both.
func piped(stdout, stderr io.Writer, l *lost) (io.Writer, io.Writer) {
	wrap := func(w io.Writer) io.Writer {
		if w == nil {
			w = io.Discard
		}
		return &onlyWriter{w, l}
	}
	out := wrap(stdout)
	if stdout != nil && interfaceEqual(stdout, stderr) {
		return out, out
	}
	return out, wrap(stderr)
}

// lost is why output of the command was lost, for the first time.
type lost struct{ err atomic.Pointer[error] }

func (l *lost) why() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

type onlyWriter struct {
	io.Writer
	lost *lost
}

func (w *onlyWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	// A reader that went away wants no more.
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		w.lost.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// interfaceEqual compares two writers; types that can't be compared differ.
func interfaceEqual(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}
