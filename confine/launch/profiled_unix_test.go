//go:build (linux || darwin) && (amd64 || arm64)

package launch

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

func TestRestrictProfiled(t *testing.T) {
	open, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		spec confine.LaunchSpec
		fine bool
	}{
		{"what it can apply and check", confine.LaunchSpec{StatusFD: 3, Env: confine.EnvRules{Keep: []string{"A"}}, Check: confine.CheckSpec{Word: "x", Inside: []string{open}, Temp: open}}, true},
		{"a place outside that can be written", confine.LaunchSpec{Check: confine.CheckSpec{Outside: open}}, false},
		{"a secret that can be read", confine.LaunchSpec{Check: confine.CheckSpec{Covered: []string{file}}}, false},
		{"another workspace", confine.LaunchSpec{Same: map[string][2]uint64{open: {1, 1}}}, false},
		{"Landlock", confine.LaunchSpec{Landlock: 6}, false},
		{"a filter for renames", confine.LaunchSpec{Renames: 5}, false},
		{"an end with the parent", confine.LaunchSpec{DieWithParent: true}, false},
		{"capabilities", confine.LaunchSpec{Caps: []int{1}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := restrictProfiled(c.spec); (err == nil) != c.fine {
				t.Errorf("got %v", err)
			}
			if left, err := os.ReadDir(open); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A descriptor that whoever started the launcher left open does not reach the
// command.
func TestMarkInherited(t *testing.T) {
	var open [3]int
	for i := range open {
		fd, err := unix.Open(t.TempDir(), unix.O_RDONLY, 0) // as if inherited: not marked
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		open[i] = fd
	}
	if err := markInherited(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d has flags %d, %v: the command would get it", fd, flags, err)
		}
	}
	for fd := range 3 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC != 0 {
			t.Errorf("descriptor %d is marked: the command would have no such stream", fd)
		}
	}
}

func TestUnchanged(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, link := filepath.Join(base, "dir"), filepath.Join(base, "link")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("dir", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	id := func(path string) [2]uint64 {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sys := st.Sys().(*syscall.Stat_t)
		return [2]uint64{uint64(sys.Dev), sys.Ino}
	}
	for _, c := range []struct {
		name, path string
		id         [2]uint64
		fine       bool
	}{
		{"as it was", dir, id(dir), true},
		{"another in its place", dir, id(base), false},
		{"what was a link or missing", dir, [2]uint64{}, false},
		{"a link to the same", link, id(dir), false},
		{"behind a link", filepath.Join(link, "below"), id(filepath.Join(dir, "below")), false},
		{"gone", filepath.Join(base, "missing"), id(dir), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := unchanged(map[string][2]uint64{c.path: c.id}); (err == nil) != c.fine {
				t.Errorf("got %v", err)
			}
		})
	}
}
