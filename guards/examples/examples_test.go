package examples_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/conformance"
	"github.com/guardproxy/guardproxy/guards/examples"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/command"
)

func cases(t testing.TB, guard string) []conformance.Case {
	t.Helper()
	b, err := os.ReadFile(guard + "/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	c, err := conformance.Parse(b)
	if err != nil {
		t.Fatalf("%s/cases.jsonl: %v", guard, err)
	}
	return c
}

// patience is a deadline that only a guard in a loop misses, on a busy machine
// too: what a call takes is a benchmark's to say.
const patience = 20 * time.Second

func tryLoad(ctx context.Context, t testing.TB, name string, config json.RawMessage) (*wasm.Guard, error) {
	t.Helper()
	m, ok := examples.Module(name)
	if !ok {
		t.Fatalf("no module %q", name)
	}
	g, err := wasm.Load(ctx, m, wasm.Options{Name: name, Config: config, Deadline: patience, CacheDir: filepath.Join(scratch, "cache")})
	if err == nil {
		t.Cleanup(func() { g.Close() })
	}
	return g, err
}

func load(t testing.TB, name string, config json.RawMessage) *wasm.Guard {
	t.Helper()
	g, err := tryLoad(t.Context(), t, name, config)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Every bundled guard passes the conformance kit: its cases, the same again,
// other spellings, hostile inputs, no state.
func TestConformance(t *testing.T) {
	for _, name := range examples.Names() {
		t.Run(name, func(t *testing.T) {
			loaded := func(config json.RawMessage) (guards.Guard, error) { return tryLoad(t.Context(), t, name, config) }
			r, err := conformance.Run(t.Context(), loaded, cases(t, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				t.Errorf("%s: %s (line %d)\nwant %s\ngot  %s\n%s", f.Check, f.Case, f.Line, f.Want, f.Got, f.Detail)
			}
			if !r.OK {
				t.Errorf("stopped: %q", r.Stopped)
			}
		})
	}
}

// For every bundled guard and cases of all the others: each spelling of the call
// gets the same answer. (Its own cases are TestConformance's.)
func TestSpellingsGetTheSameVerdict(t *testing.T) {
	var all []conformance.Case
	for _, name := range examples.Names() {
		for i, c := range cases(t, name) {
			if i%5 == 0 {
				all = append(all, c)
			}
		}
	}
	for _, name := range examples.Names() {
		t.Run(name, func(t *testing.T) {
			g := load(t, name, nil)
			for _, c := range all {
				first, ok := c.Judged()
				if !ok {
					continue
				}
				want := g.Check(t.Context(), first)
				if conformance.Broken(want) {
					t.Fatalf("%s: %+v", c.Call.Arguments, want)
				}
				for _, s := range conformance.Spellings(c.Call.Arguments) {
					c.Call.Arguments = s.JSON
					other, _ := c.Judged()
					if got := g.Check(t.Context(), other); got.Decision != want.Decision || got.Reason != want.Reason {
						t.Errorf("%s of %q\nwant %v %q\ngot  %v %q", s.Name, c.Name, want.Decision, want.Reason, got.Decision, got.Reason)
					}
				}
			}
		})
	}
}

// An instance is good for all ordinary calls: a guard whose memory grows in each
// of them is started each time, which takes milliseconds in Go.
func TestInstancesAreUsedAgain(t *testing.T) {
	for _, name := range examples.Names() {
		g := load(t, name, nil)
		for _, script := range []string{"cd x && make -j4 test | tail -20", "git status", strings.Repeat("cp src/a.go out/b.go\n", 200)} {
			c := conformance.Case{Call: conformance.Call{Name: "bash", Arguments: arguments(t, script)}, Session: conformance.Session{Workspace: "/work"}}
			call, _ := c.Judged()
			for range 2 {
				g.Check(t.Context(), call)
			}
		}
		if s := g.Stats(); s.Instances != 1 || s.Discarded != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Reasons arrive whole, and each guard has cases of all kinds: calls that it
// denies or asks about, and at least as many of ordinary work as a reader needs
// to see that it is left alone.
func TestCases(t *testing.T) {
	for _, name := range examples.Names() {
		t.Run(name, func(t *testing.T) {
			byConfig := map[string]*wasm.Guard{}
			passes, others := 0, 0
			for _, c := range cases(t, name) {
				g := byConfig[string(c.Config)]
				if g == nil {
					g = load(t, name, c.Config)
					byConfig[string(c.Config)] = g
				}
				call, ok := c.Judged()
				if !ok {
					t.Errorf("%s: the proxy would refuse it", c.Name)
					continue
				}
				v := g.Check(t.Context(), call)
				if len([]rune(v.Reason)) == guards.MaxReason {
					t.Errorf("%s: the reason may have been cut: %q", c.Name, v.Reason)
				}
				if c.Want == "pass" {
					passes++
				} else {
					others++
				}
			}
			if passes < 5 || others < 10 {
				t.Errorf("%d cases that pass and %d others", passes, others)
			}
		})
	}
}

// A day's ordinary work passes all of them. A guard that is in the way is
// switched off.
func TestOrdinaryWorkPasses(t *testing.T) {
	b, err := os.ReadFile("testdata/ordinary.txt")
	if err != nil {
		t.Fatal(err)
	}
	scripts := append(strings.Split(strings.TrimSpace(string(b)), "\n"),
		"python3 - <<'E'\nimport json\nprint(json.load(open('package.json'))['version'])\nE",
		"cat > notes.md <<'E'\nNever run sudo, curl x | sh or git push --force. Keep .env secret.\nE",
		"git commit -m \"$(cat <<'E'\nKeep rm -rf /srv, npm publish and .git/hooks out of scripts\nE\n)\"")
	for _, name := range examples.Names() {
		t.Run(name, func(t *testing.T) {
			g := load(t, name, nil)
			for _, script := range scripts {
				c := conformance.Case{Call: conformance.Call{Name: "Bash", Arguments: arguments(t, script)}, Session: conformance.Session{Workspace: "/work/project", Calls: 3}}
				call, _ := c.Judged()
				if v := g.Check(t.Context(), call); v.Decision != guards.Pass {
					t.Errorf("%s\n%v: %s %s", script, v.Decision, v.Reason, v.Detail)
				}
			}
		})
	}
}

// A configuration that a guard does not know keeps it from loading, and the
// error says what it knows.
func TestConfigurations(t *testing.T) {
	for _, tc := range []struct {
		guard, config, reason string
	}{
		{"call-budget", `{"limit":0}`, "whole number"},
		{"call-budget", `{"limit":-5}`, "whole number"},
		{"call-budget", `{"limit":1.5}`, "whole number"},
		{"call-budget", `{"limit":"50"}`, "whole number"},
		{"call-budget", `{"limit":1000000}`, "whole number"},
		{"call-budget", `{"limits":50}`, "whole number"},
		{"call-budget", `{"limit":50,"x":1}`, "whole number"},
		{"delete-outside", `{"allow":"/srv"}`, "a list of directories"},
		{"delete-outside", `{"allow":["srv"]}`, "absolute directories"},
		{"delete-outside", `{"allow":["/srv/../x"]}`, "absolute directories"},
		{"delete-outside", `{"opaque":"maybe"}`, "search, pass, ask or deny"},
		{"git-history", `{"allow":["force"]}`, "a rule that does not exist"},
		{"git-history", `{"deny":["ammend"]}`, "a rule that does not exist"},
		{"git-history", `{"opaque":true}`, "search, pass, ask or deny"},
		{"git-history", `{"alow":["amend"]}`, "the settings are"},
		{"pipe-to-shell", `{"allow":{}}`, "a list of URLs"},
		{"pipe-to-shell", `{"opaque":""}`, "search, pass, ask or deny"},
		{"privilege", `{"allow":["sudo"],"opaqe":"deny"}`, "the settings are"},
		{"publish", `{"deny":[]}`, "the settings are"},
		{"run-later", `{"allow":"x"}`, "the settings are"},
		{"run-later", `{"opaque":"Search"}`, "the settings are"},
		{"secrets", `{"opaque":"deny","more":"ü"}`, "the settings are"},
	} {
		t.Run(tc.guard+" "+tc.config, func(t *testing.T) {
			_, err := tryLoad(t.Context(), t, tc.guard, json.RawMessage(tc.config))
			if err == nil || !strings.Contains(err.Error(), "it refuses its configuration") || !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("got %v", err)
			}
		})
	}
	for guard, config := range map[string]string{
		"call-budget": `{ "limit" : 7 }`, "delete-outside": `{"allow":["/srv","/data/x/"],"opaque":"pass"}`, "git-history": `{"deny":["amend"],"opaque":"ask","allow":["tag"]}`,
		"pipe-to-shell": `{"allow":[]}`, "privilege": `{"opaque":"search"}`, "publish": `{"allow":["docker push","gh pr merge"]}`, "run-later": `{"allow":["ü/x.yml"]}`, "secrets": `{}`,
	} {
		if _, err := tryLoad(t.Context(), t, guard, json.RawMessage(config)); err != nil {
			t.Errorf("%s %s: %v", guard, config, err)
		}
	}
}

func TestModule(t *testing.T) {
	for _, name := range []string{"", "nobody", "..", "no-root-delete/no-root-delete.wasm", "examples.go", "shell"} {
		if _, ok := examples.Module(name); ok {
			t.Errorf("there is a module %q", name)
		}
	}
	built, err := filepath.Glob("*/*.wasm")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range built {
		names = append(names, filepath.Dir(path))
	}
	if !slices.Equal(names, examples.Names()) {
		t.Errorf("modules of %v, a list of %v", names, examples.Names())
	}
	page, err := os.ReadFile("../../docs/guards.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range examples.List() {
		if m, ok := examples.Module(g.Name); !ok || len(m) == 0 || g.About == "" || g.Language == "" {
			t.Errorf("%+v has no module", g)
		}
		if !strings.Contains(string(page), "\n## "+g.Name+"\n") {
			t.Errorf("docs/guards.md has no section on %s", g.Name)
		}
	}
}

// The modules fit the limits that an operator gets by default, with the longest
// commands that a model can write.
func TestDefaultLimits(t *testing.T) {
	for _, name := range examples.Names() {
		g := load(t, name, nil)
		for _, script := range []string{
			"ls " + strings.Repeat("word ", 20000),
			"ls " + strings.Repeat("a ", command.MaxScript/3), // nearly the most words that fit a document
			"cat <<'E'\n" + strings.Repeat("a\n", command.MaxScript/2-10) + "E\nrm -rf \"$X\"",
			strings.Repeat("mkdir -p out/x && cp a.b c.d\n", 2000),
			strings.Repeat("cp src/main.go etc/self/out.go\n", 4000),
			strings.Repeat("npm run lint:all\n", 4000),
		} {
			c := conformance.Case{Call: conformance.Call{Name: "bash", Arguments: arguments(t, script)}}
			call, _ := c.Judged()
			if v := g.Check(t.Context(), call); v.Decision != guards.Pass {
				t.Errorf("%s: a long command: %+v", name, v)
			}
		}
	}
}

func arguments(t testing.TB, script string) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(map[string]string{"command": script})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Long scripts of honest commands are judged far within the deadline: what
// each of these takes is a claim that the deadline of 250 ms depends on.
func BenchmarkGuards(b *testing.B) {
	words := strings.Repeat("the quick brown fox writes a line of text\n", 1200)
	for _, bc := range []struct{ name, script string }{
		{"short", "cd x && make -j4 test | tail -20"},
		{"1000 commands", strings.Repeat("echo a b c d;", 1000)},
		{"4000 commands", strings.Repeat("mkdir -p out/x && cp a b\n", 2000)},
		{"50 KB here-document", "cat > notes.md <<'E'\n" + words + "E"},
		{"50 KB script in a here-document", "bash <<'E'\n" + strings.Repeat("echo the quick brown fox writes a line\n", 1300) + "E"},
		{"100 KB, opaque", "source env.sh\nrm -rf \"$BUILD_DIR\"\n" + strings.Repeat("gcc -O2 -c \"$SRC/file.c\" -o build/file.o\n", 2400)},
		{"100 KB of words", "ls" + strings.Repeat(" src/file.c", 9000)},
	} {
		for _, name := range examples.Names() {
			b.Run(bc.name+"/"+name, func(b *testing.B) {
				g := load(b, name, nil)
				c := conformance.Case{Call: conformance.Call{Name: "bash", Arguments: arguments(b, bc.script)}}
				call, _ := c.Judged()
				best := time.Hour
				for b.Loop() {
					start := time.Now()
					if v := g.Check(b.Context(), call); v.Decision != guards.Pass {
						b.Fatal(v)
					}
					best = min(best, time.Since(start))
				}
				// The rest of the average is other work on the machine.
				b.ReportMetric(float64(best.Microseconds())/1000, "best-ms")
			})
		}
	}
}
