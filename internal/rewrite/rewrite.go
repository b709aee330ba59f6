// Package rewrite is the way up as one pure function: package wire locates,
// schema narrows, envelope restores, and the body is spliced once.
//
// The result depends on the body, the rules and the keys alone. Outside of the
// edited spans not one byte moves, and a body in which nothing is to be edited
// is returned as the very same slice.
package rewrite

import (
	"bytes"
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/schema"
)

// Result is a rewritten body and what was done to it.
type Result struct {
	Body []byte
	// Tools are the declarations of the request's tools, in order, those that
	// were dropped included. The slice is shared between requests and must not
	// be changed.
	Tools []*Tool
	// Removed is what tools lost, as JSON pointers into the body as it came.
	Removed []string
	// Texts are the texts that lost something, or look as if they should have,
	// in order.
	Texts []Text
	// Stayed counts texts of which nothing would have been left and which could
	// not go, since their message would have been left with none.
	Stayed int
	// Restored counts refusals in the history that became the model's own
	// calls again.
	Restored envelope.Restored
}

// Tool is what is known of one tool from its declaration alone. It is shared
// between requests and must not be changed.
type Tool struct {
	// Name is the element's own, "" for none: a namespace's, say.
	Name string
	// Declared is what can be called: the element itself, or each tool of a
	// namespace.
	Declared []Declared
	// Narrowed is the declaration without the fields that can't be granted;
	// the same slice as the original when nothing was removed.
	Narrowed []byte
	Report   schema.Report
	// Changed says that Narrowed differs from the original.
	Changed bool

	dialect  wire.Dialect
	original []byte
}

// Declared is one declaration, and what it gives away of its parameters.
type Declared struct {
	wire.Declaration
	Params []agents.Param
}

// Declare reads what an element of a request's tools declares. Schemas are
// slices of tool.
func Declare(d wire.Dialect, tool []byte) []Declared {
	var out []Declared
	for _, decl := range wire.Declarations(d, tool) {
		out = append(out, Declared{decl, agents.Params(decl.Schema)})
	}
	return out
}

// Text is what became of one text beside the tools.
type Text struct {
	Role   string // system, developer, user or tool
	Tool   string // of a result
	Report schema.TextReport
}

// Apply rewrites the body that q was read from. keys may be nil: then nothing
// is restored.
func Apply(q *wire.Request, body []byte, n *Narrower, keys *envelope.Keyring) Result {
	return ApplyTo(nil, q, body, n, keys)
}

// ApplyTo is Apply with memory for the new body: that behind dst, whose length
// is 0, is used as far as it is large enough.
func ApplyTo(dst []byte, q *wire.Request, body []byte, n *Narrower, keys *envelope.Keyring) Result {
	var res Result
	var edits []wire.Edit
	var gone []wire.Tool
	res.Tools = n.tools(q, body)
	for i, t := range q.Tools {
		switch tool := res.Tools[i]; {
		case tool.Report.Dropped:
			gone = append(gone, t)
			res.Removed = append(res.Removed, t.Pointer())
		case tool.Changed:
			for _, p := range tool.Report.Removed {
				res.Removed = append(res.Removed, t.Pointer()+p)
			}
			edits = append(edits, wire.Edit{Start: t.Start, End: t.End, New: tool.Narrowed})
		}
	}
	if len(gone) > 0 {
		kept, rest := heirs(q, res.Tools, edits)
		edits = append(kept, q.CutTools(rest)...)
		choice, pointer := q.CutChoice(gone)
		if edits = append(edits, choice...); pointer != "" {
			res.Removed = append(res.Removed, pointer)
		}
	}
	var restored []wire.Edit
	if keys != nil {
		restored, res.Restored = keys.Restore(q)
		edits = append(edits, restored...)
	}
	edits = append(edits, n.texts(q, body, restored, &res)...)
	res.Body = wire.SpliceTo(dst, body, edits)
	return res
}

