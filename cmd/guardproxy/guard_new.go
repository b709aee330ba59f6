package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/guards/sdk"
)

type guardNewCmd struct {
	Lang string `enum:"go,rust,c,assemblyscript" required:"" placeholder:"LANG" help:"The language: ${enum}."`
	Dir  string `arg:"" type:"path" help:"The directory to write, which must not exist or be empty."`
}

func (guardNewCmd) Help() string {
	return `Writes a small guard that works, with the SDK beside it, its cases, and a script
that builds it:

  guardproxy guard new --lang rust my-guard
  cd my-guard && sh build.sh
  guardproxy guard test guard.wasm cases.jsonl

The directory has all that the language's compiler needs, but for
AssemblyScript, whose compiler build.sh gets by npm.
README.md in it says what to change, and how the guard is switched on.

Exit codes: 0 written, 2 usage, 3 a directory that is not empty or can't be
written.`
}

const newHint = "name a directory that does not exist yet, where you may write"

func (c *guardNewCmd) Run(std stdio) error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return withCode(exitInput, withHint(err, newHint))
	}
	if len(entries) > 0 {
		return withCode(exitInput, withHint(fmt.Errorf("%s is not empty", c.Dir), newHint))
	}
	files, err := sdk.New(c.Lang)
	if err != nil {
		return err
	}
	var names []string
	for name, content := range files {
		path := filepath.Join(c.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return withCode(exitInput, withHint(err, newHint))
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return withCode(exitInput, withHint(err, newHint))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	_, err = fmt.Fprintf(std.out, "wrote %s: %s\nnext: cd %s && sh build.sh && guardproxy guard test guard.wasm cases.jsonl\n", c.Dir, strings.Join(names, ", "), c.Dir)
	return err
}
