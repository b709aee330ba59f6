package confine

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A workspace whose .git is a file keeps its repository elsewhere: a linked
// worktree (gitrepository-layout(5)) or a submodule. What the file says grants
// nothing, since a command can write it. What counts is that the repository
// points back at this workspace, from a place that the command can't write.

// linked is what a workspace's repository elsewhere lets a command do.
type linked struct {
	// dir is the repository's directory, guarded; "" for none.
	dir string
	// write are directories that git writes: dir, and what a worktree shares
	// with its siblings, without their configuration and hooks.
	write []string
}

// linkedRepository finds the repository of a workspace whose .git is a file. It
// returns nothing for any other, or if the repository does not agree.
func linkedRepository(workspace string) linked {
	file := filepath.Join(workspace, ".git")
	dir, ok := strings.CutPrefix(readLine(file), "gitdir: ")
	if !ok {
		return linked{}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(workspace, dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || Within(real, workspace) || Within(workspace, real) {
		return linked{}
	}
	dir = real
	if back := readLine(filepath.Join(dir, "gitdir")); back != "" {
		// A linked worktree: dir/gitdir names the file.
		if !filepath.IsAbs(back) {
			back = filepath.Join(dir, back)
		}
		common := filepath.Dir(filepath.Dir(dir))
		if resolved(back) != file || filepath.Base(filepath.Dir(dir)) != "worktrees" || readLine(filepath.Join(dir, "commondir")) != "../.." {
			return linked{}
		}
		l := linked{dir: dir, write: []string{dir}}
		for _, name := range []string{"objects", "refs", "logs"} {
			if shared := filepath.Join(common, name); isDir(shared) {
				l.write = append(l.write, shared)
			}
		}
		return l
	}
	// A submodule: core.worktree names the workspace.
	if !strings.Contains(dir, "/.git/modules/") {
		return linked{}
	}
	text, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return linked{}
	}
	for line := range strings.Lines(string(text)) {
		if tree, ok := strings.CutPrefix(strings.TrimSpace(line), "worktree = "); ok && resolved(filepath.Join(dir, tree)) == workspace {
			return linked{dir: dir, write: []string{dir}}
		}
	}
	return linked{}
}

// readLine returns the first line of a short regular file, "" for anything else.
func readLine(path string) string {
	if !isFile(path) {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 4096))
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r")
}

func isDir(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.IsDir()
}

func isFile(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode().IsRegular()
}
