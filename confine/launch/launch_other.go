//go:build !((linux || darwin) && (amd64 || arm64))

package launch

import (
	"fmt"
	"os"
)

// launch has nothing to confine a process with here.
func launch([]string) int {
	fmt.Fprintln(os.Stderr, "guardproxy: fatal: the launcher works on Linux and macOS, amd64 and arm64, only")
	return ExitFatal
}
