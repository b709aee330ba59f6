// Package early runs guardproxy exec, and the launcher that guardproxy is where
// no guardproxy-launch is installed, before the rest of the program has been
// initialised. It is imported for that alone, by the program and by no library.
//
// Initialising all packages of guardproxy takes several milliseconds, most of
// them for metrics and the engine of guards, which a confined command needs
// nothing of. The language says in which order packages are initialised: of
// those whose imports are ready, the one whose path is the first in the alphabet
// ("Program initialization" in its specification). So this package must import
// little and nothing whose turn comes late; a test holds it to that.
//
// What it runs is what the program would run later. A command line that package
// spawn does not read by itself goes that way.
package early

import (
	"context"
	"os"

	"github.com/guardproxy/guardproxy/confine/launch"
	"github.com/guardproxy/guardproxy/internal/spawn"
	"github.com/guardproxy/guardproxy/internal/terminal"
)

func init() {
	if launch.Is(os.Args) {
		launch.Main() // inside of the sandbox: this process becomes the command
	}
	if len(os.Args) == 0 {
		return
	}
	command, plain := spawn.Parse(os.Args[1:])
	if !plain {
		return
	}
	// The goroutine that initialises packages is bound to its thread, and
	// would be slow to wake.
	go func() {
		os.Exit(terminal.Report(os.Stderr, command.Run(context.Background(), terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, nil)))
	}()
	select {}
}
