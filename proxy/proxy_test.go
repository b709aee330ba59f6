package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// guardFunc is a guard of a test.
type guardFunc func(*guards.Call) guards.Verdict

func (f guardFunc) Check(_ context.Context, c *guards.Call) guards.Verdict { return f(c) }

// denying denies calls whose arguments hold a text.
func denying(text string) guards.Chain {
	return guards.Chain{{Name: "test-guard", Guard: guardFunc(func(c *guards.Call) guards.Verdict {
		if strings.Contains(c.ArgumentsRaw, text) {
			return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: "no " + text + " here"}
		}
		return guards.Verdict{}
	})}}
}

// rig is a proxy between a scripted upstream and a client.
type rig struct {
	t      *testing.T
	url    string
	up     *httptest.Server
	mu     sync.Mutex
	bodies []string
	reqs   []*http.Request
	log    *bytes.Buffer
	h      *Handler
}

func newRig(t *testing.T, answer http.HandlerFunc, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, log: &bytes.Buffer{}}
	r.up = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.bodies, r.reqs = append(r.bodies, string(b)), append(r.reqs, req)
		r.mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(b))
		answer(w, req)
	}))
	t.Cleanup(r.up.Close)
	o := Options{
		Upstreams: []Upstream{{Name: "test", URL: r.up.URL}},
		Keys:      [][]byte{bytes.Repeat([]byte{7}, 32)},
		Policy:    Policy{Mode: "workspace-write", Approval: "never", Workspace: "/work space"},
		Log:       slog.New(slog.NewTextHandler(&lockedWriter{w: r.log}, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.h = h
	front := httptest.NewServer(h)
	t.Cleanup(front.Close)
	r.url = front.URL
	return r
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (r *rig) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies
}

var plain = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
}

// send posts a body and returns status, header and body; a reply that breaks
// off gives the error's text after what came.
func (r *rig) send(path, body string, header ...string) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequest("POST", r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := plain.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, resp.Header, string(b) + " [" + err.Error() + "]"
	}
	return resp.StatusCode, resp.Header, string(b)
}

const (
	messagesTools = `"tools":[{"name":"Bash","description":"Runs a command.","input_schema":{"type":"object","properties":{"command":{"type":"string"},"dangerouslyDisableSandbox":{"type":"boolean"}},"required":["command"]}},{"name":"Write","input_schema":{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path","content"]}}]`
	messagesAsk   = `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}],` + messagesTools + `}`
	chatTools     = `"tools":[{"type":"function","function":{"name":"bash","description":"Runs a command.","parameters":{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"},"sandbox_permissions":{"type":"string","enum":["workspace-write","danger-full-access"]},"justification":{"type":"string"}},"required":["command","description"]}}}]`
	chatAsk       = `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}],` + chatTools + `}`
)

func quote(s string) string { return string(tape.Quote(nil, s)) }

// messagesStream is a reply of text and one call for each argument text.
func messagesStream(tool string, args ...string) string {
	var b strings.Builder
	ev := func(typ, rest string) { fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q%s}\n\n", typ, typ, rest) }
	ev("message_start", `,"message":{"id":"m","content":[]}`)
	ev("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	ev("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"hi"}`)
	ev("content_block_stop", `,"index":0`)
	for i, a := range args {
		ev("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}`, i+1, i+1, tool))
		ev("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, i+1, quote(a)))
		ev("content_block_stop", fmt.Sprintf(`,"index":%d`, i+1))
	}
	ev("message_delta", `,"delta":{"stop_reason":"tool_use"}`)
	ev("message_stop", "")
	return b.String()
}

func chatStream(tool string, args ...string) string {
	var b strings.Builder
	ev := func(delta, finish string) {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
	}
	ev(`{"role":"assistant","content":"hi"}`, "null")
	for i, a := range args {
		ev(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":%q,"arguments":%s}}]}`, i, i, tool, quote(a)), "null")
	}
	ev("{}", `"tool_calls"`)
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

func answering(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }
}

func TestListener(t *testing.T) {
	r := newRig(t, answering(`{"data":[]}`), func(o *Options) { o.Hosts = []string{"proxy.internal"} })
	port := r.url[strings.LastIndex(r.url, ":")+1:]
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"loopback", nil, 200},
		{"localhost", []string{"Host", "localhost:" + port}, 200},
		{"IPv6 loopback", []string{"Host", "[::1]:" + port}, 200},
		{"another loopback address", []string{"Host", "127.9.9.9:" + port}, 200},
		{"a configured name", []string{"Host", "proxy.internal:" + port}, 200},
		{"another name", []string{"Host", "evil.example:" + port}, 403},
		{"a name that starts like loopback", []string{"Host", "127.0.0.1.evil.example:" + port}, 403},
		{"another port", []string{"Host", "127.0.0.1:1"}, 403},
		{"no port", []string{"Host", "127.0.0.1"}, 403},
		{"an origin", []string{"Origin", "http://127.0.0.1:" + port}, 403},
		{"the null origin", []string{"Origin", "null"}, 403},
		{"cross-site", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"Sec-Fetch-Mode as Node sends it", []string{"Sec-Fetch-Mode", "cors"}, 200},
		{"an upgrade", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 426},
	} {
		req, _ := http.NewRequest("GET", r.url+"/v1/models", nil)
		for i := 0; i+1 < len(c.header); i += 2 {
			req.Header.Set(c.header[i], c.header[i+1])
			if c.header[i] == "Host" {
				req.Host = c.header[i+1]
			}
		}
		resp, err := plain.Do(req)
		if err != nil {
			t.Fatal(c.name, err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.name, resp.StatusCode, c.status)
		}
	}
	// What only a raw connection can say.
	for _, c := range []struct{ name, request, status string }{
		{"absolute form", "GET http://example.com/v1/models HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\n\r\n", "400"},
		{"CONNECT", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", "400"},
		{"dot segments", "GET /v1/files/../messages HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\n\r\n", "400"},
		{"escaped dot segments", "GET /v1/files/%2e%2e/messages HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\n\r\n", "400"},
	} {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, c.request)
		line, _ := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if !strings.Contains(line, " "+c.status+" ") {
			t.Errorf("%s: %q, want %s", c.name, line, c.status)
		}
	}
}

