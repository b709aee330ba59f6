package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/session"
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire"
)

// exchange is one guarded request and its reply.
type exchange struct {
	h       *Handler
	g       *generation // pinned by the session
	schema  *generation // what narrows: the same, or the newest with schema.follow
	child   bool        // started by another session
	route   wire.Route
	client  *agents.Client // nil when unknown
	session *session.Session
	model   string
	turn    int
	calls   int // made in this turn so far
	tools   []*rewrite.Tool
	held    bool       // a part of the history is upstream's, or may become so
	rec     *recording // nil when nobody records
}

// guarded is the way up, and hands over to the way down.
func (h *Handler) guarded(w http.ResponseWriter, r *http.Request, now *generation, t target, route wire.Route) {
	rec := h.began(r, t)
	defer rec.over(h)
	// Read the whole body first: an upstream that answers early would
	// otherwise cut the reply, and nothing may be forwarded unread.
	in := newShared(&h.bodies)
	release := sync.OnceFunc(in.release)
	defer release()
	body, err := readBody(r.Body, r.Header.Get("Content-Encoding"), in.buf)
	if err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
		writeError(w, route.Dialect, http.StatusBadRequest, "bad_body", "the request body: "+err.Error())
		return
	}
	old, _ := h.requests.Get().(*wire.Request)
	q, err := wire.Read(route, body, old)
	if err != nil {
		writeError(w, route.Dialect, http.StatusBadRequest, "bad_body", err.Error())
		return
	}
	up, err := now.upstreamFor(t.upstream, string(route.Dialect))
	if err != nil {
		writeError(w, route.Dialect, http.StatusBadRequest, "no_upstream", err.Error())
		return
	}

	x := h.open(r, now, t, route)
	x.rec = rec
	x.model, x.turn, x.calls = q.Model, q.Turns, q.Calls
	noted(w).Client = x.clientID()
	// The rewritten body goes into memory of the pool too: a request of some
	// hundred kilobytes is otherwise mostly garbage.
	out := newShared(&h.bodies)
	defer out.release()
	out.buf.Grow(len(body) + spliceRoom)
	res := rewrite.ApplyTo(out.buf.AvailableBuffer(), q, body, x.schema.narrower, h.keys)
	x.tools = res.Tools
	x.held = route.Dialect == wire.Responses && (q.Held.Store || q.Held.Elsewhere())
	if q.Held.Elsewhere() {
		x.once(heldUpstream)
	}
	if slices.ContainsFunc(res.Tools, reserved) {
		writeError(w, route.Dialect, http.StatusBadRequest, "reserved_tool", "a tool is called "+envelope.RefusedTool+", the name that refusals call because nobody has it: rename it")
		return
	}
	x.noteRewrite(&res)
	h.requests.Put(q)

	req, err := newUpstreamRequest(r, up, t)
	if err != nil {
		writeError(w, route.Dialect, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	rec.goesUp(x, body, &res, in, out)
	req.ContentLength = int64(len(res.Body))
	noteUp(w, route.Dialect, up, req.ContentLength)
	from := in
	if len(res.Body) > 0 && &res.Body[0] != &body[0] {
		from = out
	}
	req.Body = from.reader(res.Body)
	req.GetBody = func() (io.ReadCloser, error) { return from.reader(res.Body), nil }
	resp, err := h.transport.RoundTrip(req)
	release() // the transport holds on to the body as long as it reads it
	if err != nil {
		h.unreachable(w, r, route.Dialect, req.URL, err)
		return
	}
	countDown(w, resp)
	defer resp.Body.Close()
	rec.answered(resp)
	x.down(w, r, req.URL, resp)
}

// heldUpstream is logged once in a session whose history is not all in its
// requests.
const heldUpstream = "history is held upstream: refusals in it are not restored, and stay as the client answers them"

// reserved reports whether a tool has the name of refusals.
func reserved(t *rewrite.Tool) bool {
	return slices.ContainsFunc(t.Declared, func(d rewrite.Declared) bool { return d.Name == envelope.RefusedTool })
}

// stored takes a request for a response that an earlier one asked for: fetched
// from where upstream keeps it, cancelled, deleted. There is nothing to rewrite,
// and what comes back is guarded like a new reply.
func (h *Handler) stored(w http.ResponseWriter, r *http.Request, now *generation, t target, route wire.Route) {
	up, err := now.upstreamFor(t.upstream, string(route.Dialect))
	if err != nil {
		writeError(w, route.Dialect, http.StatusBadRequest, "no_upstream", err.Error())
		return
	}
	x := h.open(r, now, t, route)
	x.held = true
	x.once(heldUpstream)
	req, err := newUpstreamRequest(r, up, t)
	if err != nil {
		writeError(w, route.Dialect, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	req.Body, req.ContentLength = r.Body, r.ContentLength
	if v := r.Header.Get("Content-Encoding"); v != "" {
		req.Header.Set("Content-Encoding", v)
	}
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		h.unreachable(w, r, route.Dialect, req.URL, err)
		return
	}
	defer resp.Body.Close()
	x.down(w, r, req.URL, resp)
}

// declare takes the tools that a stored response repeats: no request is at hand
// that declares any. Without them every call in it is one of an undeclared tool.
func (x *exchange) declare(tools []byte) {
	if !x.route.Stored || tools == nil || x.tools != nil {
		return
	}
	var t tape.Tape
	if t.Parse(tools) != nil || t.Kind(0) != tape.Array {
		return
	}
	for i, end := 1, t.After(0); i < end; i = t.After(i) {
		x.tools = append(x.tools, x.schema.narrower.Tool(x.route.Dialect, t.Raw(i)))
	}
}

// spliceRoom is what restored calls may add to a body, in bytes, before new
// memory is taken.
const spliceRoom = 16 << 10

// open finds the session of a request and what it has pinned.
func (h *Handler) open(r *http.Request, now *generation, t target, route wire.Route) *exchange {
	x := &exchange{h: h, route: route, client: now.table.Detect(r.Header.Get)}
	// A known client's own headers say who it is; of an unknown one, whatever
	// some client uses.
	names := session.Headers{Session: now.table.SessionHeaders(nil), Agent: now.table.AgentHeaders(nil), Parent: now.table.ParentHeaders(nil)}
	if c := x.client; c != nil {
		names = session.Headers{Session: c.Session, Agent: c.Agent, Parent: c.Parent}
	}
	id := session.Identify(r.Header, names, t.label, h.keys.Key(envelope.Credential))
	pin := now
	if id.Child() {
		// A child shares its parent's prefix, so it is narrowed like it.
		if parent := h.sessions.Lookup(id.Parent); parent != nil {
			pin = parent.Facts().Pinned.(*generation)
		}
	}
	s, created := h.sessions.Open(id, func() session.Facts {
		p := pin.opts.Policy
		return session.Facts{Mode: p.Mode, Approval: p.Approval, Workspace: p.Workspace, Approver: pin.facts.Approver, Generation: pin.number, Pinned: pin}
	})
	x.session, x.child = s, id.Child()
	x.g = s.Facts().Pinned.(*generation)
	x.schema = x.g
	if now.opts.Follow && now != x.g {
		x.schema = now
		x.once(fmt.Sprintf("schema follows configuration %d: the prompt cache is written once more", now.number))
	}
	if created {
		h.log.Info("session", "session", s.ID(), "client", x.clientID(), "identified_by", string(id.Source), "child", id.Child(),
			"mode", x.g.opts.Policy.Mode, "approval", x.g.opts.Policy.Approval, "narrowing", x.g.never, "why", string(x.g.why), "configuration", x.g.number)
	}
	return x
}

func (x *exchange) clientID() string {
	if x.client == nil {
		return ""
	}
	return x.client.ID
}

// once logs the first intervention of a kind in a session; later ones are
// counted, and shown at debug level.
func (x *exchange) once(kind string, args ...any) { x.onceEach("", kind, args...) }

// onceEach does it for each guard: that one refused says nothing of another.
func (x *exchange) onceEach(guard, kind string, args ...any) {
	key := kind
	if guard != "" {
		key += " by " + guard
	}
	n := x.session.Intervened(key)
	args = append([]any{"session", x.session.ID(), "client", x.clientID(), "count", n}, args...)
	if n == 1 {
		x.h.log.Info(kind, args...)
	} else {
		x.h.log.Debug(kind, args...)
	}
}

func (x *exchange) noteRewrite(res *rewrite.Result) {
	narrowed := false
	for _, t := range res.Tools {
		narrowed = narrowed || t.Changed || t.Report.Dropped
		for _, s := range t.Report.Suspicious {
			x.once("schema: looked like an escalation and stayed", "tool", t.Name, "what", s)
		}
	}
	for _, t := range res.Texts {
		if len(t.Report.Cuts) > 0 {
			x.once("text narrowed: "+t.Role, "tool", t.Tool, "cuts", len(t.Report.Cuts))
		}
	}
	if narrowed {
		x.once("schema narrowed", "removed", strings.Join(res.Removed, " "))
	}
	if res.Restored.Calls > 0 {
		x.once("history restored", "calls", res.Restored.Calls)
	}
	if res.Restored.Unanswered > 0 {
		x.once("history: the result of a restored call could not be told apart and stayed", "calls", res.Restored.Unanswered)
	}
	if res.Restored.Foreign > 0 {
		x.once("history: a seal that is not ours, left alone", "calls", res.Restored.Foreign)
	}
}

// readBody reads and decodes a body into buf; the result is valid as long as
// buf is. At most MaxBody bytes come out.
func readBody(src io.Reader, encoding string, buf *bytes.Buffer) ([]byte, error) {
	src, release, err := decoder(src, encoding)
	if err != nil {
		return nil, err
	}
	defer release()
	n, err := buf.ReadFrom(io.LimitReader(src, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("it could not be read to its end: %w", err)
	}
	if n > MaxBody {
		return nil, fmt.Errorf("it is larger than the limit of %d MiB", MaxBody>>20)
	}
	return buf.Bytes(), nil
}

// decoder undoes a Content-Encoding. release frees what it holds.
func decoder(src io.Reader, encoding string) (out io.Reader, release func(), err error) {
	release = func() {}
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return src, release, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(src)
		if err != nil {
			return nil, release, fmt.Errorf("it is not gzip, as its Content-Encoding says: %w", err)
		}
		return z, release, nil
	case "zstd":
		z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*MaxBody), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, release, err
		}
		return z, z.Close, nil
	}
	return nil, release, fmt.Errorf("its Content-Encoding %q is not supported: gzip and zstd are", encoding)
}

