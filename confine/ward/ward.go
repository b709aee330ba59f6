//go:build linux || darwin

package ward

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/guardproxy/guardproxy/internal/gitconfig"
)

// Ward is what was found before a command. It is used by one goroutine.
type Ward struct {
	bases []*base
	held  []Held
	hold  func() (string, error) // makes the directory for what is held, once
}

// base is one guarded directory, held open.
type base struct {
	path   string
	root   *os.Root
	git    bool // the base itself is a repository's directory
	places []*place
	dotGit *entry // what .git was; nil in a base that is one
}

type kind uint8

const (
	plain  kind = iota
	config      // a git configuration file
	hooks       // a directory of git hooks
)

// place is one guarded path.
type place struct {
	rel    string
	kind   kind
	mount  bool   // to be mounted read-only if it exists
	made   bool   // an empty directory that Look made
	before *entry // never nil
	at     string // where before was found: rel, or the link on the way to it
}

// Look notes what is at each place. The caller closes the ward, or settles it.
func Look(o Options) (*Ward, error) {
	w := &Ward{}
	for i, path := range slices.Concat(o.Bases, o.GitDirs) {
		root, err := os.OpenRoot(path)
		if err != nil {
			w.Close()
			return nil, err
		}
		b := &base{path: path, root: root, git: i >= len(o.Bases)}
		w.bases = append(w.bases, b)
		if b.git {
			b.addRepository(".", o.Mounts)
			continue
		}
		list := o.Places
		if list == nil {
			list = Places
		}
		for _, rel := range list {
			if rel = filepath.Clean(rel); filepath.IsLocal(rel) && rel != "." {
				b.add(rel, plain, true)
			}
		}
		b.dotGit = b.shallow(".git")
		switch b.dotGit.kind {
		case isDir:
			b.addRepository(".git", o.Mounts)
		case isFile:
			b.add(".git", plain, true)
		}
	}
	return w, nil
}

// Close gives up what the ward holds open, and takes away what Look made.
func (w *Ward) Close() error {
	if w == nil {
		return nil
	}
	for _, b := range w.bases {
		for _, p := range b.places {
			if p.made {
				b.root.Remove(p.rel) // fails if something is in it, which Settle saw
			}
		}
		b.root.Close()
	}
	w.bases = nil
	return nil
}

// add guards rel, and where it really lies if links lead there.
func (b *base) add(rel string, k kind, mount bool) *place {
	for _, p := range b.places {
		if p.rel == rel {
			return p
		}
	}
	p := &place{rel: rel, kind: k, mount: mount}
	p.at, p.before = b.look(rel)
	b.places = append(b.places, p)
	if p.before.kind == isLink {
		if real, err := filepath.EvalSymlinks(filepath.Join(b.path, rel)); err == nil {
			if in, err := filepath.Rel(b.path, real); err == nil && filepath.IsLocal(in) && in != "." {
				b.add(in, k, mount)
			}
		}
	}
	return p
}

// paths of places that Look found and that can be mounted over.
func (w *Ward) mountable(yield func(b *base, p *place)) {
	for _, b := range w.bases {
		for _, p := range b.places {
			if p.mount && p.at == p.rel && (p.made || p.before.kind == isFile || p.before.kind == isDir) {
				yield(b, p)
			}
		}
	}
}

// ReadOnly returns the guarded files and directories that exist: absolute,
// sorted, without links.
func (w *Ward) ReadOnly() []string {
	var paths []string
	w.mountable(func(b *base, p *place) { paths = append(paths, filepath.Join(b.path, p.rel)) })
	slices.Sort(paths)
	return paths
}

// Pins returns the directories on the way to them: moved away, they would take
// what is mounted below along, and leave room for another.
func (w *Ward) Pins() []string {
	var paths []string
	w.mountable(func(b *base, p *place) {
		for d := filepath.Dir(p.rel); d != "."; d = filepath.Dir(d) {
			paths = append(paths, filepath.Join(b.path, d))
		}
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Guarded returns every guarded path, existing or not, for a runner that can deny
// what does not exist: absolute and sorted, a link besides what it leads to.
// What is in a linked worktree's directory is left out: git removes it whole.
func (w *Ward) Guarded() []string {
	var paths []string
	for _, b := range w.bases {
		for _, p := range b.places {
			if p.mount {
				paths = append(paths, filepath.Join(b.path, p.rel), filepath.Join(b.path, p.at))
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Configs returns the git configuration files that are mounted read-only: to
// change one, a command asks whoever holds the ward (see [Ward.Propose]).
func (w *Ward) Configs() []string {
	var paths []string
	w.mountable(func(b *base, p *place) {
		if p.kind == config && p.before.kind == isFile && !p.before.partial {
			paths = append(paths, filepath.Join(b.path, p.rel))
		}
	})
	return paths
}

// Propose puts the content of path's lock file (path + ".lock", as git writes
// it) into path, if the change is harmless, and removes the lock file. path is
// one of Configs. It writes in place: path is a mount, which a rename would
// leave behind. The error names what may not be changed.
func (w *Ward) Propose(path string) error {
	var of *base
	var p *place
	w.mountable(func(b *base, q *place) {
		if filepath.Join(b.path, q.rel) == path && q.kind == config {
			of, p = b, q
		}
	})
	if p == nil {
		return fs.ErrNotExist
	}
	proposed, err := of.file(p.rel + ".lock")
	if err != nil {
		return err
	}
	if proposed.nlink > 1 {
		return errors.New("the lock file has another name")
	}
	now, err := gitconfig.Parse(proposed.data)
	if err != nil {
		return fmt.Errorf("the new configuration is not understood: %w", err)
	}
	current, err := of.file(p.rel)
	if err != nil {
		return err
	}
	if current.nlink > 1 {
		return errors.New("it has another hard link")
	}
	before, err := gitconfig.Parse(current.data)
	if err != nil {
		return fmt.Errorf("the configuration is not understood: %w", err)
	}
	if names := gitconfig.Denied(before, now); len(names) > 0 {
		return &Denied{Path: path, Names: names}
	}
	if err := of.overwrite(p.rel, proposed.data); err != nil {
		return err
	}
	p.before.data = proposed.data // settled: this is what it shall be
	return of.root.Remove(p.rel + ".lock")
}
