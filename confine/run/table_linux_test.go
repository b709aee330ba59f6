//go:build linux && (amd64 || arm64)

package run_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// The table of docs/confinement.md is what this test measures: each row is a
// script, run under each rung in each mode. -update writes it.

var update = flag.Bool("update", false, "write the table of docs/confinement.md")

const (
	page       = "../../docs/confinement.md"
	tableBegin = "<!-- table: written by go test ./confine/run -run Table -update -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// permission is one row.
type permission struct {
	what   string
	script string
	host   bool // with the host's network
	// after says, by what is there when the command has ended, whether it came
	// to pass; nil: the exit code says it.
	after func(*field) bool
}

func leftBehind(name string) func(*field) bool {
	return func(f *field) bool { _, err := os.Lstat(filepath.Join(f.workspace, name)); return err == nil }
}

var permissions = []permission{
	{what: "read your files", script: "cat $OUT/file"},
	{what: "read places of secrets (`~/.ssh` and the like)", script: "cat $HIDDEN/id"},
	{what: "read guardproxy's own files", script: "cat $OWN/secret"},
	{what: "write in the workspace", script: "echo x > new"},
	{what: "write outside of it", script: "echo x > $OUT/new"},
	{what: "write in `$TMPDIR`", script: "echo x > $TMPDIR/new"},
	{what: "write another program's file in `/tmp`", script: "echo x > $THEIRS", after: func(f *field) bool { return f.read(os.Getenv("THEIRS")) != "" }},
	{what: "share memory in `/dev/shm` with what it starts", script: "echo x > /dev/shm/guardproxy-test-$$ && rm /dev/shm/guardproxy-test-$$"},
	{what: "change mode, owner, times of files outside", script: "chmod 600 $OUT/file"},
	{what: "commit", script: "git add a && git -c user.name=a -c user.email=b commit -qm x"},
	{what: "set a remote, a user, an upstream in `.git/config`", script: "git remote add o ./x"},
	{what: "name a program in `.git/config`", script: "git config core.fsmonitor x", after: func(f *field) bool {
		return strings.Contains(f.read(filepath.Join(f.workspace, ".git/config")), "fsmonitor")
	}},
	{what: "leave a git hook", script: "echo x > .git/hooks/pre-commit", after: leftBehind(".git/hooks/pre-commit")},
	{what: "leave an `.envrc`, a task of an editor, settings of an agent", script: "echo x > .envrc", after: leftBehind(".envrc")},
	{what: "see other processes", script: "ls /proc/$VICTIM/cmdline"},
	{what: "signal other processes", script: "kill -0 $VICTIM"},
	{what: "trace what it starts", script: "./trap " + trapArg + " trace 0"},
	{what: "run a server and reach it over loopback", script: "./trap " + loopbackArg},
	{what: "reach servers of this machine and the network", script: "./trap " + dialArg + " $SERVER"},
	{what: "the same with `--network host`", script: "./trap " + dialArg + " $SERVER", host: true},
	{what: "connect to a socket in the file system that is not its own", script: "./trap " + unixArg + " $SOCKET"},
	{what: "make a namespace", script: "unshare -U true || unshare -r true"},
	{what: "gain privileges by a set-user-id program", script: "grep -q '^NoNewPrivs:.0' /proc/self/status"},
}

func TestTable(t *testing.T) {
	needGit(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		machine.Lacks(t, "loopback", "%v", err)
	}
	defer server.Close()
	accept := func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}
	go accept(server)
	theirs, err := os.CreateTemp("/tmp", "guardproxy-table-")
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	defer os.Remove(theirs.Name())
	t.Setenv("SERVER", server.Addr().String())
	t.Setenv("THEIRS", theirs.Name())
	t.Setenv("VICTIM", fmt.Sprint(os.Getpid())) // a child would be killed with what commands leave

	modes := []confine.Mode{confine.ReadOnly, confine.WorkspaceWrite}
	cells := map[string]string{}
	columns := 0
	each(t, func(t *testing.T, f *field) {
		columns++
		for _, p := range permissions {
			for _, mode := range modes {
				t.Run(p.what+"/"+string(mode), func(t *testing.T) {
					g := newField(t)
					g.chain, g.runner = f.chain, f.runner
					g.git(filepath.Dir(g.workspace), "init", "-q", g.workspace)
					g.write(filepath.Join(g.workspace, "a"), "a")
					g.trapper()
					hidden := filepath.Join(filepath.Dir(g.workspace), "hidden")
					if err := os.Mkdir(hidden, 0o700); err != nil {
						t.Fatal(err)
					}
					g.write(filepath.Join(hidden, "id"), "secret")
					socket := filepath.Join(g.outside, "socket")
					l, err := net.Listen("unix", socket)
					if err != nil {
						t.Fatal(err)
					}
					defer l.Close()
					go accept(l)
					g.policy.Hidden, g.policy.Mode = []string{hidden}, mode
					if p.host {
						g.policy.Network = confine.HostNetwork
					}
					t.Setenv("OUT", g.outside)
					t.Setenv("HIDDEN", hidden)
					t.Setenv("OWN", g.own)
					t.Setenv("SOCKET", socket)
					o, err := g.try(context.Background(), run.Options{}, "sh", "-c", p.script)
					if err != nil {
						t.Fatal(err)
					}
					yes := o.ExitCode == 0
					if p.after != nil {
						yes = p.after(g)
					}
					cell := "-"
					if yes {
						cell = "yes"
					}
					cells[p.what+f.runner+string(mode)] = cell
				})
			}
		}
	})
	if columns < 2 || t.Failed() {
		return
	}
	if abi := works(t, "landlock").Landlock; abi < 6 || abi > 8 {
		machine.Lacks(t, "landlock-6-to-8", "the table is of those, this kernel has %d", abi)
	}
	var b strings.Builder
	b.WriteString("| a command may | bubblewrap, read-only | bubblewrap, workspace-write | Landlock alone, read-only | Landlock alone, workspace-write |\n|---|---|---|---|---|\n")
	for _, p := range permissions {
		fmt.Fprintf(&b, "| %s |", p.what)
		for _, runner := range []string{"bubblewrap", "landlock"} {
			for _, mode := range modes {
				fmt.Fprintf(&b, " %s |", cells[p.what+runner+string(mode)])
			}
		}
		b.WriteString("\n")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	have, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("no table in %s", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+tableBegin+b.String()+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != b.String() {
		t.Errorf("%s says\n%swhat is measured is\n%s", page, have, b.String())
	}
}
