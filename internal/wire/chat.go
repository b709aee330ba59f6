package wire

// OpenAI Chat Completions. Source of the protocol facts: OpenAI's API
// reference, "Chat Completions" and its streaming object, and what clients and
// compatible servers do with it.
//
// A chunk holds choices; the one with index 0, in first place, may carry
// pieces of calls in delta.tool_calls. A call starts with the piece that has
// its id and name, with the next index; later pieces append arguments to the
// call that started last. Clients find that call in different ways (by index,
// by id, or simply the last one, unless text came in between), so a stream in
// which these differ is refused. Calls are complete when a finish_reason comes,
// or [DONE]; from the first piece on everything is held until then.

import (
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

type chatStream struct {
	inert  Inert
	limits Limits
	t      tape.Tape

	id       string // of the completion, once seen
	calls    []Call
	open     bool // the last call may take more pieces
	holding  bool
	finished bool // a finish_reason was seen
	done     bool // [DONE] was seen
	held     []byte
	pieces   []piece
	out      []byte
}

// piece is where a part of call n stands in held. name is empty in all but its
// first part; args is −1 where it has none, and at says where they can be put.
type piece struct {
	call       int
	name, args [2]int
	at         int
}

var (
	chatTopFields    = []string{"choices"}
	chatChoiceFields = []string{"index", "delta", "finish_reason", "message", "logprobs", "content_filter_results", "stop_reason", "native_finish_reason", "token_ids", "text"}
	chatDeltaFields  = []string{"tool_calls", "function_call", "content", "reasoning_content", "reasoning", "role", "refusal", "reasoning_details", "annotations", "audio", "images"}
	chatPieceFields  = []string{"index", "id", "type", "function", "custom"}
	chatFuncFields   = []string{"name", "arguments"}
)

func (s *chatStream) Holding() bool { return s.holding }

func (s *chatStream) End() error { return nil }

func (s *chatStream) Feed(ev *sse.Event) (Step, error) {
	if !ev.HasData {
		return s.pass(ev, false)
	}
	if string(ev.Data) == "[DONE]" {
		s.done = true
		return s.pass(ev, true)
	}
	if s.done {
		return Step{}, refuse("chunk", "it comes after [DONE]")
	}
	if err := s.t.Parse(ev.Data); err != nil {
		return Step{}, refuse("chunk", "%v", err)
	}
	if s.t.Kind(0) != tape.Object {
		return Step{}, refuse("chunk", "it is %v, not an object", s.t.Kind(0))
	}
	if len(ev.Name) > 0 && string(ev.Name) != "message" && !s.inert[string(ev.Name)] && string(ev.Name) != "error" {
		return Step{}, refuse("chunk", "an unknown event name %q", ev.Name)
	}
	var top [1]int
	if err := fields(&s.t, 0, chatTopFields, top[:]); err != nil {
		return Step{}, err
	}
	if err := foreign(&s.t, "content", "output", "candidates", "message", "tool_calls", "delta"); err != nil {
		return Step{}, err
	}
	choices := top[0]
	if s.id == "" {
		s.id = s.t.Str(s.t.Get(0, "id"))
	}
	if absent(&s.t, choices) {
		if s.t.Get(0, "error") >= 0 && s.holding && !s.finished {
			// Upstream gave up inside a call: what is not whole is no call.
			s.drop()
		}
		return s.pass(ev, false)
	}
	if s.t.Kind(choices) != tape.Array {
		return Step{}, refuse("chunk", "choices is %v, not an array", s.t.Kind(choices))
	}
	finish := false
	for n, c, end := 0, choices+1, s.t.After(choices); c < end; n, c = n+1, s.t.After(c) {
		done, err := s.choice(ev, c, n)
		if err != nil {
			return Step{}, err
		}
		finish = finish || done
	}
	return s.pass(ev, finish)
}

// pass lets an event flow, or holds it while a call is incomplete. finish says
// that the calls are complete with it.
func (s *chatStream) pass(ev *sse.Event, finish bool) (Step, error) {
	if !s.holding {
		s.finished = s.finished || finish
		return Step{Flow: ev.Raw}, nil
	}
	if len(s.held)+len(ev.Raw) > s.limits.Held {
		return Step{}, refuse("reply", "more than %d bytes held", s.limits.Held)
	}
	s.held = append(s.held, ev.Raw...)
	if !finish {
		return Step{}, nil
	}
	s.finished, s.open = true, false
	return Step{Calls: s.calls}, nil
}

// choice looks at one choice and reports whether it finishes.
func (s *chatStream) choice(ev *sse.Event, c, n int) (finish bool, err error) {
	if s.t.Kind(c) != tape.Object {
		return false, refuse("choice", "it is %v, not an object", s.t.Kind(c))
	}
	var at [10]int
	if err := fields(&s.t, c, chatChoiceFields, at[:]); err != nil {
		return false, err
	}
	if !absent(&s.t, at[3]) {
		return false, refuse("choice", "a whole message inside a chunk")
	}
	if err := unknown(&s.t, c, "choice", chatChoiceFields); err != nil {
		return false, err
	}
	index, hasIndex := s.t.Int(at[0])
	if at[0] >= 0 && !hasIndex {
		return false, refuse("choice", "its index is no small number")
	}
	first := n == 0 && index == 0
	delta := at[1]
	if !absent(&s.t, delta) {
		if s.t.Kind(delta) != tape.Object {
			return false, refuse("delta", "it is %v, not an object", s.t.Kind(delta))
		}
		if err := s.delta(ev, c, delta, first); err != nil {
			return false, err
		}
	}
	return first && s.t.Kind(at[2]) == tape.String && !s.t.Empty(at[2]), nil
}

// unknown refuses members of object o, not named in known, that could be a
// call.
func unknown(t *tape.Tape, o int, where string, known []string) error {
members:
	for k, end := o+1, t.After(o); k < end; k = t.After(k + 1) {
		for _, name := range known {
			if t.Is(k, name) {
				continue members
			}
		}
		if couldCall(t, k+1) {
			return refuse(where, "an unknown member %q, which could be a call", t.Str(k))
		}
	}
	return nil
}

func (s *chatStream) delta(ev *sse.Event, c, delta int, first bool) error {
	var at [11]int
	if err := fields(&s.t, delta, chatDeltaFields, at[:]); err != nil {
		return err
	}
	if !absent(&s.t, at[1]) {
		return refuse("delta", "function_call, the retired form of a call")
	}
	if err := unknown(&s.t, delta, "delta", chatDeltaFields); err != nil {
		return err
	}
	for _, i := range at[2:] {
		if couldCall(&s.t, i) {
			return refuse("delta", "a member holds what could be a call")
		}
	}
	if first && (!absent(&s.t, at[2]) || !absent(&s.t, at[3]) || !absent(&s.t, at[4])) {
		s.open = false // some clients end a call when text comes
	}
	calls := at[0]
	if absent(&s.t, calls) {
		return nil
	}
	if s.t.Kind(calls) != tape.Array {
		return refuse("tool_calls", "it is %v, not an array", s.t.Kind(calls))
	}
	if !first {
		return refuse("tool_calls", "a call in a choice other than the first")
	}
	if s.finished {
		return refuse("tool_calls", "a call after the finish reason")
	}
	if ev.Cut {
		return refuse("tool_calls", "a call in an event that is cut off")
	}
	if what := s.undocumented(c, delta); what != "" {
		return refuse("tool_calls", "a call in a chunk whose %s some clients do not take", what)
	}
	off := offset(ev)
	if off < 0 {
		return refuse("tool_calls", "a call on several data lines")
	}
	from := len(s.pieces)
	for p, end := calls+1, s.t.After(calls); p < end; p = s.t.After(p) {
		if err := s.piece(p, off+len(s.held)); err != nil {
			return err
		}
	}
	if breaks(ev.Data) == 0 {
		return nil
	}
	var args [][]byte
	for _, p := range s.pieces[from:] {
		if p.args[0] >= 0 {
			args = append(args, ev.Data[p.args[0]-off-len(s.held):p.args[1]-off-len(s.held)])
		}
	}
	why, err := broken("tool_calls", ev.Data, args...)
	for _, p := range s.pieces[from:] {
		s.calls[p.call].Malformed = why
	}
	return err
}

// undocumented names a member of a chunk, or of its choice c, for which some
// clients drop the whole chunk and go on with the next: they check types, or
// that all chunks are of one completion.
func (s *chatStream) undocumented(c, delta int) string {
	t := &s.t
	for _, m := range []struct {
		in   int
		name string
		kind tape.Kind
	}{
		{0, "id", tape.String}, {0, "created", tape.Number}, {0, "model", tape.String}, {0, "usage", tape.Object},
		{c, "finish_reason", tape.String},
		{delta, "role", tape.String}, {delta, "content", tape.String}, {delta, "reasoning_content", tape.String}, {delta, "reasoning", tape.String},
	} {
		if k := t.Kind(t.Get(m.in, m.name)); k != tape.None && k != tape.Null && k != m.kind {
			return m.name
		}
	}
	if t.Str(t.Get(0, "id")) != s.id {
		return "id"
	}
	if r := t.Get(delta, "role"); t.Kind(r) == tape.String && !t.Is(r, "assistant") {
		return "role"
	}
	return ""
}

// piece takes one element of tool_calls; off is where the data of its event
// will stand in held.
func (s *chatStream) piece(p, off int) error {
	const where = "tool_calls"
	t := &s.t
	if t.Kind(p) != tape.Object {
		return refuse(where, "an element is %v, not an object", t.Kind(p))
	}
	var at [5]int
	if err := fields(t, p, chatPieceFields, at[:]); err != nil {
		return err
	}
	if err := unknown(t, p, where, chatPieceFields); err != nil {
		return err
	}
	if !absent(t, at[4]) || !absent(t, at[2]) && !t.Is(at[2], "function") {
		return refuse(where, "a call of a type other than function")
	}
	index, ok := t.Int(at[0])
	if !ok {
		return refuse(where, "a call without an index")
	}
	fn := at[3]
	if t.Kind(fn) != tape.Object {
		return refuse(where, "function is %v, not an object", t.Kind(fn))
	}
	var fat [2]int
	if err := fields(t, fn, chatFuncFields, fat[:]); err != nil {
		return err
	}
	if err := alias(t, p, fn); err != nil {
		return err
	}
	name, args := fat[0], fat[1]
	for _, i := range []int{at[1], name, args} {
		if k := t.Kind(i); k != tape.None && k != tape.Null && k != tape.String {
			return refuse(where, "an id, a name or arguments that are %v, not a string", k)
		}
	}
	pc := piece{name: [2]int{-1, -1}, args: [2]int{-1, -1}, at: -1}
	switch {
	case index == len(s.calls):
		if absent(t, at[1]) || absent(t, name) {
			return refuse(where, "a call without an id and a name")
		}
		if index == s.limits.Calls {
			return refuse(where, "more than %d calls in one reply", s.limits.Calls)
		}
		c := Call{Index: index, ID: t.Str(at[1]), Name: t.Str(name)}
		for _, o := range s.calls {
			if o.ID == c.ID {
				return refuse(where, "two calls with the id %q", c.ID)
			}
		}
		s.calls = append(s.calls, c)
		s.open, s.holding = true, true
		pc.name = place(t, name, off)
		_, e := t.Span(fn)
		pc.at = e - 1 + off
	case index == len(s.calls)-1:
		c := &s.calls[index]
		if !s.open {
			return refuse(where, "a call that goes on after other content")
		}
		if !absent(t, at[1]) && !t.Is(at[1], c.ID) || !absent(t, name) && !t.Is(name, c.Name) {
			return refuse(where, "a call that changes its id or name")
		}
	default:
		return refuse(where, "index %d, where call %d is open", index, len(s.calls)-1)
	}
	if pc.at < 0 && t.Kind(name) == tape.String {
		pc.name = place(t, name, off) // repeated: it must not outlive a refusal
	}
	pc.call = index
	c := &s.calls[index]
	if t.Kind(args) == tape.String {
		pc.args = place(t, args, off)
		c.Args = t.AppendStr(c.Args, args)
		if len(c.Args) > s.limits.Call {
			return refuse(where, "a call of more than %d bytes", s.limits.Call)
		}
		if t.LoneSurrogate() {
			c.Malformed = "half a surrogate pair in the arguments"
		}
	} else if args >= 0 {
		pc.args = place(t, args, off) // null
	}
	s.pieces = append(s.pieces, pc)
	return nil
}

// alias refuses a call, with its function fn, that says a second time under
// another name what it calls and with what.
func alias(t *tape.Tape, call, fn int) error {
	for _, name := range []string{"name", "arguments", "input", "parameters", "args"} {
		if !absent(t, t.Get(call, name)) {
			return refuse("tool_calls", "a call with a member %q beside its function", name)
		}
		if name != "name" && name != "arguments" && !absent(t, t.Get(fn, name)) {
			return refuse("tool_calls", "a function with a member %q beside its arguments", name)
		}
	}
	return nil
}

func (s *chatStream) drop() {
	s.calls, s.held, s.pieces = nil, s.held[:0], s.pieces[:0]
	s.holding, s.open, s.finished = false, false, true
}

func (s *chatStream) Release(rulings []Ruling) []byte {
	held := s.held
	var edits []Edit
	for _, p := range s.pieces {
		if p.call >= len(rulings) || !rulings[p.call].Replace {
			continue
		}
		r := rulings[p.call]
		first := p.at >= 0
		args := []byte(`""`)
		if first {
			args = tape.Quote(nil, string(r.Args))
			edits = append(edits, Edit{p.name[0], p.name[1], tape.Quote(nil, r.Name)})
		} else if p.name[0] >= 0 {
			edits = append(edits, Edit{p.name[0], p.name[1], []byte(`""`)})
		}
		switch {
		case p.args[0] >= 0:
			edits = append(edits, Edit{p.args[0], p.args[1], args})
		case first:
			edits = append(edits, Edit{p.at, p.at, append([]byte(`,"arguments":`), args...)})
		}
	}
	s.out = Splice(held, edits)
	s.calls, s.pieces = nil, s.pieces[:0]
	s.holding = false
	s.held = nil
	return s.out
}

// chat indexes the calls of a whole reply.
func (r *Reply) chat(t *tape.Tape, l Limits) error {
	var top [1]int
	if err := fields(t, 0, chatTopFields, top[:]); err != nil {
		return err
	}
	if err := foreign(t, "content", "output", "candidates", "message", "tool_calls"); err != nil {
		return err
	}
	choices := top[0]
	if absent(t, choices) {
		return nil
	}
	if t.Kind(choices) != tape.Array {
		return refuse("choices", "it is %v, not an array", t.Kind(choices))
	}
	for n, c, end := 0, choices+1, t.After(choices); c < end; n, c = n+1, t.After(c) {
		if t.Kind(c) != tape.Object {
			return refuse("choice", "it is %v, not an object", t.Kind(c))
		}
		var at [10]int
		if err := fields(t, c, chatChoiceFields, at[:]); err != nil {
			return err
		}
		if err := unknown(t, c, "choice", chatChoiceFields); err != nil {
			return err
		}
		if !absent(t, at[1]) {
			return refuse("choice", "a delta in a whole reply")
		}
		index, ok := t.Int(at[0])
		if at[0] >= 0 && !ok {
			return refuse("choice", "its index is no small number")
		}
		if absent(t, at[3]) {
			continue
		}
		if err := r.message(t, at[3], n == 0 && index == 0, l); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reply) message(t *tape.Tape, m int, first bool, l Limits) error {
	if t.Kind(m) != tape.Object {
		return refuse("message", "it is %v, not an object", t.Kind(m))
	}
	var at [11]int
	if err := fields(t, m, chatDeltaFields, at[:]); err != nil {
		return err
	}
	if !absent(t, at[1]) {
		return refuse("message", "function_call, the retired form of a call")
	}
	if err := unknown(t, m, "message", chatDeltaFields); err != nil {
		return err
	}
	for _, i := range at[2:] {
		if couldCall(t, i) {
			return refuse("message", "a member holds what could be a call")
		}
	}
	calls := at[0]
	if absent(t, calls) {
		return nil
	}
	if t.Kind(calls) != tape.Array {
		return refuse("tool_calls", "it is %v, not an array", t.Kind(calls))
	}
	if !first {
		return refuse("tool_calls", "a call in a choice other than the first")
	}
	for p, end := calls+1, t.After(calls); p < end; p = t.After(p) {
		var pat [5]int
		if err := fields(t, p, chatPieceFields, pat[:]); err != nil {
			return err
		}
		if err := unknown(t, p, "tool_calls", chatPieceFields); err != nil {
			return err
		}
		if !absent(t, pat[4]) || !absent(t, pat[2]) && !t.Is(pat[2], "function") {
			return refuse("tool_calls", "a call of a type other than function")
		}
		var fat [2]int
		if err := fields(t, pat[3], chatFuncFields, fat[:]); err != nil {
			return err
		}
		if err := alias(t, p, pat[3]); err != nil {
			return err
		}
		if t.Kind(pat[1]) != tape.String || t.Empty(pat[1]) || t.Kind(fat[0]) != tape.String {
			return refuse("tool_calls", "a call without an id and a name")
		}
		if k := t.Kind(fat[1]); k != tape.None && k != tape.Null && k != tape.String {
			return refuse("tool_calls", "arguments that are %v, not a string", k)
		}
		c := Call{ID: t.Str(pat[1]), Name: t.Str(fat[0])}
		_, e := t.Span(pat[3])
		s := spot{name: place(t, fat[0], 0), args: [2]int{-1, -1}, at: e - 1}
		if fat[1] >= 0 {
			s.args = place(t, fat[1], 0)
			c.Args = t.AppendStr(nil, fat[1])
			if loneIn(t, fat[1]) {
				c.Malformed = "half a surrogate pair in the arguments"
			}
		}
		if err := r.add(c, s, l); err != nil {
			return err
		}
	}
	return nil
}

// loneIn reports half a surrogate pair in string i.
func loneIn(t *tape.Tape, i int) bool {
	if !t.LoneSurrogate() {
		return false
	}
	var one tape.Tape
	return one.Parse(t.Raw(i)) == nil && one.LoneSurrogate()
}
