// Package fakemodel plays a model API from a script, for the demo and for
// tests: Anthropic Messages, OpenAI Chat Completions and OpenAI Responses,
// streamed and whole, with count_tokens, models and HEAD beside them.
//
// A [Script] is a list of rounds. Which one answers a request follows from the
// history in that request alone, as with a real, stateless API: the round's
// number is how often the model has spoken since the last message that a user
// wrote. A request that is sent twice gets the same bytes twice. A tool's
// result is no message that a user wrote, whatever role carries it.
//
// A round is a list of items in the order in which the model gives them: text,
// thinking, calls, and what can go wrong (an error, a broken connection). The
// same script speaks all dialects. [Options] change the spelling of a stream,
// never its meaning.
//
// Ids are counted, not drawn: reply 0 of a conversation is msg_fake_00, its
// second call toolu_fake_00_1 (chatcmpl-fake-00 or resp_fake_00, and
// call_fake_00_1 in OpenAI's).
// Token numbers are a quarter of the bytes; nobody should rely on them.
//
// Sources of the shapes: Anthropic's API reference, "Messages", "Streaming
// messages", "Count message tokens", "List models" and "Errors"; OpenAI's API
// reference, "Chat Completions", "The chat completion chunk object", "List
// models", its error object, "Responses" and its "Streaming"; reasoning_content as DeepSeek's reference for
// reasoning models has it.
package fakemodel

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Script is what the model says.
type Script struct {
	// Rounds answer by number. A request for a round after the last one gets
	// an error of status 400 that says so.
	Rounds []Round
	// Choose, if set, answers instead of Rounds. It must depend on its
	// argument only and be safe for concurrent use.
	Choose func(History) Round
}

// Round is one reply.
type Round struct {
	Items []Item
	// Stop is the stop reason (finish reason in Chat), verbatim; "" gives the
	// one that fits: a tool call, or the end of a turn. In Responses, anything
	// but "completed" is the reason why the response is incomplete.
	Stop string
}

// Say is the round of a model that says a text and ends its turn.
func Say(text string) Round { return Round{Items: []Item{Text(text)}} }

// Item is a part of a reply: [Text], [Thinking], [Call], [Error], [Cut],
// [Wait] or [Raw].
type Item interface{ item() }

// Text is what the model says.
type Text string

// Thinking is what the model thinks: a thinking block with a signature in
// Messages, reasoning_content in Chat, a reasoning item with a summary and
// encrypted content in Responses.
type Thinking string

// Call is a tool call.
type Call struct {
	Tool string
	// Args are the bytes of the arguments as the model writes them, valid JSON
	// or not; "" sends none. (A whole reply in Messages can hold valid JSON
	// only.)
	Args string
	// ID is counted when it is "".
	ID string
	// Unfinished leaves the call open in a stream: for a Cut or an Error after
	// it.
	Unfinished bool
	// Item, in Responses, is the type of the call's item: "" for a function_call;
	// Args of a custom_tool_call are text, those of a local_shell_call,
	// shell_call, apply_patch_call or computer_call its action or operation.
	Item string
	// Namespace is the group of the tool in Responses.
	Namespace string
}

// Error ends the reply. As the first item, and always in a whole reply, it is
// an HTTP error; later in a stream it is the dialect's error event.
type Error struct {
	Status     int    // 0 means 500
	Type       string // "" means api_error
	Message    string
	RetryAfter string // the header, if not ""
}

// Cut breaks the connection at this place. A whole reply breaks before its
// last byte.
type Cut struct{}

// Wait holds the reply until the channel can be received from, with all that
// stands before it on its way to the client.
type Wait struct{ For <-chan struct{} }

// Raw is written into a stream as it is, event ends and all. A whole reply
// can't hold it.
type Raw string

func (Text) item()     {}
func (Thinking) item() {}
func (Call) item()     {}
func (Error) item()    {}
func (Cut) item()      {}
func (Wait) item()     {}
func (Raw) item()      {}

// Options are how a stream is spelled. The zero value is how the real APIs
// spell it.
type Options struct {
	CRLF     bool // line ends
	Comments bool // a comment before each event
	// Pings puts a ping between the deltas of each block. (One ping after the
	// first block's start is always there.) Chat has none.
	Pings bool
	// Fragment is the most characters of text or arguments in one delta; 0
	// means 24.
	Fragment int
	// NoFinalNewline leaves out the line end after the last event.
	NoFinalNewline bool
	// Gzip compresses every reply, whether or not it was asked for.
	Gzip bool
	// Gate, if set, is received from before each event, with all earlier
	// events on their way to the client.
	Gate <-chan struct{}
}

