package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/guardproxy/guardproxy/guards/examples"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/home"
)

// guardCmd is what guards are written, tested and looked at with. Each verb has
// a file; what they share stands here: where a module comes from, and where its
// compiled code is kept.
type guardCmd struct {
	New     guardNewCmd     `cmd:"" help:"Write a new guard: source, SDK, cases, and the command that builds it."`
	Test    guardTestCmd    `cmd:"" help:"Test a guard: its cases, and what every guard has to hold."`
	Inspect guardInspectCmd `cmd:"" help:"Show what is in a module, without running it."`
	Bench   guardBenchCmd   `cmd:"" help:"Measure what a guard's calls cost."`
	Replay  guardReplayCmd  `cmd:"" help:"Judge recorded calls again, and show what would change."`
	List    guardListCmd    `cmd:"" help:"List the guards that come with guardproxy."`
}

// moduleArg is a module on the command line.
type moduleArg struct {
	Module string `arg:"" help:"A guard's module (.wasm), or the name of a bundled guard (guardproxy guard list)."`
}

// module is a module and what to call it.
type module struct {
	name  string
	bytes []byte
}

func (m *module) sha256() string { return fmt.Sprintf("%x", sha256.Sum256(m.bytes)) }

func (a moduleArg) read() (*module, error) {
	if b, ok := examples.Module(a.Module); ok {
		return &module{a.Module, b}, nil
	}
	b, _, err := readRegular(a.Module)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withCode(exitInput, withHint(err, "name the file of a module, or a bundled guard: "+strings.Join(examples.Names(), ", ")))
	}
	if err != nil {
		return nil, withCode(exitInput, withHint(err, "name the file of a module (.wasm)"))
	}
	return &module{strings.TrimSuffix(filepath.Base(a.Module), ".wasm"), b}, nil
}

// cacheDir is where serve keeps compiled code too; "" if there is no place.
func cacheDir() string {
	dirs, err := home.Find(os.LookupEnv)
	if err != nil {
		return ""
	}
	return filepath.Join(dirs.Cache, "wasm")
}

// refused is the exit code for a module that can't be a guard. Ctrl-C while it
// was loaded says nothing about the module.
func refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return withCode(exitInput, errInterrupted)
	}
	var load *wasm.LoadError
	if errors.As(err, &load) {
		return withCode(exitInput, err)
	}
	return err
}

// printJSON writes v for a program to read.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

type guardListCmd struct {
	JSON bool `name:"json" help:"Print a JSON array of objects with name, language and about."`
}

func (guardListCmd) Help() string {
	return `A bundled guard is switched on in the configuration:

  guards:
    - name: no-root-delete
      use: no-root-delete

docs/guards.md says of each what it denies, how it is configured and what it
can't see.`
}

func (c *guardListCmd) Run(std stdio) error {
	list := examples.List()
	if c.JSON {
		return printJSON(std.out, list)
	}
	for _, g := range list {
		if _, err := fmt.Fprintf(std.out, "%-18s %-15s %s\n", g.Name, g.Language, g.About); err != nil {
			return err
		}
	}
	return nil
}
