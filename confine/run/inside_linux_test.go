//go:build linux && (amd64 || arm64)

package run_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a command finds of the outside, looked at from inside: capabilities,
// descriptors, namespaces, privileges, secrets. The command is this shell script,
// which says what it is.
const look = `
while read -r name value rest; do case $name in CapInh:|CapPrm:|CapEff:|CapBnd:|CapAmb:|NoNewPrivs:|Seccomp:) echo "$name $value";; esac; done < /proc/self/status
for f in /proc/$$/fd/*; do if readlink $f >/dev/null; then echo "fd ${f##*/}"; fi; done
for n in user pid ipc uts cgroup net mnt; do echo "ns $n $(readlink /proc/$$/ns/$n)"; done
echo "processes $(ls /proc | grep -c '^[0-9]')"
echo "core $(ulimit -c)"
`

func inside(t *testing.T, f *field) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for line := range strings.Lines(f.sh(look).stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[name] = append(found[name], value)
	}
	return found
}

func TestNothingIsLeftOver(t *testing.T) {
	t.Setenv("SOME_SECRET", "x")
	each(t, func(t *testing.T, f *field) {
		got := inside(t, f)
		// Root keeps what it takes to work on files of any owner.
		caps := uint64(0)
		if os.Geteuid() == 0 {
			caps = 1<<0 | 1<<1 | 1<<3 | 1<<4 // chown, dac_override, fowner, fsetid
		}
		for name, most := range map[string]uint64{"CapInh:": 0, "CapAmb:": 0, "CapPrm:": caps, "CapEff:": caps} {
			if n, err := strconv.ParseUint(strings.Join(got[name], " "), 16, 64); err != nil || n&^most != 0 {
				t.Errorf("%s %q, want at most %x", name, got[name], most)
			}
		}
		// What is in the bounding set of a user can't be gained: no new
		// privileges. For root it is what a program gets.
		if n, err := strconv.ParseUint(strings.Join(got["CapBnd:"], " "), 16, 64); os.Geteuid() == 0 && (err != nil || n&^caps != 0) {
			t.Errorf("CapBnd: %q, want at most %x", got["CapBnd:"], caps)
		}
		if !slices.Equal(got["NoNewPrivs:"], []string{"1"}) || !slices.Equal(got["Seccomp:"], []string{"2"}) || !slices.Equal(got["core"], []string{"0"}) {
			t.Errorf("new privileges %q, filter %q, core dumps %q", got["NoNewPrivs:"], got["Seccomp:"], got["core"])
		}
		for _, fd := range got["fd"] {
			// 10 and 255 are the shell's own copies.
			if !slices.Contains([]string{"0", "1", "2", "10", "255"}, fd) {
				t.Errorf("descriptor %s is open", fd)
			}
		}
		if len(got["fd"]) < 3 {
			t.Errorf("descriptors %q", got["fd"])
		}
		if f.runner != "bubblewrap" {
			return
		}
		for _, ns := range got["ns"] {
			name, inside, _ := strings.Cut(ns, " ")
			outside, err := os.Readlink(filepath.Join("/proc/self/ns", name))
			if err != nil {
				t.Fatal(err)
			}
			same := inside == outside
			if root := name == "user" && os.Geteuid() == 0; same != root {
				t.Errorf("namespace %s: inside %s, outside %s", name, inside, outside)
			}
		}
		if n, err := strconv.Atoi(strings.Join(got["processes"], "")); err != nil || n > 6 {
			t.Errorf("%q processes", got["processes"])
		}
	})
}

// A server that a command starts can be reached by it, under every rung that
// gives it a network of its own.
func TestLoopback(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		if f.runner != "bubblewrap" {
			return // no internet socket can be made there
		}
		trap := f.trapper()
		if out := f.sh(trap + " " + loopbackArg); out.stdout != "ok" {
			t.Errorf("%+v", out)
		}
	})
}
