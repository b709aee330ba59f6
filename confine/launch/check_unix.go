//go:build (linux || darwin) && (amd64 || arm64)

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

// The launcher's test of itself. It stands where the command is about to stand,
// under everything that the command will be under, and tries what the policy
// forbids. Whatever it finds open ends it before the command runs, so a runner
// that has stopped confining since it was last looked at runs nothing.

// checkDenied returns an error unless dir is out of reach of writes: for a file
// with a name and for one without, which take different rights.
func checkDenied(dir string) error {
	if dir == "" {
		return nil
	}
	path, err := unusedName(dir)
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
		unix.Unlink(path)
		return fmt.Errorf("a file could be made in %s, outside of every grant", dir)
	}
	if !denial(err) && !errors.Is(err, unix.ENOENT) { // not even visible
		return fmt.Errorf("whether a file can be made in %s is not known: %w", dir, err)
	}
	if openNameless(dir) == nil {
		return fmt.Errorf("a file could be written in %s, outside of every grant", dir)
	}
	return nil // or its file system has no such files
}

// check tries what c names, after everything has been applied.
func check(c confine.CheckSpec) error {
	if err := checkDenied(c.Outside); err != nil {
		return err
	}
	for _, dir := range c.Inside {
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return fmt.Errorf("a write in %s is denied, which the policy allows: %w", dir, err)
		}
	}
	if c.Temp != "" {
		// Landlock grants the same here and in Inside, and takes no part in access(2).
		if err := openTemporary(c.Temp); denial(err) { // any other error is the file system's, and not ours
			return fmt.Errorf("a write in %s was denied, which the policy allows: %w", c.Temp, err)
		}
	}
	for _, path := range c.Covered {
		if err := checkCovered(path, c.Mounts); err != nil {
			return err
		}
	}
	return nil
}

// checkCovered returns an error if something of path can be read. Mounts replace
// a directory by an empty one; Landlock leaves the names in it.
func checkCovered(path string, mounts bool) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if hides(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("whether %s is covered is not known: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("whether %s is covered is not known: %w", path, err)
	}
	if !st.IsDir() {
		if st.Mode()&os.ModeCharDevice != 0 { // /dev/null, put in its place
			return nil
		}
		return fmt.Errorf("%s is readable, which should be covered", path)
	}
	// One that has no right to be listed by this user shows nothing, either.
	entries, _ := f.ReadDir(maxEntries)
	for _, e := range entries {
		if mounts {
			return fmt.Errorf("%s shows its content, which should be covered", path)
		}
		if !e.Type().IsRegular() {
			continue
		}
		inner := filepath.Join(path, e.Name())
		fd, err := unix.Open(inner, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
			return fmt.Errorf("%s is readable, which should be covered", inner)
		}
	}
	return nil
}

// maxEntries is how many entries of a directory are looked at.
const maxEntries = 16

// denial says whether err is what a read-only mount, Landlock or seatbelt answers.
func denial(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// hides says whether err means that there is nothing to read.
func hides(err error) bool {
	return denial(err) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO)
}
