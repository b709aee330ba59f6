//go:build (linux || darwin) && (amd64 || arm64)

package confine

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// What a launcher is to try on itself before it becomes the command, see
// [CheckSpec]. A denial proves something only where the same would have
// succeeded without the sandbox, and a success only where it may fail: so this
// process looks first, from outside, and asks for nothing that it could not do
// itself.

// outside returns a directory in which this process could make a file and a
// command that may write below granted must not be able to; "" if none is known.
// private are directories that the command has in place of the host's.
func outside(granted, private []string) string {
	for _, d := range []string{"/var/tmp", os.Getenv("HOME"), os.TempDir()} {
		if !filepath.IsAbs(d) {
			continue
		}
		d = resolved(d)
		if slices.ContainsFunc(slices.Concat(granted, private), func(g string) bool { return Within(d, g) }) {
			continue
		}
		if unix.Access(d, unix.W_OK|unix.X_OK) == nil {
			return d
		}
	}
	return ""
}

// inside returns those of roots in which this process may make a file.
func inside(roots []string) []string {
	var able []string
	for _, d := range roots {
		if unix.Access(d, unix.W_OK) == nil {
			able = append(able, d)
		}
	}
	return able
}
