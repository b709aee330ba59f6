package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/guardproxy/guardproxy/confine"
	confined "github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/config"
)

// exitTimeout is exec's exit code for a command that ran out of time, as
// timeout(1) has it.
const exitTimeout = 124

// maxCaptured bounds what --json keeps of each stream, in bytes.
const maxCaptured = 1 << 20

// execCmd is guardproxy exec.
type execCmd struct {
	Mode      string        `enum:"read-only,workspace-write" default:"workspace-write" help:"What the command may write: nothing, or the workspace (${enum})."`
	Workspace string        `placeholder:"DIR" help:"The directory the command may work in. Default: the current one."`
	Network   string        `enum:"none,host" default:"none" help:"What it may reach: a loopback of its own, or what you can (${enum})."`
	Timeout   time.Duration `placeholder:"D" help:"End it after this time, as in 90s or 10m. Default, and 0: never."`
	Config    string        `placeholder:"FILE" help:"Configuration file whose own files (itself, keys, token, logs, guards) are kept from the command, too."`
	Stdin     bool          `help:"Let it read this command's stdin, which can't be a directory. Default: /dev/null."`
	JSON      bool          `name:"json" help:"Print one JSON object instead of the output, see above."`
	Verbose   bool          `help:"Say on stderr what confines the command, and what does not."`
	Argv      []string      `arg:"" passthrough:"" placeholder:"ARGV" help:"The command and its arguments, after --."`
}

// Help is the long help.
func (execCmd) Help() string {
	return `The command runs with your files read-only but for the workspace, with a /tmp,
process table and network of its own, and without guardproxy's own files,
inherited descriptors, agent sockets, model credentials and those of AWS and
Google Cloud. That is bubblewrap; where only Landlock works, some of it is not
enforced. Where neither works the command does not run.

Nothing is said on stderr when it runs, even when enforcement is partial: use
--verbose or --json to see that.

Exit code: the command's own (128+n if signal n ended it, 127 if it does not
exist, 126 if it can't be executed); 124 if it ran out of time; 125 if it was
not run or its exit status was lost, with the reason on stderr; 2 for a usage
error. Commands can exit with 2, 124 and 125 as well: only --json tells them
apart.

Ctrl-C, SIGTERM, SIGHUP and SIGQUIT to guardproxy are sent to the command as
SIGTERM and, two seconds later, as SIGKILL.

--json prints: exit_code (null if unknown), exit_status_unknown, timed_out,
runner, enforcement (full or partial), not_enforced (a list), mode, workspace,
network, stdout and stderr (the first 1 MiB of each; invalid UTF-8 is replaced),
stdout_truncated, stderr_truncated, duration_ms; survivors if processes of the
command could not be killed, how many; error and hint if it was not run.

docs/exec.md says all of it.`
}

// chain confines every command of this process.
var chain = confine.New(confine.Options{Self: true, Homes: homes})

// homes is the user's home directory by the user database. $HOME may be unset,
// or say something else.
func homes() []string {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return nil
	}
	return []string{u.HomeDir}
}

// Run is the verb.
func (c *execCmd) Run(ctx context.Context, io stdio) error {
	argv := c.Argv
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	} else if len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		// The parser takes a flag that it does not know for the command. A
		// misspelt --network=none must not run anything.
		return withCode(exitUsage, withHint(fmt.Errorf("exec: unknown flag %s", argv[0]), "run guardproxy exec --help; the command stands after --"))
	}
	if len(argv) == 0 {
		return withCode(exitUsage, withHint(errors.New("exec: no command given"), "use guardproxy exec -- COMMAND"))
	}
	if c.Timeout < 0 {
		return withCode(exitUsage, withHint(fmt.Errorf("exec: --timeout %v is negative", c.Timeout), "give a time such as 90s, or 0 for no limit"))
	}
	if f, ok := io.in.(*os.File); ok && c.Stdin {
		if st, err := f.Stat(); err == nil && st.IsDir() {
			// An open directory leads past everything that paths are held to.
			return withCode(exitUsage, withHint(errors.New("exec: stdin is a directory"), "leave --stdin out, or redirect a file or a pipe"))
		}
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // nohup stays nohup
			var stop context.CancelFunc
			ctx, stop = signal.NotifyContext(ctx, s)
			defer stop()
		}
	}
	out := execReport{Mode: c.Mode, Network: c.Network}
	result, err := c.run(ctx, io, argv, &out)
	if c.JSON {
		if err := out.print(io.out, result, err); err != nil {
			return withCode(exitRunner, err)
		}
	}
	if result.Survivors > 0 {
		fmt.Fprintf(io.err, "guardproxy: processes of the command that could not be killed: %d\n", result.Survivors)
	}
	switch {
	case err != nil:
		return withCode(exitRunner, err)
	case result.TimedOut:
		return withCode(exitTimeout, fmt.Errorf("exec: the command did not end within %v and was stopped", c.Timeout))
	case result.Unknown:
		return withCode(exitRunner, withHint(errors.New("exec: the exit status of the command was lost"),
			"it ran; look at what it did before you repeat it"))
	case result.ExitCode != 0:
		return withCode(result.ExitCode, nil)
	}
	return nil
}

