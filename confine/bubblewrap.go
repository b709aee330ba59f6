package confine

import (
	"slices"
	"strconv"
)

// The bubblewrap profile, as a pure function: what was found on the machine and
// the policy go in, bwrap's arguments come out. Order matters to bwrap, it
// mounts in the order of its arguments, so the profile is built in layers:
//
//  1. the whole file system, read-only
//  2. fresh /dev, /proc and /tmp; empty directories where sockets live
//  3. the writable roots, which may lie in what layer 2 emptied
//  4. what is guarded inside the writable roots (package confine/ward)
//  5. what is covered: sockets, own files, secrets
//
// A path that doesn't exist is never a mount point: bwrap would create it, on
// the host, and leave it there. What does not exist yet is layer 4's other half:
// it is looked at when the command has ended.

// Names of the rungs, as in Enforcement.Runner.
const (
	runBubblewrap = "bubblewrap"
	runLandlock   = "landlock"
	runSeatbelt   = "seatbelt"
)

// launcherInside is where the launcher is bound to if its own path does not lead
// to it inside, as that of binaries of go run and go test, which lie in the
// replaced /tmp: in /dev, the one place that is always a fresh and writable file
// system at that point.
const launcherInside = "/dev/" + LauncherName

// Capabilities that root keeps, by their numbers in capabilities(7). Root works
// on files of any owner, and these are what that takes; without them root could
// not write a workspace that belongs to another user.
var rootCaps = []struct {
	name   string
	number int
}{
	{"CAP_CHOWN", 0},
	{"CAP_DAC_OVERRIDE", 1},
	{"CAP_FOWNER", 3},
	{"CAP_FSETID", 4},
}

func rootCapNumbers() []int {
	var n []int
	for _, c := range rootCaps {
		n = append(n, c.number)
	}
	return n
}

// scene is what the profile needs to know of the machine at the moment of one
// call. All paths are absolute, exist and have no symbolic links in them.
type scene struct {
	launcher  string
	inside    string   // the launcher's path inside: its own, or launcherInside
	root      bool     // uid 0
	userns    bool     // uid 0 needs a user namespace for the others
	freshProc bool     // a new /proc can be mounted
	procFiles []string // what of a fresh /proc is covered read-only where it can't be as a whole
	emptied   []string // directories of sockets: /run, $XDG_RUNTIME_DIR
	kept      []string // files in emptied or in /tmp that the policy's network needs
	sockets   []string // other sockets that something listens on
	pins      []string // directories on the way to guarded ones: mounts, so that they can't be moved
	guarded   []string // what stays read-only in the writable roots
	grants    []string // directories of a repository elsewhere that git writes
	maskDirs  []string
	maskFiles []string
	temp      string               // the session's directory, "" for an empty /tmp
	landlock  int                  // ABI to enforce inside
	renames   bool                 // somebody answers rename calls
	same      map[string][2]uint64 // what the writable roots are
}

// bwrapPipes are what a command under bubblewrap gets from descriptor 3 on.
func bwrapPipes(s scene) []Pipe {
	pipes := []Pipe{LauncherPipe, BubblewrapPipe, InstructionsPipe}
	if s.renames {
		pipes = append(pipes, RenamePipe)
	}
	return pipes
}

// fd is the descriptor number of a pipe, 0 if it is not one of them.
func fd(pipes []Pipe, p Pipe) int {
	if i := slices.Index(pipes, p); i >= 0 {
		return 3 + i
	}
	return 0
}

// bwrapArgs returns bwrap's arguments for argv under p, and the launcher's
// instructions.
func bwrapArgs(s scene, p Policy, argv []string) ([]string, LaunchSpec) {
	roots := WritableRoots(p)
	pipes := bwrapPipes(s)
	a := []string{"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	if !p.host() {
		a = append(a, "--unshare-net")
	}
	// Root in a user namespace of its own could not write files of other
	// users, so root does without and gives up capabilities instead.
	a = append(a, "--cap-drop", "ALL")
	spec := LaunchSpec{
		Landlock:  s.landlock,
		Write:     slices.Concat(roots, s.grants, []string{"/tmp", "/dev/shm"}),
		Same:      s.same,
		Terminals: []string{"/dev/ptmx", "/dev/pts"},
		Inet:      true,
		FileSize:  fileSizeLimit,
		Trace:     s.landlock > 0,
		Env:       p.Env,
		StatusFD:  fd(pipes, LauncherPipe),
		Renames:   fd(pipes, RenamePipe),
	}
	if s.root {
		for _, c := range rootCaps {
			a = append(a, "--cap-add", c.name)
		}
		// The launcher's, to empty the bounding set with; it does not keep it.
		a = append(a, "--cap-add", "CAP_SETPCAP")
		spec.Caps = rootCapNumbers()
	} else {
		spec.Processes = processLimit
	}
	if !s.root || s.userns {
		a = append(a, "--unshare-user")
	}
	a = append(a, "--new-session", "--die-with-parent", "--json-status-fd", strconv.Itoa(fd(pipes, BubblewrapPipe)))

	a = append(a, "--ro-bind", "/", "/")

	a = append(a, "--dev", "/dev")
	if s.freshProc {
		a = append(a, "--proc", "/proc")
		if s.landlock > 0 {
			// Landlock grants no writes in it, not even of what a process may
			// say about itself, so one flag takes nothing else away.
			a = append(a, "--remount-ro", "/proc")
		} else {
			for _, f := range s.procFiles {
				a = append(a, "--ro-bind", f, f)
			}
		}
	}
	if s.temp == "" {
		a = append(a, "--tmpfs", "/tmp")
	} else {
		a = append(a, "--bind", s.temp, "/tmp")
	}
	for _, d := range s.emptied {
		a = append(a, "--tmpfs", d)
	}
	for _, f := range s.kept {
		a = append(a, "--ro-bind", f, f)
	}
	if s.inside != s.launcher {
		a = append(a, "--ro-bind", s.launcher, s.inside)
	}

	// The workspace is bound in every mode: it may lie in /tmp.
	if p.Mode == ReadOnly {
		a = append(a, "--ro-bind", p.Workspace, p.Workspace)
	}
	for _, r := range roots {
		a = append(a, "--bind", r, r)
	}

	if len(roots) > 0 {
		for _, d := range slices.Concat(s.grants, s.pins) {
			a = append(a, "--bind", d, d)
		}
		for _, d := range s.guarded {
			a = append(a, "--ro-bind", d, d)
		}
	}

	for _, f := range slices.Concat(s.sockets, s.maskFiles) {
		a = append(a, "--ro-bind", "/dev/null", f)
	}
	for _, d := range s.maskDirs {
		a = append(a, "--tmpfs", d)
	}
	if s.landlock == 0 {
		// Nothing of the host is in them; that nothing is put there either is
		// Landlock's, and where there is none a flag's.
		for _, d := range slices.Concat(s.emptied, s.maskDirs) {
			a = append(a, "--remount-ro", d)
		}
	}

	dir := p.Dir
	if dir == "" {
		dir = p.Workspace
	}
	a = append(a, "--chdir", dir, "--", s.inside, LaunchArg, strconv.Itoa(fd(pipes, InstructionsPipe)))
	return append(a, argv...), spec
}

const (
	// No single file over 8 GiB: a runaway log must not fill the disk before
	// anyone looks.
	fileSizeLimit = 8 << 30
	// Enough for a parallel build, too few for a fork bomb to hurt. Under
	// Landlock alone it comes on top of what the user runs already.
	processLimit = 4096
)
