//go:build linux || darwin

package ward

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/gitconfig"
)

// A repository's directory is guarded where git reads what it runs
// (gitrepository-layout(5)): config and config.worktree, hooks, and commondir,
// which names the directory that config and hooks are taken from. A submodule's
// repository below modules is one like it. A linked worktree's directory below
// worktrees has a commondir and a config.worktree of its own; those are compared
// afterwards and not mounted over, since git removes the directory whole.

// maxModules bounds the directories that are looked into below modules.
const maxModules = 2000

// addRepository guards the repository at rel, as it is now.
func (b *base) addRepository(rel string, mounts bool) {
	n := maxModules
	for _, d := range b.repositories(rel, &n) {
		c := b.add(path.Join(d, "config"), config, true)
		b.add(path.Join(d, "config.worktree"), config, true)
		b.add(path.Join(d, "commondir"), plain, true)
		h := b.add(path.Join(d, "hooks"), hooks, true)
		if mounts && h.before.kind == missing && h.at == h.rel && b.root.Mkdir(h.rel, 0o755) == nil {
			h.made = true
		}
		if c.before.kind == isFile {
			b.addHooksPath(d, c.before.data)
		}
		for _, w := range b.names(path.Join(d, "worktrees")) {
			b.add(path.Join(d, "worktrees", w, "commondir"), plain, false)
			b.add(path.Join(d, "worktrees", w, "config.worktree"), config, false)
		}
	}
}

// addHooksPath guards the directory that core.hooksPath names, if it is in the
// base.
func (b *base) addHooksPath(d string, text []byte) {
	entries, err := gitconfig.Parse(text)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() != "core.hookspath" || e.Value == "" {
			continue
		}
		in := e.Value
		if filepath.IsAbs(in) {
			if in, err = filepath.Rel(b.path, in); err != nil {
				continue
			}
		}
		if in = filepath.Clean(in); filepath.IsLocal(in) && in != "." {
			b.add(in, hooks, true)
		}
	}
}

// repositories returns rel and the repositories below its modules, as far as n
// directories. A submodule's name may have slashes in it.
func (b *base) repositories(rel string, n *int) []string {
	found := []string{rel}
	var below func(dir string)
	below = func(dir string) {
		for _, name := range b.names(dir) {
			if *n--; *n < 0 {
				return
			}
			d := path.Join(dir, name)
			st, err := b.root.Lstat(d)
			if err != nil || !st.IsDir() {
				continue
			}
			if b.isRepository(d) {
				found = append(found, d)
				below(path.Join(d, "modules"))
			} else {
				below(d)
			}
		}
	}
	below(path.Join(rel, "modules"))
	return found
}

// isRepository says whether git could take d for one, now or once somebody adds
// what is missing: whatever has one of its parts.
func (b *base) isRepository(d string) bool {
	for _, name := range []string{"HEAD", "config", "hooks", "objects", "commondir"} {
		if _, err := b.root.Lstat(path.Join(d, name)); err == nil {
			return true
		}
	}
	return false
}

func (b *base) names(dir string) []string {
	if st, err := b.root.Lstat(dir); err != nil || !st.IsDir() {
		return nil
	}
	d, err := b.root.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxModules)
	slices.Sort(names)
	return names
}

// addNew guards what a command made of repositories: a place that was not there
// counts as missing before, but for what git itself writes there.
func (b *base) addNew() {
	dot := ".git"
	if b.git {
		dot = "."
	} else if st, err := b.root.Lstat(dot); err != nil || !st.IsDir() {
		return
	}
	isNew := func(rel string, k kind, before *entry) {
		for _, p := range b.places {
			if p.rel == rel {
				return
			}
		}
		b.places = append(b.places, &place{rel: rel, kind: k, at: rel, before: before})
	}
	n := maxModules
	for _, d := range b.repositories(dot, &n) {
		isNew(path.Join(d, "config"), config, b.newConfig(d))
		isNew(path.Join(d, "config.worktree"), config, &entry{})
		isNew(path.Join(d, "commondir"), plain, &entry{})
		isNew(path.Join(d, "hooks"), hooks, &entry{})
		for _, w := range b.names(path.Join(d, "worktrees")) {
			w = path.Join(d, "worktrees", w)
			isNew(path.Join(w, "commondir"), plain, &entry{kind: isFile, perm: 0o644, data: []byte("../..\n"), uid: -1})
			isNew(path.Join(w, "config.worktree"), config, &entry{})
		}
	}
}

// newConfig is what a new repository's configuration is compared with: nothing,
// but for a submodule's worktree if it lies where a submodule's does.
func (b *base) newConfig(d string) *entry {
	f, err := b.file(path.Join(d, "config"))
	if err != nil || !strings.Contains(d, "modules/") {
		return &entry{}
	}
	entries, _ := gitconfig.Parse(f.data)
	for _, e := range entries {
		if e.Name() != "core.worktree" {
			continue
		}
		in := path.Join(d, e.Value)
		if path.IsAbs(e.Value) || !filepath.IsLocal(in) || in == "." || in == ".git" || strings.HasPrefix(in, ".git/") {
			return &entry{}
		}
		if at, _ := b.look(in); at != in {
			return &entry{}
		}
		return &entry{allowed: []gitconfig.Entry{{Section: "core", Key: "worktree", Value: e.Value}}}
	}
	return &entry{}
}