// Headers that belong to one connection (RFC 9110, section 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// copyHeader copies what goes on to the next hop.
func copyHeader(dst, src http.Header) {
	for k, v := range src {
		dst[k] = append([]string(nil), v...)
	}
	for _, v := range src["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			dst.Del(strings.TrimSpace(name))
		}
	}
	for _, k := range hopByHop {
		dst.Del(k)
	}
	dst.Del("Content-Length")
}

// newUpstreamRequest makes the request that goes to the upstream, but for its
// body.
func newUpstreamRequest(r *http.Request, up upstream, t target) (*http.Request, error) {
	u := joinURL(up.url, t)
	// The request lives as long as the client's: when the client goes,
	// upstream is cancelled.
	req := (&http.Request{Method: r.Method, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(r.Context())
	copyHeader(req.Header, r.Header)
	req.Header.Del("Accept-Encoding") // what comes back has to be read
	req.Header.Del("Content-Encoding")
	req.Header.Del("Expect") // the body was read: the client was told to go on
	for k := range req.Header {
		if strings.HasPrefix(k, "X-Guardproxy-") {
			delete(req.Header, k)
		}
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = []string{""} // none was sent: send none
	}
	return req, nil
}

// joinURL puts the request's path behind the upstream's. A /v1 that both have
// stands once.
func joinURL(base *url.URL, t target) *url.URL {
	u := *base
	prefix, rawPrefix := strings.TrimRight(base.Path, "/"), strings.TrimRight(base.EscapedPath(), "/")
	if strings.HasSuffix(prefix, "/v1") && strings.HasPrefix(t.path, "/v1/") {
		prefix, rawPrefix = strings.TrimSuffix(prefix, "/v1"), strings.TrimSuffix(rawPrefix, "/v1")
	}
	u.Path, u.RawPath = prefix+t.path, rawPrefix+t.rawPath
	u.RawQuery = t.query
	if t.query == "?" {
		u.RawQuery, u.ForceQuery = "", true
	}
	return &u
}

// unreachable answers for an upstream that could not be asked.
func (h *Handler) unreachable(w http.ResponseWriter, r *http.Request, d wire.Dialect, u *url.URL, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("the request was cancelled")
	}
	h.log.Error("upstream can't be reached", "url", u.Redacted(), "error", err)
	writeError(w, d, http.StatusBadGateway, "upstream_unreachable", fmt.Sprintf("the upstream at %s://%s can't be reached: %v", u.Scheme, u.Host, err))
}

func redirectText(u *url.URL, resp *http.Response) string {
	return fmt.Sprintf("the upstream answered %s %s with a redirect (%d), which is never followed: set the upstream's URL to where the API is", resp.Request.Method, u.Redacted(), resp.StatusCode)
}
