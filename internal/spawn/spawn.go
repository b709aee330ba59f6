// Package spawn is guardproxy exec: it confines one command, runs it, and says
// how it ended.
//
// It needs little of the program: this verb is run more often than all others
// together, and something waits each time. So it is ready before the rest is
// (package spawn/early), and reads ordinary command lines by itself ([Parse]).
package spawn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
	confined "github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/confine/ward"
	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/terminal"
)

// exitTimeout is exec's exit code for a command that ran out of time, as
// timeout(1) has it.
const exitTimeout = 124

// ExitRunner is exec's exit code for a command that was not run.
const ExitRunner = 125

// maxCaptured bounds what --json keeps of each stream, in bytes.
const maxCaptured = 1 << 20

// Command is guardproxy exec: its flags, tagged for package kong.
type Command struct {
	Mode      string        `enum:"read-only,workspace-write" default:"workspace-write" help:"What the command may write: nothing, or the workspace (${enum})."`
	Workspace string        `placeholder:"DIR" help:"The directory the command may work in. Default: the current one."`
	Network   string        `enum:"none,host" default:"none" help:"What it may reach: a loopback of its own, or what you can (${enum})."`
	Session   string        `placeholder:"NAME" help:"Commands of one session share /tmp and the caches of build tools. Default: each command has its own."`
	Timeout   time.Duration `placeholder:"D" help:"End it after this time, as in 90s or 10m. Default, and 0: never."`
	Config    string        `placeholder:"FILE" help:"Configuration file: its part named confine, and its own files (itself, keys, token, logs, guards) are kept from the command, too."`
	Stdin     *bool         `negatable:"" help:"Let it read this command's stdin, which can't be a directory. Default: yes, and no with --json."`
	JSON      bool          `name:"json" help:"Print one JSON object instead of the output, see above."`
	Verbose   bool          `help:"Say on stderr what confines the command, what does not, and whether a failure was a denial."`
	Argv      []string      `arg:"" passthrough:"" placeholder:"ARGV" help:"The command and its arguments, after --."`
}

// Help is the long help.
func (Command) Help() string {
	return `The command runs with your files read-only but for the workspace, with a /tmp,
process table and network of its own, and without guardproxy's own files, your
keys and tokens, inherited descriptors, agent sockets, and variables whose names
say that they hold a secret. That is bubblewrap; where only Landlock works, and
on macOS, where it is seatbelt, some of it is not enforced. Where none of them
works the command does not run. guardproxy doctor says which it is.

What runs code outside of the workspace later (git hooks and configuration,
.envrc, editors' tasks, agents' settings) can't be made or changed; what a
command left there is moved away when it has ended, and stderr says where to.

Nothing is said on stderr when it runs, even when enforcement is partial: use
--verbose or --json to see that.

Exit code: the command's own (128+n if signal n ended it, 127 if it does not
exist, 126 if it can't be executed); 124 if it ran out of time; 125 if it was
not run or its exit status was lost, with the reason on stderr; 1 if it was 0 and
the output could not be written; 2 for a usage error. Commands can exit with 2, 124 and 125 as well: only --json tells them
apart.

SIGINT (Ctrl-C), SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 to guardproxy are
passed on to the command. After SIGTERM or SIGHUP it has ten seconds to end.
SIGTSTP (Ctrl-Z) stops both, and SIGCONT wakes them.

--json prints: exit_code (null if unknown), signal, exit_status_unknown,
timed_out, runner, enforcement (full or partial), not_enforced (a list), denial
(verdict: denied, suspected or none, with evidence), held (what was moved away
or put back), mode, workspace, network, stdout and stderr (the first 1 MiB of
each; invalid UTF-8 is replaced), stdout_truncated, stderr_truncated,
duration_ms; survivors if processes of the command could not be killed, how
many; error, hint and runner_failure if it was not run.

docs/exec.md says all of it, docs/confinement.md what each mode allows.`
}

// Chain returns a chain whose first rung is runner, or bwrap if that is nil.
func Chain(runner []string) *confine.Chain {
	return confine.New(confine.Options{Self: true, Homes: homes, Runner: runner})
}

// forwarded are the signals that a command gets when this process does.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT}

// relay passes on what this process catches. A command in a session of its own
// does not hear a terminal's Ctrl-Z, and SIGTSTP would not stop it there, since
// nobody controls its jobs: it gets SIGSTOP, and then this process stops as its
// shell expects. Where no shell could wake it the kernel does not stop it: that
// is so for whoever leads a session, as in a container. Either way, what runs
// behind stopSelf runs because this process is awake.
func relay(caught <-chan os.Signal, to chan<- os.Signal) {
	for s := range caught {
		if s != syscall.SIGTSTP {
			to <- s
			continue
		}
		to <- syscall.SIGSTOP
		to <- nil // taken when the one before has been passed on
		stopSelf()
		to <- syscall.SIGCONT
	}
}

