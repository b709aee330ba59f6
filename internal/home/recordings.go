package home

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/guardproxy/guardproxy/internal/terminal"
)

// The directories that recordings were written to stand in a file of the state
// directory, one a line: guardproxy exec hides them from commands, and nobody
// else tells it.
const recordingsFile = "recordings"

// maxNotes bounds what is read of that file, in bytes.
const maxNotes = 1 << 20

// NoteRecordings adds a directory to those that recordings were written to.
func NoteRecordings(state, dir string) error {
	if strings.ContainsAny(dir, "\n\r") {
		return fmt.Errorf("%q has a line break in its name", dir)
	}
	path := filepath.Join(state, recordingsFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	known, err := readNotes(path)
	if err != nil || slices.Contains(known, dir) {
		return err
	}
	_, err = f.WriteString(dir + "\n")
	return err
}

// Recordings are the directories that were noted in a state directory and are
// still there.
func Recordings(state string) ([]string, error) {
	known, err := readNotes(filepath.Join(state, recordingsFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, terminal.WithHint(err, "it lists the directories that commands must not see; make it readable, or delete it if none is left")
	}
	return slices.DeleteFunc(known, func(dir string) bool {
		fi, err := os.Lstat(dir)
		return !filepath.IsAbs(dir) || err != nil || !fi.IsDir()
	}), nil
}

// readNotes reads the lines of a file. A pipe in its place is an error, and not
// waited for; so is a file that is too long, which would be read in part.
func readNotes(path string) ([]string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxNotes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxNotes {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxNotes)
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" }), nil
}
