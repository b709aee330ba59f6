// Package proxy is the HTTP handler that stands between a coding agent and the
// model API.
//
// There are two straight lines. Up (request.go): the body is read whole, the
// dialect follows from the path, the session's facts are pinned, the tools are
// narrowed and the history restored by one pure function, and the result goes
// to the upstream. Down (reply.go): every successful reply is parsed as the
// dialect, what may flow flows at once, each call is held until it is whole,
// screened (screen.go), and released untouched or replaced by a refusal.
// handler.go decides which requests go on these lines at all; record.go takes
// note of both.
//
// A Handler is safe for concurrent use.
package proxy

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/policy"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/session"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/schema"
)

// MaxBody is the largest request body and the largest whole reply, in bytes
// after decoding.
const MaxBody = 64 << 20

// Upstream is a model API.
type Upstream struct {
	Name string // chosen by a path that starts with /u/NAME/
	URL  string // scheme, host and a path that precedes the request's
	// Dialects are the dialects that go here by default; empty means all.
	Dialects []string
}

// Policy are the facts that a session pins at its first request.
type Policy struct {
	Mode      string // read-only, workspace-write or danger-full-access
	Approval  string // never, or ask: the client has an approver
	Workspace string // absolute; "" when unknown
}

// Fields adds to or removes from the fields that a tool loses.
type Fields struct{ Add, Remove []string }

// Options configure a Handler. Policy, Guards, Fields, Tools, Inert and the
// two refusal options are pinned by each session at its first request.
type Options struct {
	// Upstreams in order: without /u/NAME/ the first one that takes the
	// dialect is used.
	Upstreams []Upstream
	// Keys seal refusals: the first seals, all open. At least one, of at
	// least 32 bytes.
	Keys [][]byte

	Policy Policy
	Guards guards.Chain
	Fields map[string]Fields
	Tools  map[string]string   // tool name to kind
	Inert  map[string][]string // dialect to event, block and delta types that flow
	// RefuseUnknownTools refuses calls to tools that no catalogue knows.
	RefuseUnknownTools bool
	// RefuseResidue refuses a call that asks for what can't be granted,
	// instead of dropping the fields.
	RefuseResidue bool
	// KeepTexts leaves system, developer and context messages as they are,
	// KeepHints what clients append to the results of calls.
	KeepTexts, KeepHints bool
	// Ceiling counts the widest mode as one in which nothing can be granted:
	// the mode is pinned for the session.
	Ceiling bool
	// Follow lets running sessions take the schema's part of a changed
	// configuration (policy, fields, what is narrowed), at the cost of one
	// write of the prompt cache.
	Follow bool

	// OwnFiles are absolute paths of guardproxy's own files and directories,
	// which no call may name.
	OwnFiles []string
	// Passthrough are further requests to forward unguarded: METHOD /path,
	// with * at the end for any rest.
	Passthrough []string
	// Hosts are values of the Host header to accept besides loopback.
	Hosts []string
	// Token, if not empty, must be sent with every request: in the header
	// X-Guardproxy-Token, or as /t/TOKEN/ at the start of the path.
	Token string

	// Transport sends requests upstream; nil means a transport of the
	// handler's own. It must not decompress.
	Transport http.RoundTripper
	// KeepAlive is the longest silence towards a client while something is
	// held back; 0 means 10 s.
	KeepAlive time.Duration
	// Log gets what happens; nil discards it.
	Log *slog.Logger
	// Decided, if not nil, is called for every judged call. It must be quick
	// and safe for concurrent use.
	Decided func(Decision)
	// Recorded, if not nil, is called once for every request that was sent
	// upstream, when all of it is over. It must be quick and safe for
	// concurrent use, and it must see to it that the exchange is released.
	Recorded func(*Exchange)
	// Events are told of requests and replies.
	Events Events
}

// Decision is what became of one call.
type Decision struct {
	Time           time.Time
	Session        string // a hash
	Client         string // "" when unknown
	Dialect, Model string
	CallID, Tool   string
	Kind           string
	Allowed        bool
	Edited         bool   // allowed, but with dropped fields
	Cause          string // of a refusal, or of the edit
	Guard          string // that decided, if one did
	Arguments      []byte // as judged; valid during the call only
	GuardReason    string
	Notes          []string
	// Verdicts are those of all guards that were asked, in configuration order.
	Verdicts []guards.Verdict
	Took     time.Duration // from the first check to the decision
}

// Handler is the proxy. Make it with New.
type Handler struct {
	transport http.RoundTripper
	log       *slog.Logger
	decided   func(Decision)
	recorded  func(*Exchange)
	events    Events
	keepAlive time.Duration
	keys      *envelope.Keyring
	sessions  *session.Table
	bodies    sync.Pool // *bytes.Buffer
	requests  sync.Pool // *wire.Request

	mu  sync.RWMutex
	now *generation // what new sessions pin, and what holds for all
	gen uint64
}

// generation is what one set of Options was compiled to. It never changes.
type generation struct {
	number    uint64
	opts      Options
	upstreams []upstream
	table     *agents.Table
	facts     policy.Facts
	never     bool
	why       policy.Why
	rules     schema.Rules // what goes when nothing can be granted
	narrower  *rewrite.Narrower
	ruleText  json.RawMessage // what narrower goes by
	own       *ownFiles
	inert     map[wire.Dialect]wire.Inert
	pass      []passRule
	token     [sha256.Size]byte
}

