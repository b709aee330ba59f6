// Package wire knows where things are on the wire: one file a dialect says
// where tools, calls and history stand in a request, and where calls stand in
// a reply or a stream of events.
//
// It locates and splices; it never decodes and re-encodes what is forwarded.
// A [Request] and a [Reply] keep spans into the body that they were read from.
// A [Stream] takes events one by one and says what may go to the client at
// once, what is held, and which calls are complete and need a [Ruling].
//
// What may flow is an allow-list. An event, block, delta or field that is not
// on it and could carry a call refuses the reply with an [*Error], since a
// client may run what we did not understand.
//
// Everything here is pure: bytes in, bytes out. Nothing is safe for concurrent
// use.
package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// Dialect is a wire format, under the name that the configuration uses.
type Dialect string

// The dialects.
const (
	Messages  Dialect = "anthropic-messages"
	Chat      Dialect = "openai-chat"
	Responses Dialect = "openai-responses"
)

// Dialects lists those that are guarded.
var Dialects = []Dialect{Messages, Chat, Responses}

// Route is what a path asks for.
type Route struct {
	Dialect Dialect
	// Count marks Messages' count_tokens and Responses' input_tokens: they carry
	// tools and history like a request for a reply, and the answer is a number.
	Count bool
	// Stored marks the paths that name a response which an earlier request asked
	// for, `responses/{id}` and, with Cancel, `responses/{id}/cancel`. Their
	// requests declare no tools; what comes back is guarded like a new reply.
	Stored, Cancel bool
}

// Allows reports whether the API defines method for the route's path.
func (r Route) Allows(method string) bool {
	if r.Stored && !r.Cancel {
		return method == "GET" || method == "DELETE"
	}
	return method == "POST"
}

// Match finds the guarded route of a path by its last segments, whatever
// precedes them: clients and gateways put the API under prefixes of their own.
// Empty segments do not count (`//v1/messages/` reaches the API like
// `/v1/messages`). path is the decoded path of the URL. Of a stored response
// what lists its input (`responses/{id}/input_items`) has no route: it shows
// the calls of a history, with nothing that declares them.
func Match(path string) (Route, bool) {
	var last, before, third string
	for s := range strings.SplitSeq(path, "/") {
		if s != "" {
			third, before, last = before, last, s
		}
	}
	switch {
	case last == "messages":
		return Route{Dialect: Messages}, true
	case before == "messages" && last == "count_tokens":
		return Route{Dialect: Messages, Count: true}, true
	case before == "chat" && last == "completions":
		return Route{Dialect: Chat}, true
	case last == "responses", before == "responses" && last == "compact":
		return Route{Dialect: Responses}, true
	case before == "responses" && last == "input_tokens":
		return Route{Dialect: Responses, Count: true}, true
	case before == "responses":
		return Route{Dialect: Responses, Stored: true}, true
	case third == "responses" && last == "cancel":
		return Route{Dialect: Responses, Stored: true, Cancel: true}, true
	}
	return Route{}, false
}

// Error says why a request or a reply was refused as a whole.
type Error struct {
	Where  string // the event, field or place
	Reason string
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.Reason
	}
	return e.Where + ": " + e.Reason
}

func refuse(where, format string, args ...any) error {
	return &Error{where, fmt.Sprintf(format, args...)}
}

// CarriesCalls reports whether a path may belong to an endpoint through which
// calls reach a client, guarded or not. The names are looked for in every
// segment and not only in the last one: batch results, stored responses,
// completions and conversations hold calls too. Of a segment its first word
// counts: servers differ in what they drop behind it (`;x=1`, a dot, a space).
func CarriesCalls(path string) bool {
	for segment := range strings.FieldsFuncSeq(strings.ToLower(path), func(r rune) bool { return r == '/' || r == '\\' }) {
		if _, verb, ok := strings.Cut(segment, ":"); ok && (strings.Contains(verb, "generatecontent") || strings.Contains(verb, "rawpredict")) {
			return true
		}
		segment = strings.TrimLeftFunc(segment, notInWord)
		if i := strings.IndexFunc(segment, notInWord); i >= 0 {
			segment = segment[:i]
		}
		switch segment {
		case "messages", "completions", "responses", "conversations", "threads", "runs", "interactions", "chat",
			"invoke", "invoke-with-response-stream", "converse", "converse-stream":
			return true
		}
	}
	return false
}