func TestToken(t *testing.T) {
	r := newRig(t, answering(`{"content":[]}`), func(o *Options) { o.Token = "s3cret-s3cret-s3cret" })
	for path, want := range map[string]int{"/v1/messages": 403, "/t/wrong/v1/messages": 403, "/t/s3cret-s3cret-s3cret/v1/messages": 200, "/s/x/t/s3cret-s3cret-s3cret/v1/messages": 200} {
		if got, _, _ := r.send(path, messagesAsk); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got, _, _ := r.send("/v1/messages", messagesAsk, tokenHeader, "s3cret-s3cret-s3cret"); got != 200 {
		t.Errorf("by header: %d", got)
	}
	for _, req := range r.reqs {
		if req.URL.Path != "/v1/messages" || req.Header.Get(tokenHeader) != "" {
			t.Errorf("upstream saw %s and %q", req.URL.Path, req.Header.Get(tokenHeader))
		}
	}
}

func TestPaths(t *testing.T) {
	r := newRig(t, answering(`{"content":[]}`), func(o *Options) { o.Passthrough = []string{"GET /v1/usage", "GET /v1/orgs/*"} })
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/v1/messages?beta=true", 200}, {"POST", "//v1/messages", 200}, {"POST", "/v1/messages/", 200}, {"POST", "/v1/%6dessages", 200},
		{"POST", "/chat/completions", 200}, {"POST", "/v1/messages/count_tokens", 200}, {"POST", "/anthropic/messages", 200},
		{"GET", "/v1/messages", 501}, {"POST", "/v1/messages/batches", 501}, {"GET", "/v1/messages/batches/b/results", 501},
		{"GET", "/v1/chat/completions/x", 501}, {"POST", "/v1/responses", 200}, {"POST", "/v1/responses/compact", 200}, {"GET", "/v1/responses/resp_1/input_items", 501}, {"POST", "/v1beta/models/g:generateContent", 501},
		{"POST", "/v1/completions", 501}, {"GET", "/", 501}, {"HEAD", "/", 200}, {"GET", "/v1/models", 200}, {"GET", "/v1/models/x", 200},
		{"GET", "/v1/models/x/y", 501}, {"POST", "/v1/models", 501}, {"GET", "/api/hello", 200}, {"POST", "/v1/files", 200}, {"GET", "/v1/files/f", 200},
		{"GET", "/v1/usage", 200}, {"GET", "/v1/usage/x", 501}, {"GET", "/v1/orgs/a/b", 200}, {"GET", "/v1/orgs/a/messages", 501},
		{"POST", "/s/a-label/v1/messages", 200}, {"POST", "/u/test/v1/messages", 200}, {"POST", "/u/other/v1/messages", 400}, {"POST", "/s/bad%20label/v1/messages", 400},
		{"POST", "/u/test/s/x/v1/messages", 200}, {"POST", "/v1/messages;x", 501}, {"POST", "/v1/messages%2f", 200}, {"POST", "/v1/messages%00", 501},
	} {
		req, err := http.NewRequest(c.method, r.url+c.path, strings.NewReader(`{"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := plain.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.method, c.path, resp.StatusCode, c.status, b)
		}
		if c.status == 501 && !strings.Contains(string(b), "can't be judged") && !strings.Contains(string(b), "passthrough") {
			t.Errorf("%s %s: the error names no way out: %s", c.method, c.path, b)
		}
	}
	for _, p := range []string{"POST /v1/messages", "GET v1/x", "/v1/x", "get /v1/x"} {
		if _, err := parsePass(p); err == nil {
			t.Errorf("passthrough %q was taken", p)
		}
	}
}

func TestUpstreamURL(t *testing.T) {
	for _, c := range []struct{ base, path, want string }{
		{"", "/v1/messages?beta=true", "/v1/messages?beta=true"},
		{"/", "/v1/messages", "/v1/messages"},
		{"/v1", "/v1/messages", "/v1/messages"},
		{"/v1/", "/messages", "/v1/messages"},
		{"/api/anthropic", "/v1/messages", "/api/anthropic/v1/messages"},
		{"", "//v1/messages/?", "//v1/messages/?"},
		{"", "/v1/%6dessages?a=%20b&c", "/v1/%6dessages?a=%20b&c"},
	} {
		var got string
		r := newRig(t, func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI; io.WriteString(w, `{}`) })
		o := r.h.current().opts
		o.Upstreams = []Upstream{{Name: "x", URL: r.up.URL + c.base}}
		if err := r.h.Reload(o); err != nil {
			t.Fatal(err)
		}
		r.send(c.path, `{}`)
		if got != c.want {
			t.Errorf("base %q, path %q: upstream was asked for %q, want %q", c.base, c.path, got, c.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Request-Id", "req_1")
		w.Header().Set("Anthropic-Ratelimit-Tokens-Remaining", "5")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		io.WriteString(w, `{"content":[]}`)
	})
	_, h, _ := r.send("/v1/messages", messagesAsk, "Anthropic-Beta", "a,b", "X-Stainless-Lang", "js", "X-Api-Key", "k", "Accept-Encoding", "br", "Connection", "X-Mine", "X-Mine", "1", "Te", "trailers", "X-Guardproxy-Foo", "1", "User-Agent", "claude-cli/2")
	got := r.reqs[0].Header
	for k, want := range map[string]string{"Anthropic-Beta": "a,b", "X-Stainless-Lang": "js", "X-Api-Key": "k", "Accept-Encoding": "", "X-Mine": "", "Te": "", "X-Guardproxy-Foo": "", "User-Agent": "claude-cli/2", "X-Forwarded-For": ""} {
		if got.Get(k) != want {
			t.Errorf("upstream saw %s: %q, want %q", k, got.Get(k), want)
		}
	}
	if h.Get("Request-Id") != "req_1" || h.Get("Anthropic-Ratelimit-Tokens-Remaining") != "5" || h.Get("X-Hop") != "" {
		t.Errorf("the client saw %v", h)
	}
}

// errorText is the message of an error in the shape that an SDK expects.
func errorText(t *testing.T, path, body string) string {
	t.Helper()
	var e struct {
		Type  string
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%s: the error is no JSON: %v: %s", path, err, body)
	}
	if strings.Contains(path, "messages") && e.Type != "error" || e.Error.Type == "" || e.Error.Message == "" {
		t.Errorf("%s: not the dialect's shape: %s", path, body)
	}
	return e.Error.Message
}

func TestBadRequests(t *testing.T) {
	gz := func(b []byte) string {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		w.Write(b)
		w.Close()
		return buf.String()
	}
	zs := func(b []byte) string {
		w, _ := zstd.NewWriter(nil)
		return string(w.EncodeAll(b, nil))
	}
	big := append([]byte(`{"x":"`), bytes.Repeat([]byte("a"), 65<<20)...)
	big = append(big, `"}`...)
	r := newRig(t, answering(`{}`))
	for _, path := range []string{"/v1/messages", "/v1/chat/completions"} {
		for _, c := range []struct {
			name, body, encoding, want string
			ok                         bool
		}{
			{"cut", `{"model":"m","messages":[`, "", "request body: the text ends", false},
			{"not JSON", `hello`, "", "request body: no JSON value", false},
			{"empty", ``, "", "request body: the text ends", false},
			{"an array", `[]`, "", "request body: it is an array", false},
			{"same key twice", `{"tools":[],"tools":[]}`, "", "request body: a key that the object has already", false},
			{"same key twice in a tool", `{"tools":[{"name":"a","name":"b"}]}`, "", "request body: a key that the object has already", false},
			{"invalid UTF-8", "{\"x\":\"\xff\"}", "", "request body: invalid UTF-8", false},
			{"65 MiB", string(big), "", "larger than the limit of 64 MiB", false},
			{"a gzip bomb", gz(big), "gzip", "larger than the limit of 64 MiB", false},
			{"a zstd bomb", zs(big), "zstd", "larger than the limit of 64 MiB", false},
			{"not gzip", `{}`, "gzip", "not gzip", false},
			{"cut gzip", gz([]byte(`{"messages":[]}`))[:20], "gzip", "could not be read to its end", false},
			{"an unknown encoding", `{}`, "br", `"br" is not supported`, false},
			{"much in an unknown encoding", string(big[:4<<20]), "br", `"br" is not supported`, false},
			{"much that is not gzip", string(big[:4<<20]), "gzip", "not gzip", false},
			{"gzip", gz([]byte(`{"messages":[]}`)), "gzip", "", true},
			{"zstd", zs([]byte(`{"messages":[]}`)), "zstd", "", true},
		} {
			if len(c.body) > 1<<20 && path != "/v1/messages" {
				continue // once is enough for what takes long
			}
			before := len(r.seen())
			status, _, body := r.send(path, c.body, "Content-Encoding", c.encoding)
			if c.ok {
				if status != 200 || len(r.seen()) != before+1 || r.seen()[before] != `{"messages":[]}` {
					t.Errorf("%s %s: %d %s", path, c.name, status, body)
				}
				continue
			}
			if status != 400 || len(r.seen()) != before {
				t.Errorf("%s %s: status %d, %d requests upstream", path, c.name, status, len(r.seen())-before)
			}
			if msg := errorText(t, path, body); !strings.Contains(msg, c.want) || !strings.HasPrefix(msg, "guardproxy: ") {
				t.Errorf("%s %s: %q does not say %q", path, c.name, msg, c.want)
			}
		}
	}
}

// Whoever sends a large body to where it can't go is told so: the connection is
// not closed on them while they write.
func TestAnswersBeforeTheEndOfABody(t *testing.T) {
	r := newRig(t, answering(`{}`))
	body := strings.Repeat("x", 8<<20)
	for path, want := range map[string]int{"/v1/nowhere": 501, "/u/nobody/v1/messages": 400, "/v1/messages": 400} {
		status, _, answer := r.send(path, body)
		if status != want || !strings.Contains(answer, "guardproxy: ") {
			t.Errorf("%s: %d %s, want %d", path, status, answer, want)
		}
	}
}

func TestBadUpstreams(t *testing.T) {
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n"
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		want   string // of the body
	}{
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 502, "redirect (307)"},
		{"429 with retry-after", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
			io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`)
		}, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`},
		{"529", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(529); io.WriteString(w, "overloaded") }, 529, "overloaded"},
		{"HTML with a 200", answering("<!doctype html><title>x</title>"), 502, "answered with text/html"},
		{"plain text with a 200", answering("hello there"), 502, "not one that can be judged"},
		{"half an event, then the end", answering(start + "event: content_block_start\ndata: {\"type\":"), 200, start + "event: error\ndata: {\"type\":\"error\""},
		{"an unknown block", answering(start + "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"agent_use\"}}\n\n"), 200, "unknown block type"},
		{"an unknown block at once", answering(`{"content":[{"type":"agent_use"}]}`), 502, "unknown block type"},
		{"cut JSON", answering(`{"content":[`), 502, "not one that can be judged"},
		{"br, which was not asked for", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			io.WriteString(w, "x")
		}, 502, `\"br\" is not supported`},
		{"another charset", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-7")
			io.WriteString(w, start)
		}, 502, "charset"},
		{"another charset in a second header", func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{"text/event-stream", "text/event-stream; charset=utf-7"}
			io.WriteString(w, start)
		}, 502, "charset"},
		{"a second encoding", func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Encoding"] = []string{"identity", "br"}
			io.WriteString(w, "x")
		}, 502, `\"identity, br\" is not supported`},
		{"UTF-8 by name", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", `text/event-stream; charset="UTF-8"`)
			io.WriteString(w, start)
		}, 200, start},
		{"gzip, which was not asked for", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, messagesStream("Bash", `{"command":"ls"}`))
			z.Close()
		}, 200, messagesStream("Bash", `{"command":"ls"}`)},
		{"nothing", func(w http.ResponseWriter, r *http.Request) {}, 200, ""},
		{"an error event", answering(start + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n"), 200, `"overloaded_error"`},
		{"the end inside a call", answering(messagesStream("Bash", `{"command":"ls"}`)[:500]), 200, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"},
		{"a break before the first byte", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 502, "failed in the middle"},
		{"a break inside a call", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, messagesStream("Bash", `{"command":"ls"}`)[:500])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 200, "[unexpected EOF]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.answer)
			status, h, body := r.send("/v1/messages", messagesAsk)
			if status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("status %d, want %d; body %q does not hold %q", status, c.status, body, c.want)
			}
			if strings.Contains(body, "tool_use") && !strings.Contains(body, "message_stop") {
				t.Errorf("a piece of a call reached the client: %s", body)
			}
			if status == 502 {
				errorText(t, "/v1/messages", body)
			}
			if status == 429 && h.Get("Retry-After") != "7" {
				t.Error("retry-after was lost")
			}
		})
	}
	down := newRig(t, answering(`{}`))
	down.up.Close()
	status, _, body := down.send("/v1/chat/completions", chatAsk)
	if msg := errorText(t, "/v1/chat/completions", body); status != 502 || !strings.Contains(msg, "can't be reached") || !strings.Contains(msg, down.up.URL) {
		t.Errorf("down: %d %s", status, msg)
	}
}

