package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/proxy"
)

// recordedModel answers with a stream of one shell call.
func recordedModel(t *testing.T, command string) *httptest.Server {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Request-Id", "req_1")
		w.Header().Set("X-Secret", "not for recordings")
		for _, data := range []string{
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":9,"cache_read_input_tokens":4},"diagnostics":{"cache_miss_reason":null}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"` + command + `\",\"dangerouslyDisableSandbox\":true}"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`,
			`{"type":"message_stop"}`,
		} {
			typ := strings.Split(data, `"`)[3]
			io.WriteString(w, "event: "+typ+"\ndata: "+data+"\n\n")
		}
	}))
	t.Cleanup(up.Close)
	return up
}

func readRecording(t *testing.T, path string) (out []record.Exchange, raw string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := record.NewReader(strings.NewReader(string(text)))
	for {
		x, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c := *x
		c.ClientBody, c.UpstreamBody = []byte(string(x.ClientBody)), []byte(string(x.UpstreamBody))
		c.Calls = append([]record.Call(nil), x.Calls...)
		out = append(out, c)
	}
	if s := r.Skipped(); len(s) > 0 {
		t.Fatalf("skipped %v", s)
	}
	return out, string(text)
}

// serve --record writes one exchange a request, with what was sent, what the
// reply said about itself, and what was decided about its calls; no secret is
// in it.
func TestServeRecords(t *testing.T) {
	up := recordedModel(t, "rm -rf /")
	dir := filepath.Join(t.TempDir(), "rec")
	s := serve(t, "--upstream", up.URL, "--record", dir)
	const secret = "sk-ant-api03-0123456789abcdefghijklmnop"
	body := `{"model":"m","stream":true,"tools":[{"name":"Bash","description":"Runs a command.","input_schema":{"type":"object","properties":{"command":{"type":"string"},"dangerouslyDisableSandbox":{"type":"boolean"}},"required":["command"]}}],"messages":[{"role":"user","content":"my key is ` + secret + `"}]}`
	for range 2 {
		req, _ := http.NewRequest("POST", s.url+"/v1/messages?beta=true&key=hidden", strings.NewReader(body))
		req.Header.Set("X-Api-Key", "a-credential-without-shape")
		req.Header.Set("X-Claude-Code-Session-Id", "abc")
		req.Header.Set("User-Agent", "claude-cli/2.1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	s.stop()
	s.wait("recording ended\" recorded=2")
	if code := <-s.code; code != exitDone {
		t.Fatalf("exit code %d", code)
	}

	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if fi, _ := os.Stat(dir); fi.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v", fi.Mode())
	}
	if fi, _ := os.Stat(files[0]); fi.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", fi.Mode())
	}
	xs, text := readRecording(t, files[0])
	for _, s := range []string{secret, "a-credential-without-shape", "hidden", "not for recordings"} {
		if strings.Contains(text, s) {
			t.Errorf("the recording holds %q", s)
		}
	}
	if len(xs) != 2 || strings.Count(text, `"rules"`) != 1 {
		t.Fatalf("%d exchanges:\n%s", len(xs), text)
	}
	x := &xs[0]
	if x.Start.IsZero() || x.FirstByte.Before(x.Start) || x.End.Before(x.FirstByte) {
		t.Errorf("times %v %v %v", x.Start, x.FirstByte, x.End)
	}
	for what, c := range map[string][2]string{
		"agent":           {x.Agent, "claude-code"},
		"dialect":         {x.Dialect, "anthropic-messages"},
		"path":            {x.Path, "/v1/messages?beta=true&key=******"},
		"session header":  {x.RequestHeaders["x-claude-code-session-id"], "abc"},
		"response header": {x.ResponseHeaders["request-id"], "req_1"},
		"response id":     {x.ResponseID, "msg_1"},
		"usage":           {string(x.Usage), `[{"input_tokens":9,"cache_read_input_tokens":4},{"output_tokens":7}]`},
		"diagnostics":     {string(x.Diagnostics), `{"cache_miss_reason":null}`},
		"removed":         {strings.Join(x.Rewrite.Removed, " "), "/tools/0/input_schema/properties/dangerouslyDisableSandbox"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %q, want %q", what, c[0], c[1])
		}
	}
	if x.Status != 200 || len(x.Credential) != 32 || x.Credential != xs[1].Credential {
		t.Errorf("status %d, credentials %q %q", x.Status, x.Credential, xs[1].Credential)
	}
	if len(x.ClientBody) != len(body) || len(x.Masked.ClientBody) != 1 || !strings.Contains(string(x.ClientBody), "my key is sk-ant-") {
		t.Errorf("client body, masked at %v: %s", x.Masked.ClientBody, x.ClientBody)
	}
	if len(x.UpstreamBody) >= len(body) || strings.Contains(string(x.UpstreamBody), "dangerously") {
		t.Errorf("upstream body: %s", x.UpstreamBody)
	}
	if len(x.Calls) != 1 {
		t.Fatalf("calls %v", x.Calls)
	}
	c := &x.Calls[0]
	if c.ID != "toolu_1" || c.Tool != "Bash" || c.Kind != "shell" || c.Verdict != record.AllowEdited || c.Guard != "" ||
		string(c.ArgumentsRaw) != `{"command":"rm -rf /","dangerouslyDisableSandbox":true}` {
		t.Errorf("call %+v", c)
	}
	g, ok := x.Judged(c)
	if string(x.Proof) != `{"p1":true,"p2":true,"p4":true}` {
		t.Errorf("proof %s", x.Proof)
	}
	if out, code := prove(dir); code != exitDone || out != "2 requests, 2 rewritten, 0 breaks added, 0 non-deterministic\n" {
		t.Errorf("cachecheck --prove: exit code %d\n%s", code, out)
	}
	if !ok || string(g.Arguments) != `{"command":"rm -rf /"}` || len(g.Shell.Argv) != 1 || g.Session.Turn != 1 || g.Session.Mode != "workspace-write" || g.Model != "m" {
		t.Errorf("rebuilt: %v %+v", ok, g)
	}
}

