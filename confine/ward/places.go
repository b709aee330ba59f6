// Package ward guards the places in a workspace that make programs outside of
// it run code later: a repository's hooks and configuration, tasks of editors,
// settings of agents.
//
// It works in two steps around a command. [Look] notes what is at each place
// before. Where there are mounts, what exists is then mounted read-only
// ([Ward.ReadOnly], [Ward.Pins]), so that nothing changes while the command
// runs; where paths can be denied, what does not exist is, too ([Ward.Guarded]). [Ward.Settle] compares after the command has ended: what appeared at a
// place is moved out of the workspace ("held"), what changed is put back, and a
// repository's configuration keeps the changes that only describe it (package
// gitconfig). So a place that did not exist stays empty without anything
// standing there while the command runs, and where there are no mounts nothing
// stays changed.
//
// Settle works in a directory that others may change at the same moment. Every
// step goes through an [os.Root] that was opened before the command ran: no
// link leads it out of there.
package ward

import (
	"fmt"
	"strings"
)

// Places are what is guarded in every workspace besides its repository, by
// paths relative to it: what an editor, a shell or an agent runs or believes
// when it opens the directory.
var Places = []string{
	".envrc",
	".vscode/tasks.json",
	".zed/tasks.json",
	".mcp.json",
	".claude/settings.json", ".claude/settings.local.json", ".claude/hooks",
	".codex/config.toml", ".codex/hooks.json", ".codex/hooks",
	".cursor/mcp.json", ".cursor/hooks.json", ".cursor/hooks",
	".gemini/settings.json", ".qwen/settings.json",
	".opencode/plugin", ".opencode/plugins", "opencode.json", "opencode.jsonc", ".opencode/opencode.json",
	".crush.json", "crush.json",
	".pi/settings.json", ".pi/extensions",
}

// Options say what to guard.
type Options struct {
	// Bases are directories that a command may write, each an absolute path
	// without symbolic links. The first is the workspace.
	Bases []string
	// GitDirs are repositories outside of the bases that the command may write,
	// as a linked worktree does.
	GitDirs []string
	// Places are relative to each base; nil for [Places].
	Places []string
	// Mounts says that what exists is going to be mounted read-only. Then a
	// repository without hooks gets an empty directory for them, which Settle
	// takes away.
	Mounts bool
}

// Held is something that Settle did.
type Held struct {
	Path string // what was found changed, absolute
	// To is where it is now, "" if it stayed.
	To string
	// Restored says that what was there before is there again.
	Restored bool
	// Names are the variables of a git configuration that were put back.
	Names []string
	// Err is what went wrong: the place may not be as it was.
	Err error
}

func (h Held) String() string {
	switch {
	case h.Err != nil:
		return fmt.Sprintf("%s can run code outside, was changed, and could not be put back: %v", h.Path, h.Err)
	case len(h.Names) > 0:
		return fmt.Sprintf("%s: %s can run code outside and is as before; the file as the command left it is %s", h.Path, strings.Join(h.Names, ", "), h.To)
	case h.Restored:
		return fmt.Sprintf("%s can run code outside and is as before; what the command left there is now %s", h.Path, h.To)
	}
	return fmt.Sprintf("%s can run code outside; it is now %s", h.Path, h.To)
}

// Denied is a change of a git configuration that can run code outside.
type Denied struct {
	Path  string
	Names []string // the variables
}

func (e *Denied) Error() string {
	return fmt.Sprintf("%s: %s can run code outside", e.Path, strings.Join(e.Names, ", "))
}
