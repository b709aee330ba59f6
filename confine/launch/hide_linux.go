//go:build linux && (amd64 || arm64)

package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Landlock grants below a directory and can't take away again further down. So
// what is hidden is what nothing is granted for: along the way to each hidden
// path every neighbour is granted by itself, and the directories on the way are
// not. What is made later in one of those can't be read, either.

// granter grants the right to read everything but what is hidden.
type granter struct {
	ruleset int
	rights  uint64
	hide    []string
	// known are paths that exist although a directory on the way to them may
	// not be listed.
	known []string
}

// below grants what is in dir, which has something hidden in it.
func (g granter) below(dir string) error {
	names, err := listNames(dir)
	if errors.Is(err, fs.ErrPermission) {
		// Without a list, only what the caller needs is found.
		for _, k := range slices.Concat(g.known, g.hide) {
			if rest, ok := strings.CutPrefix(k, strings.TrimSuffix(dir, "/")+"/"); ok {
				name, _, _ := strings.Cut(rest, "/")
				names = append(names, name)
			}
		}
	} else if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		path := filepath.Join(dir, name)
		switch {
		case slices.Contains(g.hide, path):
		case slices.ContainsFunc(g.hide, func(h string) bool { return strings.HasPrefix(h, path+"/") }):
			if err := g.below(path); err != nil {
				return err
			}
		default:
			if err := g.grant(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// grant lets path be read, with all that is below it. A link is skipped: what it
// leads to is granted where it lies, or hidden.
func (g granter) grant(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return ignoreGone(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return ignoreGone(err)
	}
	rights := g.rights
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
	default:
		rights &= uint64(fileRights)
	}
	err = ll.LandlockAddPathBeneathRule(g.ruleset, &ll.PathBeneathAttr{ParentFd: fd, AllowedAccess: rights}, 0)
	if errors.Is(err, unix.EBADFD) { // a file system without files of its own, such as a socket's
		return nil
	}
	return err
}

func listNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// ignoreGone is nil for what was there a moment ago, or may not be looked at: it
// can't be read from inside, which is no less than it was.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
