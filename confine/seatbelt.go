package confine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The macOS profile, as a pure function: a policy goes in, the text that
// sandbox-exec takes comes out. It is in the language of the system's own
// profiles (/System/Library/Sandbox/Profiles), where the last rule that matches
// an operation decides.
//
// It can do one thing that mounts can't: a path that does not exist can be
// denied, so that guarded places need no look afterwards. It can't give a
// command a /tmp, a network or a process table of its own, so what it enforces
// is partial.
//
// No rung of the chain uses it yet: macOS is unavailable until one is proved on
// a Mac by the same probe as the others.

// seatbeltBase is what every program needs to start.
const seatbeltBase = `(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read*)
(allow file-ioctl file-read* file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-read* file-write-data (literal "/dev/random") (literal "/dev/urandom"))
(allow pseudo-tty)
(allow file-ioctl file-read* file-write* (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+$"))
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.logger"))
`

// seatbelt returns the profile of a command that writes p's roots and temp.
// guarded are absolute paths in the roots that can't be made or changed.
//
// Paths are compared by what they resolve to, so all of them have to be without
// symbolic links: /tmp is /private/tmp there.
func seatbelt(p Policy, temp string, guarded []string) string {
	var b strings.Builder
	b.WriteString(seatbeltBase)
	rule := func(action, operations string, paths []string) {
		for _, path := range paths {
			fmt.Fprintf(&b, "(%s %s (subpath %s))\n", action, operations, seatbeltText(path))
		}
	}
	rule("allow", "file-write*", append(WritableRoots(p), temp))
	rule("deny", "file-write*", guarded)
	for _, path := range guarded {
		// Moved away, a directory on the way would leave room for another.
		for _, root := range WritableRoots(p) {
			for d := filepath.Dir(path); d != root && Within(d, root); d = filepath.Dir(d) {
				fmt.Fprintf(&b, "(deny file-write-unlink (literal %s))\n", seatbeltText(d))
			}
		}
	}
	rule("deny", "file-read* file-write*", slices.Concat(p.Masks, p.Hidden))
	// A file that is made set-user-id would be run as its owner.
	b.WriteString("(deny file-write-setugid)\n")
	if p.host() {
		b.WriteString("(allow network*)\n(allow system-socket)\n")
		b.WriteString("(deny network* (remote unix-socket))\n")
	}
	return b.String()
}

// seatbeltText quotes a text for a profile.
func seatbeltText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + `"`
}

// seatbeltArgs are the arguments of sandbox-exec for a profile and a command.
func seatbeltArgs(profile string, argv []string) []string {
	return slices.Concat([]string{"/usr/bin/sandbox-exec", "-p", profile, "--"}, argv)
}
