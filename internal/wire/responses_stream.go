package wire

// The stream of a Responses reply. Source of the protocol facts: OpenAI's API
// reference, "Streaming", the unions of its Go SDK, and what readers do: Codex
// runs a call at its output_item.done, others at the end of the stream; some
// take the arguments from that event, some from the fragments, from
// function_call_arguments.done, from output_item.added or from the response
// object of the last event; some find an item by its index, some take the one
// that was added last.
//
// A stream is response.created, then for each item output_item.added, events of
// its kind, output_item.done, with indices 0, 1, 2…, and at last
// response.completed, .incomplete or .failed, with a response object that has
// all items once more.
//
//	held from            to                     then judged
//	output_item.added    output_item.done       all calls that were open meanwhile
//	output_item.done     itself                 a call that was never added
//	the last event       itself                 calls that were not streamed
//
// While a call is open nothing flows: what comes is held in its place, and no
// event ever overtakes one that stood before it. Only the item that was added
// last may take fragments of arguments, and only until another one begins or
// ends: readers that know the last item alone would give it the arguments of
// both. So the fragments of a call are never mixed with other items; its end may
// come later, since compatible servers end all items together (then its calls
// are judged together), but no other item may end before it has arguments, and
// calls of tools that the API defines end before anything else begins.
//
// Some of these servers give no output_index at all. Then none may have one: an
// item is found by its ids, fragments are the last one's, and there may be one
// call, a function_call, since for some readers all items have one place then.
//
// A ruling is kept with its call: later copies are compared with what was
// judged, and get the same edits. Edits never add an event, so that sequence
// numbers stay as upstream gave them; an event that has no place in what a call
// became is left out.

