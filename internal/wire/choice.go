package wire

import "github.com/guardproxy/guardproxy/internal/tape"

// CutChoice deletes what `tool_choice` says of tools that go: a request that
// chooses a tool which it does not declare is refused by every provider. The
// choice of one tool goes as a whole, which leaves the model its default; of a
// list of allowed tools the elements go. The pointer is that of `tool_choice`
// when something of it goes, else "".
func (q *Request) CutChoice(gone []Tool) (edits []Edit, pointer string) {
	t := &q.t
	choice := t.Get(0, "tool_choice")
	dead := func(i int) bool {
		name := t.Get(i, "name")
		if name < 0 {
			name = t.Get(t.Get(i, "function"), "name")
		}
		for _, g := range gone {
			if g.Name != "" && t.Is(name, g.Name) {
				return true
			}
		}
		return false
	}
	if t.Kind(choice) != tape.Object {
		return nil, ""
	}
	if dead(choice) {
		return []Edit{q.member(0, choice)}, "/tool_choice"
	}
	list := t.Get(choice, "tools")
	if list < 0 {
		list = t.Get(t.Get(choice, "allowed_tools"), "tools")
	}
	if t.Kind(list) != tape.Array {
		return nil, ""
	}
	elements := map[int]bool{}
	for i, end := list+1, t.After(list); i < end; i = t.After(i) {
		if dead(i) {
			elements[i] = true
		}
	}
	switch len(elements) {
	case 0:
		return nil, ""
	case t.Count(list):
		return []Edit{q.member(0, choice)}, "/tool_choice"
	}
	return q.cutElements(list, elements), "/tool_choice"
}

// member is the edit that deletes the member of object o whose value is node v,
// with one of the commas beside it.
func (q *Request) member(o, v int) Edit {
	t := &q.t
	from, _ := t.Span(v - 1)
	if n := t.After(v); n < t.After(o) {
		to, _ := t.Span(n)
		return Edit{Start: from, End: to}
	}
	_, to := t.Span(v)
	if v-1 > o+1 { // not the first: the comma before it goes
		for k := o + 1; k < v-1; k = t.After(k + 1) {
			_, from = t.Span(k + 1)
		}
	}
	return Edit{Start: from, End: to}
}
