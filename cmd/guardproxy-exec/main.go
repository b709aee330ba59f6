// Command guardproxy-exec is guardproxy exec as a program of its own, which
// starts three milliseconds faster: for a harness that runs every command of an
// agent under it. Flags, output and exit codes are the same (docs/exec.md).
//
// It reads plain command lines by itself. The rest (a configuration, an error, a
// call for help) it leaves to the guardproxy beside it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/guardproxy/guardproxy/confine/launch"
	"github.com/guardproxy/guardproxy/internal/spawn"
	"github.com/guardproxy/guardproxy/internal/terminal"
)

func main() {
	if launch.Is(os.Args) {
		launch.Main() // inside of the sandbox: this process becomes the command
	}
	if command, plain := spawn.Parse(os.Args[1:]); plain {
		command.Main()
	}
	os.Exit(terminal.Report(os.Stderr, terminal.WithCode(spawn.ExitRunner, handOver(os.Args[1:]))))
}

// handOver makes this process guardproxy exec. It returns only an error.
func handOver(args []string) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return fmt.Errorf("exec: find the guardproxy beside this program: %w", err)
	}
	program := filepath.Join(filepath.Dir(self), "guardproxy")
	err = syscall.Exec(program, append([]string{program, "exec"}, args...), os.Environ())
	return terminal.WithHint(fmt.Errorf("exec: start %s: %w", program, err),
		"guardproxy-exec leaves this command line to guardproxy; install the two side by side")
}
