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
	"os"

	"github.com/guardproxy/guardproxy/confine/launch"
	"github.com/guardproxy/guardproxy/internal/spawn"
)

func init() {
	if launch.Is(os.Args) {
		launch.Main() // inside of the sandbox: this process becomes the command
	}
	if len(os.Args) < 2 || os.Args[1] != "exec" {
		return
	}
	if command, plain := spawn.Parse(os.Args[2:]); plain {
		// Packages are initialised on a goroutine that is bound to its thread,
		// and slow to wake.
		go command.Main()
		select {}
	}
}
