//go:build linux || darwin

package ward

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/internal/gitconfig"
)

// passes bounds how often the places are gone through: others may keep changing
// them.
const passes = 4

// Settle compares every place with what was there before, puts back what
// changed, and moves what the command left there into a new directory below
// hold; with hold "" it is renamed beside its place. Call it once, when nothing
// of the command runs any more. It closes the ward.
func (w *Ward) Settle(hold string) []Held {
	if w == nil {
		return nil
	}
	var dir string
	w.hold = func() (string, error) {
		if dir != "" || hold == "" {
			return dir, nil
		}
		err := os.MkdirAll(hold, 0o700)
		if err == nil {
			dir, err = os.MkdirTemp(hold, "held-")
		}
		return dir, err
	}
	for _, b := range w.bases {
		if !b.git {
			w.settleDotGit(b)
		}
		b.addNew()
		// Putting one place back can uncover another. What fails is tried
		// again, and noted only if it fails in the end.
		for range passes {
			before := len(w.held)
			w.held = slices.DeleteFunc(w.held, func(h Held) bool { return h.Err != nil && h.To == "" })
			for _, p := range b.places {
				w.settlePlace(b, p)
			}
			if before == len(w.held) && !slices.ContainsFunc(w.held, func(h Held) bool { return h.Err != nil }) {
				break
			}
		}
	}
	held := w.held
	w.Close()
	return held
}

// settleDotGit puts a repository back that was moved away, and moves away what
// leads git elsewhere.
func (w *Ward) settleDotGit(b *base) {
	now := b.shallow(".git")
	was := b.dotGit
	switch {
	case now.kind == isDir && (was.kind != isDir || was.id == now.id):
	case now.kind == missing && was.kind != isDir:
	case was.kind == isFile: // a place of its own
	case was.kind == isLink && was.same(now):
	default:
		// Another directory, a file or a link.
		if now.kind != missing {
			w.move(b, ".git", false)
		}
		if was.kind != isDir {
			break
		}
		for _, name := range b.names(".") {
			if st, err := b.root.Lstat(name); err == nil && st.IsDir() && describe(st).id == was.id {
				if err := b.root.Rename(name, ".git"); err != nil {
					w.held = append(w.held, Held{Path: filepath.Join(b.path, ".git"), Err: err})
				}
				return
			}
		}
	}
}

func (w *Ward) settlePlace(b *base, p *place) {
	// A link on the way is moved first, then the place itself is looked at.
	for range 4 {
		at, now := b.look(p.at)
		switch {
		case at != p.at:
			w.move(b, at, false)
			continue
		case p.kind == config && now.kind == isFile && p.at == p.rel:
			w.settleConfig(b, p, now)
		default:
			w.settleEntry(b, at, p.before, now, p.kind == hooks)
		}
		return
	}
}

// settleEntry makes rel what it was. A new directory of hooks may stay, and in
// it what git runs nothing of.
func (w *Ward) settleEntry(b *base, rel string, was, now *entry, hooks bool) {
	switch {
	case was.same(now):
	case now.kind == isDir && (was.kind == isDir || hooks && was.kind == missing):
		names := map[string]bool{}
		for name := range was.children {
			names[name] = true
		}
		for name := range now.children {
			names[name] = true
		}
		for _, name := range sorted(names) {
			before, after := was.children[name], now.children[name]
			if before == nil {
				before = &entry{}
			}
			if after == nil {
				after = &entry{}
			}
			w.settleEntry(b, path.Join(rel, name), before, after, false)
		}
		if now.partial || was.partial {
			w.held = append(w.held, Held{Path: filepath.Join(b.path, rel), Err: errors.New("there is more in it than is compared")})
		}
	default:
		w.replace(b, rel, was, now)
	}
}

// replace moves what is at rel away and writes what was there.
func (w *Ward) replace(b *base, rel string, was, now *entry) {
	restore := was.kind != missing
	if now.kind != missing {
		if !w.move(b, rel, restore) {
			return
		}
	} else if restore {
		w.held = append(w.held, Held{Path: filepath.Join(b.path, rel), Restored: true})
	}
	if !restore {
		return
	}
	// The last one held is about rel; making way for it can add others.
	i := len(w.held) - 1
	w.makeWay(b, rel)
	err := b.parents(rel)
	if err == nil {
		err = b.create(rel, was)
	}
	if err != nil {
		w.held[i].Restored, w.held[i].Err = false, err
	}
}