func notInWord(r rune) bool {
	return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
}

// The types of Responses' items that a client runs or, for the last one, is
// asked to agree to.
const (
	FunctionCall       = "function_call"
	CustomToolCall     = "custom_tool_call"
	LocalShellCall     = "local_shell_call"
	ShellCall          = "shell_call"
	ApplyPatchCall     = "apply_patch_call"
	ComputerCall       = "computer_call"
	ToolSearchCall     = "tool_search_call"
	McpApprovalRequest = "mcp_approval_request"
)

// Call is a tool call of a reply, as the model made it.
type Call struct {
	Index int // its place among the calls of the reply, from 0
	ID    string
	// Name is the name of the tool. Responses' calls of tools that the API
	// defines have none on the wire: theirs is the type of the tool, which is the
	// item's without `_call` (local_shell, shell, apply_patch, computer,
	// tool_search). A function may have that name too, so Item and Name together
	// say what is called.
	Name string
	// Args are the bytes of the arguments as the client will parse them: the
	// joined fragments of a stream, the decoded string of a Chat reply, or the
	// text of Messages' `input`. Empty means no arguments. The slice is the
	// caller's to keep.
	//
	// In Responses they are: for function_call and mcp_approval_request the
	// decoded string, JSON; for custom_tool_call the decoded input, which is
	// text (see Text); for local_shell_call and shell_call the text of `action`
	// as it stands, for apply_patch_call that of `operation`, for
	// tool_search_call that of `arguments`. A computer_call has the text of
	// `action`, or else {"actions":[…]}, or both members in one object.
	Args []byte
	// Malformed says why the call can't be run as it stands, "" if it can: it
	// has to be refused.
	Malformed string

	// Item is the type of the item in Responses, "" elsewhere.
	Item string
	// Text marks Args that are plain text and no JSON. A text that holds half a
	// surrogate pair or a NUL is Malformed.
	Text bool
	// Namespace is the group that the tool was declared in, "" for none; for an
	// mcp_approval_request, the label of the server.
	Namespace string
}

// Ruling is what was decided for a call. The zero Ruling releases it untouched.
type Ruling struct {
	Replace bool
	Name    string // the name that the client sees instead
	// Args are the arguments that the client sees instead: one JSON object, or
	// text for a call whose arguments are Text.
	//
	// In Responses a call whose tool the API defines keeps its kind when Name is
	// the call's own: Args take the place of its action, operation or arguments
	// (not for computer_call and mcp_approval_request). With any other Name
	// it becomes a function_call in the same place, with the same call_id.
	Args []byte
	// Message, when it is not empty, puts a message of the assistant with this
	// text in the place of the call (Responses alone): clients end their turn
	// with one, so it is the last resort. Name and Args do not count then.
	Message string
}

// Limits bound what one reply may hold.
type Limits struct {
	Call  int // bytes of one call's arguments and events
	Held  int // bytes held at one time
	Calls int // calls in one reply
}

// DefaultLimits are the limits of a reply unless a test asks for smaller ones.
var DefaultLimits = Limits{Call: 16 << 20, Held: 64 << 20, Calls: 256}

// Inert are the event, block and delta types beyond the built-in ones that the
// operator lets flow.
type Inert map[string]bool

// Step is what the client may see after an event.
type Step struct {
	// Flow are bytes that go to the client now; nil while the event is held.
	// They are valid until the next call on the stream.
	Flow []byte
	// Calls are complete and need a ruling each, by Release, before the next
	// event is fed.
	Calls []Call
	// Withheld are the types of items, unknown ones, in whose place a message to
	// the user went on with this event (Responses).
	Withheld []string
	// Tools is the text of `tools` of the response object that the event holds,
	// an array; nil without one (Responses). It repeats what the request that the
	// response answers declared, as upstream got it, and is the only declaration
	// that comes with a stored response. It is valid until the next call on the
	// stream.
	Tools []byte
}

