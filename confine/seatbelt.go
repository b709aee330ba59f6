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
// an operation decides. A word that a system does not know is an error of
// sandbox-exec's, so nothing runs with half a profile.
//
// It can do one thing that mounts can't: a path that does not exist can be
// denied. It can't give a command a /tmp, a network or a process table of its
// own, so what it enforces is partial.

// seatbeltBase is what every program needs to start. Devices are a list, since
// some of them (disks, captured packets) hold what paths are denied for.
// The environment of other processes, which may hold keys, is a sysctl
// (kern.procargs2) and information about a process; not every macOS asks the
// profile before it tells, so the probe tries it. Terminals are those that the command made itself (pty(4)): the extension is
// given to whoever opened the other side.
const seatbeltBase = `(version 1)
(deny default)
(allow process-exec process-fork)
(deny process-info*)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(deny sysctl-read (sysctl-name-prefix "kern.procargs"))
(allow file-read* file-map-executable)
(deny file-read-data (subpath "/dev"))
(allow file-read-data (literal "/dev"))
(allow file-read* file-write-data (subpath "/dev/fd") (literal "/dev/stdin") (literal "/dev/stdout") (literal "/dev/stderr"))
(allow file-ioctl file-read* file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-read* file-write-data (literal "/dev/random") (literal "/dev/urandom"))
(allow pseudo-tty)
(allow file-ioctl file-read* file-write* (literal "/dev/ptmx"))
(allow file-ioctl file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.logger"))
`

// seatbeltHost is the host's network: sockets of the file system stay closed,
// but for the one by which names are resolved, and of services there are those
// that resolve names and judge certificates.
const seatbeltHost = `(allow network*)
(allow system-socket)
(deny network* (remote unix-socket))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.dnssd.service")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.trustd.agent"))
`

// seatbelt returns the profile of a command that may write below roots. guarded
// are paths in them that can't be made or changed, hidden are paths anywhere
// that can't be read, either. temp is the command's own, also where it lies in
// something hidden: a session's directory is in guardproxy's state.
//
// Paths are compared by what they resolve to, so all of them have to be
// absolute and without symbolic links: /tmp is /private/tmp there.
func seatbelt(roots, guarded, hidden []string, temp string, network Network) string {
	var b strings.Builder
	b.WriteString(seatbeltBase)
	rule := func(action, operations string, paths []string) {
		for _, path := range paths {
			fmt.Fprintf(&b, "(%s %s (subpath %s))\n", action, operations, seatbeltText(path))
		}
	}
	rule("allow", "file-write*", roots)
	rule("deny", "file-write*", seatbeltNames(guarded))
	for _, d := range seatbeltNames(seatbeltWays(roots, slices.Concat(guarded, hidden))) {
		fmt.Fprintf(&b, "(deny file-write-unlink (literal %s))\n", seatbeltText(d))
	}
	rule("deny", "file-read* file-write*", seatbeltNames(hidden))
	rule("allow", "file-read* file-write*", []string{temp})
	for d := filepath.Dir(temp); d != "/" && d != "."; d = filepath.Dir(d) {
		// Who resolves a path below asks what each directory on the way is.
		fmt.Fprintf(&b, "(allow file-read-metadata (literal %s))\n", seatbeltText(d))
	}
	// A file that is made set-user-id would be run as its owner.
	b.WriteString("(deny file-write-setugid)\n")
	if network == HostNetwork {
		b.WriteString(seatbeltHost)
	}
	return b.String()
}

// seatbeltData is where the volume that users write is mounted, besides the
// places in the root that lead there.
const seatbeltData = "/System/Volumes/Data"

// seatbeltNames returns paths with their other names on that volume, so that no
// denial depends on which of the two the kernel compares.
func seatbeltNames(paths []string) []string {
	var all []string
	for _, path := range paths {
		all = append(all, path, seatbeltData+path)
	}
	return all
}

// seatbeltWays returns the directories between roots and what is denied in them.
// Moved away, one would take what is below along to a path that nothing is said
// about, and leave room for another.
func seatbeltWays(roots, denied []string) []string {
	var ways []string
	for _, path := range denied {
		for _, root := range roots {
			for d := filepath.Dir(path); d != root && Within(d, root); d = filepath.Dir(d) {
				ways = append(ways, d)
			}
		}
	}
	slices.Sort(ways)
	return slices.Compact(ways)
}

// seatbeltText quotes a text for a profile.
func seatbeltText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + `"`
}

// seatbeltArgs are the arguments of command, sandbox-exec, for a profile and a
// command line.
func seatbeltArgs(command, profile string, argv []string) []string {
	return slices.Concat([]string{command, "-p", profile, "--"}, argv)
}

// seatbeltAdvice says what to do when the probe failed with text.
func seatbeltAdvice(text string) string {
	switch {
	case strings.Contains(text, "sandbox_apply"):
		return "start guardproxy outside of any other sandbox: in one there can be no second"
	case strings.Contains(text, "instructions"), strings.Contains(text, "no report"), strings.Contains(text, "exec format error"):
		return "install " + LauncherName + " anew: the one beside guardproxy is of another version or does not work"
	}
	return ""
}

// seatbeltMissing lists what the rung leaves open. environ says that nothing
// keeps a command from the environment of other processes.
func seatbeltMissing(p Policy, environ bool) []string {
	missing := []string{
		"a process table of its own: other processes of the user are visible",
		"a /tmp of its own: what other programs leave there can be read",
		"system calls are not filtered",
		"the number of processes is limited by the system alone",
		"system services for names of users, notifications and the log can be talked to, and named semaphores of other programs",
		"what leaves the command's process group goes on when the command has ended",
		"the command, and what it started, outlives a killed guardproxy",
	}
	if environ {
		missing = append(missing, "arguments and environment of the user's other processes can be read, and with them keys in variables, guardproxy's own too")
	}
	if p.Mode == WorkspaceWrite {
		missing = append(missing, "guarded places that do not exist can be filled by moving a directory there, or by a name in another case; they are moved away afterwards")
	}
	if p.host() {
		missing = append(missing, "system services that resolve names and judge certificates can be talked to")
	}
	return missing
}
