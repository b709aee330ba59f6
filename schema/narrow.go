// Package schema takes out of a tool's declaration the options that a session
// can never be granted, so that the model never sees them.
//
// The root idea: a tool is one JSON value in a request, and narrowing it is a
// deletion of bytes, nothing else. The package finds spans, cuts them, and
// leaves every other byte where it was. Key order, white space, escapes and
// cache_control are the client's own afterwards, so a prompt cache sees the
// same bytes at each turn of a session.
//
// What leaves a tool: the field among its properties, every other place of its
// schema that only makes sense with the field, its line in a declaration that
// is written as TypeScript, and the prose that speaks of it. Prose is judged
// by its structure and by what a sentence is about; no client's text is known
// here. See shape.go for the shapes of a tool, keyword.go for its schema,
// script.go for TypeScript, prose.go for how a text is taken apart, about.go
// for what a sentence is about, and run.go for how far a cut reaches.
//
// [Narrow] is for tools, [NarrowText] and [NarrowHint] are for the texts in
// which clients explain the same options: system and developer messages, and
// what a client appends to a tool's result.
//
// The package is pure: the result depends on the arguments only. Nothing that
// a caller could notice is kept between calls, and all of it is safe for
// concurrent use.
package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Rules says which fields of which tools can never be granted. It is fixed for
// a session: the same rules must be used for each request of it, or the
// rewritten bytes move. The functions of this package only read it. The zero
// value removes nothing.
//
// The JSON form is stable, since recordings carry it.
type Rules struct {
	// Tools maps a tool's name, compared byte for byte with the decoded name
	// in the request, to the fields it loses. A function that is declared
	// inside another tool's description, as Codex's code mode does, is a tool
	// of its own name here.
	Tools map[string][]Field `json:"tools,omitempty"`
	// Drop lists tools that go as a whole. Narrow takes them out of a
	// namespace and out of declarations inside a description; for an element
	// of the tools array itself, see Drops.
	Drop []string `json:"drop,omitempty"`
}

// Field is one option of a tool.
type Field struct {
	// Name is the property's name, compared with the decoded key.
	Name string `json:"name"`
	// Values are the field's values that ask for more than the session has,
	// as prose may offer them without naming the field. Only those that can
	// be nothing else in a sentence are looked for: danger-full-access, but
	// not true.
	Values []string `json:"values,omitempty"`
	// DeadValues, when there are any, are all that goes: the field stays and
	// loses these of its values. An enum that would lose its last value
	// keeps all of them, and the report says so.
	DeadValues []string `json:"dead_values,omitempty"`
	// Nested removes the field from object schemas below the tool's own as
	// well. Without it a nested property of the same name is somebody else's
	// and stays.
	Nested bool `json:"nested,omitempty"`
}

// Kind says what sort of thing was cut.
type Kind string

// The kinds of a cut.
const (
	KindProperty    Kind = "property"    // a field among properties
	KindRequired    Kind = "required"    // its name in required, propertyOrdering or propertyNames
	KindDependency  Kind = "dependency"  // a dependency on it, or of it
	KindCondition   Kind = "condition"   // if, then, else or not that turns on it
	KindAlternative Kind = "alternative" // a member of allOf, anyOf or oneOf
	KindDefinition  Kind = "definition"  // a definition that nothing refers to any more
	KindExample     Kind = "example"     // a member or element of a default or an example
	KindValue       Kind = "value"       // a dead value of a field that stays
	KindTool        Kind = "tool"        // a tool or function as a whole
	KindDeclaration Kind = "declaration" // a line of TypeScript, with its comments
	KindProse       Kind = "prose"       // text
)

// Cut is one piece that was removed.
type Cut struct {
	// At is the JSON pointer (RFC 6901) of the removed member or element, or
	// of the string that lost text.
	At   string `json:"at"`
	Kind Kind   `json:"kind"`
	// Bytes is how much was deleted of the raw text, commas and white space
	// that went along included. Members that stood together are cut as one;
	// the first of them carries the size.
	Bytes int `json:"bytes"`
	// Text is the removed text, decoded, of prose and declarations.
	Text string `json:"text,omitempty"`
}

// Report says what Narrow did to one tool. Its slices are new and belong to
// the caller.
type Report struct {
	// Tool is the tool's decoded name, "" when there is none to read.
	Tool string
	// Removed are the JSON pointers (RFC 6901) of the removed members and
	// elements in the order of the input. A pointer into a list is as it was
	// in the input.
	Removed []string
	// Prose is the removed text, decoded, one entry a cut.
	Prose []string
	// Suspicious describes what looked like an option or like a text about
	// one, and stayed; and why a tool was left alone if that is remarkable.
	// For people: the wording may change.
	Suspicious []string
	// Cuts are all removals, with their kind and size.
	Cuts []Cut
	// Dropped says that the rules drop this tool as a whole. Narrow then
	// returns it as it was: the element and its comma are the caller's.
	Dropped bool
}