type upstream struct {
	name     string
	url      *url.URL
	dialects []string
}

// New checks the options and returns a handler. An error names the option that
// can't be used, and no request was sent anywhere. What the options refer to
// (slices, maps, guards) stays in use and must not be changed afterwards.
func New(o Options) (*Handler, error) {
	keys, err := envelope.NewKeyring(o.Keys...)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	h := &Handler{transport: o.Transport, log: o.Log, decided: o.Decided, recorded: o.Recorded, events: o.Events, keepAlive: o.KeepAlive, keys: keys}
	if h.transport == nil {
		h.transport = newTransport()
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.keepAlive == 0 {
		h.keepAlive = 10 * time.Second
	}
	h.sessions = session.NewTable(session.Options{Evicted: func(s *session.Session, idle time.Duration) {
		h.log.Info("session evicted: its next request pins the configuration of that moment", "session", s.ID(), "idle", idle.Round(time.Second))
	}})
	if err := h.Reload(o); err != nil {
		return nil, err
	}
	return h, nil
}

func newTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        32 << 10,
	}
}

// Reload takes new options: listener rules, upstreams and pass-through hold at
// once, what a session pins holds for new sessions. Keys, transport, log,
// keep-alive and the callbacks stay as New took them. On an error nothing
// changes.
func (h *Handler) Reload(o Options) error {
	g := &generation{opts: o}
	if len(o.Upstreams) == 0 {
		return errors.New("proxy: no upstream")
	}
	for _, u := range o.Upstreams {
		p, err := url.Parse(u.URL)
		if err != nil || p.Scheme != "http" && p.Scheme != "https" || p.Host == "" || p.RawQuery != "" || p.Fragment != "" || p.User != nil {
			return fmt.Errorf("proxy: upstream %q is not an http or https URL of a host and a path", u.URL)
		}
		for _, d := range u.Dialects {
			if !slices.Contains(wire.Dialects, wire.Dialect(d)) {
				return fmt.Errorf("proxy: upstream %q: unknown dialect %q", u.URL, d)
			}
		}
		g.upstreams = append(g.upstreams, upstream{u.Name, p, u.Dialects})
	}
	kinds := map[string]agents.Kind{}
	for name, k := range o.Tools {
		if !agents.Kind(k).Valid() {
			return fmt.Errorf("proxy: tool %q: unknown kind %q", name, k)
		}
		kinds[name] = agents.Kind(k)
	}
	g.table = agents.Builtin()
	if len(kinds) > 0 {
		g.table = g.table.WithKinds(kinds)
	}
	g.facts = policy.Facts{Mode: o.Policy.Mode, Approval: o.Policy.Approval, Approver: o.Policy.Approval == policy.ApprovalAsk, Ceiling: o.Ceiling}
	g.never, g.why = policy.Never(g.facts)
	g.rules = Rules(o.Fields)
	rules := schema.Rules{}
	if g.never {
		rules = g.rules
	}
	by := rewrite.Rules{Rules: rules, KeepTexts: o.KeepTexts, KeepHints: o.KeepHints}
	g.narrower, g.ruleText = by.Narrower(), by.JSON()
	g.own = newOwnFiles(o.OwnFiles, o.Policy.Workspace)
	g.inert = map[wire.Dialect]wire.Inert{}
	for d, types := range o.Inert {
		in := wire.Inert{}
		for _, t := range types {
			in[t] = true
		}
		g.inert[wire.Dialect(d)] = in
	}
	for _, p := range o.Passthrough {
		r, err := parsePass(p)
		if err != nil {
			return fmt.Errorf("proxy: %w", err)
		}
		g.pass = append(g.pass, r)
	}
	g.token = sha256.Sum256([]byte(o.Token))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gen++
	g.number = h.gen
	h.now = g
	return nil
}

// Rules are the fields that tools lose in a session that can never be granted
// more than it has: those of the catalogue, with the given changes.
func Rules(fields map[string]Fields) schema.Rules {
	over := map[string]agents.Override{}
	for name, f := range fields {
		over[name] = agents.Override{Add: f.Add, Remove: f.Remove}
	}
	return agents.Builtin().Rules(over)
}

// Sessions is how many sessions are known: at most 4,096, of which the one that
// was idle for longest makes room.
func (h *Handler) Sessions() int { return h.sessions.Len() }

func (h *Handler) current() *generation {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.now
}

// upstreamFor chooses by name, or by dialect when name is empty.
func (g *generation) upstreamFor(name, dialect string) (upstream, error) {
	var names []string
	for _, u := range g.upstreams {
		if name != "" && u.name == name {
			return u, nil
		}
		if name == "" && (dialect == "" || len(u.dialects) == 0 || slices.Contains(u.dialects, dialect)) {
			return u, nil
		}
		names = append(names, u.name)
	}
	if name != "" {
		return upstream{}, fmt.Errorf("no upstream is called %q: the configuration has %s", name, strings.Join(names, ", "))
	}
	return upstream{}, fmt.Errorf("no upstream takes %s: name one under upstreams in the configuration", dialect)
}
