package wire

import "github.com/guardproxy/guardproxy/internal/tape"

// Text is a string of a request in which a client may speak to the model about
// its options: body[Start:End], quotes included.
type Text struct {
	Start, End int
	Role       string // system, developer, user, or tool for the result of a call
	// node is the string, block the element of an array that holds nothing
	// else of weight (−1: none), answers the id of the call (−1: none).
	node, block, answers int
}

// text takes string i, or the text blocks of array i.
func (q *Request) text(i int, role string, answers int) {
	t := &q.t
	switch t.Kind(i) {
	case tape.String:
		s, e := t.Span(i)
		q.Texts = append(q.Texts, Text{s, e, role, i, -1, answers})
	case tape.Array:
		for b, end := i+1, t.After(i); b < end; b = t.After(b) {
			if typ := t.Get(b, "type"); !t.Is(typ, "text") && !t.Is(typ, "input_text") {
				continue
			}
			if n := t.Get(b, "text"); t.Kind(n) == tape.String {
				s, e := t.Span(n)
				q.Texts = append(q.Texts, Text{s, e, role, n, b, answers})
			}
		}
	}
}

// Tool is the name of the tool whose call a result answers, "" when it is none
// or can't be told: the id is not in the history, or twice.
func (q *Request) Tool(x Text) string {
	if x.answers < 0 {
		return ""
	}
	id, name, found := q.t.Str(x.answers), "", 0
	for _, p := range q.Past {
		if q.t.Is(p.id, id) {
			name = q.t.Str(p.name)
			found++
		}
	}
	if found != 1 {
		return ""
	}
	return name
}

// Cut returns the edit that takes a text out of the request together with its
// block, for a text of which nothing stays: providers refuse empty text blocks.
// The edit is false where the block is the only one of its message, or carries
// a cache marker: then the text has to stay.
func (q *Request) Cut(x Text) (Edit, bool) {
	t := &q.t
	if x.block < 0 || t.Get(x.block, "cache_control") >= 0 {
		return Edit{}, false
	}
	return q.cutElement(x.block)
}

// CutTool returns the edit that takes a tool out of its array. It is false for
// the last tool that is left there.
func (q *Request) CutTool(tool Tool) (Edit, bool) { return q.cutElement(tool.node) }

// cutElement takes element i out of its array, with one of the commas beside
// it. The array is found by the text around the element: a comma after it, or
// before it.
func (q *Request) cutElement(i int) (Edit, bool) {
	src := q.src
	s, e := q.t.Span(i)
	space := func(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
	after := e
	for after < len(src) && space(src[after]) {
		after++
	}
	if after < len(src) && src[after] == ',' {
		after++
		for after < len(src) && space(src[after]) {
			after++
		}
		return Edit{s, after, nil}, true
	}
	before := s
	for before > 0 && space(src[before-1]) {
		before--
	}
	if before > 0 && src[before-1] == ',' {
		return Edit{before - 1, e, nil}, true
	}
	return Edit{}, false
}