// suspect adds a line to Suspicious, once.
func (r *Report) suspect(format string, args ...any) {
	if len(r.Suspicious) >= maxSuspicions {
		return
	}
	if line := fmt.Sprintf(format, args...); !slices.Contains(r.Suspicious, line) {
		r.Suspicious = append(r.Suspicious, line)
	}
}

const (
	// maxSuspicions bounds a report on a hostile or merely repetitive tool.
	maxSuspicions = 64
	// maxPasses bounds the search for a text that narrowing leaves alone.
	// Two are usual: one that cuts and one that finds nothing more.
	maxPasses = 8
)

// tapes keeps the memory of indexes: a session's tools are narrowed one after
// the other, and most of them only to find that no rule names them.
var tapes = sync.Pool{New: func() any { return new(tape.Tape) }}

func release(t *tape.Tape) {
	if t.Len() < 1<<16 {
		tapes.Put(t)
	}
}

// Narrow removes from one element of a request's tools array the fields that r
// lists for the tool of that name.
//
// The shapes that are understood: Anthropic Messages ({name, description,
// input_schema}), OpenAI Chat ({type:"function", function:{name, description,
// parameters}}, {type:"custom", custom:{…}}), OpenAI Responses
// ({type:"function", name, description, parameters}, {type:"custom", name,
// description}, {type:"namespace", tools:[…]} at any depth) and Gemini
// ({functionDeclarations:[…]}), each as in the provider's API reference for
// tools. A tool in a namespace goes by its own name. Everything else is left
// alone: a tool that no rule names, a tool that the provider runs itself, an
// unknown type, bytes that are not JSON or not UTF-8, nesting over 1000 deep.
//
// A key that an object repeats is looked at wherever it stands, since parsers
// disagree about which one counts: so is a tool that mixes two shapes.
//
// The result is a subsequence of the input's bytes. When nothing is removed it
// is the very slice that came in; otherwise it is a new slice that belongs to
// the caller. The input is never written to. Valid JSON stays valid JSON, and
// narrowing a result again returns that result itself.
//
// A description whose whole text is about removed fields becomes the empty
// string; the member stays, because taking it away could break a client's or a
// provider's schema of a tool.
func Narrow(tool []byte, r Rules) ([]byte, Report) {
	if len(r.Tools) == 0 && len(r.Drop) == 0 {
		return tool, Report{}
	}
	t := tapes.Get().(*tape.Tape)
	defer release(t)
	if err := t.ParseRepeats(tool); err != nil {
		return tool, Report{Suspicious: []string{fmt.Sprintf("the tool was not read (%v); left as it is", err)}}
	}
	if name, ok := r.ignores(t); ok {
		return tool, Report{Tool: name}
	}
	return narrow(t, tool, r)
}

// narrow is Narrow for a tool that a closer look is due to.
func narrow(t *tape.Tape, tool []byte, r Rules) ([]byte, Report) {
	var rep Report
	out := tool
	// Cutting a sentence makes neighbours of two others, so a second pass
	// could in principle see a run that the first did not. Passes are
	// therefore repeated until one removes nothing: that is what makes Narrow
	// idempotent by construction rather than by hope. A text that is still
	// moving after maxPasses is hostile; then only the schema is narrowed.
	for n := range 2 * maxPasses {
		if n == maxPasses {
			out, rep = tool, Report{}
			rep.suspect("the prose changed its meaning with each of %d cuts; it is left as it is", maxPasses)
		}
		if t.ParseRepeats(out) != nil {
			break // not reached: a cut leaves JSON
		}
		p := narrower{Tape: t, src: out, rules: &r, rep: &rep, mute: n >= maxPasses, again: n > 0}
		next := p.pass()
		if next == nil {
			return out, rep
		}
		out = next
	}
	return tool, Report{Tool: rep.Tool, Suspicious: []string{"the tool kept changing; left as it is"}}
}

// Drops reports whether the rules remove this element of a tools array as a
// whole: a tool whose name is in Drop, or a namespace of which nothing would
// be left. The caller cuts it together with one comma. Tools of a type that
// Narrow leaves alone, and bytes that are not JSON, are never dropped.
func (r Rules) Drops(tool []byte) bool {
	if len(r.Drop) == 0 {
		return false
	}
	t := tapes.Get().(*tape.Tape)
	defer release(t)
	if t.ParseRepeats(tool) != nil {
		return false
	}
	n := narrower{Tape: t, src: tool, rules: &r, rep: &Report{}}
	return n.drops(0)
}