// Request is a request as it arrived.
type Request struct {
	Method, Path, RawQuery string
	Header                 http.Header
	Body                   []byte
}

// Model is the scripted API. It is safe for concurrent use.
type Model struct {
	script Script
	opts   Options

	mu   sync.Mutex
	seen []Request
}

// New makes a model. The script and its slices must not be changed afterwards.
func New(s Script, o Options) *Model {
	if o.Fragment <= 0 {
		o.Fragment = 24
	}
	return &Model{script: s, opts: o}
}

// Requests returns all requests so far, in the order of arrival. The bodies
// and headers are the model's: read them, don't change them.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// Sent returns the bodies of the requests for a reply so far, in the order of
// arrival: no count_tokens, nothing without a body. Like those of Requests
// they are to be read only.
func (m *Model) Sent() [][]byte {
	var out [][]byte
	for _, r := range m.Requests() {
		if k := kindOf(r.Method, r.Path); k == aMessage || k == aChat || k == aResponse {
			out = append(out, r.Body)
		}
	}
	return out
}

// kind is what a request asks for.
type kind int

const (
	unknown kind = iota
	aMessage
	aChat
	aResponse
	aCount
	someModels
	nothing // HEAD
)

// kindOf goes by the last segments of a path, since clients put the API under
// prefixes of their own.
func kindOf(method, path string) kind {
	s := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	ends := func(tail ...string) bool { return len(s) >= len(tail) && slices.Equal(s[len(s)-len(tail):], tail) }
	switch {
	case method == http.MethodHead:
		return nothing
	case method == http.MethodPost && ends("messages"):
		return aMessage
	case method == http.MethodPost && ends("chat", "completions"):
		return aChat
	case method == http.MethodPost && ends("responses"):
		return aResponse
	case method == http.MethodPost && ends("messages", "count_tokens"):
		return aCount
	case method == http.MethodGet && ends("models"):
		return someModels
	}
	return unknown
}

// ServeHTTP answers one request.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	m.mu.Lock()
	m.seen = append(m.seen, Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), body})
	m.mu.Unlock()

	rep := &reply{w: w, r: r, opts: m.opts}
	var d dialect = messages{}
	k := kindOf(r.Method, r.URL.Path)
	switch k {
	case nothing:
		return
	case someModels:
		rep.models()
		return
	case aCount:
		rep.json(http.StatusOK, `{"input_tokens":`+strconv.Itoa(tokens(len(body)))+`}`)
		return
	case aChat:
		d = chat{}
	case aResponse:
		d = responses{}
	case unknown:
		rep.fail(d, Error{Status: http.StatusNotFound, Type: "not_found_error", Message: fmt.Sprintf("fakemodel: no %s %s here", r.Method, r.URL.Path)})
		return
	}
	ask, err := read(d, body)
	if err != nil {
		rep.fail(d, Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "fakemodel: " + err.Error()})
		return
	}
	round, err := m.round(ask.History)
	if err != nil {
		rep.fail(d, Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "fakemodel: " + err.Error()})
		return
	}
	rep.round(d, ask, round)
}

func (m *Model) round(h History) (Round, error) {
	if m.script.Choose != nil {
		return m.script.Choose(h), nil
	}
	if h.Round >= len(m.script.Rounds) {
		return Round{}, fmt.Errorf("the script has %d rounds, and this request asks for number %d", len(m.script.Rounds), h.Round+1)
	}
	return m.script.Rounds[h.Round], nil
}

// tokens is a stand-in for a count.
func tokens(bytes int) int { return bytes/4 + 1 }

// used is the stand-in for a reply's token count.
func used(r Round) int {
	n := 0
	for _, i := range r.Items {
		switch i := i.(type) {
		case Text:
			n += len(i)
		case Thinking:
			n += len(i)
		case Call:
			n += len(i.Tool) + len(i.Args)
		}
	}
	return tokens(n)
}

// calls reports whether a round holds a call.
func calls(r Round) bool {
	return slices.ContainsFunc(r.Items, func(i Item) bool { _, ok := i.(Call); return ok })
}

// fragments cuts s into pieces of at most n characters.
func fragments(s string, n int) []string {
	var out []string
	for from := 0; from < len(s); {
		to, k := from, 0
		for to < len(s) && k < n {
			_, size := utf8.DecodeRuneInString(s[to:])
			to, k = to+size, k+1
		}
		out = append(out, s[from:to])
		from = to
	}
	return out
}

