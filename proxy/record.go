package proxy

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// Exchange is one guarded request and what became of it, as Options.Recorded
// gets it when the exchange is over. Nothing in it is masked. Its memory is
// the receiver's until it calls Release, and must not be changed.
type Exchange struct {
	// Start is when the request came; FirstByte when the first byte of the
	// reply's body came from upstream, zero if none did; End when all was done.
	Start, FirstByte, End time.Time
	Session               string // a hash
	Client                string // "" when unknown
	Dialect               string
	// Count marks Messages' count_tokens, whose reply is a number.
	Count  bool
	Method string
	// Path and Query are as they go upstream, without the prefixes of ours.
	Path, Query string
	// RequestHeader is the client's, ResponseHeader upstream's.
	RequestHeader, ResponseHeader http.Header
	// ClientBody is the body after decoding, UpstreamBody the one that went
	// upstream: the very same slice when nothing was changed.
	ClientBody, UpstreamBody []byte
	ContentEncoding          string
	// Rules are the rules that the body was rewritten by, as JSON.
	Rules json.RawMessage
	// Removed are JSON pointers into ClientBody, of what tools lost; Restored
	// counts the calls of the history that were put back.
	Removed  []string
	Restored int
	Status   int // upstream's; 0 when it gave none
	// ResponseID, Usage and Diagnostics are what the reply says about itself.
	// First is the usage at the start of a stream that gives one there too.
	ResponseID                string
	First, Usage, Diagnostics []byte
	Calls                     []JudgedCall

	release func()
}

// JudgedCall is a call of a reply and what was decided.
type JudgedCall struct {
	Decision
	// Raw are the arguments as the model wrote them.
	Raw []byte
	// Given is what the guards were given; nil when the call was refused
	// before it came to them.
	Given *guards.Call
	// Facts are those of the session, for a call without Given.
	Facts guards.Session
}

// Release gives the memory of x back. It must be called once.
func (x *Exchange) Release() { x.release() }

// recording collects an exchange on both lines. A nil *recording, when nobody
// wants it, collects nothing.
type recording struct {
	x    Exchange
	told wire.Told
}

// began starts to record; it returns nil when nobody wants to know.
func (h *Handler) began(r *http.Request, t target) *recording {
	if h.recorded == nil {
		return nil
	}
	return &recording{x: Exchange{Start: time.Now(), Method: r.Method, Path: t.rawPath, Query: t.query, RequestHeader: r.Header.Clone(), ContentEncoding: r.Header.Get("Content-Encoding")}}
}

// goesUp takes what is sent. in and out hold the memory of the two bodies.
func (rec *recording) goesUp(x *exchange, body []byte, res *rewrite.Result, in, out *shared) {
	if rec == nil {
		return
	}
	e := &rec.x
	e.Session, e.Client, e.Dialect, e.Count = x.session.ID(), x.clientID(), string(x.route.Dialect), x.route.Count
	e.ClientBody, e.UpstreamBody = body, res.Body
	e.Rules, e.Removed, e.Restored = x.schema.ruleText, slices.Clone(res.Removed), res.Restored.Calls
	in.hold()
	out.hold()
	e.release = sync.OnceFunc(func() { in.release(); out.release() })
}

// answered takes the head of upstream's reply.
func (rec *recording) answered(resp *http.Response) {
	if rec != nil {
		rec.x.Status, rec.x.ResponseHeader = resp.StatusCode, resp.Header.Clone()
	}
}

// arrived takes the moment at which the first byte was there, or err instead.
func (rec *recording) arrived(err error) {
	if rec != nil && err == nil {
		rec.x.FirstByte = time.Now()
	}
}

// event takes what a stream says about itself.
func (rec *recording) event(st wire.Stream, ev *sse.Event) {
	if rec != nil {
		rec.told.Tell(st, ev)
	}
}

// reply takes what a whole reply says about itself.
func (rec *recording) reply(d wire.Dialect, body []byte) {
	if rec != nil {
		rec.told.TellReply(d, body)
	}
}

// judged takes a call.
func (rec *recording) judged(j *judgement, d Decision) {
	if rec == nil {
		return
	}
	x := j.x
	rec.x.Calls = append(rec.x.Calls, JudgedCall{Decision: d, Raw: j.call.Args, Given: j.given,
		Facts: guards.Session{ID: x.session.ID(), Mode: x.g.opts.Policy.Mode, Approval: x.g.opts.Policy.Approval, Workspace: x.g.opts.Policy.Workspace, Turn: x.turn, Calls: x.calls, Index: j.call.Index}})
}

// over hands the exchange on, whatever ended it; one that was not sent is
// none.
func (rec *recording) over(h *Handler) {
	if rec == nil || rec.x.release == nil {
		return
	}
	e := &rec.x
	e.End = time.Now()
	e.ResponseID, e.First, e.Usage, e.Diagnostics = rec.told.ID, rec.told.First, rec.told.Usage, rec.told.Diagnostics
	h.recorded(e)
}

// hold keeps the buffer from going back to its pool until release is called
// once more.
func (s *shared) hold() { s.refs.Add(1) }
