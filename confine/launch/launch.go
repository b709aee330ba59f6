// Package launch is what runs inside the sandbox: a process that takes rights
// away from itself and then becomes the command.
//
// It is linked into two programs: guardproxy-launch, which is nothing else and
// therefore starts fast, and guardproxy itself, which a rung re-executes when
// the small one is not installed. Both begin with the same line, before flags
// are read and before anything else can go wrong:
//
//	if launch.Is(os.Args) {
//		launch.Main()
//	}
//
// The order inside is the order in which each step still works: inherited
// descriptors are marked to close, resource limits are set, new privileges are
// renounced, capabilities go, then Landlock, then the system call filter, which
// forbids some of what came before it. Then it tries what the command must not be
// able to do (check_unix.go), and gives up if it can. All of it is done on one locked thread,
// and execve makes that thread the whole process; so no other thread has to be
// restricted, and none survives.
//
// On macOS sandbox-exec has confined it before it starts. There it marks
// descriptors, sets limits, and then checks itself in the same way.
//
// Whoever started it learns from a status pipe, not from stderr, how far it
// came (see confine.LauncherPipe). What the command then does is the command's.
package launch

import (
	"os"

	"github.com/guardproxy/guardproxy/confine"
)

// Exit codes of a launcher whose command never ran.
const (
	ExitFatal      = 125 // it could not confine itself
	ExitNotAllowed = 126 // the command exists and can't be executed, as in a shell
	ExitNotFound   = 127 // the command does not exist, as in a shell
)

// Is says whether args (os.Args) ask this process to be a launcher.
func Is(args []string) bool {
	return len(args) > 1 && (args[1] == confine.LaunchArg || args[1] == confine.ProbeArg)
}

// Main is the whole program of a process for which [Is] holds. It does not
// return.
func Main() {
	os.Exit(launch(os.Args))
}
