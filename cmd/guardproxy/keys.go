package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keyBytes is the length of a key that guardproxy makes.
const keyBytes = 32

// installationKey reads the key of this installation from the state directory
// and makes it when there is none. The directory is 0700, the file 0600.
func installationKey(state string) ([]byte, error) {
	path := filepath.Join(state, "key")
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
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, withHint(fmt.Errorf("key file %s: others may read it (mode %v)", path, fi.Mode().Perm()), "run: chmod 600 "+path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) < keyBytes {
		return nil, withHint(fmt.Errorf("key file %s: it does not hold %d or more hexadecimal digits", path, 2*keyBytes), "make one with: (umask 077; head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \\n' > FILE)")
	}
	return key, nil
}
