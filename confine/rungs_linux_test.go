//go:build linux && (amd64 || arm64)

package confine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What stands in a directory of $PATH that a command may have written is not
// used, also when root wrote it.
func TestPlantedBwrap(t *testing.T) {
	bin := filepath.Join(tree(t, "bin/bwrap"), "bin")
	planted := filepath.Join(bin, "bwrap")
	t.Setenv("PATH", bin)
	if got, err := findBwrap(""); err == nil {
		t.Errorf("%s was taken", got)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	if got, _ := findBwrap(""); got == planted {
		t.Errorf("%s was taken before the system's", got)
	}
	// Who names a path means it, as long as root alone can write there.
	got, err := findBwrap(bin)
	if os.Geteuid() == 0 && got != planted {
		t.Errorf("named, and not taken: %q, %v", got, err)
	}
	if os.Geteuid() != 0 && err == nil {
		t.Errorf("%s belongs to an ordinary user and was taken", got)
	}
}

// A program that somebody else than root may replace confines nothing.
func TestSystemProgram(t *testing.T) {
	base := tree(t, "program", "link -> /usr/bin/env")
	at := func(s string) string { return filepath.Join(base, s) }
	if err := os.Chmod(at("program"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		fine       bool
	}{
		{"one of the system's", resolved("/usr/bin/env"), true},
		{"one that others may write", at("program"), false},
		{"a link to one", at("link"), false},
		{"a file that is no program", "/etc/passwd", false},
		{"a directory", "/usr", false},
		{"nothing", at("missing"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := systemProgram(c.path)
			if (err == nil) != c.fine {
				t.Errorf("got %v", err)
			}
			r, m := findSeatbelt(c.path, "/nonexistent")
			if r != nil || m == nil || m.Runner != runSeatbelt || m.Reason == "" || !c.fine && (m.Advice == "" || m.Reason != err.Error()) {
				t.Errorf("the rung: %v, %+v", r, m)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	base := tree(t, "dir/below/", "link -> dir")
	at := func(s string) string { return filepath.Join(base, s) }
	var st unix.Stat_t
	if err := unix.Stat(at("dir/below"), &st); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		want       [2]uint64
	}{
		{"a directory", at("dir/below"), [2]uint64{st.Dev, st.Ino}},
		{"a link", at("link"), [2]uint64{}},
		{"behind a link", at("link/below"), [2]uint64{}},
		{"nothing", at("missing"), [2]uint64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := identity([]string{c.path})[c.path]
			if !ok || got != c.want {
				t.Errorf("got %v, %v, want %v: what has no entry is not compared", got, ok, c.want)
			}
		})
	}
}

func TestReadSockets(t *testing.T) {
	const text = `Num       RefCount Protocol Flags    Type St Inode Path
00000000f1c98d60: 00000003 00000000 00000000 0001 03 925111
0000000000000001: 00000002 00000000 00010000 0001 01    41 /run/daemon.sock
0000000000000002: 00000003 00000000 00000000 0001 03 925112 /run/daemon with spaces
0000000000000003: 00000002 00000000 00010000 0001 01 925113 @abstract
0000000000000004: 00000002 00000000 00010000 0001 01 925114 here.sock
0000000000000005: 00000002 00000000 00010000 0005 01 925115 ./sub/seq sock
0000000000000006: 00000002 00000000 00000000 0002 01 925116 log
0000000000000007: 00000003 00000000 00000000 0001 03 925117 here.sock
0000000000000008: 00000003 00000000 00000000 0001 03 925118 only-connected
`
	paths, relative := readSockets(strings.NewReader(text))
	if want := []string{"/run/daemon.sock", "/run/daemon with spaces"}; !slices.Equal(paths, want) {
		t.Errorf("paths %q, want %q", paths, want)
	}
	if want := []string{"./sub/seq sock", "here.sock", "log"}; !slices.Equal(relative, want) {
		t.Errorf("relative %q, want %q", relative, want)
	}
}

// Nothing that the kernel can put there, and nothing else, breaks the reader.
func FuzzReadSockets(f *testing.F) {
	f.Add("0000000000000004: 00000002 00000000 00010000 0001 01 925114 here.sock\n")
	f.Add("x: 1 1 zz 0002 01 1 /a\n\n 0: 0 0 10000 0002 1 1  @\n")
	f.Fuzz(func(t *testing.T, text string) {
		paths, relative := readSockets(strings.NewReader(text))
		for _, p := range paths {
			if !filepath.IsAbs(p) {
				t.Errorf("%q is not absolute", p)
			}
		}
		for _, p := range relative {
			if p == "" || p[0] == '/' || p[0] == '@' {
				t.Errorf("%q is not relative", p)
			}
		}
	})
}

func TestThreads(t *testing.T) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	// At least what runs here: the Go runtime does not end threads.
	if n := threads(os.Getuid()); n < uint64(len(tasks)) {
		t.Errorf("%d threads of this user, of which %d in this process", n, len(tasks))
	}
	const nobodys = 1<<31 - 7
	if n := threads(nobodys); n != 0 {
		t.Errorf("%d threads of a user who has none", n)
	}
}

// The launcher is started by its own path if that leads to it inside, for
// anybody; otherwise it is bound to a place that does.
func TestLauncherInside(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "confine-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, LauncherName)
	workspace := filepath.Join(dir, "workspace")
	if err := errors.Join(os.WriteFile(file, nil, 0o755), os.Mkdir(workspace, 0o755)); err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp("/tmp", "confine-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	inTemp := filepath.Join(temp, LauncherName)
	if err := errors.Join(os.Chmod(temp, 0o755), os.WriteFile(inTemp, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		launcher  string
		dir, file os.FileMode
		p         Policy
		own       bool
	}{
		{"as installed", file, 0o755, 0o755, Policy{Workspace: workspace}, true},
		{"in /tmp", inTemp, 0o755, 0o755, Policy{Workspace: workspace}, false},
		{"missing", file + "-missing", 0o755, 0o755, Policy{Workspace: workspace}, false},
		{"in a directory of one user", file, 0o700, 0o755, Policy{Workspace: workspace}, false},
		{"a file of one user", file, 0o755, 0o700, Policy{Workspace: workspace}, false},
		{"in what is hidden", file, 0o755, 0o755, Policy{Workspace: workspace, Hidden: []string{dir}}, false},
		{"hidden itself", file, 0o755, 0o755, Policy{Workspace: workspace, Masks: []string{file}}, false},
		{"in the workspace", file, 0o755, 0o755, Policy{Workspace: dir}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(os.Chmod(dir, c.dir), os.Chmod(file, c.file)); err != nil {
				t.Fatal(err)
			}
			c.p.Mode = ReadOnly
			b := bubblewrap{launcher: c.launcher, landlock: 7}
			want := launcherInside
			if c.own {
				want = c.launcher
			}
			if s, _ := b.look(c.p); s.inside != want {
				t.Errorf("started as %s, want %s", s.inside, want)
			}
		})
	}
}
