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
	"strconv"
	"sync"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/schema"
)

// Result is a rewritten body and what was done to it.
type Result struct {
	Body []byte
	// Tools are the declarations of the request's tools, in order.
	Tools []*Tool
	// Restored counts refusals in the history that became the model's own
	// calls again.
	Restored envelope.Restored
}

// Tool is what is known of one tool from its declaration alone. It is shared
// between requests and must not be changed.
type Tool struct {
	wire.Declaration
	Params []agents.Param
	// Narrowed is the declaration without the fields that can't be granted;
	// the same slice as the original when nothing was removed.
	Narrowed []byte
	Report   schema.Report
	// Changed says that Narrowed differs from the original.
	Changed bool

	dialect  wire.Dialect
	original []byte
}

// Removed lists what was taken out, as JSON pointers into the body.
func (r *Result) Removed() []string {
	var out []string
	for i, t := range r.Tools {
		for _, p := range t.Report.Removed {
			out = append(out, "/tools/"+strconv.Itoa(i)+p)
		}
	}
	return out
}

// Apply rewrites the body that q was read from. keys may be nil: then nothing
// is restored.
func Apply(q *wire.Request, body []byte, n *Narrower, keys *envelope.Keyring) Result {
	var res Result
	var edits []wire.Edit
	res.Tools = make([]*Tool, len(q.Tools))
	for i, t := range q.Tools {
		tool := n.Tool(q.Dialect, body[t.Start:t.End])
		res.Tools[i] = tool
		if tool.Changed {
			edits = append(edits, wire.Edit{Start: t.Start, End: t.End, New: tool.Narrowed})
		}
	}
	if keys != nil {
		var more []wire.Edit
		more, res.Restored = keys.Restore(q)
		edits = append(edits, more...)
	}
	res.Body = wire.Splice(body, edits)
	return res
}

// Narrower narrows tools by one set of rules and remembers the answers: a
// session declares the same tools with every request. The memory changes
// nothing but the time it takes. It is safe for concurrent use.
type Narrower struct {
	rules schema.Rules
	seed  maphash.Seed
	limit int

	mu    sync.Mutex
	known map[uint64]*Tool
	size  int
}

const memory = 16 << 20 // bytes of declarations remembered

// NewNarrower narrows by rules, which must not be changed afterwards. Empty
// rules narrow nothing.
func NewNarrower(rules schema.Rules) *Narrower {
	return &Narrower{rules: rules, seed: maphash.MakeSeed(), limit: memory, known: map[uint64]*Tool{}}
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
	t.Declaration = wire.Declare(d, t.original)
	t.Params = agents.Params(t.Schema)
	t.Narrowed, t.Report = schema.Narrow(t.original, n.rules)
	t.Changed = len(t.Narrowed) != len(t.original) // narrowing only removes
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.size += len(tool); n.size > n.limit {
		clear(n.known)
		n.size = len(tool)
	}
	n.known[sum] = t
	return t
}
