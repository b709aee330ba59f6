// Package run starts a confined command, waits for it, and sees to it that
// nothing of it is left.
//
//	result, err := run.Do(ctx, chain, argv, policy, run.Options{Stdout: os.Stdout, Stderr: os.Stderr})
//
// Do prepares the command, runs it, and prepares it anew where that can help.
// Run runs what the caller has prepared.
//
// # Whose failure
//
// An error means that the command did not run. It is told from the
// command's own exit code by the status pipes of package confine, never by text
// on stderr, which the command can write too. The launcher says "ready" before
// it becomes the command, and bwrap reports an exit code only for what it has
// started; a runner that says neither has failed, whatever its exit code.
//
// # The end
//
// Nothing outlives the call, as long as this process lives to see its end.
// Under bubblewrap everything the command started is in its process namespace
// and dies with it, even if this process is killed. Under Landlock alone its
// process group is killed, and in a process that called [Sole] what left the
// group, too; what can't be killed in time is counted in [Result]. If this
// process is killed itself, Landlock alone ends the command and not what the
// command had started. On macOS the process group is killed and nothing else,
// and if this process is killed itself the command goes on.
//
// When ctx is done or the timeout passes, the command gets SIGTERM, a grace
// period, and SIGKILL. Signals that the caller passes on reach it as they are.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/ward"
)

// waitDelay is how long the output of a command that has ended is waited for:
// a process that it left behind may hold the pipe open.
const waitDelay = 300 * time.Millisecond

// defaultGrace is the time between SIGTERM and SIGKILL.
const defaultGrace = 2 * time.Second

// Options say how a command is run. The zero value runs it with nothing on
// stdin, output thrown away, and no time limit.
type Options struct {
	// Stdin is what the command reads, nil for /dev/null. An *os.File is
	// given to the command itself, anything else through a pipe.
	Stdin io.Reader
	// Stdout and Stderr get the command's output as it comes, always through
	// pipes: the command never holds the caller's own descriptors. If the two
	// are equal, only one goroutine at a time calls Write. What a runner says on
	// stderr before the command runs waits until it does; of a runner that
	// failed it is in [Failure].
	Stdout, Stderr io.Writer
	// Timeout ends the command, 0 for no limit.
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL, 0 for two seconds.
	Grace time.Duration
	// Signals are passed on to the command as they come, nil for none. After
	// SIGTERM and SIGHUP it has ForwardGrace to end; what it does about any
	// other is its own matter. SIGTERM, SIGHUP, SIGINT and SIGQUIT that come
	// before there is a command end the call instead, and any other but SIGSTOP
	// and SIGCONT waits for it.
	Signals <-chan os.Signal
	// Attempt lets Do leave out the probe where it can: see
	// [confine.Chain.Attempt].
	Attempt bool
	// Prepared is told by Do what it is about to start, each time that it
	// starts something; nil for nobody. The command is Do's to close.
	Prepared func(confine.Prepared)
}

// ForwardGrace is how long a command may go on after a SIGTERM or SIGHUP that
// was passed on to it.
const ForwardGrace = 10 * time.Second

// Result is how a command ended.
type Result struct {
	// ExitCode is the command's own: 128+n if signal n ended it, 126 and 127
	// if it can't be executed or does not exist. It is -1, never 0, if it is
	// not known.
	ExitCode int
	// Unknown says that the command ran and its status was lost: somebody
	// else reaped it, or its runner was killed.
	Unknown bool
	// NotExecuted says why the command could not be executed, "" if it was.
	NotExecuted string
	// TimedOut and Canceled say who ended the command; neither if it ended by
	// itself.
	TimedOut, Canceled bool
	// OutputTruncated says that something still held the output when the
	// command had ended, and what it may have written later is lost.
	OutputTruncated bool
	// OutputErr is the first error of Options.Stdout or Stderr, but for a reader
	// that went away (EPIPE): what the command wrote from then on is lost, and
	// it was told so by SIGPIPE if it wrote any more.
	OutputErr error
	// Survivors is how many processes of the command could not be killed
	// within a few seconds and may still run. Only a process that called Sole
	// under Landlock alone can know; elsewhere it is 0.
	Survivors int
	// Held is what the command left or changed at places that run code outside
	// later, and what became of it (see [confine.Prepared.Settle]).
	Held []ward.Held
	// Refused are the changes of a repository's configuration that the command
	// asked for and did not get.
	Refused  []error
	Duration time.Duration
}

// Failure is a runner that could not bring the command to life. The command did
// not run.
type Failure struct {
	Runner string // "bubblewrap", "landlock" or "seatbelt"
	Reason string
	// Said is what the runner wrote to stderr, its first 4 KiB.
	Said string
	// Stale says that a place which the runner was to cover has gone, or become
	// another, since the command was prepared, which may be why. Prepare it anew; Do has done so
	// several times.
	Stale bool
}

// maxTries is how often Do starts a runner whose profile went stale. Each time
// something has to vanish in the few milliseconds after it was looked at.
const maxTries = 10

// Do confines argv under p and runs it to its end. The command runs once, or
// not at all; what may be started anew is a runner that failed before that:
//
//   - after an attempt without a probe ([Options]), as what the probe says works
//     here;
//   - when something has vanished that the runner was to cover.
//
// Neither happens when stdin is not a file, since what was read from it would be
// lost. The error is that of Confine or of Run. What the last runner that failed
// said is on stderr.
func Do(ctx context.Context, chain *confine.Chain, argv []string, p confine.Policy, o Options) (Result, error) {
	_, file := o.Stdin.(*os.File)
	anew := o.Stdin == nil || file
	prepare := chain.Confine
	if o.Attempt && anew {
		prepare = chain.Attempt
	}
	var found []ward.Held
	for tries := 1; ; tries++ {
		result, unproven, err := once(ctx, prepare, argv, p, o)
		found = append(found, result.Held...) // by whomever: it was moved
		result.Held = found
		var failure *Failure
		if !errors.As(err, &failure) {
			return result, err
		}
		switch {
		case anew && failure.Stale && tries < maxTries:
		case anew && unproven:
			prepare, tries = chain.Confine, 0
		default:
			if o.Stderr != nil {
				io.WriteString(o.Stderr, failure.Said)
			}
			return result, err
		}
	}
}

// once prepares a command, runs it and closes it.
func once(ctx context.Context, prepare func([]string, confine.Policy) (confine.Prepared, error), argv []string, p confine.Policy, o Options) (_ Result, unproven bool, err error) {
	prepared, err := prepare(argv, p)
	if err != nil {
		return Result{ExitCode: -1}, false, err
	}
	defer prepared.Close()
	if o.Prepared != nil {
		o.Prepared(prepared)
	}
	result, err := Run(ctx, prepared, o)
	return result, prepared.Unproven(), err
}

func (e *Failure) Error() string {
	return fmt.Sprintf("the %s runner failed before the command started: %s", e.Runner, e.Reason)
}

// Hint says what to do next.
func (e *Failure) Hint() string {
	if e.Stale {
		return "the command was not run; what the runner was to cover keeps vanishing: look for a program that makes and removes sockets all the time"
	}
	return "the command was not run; what the runner itself said stands above, if it said anything"
}

// uses says whether p is confined by bubblewrap.
func uses(p confine.Prepared, want confine.Pipe) bool {
	for _, have := range p.Pipes {
		if have == want {
			return true
		}
	}
	return false
}
