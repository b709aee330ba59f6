package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/config"
)

// Modules that deny with other words each; deny.wasm and ask.wasm are those of
// guards/wasm.
func testModule(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../guards/wasm/testdata/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// scrape reads the metrics of a serve and returns the value of each line.
func scrape(t *testing.T, url string) map[string]string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d %v", url, resp.StatusCode, err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			out[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return out
}

// With wasm.reload a changed module takes the old one's place, in running
// sessions too; one that can't be loaded leaves the old one in force, and the
// log and the metrics say so. A guard that observes changes nothing.
func TestServeFollowsModules(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, rmReply) }))
	defer up.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "g.wasm")
	// What is written has another size or another time than before, as the
	// clock of the file system may be coarse.
	turn := time.Now()
	put := func(module []byte) {
		t.Helper()
		if err := os.WriteFile(file+".new", module, 0o600); err != nil {
			t.Fatal(err)
		}
		turn = turn.Add(time.Second)
		if err := os.Chtimes(file+".new", turn, turn); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	put(testModule(t, "deny"))
	cfg := filepath.Join(dir, "guardproxy.yaml")
	text := "guards: [{name: g, file: g.wasm}, {name: watch, file: watch.wasm, mode: observe}]\nwasm: {reload: true, deadline: 1m}\nmetrics: 127.0.0.1:0\naudit: {file: logs/audit.jsonl}\n"
	if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "watch.wasm"), testModule(t, "trap"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--upstream", up.URL, "--config", cfg)
	_, after, ok := strings.Cut(s.ready, "; metrics on ")
	if !ok {
		t.Fatalf("the ready line does not name the metrics: %s", s.ready)
	}
	if !strings.Contains(s.ready, "; guards that only observe: watch;") {
		t.Errorf("the ready line does not name who only observes: %s", s.ready)
	}
	says := func(want string) {
		t.Helper()
		if body := s.post("one", askBash); !strings.Contains(body, want) {
			t.Errorf("got %s, want %q", body, want)
		}
	}
	says("guard g says: not today")

	put(testModule(t, "name"))
	s.wait("a changed guard module is in force")
	says("guard g says: Bash")

	put([]byte("\x00asm but no module"))
	s.wait("a changed guard module can't be used: the old one stays in force")
	says("guard g says: Bash")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.wait("a changed guard module can't be used: the old one stays in force")
	says("guard g says: Bash")

	put(testModule(t, "deny"))
	s.wait("a changed guard module is in force")
	says("guard g says: not today")

	// SIGHUP takes over what did not change.
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	s.wait("configuration read again")
	says("guard g says: not today")
	if err := os.WriteFile(cfg, []byte("nonsense: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	s.wait("the configuration was not taken")

	got := scrape(t, after)
	for name, want := range map[string]string{
		`guardproxy_calls_total{cause="policy",decision="refuse",dialect="anthropic-messages",guard="g",kind="shell"}`: "6",
		`guardproxy_guard_verdicts_total{cause="policy",guard="g",mode="enforce",verdict="deny"}`:                      "6",
		`guardproxy_guard_verdicts_total{cause="trap",guard="watch",mode="observe",verdict="deny"}`:                    "6",
		`guardproxy_guard_seconds_count{guard="watch"}`:                                                                "6",
		`guardproxy_guard_reloads_total{guard="g",result="ok"}`:                                                        "2",
		`guardproxy_guard_reloads_total{guard="g",result="failed"}`:                                                    "1",
		`guardproxy_configuration_reloads_total{result="ok"}`:                                                          "1",
		`guardproxy_configuration_reloads_total{result="failed"}`:                                                      "1",
		`guardproxy_exchanges_running`:                                                                                 "0",
		`guardproxy_sessions`:                                                                                          "1",
		`guardproxy_decision_log_dropped_total`:                                                                        "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	for _, name := range []string{"guardproxy_guard_instances", "guardproxy_guard_instances_discarded", "go_goroutines"} {
		if got[name] == "" || got[name] == "0" {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	// Nothing but the metrics is there, and no other host is answered.
	for path, want := range map[string]int{"/": 404, "/v1/messages": 404} {
		resp, err := http.Get(strings.TrimSuffix(after, "/metrics") + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	req, _ := http.NewRequest("GET", after, nil)
	req.Host = "evil.example"
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != 403 {
		t.Errorf("another host: %v %v", resp, err)
	}

	log, err := os.ReadFile(filepath.Join(dir, "logs", "audit.jsonl"))
	if err != nil || !strings.Contains(string(log), `"verdicts":[{"guard":"g","verdict":"deny","cause":"policy"},{"guard":"watch","verdict":"deny","cause":"trap","observed":true,"detail":"wasm error: unreachable"}]`) {
		t.Errorf("decision log: %v\n%s", err, log)
	}
	s.stop()
	if code := <-s.code; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := http.Get(after); err == nil {
		t.Error("the metrics are still served")
	}
}

// Without wasm.reload a changed module waits for SIGHUP, and then holds for new
// sessions alone.
func TestServePinsModules(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, rmReply) }))
	defer up.Close()
	dir := t.TempDir()
	file, cfg := filepath.Join(dir, "g.wasm"), filepath.Join(dir, "guardproxy.yaml")
	for name, text := range map[string]string{file: string(testModule(t, "deny")), cfg: "guards: [{name: g, file: g.wasm}]\nwasm: {deadline: 1m}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, "--upstream", up.URL, "--config", cfg)
	says := func(session, want string) {
		t.Helper()
		if body := s.post(session, askBash); !strings.Contains(body, want) {
			t.Errorf("%s got %s, want %q", session, body, want)
		}
	}
	says("old", "guard g says: not today")
	if err := os.WriteFile(file, testModule(t, "name"), 0o600); err != nil {
		t.Fatal(err)
	}
	says("new", "guard g says: not today")
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	s.wait("configuration read again")
	says("newer", "guard g says: Bash")
	says("old", "guard g says: not today")
	// A module that can't be loaded leaves all as it was.
	if err := os.WriteFile(file, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	s.wait("the configuration was not taken")
	says("newest", "guard g says: Bash")
}

// Metrics off loopback want a token, and a port that is taken is an error.
func TestServeMetricsErrors(t *testing.T) {
	ln := httptest.NewServer(http.NotFoundHandler())
	defer ln.Close()
	taken := strings.TrimPrefix(ln.URL, "http://")
	for _, c := range []struct{ config, want string }{
		{"metrics: 0.0.0.0:0\n", "can be reached from other machines"},
		{fmt.Sprintf("metrics: %s\n", taken), "metrics: listen on " + taken},
	} {
		cfg := filepath.Join(t.TempDir(), "guardproxy.yaml")
		if err := os.WriteFile(cfg, []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HOME", t.TempDir())
		var stderr strings.Builder
		if code := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--config", cfg}, stdio{strings.NewReader(""), io.Discard, &stderr}); code != 3 {
			t.Errorf("%q: exit code %d", c.config, code)
		}
		if !strings.Contains(stderr.String(), c.want) || !strings.Contains(stderr.String(), "guardproxy: hint: ") {
			t.Errorf("%q: %s", c.config, stderr.String())
		}
	}
}

// What the configuration gives a guard by default is what the library does, and
// what guard test takes as a guard's limits.
func TestDefaultLimitsAgree(t *testing.T) {
	w := config.Default().Wasm
	if time.Duration(w.Deadline) != wasm.DefaultDeadline || int64(w.Memory) != wasm.DefaultMemory || int64(w.Fuel) != wasm.DefaultFuel {
		t.Errorf("the configuration has %+v", w)
	}
	for field, want := range map[string]string{"Deadline": w.Deadline.String(), "Fuel": w.Fuel.String()} {
		if f, _ := reflect.TypeFor[guardTestCmd]().FieldByName(field); f.Tag.Get("default") != want {
			t.Errorf("guard test has the default %s for %s, not %s", f.Tag.Get("default"), field, want)
		}
	}
}
