package agents

import (
	"path"
	"slices"
)

// Directories in which a system keeps its shells, and no tool of a session
// should be able to write. (Where it can, the shell is not the way in.)
var systemDirs = []string{"/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"}

// Shells that read what internal/command reads, and others.
var (
	posixShells = []string{"ash", "bash", "dash", "ksh", "sh", "zsh"}
	otherShells = []string{"csh", "elvish", "fish", "nu", "pwsh", "tcsh"}
)

// System says whether an argument names a shell of the system by its path, and
// whether that shell reads POSIX commands.
//
// Codex starts whatever file an argument names, as long as the file's name is
// a shell's, and a bare name is first looked for in the directory that it
// stands in: so a model that can write a file can have it run. Only a path
// that is written plainly counts, without `..` or doubled slashes.
func System(shell string) (known, posix bool) {
	dir, name := path.Split(shell)
	if !slices.Contains(systemDirs, path.Clean(dir)) || path.Join(dir, name) != shell {
		return false, false
	}
	posix = slices.Contains(posixShells, name)
	return posix || slices.Contains(otherShells, name), posix
}
