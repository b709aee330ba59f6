//go:build linux && (amd64 || arm64)

package launch

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

// restrict applies spec to this thread. After an error the process must end:
// it may be half restricted.
func restrict(spec confine.LaunchSpec) error {
	// Marked, not closed: the Go runtime still polls some of them. A directory
	// that someone left open would be a way out past every mount.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("mark inherited descriptors: %w", err)
	}
	if err := limit(spec); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("renounce new privileges: %w", err)
	}
	if err := dropCapabilities(spec.Caps); err != nil {
		return err
	}
	if spec.DieWithParent { // after the capabilities: changing them resets it
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("tie the command to its parent: %w", err)
		}
	}
	if spec.Check.Mounts {
		if err := checkDenied(spec.Check.Outside); err != nil {
			return fmt.Errorf("the check of the mounts failed: %w", err)
		}
	}
	if spec.Landlock > 0 {
		if err := restrictFiles(spec); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if spec.Renames > 0 {
		if err := handOut(spec.Renames); err != nil {
			return fmt.Errorf("system call filter for renames: %w", err)
		}
	}
	if err := filterFor(spec).install(); err != nil {
		return fmt.Errorf("system call filter: %w", err)
	}
	if err := check(spec.Check); err != nil {
		return fmt.Errorf("the check of the sandbox failed: %w", err)
	}
	return nil
}
