//go:build unix

package confine

import (
	"io/fs"
	"os"
	"syscall"
)

// mine says whether a file belongs to this user.
func mine(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