// Narrower narrows tools by one set of rules and remembers the answers: a
// session declares the same tools with every request. The memory changes
// nothing but the time it takes. It is safe for concurrent use.
type Narrower struct {
	rules    schema.Rules
	opts     Options
	contexts []string // beginnings of user texts that a client wrote
	names    [][]byte // of the fields and tools that go
	seed     maphash.Seed
	limit    int

	mu    sync.Mutex
	known map[uint64]*Tool
	last  []*Tool // of the last request
	said  map[uint64]*text
	size  int
}

// Options switch off parts of the narrowing.
type Options struct {
	// KeepTexts leaves system, developer and context messages alone.
	KeepTexts bool
	// KeepHints leaves what clients append to the results of calls.
	KeepHints bool
}

// text is a remembered text.
type text struct {
	kind     byte
	original []byte
	narrowed []byte
	report   schema.TextReport
}

const memory = 16 << 20 // bytes of declarations remembered

// NewNarrower narrows by rules, which must not be changed afterwards. Empty
// rules narrow nothing.
func NewNarrower(rules schema.Rules, o Options) *Narrower {
	n := &Narrower{rules: rules, opts: o, contexts: agents.Builtin().Contexts(), seed: maphash.MakeSeed(), limit: memory, known: map[uint64]*Tool{}, said: map[uint64]*text{}}
	names := map[string]bool{}
	for _, fields := range rules.Tools {
		for _, f := range fields {
			names[f.Name] = true
		}
	}
	for _, name := range rules.Drop {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n.names = append(n.names, []byte(name))
	}
	return n
}

// tools reads and narrows the tools of a request. Requests of a session mostly
// declare the same ones, so they share the list.
func (n *Narrower) tools(q *wire.Request, body []byte) []*Tool {
	n.mu.Lock()
	list := n.last
	n.mu.Unlock()
	own := false
	for i, t := range q.Tools {
		tool := n.Tool(q.Dialect, body[t.Start:t.End])
		switch {
		case own:
			list = append(list, tool)
		case i >= len(list) || list[i] != tool:
			list = append(make([]*Tool, 0, len(q.Tools)), list[:i]...)
			list, own = append(list, tool), true
		}
	}
	if own {
		n.mu.Lock()
		n.last = list
		n.mu.Unlock()
	}
	return list[:len(q.Tools):len(q.Tools)]
}

// Tool reads and narrows one element of a request's tools.
func (n *Narrower) Tool(d wire.Dialect, tool []byte) *Tool {
	var h maphash.Hash
	h.SetSeed(n.seed)
	h.WriteString(string(d))
	h.WriteByte(0)
	h.Write(tool)
	sum := h.Sum64()
	n.mu.Lock()
	t := n.known[sum]
	n.mu.Unlock()
	if t != nil && t.dialect == d && bytes.Equal(t.original, tool) {
		return t
	}
	t = &Tool{dialect: d, original: bytes.Clone(tool)}
	t.Name = wire.Declare(d, t.original).Name
	t.Declared = Declare(d, t.original)
	t.Narrowed, t.Report = schema.Narrow(t.original, n.rules)
	t.Changed = len(t.Narrowed) != len(t.original) // narrowing only removes
	n.mu.Lock()
	defer n.mu.Unlock()
	n.room(len(tool))
	n.known[sum] = t
	return t
}

// room makes room for one more entry; the lock is held.
func (n *Narrower) room(size int) {
	if n.size += size; n.size > n.limit {
		clear(n.known)
		clear(n.said)
		n.size = size
	}
}

// Kinds of texts, by what is narrowed in them.
const (
	free = 't' // what a client says to the model
	hint = 'h' // what a client appends to a result
)