// dialect is one of the wire formats.
type dialect interface {
	// name is the dialect's name in guardproxy's configuration.
	name() string
	// events is a round as the events of a stream.
	events(a ask, r Round, o Options) []step
	// whole is a round as one JSON text.
	whole(a ask, r Round) (string, error)
	// error is an error's JSON text.
	error(e Error) string
}

// step is one event of a stream, or what happens between events.
type step struct {
	event string // its name, "" for none
	data  string
	raw   string          // written as it is
	wait  <-chan struct{} // waited for
	cut   bool            // the connection breaks
}

// reply writes one answer.
type reply struct {
	w    http.ResponseWriter
	r    *http.Request
	opts Options
	out  io.Writer
	zip  *gzip.Writer
}

// begin sends the header.
func (p *reply) begin(status int, contentType string) {
	h := p.w.Header()
	h.Set("Content-Type", contentType)
	p.out = p.w
	if p.opts.Gzip {
		h.Set("Content-Encoding", "gzip")
		p.zip = gzip.NewWriter(p.w)
		p.out = p.zip
	}
	p.w.WriteHeader(status)
}

func (p *reply) end() {
	if p.zip != nil {
		p.zip.Close()
	}
}

func (p *reply) flush() {
	if p.zip != nil {
		p.zip.Flush()
	}
	http.NewResponseController(p.w).Flush()
}

// await waits for a channel and says whether the client is still there.
func (p *reply) await(c <-chan struct{}) bool {
	p.flush()
	select {
	case <-c:
		return true
	case <-p.r.Context().Done():
		return false
	}
}

func (p *reply) json(status int, text string) {
	p.begin(status, "application/json")
	io.WriteString(p.out, text)
	p.end()
}

func (p *reply) fail(d dialect, e Error) {
	if e.RetryAfter != "" {
		p.w.Header().Set("Retry-After", e.RetryAfter)
	}
	p.json(cmp.Or(e.Status, http.StatusInternalServerError), d.error(e))
}

func (p *reply) round(d dialect, a ask, r Round) {
	for i, it := range r.Items {
		if e, ok := it.(Error); ok && (i == 0 || !a.stream) {
			p.fail(d, e)
			return
		}
	}
	if a.stream {
		p.stream(d.events(a, r, p.opts))
		return
	}
	text, err := d.whole(a, r)
	if err != nil {
		p.fail(d, Error{Message: "fakemodel: " + err.Error()})
		return
	}
	cut := false
	for _, it := range r.Items {
		switch it := it.(type) {
		case Wait:
			select {
			case <-it.For:
			case <-p.r.Context().Done():
				return
			}
		case Cut:
			cut = true
		}
	}
	if !cut {
		p.json(http.StatusOK, text)
		return
	}
	p.begin(http.StatusOK, "application/json")
	io.WriteString(p.out, text[:len(text)-1])
	p.flush()
	panic(http.ErrAbortHandler)
}

func (p *reply) stream(steps []step) {
	p.w.Header().Set("Cache-Control", "no-cache")
	p.begin(http.StatusOK, "text/event-stream; charset=utf-8")
	nl := "\n"
	if p.opts.CRLF {
		nl = "\r\n"
	}
	for i, s := range steps {
		switch {
		case s.cut:
			p.flush()
			panic(http.ErrAbortHandler)
		case s.wait != nil:
			if !p.await(s.wait) {
				return
			}
			continue
		}
		if p.opts.Gate != nil && !p.await(p.opts.Gate) {
			return
		}
		text := s.raw
		if text == "" {
			if p.opts.Comments {
				text = ": event " + strconv.Itoa(i) + nl
			}
			if s.event != "" {
				text += "event: " + s.event + nl
			}
			text += "data: " + s.data + nl + nl
		}
		if p.opts.NoFinalNewline && i == len(steps)-1 {
			text = strings.TrimRight(text, "\r\n")
		}
		if _, err := io.WriteString(p.out, text); err != nil {
			return // the client is gone
		}
		p.flush()
	}
	p.end()
}

// models lists the one model, in the form that the client's headers ask for.
func (p *reply) models() {
	if p.r.Header.Get("Anthropic-Version") != "" {
		p.json(http.StatusOK, `{"data":[{"type":"model","id":"fake-model","display_name":"Fake Model","created_at":"2023-11-14T22:13:20Z"}],"has_more":false,"first_id":"fake-model","last_id":"fake-model"}`)
		return
	}
	p.json(http.StatusOK, `{"object":"list","data":[{"id":"fake-model","object":"model","created":1700000000,"owned_by":"fakemodel"}]}`)
}
