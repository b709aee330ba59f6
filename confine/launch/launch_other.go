//go:build !(linux && (amd64 || arm64))

package launch

import (
	"fmt"
	"os"
)

// launch has nothing to confine a process with here.
func launch([]string) int {
	fmt.Fprintln(os.Stderr, "guardproxy: fatal: the launcher works on Linux, amd64 and arm64, only")
	return ExitFatal
}