// narrower is one pass over one tool or text.
type narrower struct {
	*tape.Tape
	src   []byte
	rules *Rules
	rep   *Report
	mute  bool // leave prose alone
	again bool // the tool was cut before: what was strange has been said

	removals []removal
	textual  []textCut
	scopes   []*scope
}

// removal is a child of an object or array that goes: a key's node, or an
// element's.
type removal struct {
	parent place
	child  int
	at     *path
	kind   Kind
}

// textCut is a piece of a string that goes.
type textCut struct {
	span // raw
	at   *path
	text string
	kind Kind
}

// pass narrows the tool once. It returns nil when there is nothing to remove.
func (n *narrower) pass() []byte {
	if n.drops(0) {
		n.rep.Tool, n.rep.Dropped = n.toolName(0), true
		return nil
	}
	n.tool(place{node: 0})
	n.order()
	for _, s := range n.scopes {
		n.prose(s)
	}
	cuts := n.settle()
	if len(cuts) == 0 {
		n.remains()
		return nil
	}
	return cut(n.src, cuts)
}

// remove takes a child out. at is the child's own path.
func (n *narrower) remove(parent place, child int, at *path, kind Kind) {
	n.removals = append(n.removals, removal{parent, child, at, kind})
}

// end is the node after a child's subtree; the child may be a key.
func (n *narrower) endOf(x removal) int {
	if n.Kind(x.parent.node) == tape.Object {
		return n.After(x.child + 1)
	}
	return n.After(x.child)
}

// within reports whether a node goes with one of the removals, which are in
// order.
func (n *narrower) within(node int) bool {
	i := sort.Search(len(n.removals), func(i int) bool { return n.removals[i].child > node })
	return i > 0 && node < n.endOf(n.removals[i-1])
}

// order sorts the removals by their place and leaves out what goes with a
// larger one.
func (n *narrower) order() {
	slices.SortStableFunc(n.removals, func(a, b removal) int { return cmp.Compare(a.child, b.child) })
	kept := n.removals[:0]
	end := 0
	for _, x := range n.removals {
		if x.child >= end {
			kept = append(kept, x)
			end = n.endOf(x)
		}
	}
	n.removals = kept
}

// settle turns what should go into raw spans, and reports it.
func (n *narrower) settle() []span {
	n.order()
	var cuts []span
	sizes := map[int]int{} // removal → bytes of the cut that begins with it
	byParent := map[int][]int{}
	var parents []int
	for i, x := range n.removals {
		p := x.parent.node
		if byParent[p] == nil {
			parents = append(parents, p)
		}
		byParent[p] = append(byParent[p], i)
	}
	for _, p := range parents {
		gone := byParent[p]
		for _, c := range n.children(p, gone) {
			sizes[gone[c.first]] = c.end - c.start
			cuts = append(cuts, c.span)
		}
	}
	for i, x := range n.removals {
		at := x.at.String()
		n.rep.Removed = append(n.rep.Removed, at)
		n.rep.Cuts = append(n.rep.Cuts, Cut{At: at, Kind: x.kind, Bytes: sizes[i]})
	}
	for _, c := range n.textual {
		cuts = append(cuts, c.span)
		text := strings.TrimSpace(c.text)
		n.rep.Cuts = append(n.rep.Cuts, Cut{At: c.at.String(), Kind: c.kind, Bytes: c.end - c.start, Text: text})
		if text != "" {
			n.rep.Prose = append(n.rep.Prose, text)
		}
	}
	return cuts
}

// remains notes removed fields that a narrowed tool still names somewhere, and
// the names that a tool without rules carries although other tools lose them.
func (n *narrower) remains() {
	read := map[int]bool{} // judged sentence by sentence
	for _, s := range n.scopes {
		for _, d := range s.texts {
			read[d.node] = true
		}
		sub := s.subject
		if sub == nil {
			continue
		}
		for i := s.first; i < s.last; i++ {
			if n.Kind(i) != tape.String || read[i] {
				continue
			}
			raw := n.Raw(i)
			for _, name := range sub.names {
				if !bytes.Contains(raw, []byte(name)) && bytes.IndexByte(raw, '\\') < 0 {
					continue
				}
				if text := n.Str(i); text == name || isIdentifier(name) && len(find(text, name)) > 0 {
					n.rep.suspect("%s: still names %q", pathTo(n.Tape, i), name)
				}
			}
		}
	}
}

// excerpt quotes a text for a report, shortened.
func excerpt(s string) string {
	const limit = 160
	if len(s) > limit {
		i := limit
		for !utf8.RuneStart(s[i]) {
			i--
		}
		s = s[:i] + "…"
	}
	return fmt.Sprintf("%q", s)
}
