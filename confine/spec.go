package confine

// The launcher's command line: what a rung asks of the process that package
// confine/launch runs inside the sandbox. Both sides are always the same build,
// so this is no wire format, but a launcher beside the executable may be left
// over from an older one: the version in LaunchArg keeps the two apart.
//
//	LAUNCHER LaunchArg FD ARGV…            confine yourself, then become ARGV
//	LAUNCHER ProbeArg  PROBE-JSON          try what the profile forbids, report
//
// The instructions (LaunchSpec, as JSON) come from the inherited descriptor FD:
// an argument could be read in the process table, and the environment is the
// caller's.

const (
	// LaunchArg is the first argument of a process that is to confine itself.
	LaunchArg = "__guardproxy-launch/3"
	// ProbeArg is the first argument of a process that shows, from inside,
	// what a profile lets it do.
	ProbeArg = "__guardproxy-probe/2"
)

// LaunchSpec is what the launcher applies to itself before it becomes the
// command. The zero value applies least; a rung fills in what it needs.
type LaunchSpec struct {
	// Landlock is the Landlock ABI to enforce, exactly. 0 means none, which
	// only a rung with mount namespaces may ask for.
	Landlock int `json:"landlock,omitempty"`
	// Write are existing files and directories whose contents may change.
	Write []string `json:"write,omitempty"`
	// Same holds, for paths in Write that were checked outside, their device
	// and inode: a path that has become another since is an error.
	Same map[string][2]uint64 `json:"same,omitempty"`
	// Hide are existing files and directories that can't be read, with all that
	// is in them, unless they lie below one of Write. Their names stay visible.
	Hide []string `json:"hide,omitempty"`
	// Terminals are device files or directories that may be written to and
	// driven by ioctl.
	Terminals []string `json:"terminals,omitempty"`
	// Inet lets internet and netlink sockets be made: the network is the
	// command's own, or the policy gives it the host's.
	Inet bool `json:"inet,omitempty"`
	// Caps are the capability numbers that stay in the bounding set; all
	// others go. Only uid 0 has any to keep.
	Caps []int `json:"caps,omitempty"`
	// Processes is RLIMIT_NPROC, 0 to leave it. It counts the threads of the
	// user in the user namespace (setrlimit(2)): where that is the host's, what
	// already runs has to be added. It does not bind uid 0.
	Processes uint64 `json:"processes,omitempty"`
	// FileSize is RLIMIT_FSIZE in bytes, 0 to leave it.
	FileSize uint64 `json:"file_size,omitempty"`
	// DieWithParent asks for SIGKILL when the parent ends. It holds for the
	// command itself and not for what that starts (PR_SET_PDEATHSIG(2const)).
	DieWithParent bool `json:"die_with_parent,omitempty"`
	// Env says what the launcher leaves of the environment it was given.
	Env EnvRules `json:"env"`
	// Renames is the descriptor of a socket on which the launcher hands out the
	// listener of its filter for rename calls (see [RenamePipe]), 0 for none.
	Renames int `json:"renames,omitempty"`
	// Trace lets the command trace what it starts, as debuggers do. Landlock
	// keeps it from every process outside of its own domain, and a process
	// namespace from seeing one.
	Trace bool `json:"trace,omitempty"`
	// Alone says that other processes of the user are in reach: the filter then
	// denies what acts on them and no namespace prevents.
	Alone bool `json:"alone,omitempty"`
	// StatusFD is the descriptor of the [LauncherPipe], 0 for none.
	StatusFD int `json:"status_fd,omitempty"`
	// Check is what the launcher tries before it becomes the command.
	Check CheckSpec `json:"check"`
}

// CheckSpec is what the launcher tries on itself, as the last thing before it
// becomes the command. What comes out otherwise is fatal: the command does not
// run.
type CheckSpec struct {
	// Word is repeated in the [LauncherPipe] behind "ready": only a launcher
	// that has read these instructions can say it.
	Word string `json:"word,omitempty"`
	// Outside is a directory in which whoever wrote the instructions could
	// make a file, and the command must not; "" for none.
	Outside string `json:"outside,omitempty"`
	// Inside are directories that both may write, by what mounts and modes say:
	// a file made there, even one without a name, would wake whoever watches.
	Inside []string `json:"inside,omitempty"`
	// Temp is the command's own temporary directory, in which a file is made.
	Temp string `json:"temp,omitempty"`
	// Covered are files and directories of which nothing can be read.
	Covered []string `json:"covered,omitempty"`
	// Mounts says that mounts, or a profile that was there before the launcher,
	// keep the command from Outside and cover Covered, names included. On Linux
	// Outside is tried before Landlock is applied, too: each layer has to
	// hold by itself.
	Mounts bool `json:"mounts,omitempty"`
}

// ProbeSpec is what the probe tries. Each field is a path; an empty one is
// skipped.
type ProbeSpec struct {
	Inside  string `json:"inside,omitempty"`  // a file to be created in the workspace
	Change  string `json:"change,omitempty"`  // an existing file outside every grant
	Create  string `json:"create,omitempty"`  // a file to be created outside every grant
	Covered string `json:"covered,omitempty"` // a masked file to be read
	Link    string `json:"link,omitempty"`    // another name for Covered in the workspace, to be read by
	Way     string `json:"way,omitempty"`     // a directory with a guarded place in it, to be moved
}

// ProbeReport is the probe's answer on stdout: for each attempt "ok", "skipped"
// or the error.
type ProbeReport struct {
	Inside  string `json:"inside"`
	Change  string `json:"change"`
	Create  string `json:"create"`
	Covered string `json:"covered"`
	Link    string `json:"link"`
	Way     string `json:"way"`
	Environ string `json:"environ"` // the parent's environment, to be read where that is a system call
}
