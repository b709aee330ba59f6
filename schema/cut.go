// Cuts on raw bytes, and the map from a decoded string back to them.

package schema

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// cut returns a copy of src without the given spans. It sorts them.
func cut(src []byte, cuts []span) []byte {
	slices.SortFunc(cuts, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := make([]byte, 0, len(src))
	from := 0
	for _, c := range cuts {
		if c.start > from {
			out = append(out, src[from:c.start]...)
		}
		from = max(from, c.end)
	}
	return append(out, src[from:]...)
}

// childCut is a cut of neighbours; first is the index of the first of them
// among the children that go.
type childCut struct {
	span
	first int
}

// children gives the spans that take children out of an object or array: gone
// are the removals that are its children, in order. A cut takes the comma and
// the white space after the child while another follows, so that the one that
// follows stands where the removed one stood; at the end it takes those before
// it, so that the closing bracket stays on its line. An object or array that
// loses all of its children loses the white space within too.
func (n *narrower) children(parent int, gone []int) []childCut {
	object := n.Kind(parent) == tape.Object
	start, end := n.Span(parent)
	var cuts []childCut
	open := -1   // start of the cut under way
	first := 0   // its first child
	before := -1 // where the last child that stays ends
	g := 0
	last := 0 // where the child before ends
	for c, stop := parent+1, n.After(parent); c < stop; {
		value := c
		if object {
			value = c + 1
		}
		head, _ := n.Span(c)
		if g < len(gone) && n.removals[gone[g]].child == c {
			if open < 0 {
				open, first = head, g
			}
			g++
		} else {
			if open >= 0 {
				cuts = append(cuts, childCut{span{open, head}, first})
				open = -1
			}
			_, before = n.Span(value)
		}
		_, last = n.Span(value)
		c = n.After(value)
	}
	switch {
	case open < 0:
	case before < 0:
		cuts = append(cuts, childCut{span{start + 1, end - 1}, first})
	default:
		cuts = append(cuts, childCut{span{before, last}, first})
	}
	return cuts
}

// text is a decoded JSON string that knows where each of its bytes came from.
type text struct {
	s    string
	base int     // raw offset of the first byte, when nothing is escaped
	off  []int32 // else: for each byte of s, the raw offset of the rune or escape it is part of; one more for the end
}

// raw maps an offset in s, at a rune's boundary, to one in the source. An
// escape is one unit there, and so is a surrogate pair: a cut can't split it.
func (t *text) raw(i int) int {
	if t.off == nil {
		return t.base + i
	}
	return int(t.off[i])
}

// decode reads the string token src[at:end]. A lone surrogate becomes U+FFFD, as it does in
// encoding/json; its six bytes stay one unit.
func decode(src []byte, at, end int) text {
	in := src[at+1 : end-1]
	base := at + 1
	if bytes.IndexByte(in, '\\') < 0 {
		return text{s: string(in), base: base}
	}
	out := make([]byte, 0, len(in))
	off := make([]int32, 0, len(in)+1)
	put := func(at int, b ...byte) {
		for range b {
			off = append(off, int32(base+at))
		}
		out = append(out, b...)
	}
	for i := 0; i < len(in); {
		if in[i] < utf8.RuneSelf && in[i] != '\\' {
			out, off = append(out, in[i]), append(off, int32(base+i))
			i++
			continue
		}
		if in[i] != '\\' {
			_, size := utf8.DecodeRune(in[i:])
			put(i, in[i:i+size]...)
			i += size
			continue
		}
		switch c := in[i+1]; c {
		case 'u':
			r, size := hex(in[i:]), 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+12 <= len(in) && in[i+6] == '\\' && in[i+7] == 'u' {
					low = hex(in[i+6:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					size = 12
				}
			}
			put(i, utf8.AppendRune(nil, r)...)
			i += size
			continue
		case 'b':
			put(i, '\b')
		case 'f':
			put(i, '\f')
		case 'n':
			put(i, '\n')
		case 'r':
			put(i, '\r')
		case 't':
			put(i, '\t')
		default: // quote, backslash, slash
			put(i, c)
		}
		i += 2
	}
	return text{s: string(out), off: append(off, int32(base+len(in)))}
}

// hex reads the code unit of a \uXXXX escape at the start of b.
func hex(b []byte) rune {
	v, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	if err != nil {
		return utf8.RuneError // not reached in valid JSON
	}
	return rune(v)
}
