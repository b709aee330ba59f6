//go:build amd64 || arm64

package launch

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// unusedName returns a path in dir that nobody else uses.
func unusedName(dir string) (string, error) {
	return filepath.Join(dir, ".guardproxy-check-"+rand.Text()), nil
}

// openNameless has nothing to try: every file has a name here.
func openNameless(string) error { return unix.ENOTSUP }

// openTemporary makes a file in the command's own temporary directory.
func openTemporary(dir string) error {
	path, err := unusedName(dir)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(path)
}

// environOf is the sysctl that tells arguments and environment of a process
// (KERN_PROCARGS2, sys/sysctl.h).
const environOf = "kern.procargs2"

func readEnviron(name string, pid int) error {
	_, err := unix.SysctlRaw(name, pid)
	return err
}