// homes is the user's home directory by the user database. $HOME may be unset,
// or say something else.
var homes = sync.OnceValue(func() []string {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return nil
	}
	return []string{u.HomeDir}
})

// Settings are what a configuration file says about commands. The zero value is
// that of no file.
type Settings struct {
	// Own are files of guardproxy's that the configuration names, and itself.
	Own []string
	// Runner is the first rung, nil for bwrap.
	Runner []string
	// Writable, Secrets and Guarded change what package confine has by default.
	Writable, Secrets, Guarded []string
	Env                        confine.EnvRules
}

// Run is the verb, for a process that ends with it. settings reads the file that c.Config names; it may be nil if
// that is "".
func (c *Command) Run(ctx context.Context, io terminal.Streams, settings func(file string) (Settings, error)) error {
	argv := c.Argv
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	} else if len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		// The parser takes a flag that it does not know for the command. A
		// misspelt --network=none must not run anything.
		return terminal.WithCode(terminal.Usage, terminal.WithHint(fmt.Errorf("exec: unknown flag %s", argv[0]), "run guardproxy exec --help; the command stands after --"))
	}
	if len(argv) == 0 {
		return terminal.WithCode(terminal.Usage, terminal.WithHint(errors.New("exec: no command given"), "use guardproxy exec -- COMMAND"))
	}
	if c.Timeout < 0 {
		return terminal.WithCode(terminal.Usage, terminal.WithHint(fmt.Errorf("exec: --timeout %v is negative", c.Timeout), "give a time such as 90s, or 0 for no limit"))
	}
	if f, ok := io.In.(*os.File); ok && c.stdin() {
		if st, err := f.Stat(); err == nil && st.IsDir() {
			// An open directory leads past everything that paths are held to.
			return terminal.WithCode(terminal.Usage, terminal.WithHint(errors.New("exec: stdin is a directory"), "redirect a file or a pipe, or use --no-stdin"))
		}
	}
	// Signals are the command's: none of them ends this process, which has to
	// see the command end. That stays so, since it ends then itself.
	caught, signals := make(chan os.Signal, 16), make(chan os.Signal)
	for _, s := range forwarded {
		// nohup stays nohup. A shell starts what goes to the background deaf to
		// SIGINT, too, and that is for Ctrl-C: who sends it means the command.
		if s == os.Interrupt || !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	go relay(caught, signals)
	out := Report{Mode: c.Mode, Network: c.Network}
	result, err := c.run(context.WithoutCancel(ctx), io, argv, settings, signals, &out)
	if c.JSON {
		if err := out.print(io.Out, result, err); err != nil {
			return terminal.WithCode(ExitRunner, err)
		}
	}
	for _, h := range result.Held {
		fmt.Fprintf(io.Err, "guardproxy: %s\n", h)
	}
	for _, refused := range result.Refused {
		fmt.Fprintf(io.Err, "guardproxy: refused: %v\n", refused)
	}
	if result.Survivors > 0 {
		fmt.Fprintf(io.Err, "guardproxy: processes of the command that could not be killed: %d\n", result.Survivors)
	}
	switch {
	case err != nil:
		return terminal.WithCode(ExitRunner, err)
	case result.TimedOut:
		return terminal.WithCode(exitTimeout, fmt.Errorf("exec: the command did not end within %v and was stopped", c.Timeout))
	case result.Unknown:
		return terminal.WithCode(ExitRunner, terminal.WithHint(errors.New("exec: the exit status of the command was lost"),
			"it ran; look at what it did before you repeat it"))
	case result.OutputErr != nil:
		return terminal.WithCode(cmp.Or(result.ExitCode, terminal.Found), fmt.Errorf("exec: output of the command is lost: %w", result.OutputErr))
	case result.ExitCode != 0:
		return terminal.WithCode(result.ExitCode, nil)
	}
	return nil
}

// stdin says whether the command gets this process's stdin.
func (c *Command) stdin() bool {
	if c.Stdin != nil {
		return *c.Stdin
	}
	return !c.JSON
}

