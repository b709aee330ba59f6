package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/session"
	"github.com/guardproxy/guardproxy/internal/wire"
)

// ServeHTTP takes one request: who may ask, where it goes, and on which line.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, end := h.tell(w, r)
	defer end()
	g := h.current()
	route, _ := wire.Match(r.URL.Path) // for the shape of an error
	fail := func(status int, code, format string, args ...any) {
		writeError(w, route.Dialect, status, code, fmt.Sprintf(format, args...))
	}
	if r.Method != http.MethodConnect && r.URL.Host == "" && r.Header.Get("Upgrade") != "" {
		// Codex answers this status by using plain requests.
		w.Header().Set("Connection", "close")
		fail(http.StatusUpgradeRequired, "no_upgrade", "WebSocket is not supported: use HTTP requests with server-sent events")
		return
	}
	if status, code, why := stranger(r, g.opts.Hosts); status != 0 {
		fail(status, code, "%s", why)
		return
	}
	t, err := readTarget(r.URL)
	if err != nil {
		fail(http.StatusBadRequest, "bad_path", "%v", err)
		return
	}
	if g.opts.Token != "" {
		given := sha256.Sum256([]byte(t.token))
		if v := r.Header.Get(tokenHeader); v != "" {
			given = sha256.Sum256([]byte(v))
		}
		if subtle.ConstantTimeCompare(given[:], g.token[:]) != 1 {
			what := "this listener wants its token"
			if t.token != "" || r.Header.Get(tokenHeader) != "" {
				what = "that is not the token of this listener: send it"
			}
			fail(http.StatusForbidden, "no_token", what+" as /t/TOKEN/ at the start of the base URL's path, or in the header %s", tokenHeader)
			return
		}
	}
	defer drain(r)
	// The path without our own prefixes decides.
	route, guarded := wire.Match(t.path)
	switch {
	case guarded && route.Allows(r.Method) && route.Stored:
		h.stored(w, r, g, t, route)
	case guarded && route.Allows(r.Method):
		h.guarded(w, r, g, t, route)
	case passes(r.Method, t.path, g.pass):
		h.passThrough(w, r, g, t)
	case guarded:
		fail(http.StatusNotImplemented, "not_guarded", "%s %s can't be judged: the API has no such method on this path", r.Method, t.path)
	case wire.CarriesCalls(t.path):
		fail(http.StatusNotImplemented, "not_supported", "%s %s can't be judged: this API carries tool calls and is not supported by this version. Supported are Anthropic Messages, OpenAI Chat Completions and OpenAI Responses", r.Method, t.path)
	default:
		fail(http.StatusNotImplemented, "unknown_path", "%s %s is not a path that guardproxy can judge, so it is not forwarded. If it can't carry tool calls, add %q under passthrough in the configuration", r.Method, t.path, r.Method+" "+t.path)
	}
}

// stranger holds a request against the rules of the listener; status is 0 when
// it may go on. A web page in the user's browser can send requests to loopback,
// and a name of an attacker's can point there.
func stranger(r *http.Request, hosts []string) (status int, code, why string) {
	switch {
	case r.Method == http.MethodConnect || r.URL.Host != "" || r.URL.Scheme != "":
		return http.StatusBadRequest, "not_a_forward_proxy", "this is not a forward proxy: use it as the base URL of a client, not as HTTP_PROXY"
	case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") == "cross-site" || r.Header.Get("Sec-Fetch-Site") == "same-site":
		return http.StatusForbidden, "browser_request", "requests from web pages are refused (Origin or Sec-Fetch-Site was sent)"
	case !hostAllowed(r, hosts):
		return http.StatusForbidden, "host_not_allowed", fmt.Sprintf("the Host header %q is neither loopback with this port nor listed under hosts in the configuration", r.Host)
	}
	return 0, "", ""
}

