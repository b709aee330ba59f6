package rewrite

import (
	"bytes"
	"slices"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// heirs leaves the cache markers of tools that go to the last tool before each
// that stays: the prefix up to there is what is left of the one that the client
// has marked. Where no tool is left before it, there is nothing to be kept; a
// tool that has a marker already keeps its own.
//
// It is still a deletion, and one edit: from the heir to the last of the tools
// that go behind it all goes but the heir without its brace, a comma, the member
// that is the marker, and a brace. rest are the tools that are still to be cut.
func heirs(q *wire.Request, tools []*Tool, edits []wire.Edit) (out []wire.Edit, rest []wire.Tool) {
	heir := -1
	var taken []bool // by place: such an edit takes the tool away
	for i, t := range q.Tools {
		if i > 0 && !q.Tools[i-1].SameList(t) {
			heir = -1
		}
		if !tools[i].Report.Dropped {
			heir = i
			continue
		}
		if heir < 0 {
			continue
		}
		marker := q.Marker(t)
		if marker == nil || q.Marker(q.Tools[heir]) != nil {
			continue
		}
		text := tools[heir].Narrowed
		if text[0] != '{' || len(bytes.TrimSpace(text[1:len(text)-1])) == 0 {
			continue
		}
		if taken == nil {
			taken = make([]bool, len(tools))
		}
		end := heir // the last one of the run
		for end+1 < len(tools) && tools[end+1].Report.Dropped && q.Tools[end+1].SameList(t) {
			end++
			taken[end] = true
		}
		at := q.Tools[heir].Start
		// An earlier marker of the same run gives way, as does the heir's own edit.
		edits = slices.DeleteFunc(edits, func(e wire.Edit) bool { return e.Start == at })
		edits = append(edits, wire.Edit{Start: at, End: q.Tools[end].End, New: slices.Concat(text[:len(text)-1], []byte{','}, marker, []byte("}"))})
	}
	for i, t := range q.Tools {
		if tools[i].Report.Dropped && (taken == nil || !taken[i]) {
			rest = append(rest, t)
		}
	}
	return edits, rest
}
