// Package confine decides what one command may touch, and prepares the command
// line that makes the kernel hold it to that.
//
// Three things go in: an argv, a [Policy], and what this machine can do. One
// thing comes out: a [Prepared] command for package confine/run to start.
//
//	chain := confine.New(confine.Options{})
//	prepared, err := chain.Confine([]string{"make", "test"}, confine.Policy{
//		Mode:      confine.WorkspaceWrite,
//		Workspace: "/home/me/project",
//	})
//
// # The chain
//
// A [Chain] tries its rungs in order and keeps the first that proves itself:
//
//   - bubblewrap. New namespaces seen from inside: everything read-only but the
//     writable roots, a fresh /tmp, /dev and /proc, no network, own files and
//     secrets covered up, what runs code later (package confine/ward) read-only.
//     Inside it runs our launcher (package confine/launch), which adds Landlock,
//     a system call filter, and drops capabilities, environment and
//     descriptors. Usually reported as full.
//   - landlock. The launcher alone. Landlock can't see changes of metadata,
//     can't protect a path inside a writable root (what changed there is put
//     back afterwards), has other processes and sockets in reach, and ties only
//     the command itself to guardproxy's life, so this rung always reports
//     partial, with the list.
//   - seatbelt, the only rung on macOS: sandbox-exec with a profile made for the
//     call, and in it the launcher, which checks it. It has no namespaces to give,
//     so it always reports partial, too.
//
// Proof is a probe with the real profile, once a [Chain]: a write outside every
// grant must fail, one inside must succeed, and a covered file must not be
// readable where the rung claims to cover it. A command that merely starts
// proves nothing.
//
// On top of that the launcher checks the sandbox of each command, as the last
// thing before it becomes the command ([CheckSpec]); what it finds open is a
// failure of the runner. A program that runs one command and ends need not pay
// for the probe, too: [Chain.Attempt].
//
// When no rung works, Confine returns [*Unavailable]. There is no way to ask
// for "as much as possible": a caller that wants to run unconfined runs the
// command itself.
//
// Nothing here starts the command, and nothing here judges it. When it has ended
// [Prepared.Settle] looks after the workspace, and [Prepared.Classify] says
// whether its failure was a denial.
package confine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/confine/ward"
)

// Mode is how much of the file system a command may change.
type Mode string

// The modes, from the narrowest to the widest. Reading is the same in all of
// them: everything that the user may read, but for the masked own files.
const (
	ReadOnly       Mode = "read-only"          // no file outside a private temporary directory
	WorkspaceWrite Mode = "workspace-write"    // the workspace and the extra writable roots
	FullAccess     Mode = "danger-full-access" // not confined; no rung takes it
)

// ladder holds the modes from narrow to wide; a mode's index is its height.
var ladder = []Mode{ReadOnly, WorkspaceWrite, FullAccess}

// ParseMode returns the mode with the given name.
func ParseMode(s string) (Mode, error) {
	if m := Mode(s); slices.Contains(ladder, m) {
		return m, nil
	}
	return "", fmt.Errorf("unknown mode %q: want read-only, workspace-write or danger-full-access", s)
}

// Wider says whether m permits strictly more than another mode does. Among the
// three modes it is a strict order. A name that is none of them counts as wider
// than everything but itself, and everything else as wider than it: a caller
// that refuses what is wider then refuses what it does not understand.
func (m Mode) Wider(than Mode) bool {
	a, b := slices.Index(ladder, m), slices.Index(ladder, than)
	if a < 0 || b < 0 {
		return m != than
	}
	return a > b
}

// Network is what a command may reach over the network.
type Network string

const (
	// NoNetwork leaves nothing but a loopback interface of the command's own
	// (bubblewrap), no internet socket at all (landlock), or none that can be
	// bound or connected (seatbelt). It is what the zero Network means.
	NoNetwork Network = "none"
	// HostNetwork leaves the network as the user has it.
	HostNetwork Network = "host"
)

