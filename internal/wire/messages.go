package wire

// Anthropic Messages. Source of the protocol facts: Anthropic's API reference,
// "Messages" and "Streaming messages", and what the SDKs' accumulators do with
// a stream (they differ: one appends blocks in order of arrival, another
// applies deltas by index, some take calls from message_start).
//
// A stream is message_start; then for each block content_block_start, deltas,
// content_block_stop, in order, with indices 0, 1, 2…; then message_delta and
// message_stop. Pings stand anywhere. A call is a block of type tool_use: its
// events are held from its start to its stop, when clients run it.

import (
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// Blocks that no client runs: the model's words, and tools that the provider
// runs on its own side together with their results.
var messagesInertBlocks = map[string]bool{
	"text": true, "thinking": true, "redacted_thinking": true,
	"server_tool_use": true, "mcp_tool_use": true, "mcp_tool_result": true,
	"web_search_tool_result": true, "web_fetch_tool_result": true,
	"code_execution_tool_result": true, "bash_code_execution_tool_result": true,
	"text_editor_code_execution_tool_result": true, "tool_search_tool_result": true,
	"container_upload": true, "compaction": true,
}

// Deltas that may appear in any block that is no call.
var messagesInertDeltas = map[string]bool{
	"text_delta": true, "thinking_delta": true, "signature_delta": true,
	"citations_delta": true, "compaction_delta": true,
}

// Blocks of calls that the provider runs; their input arrives in fragments too.
var messagesProviderCalls = map[string]bool{"server_tool_use": true, "mcp_tool_use": true}

// The provider's own tools. Some clients hand a server_tool_use on as a call, so
// one in the name of a client's tool could run there.
var messagesProviderTools = map[string]bool{
	"web_search": true, "web_fetch": true, "code_execution": true, "bash_code_execution": true, "text_editor_code_execution": true,
	"tool_search_tool_regex": true, "tool_search_tool_bm25": true, "advisor": true,
}

type messagesStream struct {
	inert  Inert
	limits Limits
	t      tape.Tape

	phase phase
	next  int     // index of the next block
	block string  // type of the open block, "" between blocks
	lines [2]bool // events without and with an event line were seen
	calls int
	ids   map[string]bool
	lost  bool // some readers have not seen the start of a block

	// The open call and its events.
	call  Call
	held  []byte
	start int    // length of the start event in held
	stop  int    // where the stop event starts in held
	name  [2]int // place of the name in the start event
	out   []byte
}

type phase uint8

const (
	before phase = iota // no message_start yet
	inside
	after // message_stop was seen
)

var (
	messagesEventFields = []string{"type", "index", "content_block", "delta", "message"}
	messagesBlockFields = []string{"type", "id", "name", "input"}
	messagesDeltaFields = []string{"type", "partial_json"}
)

func (s *messagesStream) Holding() bool { return s.block == "tool_use" }

func (s *messagesStream) End() error { return nil }

func (s *messagesStream) Feed(ev *sse.Event) (Step, error) {
	flow := Step{Flow: ev.Raw}
	if !ev.HasData {
		if s.Holding() {
			return s.hold(ev)
		}
		return flow, nil
	}
	if string(ev.Data) == "[DONE]" && ev.Name == nil && s.block == "" {
		return flow, nil // some compatible servers end every stream so
	}
	if err := s.t.Parse(ev.Data); err != nil {
		return Step{}, refuse("event", "%v", err)
	}
	if s.t.Kind(0) != tape.Object {
		return Step{}, refuse("event", "its data is %v, not an object", s.t.Kind(0))
	}
	var at [5]int
	if err := fields(&s.t, 0, messagesEventFields, at[:]); err != nil {
		return Step{}, err
	}
	typ := at[0]
	if s.t.Kind(typ) != tape.String {
		return Step{}, refuse("event", "it has no type")
	}
	if ev.Name != nil && !s.t.IsBytes(typ, ev.Name) {
		return Step{}, refuse("event "+s.t.Str(typ), "its event line says %q", ev.Name)
	}
	if s.Holding() && offset(ev) < 0 {
		// Readers that take each data line for an event drop all of it.
		return Step{}, refuse("event "+s.t.Str(typ), "several data lines inside a call")
	}
	if !s.t.Is(typ, "ping") && !s.t.Is(typ, "error") {
		// Some readers drop every event without an event line. One kind of
		// stream is all or nothing for them; a mixture is another reply.
		if ev.Name != nil {
			s.lines[1] = true
		} else {
			s.lines[0] = true
		}
		if s.lines == [2]bool{true, true} {
			return Step{}, refuse("event "+s.t.Str(typ), "some events have an event line and some have none")
		}
	}
	switch {
	case s.t.Is(typ, "content_block_delta"):
		return s.delta(ev, at[1], at[3])
	case s.t.Is(typ, "content_block_start"):
		return s.open(ev, at[1], at[2])
	case s.t.Is(typ, "content_block_stop"):
		return s.close(ev, at[1])
	case s.t.Is(typ, "ping"):
		if s.Holding() {
			return s.hold(ev) // in its place: the client sees upstream's order
		}
		return flow, nil
	case s.t.Is(typ, "message_start"):
		if s.phase != before {
			return Step{}, refuse("message_start", "a second one")
		}
		s.phase = inside
		var m [1]int
		if err := fields(&s.t, at[4], []string{"content"}, m[:]); err != nil {
			return Step{}, err
		}
		if !absent(&s.t, m[0]) {
			return Step{}, refuse("message_start", "it holds content, which some clients run")
		}
		return flow, nil
	case s.t.Is(typ, "message_delta"), s.t.Is(typ, "message_stop"):
		if s.phase != inside {
			return Step{}, refuse(s.t.Str(typ), "outside of a message")
		}
		if s.block != "" {
			return Step{}, refuse(s.t.Str(typ), "inside a content block")
		}
		if s.t.Is(typ, "message_stop") {
			s.phase = after
		}
		return flow, nil
	case s.t.Is(typ, "error"):
		s.drop() // the stream ends here; a call that is not whole is no call
		return flow, nil
	}
	if name := s.t.Str(typ); s.inert[name] {
		if s.Holding() {
			return s.hold(ev)
		}
		return flow, nil
	}
	return Step{}, refuse("event "+s.t.Str(typ), "an unknown event type, which could carry a call")
}

func (s *messagesStream) open(ev *sse.Event, index, block int) (Step, error) {
	const where = "content_block_start"
	if s.phase != inside {
		return Step{}, refuse(where, "outside of a message")
	}
	if s.block != "" {
		return Step{}, refuse(where, "inside another block")
	}
	if n, ok := s.t.Int(index); !ok || n != s.next {
		return Step{}, refuse(where, "its index is not %d, the next one", s.next)
	}
	var at [4]int
	if err := fields(&s.t, block, messagesBlockFields, at[:]); err != nil {
		return Step{}, err
	}
	if s.t.Kind(at[0]) != tape.String {
		return Step{}, refuse(where, "its block has no type")
	}
	s.next++
	typ := s.t.Str(at[0])
	s.block = typ
	if typ != "tool_use" {
		if !messagesInertBlocks[typ] && !s.inert[typ] {
			return Step{}, refuse(where, "an unknown block type %q, which could be a call", typ)
		}
		if typ == "server_tool_use" && !messagesProviderTools[s.t.Str(at[2])] && !s.inert[s.t.Str(at[2])] {
			return Step{}, refuse(where, "a call of %q by the provider, which is none of its tools", s.t.Str(at[2]))
		}
		s.lost = s.lost || breaks(ev.Data) > 0
		return Step{Flow: ev.Raw}, nil
	}
	if s.lost {
		// Readers that count blocks would take its deltas for those of another.
		return Step{}, refuse(where, "a call after a block whose start has a character at which some clients end a line")
	}
	if _, err := broken(where, ev.Data); err != nil {
		return Step{}, err
	}
	if s.calls == s.limits.Calls {
		return Step{}, refuse(where, "more than %d calls in one reply", s.limits.Calls)
	}
	if s.t.Kind(at[1]) != tape.String || s.t.Empty(at[1]) || s.t.Kind(at[2]) != tape.String {
		return Step{}, refuse(where, "a call without an id and a name")
	}
	s.call = Call{Index: s.calls, ID: s.t.Str(at[1]), Name: s.t.Str(at[2])}
	s.calls++
	if s.ids[s.call.ID] {
		return Step{}, refuse(where, "a second call with the id %q", s.call.ID)
	}
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[s.call.ID] = true
	if in := at[3]; s.t.Kind(in) != tape.None && s.t.Kind(in) != tape.Null && string(s.t.Raw(in)) != "{}" {
		// Clients take it, drop it, or put the deltas behind it; one does so
		// with any text but these two bytes.
		return Step{}, refuse(where, "a call whose input at the start is not {}")
	}
	// A data line may stand anywhere in the event: places in the data become
	// places in the raw bytes only when the data is one run of them.
	off := offset(ev)
	if off < 0 {
		return Step{}, refuse(where, "a call's start on several data lines")
	}
	s.name = place(&s.t, at[2], off)
	s.held = append(s.held[:0], ev.Raw...)
	s.start = len(s.held)
	return Step{}, nil
}

// offset is where the data stands in the raw bytes of an event, or −1 when it
// is joined from several lines.
func offset(ev *sse.Event) int {
	if len(ev.Data) == 0 {
		return -1
	}
	for i := 0; i+len(ev.Data) <= len(ev.Raw); i++ {
		if &ev.Raw[i] == &ev.Data[0] {
			return i
		}
	}
	return -1
}

func place(t *tape.Tape, i, off int) [2]int {
	a, b := t.Span(i)
	return [2]int{a + off, b + off}
}

func (s *messagesStream) delta(ev *sse.Event, index, delta int) (Step, error) {
	const where = "content_block_delta"
	if s.block == "" {
		return Step{}, refuse(where, "outside of a block")
	}
	if n, ok := s.t.Int(index); !ok || n != s.next-1 {
		return Step{}, refuse(where, "its index is not %d, the open block's", s.next-1)
	}
	var at [2]int
	if err := fields(&s.t, delta, messagesDeltaFields, at[:]); err != nil {
		return Step{}, err
	}
	typ := at[0]
	if s.t.Kind(typ) != tape.String {
		return Step{}, refuse(where, "it has no type")
	}
	if at[1] >= 0 && !s.t.Is(typ, "input_json_delta") {
		return Step{}, refuse(where, "arguments in a delta of type %q, which some clients append to the last call", s.t.Str(typ))
	}
	if s.block != "tool_use" {
		if s.t.Is(typ, "input_json_delta") {
			if !messagesProviderCalls[s.block] && !s.inert[s.block] {
				return Step{}, refuse(where, "arguments in a block of type %q", s.block)
			}
			return Step{Flow: ev.Raw}, nil
		}
		if name := s.t.Raw(typ); !messagesInertDeltas[string(name[1:len(name)-1])] && !s.inert[s.t.Str(typ)] {
			return Step{}, refuse(where, "an unknown delta type %q", s.t.Str(typ))
		}
		return Step{Flow: ev.Raw}, nil
	}
	if !s.t.Is(typ, "input_json_delta") {
		return Step{}, refuse(where, "a delta of type %q in a call", s.t.Str(typ))
	}
	if s.t.Kind(at[1]) != tape.String {
		return Step{}, refuse(where, "partial_json is %v, not a string", s.t.Kind(at[1]))
	}
	if s.t.LoneSurrogate() {
		// Each reader replaces it in its own way, perhaps joined across deltas.
		s.call.Malformed = "half a surrogate pair in the arguments"
	}
	if why, err := broken(where, ev.Data, s.t.Raw(at[1])); err != nil {
		return Step{}, err
	} else if why != "" {
		s.call.Malformed = why
	}
	s.call.Args = s.t.AppendStr(s.call.Args, at[1])
	if len(s.call.Args) > s.limits.Call {
		return Step{}, refuse(where, "a call of more than %d bytes", s.limits.Call)
	}
	return s.hold(ev)
}

func (s *messagesStream) hold(ev *sse.Event) (Step, error) {
	if len(s.held)+len(ev.Raw) > s.limits.Held {
		return Step{}, refuse("reply", "more than %d bytes held", s.limits.Held)
	}
	s.held = append(s.held, ev.Raw...)
	return Step{}, nil
}

func (s *messagesStream) close(ev *sse.Event, index int) (Step, error) {
	const where = "content_block_stop"
	if s.block == "" {
		return Step{}, refuse(where, "outside of a block")
	}
	if n, ok := s.t.Int(index); !ok || n != s.next-1 {
		return Step{}, refuse(where, "its index is not %d, the open block's", s.next-1)
	}
	if s.block != "tool_use" {
		s.block = ""
		return Step{Flow: ev.Raw}, nil
	}
	s.stop = len(s.held)
	if _, err := s.hold(ev); err != nil {
		return Step{}, err
	}
	call := s.call
	s.call = Call{}
	return Step{Calls: []Call{call}}, nil
}

func (s *messagesStream) drop() {
	s.block, s.held, s.phase = "", s.held[:0], after
}

func (s *messagesStream) Release(rulings []Ruling) []byte {
	s.block = ""
	if len(rulings) != 1 || !rulings[0].Replace {
		return s.held
	}
	// The start event with another name, one delta with the whole of the
	// arguments, and the stop event.
	r := rulings[0]
	out := append(s.out[:0], s.held[:s.name[0]]...)
	out = tape.Quote(out, r.Name)
	out = append(out, s.held[s.name[1]:s.start]...)
	if s.lines[1] {
		out = append(out, "event: content_block_delta\n"...)
	}
	out = append(out, "data: {\"type\":\"content_block_delta\",\"index\":"...)
	out = appendInt(out, s.next-1)
	out = append(out, `,"delta":{"type":"input_json_delta","partial_json":`...)
	out = tape.Quote(out, string(r.Args))
	out = append(out, "}}\n\n"...)
	out = append(out, s.held[s.stop:]...)
	s.out = out
	return out
}

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// messages indexes the calls of a whole reply.
func (r *Reply) messages(t *tape.Tape, inert Inert, l Limits) error {
	var top [1]int
	if err := fields(t, 0, []string{"content"}, top[:]); err != nil {
		return err
	}
	if err := foreign(t, "choices", "output", "candidates", "message"); err != nil {
		return err
	}
	content := top[0]
	if absent(t, content) {
		return nil // an error, or the answer of count_tokens
	}
	if t.Kind(content) != tape.Array {
		return refuse("content", "it is %v, not an array", t.Kind(content))
	}
	for b, end := content+1, t.After(content); b < end; b = t.After(b) {
		var at [4]int
		if err := fields(t, b, messagesBlockFields, at[:]); err != nil {
			return err
		}
		if t.Kind(at[0]) != tape.String {
			return refuse("content", "a block has no type")
		}
		typ := t.Str(at[0])
		if typ != "tool_use" {
			if !messagesInertBlocks[typ] && !inert[typ] {
				return refuse("content", "an unknown block type %q, which could be a call", typ)
			}
			if typ == "server_tool_use" && !messagesProviderTools[t.Str(at[2])] && !inert[t.Str(at[2])] {
				return refuse("content", "a call of %q by the provider, which is none of its tools", t.Str(at[2]))
			}
			continue
		}
		if t.Kind(at[1]) != tape.String || t.Empty(at[1]) || t.Kind(at[2]) != tape.String {
			return refuse("content", "a call without an id and a name")
		}
		c := Call{ID: t.Str(at[1]), Name: t.Str(at[2])}
		s := spot{name: place(t, at[2], 0), args: [2]int{-1, -1}}
		_, blockEnd := t.Span(b)
		s.at = blockEnd - 1
		if at[3] >= 0 {
			s.args = place(t, at[3], 0)
			if t.Kind(at[3]) != tape.Null {
				c.Args = t.Raw(at[3])
			}
		}
		if err := r.add(c, s, l); err != nil {
			return err
		}
	}
	return nil
}
