// Command guardproxy stands between a coding agent and the model API.
//
// One file a verb: each parses its flags and calls the library. What all
// verbs share stands in this file: how the command line is read, how errors
// are shown, and which exit code says what.
//
// The terminal's rules stand in package terminal.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/guardproxy/guardproxy/guards/wasm"
	_ "github.com/guardproxy/guardproxy/internal/spawn/early" // exec and the launcher never reach main
	"github.com/guardproxy/guardproxy/internal/terminal"
)

// The exit codes and errors of package terminal, under the names that the verbs
// use. A verb with codes of its own lists them in its help.
const (
	exitDone  = terminal.Done
	exitFound = terminal.Found
	exitUsage = terminal.Usage
	exitInput = terminal.Input
)

var (
	withCode = terminal.WithCode
	withHint = terminal.WithHint
	hintOf   = terminal.Hint
	report   = terminal.Report
)

// cli is the whole command line. A verb is a struct with a Run method.
type cli struct {
	Demo       demoCmd       `cmd:"" help:"Play the whole story against a model of its own, and check each step."`
	Serve      serveCmd      `cmd:"" help:"Stand between clients and the model API."`
	Exec       execCmd       `cmd:"" help:"Run one command under the local confinement layer."`
	Guard      guardCmd      `cmd:"" help:"Write, test and look at guards."`
	Schema     schemaCmd     `cmd:"" help:"Work on tool schemas."`
	Cachecheck cachecheckCmd `cmd:"" help:"Say where recorded sessions moved the prompt cache, and why."`
	Doctor     doctorCmd     `cmd:"" help:"Say what confines commands here, and what would improve it."`

	Rewriter rewriterCmd `cmd:"" hidden:""`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// execCLI is the part of cli that a command line needs which begins with exec:
// the verb that is run most often, and is waited for.
type execCLI struct {
	Exec execCmd `cmd:"" help:"Run one command under the local confinement layer."`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// stdio is what a verb reads and writes, so that tests can hold it.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	wasm.CompilerMain() // started to compile one guard: this process does only that
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal has its default action: it ends a verb that is stuck.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, io stdio) int {
	var grammar any = &cli{}
	if len(args) > 0 && args[0] == "exec" {
		grammar = &execCLI{} // building the rest takes as long as the confinement
	}
	exited := -1
	parser, err := kong.New(grammar,
		kong.Name("guardproxy"),
		kong.Description("The layer between a coding agent and the model API: narrows tool schemas, judges every tool call, confines what runs."),
		kong.Writers(io.out, io.err),
		kong.Vars{"version": version()},
		kong.Exit(func(code int) { exited = code; panic(exitPanic{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(io),
	)
	if err != nil {
		return report(io.err, err)
	}
	kctx, err := parse(parser, args, &exited)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		return report(io.err, withCode(exitUsage, withHint(err, "run guardproxy "+verb(parser, args)+"--help")))
	}
	return report(io.err, kctx.Run())
}

// version is what the build knows of itself: a module version, or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "guardproxy (unknown version)"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "(devel)" {
			v = s.Value[:min(12, len(s.Value))]
		}
	}
	return "guardproxy " + v + " " + info.GoVersion + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// verb is the verb that a command line begins with, of two words where it has
// two, and a space.
func verb(p *kong.Kong, args []string) (out string) {
	at := p.Model.Node
	for _, word := range args {
		i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == word && !n.Hidden })
		if i < 0 {
			break
		}
		at = at.Children[i]
		out += word + " "
	}
	return out
}

type exitPanic struct{}

// parse reads the command line. Kong ends the process for --help; here it
// unwinds to this function instead, so that run can be tested.
func parse(p *kong.Kong, args []string, exited *int) (k *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exitPanic); !ok {
				panic(r)
			}
		}
	}()
	return p.Parse(args)
}

// counted is a number and what is counted.
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// reportAllButLast prints errors and returns the last one, for the caller to
// return. Advice that the next error repeats is printed once.
func reportAllButLast(w io.Writer, errs []error) error {
	last := len(errs) - 1
	for i, err := range errs[:last] {
		if hintOf(err) == hintOf(errs[i+1]) {
			err = errors.New(err.Error())
		}
		report(w, err)
	}
	return errs[last]
}
