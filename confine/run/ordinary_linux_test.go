//go:build linux && (amd64 || arm64)

package run_test

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

//go:embed testdata/ordinary.tsv
var ordinaryList string

// ordinary is one row of testdata/ordinary.tsv.
type ordinary struct {
	name    string
	takes   []string // programs
	broken  []string // rungs
	why     string
	command string
}

func readOrdinary(t *testing.T) []ordinary {
	t.Helper()
	var rows []ordinary
	for line := range strings.Lines(ordinaryList) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.SplitN(line, "\t", 5)
		if len(c) != 5 {
			t.Fatalf("not five columns: %q", line)
		}
		row := ordinary{name: c[0], takes: strings.Fields(c[1]), why: c[3], command: c[4]}
		if c[2] != "-" {
			row.broken = strings.Fields(c[2])
		}
		rows = append(rows, row)
	}
	return rows
}

// mustWork is how many of the rows work under bubblewrap.
const mustWork = 38

// prepareOrdinary puts into the workspace what the commands work on.
func (f *field) prepareOrdinary() {
	f.t.Helper()
	for name, text := range map[string]string{
		"m.c": "int main(){return 0;}\n", "main.go": "package main\n\nfunc main() {}\n", "go.mod": "module m\n\ngo 1.21\n",
		"x_test.go": "package main\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) {}\n", "a": "hi\n",
	} {
		f.write(filepath.Join(f.workspace, name), text)
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"config", "user.name", "a"}, {"config", "user.email", "b"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = f.workspace
		cmd.Run() // without git its rows are left out
	}
}

// Each row works under each rung but for those that it names, and those it does
// not: a reason that is no longer true goes.
func TestOrdinaryWork(t *testing.T) {
	rows := readOrdinary(t)
	if len(rows) != 41 {
		t.Fatalf("%d rows", len(rows))
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		machine.Lacks(t, "bash", "bash is not installed")
	}
	for name, value := range map[string]string{"GOTOOLCHAIN": "local", "GOTELEMETRY": "off", "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C.UTF-8"} {
		t.Setenv(name, value)
	}
	// A build with nothing in its cache compiles Go's library: minutes on a busy
	// machine.
	cache := ""
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		cache, _ = filepath.EvalSymlinks(strings.TrimSpace(string(out)))
		t.Setenv("GOCACHE", cache)
	}
	each(t, func(t *testing.T, f *field) {
		if f.runner != "bubblewrap" && !*allEscapes {
			return // with -escapes: it takes long
		}
		state := newField(t).policy.State
		var worked, broken, out []string
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				for _, p := range row.takes {
					if _, err := exec.LookPath(p); err != nil {
						out = append(out, row.name)
						return
					}
				}
				if slices.Contains(row.takes, "go") && cache == "" && !*allEscapes {
					out = append(out, row.name)
					return
				}
				g := newField(t)
				if cache != "" {
					g.policy.WritableRoots = []string{cache}
				}
				g.chain, g.runner = f.chain, f.runner
				g.prepareOrdinary()
				// One session: what is compiled once stays compiled.
				g.policy.Session, g.policy.State = "ordinary", state
				g.policy.Masks = append(g.policy.Masks, state)
				o, err := g.try(context.Background(), run.Options{Timeout: 2 * time.Minute}, bash, "-c", row.command)
				if err != nil {
					t.Fatal(err)
				}
				known := slices.Contains(row.broken, f.runner)
				switch ok := o.ExitCode == 0; {
				case ok && known:
					t.Errorf("it works, and the list says that it does not")
				case !ok && !known && !plain(t, bash, row.command):
					out = append(out, row.name)
				case !ok && !known:
					t.Errorf("%+v", o)
				case ok:
					worked = append(worked, row.name)
				default:
					broken = append(broken, row.name)
				}
			})
		}
		t.Logf("%d work, %d do not: %q; not tried: %q", len(worked), len(broken), broken, out)
		if f.runner == "bubblewrap" && len(worked)+len(out) < mustWork {
			t.Errorf("%d work, want %d", len(worked), mustWork)
		}
	})
}

// plain says whether a command works here without confinement: what fails there
// proves nothing.
func plain(t *testing.T, bash, command string) bool {
	f := newField(t)
	f.prepareOrdinary()
	temp := filepath.Join(filepath.Dir(f.workspace), "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash, "-c", command)
	cmd.Dir = f.workspace
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("does not work here without confinement, either: %v: %s", err, text)
	}
	return err == nil
}