// run confines argv and runs it, and notes in out what a report needs.
func (c *Command) run(ctx context.Context, io terminal.Streams, argv []string, settings func(string) (Settings, error), signals <-chan os.Signal, out *Report) (confined.Result, error) {
	if err := confined.Sole(); err != nil {
		return confined.Result{}, fmt.Errorf("exec: %w", err)
	}
	policy, runner, err := c.policy(settings)
	if err != nil {
		return confined.Result{}, err
	}
	out.Workspace = policy.Workspace
	var prepared confine.Prepared
	var said tail
	o := confined.Options{
		Stdout: io.Out, Stderr: tee{io.Err, &said}, Timeout: c.Timeout, Signals: signals,
		// What is said before the command runs has to be known by then.
		Attempt: !c.Verbose,
		Prepared: func(p confine.Prepared) {
			told := out.Runner != ""
			prepared = p
			e := p.Enforcement
			out.Runner, out.Enforcement, out.NotEnforced = e.Runner, string(e.Level), e.Missing
			if c.Verbose && !told {
				sayEnforcement(io.Err, e)
			}
		},
	}
	if c.stdin() {
		o.Stdin = io.In
	}
	if c.JSON {
		o.Stdout, o.Stderr = &out.stdout, tee{&out.stderr, &said}
	}
	result, err := confined.Do(ctx, Chain(runner), argv, policy, o)
	if err != nil {
		var failure *confined.Failure
		if out.RunnerFailure = errors.As(err, &failure); !out.RunnerFailure {
			out.Runner, out.Enforcement, out.NotEnforced = "", "", nil // of an attempt
		}
		return result, fmt.Errorf("exec: %w", err)
	}
	out.Denial = prepared.Classify(confine.Outcome{ExitCode: result.ExitCode, Stderr: said.text(), Refused: result.Refused, Could: confine.Could})
	if c.Verbose {
		for _, e := range out.Denial.Evidence {
			fmt.Fprintf(io.Err, "guardproxy: %s: %s\n", out.Denial.Verdict, cmp.Or(e.Counterfactual, e.Line))
		}
	}
	return result, nil
}

// sayEnforcement is what --verbose says before the command runs.
func sayEnforcement(w io.Writer, e confine.Enforcement) {
	fmt.Fprintf(w, "guardproxy: confined by %s, enforcement %s\n", e.Runner, e.Level)
	for _, r := range e.Passed {
		fmt.Fprintf(w, "guardproxy: %s can't be used: %s\n", r.Runner, r.Reason)
	}
	for _, m := range e.Missing {
		fmt.Fprintf(w, "guardproxy: not enforced: %s\n", m)
	}
}

// policy is what the flags ask for. The command starts where this process is if
// that is in the workspace.
func (c *Command) policy(settings func(string) (Settings, error)) (confine.Policy, []string, error) {
	fail := func(err error) (confine.Policy, []string, error) {
		return confine.Policy{}, nil, fmt.Errorf("exec: %w", err)
	}
	// The kernel's answer, without the symbolic links that $PWD may have.
	here, err := syscall.Getwd()
	if err != nil {
		return fail(fmt.Errorf("where am I: %w", err))
	}
	workspace := c.Workspace
	switch {
	case workspace == "":
		workspace = here
	case !filepath.IsAbs(workspace):
		workspace = filepath.Join(here, workspace)
	}
	p := confine.Policy{
		Mode:      confine.Mode(c.Mode),
		Workspace: filepath.Clean(workspace),
		Network:   confine.Network(c.Network),
		Session:   c.Session,
	}
	var set Settings
	if c.Config != "" {
		if set, err = settings(c.Config); err != nil {
			return fail(err)
		}
	}
	if p.Masks, p.State, err = ownFiles(set.Own, p.Workspace); err != nil {
		return fail(err)
	}
	p.Hidden = confine.Secrets(append([]string{os.Getenv("HOME")}, homes()...), set.Secrets...)
	p.WritableRoots = set.Writable
	p.Env = set.Env
	p.Guarded = guarded(set.Guarded)
	if confine.Within(here, p.Workspace) {
		p.Dir = here
	}
	return p, set.Runner, nil
}

// guarded is the list of guarded places with what the configuration changes.
func guarded(custom []string) []string {
	list := slices.Clone(ward.Places)
	for _, c := range custom {
		if out, ok := strings.CutPrefix(c, "!"); ok {
			list = slices.DeleteFunc(list, func(p string) bool { return p == filepath.Clean(out) })
		} else {
			list = append(list, c)
		}
	}
	return list
}

// ownFiles are guardproxy's own files, those of this environment and those that
// the configuration names, and its state directory.
func ownFiles(named []string, workspace string) (masks []string, state string, err error) {
	masks, err = confine.Masks(os.Getenv, homes(), named...)
	if err != nil {
		return nil, "", err
	}
	// What does not exist can't be covered, and a key that a server makes while
	// the command runs would be readable. So the state directory is made here,
	// as the server would make it. Where this user can't, nor can a server.
	dirs, err := home.Find(func(name string) (string, bool) {
		if at := homes(); name == "HOME" && !filepath.IsAbs(os.Getenv(name)) && len(at) > 0 {
			return at[0], true
		}
		return os.LookupEnv(name)
	})
	// Recordings lie where a flag of serve said.
	for _, own := range masks {
		recordings, noted := home.Recordings(own)
		if noted != nil {
			return nil, "", noted
		}
		masks = append(masks, recordings...)
	}
	if err != nil {
		return masks, "", nil
	}
	if !confine.Within(home.Resolve(dirs.State), workspace) && os.MkdirAll(dirs.State, 0o700) == nil {
		state = dirs.State
	}
	return masks, state, nil
}

