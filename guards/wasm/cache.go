package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// cacheDir is a directory of machine code. It has a directory an entry, named
// by a hash of the metered module:
//
//	DIR/KEY/wazero-VERSION-ARCH-OS/HASH   what the engine wrote and reads
//	DIR/KEY/sum                           sha256 of that file, and its path
//	DIR/new-…                             an entry that is being written
//
// The engine's file is machine code that will run in this process: the
// engine's own checksum covers only a part of it, and a damaged length makes
// it ask for any amount of memory. So the file is held against its sum before
// the engine sees it. That is against damage; against others there is the
// directory's mode, since who can write into it could write the sum as well.
type cacheDir struct {
	path string
	temp bool // it is removed when it is closed
}

const (
	maxEntry   = 512 << 20 // bytes of machine code of one module
	maxEntries = 64        // what was not used for longest goes first
	sumFile    = "sum"
)

// openCacheDir opens the directory for compiled code, and makes it if needed.
// Without a path it is a temporary one.
func openCacheDir(path string) (*cacheDir, error) {
	if path == "" {
		temp, err := os.MkdirTemp("", "guardproxy-wasm-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for compiled code: %w", err)
		}
		return &cacheDir{temp, true}, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the cache directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the cache directory: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("look at the cache directory: %w", err)
	}
	if err := private(info); err != nil {
		return nil, &compileError{fmt.Sprintf("the cache directory %s %v", path, err), "machine code is run from there: remove it, and it is made anew"}
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(path, 0o700); err != nil {
			return nil, fmt.Errorf("make the cache directory private: %w", err)
		}
	}
	return &cacheDir{path, false}, nil
}

// private says what is wrong with a directory into which only this user may
// have written.
func private(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("is a symbolic link")
	case !info.IsDir():
		return errors.New("is not a directory")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("can be written by others (mode %v)", info.Mode().Perm())
	case !ours(info):
		return errors.New("belongs to another user")
	}
	return nil
}

func (d *cacheDir) close() {
	if d.temp {
		os.RemoveAll(d.path)
	}
}

// entry is where a module's code is. The format's version is in the key.
func (d *cacheDir) entry(module []byte) string {
	h := sha256.New()
	io.WriteString(h, "guardproxy machine code 1\n")
	h.Write(module)
	return filepath.Join(d.path, hex.EncodeToString(h.Sum(nil)))
}

// lookup finds a module's entry and checks it. A damaged one is removed.
func (d *cacheDir) lookup(module []byte) (string, error) {
	entry := d.entry(module)
	info, err := os.Lstat(entry)
	if err != nil {
		return "", err
	}
	if err = private(info); err == nil {
		err = verify(entry)
	}
	if err != nil {
		d.remove(module)
		return "", fmt.Errorf("the cache entry %s is damaged: %w", entry, err)
	}
	now := time.Now()
	os.Chtimes(entry, now, now) // it was used
	return entry, nil
}

func (d *cacheDir) remove(module []byte) { os.RemoveAll(d.entry(module)) }

// add makes a module's entry, in a directory of its own until it is whole.
func (d *cacheDir) add(module []byte, fill func(dir string) error) (string, error) {
	fresh, err := os.MkdirTemp(d.path, "new-")
	if err != nil {
		return "", fmt.Errorf("make a cache entry: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := fill(fresh); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(fresh, "*", "*"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("the compiler left %d files, not one", len(files))
	}
	sum, err := hashFile(files[0])
	if err != nil {
		return "", fmt.Errorf("read the compiled code: %w", err)
	}
	name, err := filepath.Rel(fresh, files[0])
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(fresh, sumFile), []byte(sum+" "+filepath.ToSlash(name)+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write a cache entry: %w", err)
	}
	entry := d.entry(module)
	if err := os.Rename(fresh, entry); err != nil {
		// Another process may have been faster.
		if verify(entry) == nil {
			return entry, nil
		}
		return "", fmt.Errorf("write a cache entry: %w", err)
	}
	return entry, nil
}

// verify holds an entry's code against its sum.
func verify(entry string) error {
	b, err := readSmall(filepath.Join(entry, sumFile))
	if err != nil {
		return err
	}
	want, name, ok := strings.Cut(strings.TrimSuffix(string(b), "\n"), " ")
	if !ok || !filepath.IsLocal(name) || strings.Count(name, "/") != 1 {
		return errors.New("its sum can't be read")
	}
	if info, err := os.Lstat(filepath.Join(entry, filepath.Dir(name))); err != nil || !info.IsDir() {
		return errors.New("its code is not where it was")
	}
	got, err := hashFile(filepath.Join(entry, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	if got != want {
		return errors.New("its code has changed")
	}
	return nil
}

func readSmall(path string) ([]byte, error) {
	f, err := openRegular(path, 4<<10)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4<<10))
}

func hashFile(path string) (string, error) {
	f, err := openRegular(path, maxEntry)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// openRegular opens a file of this user, and no link.
func openRegular(path string, most int64) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most || !ours(info) {
		return nil, fmt.Errorf("%s is not a file that this program wrote", filepath.Base(path))
	}
	return os.Open(path)
}

// prune removes entries beyond maxEntries, and what a compiler left that was
// killed with its parent. Whoever loads such an entry right now has read it
// already, or makes it again.
func (d *cacheDir) prune() {
	if d.temp {
		return
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return
	}
	type aged struct {
		path string
		used time.Time
	}
	var kept []aged
	for _, e := range entries {
		info, err := e.Info()
		path := filepath.Join(d.path, e.Name())
		switch {
		case err != nil || !e.IsDir():
		case strings.HasPrefix(e.Name(), "new-"):
			if time.Since(info.ModTime()) > time.Hour {
				os.RemoveAll(path)
			}
		case len(e.Name()) == 2*sha256.Size:
			kept = append(kept, aged{path, info.ModTime()})
		}
	}
	for len(kept) > maxEntries {
		oldest := 0
		for i := range kept {
			if kept[i].used.Before(kept[oldest].used) {
				oldest = i
			}
		}
		os.RemoveAll(kept[oldest].path)
		kept = append(kept[:oldest], kept[oldest+1:]...)
	}
}
