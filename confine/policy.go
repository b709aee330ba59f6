package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Refused is a policy that no runner could hold as written: the profile would
// protect less than it seems to.
type Refused struct {
	Path   string // the offending path, "" if it is not about one
	Reason string
	Advice string
}

func (e *Refused) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Reason)
}

// Hint says what to do instead.
func (e *Refused) Hint() string { return e.Advice }

// sharedDirs are directories that are private inside, that the system runs from,
// or that hold what belongs to many: a project has a directory of its own in
// them. A writable root that is one of them, or is above one, would undo the
// profile or be far wider than it looks.
var sharedDirs = sharedOn(runtime.GOOS)

func sharedOn(goos string) []string {
	dirs := []string{"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt",
		"/nix", "/opt", "/proc", "/root", "/run", "/sbin", "/snap", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/include",
		"/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local", "/usr/local/bin", "/usr/local/etc", "/usr/local/lib",
		"/usr/local/sbin", "/usr/local/share", "/usr/sbin", "/usr/share", "/usr/src", "/var", "/var/cache", "/var/lib", "/var/log",
		"/var/mail", "/var/opt", "/var/spool", "/var/tmp"}
	if goos == "darwin" { // where /etc, /tmp and /var are links to what is in /private
		dirs = append(dirs, "/Applications", "/Library", "/System", "/System/Volumes", "/System/Volumes/Data", "/Users", "/Users/Shared", "/Volumes",
			"/cores", "/opt/homebrew", "/private", "/var/db", "/var/folders", "/var/run")
	}
	return dirs
}

// realSharedDirs are sharedDirs without symbolic links, in the same order. They
// are looked up once: whoever changes them is root. What a directory lies in
// stands before it in the list, or is the root.
var realSharedDirs = sync.OnceValue(func() []string {
	known := make(map[string]string, len(sharedDirs))
	real := make([]string, len(sharedDirs))
	for i, d := range sharedDirs {
		real[i] = filepath.Join("/", known[filepath.Dir(d)], filepath.Base(d))
		if st, err := os.Lstat(real[i]); err == nil && st.Mode()&os.ModeSymlink != 0 {
			real[i] = resolved(real[i])
		}
		known[d] = real[i]
	}
	return real
})

// kernelDirs have no ordinary files in them at all.
var kernelDirs = []string{"/dev", "/proc", "/sys"}

const pickProject = "choose the project's own directory with --workspace"

// check refuses a policy that can't be held. runners are the executables that
// the confinement itself runs; homes are the user's home directories.
//
// It looks at the file system, since what a path *is* decides, and it looks at
// every call, since an earlier call may have changed the workspace.
func (p Policy) check(homes, runners []string) error {
	switch p.Mode {
	case ReadOnly, WorkspaceWrite:
	case FullAccess:
		return &Refused{Reason: "mode danger-full-access is the absence of confinement", Advice: "use read-only or workspace-write"}
	default:
		return &Refused{Reason: fmt.Sprintf("unknown mode %q", p.Mode), Advice: "use read-only or workspace-write"}
	}
	switch p.Network {
	case "", NoNetwork, HostNetwork:
	default:
		return &Refused{Reason: fmt.Sprintf("unknown network %q", p.Network), Advice: "use none or host"}
	}
	for _, m := range p.Masks {
		if !filepath.IsAbs(m) {
			return &Refused{Path: m, Reason: "own files must be absolute paths"}
		}
	}
	if p.State != "" && !filepath.IsAbs(p.State) {
		return &Refused{Path: p.State, Reason: "the state directory must be an absolute path"}
	}
	for _, h := range p.Hidden {
		if !filepath.IsAbs(h) {
			return &Refused{Path: h, Reason: "what is hidden must be an absolute path"}
		}
		if _, err := os.Lstat(h); err == nil && Within(p.Workspace, resolved(h)) {
			return &Refused{Path: p.Workspace, Reason: "the workspace lies in " + h + ", which holds secrets", Advice: "choose another directory, or take that place out of confine.secrets"}
		}
	}
	if err := p.checkRoot(p.Workspace, "workspace", homes); err != nil {
		return err
	}
	if st, err := os.Stat(p.Workspace); err != nil || !st.IsDir() {
		return &Refused{Path: p.Workspace, Reason: "the workspace is not a directory", Advice: pickProject}
	}
	if p.Mode == WorkspaceWrite {
		for _, r := range p.WritableRoots {
			if err := p.checkRoot(r, "writable root", homes); err != nil {
				return err
			}
		}
		if err := checkGit(p.Workspace); err != nil {
			return err
		}
	}
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return &Refused{Path: p.Dir, Reason: "the directory to start in is not an absolute path"}
	}
	return p.checkRunners(runners)
}

// checkRunners refuses a policy that lets a command replace one of runners, the
// executables that the confinement itself runs.
func (p Policy) checkRunners(runners []string) error {
	for _, root := range WritableRoots(p) {
		for _, r := range runners {
			if r != "" && Within(resolved(r), root) {
				return &Refused{Path: root, Reason: "a writable root holds the runner " + r + ", which a command could replace",
					Advice: "install guardproxy and bubblewrap outside of it, or use --mode read-only"}
			}
		}
	}
	return nil
}

func (p Policy) checkRoot(path, what string, homes []string) error {
	no := func(reason, advice string) error {
		return &Refused{Path: path, Reason: "the " + what + " " + reason, Advice: advice}
	}
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return no("is not an absolute path", pickProject)
	}
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return no("can't be resolved: "+reason(err), "create it first, or choose another")
	}
	if real != path {
		return no("is, or lies behind, a symbolic link, which could be pointed elsewhere", "name its real path: "+real)
	}
	if path == "/" {
		return no("is the whole file system", pickProject)
	}
	for i, d := range sharedDirs {
		if Within(d, path) || Within(realSharedDirs()[i], path) || (slices.Contains(kernelDirs, d) && Within(path, d)) {
			return no("is or holds "+d+", a directory of the system", pickProject)
		}
	}
	for _, home := range homes {
		if filepath.IsAbs(home) && Within(resolved(home), path) {
			return no("is or holds your home directory, and with it keys and shell start-up files", pickProject)
		}
	}
	for _, m := range p.Masks {
		m = resolved(m)
		if Within(m, path) {
			return no("holds guardproxy's own files ("+m+")", "move them or choose another directory")
		}
		if Within(path, m) {
			return no("lies in guardproxy's own files ("+m+")", pickProject)
		}
	}
	return nil
}

// checkGit refuses a .git that is a symbolic link: a mount over it would follow
// the link to wherever an earlier call pointed it.
func checkGit(workspace string) error {
	git := filepath.Join(workspace, ".git")
	if st, err := os.Lstat(git); err == nil && st.Mode()&os.ModeSymlink != 0 {
		return &Refused{Path: git, Reason: "the repository's .git is a symbolic link, so its hooks can't be protected",
			Advice: "replace the link by the directory, or by a file with a gitdir: line"}
	}
	return nil
}

// resolved follows symbolic links as far as the path exists, so that a path
// whose last parts are missing still compares with its real parent.
func resolved(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}

// reason is an error's innermost text, without the path that the caller names.
func reason(err error) string {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err.Error()
		}
		err = u.Unwrap()
	}
}