// run confines argv and runs it, and notes in out what a report needs.
func (c *execCmd) run(ctx context.Context, io stdio, argv []string, out *execReport) (confined.Result, error) {
	if err := confined.Sole(); err != nil {
		return confined.Result{}, fmt.Errorf("exec: %w", err)
	}
	policy, err := c.policy()
	if err != nil {
		return confined.Result{}, err
	}
	out.Workspace = policy.Workspace
	prepared, err := chain.Confine(argv, policy)
	if err != nil {
		return confined.Result{}, fmt.Errorf("exec: %w", err)
	}
	defer prepared.Close()
	e := prepared.Enforcement
	out.Runner, out.Enforcement, out.NotEnforced = e.Runner, string(e.Level), e.Missing
	if c.Verbose {
		fmt.Fprintf(io.err, "guardproxy: confined by %s, enforcement %s\n", e.Runner, e.Level)
		for _, r := range e.Passed {
			fmt.Fprintf(io.err, "guardproxy: %s can't be used: %s\n", r.Runner, r.Reason)
		}
		for _, m := range e.Missing {
			fmt.Fprintf(io.err, "guardproxy: not enforced: %s\n", m)
		}
	}
	o := confined.Options{Stdout: io.out, Stderr: io.err, Timeout: c.Timeout}
	if c.Stdin {
		o.Stdin = io.in
	}
	if c.JSON {
		o.Stdout, o.Stderr = &out.stdout, &out.stderr
	}
	result, err := confined.Run(ctx, prepared, o)
	if err != nil {
		return result, fmt.Errorf("exec: %w", err)
	}
	return result, nil
}

// policy is what the flags ask for. The command starts where this process is if
// that is in the workspace.
func (c *execCmd) policy() (confine.Policy, error) {
	// The kernel's answer, without the symbolic links that $PWD may have.
	here, err := syscall.Getwd()
	if err != nil {
		return confine.Policy{}, fmt.Errorf("exec: where am I: %w", err)
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
	}
	if p.Masks, err = c.masks(p.Workspace); err != nil {
		return confine.Policy{}, fmt.Errorf("exec: %w", err)
	}
	if confine.Within(here, p.Workspace) {
		p.Dir = here
	}
	return p, nil
}

// masks are guardproxy's own files: those of this environment and those that
// the configuration names.
func (c *execCmd) masks(workspace string) ([]string, error) {
	var extra []string
	if c.Config != "" {
		cfg, err := config.Load(c.Config)
		if err != nil {
			return nil, err
		}
		extra = cfg.OwnFiles(config.Dirs{})
	}
	masks, err := confine.Masks(os.Getenv, homes(), extra...)
	if err != nil {
		return nil, err
	}
	// What does not exist can't be covered, and a key that a server makes while
	// the command runs would be readable. So the state directory is made here,
	// as the server would make it. Where this user can't, nor can a server.
	dirs, err := config.FindDirs(func(name string) (string, bool) {
		if at := homes(); name == "HOME" && !filepath.IsAbs(os.Getenv(name)) && len(at) > 0 {
			return at[0], true
		}
		return os.LookupEnv(name)
	})
	if err == nil && !confine.Within(resolved(dirs.State), workspace) {
		os.MkdirAll(dirs.State, 0o700)
	}
	// Recordings lie where a flag of serve said.
	for _, own := range masks {
		recordings, err := notedRecordings(own)
		if err != nil {
			return nil, err
		}
		masks = append(masks, recordings...)
	}
	return masks, nil
}

// execReport is the object of exec --json. Its members are an interface: they
// are added to, not changed.
type execReport struct {
	ExitCode        *int     `json:"exit_code"`
	Unknown         bool     `json:"exit_status_unknown"`
	TimedOut        bool     `json:"timed_out"`
	Runner          string   `json:"runner"`
	Enforcement     string   `json:"enforcement"`
	NotEnforced     []string `json:"not_enforced"`
	Mode            string   `json:"mode"`
	Workspace       string   `json:"workspace"`
	Network         string   `json:"network"`
	Stdout          string   `json:"stdout"`
	Stderr          string   `json:"stderr"`
	StdoutTruncated bool     `json:"stdout_truncated"`
	StderrTruncated bool     `json:"stderr_truncated"`
	DurationMS      int64    `json:"duration_ms"`
	Survivors       int      `json:"survivors,omitempty"`
	Error           string   `json:"error,omitempty"`
	Hint            string   `json:"hint,omitempty"`

	stdout, stderr captured
}

// print completes r with how the command ended, or why it did not run, and
// writes it.
func (r *execReport) print(w io.Writer, result confined.Result, err error) error {
	if r.NotEnforced == nil {
		r.NotEnforced = []string{}
	}
	if err != nil {
		r.Error = err.Error()
		var h interface{ Hint() string }
		if errors.As(err, &h) {
			r.Hint = h.Hint()
		}
	} else if !result.Unknown {
		r.ExitCode = &result.ExitCode
	}
	r.Unknown, r.TimedOut, r.Survivors = result.Unknown, result.TimedOut, result.Survivors
	r.DurationMS = result.Duration.Milliseconds()
	r.Stdout, r.StdoutTruncated = r.stdout.text(), r.stdout.lost || result.OutputTruncated
	r.Stderr, r.StderrTruncated = r.stderr.text(), r.stderr.lost || result.OutputTruncated
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
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
