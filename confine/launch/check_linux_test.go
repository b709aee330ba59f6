//go:build linux && (amd64 || arm64)

package launch

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

// Without a sandbox around it, the check finds everything open, and leaves
// nothing behind.
func TestCheckFindsWhatIsOpen(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		spec confine.CheckSpec
		fine bool
	}{
		{"nothing to check", confine.CheckSpec{}, true},
		{"a place outside that can be written", confine.CheckSpec{Outside: empty}, false},
		{"one that is not there", confine.CheckSpec{Outside: filepath.Join(dir, "missing")}, true},
		{"one that is no directory", confine.CheckSpec{Outside: file}, false}, // nothing is known of it
		{"a place inside", confine.CheckSpec{Inside: []string{empty}}, true},
		{"a temporary directory", confine.CheckSpec{Temp: empty}, true},
		{"a covered file, though empty", confine.CheckSpec{Covered: []string{file}}, false},
		{"a covered pipe", confine.CheckSpec{Covered: []string{pipe}}, false},
		{"a directory that shows names", confine.CheckSpec{Covered: []string{dir}, Mounts: true}, false},
		{"and a file that can be read", confine.CheckSpec{Covered: []string{dir}}, false},
		{"an empty one in its place", confine.CheckSpec{Covered: []string{empty}, Mounts: true}, true},
		{"a device in its place", confine.CheckSpec{Covered: []string{os.DevNull}, Mounts: true}, true},
		{"not even a name", confine.CheckSpec{Covered: []string{filepath.Join(dir, "missing")}, Mounts: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := check(c.spec); (err == nil) != c.fine {
				t.Errorf("got %v", err)
			}
			if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