import (
	"bytes"
	"slices"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// eventKind says how a type of events is treated.
type eventKind uint8

const (
	_            eventKind = iota
	evInert                // flows wherever it is
	evItem                 // flows; it is about an item that is no call
	evMcpArgs              // the same, with arguments of a call of the provider
	evShellOut             // the same, of a shell that the provider runs
	evCreated              // response.created
	evResponse             // a response object before the end
	evLast                 // a response object at the end
	evFailed               // the same, of a response that gave up
	evError                // the end without one
	evAdded                // output_item.added
	evDone                 // output_item.done
	evArgsDelta            // a fragment of a function's arguments
	evArgsDone             // all of them
	evInputDelta           // a fragment of a text
	evInputDone            // all of it
	evShell                // about one command of a shell_call
	evPatch                // about the diff of an apply_patch_call
)

var responsesEvents = map[string]eventKind{
	"response.created": evCreated, "response.queued": evResponse, "response.in_progress": evResponse,
	"response.completed": evLast, "response.incomplete": evFailed, "response.failed": evFailed, "error": evError,
	"response.output_item.added": evAdded, "response.output_item.done": evDone,
	"response.function_call_arguments.delta": evArgsDelta, "response.function_call_arguments.done": evArgsDone,
	"response.custom_tool_call_input.delta": evInputDelta, "response.custom_tool_call_input.done": evInputDone,
	"response.shell_call_command.added": evShell, "response.shell_call_command.delta": evShell, "response.shell_call_command.done": evShell,
	"response.apply_patch_call_operation_diff.delta": evPatch, "response.apply_patch_call_operation_diff.done": evPatch,
	"response.mcp_call_arguments.delta": evMcpArgs, "response.mcp_call_arguments.done": evMcpArgs,
	"response.shell_call_output_content.delta": evShellOut, "response.shell_call_output_content.done": evShellOut,
	// Not in the SDK; OpenAI's servers send them.
	"keepalive": evInert, "codex.rate_limits": evInert, "codex.response.metadata": evInert,
}

func init() {
	for _, name := range []string{
		"audio.delta", "audio.done", "audio.transcript.delta", "audio.transcript.done",
		"content_part.added", "content_part.done", "output_text.delta", "output_text.done", "output_text.annotation.added",
		"refusal.delta", "refusal.done", "reasoning_text.delta", "reasoning_text.done",
		"reasoning_summary_part.added", "reasoning_summary_part.done", "reasoning_summary_text.delta", "reasoning_summary_text.done",
		"code_interpreter_call.in_progress", "code_interpreter_call.interpreting", "code_interpreter_call.completed",
		"code_interpreter_call_code.delta", "code_interpreter_call_code.done",
		"file_search_call.in_progress", "file_search_call.searching", "file_search_call.completed",
		"web_search_call.in_progress", "web_search_call.searching", "web_search_call.completed",
		"image_generation_call.in_progress", "image_generation_call.generating", "image_generation_call.partial_image", "image_generation_call.completed",
		"mcp_call.in_progress", "mcp_call.completed", "mcp_call.failed",
		"mcp_list_tools.in_progress", "mcp_list_tools.completed", "mcp_list_tools.failed",
		"compaction.compacting",
	} {
		responsesEvents["response."+name] = evItem
	}
}

// fields of events. Those of an event of text come first: there are many.
const (
	eventType = iota
	eventSequence
	eventItemID
	eventIndex
	_ // content_index
	eventDelta
	_ // logprobs
	_ // obfuscation
	eventItem
	eventResponse
	eventPart
	eventArguments
	eventInput
	eventDiff
	eventCommand
	eventCommandIndex
	eventName
	eventForeign // and behind: members of other dialects
)

var responsesEventFields = []string{"type", "sequence_number", "item_id", "output_index", "content_index", "delta", "logprobs", "obfuscation",
	"item", "response", "part", "arguments", "input", "diff", "command", "command_index", "name",
	"choices", "candidates", "tool_calls", "content_block", "message", "output"}

// maxItems bounds the memory of a reply that never ends.
const maxItems = 1 << 16

type responsesStream struct {
	inert  Inert
	limits Limits
	t      tape.Tape
	at     [eventForeign + 6]int // fields of the event

	id       string  // of the response
	lines    [2]bool // events without and with an event line were seen
	ways     [2]bool // items that were added, and items that only ended, were seen
	seen     bool    // any event of a response was
	created  bool
	resumed  bool // the stream does not start with the response
	bare     bool // no item has an output_index
	lost     bool // some readers have not seen that an item was added
	ended    bool
	sequence int // the last sequence_number

	base  int // index of items[0]
	items []respItem
	ids   map[string]int // of items by id
	calls map[string]int // of items by the id of their call
	size  int            // bytes of the arguments that are kept

	open     int // calls that have begun and not ended
	current  int // the place in items, plus one, of the call that takes fragments
	first    int // the place of the first item that is held
	gaveUp   bool
	deciding []int // calls that wait for a ruling
	held     []byte
	pieces   []respPiece
	fixed    []Edit
	out      []byte
}

// respItem is what is known of an item that has begun.
type respItem struct {
	copyOf
	done   bool
	last   bool // it was in the last event's response
	ruling Ruling

	// Of an open call.
	partial   []byte // its fragments
	deltas    int
	joined    bool // its arguments came as a whole
	overtaken bool // another item began or ended after it
	commands  []shellText
}

// shellText is one command of a shell_call as its own events tell it.
type shellText struct {
	text []byte
	done bool
}

func (s *responsesStream) Holding() bool { return s.open > 0 || len(s.deciding) > 0 }

func (s *responsesStream) End() error {
	if s.seen && !s.ended {
		return refuse("reply", "it ends without response.completed, response.incomplete or response.failed")
	}
	return nil
}

func (s *responsesStream) Feed(ev *sse.Event) (Step, error) {
	if !ev.HasData {
		return s.pass(ev)
	}
	if string(ev.Data) == "[DONE]" && ev.Name == nil && (s.ended || !s.seen) {
		s.ended = true
		return Step{Flow: ev.Raw}, nil // some compatible servers end every stream so
	}
	t := &s.t
	if err := t.Parse(ev.Data); err != nil {
		return Step{}, refuse("event", "%v", err)
	}
	if t.Kind(0) != tape.Object {
		return Step{}, refuse("event", "its data is %v, not an object", t.Kind(0))
	}
	if err := fields(t, 0, responsesEventFields, s.at[:]); err != nil {
		return Step{}, err
	}
	typ := s.at[eventType]
	if t.Kind(typ) != tape.String {
		return Step{}, refuse("event", "it has no type")
	}
	if ev.Name != nil && !t.IsBytes(typ, ev.Name) {
		return Step{}, refuse("event "+t.Str(typ), "its event line says %q", ev.Name)
	}
	raw := t.Raw(typ)
	kind := responsesEvents[string(raw[1:len(raw)-1])]
	if kind == 0 {
		kind = responsesEvents[t.Str(typ)]
	}
	if err := s.check(ev, kind); err != nil {
		return Step{}, err
	}
	switch kind {
	case evInert, evItem, evMcpArgs, evShellOut:
		return s.pass(ev)
	case evCreated, evResponse:
		return s.response(ev, kind)
	case evLast, evFailed:
		return s.last(ev, kind)
	case evError:
		s.drop() // the stream ends here; a call that is not whole is no call
		s.ended = true
		return Step{Flow: ev.Raw}, nil
	case evAdded:
		return s.added(ev)
	case evDone:
		return s.done(ev)
	case 0:
		if s.inert[t.Str(typ)] {
			return s.pass(ev)
		}
		return Step{}, refuse("event "+t.Str(typ), "an unknown event type, which could carry a call")
	}
	return s.fragment(ev, kind)
}

// check looks at what has to be right in every event of a kind.
func (s *responsesStream) check(ev *sse.Event, kind eventKind) error {
	t, at := &s.t, &s.at
	where := func() string { return "event " + t.Str(at[eventType]) }
	if s.ended {
		return refuse(where(), "it comes after the end")
	}
	if kind == 0 {
		return nil
	}
	for _, i := range at[eventForeign:] {
		if couldCall(t, i) {
			return refuse(where(), "a member of another dialect, which could be a call")
		}
	}
	if !absent(t, at[eventItem]) && kind != evAdded && kind != evDone || !absent(t, at[eventResponse]) && (kind < evCreated || kind > evFailed) {
		return refuse(where(), "an item or a response where there is none")
	}
	if d := at[eventDelta]; d >= 0 && t.Kind(d) != tape.String && couldCall(t, d) {
		return refuse(where(), "its delta could be a call")
	}
	if kind == evInert || kind == evError {
		return s.sequential()
	}
	// Some readers drop every event without an event line. One kind of stream
	// is all or nothing for them; a mixture is another reply.
	if ev.Name != nil {
		s.lines[1] = true
	} else {
		s.lines[0] = true
	}
	if s.lines == [2]bool{true, true} {
		return refuse(where(), "some events have an event line and some have none")
	}
	if !s.seen {
		s.seen, s.resumed = true, kind < evCreated || kind > evFailed
	}
	if kind == evItem || kind == evMcpArgs || kind == evShellOut {
		if err := s.about(kind); err != nil {
			return err
		}
	}
	return s.sequential()
}

// about checks an event about an item that is no call. What it says is of no
// account; that it belongs to a call is.
func (s *responsesStream) about(kind eventKind) error {
	t, at := &s.t, &s.at
	where := func() string { return "event " + t.Str(at[eventType]) }
	if kind == evMcpArgs && s.open > 0 {
		return refuse(where(), "arguments of another call inside of a call")
	}
	if kind != evMcpArgs && (!absent(t, at[eventArguments]) || !absent(t, at[eventInput])) {
		return refuse(where(), "arguments in an event that has none")
	}
	if p := at[eventPart]; p >= 0 && !absent(t, p) {
		if typ := t.Str(t.Get(p, "type")); !responsesInertParts[typ] && !s.inert[typ] {
			return refuse(where(), "an unknown part type %q, which could be a call", typ)
		}
	}
	n, ok := t.Int(at[eventIndex])
	if !ok && at[eventIndex] >= 0 {
		return refuse(where(), "its output_index is no small number")
	}
	// Some readers find the item by its index, others by its id: where these are
	// two items, neither may be a call.
	if id := at[eventItemID]; t.Kind(id) == tape.String {
		raw := t.Raw(id)
		m, known := s.ids[string(raw[1:len(raw)-1])]
		if !known && bytes.IndexByte(raw, '\\') >= 0 {
			m, known = s.ids[t.Str(id)]
		}
		if known {
			if err := s.aboutItem(kind, &s.items[m]); err != nil {
				return err
			}
		}
	}
	if n -= s.base; !ok || n < 0 || n >= len(s.items) {
		return nil
	}
	return s.aboutItem(kind, &s.items[n])
}

func (s *responsesStream) aboutItem(kind eventKind, it *respItem) error {
	where := func() string { return "event " + s.t.Str(s.at[eventType]) }
	switch {
	case it.kind != nil && kind == evShellOut && it.typ == ShellCall && it.done && !it.ruling.Replace:
	case it.kind != nil || it.unknown:
		return refuse(where(), "it is about an item of type %q", it.typ)
	case kind == evMcpArgs && it.typ != "mcp_call" && !s.inert[it.typ]:
		return refuse(where(), "arguments in an item of type %q", it.typ)
	}
	return nil
}

// sequential checks the order of events inside of a call, and notes where it
// is: nobody sorts a text by it, but fragments can be.
func (s *responsesStream) sequential() error {
	i := s.at[eventSequence]
	n, ok := s.t.Int(i)
	if !ok {
		if s.open > 0 && i >= 0 && s.t.Kind(i) != tape.Null {
			return refuse("event "+s.t.Str(s.at[eventType]), "its sequence_number is no small number")
		}
		return nil
	}
	if s.open > 0 && n <= s.sequence {
		return refuse("event "+s.t.Str(s.at[eventType]), "its sequence_number is not above %d, which came before it in the same call", s.sequence)
	}
	s.sequence = n
	return nil
}

// pass lets an event flow, or holds it in its place while a call is open.
func (s *responsesStream) pass(ev *sse.Event) (Step, error) {
	if s.open == 0 {
		return Step{Flow: ev.Raw}, nil
	}
	if ev.HasData && offset(ev) < 0 {
		// Readers that take each data line for an event drop all of it.
		return Step{}, refuse("event "+s.t.Str(s.at[eventType]), "several data lines inside a call")
	}
	return Step{}, s.hold(ev)
}

func (s *responsesStream) hold(ev *sse.Event) error {
	if len(s.held)+len(ev.Raw) > s.limits.Held {
		return refuse("reply", "more than %d bytes held", s.limits.Held)
	}
	s.held = append(s.held, ev.Raw...)
	return nil
}

// index is the place in items that the event's output_index names. fresh says
// that it is the next one, which has not begun.
func (s *responsesStream) index(where string) (n int, fresh bool, err error) {
	i := s.at[eventIndex]
	n, ok := s.t.Int(i)
	if !ok {
		if i >= 0 && s.t.Kind(i) != tape.Null || len(s.items) > 0 && !s.bare {
			return 0, false, refuse(where, "its output_index is not %d, the next one", s.base+len(s.items))
		}
		s.bare = true
		return len(s.items), true, nil
	}
	if s.bare {
		return 0, false, refuse(where, "an output_index, in a stream without")
	}
	if s.resumed && len(s.items) == 0 {
		s.base = n // what came before is not in this stream
	}
	if n -= s.base; n < 0 || n > len(s.items) {
		return 0, false, refuse(where, "its output_index is not %d, the next one", s.base+len(s.items))
	}
	return n, n == len(s.items), nil
}

// way notes in which way an item begins: it is added, or all of it comes when
// it is done. Readers that count what is added would miss the others, and give
// fragments to the wrong item.
func (s *responsesStream) way(done int) error {
	s.ways[done] = true
	if s.ways == [2]bool{true, true} && (done == 1 || !s.resumed) {
		return refuse("item", "some items are added and some only end")
	}
	return nil
}

// begin takes the first copy of an item.
func (s *responsesStream) begin(c copyOf) (*respItem, error) {
	const where = "item"
	if len(s.items) == maxItems {
		return nil, refuse("reply", "more than %d items", maxItems)
	}
	if s.bare && c.kind != nil && (len(s.calls) > 0 || c.typ != FunctionCall) {
		// In readers in which a missing index is 0 all items are one.
		return nil, refuse(where, "more than one call, or one that is no function_call, in a stream without output_index")
	}
	if s.ids == nil {
		s.ids, s.calls = map[string]int{}, map[string]int{}
	}
	n := len(s.items)
	if o, used := s.ids[c.id]; used && c.id != "" && (c.kind != nil || s.items[o].kind != nil) {
		return nil, refuse(where, "a second item with the id %q", c.id)
	}
	if c.id != "" {
		s.ids[c.id] = n
	}
	if c.kind != nil {
		if err := s.newCall(&c.call); err != nil {
			return nil, err
		}
		s.calls[c.call.ID] = n
	}
	s.items = append(s.items, respItem{copyOf: c})
	return &s.items[n], nil
}

func (s *responsesStream) newCall(c *Call) error {
	if len(s.calls) >= s.limits.Calls {
		return refuse("reply", "more than %d calls in one reply", s.limits.Calls)
	}
	if _, used := s.calls[c.ID]; used {
		return refuse("reply", "two calls with the id %q", c.ID)
	}
	c.Index = len(s.calls)
	return nil
}

func (s *responsesStream) added(ev *sse.Event) (Step, error) {
	const where = "output_item.added"
	if _, fresh, err := s.index(where); err != nil {
		return Step{}, err
	} else if !fresh {
		return Step{}, refuse(where, "its output_index is not %d, the next one", s.base+len(s.items))
	}
	if err := s.way(0); err != nil {
		return Step{}, err
	}
	s.overtake(-1)
	off, err := s.offset(ev)
	c, rerr := readItem(&s.t, s.at[eventItem], s.inert, off)
	if rerr != nil {
		return Step{}, rerr
	}
	if err != nil && (s.open > 0 || c.kind != nil || c.unknown) {
		return Step{}, err
	}
	if ev.Cut && c.kind != nil {
		return Step{}, refuse(where, "a call in an event that is cut off")
	}
	switch {
	case c.kind == nil:
		s.lost = s.lost || breaks(ev.Data) > 0
	case s.lost:
		// Readers that count items would take its fragments for those of another.
		return Step{}, refuse(where, "a call after an item that was added with a character at which some clients end a line")
	case breaks(ev.Data) > 0:
		_, err := broken(where, ev.Data)
		return Step{}, err
	}
	if len(c.call.Args) > s.limits.Call {
		return Step{}, refuse(where, "a call of more than %d bytes", s.limits.Call)
	}
	if _, err := s.begin(c); err != nil {
		return Step{}, err
	}
	n := len(s.items) - 1
	switch {
	case c.unknown:
		return s.withhold(ev, &c, "in_progress")
	case c.kind == nil:
		return s.pass(ev)
	case s.open == 0:
		s.held, s.pieces, s.fixed, s.deciding, s.first = s.held[:0], s.pieces[:0], s.fixed[:0], s.deciding[:0], n
	}
	s.open++
	s.current = n + 1
	s.pieces = append(s.pieces, respPiece{call: n, role: begun, first: len(c.call.Args) > 0, spot: c.spot})
	return Step{}, s.hold(ev)
}

// offset is where the data of the event stands in what is held, or in the event
// itself while nothing is.
func (s *responsesStream) offset(ev *sse.Event) (int, error) {
	off := offset(ev)
	if off < 0 {
		// Readers that take each data line for an event drop all of it.
		return 0, refuse("event "+s.t.Str(s.at[eventType]), "a call on several data lines")
	}
	if s.open > 0 {
		off += len(s.held)
	}
	return off, nil
}

// overtake notes that an item began or ended, other than the one at place n:
// the call that took fragments takes no more.
func (s *responsesStream) overtake(n int) {
	if s.current > 0 && s.current-1 != n {
		s.items[s.current-1].overtaken = true
		s.current = 0
	}
}

// withhold puts a message in the place of an unknown item.
func (s *responsesStream) withhold(ev *sse.Event, c *copyOf, status string) (Step, error) {
	var step Step
	if status == "completed" {
		step.Withheld = []string{c.typ}
	}
	edit := Edit{c.spot.item[0], c.spot.item[1], messageItem(s.t.Raw(s.at[eventItem]), status, withheldText(c.typ))}
	if s.open > 0 {
		s.fixed = append(s.fixed, edit)
		return step, s.hold(ev)
	}
	s.out = SpliceTo(s.out[:0], ev.Raw, []Edit{edit})
	step.Flow = s.out
	return step, nil
}

// fragment takes an event with arguments of the open call.
func (s *responsesStream) fragment(ev *sse.Event, kind eventKind) (Step, error) {
	t, at := &s.t, &s.at
	where := "event " + t.Str(at[eventType])
	n := s.current - 1
	if i, ok := t.Int(at[eventIndex]); n < 0 || s.bare != (at[eventIndex] < 0) || !s.bare && (!ok || i-s.base != n) {
		return Step{}, refuse(where, "it is not about the call that takes fragments")
	}
	it := &s.items[n]
	belongs := map[eventKind]string{evArgsDelta: FunctionCall, evArgsDone: FunctionCall, evInputDelta: CustomToolCall, evInputDone: CustomToolCall, evShell: ShellCall, evPatch: ApplyPatchCall}
	if it.typ != belongs[kind] {
		return Step{}, refuse(where, "it is about an item of type %q", it.typ)
	}
	id := it.id
	if s.bare && id == "" {
		id = it.call.ID
	}
	if i := at[eventItemID]; (s.bare && kind != evShell || !absent(t, i)) && !t.Is(i, id) { // evShell has none
		return Step{}, refuse(where, "its item_id is not %q, the open call's", id)
	}
	base, err := s.offset(ev)
	if err != nil {
		return Step{}, err
	}
	if t.LoneSurrogate() {
		// Each reader replaces it in its own way, perhaps joined across fragments.
		it.call.Malformed = loneText
	}
	if breaks(ev.Data) > 0 {
		var texts [][]byte
		for _, i := range []int{at[eventDelta], at[eventArguments], at[eventInput], at[eventCommand], at[eventDiff]} {
			if i >= 0 {
				texts = append(texts, t.Raw(i))
			}
		}
		why, err := broken(where, ev.Data, texts...)
		if err != nil {
			return Step{}, err
		}
		it.call.Malformed = why
	}
	p := respPiece{call: n, role: neutral, event: [2]int{len(s.held), len(s.held) + len(ev.Raw)}, spot: itemSpot{name: [2]int{-1, -1}, args: [2]int{-1, -1}}}
	switch kind {
	case evShell:
		err = s.shellEvent(it)
	case evPatch:
		err = s.patchEvent(it)
	case evArgsDelta, evInputDelta:
		p.role, p.first = part, it.deltas == 0 && len(it.call.Args) == 0
		p.spot.args = place(t, max(at[eventDelta], 0), base)
		err = s.delta(it, at[eventDelta])
	default:
		i := at[eventArguments]
		if kind == evInputDone {
			i = at[eventInput]
		}
		p.role = joined
		p.spot.args = place(t, max(i, 0), base)
		if at[eventName] >= 0 {
			p.spot.name = place(t, at[eventName], base)
		}
		err = s.joined(it, i)
	}
	if err != nil {
		return Step{}, err
	}
	s.pieces = append(s.pieces, p)
	return Step{}, s.hold(ev)
}

// delta appends string i to the fragments of a call.
func (s *responsesStream) delta(it *respItem, i int) error {
	where := "event " + s.t.Str(s.at[eventType])
	switch {
	case s.t.Kind(i) != tape.String:
		return refuse(where, "its delta is %v, not a string", s.t.Kind(i))
	case it.joined:
		return refuse(where, "a fragment after the whole")
	case len(it.call.Args) > 0 && !s.t.Empty(i):
		// Some readers take these, some what the item began with, some both.
		return refuse(where, "a fragment of a call that had its arguments when it began")
	case !s.t.Is(s.at[eventName], it.call.Name) && !absent(&s.t, s.at[eventName]):
		return refuse(where, "a call that changes its name")
	}
	it.deltas++
	it.partial = s.t.AppendStr(it.partial, i)
	if len(it.partial) > s.limits.Call {
		return refuse(where, "a call of more than %d bytes", s.limits.Call)
	}
	return nil
}

// joined compares string i, all of the arguments, with the fragments.
func (s *responsesStream) joined(it *respItem, i int) error {
	where := "event " + s.t.Str(s.at[eventType])
	switch {
	case s.t.Kind(i) != tape.String:
		return refuse(where, "the arguments are %v, not a string", s.t.Kind(i))
	case it.joined:
		return refuse(where, "a second one for the same call")
	case !s.t.Is(s.at[eventName], it.call.Name) && !absent(&s.t, s.at[eventName]):
		return refuse(where, "a call that changes its name")
	}
	it.joined = true
	before := it.partial
	if len(it.call.Args) > 0 {
		before = it.call.Args
	}
	if (it.deltas > 0 || len(before) > 0) && !s.t.IsBytes(i, before) {
		return refuse(where, "it is not what came before")
	}
	it.partial = s.t.AppendStr(it.partial[:0], i)
	if len(it.partial) > s.limits.Call {
		return refuse(where, "a call of more than %d bytes", s.limits.Call)
	}
	return nil
}

// shellEvent follows one command of a shell_call.
func (s *responsesStream) shellEvent(it *respItem) error {
	t, at := &s.t, &s.at
	where := "event " + t.Str(at[eventType])
	n, ok := t.Int(at[eventCommandIndex])
	if !ok || n > len(it.commands) || n > 1024 {
		return refuse(where, "its command_index is no next one")
	}
	text, done := at[eventCommand], t.Is(at[eventType], "response.shell_call_command.done")
	if t.Is(at[eventType], "response.shell_call_command.delta") {
		text = at[eventDelta]
	}
	if t.Kind(text) != tape.String {
		return refuse(where, "the command is %v, not a string", t.Kind(text))
	}
	switch {
	case t.Is(at[eventType], "response.shell_call_command.added"):
		if n != len(it.commands) {
			return refuse(where, "a command that begins twice")
		}
		it.commands = append(it.commands, shellText{text: t.AppendStr(nil, text)})
	case n == len(it.commands) || it.commands[n].done:
		return refuse(where, "a command that has not begun, or has ended")
	case done:
		if it.commands[n].done = true; !t.IsBytes(text, it.commands[n].text) {
			return refuse(where, "it is not what came before")
		}
	default:
		it.commands[n].text = t.AppendStr(it.commands[n].text, text)
	}
	if it.deltas += len(t.Raw(text)); it.deltas > s.limits.Call {
		return refuse(where, "a call of more than %d bytes", s.limits.Call)
	}
	return nil
}

// patchEvent follows the diff of an apply_patch_call.
func (s *responsesStream) patchEvent(it *respItem) error {
	t, at := &s.t, &s.at
	where := "event " + t.Str(at[eventType])
	done := t.Is(at[eventType], "response.apply_patch_call_operation_diff.done")
	text := at[eventDelta]
	if done {
		text = at[eventDiff]
	}
	switch {
	case t.Kind(text) != tape.String:
		return refuse(where, "the diff is %v, not a string", t.Kind(text))
	case it.joined:
		return refuse(where, "a fragment after the whole")
	case !done:
		it.deltas++
		it.partial = t.AppendStr(it.partial, text)
	case it.deltas > 0 && !t.IsBytes(text, it.partial):
		return refuse(where, "it is not what came before")
	default:
		it.joined = true
		it.partial = t.AppendStr(it.partial[:0], text)
	}
	if len(it.partial) > s.limits.Call {
		return refuse(where, "a call of more than %d bytes", s.limits.Call)
	}
	return nil
}

func (s *responsesStream) done(ev *sse.Event) (Step, error) {
	const where = "output_item.done"
	off, oerr := s.offset(ev)
	c, err := readItem(&s.t, s.at[eventItem], s.inert, off)
	if err != nil {
		return Step{}, err
	}
	if oerr != nil && (s.open > 0 || c.kind != nil || c.unknown) {
		return Step{}, oerr
	}
	if ev.Cut && c.kind != nil {
		return Step{}, refuse(where, "a call in an event that is cut off")
	}
	n, fresh, err := s.index(where)
	if err != nil {
		return Step{}, err
	}
	if s.bare {
		if k, known := s.calls[c.call.ID]; known && c.kind != nil {
			n, fresh = k, false
		} else if k, known := s.ids[c.id]; known && c.id != "" {
			n, fresh = k, false
		}
	}
	if fresh {
		if err := s.way(1); err != nil {
			return Step{}, err
		}
		if _, err := s.begin(c); err != nil {
			return Step{}, err
		}
	}
	it := &s.items[n]
	if it.done {
		return Step{}, refuse(where, "an item that ends twice")
	}
	if c.typ != it.typ || (c.kind == nil) != (it.kind == nil) {
		return Step{}, refuse(where, "an item of type %q ends as one of type %q", it.typ, c.typ)
	}
	if c.kind == nil && c.id != it.id && c.id != "" {
		if o, used := s.ids[c.id]; used && s.items[o].kind != nil {
			return Step{}, refuse(where, "a second item with the id %q", c.id)
		}
	}
	for m := s.first; s.open > 0 && m < len(s.items); m++ {
		o := &s.items[m]
		if m != n && !o.done && (o.typ == FunctionCall || o.typ == CustomToolCall) && len(o.partial) == 0 && len(o.call.Args) == 0 {
			// Readers that know the last item alone would give it these arguments.
			return Step{}, refuse(where, "an item that ends while a call without arguments is open")
		}
	}
	it.done = true
	s.overtake(n)
	switch {
	case c.unknown || it.unknown:
		return s.withhold(ev, &c, "completed")
	case c.kind == nil:
		return s.pass(ev)
	case fresh:
		s.held, s.pieces, s.fixed, s.deciding, s.first = s.held[:0], s.pieces[:0], s.fixed[:0], s.deciding[:0], n
	default:
		if err := s.complete(it, &c); err != nil {
			return Step{}, err
		}
		s.open--
		s.current = 0
	}
	if len(c.call.Args) > s.limits.Call {
		return Step{}, refuse(where, "a call of more than %d bytes", s.limits.Call)
	}
	if s.bare && len(c.call.Args) == 0 {
		// Readers in which a missing index is 0 would give it those of the next.
		return Step{}, refuse(where, "a call without arguments, in a stream without output_index")
	}
	if s.size += len(c.call.Args); s.size > s.limits.Held {
		return Step{}, refuse("reply", "calls of more than %d bytes", s.limits.Held)
	}
	var args []byte
	if a := c.spot.args; a[0] >= 0 {
		args = ev.Data[a[0]-off : a[1]-off]
	}
	if why, err := broken(where, ev.Data, args); err != nil {
		return Step{}, err
	} else if why != "" {
		it.call.Malformed = why
	}
	s.pieces = append(s.pieces, respPiece{call: n, role: whole, spot: c.spot})
	if err := s.hold(ev); err != nil {
		return Step{}, err
	}
	s.deciding = append(s.deciding, n)
	if s.open > 0 {
		return Step{}, nil
	}
	slices.Sort(s.deciding)
	return Step{Calls: s.decide()}, nil
}

// decide gives out the calls that wait for a ruling.
func (s *responsesStream) decide() (calls []Call) {
	for _, n := range s.deciding {
		calls = append(calls, s.items[n].call)
	}
	return calls
}

// complete compares the whole copy c of a call with what came before it.
func (s *responsesStream) complete(it *respItem, c *copyOf) error {
	const where = "output_item.done"
	if !it.becomes(c) {
		return refuse(where, "the call is not the one that began")
	}
	if (it.call.Malformed == loneText || it.call.Malformed == breaksText) && c.call.Malformed == "" {
		c.call.Malformed = it.call.Malformed
	}
	if it.overtaken && it.kind.tool != "" {
		return refuse(where, "a call of type %q that ends after another item began or ended", it.typ)
	}
	switch it.typ {
	case FunctionCall, CustomToolCall:
		if it.overtaken && len(it.partial) == 0 && len(c.call.Args) > 0 {
			// Readers that know the last item alone have it without arguments, even
			// if it began with them: they look at these when it ends.
			return refuse(where, "arguments of a call that come after another item")
		}
		if (it.joined || it.deltas > 0) && !(len(it.call.Args) > 0 && len(it.partial) == 0) && !bytes.Equal(it.partial, c.call.Args) {
			return refuse(where, "the call is not what the fragments say")
		}
	case ShellCall:
		var t tape.Tape
		if len(it.commands) == 0 {
			break
		}
		if t.Parse(c.call.Args) != nil {
			return refuse(where, "the call is not what its commands say")
		}
		list, n := t.Get(0, "commands"), 0
		if t.Kind(list) != tape.Array || t.Count(list) != len(it.commands) {
			return refuse(where, "the call is not what its commands say")
		}
		for i := list + 1; i < t.After(list); i, n = t.After(i), n+1 {
			if !t.IsBytes(i, it.commands[n].text) {
				return refuse(where, "the call is not what its commands say")
			}
		}
	case ApplyPatchCall:
		var t tape.Tape
		if (it.joined || it.deltas > 0) && (t.Parse(c.call.Args) != nil || !t.IsBytes(t.Get(0, "diff"), it.partial)) {
			return refuse(where, "the call is not what its diff says")
		}
	}
	c.call.Index = it.call.Index
	it.call, it.partial, it.commands = c.call, nil, nil
	return nil
}

// response takes an event before the end with a response object: created,
// queued or in_progress.
func (s *responsesStream) response(ev *sse.Event, kind eventKind) (Step, error) {
	if kind == evCreated {
		if s.created {
			return Step{}, refuse("response.created", "a second one")
		}
		if len(s.items) > 0 {
			return Step{}, refuse("response.created", "it comes after an item")
		}
		s.created = true
	}
	if s.open > 0 {
		return Step{}, refuse("event "+s.t.Str(s.at[eventType]), "inside of a call")
	}
	return s.object(ev, false)
}

// last takes an event that ends the response.
func (s *responsesStream) last(ev *sse.Event, kind eventKind) (Step, error) {
	if s.open > 0 {
		if kind == evLast {
			return Step{}, refuse("response.completed", "inside of a call")
		}
		s.drop() // upstream gave up inside of a call: what is not whole is no call
	}
	step, err := s.object(ev, true)
	s.ended = err == nil
	return step, err
}

// object looks at the response object of an event, whose output holds copies
// of the items.
func (s *responsesStream) object(ev *sse.Event, last bool) (Step, error) {
	t := &s.t
	r := s.at[eventResponse]
	where := t.Str(s.at[eventType])
	if t.Kind(r) != tape.Object {
		if absent(t, r) {
			return Step{Flow: ev.Raw}, nil
		}
		return Step{}, refuse(where, "its response is %v, not an object", t.Kind(r))
	}
	var at [3]int
	if err := fields(t, r, []string{"output", "tools", "id"}, at[:]); err != nil {
		return Step{}, err
	}
	for _, name := range []string{"choices", "candidates", "tool_calls", "content", "items", "item"} {
		if couldCall(t, t.Get(r, name)) {
			return Step{}, refuse(where, "its response has a member %q, which could be a call of another dialect", name)
		}
	}
	step := Step{}
	if t.Kind(at[1]) == tape.Array {
		step.Tools = t.Raw(at[1])
	}
	if id := t.Str(at[2]); s.id == "" {
		s.id = id
	} else if id != s.id && len(s.calls) > 0 {
		return Step{}, refuse(where, "a response with another id, in a reply with calls")
	}
	if k := t.Kind(at[0]); k != tape.Array && !absent(t, at[0]) {
		return Step{}, refuse(where, "its output is %v, not an array", k)
	}
	s.held, s.pieces, s.fixed, s.deciding = s.held[:0], s.pieces[:0], s.fixed[:0], s.deciding[:0]
	if !absent(t, at[0]) {
		off := offset(ev)
		for i, end := at[0]+1, t.After(at[0]); i < end; i = t.After(i) {
			if err := s.copied(i, off, last, where, &step); err != nil {
				return Step{}, err
			}
		}
		if off < 0 && (len(s.pieces) > 0 || len(s.fixed) > 0) {
			return Step{}, refuse(where, "calls on several data lines")
		}
		if ev.Cut && len(s.deciding) > 0 {
			return Step{}, refuse(where, "calls in an event that is cut off")
		}
	}
	if len(s.deciding) > 0 {
		if err := s.hold(ev); err != nil {
			return Step{}, err
		}
		step.Calls = s.decide()
		return step, nil
	}
	step.Flow = s.edited(ev.Raw)
	return step, nil
}

// copied takes one item of a response object.
func (s *responsesStream) copied(i, off int, last bool, where string, step *Step) error {
	c, err := readItem(&s.t, i, s.inert, max(off, 0))
	if err != nil {
		return err
	}
	if c.kind == nil {
		if n, known := s.ids[c.id]; known && c.id != "" && s.items[n].kind != nil {
			return refuse(where, "the call %q is an item of type %q in its output", s.items[n].call.ID, c.typ)
		}
		if c.unknown {
			if n, known := s.ids[c.id]; !known || !s.items[n].unknown {
				step.Withheld = append(step.Withheld, c.typ)
			}
			s.fixed = append(s.fixed, Edit{c.spot.item[0], c.spot.item[1], messageItem(s.t.Raw(i), "completed", withheldText(c.typ))})
		}
		return nil
	}
	n, known := s.calls[c.call.ID]
	switch {
	case known:
		it := &s.items[n]
		if !it.done || !it.agrees(&c) {
			return refuse(where, "the call %q is another one in its output", c.call.ID)
		}
		if last && it.last {
			return refuse(where, "the call %q stands twice in its output", c.call.ID)
		}
		it.last = it.last || last
	case last && (len(s.calls) == 0 && !s.streamed() || s.resumed || s.gaveUp || len(s.deciding) > 0):
		if _, err := s.begin(c); err != nil {
			return err
		}
		n = len(s.items) - 1
		s.items[n].done, s.items[n].last = true, true
		if len(c.call.Args) > s.limits.Call {
			return refuse(where, "a call of more than %d bytes", s.limits.Call)
		}
		s.deciding = append(s.deciding, n)
	default:
		return refuse(where, "the call %q in its output was never streamed", c.call.ID)
	}
	s.pieces = append(s.pieces, respPiece{call: n, role: whole, spot: c.spot})
	return nil
}

// streamed reports whether items were.
func (s *responsesStream) streamed() bool { return len(s.items) > 0 }

// edited applies rulings that are known to an event.
func (s *responsesStream) edited(raw []byte) []byte {
	edits := s.fixed
	for k := range s.pieces {
		p := &s.pieces[k]
		it := &s.items[p.call]
		edits = p.edits(raw, &it.call, it.ruling, edits)
	}
	if len(edits) == 0 {
		return raw
	}
	s.out = SpliceTo(s.out[:0], raw, edits)
	return s.out
}

// drop forgets what is held: a call that is not whole, and what came after it
// began.
func (s *responsesStream) drop() {
	if s.open > 0 {
		for _, it := range s.items[s.first:] {
			delete(s.calls, it.call.ID)
			delete(s.ids, it.id)
		}
		s.items = s.items[:s.first]
		s.gaveUp = true
	}
	s.open, s.current = 0, 0
	s.held, s.pieces, s.fixed, s.deciding = s.held[:0], s.pieces[:0], s.fixed[:0], s.deciding[:0]
}

func (s *responsesStream) Release(rulings []Ruling) []byte {
	for k, n := range s.deciding {
		if k < len(rulings) {
			s.items[n].ruling = rulings[k]
		}
	}
	// Where no event between the two brings a call's arguments, its first copy
	// does when it is replaced.
	for k := range s.pieces {
		p := &s.pieces[k]
		p.first = p.first || p.role == begun && !slices.ContainsFunc(s.pieces, func(o respPiece) bool {
			return o.call == p.call && (o.role == part || o.role == joined)
		})
	}
	s.deciding = s.deciding[:0]
	out := s.edited(s.held)
	s.pieces, s.fixed = s.pieces[:0], s.fixed[:0]
	return out
}
