package home

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is noted is listed once, as long as it is a directory.
func TestRecordings(t *testing.T) {
	state, here := t.TempDir(), t.TempDir()
	for _, dir := range []string{here, filepath.Join(here, "gone"), here} {
		if err := NoteRecordings(state, dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := NoteRecordings(state, "a\nb"); err == nil {
		t.Error("a line break in a name was noted")
	}
	if got, err := Recordings(state); err != nil || !slices.Equal(got, []string{here}) {
		t.Errorf("got %q, %v", got, err)
	}
}

// No file means no recordings. One that can't be read is an error: what it lists
// would not be hidden.
func TestRecordingsThatCannotBeRead(t *testing.T) {
	none := t.TempDir()
	file := filepath.Join(none, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{none, file, filepath.Join(none, "missing")} {
		if got, err := Recordings(state); err != nil || len(got) > 0 {
			t.Errorf("%s: got %q, %v", state, got, err)
		}
	}
	directory, long := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, recordingsFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(long, recordingsFile), []byte(strings.Repeat("/a\n", maxNotes/3+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{directory, long} {
		if got, err := Recordings(state); err == nil {
			t.Errorf("%s: got %d directories", state, len(got))
		} else if h, ok := err.(interface{ Hint() string }); !ok || h.Hint() == "" {
			t.Errorf("%v has no hint", err)
		}
	}
}
