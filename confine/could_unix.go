//go:build unix

package confine

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Could says whether this process may write (or read) what is at path, or make
// it if nothing is there. It follows links, as the command did.
func Could(path string, write bool) bool {
	mode := uint32(unix.R_OK)
	if write {
		mode = unix.W_OK
	}
	for first := true; ; first = false {
		err := unix.Access(path, mode)
		if err == nil {
			return first || write
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return false
		}
		path, mode = parent, unix.W_OK|unix.X_OK
	}
}