// What the proxy decided, in the words of a recording.
func TestVerdictsOfRecordedCalls(t *testing.T) {
	for want, d := range map[string]proxy.Decision{
		"allow  ":               {Allowed: true},
		"allow_edited residue ": {Allowed: true, Edited: true, Cause: "residue"},
		"refuse policy roots":   {Cause: "policy", Guard: "roots"},
	} {
		c := recordedCall(proxy.JudgedCall{Decision: d})
		if got := c.Verdict + " " + c.Cause + " " + c.Guard; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func prove(args ...string) (string, int) {
	var out bytes.Buffer
	code := run(context.Background(), append([]string{"cachecheck", "--prove"}, args...), stdio{strings.NewReader(""), &out, &out})
	return out.String(), code
}

// A refused call that comes back in the history is put back, and proved with
// the installation's key; without it, it is unverifiable.
func TestRestoredCallsAreProved(t *testing.T) {
	up := recordedModel(t, "cat ~/.local/state/guardproxy/key") // which is refused
	dir := filepath.Join(t.TempDir(), "rec")
	s := serve(t, "--upstream", up.URL, "--record", dir)
	tools := `"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"},"dangerouslyDisableSandbox":{"type":"boolean"}},"required":["command"]}}]`
	history := `{"role":"user","content":"go"}`
	for range 3 {
		resp, err := http.Post(s.url+"/v1/messages", "application/json", strings.NewReader(`{"model":"claude-opus-4-8","stream":true,`+tools+`,"messages":[`+history+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		reply, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		_, rest, _ := strings.Cut(string(reply), `"partial_json":`)
		var args string
		if err := json.NewDecoder(strings.NewReader(rest)).Decode(&args); err != nil || !strings.Contains(args, "gp1:") {
			t.Fatalf("no refusal: %v %s", err, reply)
		}
		history += `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":` + args + `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"exit 126"}]}`
	}
	s.stop()
	if code := <-s.code; code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	const verdict = "3 requests, 3 rewritten, 0 breaks added, 0 non-deterministic"
	if out, code := prove(dir); code != exitDone || out != verdict+"\n" {
		t.Errorf("with the key: exit code %d\n%s", code, out)
	}
	t.Setenv("HOME", t.TempDir())
	if out, code := prove(dir); code != exitFound || !strings.HasPrefix(out, verdict+", 2 unverifiable\nguardproxy: error: ") {
		t.Errorf("without the key: exit code %d\n%s", code, out)
	}
}

// A second serve goes on in the same file, below a header of its own.
func TestServeRecordsOn(t *testing.T) {
	up := recordedModel(t, "ls")
	dir := filepath.Join(t.TempDir(), "rec")
	for n := range 2 {
		s := serve(t, "--upstream", up.URL, "--record", dir)
		resp, err := http.Post(s.url+"/v1/messages", "application/json", strings.NewReader(`{"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		s.stop()
		if code := <-s.code; code != exitDone {
			t.Fatalf("exit code %d", code)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		if len(files) != 1 {
			t.Fatalf("files %v", files)
		}
		xs, text := readRecording(t, files[0])
		if len(xs) != n+1 || strings.Count(text, "{\"v\":1") != n+1 {
			t.Fatalf("%d exchanges:\n%s", len(xs), text)
		}
	}
}

// What was written down and what was not can be watched.
func TestRecordingsAreCounted(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"hi"}]}`)
	}))
	defer up.Close()
	dir := t.TempDir()
	cfg, recordings := filepath.Join(dir, "guardproxy.yaml"), filepath.Join(dir, "recordings")
	if err := os.WriteFile(cfg, []byte("metrics: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--upstream", up.URL, "--config", cfg, "--record", recordings)
	_, metrics, _ := strings.Cut(s.ready, "; metrics on ")
	s.post("one", askBash)
	// The one writer has written the first when the second one fails: there is
	// a directory where its file should be.
	file := ""
	for file == "" {
		if found, _ := filepath.Glob(filepath.Join(recordings, "*.jsonl")); len(found) > 0 {
			file = found[0]
		}
	}
	if err := errors.Join(os.Rename(file, file+".kept"), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	s.post("one", askBash)
	s.wait("an exchange was not recorded")
	got := scrape(t, metrics)
	if got["guardproxy_recorded_total"] != "1" || got["guardproxy_recordings_lost_total"] != "1" {
		t.Errorf("recorded %s, lost %s", got["guardproxy_recorded_total"], got["guardproxy_recordings_lost_total"])
	}
}
