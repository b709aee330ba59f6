package spawn

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/terminal"
)

// The directories of recordings are hidden from commands, as long as they are
// there, whatever flag named them.
func TestHidesRecordings(t *testing.T) {
	at := t.TempDir()
	t.Setenv("HOME", at)
	for _, v := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	state := filepath.Join(at, ".local/state/guardproxy")
	rec, gone, workspace := filepath.Join(at, "my recordings"), filepath.Join(at, "gone"), filepath.Join(at, "w")
	for _, dir := range []string{state, rec, workspace} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{rec, gone, rec} {
		if err := home.NoteRecordings(state, dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := home.NoteRecordings(state, "a\nb"); err == nil {
		t.Error("a line break in a name was noted")
	}
	masks, _, err := ownFiles(nil, workspace)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(masks, rec) || slices.Contains(masks, gone) {
		t.Errorf("masks %q", masks)
	}
	// A list that can't be read hides nothing, so no command runs.
	if err := os.Remove(filepath.Join(state, "recordings")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(state, "recordings"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ownFiles(nil, workspace); err == nil || terminal.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}
