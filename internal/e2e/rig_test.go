package e2e

// A rig is the whole chain on loopback: a scripted upstream, a proxy with a
// guard that writes down what it saw, and a client of the test's choice. An
// upstream answers one request after the other with exact bytes; a request
// that no reply was written for is an error of the test.

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/proxy"
)

// reply is one answer of the upstream.
type reply struct {
	status int // 0: 200
	header http.Header
	body   string
	chunk  int  // bytes a write, flushed; 0: all at once
	cut    bool // the connection breaks after the body
}

type upstream struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	replies []reply
	seen    []request
}

type request struct {
	method, path, query string
	header              http.Header
	body                []byte
}

func (u *upstream) then(r ...reply) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replies = append(u.replies, r...)
}

// requests are those that arrived so far.
func (u *upstream) requests() []request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

func (u *upstream) last() request {
	u.t.Helper()
	all := u.requests()
	if len(all) == 0 {
		u.t.Fatal("upstream got no request")
	}
	return all[len(all)-1]
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	u.mu.Lock()
	u.seen = append(u.seen, request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), body})
	var rep reply
	ok := len(u.replies) > 0
	if ok {
		rep, u.replies = u.replies[0], u.replies[1:]
	}
	u.mu.Unlock()
	if err != nil || !ok {
		u.t.Errorf("upstream: %s %s: no reply is left (read error: %v)", r.Method, r.URL, err)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	for k, v := range rep.header {
		w.Header()[k] = v
	}
	if rep.status == 0 {
		rep.status = http.StatusOK
	}
	w.WriteHeader(rep.status)
	flush := http.NewResponseController(w).Flush
	for b := []byte(rep.body); len(b) > 0; {
		n := len(b)
		if rep.chunk > 0 {
			n = min(n, rep.chunk)
		}
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		flush()
		b = b[n:]
	}
	if rep.cut {
		flush()
		panic(http.ErrAbortHandler)
	}
}

// recorder is a guard that remembers what it was shown and denies calls whose
// arguments hold a word.
type recorder struct {
	deny string

	mu   sync.Mutex
	seen []guards.Call
}

func (g *recorder) Check(_ context.Context, c *guards.Call) guards.Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, *c)
	if g.deny != "" && strings.Contains(string(c.Arguments), g.deny) {
		return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: "nothing that holds " + g.deny}
	}
	return guards.Verdict{}
}

func (g *recorder) calls() []guards.Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seen)
}

// forbidden is the word that the rig's guard denies.
const forbidden = "forbidden"

// testKey is no secret: it makes seals of these tests reproducible.
var testKey = bytes.Repeat([]byte{7}, 32)

type rig struct {
	up    *upstream
	url   string
	guard *recorder
	log   *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start builds the chain, and takes it down at the end of the test, when no
// goroutine may be left and no handler may have panicked.
func start(t *testing.T, change ...func(*proxy.Options)) *rig {
	t.Helper()
	before := runtime.NumGoroutine()
	r := &rig{up: &upstream{t: t}, guard: &recorder{deny: forbidden}, log: &lockedBuffer{}}
	r.up.Server = quiet(r.up, r.log)
	out := &http.Transport{DisableCompression: true}
	o := options(r.up.URL, r.guard)
	o.Transport = out
	for _, c := range change {
		c(&o)
	}
	h, err := proxy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := quiet(h, r.log)
	r.url = srv.URL
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		srv.Close()
		out.CloseIdleConnections()
		r.up.Close()
		if text := r.log.String(); strings.Contains(text, "panic") {
			t.Errorf("a server logged a panic:\n%s", text)
		}
		noneLeft(t, before)
	})
	return r
}

// withUpstream puts another server in the place of the scripted one.
func withUpstream(url string) func(*proxy.Options) {
	return func(o *proxy.Options) { o.Upstreams[0].URL = url }
}

func options(upstreamURL string, g guards.Guard) proxy.Options {
	return proxy.Options{
		Upstreams: []proxy.Upstream{{Name: "up", URL: upstreamURL}},
		Keys:      [][]byte{testKey},
		Policy:    proxy.Policy{Mode: "workspace-write", Approval: "never", Workspace: "/w"},
		Guards:    guards.Chain{{Name: "recorder", Guard: g}},
	}
}

// quiet starts a server whose own complaints go to log.
func quiet(h http.Handler, out io.Writer) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(out, "", 0)
	s.Start()
	return s
}

// noneLeft waits until there are no more goroutines than before.
func noneLeft(t *testing.T, before int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for runtime.NumGoroutine() > before {
		select {
		case <-deadline:
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines are left of %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// post sends a request without any SDK and returns the whole reply.
func post(t *testing.T, url, body string, header ...string) (status int, h http.Header, got string, err error) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

func TestMain(m *testing.M) {
	wasm.CompilerMain()
	// The SDKs read keys and URLs from the environment; a developer's own must
	// not reach a test.
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "ANTHROPIC_") || strings.HasPrefix(name, "OPENAI_") || strings.EqualFold(name, "HTTP_PROXY") || strings.EqualFold(name, "HTTPS_PROXY") {
			os.Unsetenv(name)
		}
	}
	// A failure prints the stream it failed with; no files are left in the tree.
	// Odd streams are many: more of them than by default, unless told.
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": "250"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func mustContain(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

func dump(b []byte) string { return fmt.Sprintf("%q", b) }
