package wire

import (
	"bytes"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// Told is what a reply says about itself beside its content. Its slices are
// the caller's.
type Told struct {
	ID string
	// Usage is the last object that counts tokens. A Messages stream counts at
	// its start what went in and at its end what came out: then First is the
	// one at the start.
	First, Usage []byte
	// Diagnostics is what the provider says about its cache.
	Diagnostics []byte
}

// Sources: Anthropic's API reference ("Streaming messages": message_start has
// the message with its id and usage, message_delta the cumulative usage; "Cache
// diagnostics": a member diagnostics of the message), OpenAI's (the usage of a
// chunk or a completion; prompt_cache_diagnostics of a response, which the
// event response.completed repeats whole).

// Tell adds to what is known what the event says that st has just been fed
// with. The event was indexed by Feed, and is not read again.
func (o *Told) Tell(st Stream, ev *sse.Event) {
	if !ev.HasData {
		return
	}
	switch s := st.(type) {
	case *messagesStream:
		if ev.Name == nil && string(ev.Data) == "[DONE]" {
			return // not indexed
		}
		o.messages(&s.t)
	case *chatStream:
		if string(ev.Data) != "[DONE]" {
			o.responses(&s.t, 0) // a chunk has the same members
		}
	default:
		if head := ev.Data[:min(64, len(ev.Data))]; bytes.Contains(head, []byte("response.c")) || bytes.Contains(head, []byte("response.incomplete")) || bytes.Contains(head, []byte("response.failed")) {
			var t tape.Tape
			if t.Parse(ev.Data) == nil {
				o.responses(&t, t.Get(0, "response"))
			}
		}
	}
}

func (o *Told) messages(t *tape.Tape) {
	switch typ := t.Get(0, "type"); {
	case t.Is(typ, "message_start"):
		m := t.Get(0, "message")
		o.id(t, m)
		o.First = object(t, m, "usage")
		o.diagnostics(t, m, "diagnostics")
	case t.Is(typ, "message_delta"):
		if u := object(t, 0, "usage"); u != nil {
			o.Usage = u
		}
		o.diagnostics(t, 0, "diagnostics")
		o.diagnostics(t, t.Get(0, "delta"), "diagnostics")
	}
}

// responses takes a response object, of the events response.created,
// response.completed, response.incomplete and response.failed, or whole.
func (o *Told) responses(t *tape.Tape, r int) {
	o.id(t, r)
	if u := object(t, r, "usage"); u != nil {
		o.Usage = u
	}
	o.diagnostics(t, r, "prompt_cache_diagnostics")
}

// TellReply is Tell for a whole reply in JSON.
func (o *Told) TellReply(d Dialect, body []byte) {
	var t tape.Tape
	if t.Parse(body) != nil {
		return
	}
	o.responses(&t, 0)
	if d == Messages {
		o.diagnostics(&t, 0, "diagnostics")
	}
}

func (o *Told) id(t *tape.Tape, i int) {
	if o.ID == "" {
		if id := t.Get(i, "id"); t.Kind(id) == tape.String && len(t.Raw(id)) <= maxID {
			o.ID = t.Str(id)
		}
	}
}

// maxID is the longest id of a reply that is kept, in bytes.
const maxID = 1 << 10

func (o *Told) diagnostics(t *tape.Tape, i int, name string) {
	if d := t.Get(i, name); d >= 0 {
		o.Diagnostics = bytes.Clone(t.Raw(d))
	}
}

func object(t *tape.Tape, i int, name string) []byte {
	if u := t.Get(i, name); t.Kind(u) == tape.Object {
		return bytes.Clone(t.Raw(u))
	}
	return nil
}
