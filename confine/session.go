package confine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// What a session keeps between its calls: one directory, which is /tmp or TMPDIR
// of each of its commands, with the caches of tools in it. It lies in
// guardproxy's state directory, under a name that is a hash of the session's:
// the name comes from a client.

// sessionAge is how long a session's directory is kept after its last call.
const sessionAge = 7 * 24 * time.Hour

// sessionTemp makes or finds the directory of p's session: mode 0700, and
// nobody's but this user's. "" means that p has none: its commands get one each.
func (p Policy) sessionTemp(now time.Time) (string, error) {
	if p.Session == "" || p.State == "" {
		return "", nil
	}
	all := filepath.Join(p.State, "sessions")
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of sessions: %w", err)
	}
	sweepSessions(all, now)
	sum := sha256.Sum256([]byte(p.Session))
	dir := filepath.Join(resolved(all), hex.EncodeToString(sum[:10]))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the session's directory: %w", err)
	}
	st, err := os.Lstat(dir)
	if err == nil && st.IsDir() && mine(st) && st.Mode().Perm() != 0o700 && private(all) {
		// A command has it as its /tmp and can change its mode, but nobody else
		// came by it.
		if err = os.Chmod(dir, 0o700); err == nil {
			st, err = os.Lstat(dir)
		}
	}
	if err != nil || !st.IsDir() || st.Mode().Perm()&0o077 != 0 || !mine(st) {
		return "", fmt.Errorf("the session's directory %s is not a directory of this user's alone", dir)
	}
	os.Chtimes(dir, now, now)
	return dir, nil
}

// private says whether dir is a directory that only this user can enter.
func private(dir string) bool {
	st, err := os.Stat(dir)
	return err == nil && st.IsDir() && mine(st) && st.Mode().Perm()&0o077 == 0
}

// sweepSessions removes directories that no call has used for long.
func sweepSessions(all string, now time.Time) {
	entries, err := os.ReadDir(all)
	if err != nil {
		return
	}
	for _, e := range entries {
		if st, err := e.Info(); err == nil && st.IsDir() && now.Sub(st.ModTime()) > sessionAge {
			os.RemoveAll(filepath.Join(all, e.Name()))
		}
	}
}
