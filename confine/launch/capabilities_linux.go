//go:build linux && (amd64 || arm64)

package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// dropCapabilities leaves keep, and nothing else, to this thread and to what it
// executes. For uid 0 the bounding set decides what execve gives back
// (capabilities(7)), so it is emptied first, and a root process that can't
// empty it is an error. An ordinary user has nothing to lose there: without new
// privileges no file can give it any.
func dropCapabilities(keep []int) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	var mask [2]uint32
	for c := 0; c < 64; c++ {
		if slices.Contains(keep, c) {
			mask[c/32] |= 1 << (c % 32)
			continue
		}
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			break // past the last one this kernel knows
		}
		if has == 0 {
			continue
		}
		err = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if err != nil && !(errors.Is(err, unix.EPERM) && os.Geteuid() != 0) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range sets {
		sets[i].Permitted &= mask[i]
		sets[i].Effective &= mask[i]
		sets[i].Inheritable = 0
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