// Shield puts the listener's rules before another handler, for a listener
// beside the proxy's own: no web pages, no unknown Host (hosts are those beside
// loopback), and the token, if there is one, in X-Guardproxy-Token or as
// Authorization: Bearer.
func Shield(next http.Handler, hosts []string, token string) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, code, why := stranger(r, hosts); status != 0 {
			writeError(w, "", status, code, why)
			return
		}
		if token != "" {
			given := r.Header.Get(tokenHeader)
			if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && given == "" {
				given = bearer
			}
			if sum := sha256.Sum256([]byte(given)); subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				writeError(w, "", http.StatusUnauthorized, "no_token", "this listener wants its token as Authorization: Bearer TOKEN")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// drain reads what is left of a body that was answered before its end. A client
// that still writes when its connection is closed does not get to see why. More
// than as much again as a body may have is not waited for; nor is one that has
// not been asked for yet.
func drain(r *http.Request) {
	if r.Header.Get("Expect") == "" {
		io.CopyN(io.Discard, r.Body, MaxBody)
	}
}

const tokenHeader = "X-Guardproxy-Token"

// target is a request's URL without the prefixes that are ours.
type target struct {
	path, rawPath string // decoded, and as it was sent
	query         string
	token         string // of /t/TOKEN/
	label         string // of /s/LABEL/
	upstream      string // of /u/NAME/
}

// readTarget takes our prefixes off a path, in any order, each at most once.
// What is left goes to the upstream as it was sent: it is never cleaned or
// resolved, so a path with dot segments is refused rather than guessed at.
func readTarget(u *url.URL) (target, error) {
	t := target{path: u.Path, rawPath: u.EscapedPath(), query: u.RawQuery}
	if u.ForceQuery {
		t.query = "?"
	}
	for _, s := range strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if s == "." || s == ".." {
			return t, fmt.Errorf("the path %q has dot segments", u.Path)
		}
	}
	for {
		var slot *string
		switch {
		case strings.HasPrefix(t.rawPath, "/t/"):
			slot = &t.token
		case strings.HasPrefix(t.rawPath, "/s/"):
			slot = &t.label
		case strings.HasPrefix(t.rawPath, "/u/"):
			slot = &t.upstream
		}
		if slot == nil || *slot != "" {
			break
		}
		value, rest, ok := strings.Cut(t.rawPath[3:], "/")
		if !ok || value == "" {
			break
		}
		if !session.ValidLabel(value) {
			return t, fmt.Errorf("%q in the path may have up to 64 letters, digits, dots, underscores and hyphens", value)
		}
		*slot = value
		t.rawPath = "/" + rest
		t.path = t.path[3+len(value):]
	}
	return t, nil
}

// hostAllowed reports whether the Host header names this listener.
func hostAllowed(r *http.Request, more []string) bool {
	if slices.ContainsFunc(more, func(h string) bool { return strings.EqualFold(h, r.Host) }) {
		return true
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = strings.Trim(r.Host, "[]"), "80"
	}
	if slices.ContainsFunc(more, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	if !strings.EqualFold(host, "localhost") {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			return false
		}
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, ours, err := net.SplitHostPort(a.String()); err == nil {
			return port == ours
		}
	}
	return true
}

// passRule is one line of what is forwarded unguarded.
type passRule struct {
	method, path string
	rest         bool // path is a prefix
}

// Requests that carry no tool calls that a client would run.
var builtinPass = []passRule{
	{"GET", "/api/hello", false},
	{"GET", "models", false}, {"GET", "models/*", false},
	{"GET", "files", false}, {"POST", "files", false}, {"GET", "files/*", false}, {"DELETE", "files/*", false},
}

func parsePass(line string) (passRule, error) {
	method, path, ok := strings.Cut(line, " ")
	if !ok || !strings.HasPrefix(path, "/") || method == "" || strings.ToUpper(method) != method {
		return passRule{}, fmt.Errorf("passthrough %q is not METHOD /path", line)
	}
	if wire.CarriesCalls(path) {
		return passRule{}, fmt.Errorf("passthrough %q would let calls pass unjudged", line)
	}
	p, rest := strings.CutSuffix(path, "*")
	return passRule{method, p, rest}, nil
}

// passes reports whether a request is on the list. Built-in lines without a
// leading slash name the last segments of the path.
func passes(method, path string, more []passRule) bool {
	if method == http.MethodHead {
		return true
	}
	if wire.CarriesCalls(path) {
		return false // whatever a line with a star may say
	}
	for _, p := range more {
		if p.method == method && (path == p.path || p.rest && strings.HasPrefix(path, p.path)) {
			return true
		}
	}
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	n := len(segments)
	for _, p := range builtinPass {
		if p.method != method {
			continue
		}
		name, one := strings.CutSuffix(p.path, "/*")
		switch {
		case strings.HasPrefix(p.path, "/"):
			if path == p.path {
				return true
			}
		case one && n >= 2 && segments[n-2] == name, !one && n >= 1 && segments[n-1] == name:
			return true
		}
	}
	return false
}

// passThrough forwards a request and its answer as they are.
func (h *Handler) passThrough(w http.ResponseWriter, r *http.Request, g *generation, t target) {
	up, err := g.upstreamFor(t.upstream, "")
	if err != nil {
		writeError(w, "", http.StatusBadRequest, "no_upstream", err.Error())
		return
	}
	req, err := newUpstreamRequest(r, up, t)
	if err != nil {
		writeError(w, "", http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	noteUp(w, "", up, r.ContentLength)
	req.Body = r.Body
	req.ContentLength = r.ContentLength
	if v := r.Header.Get("Content-Encoding"); v != "" {
		req.Header.Set("Content-Encoding", v)
	}
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		h.unreachable(w, r, "", req.URL, err)
		return
	}
	countDown(w, resp)
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified {
		writeError(w, "", http.StatusBadGateway, "redirect", redirectText(req.URL, resp))
		return
	}
	copyHeader(w.Header(), resp.Header)
	if resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(resp.ContentLength))
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}