// Policy is what one command may do. The zero value of every field but Mode and
// Workspace is the narrowest.
type Policy struct {
	Mode      Mode
	Workspace string // absolute, without symbolic links, an existing directory
	// Dir is where the command starts; "" means the workspace.
	Dir string
	// Session names the session that the call belongs to: its calls share one
	// temporary directory. "" gives each call one of its own.
	Session string
	// State is guardproxy's state directory, an absolute path. In it are the
	// directories of sessions and what was taken out of workspaces (see
	// [Prepared.Settle]). "" means that there is none: then Session is not used.
	State string
	// WritableRoots are further absolute paths that workspace-write may change;
	// each must exist. In read-only they are not writable.
	WritableRoots []string
	// Masks are own files and directories (see [OwnFiles]): unreadable and
	// unwritable from inside. One that does not exist is skipped.
	Masks   []string
	Network Network
	// Hidden are files and directories of the user that can't be read (see
	// [Secrets]). Unlike own files they may lie in the workspace. One that does
	// not exist is skipped.
	Hidden []string
	// Guarded are paths relative to each writable root that can't be made or
	// changed, since they run code outside later; nil for ward.Places. The
	// workspace's repository is guarded in any case.
	Guarded []string
	// Env says which variables reach the command besides ordinary ones.
	Env EnvRules
}

// host says whether p leaves the host's network in place.
func (p Policy) host() bool { return p.Network == HostNetwork }

// WritableRoots returns the paths outside of private temporary directories
// under which a command with policy p may change files: cleaned, sorted, and
// none inside another. Nothing is writable in read-only, everything in
// danger-full-access. An unknown mode writes nothing.
//
// Everything that asks "may it write there" asks this function, so that the
// profile, a path fence and the refusal text can't disagree.
func WritableRoots(p Policy) []string {
	switch p.Mode {
	case WorkspaceWrite:
	case FullAccess:
		return []string{"/"}
	default:
		return nil
	}
	var all []string
	for _, r := range append([]string{p.Workspace}, p.WritableRoots...) {
		if filepath.IsAbs(r) {
			all = append(all, filepath.Clean(r))
		}
	}
	slices.Sort(all)
	var roots []string
	for _, r := range all {
		if !slices.ContainsFunc(roots, func(have string) bool { return Within(r, have) }) {
			roots = append(roots, r)
		}
	}
	return roots
}

// Within says whether path is dir or lies below it. Both are absolute; neither
// is resolved.
func Within(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	if path == dir || dir == "/" {
		return true
	}
	return strings.HasPrefix(path, dir+"/")
}

// Level is how much of a policy is enforced.
type Level string

const (
	Full    Level = "full"
	Partial Level = "partial"
)

// Enforcement is what a prepared command is really held to.
type Enforcement struct {
	Level Level
	// Missing lists, for people, what is not enforced. Empty when Level is Full.
	Missing []string
	// Runner is the rung: "bubblewrap", "landlock" or "seatbelt".
	Runner string
	// OwnFilesMasked says that the policy's masks are unreadable from inside.
	// They are unwritable either way.
	OwnFilesMasked bool
	// Writable are the paths outside of private directories under which the
	// command can change files: [WritableRoots], and what git writes where the
	// workspace's repository lies elsewhere.
	Writable []string
	// Passed says which better rungs were tried and what they lack.
	Passed []Missing
}

// Pipe is a status pipe that a prepared command writes to. Its text, never the
// command's stderr, tells a failure of the runner from one of the command.
type Pipe string

const (
	// LauncherPipe is written by package confine/launch and closed by its
	// execve: "ready WORD\n" just before that (see [CheckSpec]), then "exec: …\n" if the command
	// could not be executed, or "fatal: …\n" alone.
	LauncherPipe Pipe = "launcher"
	// BubblewrapPipe is bwrap's --json-status-fd: {"child-pid": N, …} when the
	// sandbox exists, {"exit-code": N} when what ran inside has ended
	// (bwrap(1)).
	BubblewrapPipe Pipe = "bubblewrap"
	// InstructionsPipe carries Prepared.Instructions to the launcher.
	InstructionsPipe Pipe = "instructions"
	// RenamePipe is one end of a pair of sockets. The launcher sends the
	// listener of a filter through it that holds each rename call until it is
	// answered (seccomp_unotify(2)): package confine/run answers, see
	// [Prepared.Configs].
	RenamePipe Pipe = "renames"
)