// makeWay moves away what stands where a directory on the way to rel was.
func (w *Ward) makeWay(b *base, rel string) {
	for i := range rel {
		if rel[i] != '/' {
			continue
		}
		if st, err := b.root.Lstat(rel[:i]); err == nil && !st.IsDir() {
			w.move(b, rel[:i], false)
		}
	}
}

// parents makes the directories that lead to rel.
func (b *base) parents(rel string) error {
	if dir := path.Dir(rel); dir != "." {
		return b.root.MkdirAll(dir, 0o755)
	}
	return nil
}

// settleConfig keeps the harmless changes of a configuration.
func (w *Ward) settleConfig(b *base, p *place, now *entry) {
	before := p.before
	if before.same(now) || before.kind == isFile && string(before.data) == string(now.data) {
		return
	}
	if before.partial {
		w.held = append(w.held, Held{Path: filepath.Join(b.path, p.rel), Err: errors.New("it is too large to be judged")})
		return
	}
	was := before.allowed
	var err error
	if before.kind == isFile {
		if was, err = gitconfig.Parse(before.data); err != nil {
			// git could not read it either: nothing that follows is a merge
			w.replace(b, p.rel, before, now)
			return
		}
	}
	entries, err := gitconfig.Parse(now.data)
	if err == nil && !now.partial {
		names := gitconfig.Denied(was, entries)
		if len(names) == 0 {
			return
		}
		var merged []byte
		if merged, err = gitconfig.Merge(was, now.data); err == nil {
			as := *now
			as.data = merged
			w.replace(b, p.rel, &as, now)
			for i := range w.held {
				if w.held[i].Path == filepath.Join(b.path, p.rel) {
					w.held[i].Names = names
				}
			}
			return
		}
	}
	w.replace(b, p.rel, before, now)
}

// move takes what is at rel out of the workspace and notes it.
func (w *Ward) move(b *base, rel string, restored bool) bool {
	h := Held{Path: filepath.Join(b.path, rel), Restored: restored}
	dir, err := w.hold()
	if err == nil {
		h.To, err = b.moveTo(rel, dir)
	}
	if err != nil {
		// At least it does not stay where it counts.
		h.To, err = b.moveTo(rel, "")
	}
	if err != nil {
		h.To, h.Restored, h.Err = "", false, err
	}
	w.held = append(w.held, h)
	return err == nil
}

// moveTo renames rel into dir, or beside itself if dir is "", under a name that
// is free, and returns its new path.
func (b *base) moveTo(rel, dir string) (string, error) {
	parent, err := b.root.Open(path.Dir(rel))
	if err != nil {
		return "", err
	}
	defer parent.Close()
	to, name, in := parent, path.Base(rel)+".held-by-guardproxy", filepath.Join(b.path, path.Dir(rel))
	if dir != "" {
		if to, err = os.Open(dir); err != nil {
			return "", err
		}
		defer to.Close()
		name, in = strings.ReplaceAll(rel, "/", "_"), dir
	}
	for i := 1; i < 100; i++ {
		free := name
		if i > 1 {
			free += "." + strconv.Itoa(i)
		}
		var st unix.Stat_t
		if unix.Fstatat(int(to.Fd()), free, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			continue
		}
		err = unix.Renameat(int(parent.Fd()), path.Base(rel), int(to.Fd()), free)
		if errors.Is(err, unix.EXDEV) {
			err = b.copyOut(rel, filepath.Join(in, free))
		}
		if err == nil {
			return filepath.Join(in, free), nil
		}
		return "", err
	}
	return "", errors.New("no name is free to move it to")
}

// copyOut copies what is at rel to a path on another file system and removes
// it.
func (b *base) copyOut(rel, to string) error {
	n := maxEntries
	e := b.read(rel, &n, maxDepth)
	if e.partial {
		return errors.New("it is too large to be copied to another file system")
	}
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := (&base{root: root}).create(filepath.Base(to), e); err != nil {
		return err
	}
	return b.root.RemoveAll(rel)
}

func sorted(set map[string]bool) []string {
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
