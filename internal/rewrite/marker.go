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
// It is still a deletion: of the end of the one tool, the comma and the other
// tool all goes but the comma, the member that is the marker, and a brace.
func heirs(q *wire.Request, tools []*Tool, edits []wire.Edit) []wire.Edit {
	for i, t := range q.Tools {
		if !tools[i].Report.Dropped {
			continue
		}
		marker := q.Marker(t)
		if marker == nil {
			continue
		}
		heir := i - 1
		for heir >= 0 && tools[heir].Report.Dropped {
			heir--
		}
		if heir < 0 || !q.Tools[heir].SameList(t) || q.Marker(q.Tools[heir]) != nil {
			continue
		}
		at := q.Tools[heir]
		text := tools[heir].Narrowed
		if text[0] != '{' || len(bytes.TrimSpace(text[1:len(text)-1])) == 0 {
			continue
		}
		marked := slices.Concat(text[:len(text)-1], []byte{','}, marker, []byte("}"))
		edit := wire.Edit{Start: at.Start, End: at.End, New: marked}
		if k := slices.IndexFunc(edits, func(e wire.Edit) bool { return e.Start == at.Start && e.End == at.End }); k >= 0 {
			edits[k] = edit // a later marker wins
		} else {
			edits = append(edits, edit)
		}
	}
	return edits
}
