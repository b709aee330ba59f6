package wire

import (
	"bytes"
	"strconv"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Request is the body of a request, indexed once. Its spans are byte offsets
// into the body that was read.
type Request struct {
	Route
	Model  string
	Stream bool
	// Tools are the elements of `tools`, in order.
	Tools []Tool
	// Turns counts the messages that a user wrote; Calls the calls that the
	// model made since the last of them.
	Turns, Calls int
	// Past are the calls of the history, in order.
	Past []Past
	// Texts are the strings in which clients speak to the model, in order.
	Texts []Text
	// Held is what a Responses request says of history that upstream holds.
	Held Held

	t   tape.Tape
	src []byte
}

// Tool is the declaration of one tool: body[Start:End].
type Tool struct {
	Start, End int
	Name       string // "" when it has none (some hosted tools)
	node, list int
	item, at   int // of the input item, −1 for the request's own tools; in the array
}

// Pointer is where the tool stands in the body, as a JSON pointer.
func (t Tool) Pointer() string {
	p := "/tools/" + strconv.Itoa(t.at)
	if t.item >= 0 {
		p = "/input/" + strconv.Itoa(t.item) + p
	}
	return p
}

// Held says where the history of a Responses request is when the request does
// not hold all of it. Calls that are elsewhere can't be restored.
type Held struct {
	Previous     string // previous_response_id, "" for none
	Conversation bool   // it belongs to a conversation
	References   int    // items of the input that only name a stored item
	// Store says that upstream keeps the response: it does unless told not to.
	Store      bool
	Background bool // the response is fetched later, by its id
}

// Elsewhere reports whether a part of the history is not in the request.
func (h Held) Elsewhere() bool { return h.Previous != "" || h.Conversation || h.References > 0 }

// Past is a call of the history. It is a handle for the methods of Request.
type Past struct {
	id, name, args, call, message int
	item                          *itemKind // of Responses
}

// Read indexes a request of route r. The error is an *Error; a request that is
// JSON but lacks what the API wants is not an error, since upstream says that
// better. The memory of an earlier Request is reused when old is not nil; the
// earlier one must not be used any more.
func Read(r Route, body []byte, old *Request) (*Request, error) {
	q := old
	if q == nil {
		q = &Request{}
	}
	*q = Request{Route: r, Model: q.Model, t: q.t, src: body, Tools: q.Tools[:0], Past: q.Past[:0], Texts: q.Texts[:0]}
	if err := q.t.ParseLoose(body); err != nil {
		return nil, refuse("request body", "%v", err)
	}
	if q.t.Kind(0) != tape.Object {
		return nil, refuse("request body", "it is %v, not an object", q.t.Kind(0))
	}
	t := &q.t
	if model := t.Get(0, "model"); !t.Is(model, q.Model) {
		q.Model = t.Str(model)
	}
	q.Stream = t.Kind(t.Get(0, "stream")) == tape.True
	if r.Dialect == Responses {
		q.responses()
		return q, nil
	}
	q.tools(t.Get(0, "tools"), -1)
	if r.Dialect == Messages {
		q.text(t.Get(0, "system"), "system", -1)
	}
	if ms := t.Get(0, "messages"); t.Kind(ms) == tape.Array {
		for i, end := ms+1, t.After(ms); i < end; i = t.After(i) {
			if r.Dialect == Chat {
				q.chatMessage(i)
			} else {
				q.messagesMessage(i)
			}
		}
	}
	return q, nil
}

// tools takes the elements of an array of tools; item is the place of the input
// item that holds it, −1 for none.
func (q *Request) tools(list, item int) {
	t := &q.t
	if t.Kind(list) != tape.Array {
		return
	}
	for at, i, end := 0, list+1, t.After(list); i < end; at, i = at+1, t.After(i) {
		from := i
		if q.Dialect == Chat {
			from = t.Get(i, "function")
		}
		s, e := t.Span(i)
		q.Tools = append(q.Tools, Tool{s, e, q.toolName(t.Get(from, "name")), i, list, item, at})
	}
}

// toolName is the name at node i of the tool that is read next. A session's
// requests declare the same tools, so the earlier request's string serves
// again where it says the same.
func (q *Request) toolName(i int) string {
	if n := len(q.Tools); n < cap(q.Tools) {
		if old := q.Tools[:n+1][n].Name; q.t.Is(i, old) {
			return old
		}
	}
	return q.t.Str(i)
}

func (q *Request) messagesMessage(m int) {
	t := &q.t
	content := t.Get(m, "content")
	role := t.Get(m, "role")
	if t.Is(role, "system") {
		q.text(content, "system", -1)
		return
	}
	if t.Is(role, "user") {
		results := false
		q.text(content, "user", -1)
		if t.Kind(content) == tape.Array {
			for b, end := content+1, t.After(content); b < end; b = t.After(b) {
				if t.Is(t.Get(b, "type"), "tool_result") {
					results = true
					q.text(t.Get(b, "content"), "tool", t.Get(b, "tool_use_id"))
				}
			}
		}
		if !results {
			q.Turns++
			q.Calls = 0
		}
		return
	}
	if !t.Is(role, "assistant") || t.Kind(content) != tape.Array {
		return
	}
	for b, end := content+1, t.After(content); b < end; b = t.After(b) {
		if t.Is(t.Get(b, "type"), "tool_use") {
			q.Calls++
			q.Past = append(q.Past, Past{t.Get(b, "id"), t.Get(b, "name"), t.Get(b, "input"), b, m, nil})
		}
	}
}

func (q *Request) chatMessage(m int) {
	t := &q.t
	role := t.Get(m, "role")
	switch content := t.Get(m, "content"); {
	case t.Is(role, "user"):
		q.Turns++
		q.Calls = 0
		q.text(content, "user", -1)
	case t.Is(role, "system"), t.Is(role, "developer"):
		q.text(content, t.Str(role), -1)
	case t.Is(role, "tool"):
		q.text(content, "tool", t.Get(m, "tool_call_id"))
	}
	if !t.Is(role, "assistant") {
		return
	}
	calls := t.Get(m, "tool_calls")
	if t.Kind(calls) != tape.Array {
		return
	}
	for c, end := calls+1, t.After(calls); c < end; c = t.After(c) {
		q.Calls++
		fn := t.Get(c, "function")
		q.Past = append(q.Past, Past{t.Get(c, "id"), t.Get(fn, "name"), t.Get(fn, "arguments"), c, m, nil})
	}
}

// Name is the name of a past call, as Call has it.
func (q *Request) Name(p Past) string {
	if p.item != nil && p.item.tool != "" {
		return p.item.tool
	}
	return q.t.Str(p.name)
}

// Item is the type of a past call's item in Responses, "" elsewhere.
func (q *Request) Item(p Past) string {
	if p.item == nil {
		return ""
	}
	return p.item.typ
}

// Text reports whether the arguments of p are plain text and no JSON.
func (q *Request) Text(p Past) bool { return p.item != nil && p.item.text }

// Namespace is that of a past call, "" for none.
func (q *Request) Namespace(p Past) string {
	if p.item == nil {
		return ""
	}
	return q.t.Str(q.t.Get(p.call, "namespace"))
}

// Mentions reports whether the arguments of p may hold the text marker, which
// must be ASCII: a quick test before they are parsed.
func (q *Request) Mentions(p Past, marker string) bool {
	if p.args < 0 {
		return false
	}
	raw := q.t.Raw(p.args)
	if bytes.Contains(raw, []byte(marker)) {
		return true
	}
	// An escaped spelling. In Chat the arguments are JSON inside of a string,
	// where the backslash is escaped itself.
	return bytes.Contains(raw, []byte(`\u00`)) || bytes.Contains(raw, []byte(`\\u00`)) || bytes.Contains(raw, []byte(`\u005c`)) || bytes.Contains(raw, []byte(`\u005C`))
}

// Arguments is what Call.Args was for a past call: the JSON text of its
// arguments, or plain text (see Text); nil when there is none.
func (q *Request) Arguments(p Past) []byte {
	if p.args < 0 {
		return nil
	}
	if q.Dialect != Messages && q.t.Kind(p.args) == tape.String {
		return q.t.AppendStr(nil, p.args)
	}
	return q.t.Raw(p.args)
}

// Restore returns the edits that put name and arguments back in the place of
// past call p, and result in the place of what answers it. In Messages,
// arguments that are no JSON object can't stand in a request: an empty object
// takes their place. A result that can't be told for sure, or that can't be
// replaced without losing a member (a cache marker, say), stays as it is; then
// answered is false. In Responses the call keeps its kind; see RestoreItem.
func (q *Request) Restore(p Past, name string, arguments []byte, result string) (edits []Edit, answered bool) {
	t := &q.t
	if q.Dialect == Responses {
		return q.RestoreItem(p, q.Item(p), name, arguments, result)
	}
	if p.name < 0 || p.args < 0 || p.id < 0 {
		return nil, false
	}
	edit := func(i int, new []byte) {
		s, e := t.Span(i)
		edits = append(edits, Edit{s, e, new})
	}
	edit(p.name, tape.Quote(nil, name))
	if q.Dialect == Chat {
		edit(p.args, tape.Quote(nil, string(arguments)))
	} else {
		var a tape.Tape
		if a.Parse(arguments) != nil || a.Kind(0) != tape.Object || a.LoneSurrogate() {
			// The API refuses half a surrogate pair anywhere in a body, so this
			// request and every later one would fail.
			arguments = []byte("{}")
		}
		edit(p.args, arguments)
	}
	for _, o := range q.Past {
		if o.message == p.message && o.call != p.call && t.Str(o.id) == t.Str(p.id) {
			return edits, false // whose result it is, nobody knows
		}
	}
	var more []Edit
	if q.Dialect == Chat {
		more, answered = q.chatResult(p, result)
	} else {
		more, answered = q.messagesResult(p, result)
	}
	return append(edits, more...), answered
}

// messagesResult edits the tool_result that answers p: the only one with its
// id before the model speaks again. Some clients send each result in a message
// of its own.
func (q *Request) messagesResult(p Past, text string) ([]Edit, bool) {
	t := &q.t
	id, found := t.Str(p.id), -1
	for m := t.After(p.message); m < t.Len() && t.Kind(m) == tape.Object && !t.Is(t.Get(m, "role"), "assistant"); m = t.After(m) {
		content := t.Get(m, "content")
		if t.Kind(content) != tape.Array {
			continue
		}
		for b, end := content+1, t.After(content); b < end; b = t.After(b) {
			if t.Is(t.Get(b, "type"), "tool_result") && t.Is(t.Get(b, "tool_use_id"), id) {
				if found >= 0 {
					return nil, false
				}
				found = b
			}
		}
	}
	if found < 0 {
		return nil, false
	}
	edits, ok := q.setText(found, text)
	if !ok {
		return nil, false
	}
	if mark := t.Get(found, "is_error"); mark >= 0 {
		if t.Kind(mark) != tape.True {
			s, e := t.Span(mark)
			edits = append(edits, Edit{s, e, []byte("true")})
		}
	} else {
		_, e := t.Span(found)
		edits = append(edits, Edit{e - 1, e - 1, []byte(`,"is_error":true`)})
	}
	return edits, true
}

// chatResult edits the tool message that answers p: the only one with its id
// before the next message of another role. Chat has no error mark.
func (q *Request) chatResult(p Past, text string) ([]Edit, bool) {
	t := &q.t
	id, found := t.Str(p.id), -1
	for m := t.After(p.message); m < t.Len() && t.Kind(m) == tape.Object && t.Is(t.Get(m, "role"), "tool"); m = t.After(m) {
		if t.Is(t.Get(m, "tool_call_id"), id) {
			if found >= 0 {
				return nil, false
			}
			found = m
		}
	}
	if found < 0 {
		return nil, false
	}
	return q.setText(found, text)
}

// setText makes text the content of object o: in the place of a string, or of
// the text of a single text block, whose other members stay. Several blocks
// are replaced together unless one carries a cache marker.
func (q *Request) setText(o int, text string) ([]Edit, bool) {
	t := &q.t
	content := t.Get(o, "content")
	quoted := tape.Quote(nil, text)
	replace := func(i int) ([]Edit, bool) {
		s, e := t.Span(i)
		return []Edit{{s, e, quoted}}, true
	}
	switch t.Kind(content) {
	case tape.None:
		_, e := t.Span(o)
		return []Edit{{e - 1, e - 1, append([]byte(`,"content":`), quoted...)}}, true
	case tape.Array:
		if t.Count(content) == 1 && t.Is(t.Get(content+1, "type"), "text") {
			if i := t.Get(content+1, "text"); t.Kind(i) == tape.String {
				return replace(i)
			}
		}
		for b, end := content+1, t.After(content); b < end; b = t.After(b) {
			if t.Get(b, "cache_control") >= 0 {
				return nil, false
			}
		}
	}
	return replace(content)
}

// Guess tells the dialect of a request body by its shape: `input` is
// Responses; in Chat each tool stands in a member `function`; everything else
// is taken for Messages.
func Guess(body []byte) Dialect {
	var t tape.Tape
	if t.Parse(body) != nil {
		return Messages
	}
	if t.Get(0, "input") >= 0 {
		return Responses
	}
	tools := t.Get(0, "tools")
	if t.Kind(tools) == tape.Array {
		for i := tools + 1; i < t.After(tools); i = t.After(i) {
			if t.Kind(t.Get(i, "function")) == tape.Object {
				return Chat
			}
		}
	}
	return Messages
}
