package wire

import "github.com/guardproxy/guardproxy/internal/tape"

// Text is a string of a request in which a client may speak to the model about
// its options: body[Start:End], quotes included.
type Text struct {
	Start, End int
	Role       string // system, developer, user, or tool for the result of a call
	// block is the element of the array list that the string is the text of
	// (−1: none), answers the id of the call (−1: none).
	block, list, answers int
}

// text takes string i, or the text blocks of array i.
func (q *Request) text(i int, role string, answers int) {
	t := &q.t
	switch t.Kind(i) {
	case tape.String:
		s, e := t.Span(i)
		q.Texts = append(q.Texts, Text{s, e, role, -1, -1, answers})
	case tape.Array:
		for b, end := i+1, t.After(i); b < end; b = t.After(b) {
			if typ := t.Get(b, "type"); !t.Is(typ, "text") && !t.Is(typ, "input_text") {
				continue
			}
			if n := t.Get(b, "text"); t.Kind(n) == tape.String {
				s, e := t.Span(n)
				q.Texts = append(q.Texts, Text{s, e, role, b, i, answers})
			}
		}
	}
}

// Tool is the name of the tool whose call a result answers, "" when it is none
// or can't be told: the id is in no call before it, or twice in one message.
// Some servers count the ids of calls anew in each reply, so the latest call
// counts; and what comes later never does, or a history would be rewritten
// otherwise once it has grown.
func (q *Request) Tool(x Text) string {
	if x.answers < 0 {
		return ""
	}
	id, name, message := q.t.Str(x.answers), "", -1
	for _, p := range q.Past {
		if p.call > x.answers || !q.t.Is(p.id, id) {
			continue
		}
		name = q.t.Str(p.name)
		if p.message == message {
			name = ""
		}
		message = p.message
	}
	return name
}

// Sole reports whether a text can't go without leaving its message empty, or
// without taking a cache marker along: then it has to stay.
func (q *Request) Sole(x Text) bool {
	return x.block < 0 || q.t.Get(x.block, "cache_control") >= 0 || q.t.Count(x.list) < 2
}

// CutTexts returns the edits that take texts out of the request together with
// their blocks: providers refuse empty text blocks. A message keeps its last
// block, and stayed counts those.
func (q *Request) CutTexts(gone []Text) (edits []Edit, stayed int) {
	blocks, lists := map[int]bool{}, map[int]int{}
	for _, x := range gone {
		blocks[x.block] = true
		lists[x.list]++
	}
	for _, x := range gone {
		if lists[x.list] == q.t.Count(x.list) {
			delete(blocks, x.block)
			lists[x.list] = -1
			stayed++
		}
	}
	last := -1
	for _, x := range gone {
		if x.list != last {
			last = x.list
			edits = append(edits, q.cutElements(x.list, blocks)...)
		}
	}
	return edits, stayed
}

// CutTools returns the edits that take tools out of their arrays.
func (q *Request) CutTools(gone []Tool) []Edit {
	elements := map[int]bool{}
	for _, t := range gone {
		elements[t.node] = true
	}
	var edits []Edit
	last := -1
	for _, t := range gone {
		if t.list != last {
			last = t.list
			edits = append(edits, q.cutElements(t.list, elements)...)
		}
	}
	return edits
}

// cutElements deletes elements of an array, run by run, each run with one of
// the commas beside it.
func (q *Request) cutElements(list int, gone map[int]bool) []Edit {
	t := &q.t
	var edits []Edit
	kept := -1 // where the last element that stays ends
	for i, end := list+1, t.After(list); i < end; i = t.After(i) {
		from, to := t.Span(i)
		if !gone[i] {
			kept = to
			continue
		}
		for n := t.After(i); n < end && gone[n]; n = t.After(n) {
			i = n
			_, to = t.Span(n)
		}
		if n := t.After(i); n < end {
			to, _ = t.Span(n) // up to the next element
		} else if kept >= 0 {
			from = kept // the last ones: the comma before them goes
		}
		edits = append(edits, Edit{Start: from, End: to})
	}
	return edits
}
