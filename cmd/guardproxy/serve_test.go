package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// served is a serve that runs inside of this process.
type served struct {
	t   *testing.T
	url string
	// ready is the whole ready line.
	ready string
	stop  context.CancelFunc
	code  chan int

	mu  sync.Mutex
	log bytes.Buffer
	saw chan string
}

// serve starts guardproxy serve and waits for its ready line.
func serve(t *testing.T, args ...string) *served {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for _, v := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	s := &served{t: t, stop: cancel, code: make(chan int, 1), saw: make(chan string, 1000)}
	go func() {
		s.code <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), stdio{strings.NewReader(""), io.Discard, w})
		w.Close()
	}()
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			s.mu.Lock()
			s.log.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
			s.saw <- lines.Text()
		}
		close(s.saw)
	}()
	line := s.wait("guardproxy: ")
	s.ready = line
	s.url, _, _ = strings.Cut(strings.TrimPrefix(line, "guardproxy: listening on "), ";")
	if !strings.HasPrefix(s.url, "http://127.0.0.1:") {
		t.Fatalf("ready line %q", line)
	}
	t.Cleanup(func() { cancel() })
	return s
}

// wait returns the next line of stderr that holds text.
func (s *served) wait(text string) string {
	s.t.Helper()
	never := time.After(3 * time.Minute)
	for {
		select {
		case line, ok := <-s.saw:
			if ok && strings.Contains(line, text) {
				return line
			} else if ok {
				continue
			}
		case <-never:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.t.Fatalf("%q never came; stderr:\n%s", text, s.log.String())
	}
}

func (s *served) post(session, body string) string {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Claude-Code-Session-Id", session)
	req.Header.Set("User-Agent", "claude-cli/2")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

const (
	askBash   = `{"messages":[{"role":"user","content":"go"}],"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}`
	rmReply   = `{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"rm -rf /"}}]}`
	noGuards  = "policy: {approval: never}\n"
	withGuard = "guards: [{name: root, use: no-root-delete}]\naudit: {file: logs/audit.jsonl}\n"
)

func TestServe(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, rmReply) }))
	defer up.Close()
	dir := t.TempDir()
	cfg := filepath.Join(dir, "guardproxy.yaml")
	write := func(text string) {
		if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(withGuard)
	s := serve(t, "--upstream", up.URL, "--config", cfg)
	if body := s.post("one", askBash); !strings.Contains(body, "guard root says: ") || strings.Contains(body, "rm -rf /\"") {
		t.Fatalf("the bundled guard let it through: %s", body)
	}
	// The key was made, for its owner alone.
	key := filepath.Join(os.Getenv("HOME"), ".local/state/guardproxy/key")
	if fi, err := os.Stat(key); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("key: %v %v", fi, err)
	}
	if fi, err := os.Stat(filepath.Dir(key)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("state directory: %v %v", fi, err)
	}
	// The decision log has one line, and nothing of the arguments.
	text, err := os.ReadFile(filepath.Join(dir, "logs", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(text, &line); err != nil || line["decision"] != "refuse" || line["cause"] != "policy" || line["guard"] != "root" || strings.Contains(string(text), "rm -rf") {
		t.Errorf("decision log: %v %s", err, text)
	}

	// SIGHUP: what can't be read leaves the old configuration in force.
	write("nonsense: 1\n")
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	s.wait("the configuration was not taken")
	if body := s.post("two", askBash); !strings.Contains(body, "not executed") {
		t.Errorf("a broken configuration switched the guards off: %s", body)
	}
	// A file that an editor has just cut is not taken for one without guards.
	write("")
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	s.wait("the file is empty")
	if body := s.post("two and a half", askBash); !strings.Contains(body, "not executed") {
		t.Errorf("an empty file switched the guards off: %s", body)
	}
	// What takes a restart is said; what can't be reopened is not the
	// configuration's fault.
	write(noGuards + "listen: 127.0.0.1:1\n")
	if err := os.RemoveAll(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	s.wait("the decision log could not be reopened")
	s.wait("configuration read again")
	s.wait("a changed key takes a restart")
	if body := s.post("two", askBash); !strings.Contains(body, "not executed") {
		t.Errorf("a running session lost its guards: %s", body)
	}
	if body := s.post("three", askBash); body != rmReply {
		t.Errorf("a new session has the old guards: %s", body)
	}
	s.stop()
	if code := <-s.code; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestServeDrains: SIGTERM lets a running exchange end.
func TestServeDrains(t *testing.T) {
	started, goOn := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-goOn
		io.WriteString(w, rmReply)
	}))
	defer up.Close()
	s := serve(t, "--upstream", up.URL)
	got := make(chan string, 1)
	go func() { got <- s.post("one", askBash) }()
	<-started
	s.stop()
	s.wait("draining")
	close(goOn)
	if body := <-got; body != rmReply {
		t.Errorf("the exchange was cut: %s", body)
	}
	if code := <-s.code; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := http.Get(s.url + "/v1/models"); err == nil {
		t.Error("it still listens")
	}
}