// Report is the object of exec --json. Its members are an interface: they
// are added to, not changed.
type Report struct {
	ExitCode        *int           `json:"exit_code"`
	Signal          *string        `json:"signal"`
	Unknown         bool           `json:"exit_status_unknown"`
	TimedOut        bool           `json:"timed_out"`
	Runner          string         `json:"runner"`
	Enforcement     string         `json:"enforcement"`
	NotEnforced     []string       `json:"not_enforced"`
	Denial          confine.Denial `json:"denial"`
	Held            []heldReport   `json:"held"`
	Mode            string         `json:"mode"`
	Workspace       string         `json:"workspace"`
	Network         string         `json:"network"`
	Stdout          string         `json:"stdout"`
	Stderr          string         `json:"stderr"`
	StdoutTruncated bool           `json:"stdout_truncated"`
	StderrTruncated bool           `json:"stderr_truncated"`
	DurationMS      int64          `json:"duration_ms"`
	Survivors       int            `json:"survivors,omitempty"`
	RunnerFailure   bool           `json:"runner_failure,omitempty"`
	Error           string         `json:"error,omitempty"`
	Hint            string         `json:"hint,omitempty"`

	stdout, stderr captured
}

// print completes r with how the command ended, or why it did not run, and
// writes it.
func (r *Report) print(w io.Writer, result confined.Result, err error) error {
	if r.NotEnforced == nil {
		r.NotEnforced = []string{}
	}
	if r.Denial.Verdict == "" {
		r.Denial = confine.Denial{Verdict: confine.None, Evidence: []confine.Evidence{}}
	}
	r.Held = []heldReport{}
	for _, h := range result.Held {
		one := heldReport{Path: h.Path, To: h.To, Restored: h.Restored, Names: h.Names}
		if h.Err != nil {
			one.Error = h.Err.Error()
		}
		r.Held = append(r.Held, one)
	}
	if err != nil {
		r.Error = err.Error()
		var h interface{ Hint() string }
		if errors.As(err, &h) {
			r.Hint = h.Hint()
		}
	} else if !result.Unknown {
		r.ExitCode = &result.ExitCode
		r.Signal = signalOf(result.ExitCode)
	}
	r.Unknown, r.TimedOut, r.Survivors = result.Unknown, result.TimedOut, result.Survivors
	r.DurationMS = result.Duration.Milliseconds()
	r.Stdout, r.StdoutTruncated = r.stdout.text(), r.stdout.lost || result.OutputTruncated
	r.Stderr, r.StderrTruncated = r.stderr.text(), r.stderr.lost || result.OutputTruncated
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// heldReport is one place that was settled after the command.
type heldReport struct {
	Path     string   `json:"path"`
	To       string   `json:"to,omitempty"`
	Restored bool     `json:"restored"`
	Names    []string `json:"names,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// signalOf reads an exit code as a shell does: 128+n is signal n. nil is any
// other. A command can exit with such a code by itself.
func signalOf(code int) *string {
	if code <= 128 || code > 128+31 {
		return nil
	}
	name := unix.SignalName(syscall.Signal(code - 128))
	if name == "" {
		return nil
	}
	return &name
}

// tail keeps the end of what is written to it.
type tail struct{ buf []byte }

const maxTail = 32 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*maxTail {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-maxTail:]...)
	}
	return len(p), nil
}

func (t *tail) text() string { return string(t.buf[max(0, len(t.buf)-maxTail):]) }

// tee writes to both; what the first one can't take is its own matter.
type tee struct {
	io.Writer
	copy *tail
}

func (t tee) Write(p []byte) (int, error) {
	t.copy.Write(p)
	return t.Writer.Write(p)
}

// captured keeps the first maxCaptured bytes that are written to it.
type captured struct {
	buf  []byte
	lost bool
}

func (c *captured) Write(p []byte) (int, error) {
	keep := min(len(p), maxCaptured-len(c.buf))
	c.buf = append(c.buf, p[:keep]...)
	c.lost = c.lost || keep < len(p)
	return len(p), nil
}

func (c *captured) text() string { return strings.ToValidUTF8(string(c.buf), "\uFFFD") }
