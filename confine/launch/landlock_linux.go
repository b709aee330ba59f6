//go:build linux && (amd64 || arm64)

package launch

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

// versions are the Landlock configurations by ABI; 0 is unused.
var versions = []landlock.Config{
	{}, landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5,
	landlock.V6, landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11,
}

// Rights, by what they are good for (Linux, "Landlock: unprivileged access
// control", "Filesystem flags").
const (
	readRights = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	// what exists for a single file; a rule for a file may name no other
	fileRights = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	// never given below a writable root: device nodes would reach the disk,
	// device ioctls the kernel, and sockets of others what listens there
	neverInRoots = ll.AccessFSMakeChar | ll.AccessFSMakeBlock | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
	deviceRights = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
)

// plainDevices take and give data and know no dangerous ioctl.
var plainDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// restrictFiles enforces exactly the ABI that the rung chose, on this thread.
// Never less: a best-effort ruleset can come out empty and still succeed, so a
// kernel that offers less than it did a moment ago is an error here.
func restrictFiles(spec confine.LaunchSpec) error {
	if spec.Landlock >= len(versions) {
		return fmt.Errorf("abi %d is not known", spec.Landlock)
	}
	config := versions[spec.Landlock]
	if spec.Inet {
		// The network is the namespace's, or the policy leaves it open; either
		// way a local test server must be able to listen.
		config.HandledAccessNet = 0
	}
	handled := config.HandledAccessFS
	var rules []landlock.Rule
	if len(spec.Hide) == 0 {
		rules = append(rules, landlock.PathAccess(readRights&handled, "/"))
	} else {
		rules = append(rules, landlock.PathAccess(ll.AccessFSReadDir&handled, "/"))
	}
	for _, d := range plainDevices {
		rules = append(rules, landlock.PathAccess(deviceRights&handled, d).IgnoreIfMissing())
	}
	grant := func(path string, rights landlock.AccessFSSet) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !st.IsDir() {
			rights &= fileRights
		}
		rules = append(rules, landlock.PathAccess(rights&handled, path))
		return nil
	}
	for _, path := range spec.Write {
		// Opened once, without following a link, and granted by descriptor:
		// between the check and now another command may have moved something
		// else to this path.
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer unix.Close(fd)
		if same, ok := spec.Same[path]; ok {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if st.Dev != same[0] || st.Ino != same[1] {
				return fmt.Errorf("%s is not what it was when it was checked", path)
			}
		}
		if err := grant(fmt.Sprintf("/proc/self/fd/%d", fd), handled&^neverInRoots); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, path := range spec.Terminals {
		if err := grant(path, readRights|deviceRights|ll.AccessFSIoctlDev); err != nil {
			return err
		}
	}
	fd, flags, err := config.NewRulesetFD(rules...)
	if err != nil {
		return err
	}
	if fd < 0 {
		return errors.New("the ruleset is empty, nothing would be enforced")
	}
	if len(spec.Hide) > 0 {
		g := granter{ruleset: fd, rights: uint64(readRights & handled), hide: spec.Hide, known: spec.Write}
		if err := g.below("/"); err != nil {
			return fmt.Errorf("grant what may be read: %w", err)
		}
	}
	return ll.LandlockRestrictSelf(fd, flags) // fd closes on execve
}