// Prepared is a confined command that has not been started. Start it with
// package confine/run.
type Prepared struct {
	Argv []string // what to execute; Argv[0] is an absolute path
	Env  []string // its whole environment
	Dir  string   // where to start it
	// Pipes are the ends that the command expects, from descriptor 3 on.
	Pipes []Pipe
	// Instructions are what InstructionsPipe carries.
	Instructions []byte
	Enforcement  Enforcement

	policy Policy
	temp   string
	ward   *ward.Ward
	// guarded are paths in writable roots that the runner denies, nil for those
	// of the ward that exist.
	guarded []string
	// places are what the runner mounts over, as it was found.
	places map[string]fs.FileInfo
	// checked says that the launcher is to check its sandbox; unproven, that
	// nothing else has shown that this machine can confine like this.
	checked, unproven bool
	word              string
}

// Ready is the line by which LauncherPipe says that the command is about to run.
// Any other line means that it is not.
func (p Prepared) Ready() string { return "ready " + p.word + "\n" }

// Unproven says that the command was prepared by [Chain.Attempt], and that only
// the launcher's check of itself will tell whether the profile holds.
func (p Prepared) Unproven() bool { return p.unproven }

// Stale says that something which the runner is to mount over has gone, or
// become another, since p was prepared: a socket, say, whose server has ended. A
// runner that failed may have failed for that, and one that is prepared anew
// does without.
func (p Prepared) Stale() bool {
	for path, then := range p.places {
		if now, err := os.Lstat(path); err != nil || !unchanged(then, now) {
			return true
		}
	}
	return false
}

// unchanged says whether two looks at a path saw the same file. A file that was
// removed and made again may have the same number, but not the same time.
func unchanged(then, now fs.FileInfo) bool {
	return then != nil && os.SameFile(then, now) && (now.IsDir() || then.ModTime().Equal(now.ModTime()))
}

// Policy is what the command was prepared for.
func (p Prepared) Policy() Policy { return p.policy }

// Configs are the git configuration files that the command can't write, but may
// ask to have changed: git renames a lock file over its configuration, and a
// rename that RenamePipe's listener sees for one of them is answered with
// [Prepared.Propose].
func (p Prepared) Configs() []string {
	if p.ward == nil {
		return nil
	}
	return p.ward.Configs()
}

// Propose puts the content of config's lock file in place if the change is
// harmless, and removes the lock file. The error says why not.
func (p Prepared) Propose(config string) error { return p.ward.Propose(config) }

// Settle looks at the guarded places of the workspace after the command has
// ended, moves away what the command left there and puts back what it changed.
// It returns what it did. Call it once, before Close, when nothing of the
// command runs any more.
func (p Prepared) Settle() []ward.Held {
	hold := ""
	if p.policy.State != "" {
		hold = filepath.Join(p.policy.State, "held")
	}
	return p.ward.Settle(hold)
}

// Close removes what was made for the command. Call it once after the command
// has ended, or when it is not going to be started.
func (p Prepared) Close() error {
	p.ward.Close()
	if p.temp == "" {
		return nil
	}
	return removeTemp(p.temp)
}

// Confiner prepares a confined command. It never prepares one that is less
// confined than its Enforcement says.
type Confiner interface {
	// Confine returns argv prepared to run under p, or an error: [*Refused]
	// when the policy itself can't be held, [*Unavailable] when this machine
	// offers no rung. It is safe for concurrent use and retains neither
	// argument.
	Confine(argv []string, p Policy) (Prepared, error)
}
