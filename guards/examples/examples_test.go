package examples_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/examples"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/command"
)

// caseLine is one line of a cases.jsonl.
type caseLine struct {
	Name string
	Call struct {
		Name      string
		Kind      string // by default shell, if there is a command
		Arguments json.RawMessage
	}
	Session struct{ Mode, Workspace string }
	Config  json.RawMessage
	Want    string
	Reason  string // a part of it
}

// call makes what the proxy would make of the case.
func (c caseLine) call(t testing.TB) *guards.Call {
	t.Helper()
	out := &guards.Call{
		Name: c.Call.Name, Arguments: c.Call.Arguments, ArgumentsRaw: string(c.Call.Arguments), Kind: c.Call.Kind,
		Session: guards.Session{Mode: c.Session.Mode, Workspace: c.Session.Workspace},
	}
	if out.Kind != "" && out.Kind != "shell" {
		return out
	}
	out.Kind = "shell"
	var args struct{ Command, Cmd json.RawMessage }
	if err := json.Unmarshal(c.Call.Arguments, &args); err != nil {
		t.Fatal(err)
	}
	raw := args.Command
	if raw == nil {
		raw = args.Cmd
	}
	var script string
	var argv []string
	var p command.Parsed
	switch {
	case json.Unmarshal(raw, &script) == nil:
		p = command.Parse(script)
	case json.Unmarshal(raw, &argv) == nil:
		p = command.FromArgv(argv)
	default:
		p.Opaque = true
	}
	out.Shell = &guards.Shell{Argv: p.Argv, Opaque: p.Opaque}
	return out
}

func cases(t testing.TB, guard string) []caseLine {
	t.Helper()
	b, err := os.ReadFile(guard + "/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []caseLine
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		var c caseLine
		if err := d.Decode(&c); err != nil {
			t.Fatalf("%s/cases.jsonl:%d: %v", guard, n, err)
		}
		out = append(out, c)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%d cases, %v", len(out), err)
	}
	return out
}

func load(t testing.TB, name string, config json.RawMessage) *wasm.Guard {
	t.Helper()
	m, ok := examples.Module(name)
	if !ok {
		t.Fatalf("no module %q", name)
	}
	g, err := wasm.Load(t.Context(), m, wasm.Options{Name: name, Config: config, Deadline: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// Every bundled guard gives the verdict of each of its cases, twice.
func TestCases(t *testing.T) {
	names := examples.Names()
	if len(names) == 0 {
		t.Fatal("no bundled guards")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			byConfig := map[string]*wasm.Guard{}
			for _, c := range cases(t, name) {
				g := byConfig[string(c.Config)]
				if g == nil {
					g = load(t, name, c.Config)
					byConfig[string(c.Config)] = g
				}
				t.Run(c.Name, func(t *testing.T) {
					for range 2 {
						v := g.Check(t.Context(), c.call(t))
						if v.Decision.String() != c.Want || v.Decision != guards.Pass && v.Cause != guards.CausePolicy {
							t.Errorf("%s\ngot %v, cause %q (%s), reason %q; want %s", c.Call.Arguments, v.Decision, v.Cause, v.Detail, v.Reason, c.Want)
						}
						if !strings.Contains(v.Reason, c.Reason) {
							t.Errorf("reason %q does not say %q", v.Reason, c.Reason)
						}
						if len(v.Reason) > 0 && len([]rune(v.Reason)) == guards.MaxReason {
							t.Errorf("reason %q may have been cut", v.Reason)
						}
					}
				})
			}
		})
	}
}

func TestModule(t *testing.T) {
	for _, name := range []string{"", "nobody", "..", "no-root-delete/no-root-delete.wasm", "examples.go"} {
		if _, ok := examples.Module(name); ok {
			t.Errorf("there is a module %q", name)
		}
	}
}

// The module fits the memory that an operator gets by default, however many
// words a command has. (What such a command takes in time and fuel is more than
// the defaults, and it is denied for it.)
func TestDefaultLimits(t *testing.T) {
	m, _ := examples.Module("no-root-delete")
	g, err := wasm.Load(t.Context(), m, wasm.Options{Name: "no-root-delete", Deadline: time.Minute, Fuel: 1 << 50, Memory: wasm.DefaultMemory})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, script := range []string{
		"ls " + strings.Repeat("word ", 20000),
		"ls " + strings.Repeat("a ", (command.MaxScript-3)/2), // most words
		"cat <<'E'\n" + strings.Repeat("a\n", command.MaxScript/2-10) + "E\nrm -rf \"$X\"",
	} {
		args, err := json.Marshal(map[string]string{"command": script})
		if err != nil {
			t.Fatal(err)
		}
		p := command.Parse(script)
		v := g.Check(t.Context(), &guards.Call{
			Name: "bash", Kind: "shell", Arguments: args,
			Shell: &guards.Shell{Argv: p.Argv, Opaque: p.Opaque},
		})
		if v.Decision != guards.Pass {
			t.Errorf("a long command: %+v", v)
		}
	}
}

// Long scripts of honest commands are judged far within the deadline: what
// each of these takes is a claim that the deadline of 250 ms depends on.
func BenchmarkNoRootDelete(b *testing.B) {
	words := strings.Repeat("the quick brown fox writes a line of text\n", 1200)
	for _, bc := range []struct{ name, script string }{
		{"short", "cd x && make -j4 test | tail -20"},
		{"1000 commands", strings.Repeat("echo a b c d;", 1000)},
		{"4000 commands", strings.Repeat("mkdir -p out/x && cp a b\n", 2000)},
		{"50 KB here-document", "cat > notes.md <<'E'\n" + words + "E"},
		{"50 KB script in a here-document", "bash <<'E'\n" + strings.Repeat("echo the quick brown fox writes a line\n", 1300) + "E"},
		{"100 KB, opaque and doubtful", "source env.sh\nrm -rf \"$BUILD_DIR\"\n" + strings.Repeat("gcc -O2 -c \"$SRC/file.c\" -o build/file.o\n", 2400)},
		{"100 KB of words", "ls" + strings.Repeat(" src/file.c", 9000)},
	} {
		b.Run(bc.name, func(b *testing.B) {
			g := load(b, "no-root-delete", nil)
			args, err := json.Marshal(map[string]string{"command": bc.script})
			if err != nil {
				b.Fatal(err)
			}
			p := command.Parse(bc.script)
			c := &guards.Call{
				Name: "bash", Kind: "shell", Arguments: args, ArgumentsRaw: string(args),
				Shell: &guards.Shell{Argv: p.Argv, Opaque: p.Opaque},
			}
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				if v := g.Check(b.Context(), c); v.Decision != guards.Pass {
					b.Fatal(v)
				}
				best = min(best, time.Since(start))
			}
			// The rest of the average is other work on the machine, and the
			// start of the next instance.
			b.ReportMetric(float64(best.Microseconds())/1000, "best-ms")
		})
	}
}