func TestRefusals(t *testing.T) {
	chain := func(o *Options) { o.Guards = denying("rm") }
	for _, c := range []struct {
		name, path, ask, answer string
		want                    []string // the client's body holds these
		not                     []string
	}{
		{"messages, streaming", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":"ls"}`, `{"command":"rm x"}`, `{"command":"pwd"}`),
			[]string{`{\"command\":\"ls\"}`, `{\"command\":\"pwd\"}`, `printf '%s\\\\n' 'guardproxy: not executed. guard test-guard says: no rm here. Take another way`, `"stop_reason":"tool_use"`}, []string{"rm x"}},
		{"chat, streaming", "/chat/completions", chatAsk, chatStream("bash", `{"command":"rm x","description":"why not","workdir":"/"}`, `{"command":"ls","description":"d"}`),
			[]string{`\"command\":\"ls\"`, `(exit 126) # gp1:`, `\"description\":\"why not\"`, `"finish_reason":"tool_calls"`}, []string{"rm x", "workdir"}},
		{"an undeclared tool", "/v1/messages", messagesAsk, messagesStream("bash", `{"command":"ls"}`), []string{"guardproxy_refused", "this request declares no tool named bash"}, nil},
		{"no command", "/v1/messages", messagesAsk, messagesStream("Bash", `{"cmd":"ls"}`), []string{"command is missing"}, nil},
		{"no arguments", "/v1/messages", messagesAsk, messagesStream("Bash", ``), []string{"command is missing"}, nil},
		{"the command is an array", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":["ls"]}`), []string{"command is an array"}, nil},
		{"not JSON", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":"ls`), []string{"the arguments are not valid JSON"}, nil},
		{"not an object", "/v1/messages", messagesAsk, messagesStream("Bash", `["ls"]`), []string{"the arguments are an array"}, nil},
		{"same key twice", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":"ls","command":"rm"}`), []string{"a key that the object has already"}, nil},
		{"same key in two cases", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":"ls","Command":"rm"}`), []string{"twice, in upper and lower case"}, nil},
		{"NUL", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":"ls\u0000"}`), []string{"NUL"}, nil},
		{"lone surrogate", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":"\ud800"}`), []string{"surrogate"}, nil},
		{"too deep", "/v1/messages", messagesAsk, messagesStream("Bash", `{"command":"ls","x":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)+`}`), []string{"more than 128 deep"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, answering(c.answer), chain)
			status, _, body := r.send(c.path, c.ask)
			if status != 200 {
				t.Fatalf("status %d: %s", status, body)
			}
			for _, w := range c.want {
				if !strings.Contains(body, w) {
					t.Errorf("the reply does not hold %q:\n%s", w, body)
				}
			}
			for _, n := range c.not {
				if strings.Contains(body, n) {
					t.Errorf("the reply holds %q:\n%s", n, body)
				}
			}
		})
	}
}

func TestThirdRefusalSaysSo(t *testing.T) {
	r := newRig(t, answering(messagesStream("Bash", `{"command":"rm x"}`)), func(o *Options) { o.Guards = denying("rm") })
	for i := 1; i <= 4; i++ {
		_, _, body := r.send("/v1/messages", messagesAsk)
		if got, want := strings.Contains(body, fmt.Sprintf("refused %d times", i)), i >= 3; got != want {
			t.Errorf("refusal %d says so: %v\n%s", i, got, body)
		}
	}
}

func TestGuardOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		verdict guards.Verdict
		want    string
	}{
		"ask":        {guards.Verdict{Decision: guards.Ask, Cause: guards.CausePolicy, Reason: "is that wise"}, "guard g wants somebody to be asked, and guardproxy has nobody to ask: is that wise."},
		"trap":       {guards.Verdict{Decision: guards.Deny, Cause: guards.CauseTrap}, "guard g could not judge the call (trap)"},
		"long words": {guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: strings.Repeat("x", 1000)}, strings.Repeat("x", 299)},
	} {
		r := newRig(t, answering(messagesStream("Bash", `{"command":"ls"}`)), func(o *Options) {
			o.Guards = guards.Chain{{Name: "g", Guard: guardFunc(func(*guards.Call) guards.Verdict { return c.verdict })}}
		})
		if _, _, body := r.send("/v1/messages", messagesAsk); !strings.Contains(body, c.want) || strings.Contains(body, strings.Repeat("x", 301)) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestWhatGuardsSee(t *testing.T) {
	var got *guards.Call
	r := newRig(t, answering(messagesStream("Bash", `{ "command" : "cd /x && rm -rf \"y\"" }`)), func(o *Options) {
		o.Guards = guards.Chain{{Name: "g", Guard: guardFunc(func(c *guards.Call) guards.Verdict { got = c; return guards.Verdict{} })}}
	})
	ask := `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}],` + messagesTools + `}`
	_, _, body := r.send("/s/label/v1/messages", ask, "User-Agent", "claude-cli/2.1")
	if body != messagesStream("Bash", `{ "command" : "cd /x && rm -rf \"y\"" }`) {
		t.Errorf("an allowed reply was changed: %s", body)
	}
	if got == nil {
		t.Fatal("the guard was not asked")
	}
	if got.ID != "toolu_1" || got.Name != "Bash" || got.ArgumentsRaw != `{ "command" : "cd /x && rm -rf \"y\"" }` || got.Kind != "shell" || got.Client != "claude-code" ||
		got.Dialect != "anthropic-messages" || got.Model != "m" || got.Session.Turn != 2 || got.Session.Calls != 2 || got.Session.Index != 0 ||
		got.Session.Mode != "workspace-write" || got.Session.Approval != "never" || got.Session.Workspace != "/work space" || got.Session.ID == "" ||
		got.Shell == nil || got.Shell.Opaque || fmt.Sprint(got.Shell.Argv) != "[[cd /x] [rm -rf y]]" {
		t.Errorf("%+v %+v", got, got.Shell)
	}
}

// What a shell opens by itself is a path like those that tools name.
func TestGuardsSeeRedirections(t *testing.T) {
	var got *guards.Call
	r := newRig(t, answering(messagesStream("Bash", `{"command":"sort <a >>.git/hooks/b"}`)), func(o *Options) {
		o.Guards = guards.Chain{{Name: "g", Guard: guardFunc(func(c *guards.Call) guards.Verdict { got = c; return guards.Verdict{} })}}
	})
	r.send("/v1/messages", messagesAsk)
	if got == nil || fmt.Sprint(got.Paths) != "[{a read} {.git/hooks/b write}]" {
		t.Errorf("%+v", got)
	}
}

func TestResidue(t *testing.T) {
	const call = `{"command":"ls","sandbox_permissions":"danger-full-access","description":"d","justification":"please"}`
	for _, c := range []struct {
		name   string
		change func(*Options)
		args   string
		want   string
	}{
		{"dropped as a pair", nil, call, `{"command":"ls","description":"d"}`},
		{"dropped at the front", nil, `{"justification":"x", "sandbox_permissions":null,"command":"ls","description":"d"}`, `{"command":"ls","description":"d"}`},
		{"dropped at the end", nil, `{"command":"ls","description":"d" , "sandbox_permissions":"","justification":""}`, `{"command":"ls","description":"d"}`},
		{"refused", func(o *Options) { o.RefuseResidue = true }, call, "the mode of this session is workspace-write and no value of"},
		{"redundant is dropped all the same", func(o *Options) { o.RefuseResidue = true }, `{"command":"ls","description":"d","sandbox_permissions":"workspace-write","justification":"x"}`, `{"command":"ls","description":"d"}`},
		{"left to the approver", func(o *Options) { o.Policy.Approval = "ask" }, call, call},
	} {
		r := newRig(t, answering(chatStream("bash", c.args)), func(o *Options) {
			if c.change != nil {
				c.change(o)
			}
		})
		_, _, body := r.send("/chat/completions", chatAsk, "User-Agent", "deepseek-harness/0.1")
		if !strings.Contains(body, strings.Trim(quote(c.want), `"`)) {
			t.Errorf("%s: %s", c.name, body)
		}
		narrowed := !strings.Contains(r.seen()[0], "sandbox_permissions")
		if want := c.name != "left to the approver"; narrowed != want {
			t.Errorf("%s: the schema was narrowed: %v", c.name, narrowed)
		}
	}
}