// texts narrows the texts of a request beside its tools. The result of a
// restored call is the refusal's text already.
func (n *Narrower) texts(q *wire.Request, body []byte, restored []wire.Edit, res *Result) (edits []wire.Edit) {
	if len(n.names) == 0 {
		return nil
	}
	var gone []wire.Text
	for _, x := range q.Texts {
		if slices.ContainsFunc(restored, func(e wire.Edit) bool { return e.Start < x.End && x.Start < e.End }) {
			continue
		}
		raw := body[x.Start:x.End]
		kind, tool := byte(free), ""
		switch x.Role {
		case "system", "developer":
			if n.opts.KeepTexts || !n.mentions(raw) {
				continue
			}
		case "user":
			if n.opts.KeepTexts || !n.context(raw) || !n.mentions(raw) {
				continue
			}
		case "tool":
			// A hint stands at the end; the rest is what a command printed.
			if n.opts.KeepHints || !endsInBracket(raw) || !n.mentions(raw[max(0, len(raw)-hintReach):]) {
				continue
			}
			if tool = q.Tool(x); n.rules.Tools[tool] == nil {
				continue
			}
			kind = hint
		default:
			continue
		}
		t := n.text(kind, raw)
		if len(t.narrowed) == len(raw) && len(t.report.Suspicious) == 0 {
			continue
		}
		done := Text{Role: x.Role, Tool: tool, Report: t.report}
		switch {
		case len(t.narrowed) == len(raw):
		case !t.report.Empty:
			edits = append(edits, wire.Edit{Start: x.Start, End: x.End, New: t.narrowed})
		case kind == free && !q.Sole(x):
			gone = append(gone, x)
		default:
			res.Stayed++
		}
		res.Texts = append(res.Texts, done)
	}
	if len(gone) > 0 {
		more, stayed := q.CutTexts(gone)
		edits = append(edits, more...)
		res.Stayed += stayed
	}
	return edits
}

// endsInBracket reports whether the last thing in a string token, white space
// aside, is a closing bracket, as after a hint.
func endsInBracket(raw []byte) bool {
	raw = raw[:len(raw)-1]
	for {
		switch {
		case bytes.HasSuffix(raw, []byte(`\n`)), bytes.HasSuffix(raw, []byte(`\r`)), bytes.HasSuffix(raw, []byte(`\t`)):
			raw = raw[:len(raw)-2]
		case bytes.HasSuffix(raw, []byte(" ")):
			raw = raw[:len(raw)-1]
		default:
			return bytes.HasSuffix(raw, []byte("]")) || bytes.HasSuffix(raw, []byte(`\u005d`)) || bytes.HasSuffix(raw, []byte(`\u005D`))
		}
	}
}

// hintReach is how far from the end of a result a hint is looked for, in bytes.
const hintReach = 4 << 10

// mentions reports whether raw may name one of the fields or tools that go. An
// escape of an ASCII letter could spell one, so it counts.
func (n *Narrower) mentions(raw []byte) bool {
	for _, name := range n.names {
		if bytes.Contains(raw, name) {
			return true
		}
	}
	return bytes.Contains(raw, []byte(`\u00`))
}

// context reports whether a user's text is one that a client wrote.
func (n *Narrower) context(raw []byte) bool {
	for _, c := range n.contexts {
		if len(raw) > len(c) && string(raw[1:len(c)+1]) == c {
			return true
		}
	}
	return false
}

// text narrows one string token, or remembers what became of it.
func (n *Narrower) text(kind byte, raw []byte) *text {
	var h maphash.Hash
	h.SetSeed(n.seed)
	h.WriteByte(kind)
	h.Write(raw)
	sum := h.Sum64()
	n.mu.Lock()
	t := n.said[sum]
	n.mu.Unlock()
	if t != nil && t.kind == kind && bytes.Equal(t.original, raw) {
		return t
	}
	t = &text{kind: kind, original: bytes.Clone(raw)}
	if kind == hint {
		t.narrowed, t.report = schema.NarrowHint(t.original, n.rules)
	} else {
		t.narrowed, t.report = schema.NarrowText(t.original, n.rules)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.room(len(raw))
	n.said[sum] = t
	return t
}