// Stream follows one stream of events.
type Stream interface {
	// Feed takes the next event. After an error the reply is refused: nothing
	// that was held may be sent, and the stream takes no more.
	Feed(ev *sse.Event) (Step, error)
	// Release takes one ruling a call of the last step, in order, and returns
	// what was held, with the replaced calls in their places. The bytes are
	// valid until the next call on the stream.
	Release(rulings []Ruling) []byte
	// Holding reports whether events are held back.
	Holding() bool
	// End reports, after the last event, why the stream may not end there. A
	// Responses stream has to have its last event: without it some readers take
	// for whole what they have, and others try again. Streams of the other
	// dialects may end anywhere: what is not complete is no call there.
	End() error
}

// KeepAlive is an event without meaning that may be written to a client while
// events are held back: clients take a silent stream for a dead one.
func KeepAlive(d Dialect) []byte {
	if d == Messages {
		return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
	}
	return []byte(": keep-alive\n\n")
}

// NewStream follows a reply in dialect d.
func NewStream(d Dialect, inert Inert, l Limits) Stream {
	switch d {
	case Chat:
		return &chatStream{inert: inert, limits: l}
	case Responses:
		return &responsesStream{inert: inert, limits: l}
	}
	return &messagesStream{inert: inert, limits: l}
}

// Edit replaces src[Start:End] by New.
type Edit struct {
	Start, End int
	New        []byte
}

// Splice applies edits, which must not overlap, and returns the new text.
// Without edits the very same slice is returned.
func Splice(src []byte, edits []Edit) []byte { return SpliceTo(nil, src, edits) }

