//go:build (linux || darwin) && (amd64 || arm64)

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

// The launcher where a profile confined it before it started, as on macOS. There
// is nothing that it could take away from itself but limits and descriptors, each
// by what both systems have. Linux uses none of this, and tests all of it.

// restrictProfiled applies spec to this process, and sees whether the profile
// holds. What spec asks for beyond that is an error: it would not be enforced.
func restrictProfiled(spec confine.LaunchSpec) error {
	rest := spec
	rest.Processes, rest.FileSize, rest.Env, rest.StatusFD = 0, 0, confine.EnvRules{}, 0
	rest.Same, rest.Check = nil, confine.CheckSpec{}
	if !reflect.DeepEqual(rest, confine.LaunchSpec{}) {
		return errors.New("the instructions ask for what only Linux has")
	}
	if err := markInherited(); err != nil {
		return fmt.Errorf("mark inherited descriptors: %w", err)
	}
	if err := limit(spec); err != nil {
		return err
	}
	if err := unchanged(spec.Same); err != nil {
		return err
	}
	if err := check(spec.Check); err != nil {
		return fmt.Errorf("the check of the sandbox failed: %w", err)
	}
	return nil
}

// markInherited marks every descriptor from 3 on to close on execve. A
// descriptor that opens meanwhile is this process's own, and marked already.
func markInherited() error {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			return fmt.Errorf("/dev/fd lists %q", name)
		}
		if fd < 3 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// unchanged returns an error unless each path is what it was when it was
// checked: the same device and inode, and no link on the way.
func unchanged(same map[string][2]uint64) error {
	for path, id := range same {
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !ok || real != path || [2]uint64{uint64(sys.Dev), sys.Ino} != id {
			return fmt.Errorf("%s is not what it was when it was checked", path)
		}
	}
	return nil
}
