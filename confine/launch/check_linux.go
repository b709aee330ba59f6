//go:build linux && (amd64 || arm64)

package launch

import (
	"encoding/hex"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// unusedName returns a path in dir that nobody else uses.
func unusedName(dir string) (string, error) {
	var name [8]byte
	if _, err := unix.Getrandom(name[:], 0); err != nil {
		return "", err
	}
	return filepath.Join(dir, ".guardproxy-check-"+hex.EncodeToString(name[:])), nil
}

// openNameless opens a file in dir that has no name, and closes it.
func openNameless(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return nil
}

// openTemporary makes a file in the command's own temporary directory.
func openTemporary(dir string) error { return openNameless(dir) }

// environOf is empty: what /proc shows of other processes is for mounts and
// Landlock.
const environOf = ""

func readEnviron(string, int) error { return unix.ENOTSUP }