// SpliceTo is Splice into the memory behind dst, whose length is 0, as far as
// that is large enough.
func SpliceTo(dst, src []byte, edits []Edit) []byte {
	if len(edits) == 0 {
		return src
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
	n := len(src)
	for _, e := range edits {
		n += len(e.New) - (e.End - e.Start)
	}
	if cap(dst) < n {
		dst = make([]byte, 0, n)
	}
	at := 0
	for _, e := range edits {
		dst = append(dst, src[at:e.Start]...)
		dst = append(dst, e.New...)
		at = e.End
	}
	return append(dst, src[at:]...)
}

// fields finds the named members of object i. at[k] is the value of names[k],
// or −1. A key that differs from a name only in case is an error: readers that
// fold case would take one for the other.
func fields(t *tape.Tape, i int, names []string, at []int) error {
	for k := range at {
		at[k] = -1
	}
	if t.Kind(i) != tape.Object {
		return nil
	}
members:
	for k, end := i+1, t.After(i); k < end; k = t.After(k + 1) {
		for n, name := range names {
			if t.Is(k, name) {
				at[n] = k + 1
				continue members
			}
		}
		for _, name := range names {
			if folds(t, k, name) {
				return refuse(t.Str(k), "a key that some clients read as %q", name)
			}
		}
	}
	return nil
}

// folds reports whether key k is name but for case. name is ASCII; a key that
// is plain ASCII is compared without decoding it.
func folds(t *tape.Tape, k int, name string) bool {
	key := t.Raw(k)
	key = key[1 : len(key)-1]
	if len(key) < len(name) || len(key) > 12*len(name) {
		return false
	}
	for _, c := range key {
		if c >= 0x80 || c == '\\' {
			return strings.EqualFold(t.Str(k), name)
		}
	}
	if len(key) != len(name) {
		return false
	}
	for i, c := range key {
		d := name[i]
		if c|0x20 != d|0x20 || c != d && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// absent reports whether value i says nothing: missing, null, "", [] or {}.
func absent(t *tape.Tape, i int) bool {
	switch t.Kind(i) {
	case tape.None, tape.Null:
		return true
	case tape.String:
		return t.Empty(i)
	case tape.Array, tape.Object:
		return t.After(i) == i+1
	}
	return false
}

// couldCall reports whether a value that we do not know could be a call: an
// object somewhere in it has a member `name` or `function`.
func couldCall(t *tape.Tape, i int) bool {
	if k := t.Kind(i); k != tape.Object && k != tape.Array {
		return false
	}
	for n, end := i, t.After(i); n < end; n++ {
		if t.Kind(n) != tape.Object {
			continue
		}
		for k := n + 1; k < t.After(n); k = t.After(k + 1) {
			if key := t.Str(k); strings.EqualFold(key, "name") || strings.EqualFold(key, "function") {
				return true
			}
		}
	}
	return false
}

// foreign refuses a reply that could be a call in the shape of another dialect:
// some clients read several.
func foreign(t *tape.Tape, names ...string) error {
	for _, name := range names {
		if couldCall(t, t.Get(0, name)) {
			return refuse(name, "it is no member of this dialect, and could be a call of another")
		}
	}
	return nil
}

// Reply is a whole reply in JSON, indexed.
type Reply struct {
	// Calls need a ruling each, by Release.
	Calls []Call
	// Withheld and Tools are what Step says of them.
	Withheld []string
	Tools    []byte

	src   []byte
	spots []spot
	quote bool // arguments are a string that holds JSON (Chat)

	pieces []respPiece // in the place of spots (Responses)
	fixed  []Edit      // whatever the rulings are
}

// spot is where a call's name and arguments stand in a reply; args is −1 when
// it has none, and then at says where they can be put.
type spot struct {
	name, args [2]int
	at         int
}

// ReadReply indexes a reply to route r. The error is an *Error that says why
// the reply is refused as a whole.
func ReadReply(r Route, body []byte, inert Inert, l Limits) (*Reply, error) {
	var t tape.Tape
	if err := t.Parse(body); err != nil {
		return nil, refuse("reply", "it is no JSON: %v", err)
	}
	if t.Kind(0) != tape.Object {
		return nil, refuse("reply", "it is %v, not an object", t.Kind(0))
	}
	rep := &Reply{src: body}
	var err error
	switch r.Dialect {
	case Chat:
		rep.quote = true
		err = rep.chat(&t, l)
	case Responses:
		err = rep.responses(&t, inert, l)
	default:
		err = rep.messages(&t, inert, l)
	}
	if err != nil {
		return nil, err
	}
	return rep, nil
}

// add takes a call of a whole reply.
func (r *Reply) add(c Call, s spot, l Limits) error {
	if len(r.Calls) == l.Calls {
		return refuse("reply", "more than %d calls", l.Calls)
	}
	if len(c.Args) > l.Call {
		return refuse("reply", "a call of more than %d bytes", l.Call)
	}
	for _, o := range r.Calls {
		if o.ID == c.ID {
			return refuse("reply", "two calls with the id %q", c.ID)
		}
	}
	c.Index = len(r.Calls)
	r.Calls, r.spots = append(r.Calls, c), append(r.spots, s)
	return nil
}

// Release takes one ruling a call, in order, and returns the body for the
// client: the very same slice when every call is released untouched.
func (r *Reply) Release(rulings []Ruling) []byte {
	edits := slices.Clone(r.fixed)
	for _, p := range r.pieces {
		edits = p.edits(r.src, &r.Calls[p.call], rulings[p.call], edits)
	}
	if r.pieces != nil {
		return Splice(r.src, edits)
	}
	for i, v := range rulings {
		if !v.Replace {
			continue
		}
		s := r.spots[i]
		args := v.Args
		if r.quote {
			args = tape.Quote(nil, string(args))
		}
		if s.args[0] < 0 {
			key := `,"input":`
			if r.quote {
				key = `,"arguments":`
			}
			edits = append(edits, Edit{s.at, s.at, append([]byte(key), args...)})
		} else {
			edits = append(edits, Edit{s.args[0], s.args[1], args})
		}
		edits = append(edits, Edit{s.name[0], s.name[1], tape.Quote(nil, v.Name)})
	}
	return Splice(r.src, edits)
}