// TestCutMembers: what is left is the object without the members, and nothing
// else moved.
func TestCutMembers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 5, rapid.ID).Draw(r, "names")
		cut := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.ID).Draw(r, "cut")
		src := space.Draw(r, "s") + "{" + space.Draw(r, "s")
		want := map[string]any{}
		for i, n := range names {
			if i > 0 {
				src += space.Draw(r, "s") + "," + space.Draw(r, "s")
			}
			src += `"` + n + `"` + space.Draw(r, "s") + ":" + space.Draw(r, "s") + fmt.Sprint(i)
			want[n] = float64(i)
		}
		src += space.Draw(r, "s") + "}"
		for _, c := range cut {
			delete(want, c)
		}
		var tp tape.Tape
		if err := tp.Parse([]byte(src)); err != nil {
			r.Fatal(err)
		}
		out := cutMembers(&tp, cut)
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			r.Fatalf("%q without %v is %q: %v", src, cut, out, err)
		}
		i := 0
		for _, b := range out {
			for i < len(src) && src[i] != b {
				i++
			}
			if i++; i > len(src) {
				r.Fatalf("%q is no subsequence of %q", out, src)
			}
		}
	})
}

func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	state := filepath.Join(dir, "home", ".local", "state", "guardproxy")
	work := filepath.Join(dir, "work")
	for _, d := range []string{state, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(state, filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	for args, refused := range map[string]bool{
		`{"command":"cat ` + state + `/key"}`:                                true,
		`{"command":"cat ~/.local/state/guardproxy/key"}`:                    true,
		`{"command":"cat $HOME/.local/state/guardproxy/key"}`:                true,
		`{"command":"cat ${HOME}/.local//state/./guardproxy/key"}`:           true,
		`{"command":"cat ../home/.local/state/guardproxy/key"}`:              true,
		`{"command":"cat link/key"}`:                                         true,
		`{"command":"ls","description":"` + state + `"}`:                     true,
		`{"command":"ls \u002fx","x":["~\u002f.local/state/guardproxy"]}`:    true,
		`{"command":"cat ` + state + `-other/key"}`:                          false,
		`{"command":"cat ` + state + `.bak"}`:                                false,
		`{"command":"cat ~/.local/state/other"}`:                             false,
		`{"command":"go doc guardproxy"}`:                                    false,
		`{"command":"cat /` + `etc/passwd", "description":"guardproxy/key"}`: false,
	} {
		r := newRig(t, answering(messagesStream("Bash", args)), func(o *Options) {
			o.OwnFiles = []string{state}
			o.Policy.Workspace = work
		})
		_, _, body := r.send("/v1/messages", messagesAsk)
		if got := strings.Contains(body, "files of guardproxy itself"); got != refused {
			t.Errorf("%s: refused %v, want %v", args, got, refused)
		}
	}
	for path, refused := range map[string]bool{state + "/key": true, "link/key": true, "../home/.local/state/guardproxy": true, "a.txt": false, work + "/x": false} {
		r := newRig(t, answering(messagesStream("Write", `{"file_path":`+quote(path)+`,"content":"x"}`)), func(o *Options) {
			o.OwnFiles = []string{state}
			o.Policy.Workspace = work
		})
		_, _, body := r.send("/v1/messages", messagesAsk)
		if got := strings.Contains(body, "files of guardproxy itself"); got != refused {
			t.Errorf("Write %s: refused %v, want %v", path, got, refused)
		}
	}
}

func TestSealInAReply(t *testing.T) {
	r := newRig(t, answering(messagesStream("Bash", `{"command":"rm x"}`)), func(o *Options) { o.Guards = denying("rm") })
	_, _, body := r.send("/v1/messages", messagesAsk)
	at := strings.Index(body, "gp1:")
	seal := body[at : at+strings.IndexAny(body[at:], `"\`)]
	for _, args := range []string{`{"command":` + quote("echo "+seal) + `}`, `{"command":"ls","x":[` + quote(seal) + `]}`, `{"command":"ls",` + quote(seal) + `:1}`} {
		r2 := newRig(t, answering(messagesStream("Bash", args)))
		if _, _, body := r2.send("/v1/messages", messagesAsk); !strings.Contains(body, "a seal of guardproxy") {
			t.Errorf("%s: %s", args, body)
		}
	}
	r3 := newRig(t, answering(messagesStream("Bash", `{"command":"echo gp1:AAAA"}`)))
	if _, _, body := r3.send("/v1/messages", messagesAsk); strings.Contains(body, "not executed") {
		t.Errorf("a text that only looks like a seal is refused: %s", body)
	}
}

func TestHistoryIsRestored(t *testing.T) {
	reply := messagesStream("Bash", `{ "command":"rm \u00e9" }`)
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, reply) }, func(o *Options) { o.Guards = denying("rm") })
	_, _, body := r.send("/v1/messages", messagesAsk)
	at := strings.Index(body, `"partial_json":`) + len(`"partial_json":`)
	var args string
	if err := json.Unmarshal([]byte(body[at:at+strings.Index(body[at:], "}}\n")]), &args); err != nil {
		t.Fatal(err)
	}
	ask := `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":` + args + `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"Exit code 126","is_error":false}]}],` + messagesTools + `}`
	r.send("/v1/messages", ask)
	want := `{"type":"tool_use","id":"toolu_1","name":"Bash","input":{ "command":"rm \u00e9" }}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"guardproxy: not executed. guard test-guard says: no rm here. Take another way to reach the goal within the rules.","is_error":true}]}`
	if got := r.seen()[1]; !strings.Contains(got, want) {
		t.Errorf("upstream saw\n%s\nwant in it\n%s", got, want)
	}
	// Another process with the same key sends the same bytes.
	r2 := newRig(t, answering(`{}`))
	r2.send("/v1/messages", ask)
	if r2.seen()[0] != r.seen()[1] {
		t.Error("restoration needs state")
	}
}

func TestNothingToDoMovesNoByte(t *testing.T) {
	r := newRig(t, answering(`{}`))
	body := "{ \"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a < b \\u003c \\/ é\"}],\t\"x\":1.0, \"tools\":[{\"name\":\"Other\",\"input_schema\":{\"properties\":{\"justification\":{}}}}]}\n"
	r.send("/v1/messages", body)
	if r.seen()[0] != body {
		t.Errorf("upstream saw %q", r.seen()[0])
	}
}

func TestSessionsKeepWhatTheyPinned(t *testing.T) {
	r := newRig(t, answering(messagesStream("Bash", `{"command":"rm x"}`)))
	ask := func(session string) (narrowed, refused bool) {
		n := len(r.seen())
		_, _, body := r.send("/v1/messages", messagesAsk, "X-Claude-Code-Session-Id", session)
		return !strings.Contains(r.seen()[n], "dangerouslyDisableSandbox"), strings.Contains(body, "not executed")
	}
	if n, d := ask("one"); !n || d {
		t.Fatal("first request", n, d)
	}
	o := r.h.current().opts
	o.Policy.Approval = "ask"
	o.Guards = denying("rm")
	if err := r.h.Reload(o); err != nil {
		t.Fatal(err)
	}
	if n, d := ask("one"); !n || d {
		t.Error("a running session changed with the configuration", n, d)
	}
	if n, d := ask("two"); n || !d {
		t.Error("a new session does not have the new configuration", n, d)
	}
	o.Upstreams = nil
	if err := r.h.Reload(o); err == nil {
		t.Error("a configuration without upstreams was taken")
	}
	if n, d := ask("three"); n || !d {
		t.Error("a configuration that was refused is in force", n, d)
	}
}

func TestEachKindIsLoggedOnce(t *testing.T) {
	r := newRig(t, answering(messagesStream("Bash", `{"command":"rm x"}`)), func(o *Options) { o.Guards = denying("rm") })
	for range 3 {
		r.send("/v1/messages", messagesAsk)
	}
	for _, msg := range []string{"msg=session ", `msg="schema narrowed"`, `msg="call refused: policy"`} {
		if n := strings.Count(r.log.String(), msg); n != 1 {
			t.Errorf("%s stands in the log %d times:\n%s", msg, n, r.log)
		}
	}
}

func TestDecisionsAreReported(t *testing.T) {
	var got []string
	r := newRig(t, answering(messagesStream("Bash", `{"command":"rm x"}`, `{"command":"ls"}`, `{"command":"ls","dangerouslyDisableSandbox":true}`)), func(o *Options) {
		o.Guards = denying("rm")
		o.Decided = func(d Decision) {
			got = append(got, fmt.Sprint(d.CallID, " ", d.Tool, " ", d.Kind, " ", d.Allowed, " ", d.Edited, " ", d.Cause, " ", d.Guard, " ", string(d.Arguments)))
		}
	})
	r.send("/v1/messages", messagesAsk)
	want := []string{
		`toolu_1 Bash shell false false policy test-guard {"command":"rm x"}`,
		`toolu_2 Bash shell true false   {"command":"ls"}`,
		`toolu_3 Bash shell true true never  {"command":"ls"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestKeepAliveWhileHeld(t *testing.T) {
	full := messagesStream("Bash", `{"command":"ls"}`)
	at := strings.Index(full, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1")
	more := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, full[:at])
		w.(http.Flusher).Flush()
		<-more
		io.WriteString(w, full[at:])
	}, func(o *Options) { o.KeepAlive = 2 * time.Millisecond })
	resp, err := plain.Post(r.url+"/v1/messages", "application/json", strings.NewReader(messagesAsk))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	var got strings.Builder
	for pings := 0; pings < 3; { // only keep-alives can come now
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(line)
		if line == "event: ping\n" {
			pings++
		}
	}
	close(more)
	rest, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	got.Write(rest)
	if s := strings.ReplaceAll(got.String(), "event: ping\ndata: {\"type\": \"ping\"}\n\n", ""); s != full {
		t.Errorf("without the keep-alives the client got\n%s", s)
	}
}

// TestTextFlowsAtOnce: what may flow does not wait for what comes later.
func TestTextFlowsAtOnce(t *testing.T) {
	full := chatStream("bash", `{"command":"ls","description":"d"}`)
	first := full[:strings.Index(full, "\n\n")+2]
	more := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, first)
		w.(http.Flusher).Flush()
		<-more
		io.WriteString(w, full[len(first):])
	})
	resp, err := plain.Post(r.url+"/chat/completions", "application/json", strings.NewReader(chatAsk))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, len(first))
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != first {
		t.Fatalf("%v %q", err, b)
	}
	close(more)
	if rest, err := io.ReadAll(resp.Body); err != nil || first+string(rest) != full {
		t.Errorf("%v %q", err, rest)
	}
}

func TestClientGoneCancelsUpstream(t *testing.T) {
	gone := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, messagesStream("Bash")[:200])
		w.(http.Flusher).Flush()
		<-req.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/messages", strings.NewReader(messagesAsk))
	resp, err := plain.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("upstream was not cancelled")
	}
}

// TestNoGoroutineStays: whatever happens to an exchange, nothing of it is left.
func TestNoGoroutineStays(t *testing.T) {
	answers := []http.HandlerFunc{
		answering(messagesStream("Bash", `{"command":"ls"}`)),
		answering(messagesStream("Bash", `{"command":"ls"}`)[:500]),
		answering("<html>"),
		func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	}
	var n atomic.Int64
	before := runtime.NumGoroutine()
	func() {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			io.Copy(io.Discard, req.Body)
			answers[int(n.Add(1))%len(answers)](w, req)
		}))
		defer up.Close()
		tr := newTransport().(*http.Transport)
		defer tr.CloseIdleConnections()
		h, err := New(Options{Upstreams: []Upstream{{URL: up.URL}}, Keys: [][]byte{make([]byte, 32)}, Transport: tr, KeepAlive: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		front := httptest.NewServer(h)
		defer front.Close()
		for range 40 {
			resp, err := plain.Post(front.URL+"/v1/messages", "", strings.NewReader(messagesAsk))
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}()
	deadline := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Upstreams: []Upstream{{URL: "http://127.0.0.1:1"}}, Keys: [][]byte{make([]byte, 32)}}
	for name, change := range map[string]func(*Options){
		"no key":          func(o *Options) { o.Keys = nil },
		"a short key":     func(o *Options) { o.Keys = [][]byte{{1}} },
		"no upstream":     func(o *Options) { o.Upstreams = nil },
		"no host":         func(o *Options) { o.Upstreams = []Upstream{{URL: "http://"}} },
		"another scheme":  func(o *Options) { o.Upstreams = []Upstream{{URL: "ftp://x"}} },
		"a query":         func(o *Options) { o.Upstreams = []Upstream{{URL: "http://x/?a"}} },
		"userinfo":        func(o *Options) { o.Upstreams = []Upstream{{URL: "http://a:b@x"}} },
		"unknown dialect": func(o *Options) { o.Upstreams = []Upstream{{URL: "http://x", Dialects: []string{"soap"}}} },
		"unknown kind":    func(o *Options) { o.Tools = map[string]string{"x": "y"} },
		"passthrough":     func(o *Options) { o.Passthrough = []string{"POST /v1/messages"} },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestSchemaFollowsWhereAsked(t *testing.T) {
	for _, follow := range []bool{false, true} {
		r := newRig(t, answering(`{"content":[]}`), func(o *Options) { o.Follow = follow })
		narrowed := func() bool {
			n := len(r.seen())
			r.send("/v1/messages", messagesAsk, "X-Claude-Code-Session-Id", "one")
			return !strings.Contains(r.seen()[n], "dangerouslyDisableSandbox")
		}
		if !narrowed() {
			t.Fatal("not narrowed at first")
		}
		o := r.h.current().opts
		o.Policy.Approval = "ask"
		if err := r.h.Reload(o); err != nil {
			t.Fatal(err)
		}
		if got := narrowed(); got == follow {
			t.Errorf("follow %v: after the change it is narrowed: %v", follow, got)
		}
		narrowed()
		if n := strings.Count(r.log.String(), "the prompt cache is written once more"); n != map[bool]int{true: 1}[follow] {
			t.Errorf("follow %v: the log says so %d times", follow, n)
		}
	}
}

// TestChildrenShareTheirParentsPrefix: a child is narrowed like its parent, even
// when the configuration has changed in between, and nobody is in front of it.
func TestChildrenShareTheirParentsPrefix(t *testing.T) {
	r := newRig(t, answering(chatStream("bash", `{"command":"ls","description":"d","sandbox_permissions":"danger-full-access","justification":"please"}`)),
		func(o *Options) { o.Policy.Approval = "ask" })
	parent := []string{"User-Agent", "opencode/1", "X-Session-Id", "parent"}
	child := []string{"User-Agent", "opencode/1", "X-Session-Id", "child", "X-Parent-Session-Id", "parent"}
	_, _, got := r.send("/chat/completions", chatAsk, parent...)
	if !strings.Contains(got, "danger-full-access") {
		t.Errorf("the parent's request did not reach its approver: %s", got)
	}
	o := r.h.current().opts
	o.Policy.Approval = "never"
	if err := r.h.Reload(o); err != nil {
		t.Fatal(err)
	}
	_, _, got = r.send("/chat/completions", chatAsk, child...)
	if strings.Contains(got, "danger-full-access") {
		t.Errorf("a child's request was left for an approver that it has not: %s", got)
	}
	if r.seen()[0] != r.seen()[1] {
		t.Errorf("the child's prefix is another:\n%s\n%s", r.seen()[0], r.seen()[1])
	}
	r.send("/chat/completions", chatAsk, "User-Agent", "opencode/1", "X-Session-Id", "stranger")
	if strings.Contains(r.seen()[2], "sandbox_permissions") {
		t.Error("a session of its own does not have the new configuration")
	}
}

func TestToolsThatOnlyAskForMore(t *testing.T) {
	r := newRig(t, answering(messagesStream("request_permissions", `{}`)))
	_, _, got := r.send("/v1/messages", strings.Replace(messagesAsk, `"tools":[`, `"tools":[{"name":"request_permissions","input_schema":{"type":"object"}},`, 1))
	if strings.Contains(r.seen()[0], "request_permissions") || !strings.Contains(r.seen()[0], `"tools":[{"name":"Bash"`) {
		t.Errorf("upstream saw %s", r.seen()[0])
	}
	if !strings.Contains(got, "none can be granted in this session") {
		t.Errorf("a call to it: %s", got)
	}
}
