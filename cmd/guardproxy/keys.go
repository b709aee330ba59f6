package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/guardproxy/guardproxy/internal/session"
)

// keyBytes is the length of a key that guardproxy makes.
const keyBytes = 32

// installationKey reads the key of this installation from the state directory
// and makes it when there is none. The directory is 0700, the file 0600.
func installationKey(state string) ([]byte, error) {
	path := filepath.Join(state, "key")
	if fi, err := os.Stat(state); err == nil && fi.Mode().Perm()&0o022 != 0 {
		return nil, withHint(fmt.Errorf("state directory %s: others may write it (mode %v)", state, fi.Mode().Perm()), "run: chmod 700 "+state)
	}
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, withHint(fmt.Errorf("state directory: %w", err), "set XDG_STATE_HOME to a directory that you can write")
	}
	fresh := make([]byte, keyBytes)
	rand.Read(fresh)
	// Written beside and linked into place, so that two processes that start
	// together agree on one key and neither reads half of one.
	tmp, err := os.CreateTemp(state, ".key-*") // 0600
	if err != nil {
		return nil, withHint(fmt.Errorf("installation key: %w", err), "set XDG_STATE_HOME to a directory that you can write")
	}
	defer os.Remove(tmp.Name())
	if _, err := fmt.Fprintln(tmp, hex.EncodeToString(fresh)); err != nil {
		tmp.Close()
		return nil, fmt.Errorf("installation key: %w", err)
	}
	if err := tmp.Sync(); err != nil {
		tmp.Close()
		return nil, fmt.Errorf("installation key: %w", err)
	}
	if err := tmp.Close(); err != nil {
		return nil, fmt.Errorf("installation key: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("installation key: %w", err)
	}
	return readKey(path)
}

// readKey reads a key file: 64 hexadecimal digits or more, that only its owner
// may read.
func readKey(path string) ([]byte, error) {
	text, err := readSecret("key file", path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) < keyBytes {
		return nil, withHint(fmt.Errorf("key file %s: it does not hold %d or more hexadecimal digits", path, 2*keyBytes), "make one with: (umask 077; head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \\n' > FILE)")
	}
	return key, nil
}

// readToken reads the listener's token.
func readToken(path string) (string, error) {
	text, err := readSecret("token file", path)
	if err != nil {
		return "", err
	}
	if len(text) < 16 || !session.ValidLabel(text) {
		return "", withHint(fmt.Errorf("token file %s: it does not hold a token of 16 to 64 letters and digits", path), "make one with: (umask 077; head -c 24 /dev/urandom | od -An -vtx1 | tr -d ' \\n' > FILE)")
	}
	return text, nil
}

// readSecret reads a file that only its owner may read.
func readSecret(what, path string) (string, error) {
	// O_NONBLOCK: a pipe in this place must give an error and not wait.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", withHint(fmt.Errorf("%s: %w", what, err), "paths are relative to the configuration file; the file must be readable by the user that runs guardproxy")
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if !fi.Mode().IsRegular() {
		return "", withHint(fmt.Errorf("%s %s: it is not a regular file", what, path), "name the file itself: folders and pipes are not read")
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return "", withHint(fmt.Errorf("%s %s: others may read it (mode %v)", what, path, fi.Mode().Perm()), "run: chmod 600 "+path)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return "", withHint(fmt.Errorf("%s %s: it belongs to user %d, who knows it", what, path, st.Uid), "make a new one")
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return strings.TrimSpace(string(text)), nil
}
