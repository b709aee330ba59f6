//go:build linux || darwin

package ward

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/guardproxy/guardproxy/internal/gitconfig"
)

// What is kept of a place: the whole content, up to a bound. Beyond it, only
// enough to see that it changed.
const (
	maxFile    = 1 << 20 // bytes of one file
	maxEntries = 1000    // files and directories below one place
	maxDepth   = 16
)

// sample ends the names of files in a hooks directory that git runs nothing of.
// Every repository has a dozen, so they are not looked at.
const sample = ".sample"

type entryKind uint8

const (
	missing entryKind = iota
	isFile
	isDir
	isLink
	isOther
)

// entry is what was at a path: content and what it takes to write it again.
type entry struct {
	kind     entryKind
	perm     fs.FileMode
	uid, gid int
	id       [2]uint64 // device and inode
	nlink    uint64
	data     []byte // of a file
	target   string // of a link
	children map[string]*entry
	// partial says that there is more than is kept; stamp tells versions apart.
	partial bool
	stamp   [3]int64 // size, time of the last change of content, of the inode
	// allowed are variables that a configuration may have although it was
	// missing.
	allowed []gitconfig.Entry
}

// look walks to rel and returns what is there and at which path it was decided:
// rel itself, or the first link on the way.
func (b *base) look(rel string) (string, *entry) {
	parts := strings.Split(rel, "/")
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		st, err := b.root.Lstat(at)
		switch {
		case err != nil:
			return rel, &entry{}
		case st.Mode()&fs.ModeSymlink != 0:
			target, _ := b.root.Readlink(at)
			return at, &entry{kind: isLink, target: target}
		case i+1 < len(parts) && !st.IsDir():
			return rel, &entry{}
		}
	}
	n := maxEntries
	return rel, b.read(rel, &n, maxDepth)
}

// shallow returns what is at rel without what is in it.
func (b *base) shallow(rel string) *entry {
	st, err := b.root.Lstat(rel)
	if err != nil {
		return &entry{}
	}
	e := describe(st)
	if e.kind == isLink {
		e.target, _ = b.root.Readlink(rel)
	}
	return e
}

// read returns what is at rel, whose parents are directories. n is how many
// more entries may be kept.
func (b *base) read(rel string, n *int, depth int) *entry {
	st, err := b.root.Lstat(rel)
	if err != nil {
		return &entry{}
	}
	e := describe(st)
	if *n--; *n < 0 || depth < 0 {
		e.partial = true
		return e
	}
	switch e.kind {
	case isLink:
		e.target, _ = b.root.Readlink(rel)
	case isFile:
		if f, err := b.file(rel); err == nil {
			return f
		}
		e.partial = true
	case isDir:
		e.children = map[string]*entry{}
		d, err := b.root.Open(rel)
		if err != nil {
			e.partial = true
			return e
		}
		names, err := d.Readdirnames(*n + 1)
		d.Close()
		e.partial = err != nil && !errors.Is(err, io.EOF) || len(names) > *n
		slices.Sort(names)
		for _, name := range names {
			if strings.HasSuffix(name, sample) && path.Base(rel) == "hooks" {
				continue
			}
			child := b.read(path.Join(rel, name), n, depth-1)
			e.partial = e.partial || child.partial && child.kind != isFile
			e.children[name] = child
		}
	}
	return e
}

func describe(st fs.FileInfo) *entry {
	e := &entry{perm: st.Mode().Perm(), uid: -1, gid: -1}
	switch {
	case st.Mode().IsRegular():
		e.kind = isFile
	case st.IsDir():
		e.kind = isDir
	case st.Mode()&fs.ModeSymlink != 0:
		e.kind = isLink
	default:
		e.kind = isOther
	}
	e.stamp = [3]int64{st.Size(), st.ModTime().UnixNano()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		e.uid, e.gid = int(sys.Uid), int(sys.Gid)
		e.id = [2]uint64{uint64(sys.Dev), sys.Ino}
		e.nlink = uint64(sys.Nlink)
		e.stamp[2] = changed(sys)
	}
	return e
}

var errNoFile = errors.New("no regular file")

// file reads a regular file. Opened without waiting: it may be a pipe by now.
func (b *base) file(rel string) (*entry, error) {
	f, err := b.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errNoFile
	}
	e := describe(st)
	if e.data, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err != nil {
		return nil, err
	}
	if len(e.data) > maxFile {
		e.data, e.partial = nil, true
	}
	return e, nil
}

// same says whether two entries of one path are equal in what matters: content
// and permission to execute it.
func (e *entry) same(o *entry) bool {
	if e.kind != o.kind || e.partial != o.partial {
		return false
	}
	switch e.kind {
	case isFile:
		if e.partial {
			return e.id == o.id && e.stamp == o.stamp
		}
		return string(e.data) == string(o.data) && e.perm == o.perm
	case isLink:
		return e.target == o.target
	case isOther:
		return e.id == o.id
	case isDir:
		if len(e.children) != len(o.children) {
			return false
		}
		for name, child := range e.children {
			if other := o.children[name]; other == nil || !child.same(other) {
				return false
			}
		}
		return !e.partial || e.id == o.id && e.stamp == o.stamp
	}
	return true
}

// overwrite gives an existing regular file another content, in place.
func (b *base) overwrite(rel string, data []byte) error {
	f, err := b.root.OpenFile(rel, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return errNoFile
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	return f.Close()
}

// create writes e at rel, where nothing is.
func (b *base) create(rel string, e *entry) error {
	switch e.kind {
	case isFile:
		if e.partial {
			return errors.New("it was too large to be kept")
		}
		f, err := b.root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, e.perm)
		if err != nil {
			return err
		}
		defer f.Close()
		if os.Geteuid() == 0 && e.uid >= 0 {
			f.Chown(e.uid, e.gid)
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
		f.Chmod(e.perm)
		return f.Close()
	case isLink:
		return b.root.Symlink(e.target, rel)
	case isDir:
		if err := b.root.Mkdir(rel, e.perm|0o700); err != nil {
			return err
		}
		if os.Geteuid() == 0 && e.uid >= 0 {
			b.root.Lchown(rel, e.uid, e.gid)
		}
		var errs []error
		for name, child := range e.children {
			errs = append(errs, b.create(path.Join(rel, name), child))
		}
		if e.partial {
			errs = append(errs, errors.New("it was too large to be kept whole"))
		}
		return errors.Join(errs...)
	}
	return errors.New("it was no file")
}
