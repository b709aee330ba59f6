// Cuts on raw bytes, and the map from a decoded string back to them.

package schema

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// cut returns a copy of src without the given spans, which do not overlap.
func cut(src []byte, cuts []span) []byte {
	slices.SortFunc(cuts, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := make([]byte, 0, len(src))
	from := 0
	for _, c := range cuts {
		out = append(out, src[from:c.start]...)
		from = c.end
	}
	return append(out, src[from:]...)
}

// cutChildren gives the spans that take the children with keep[i] == false out
// of an object or array. A cut takes the comma and the white space after the
// child while another follows, so that the one that follows stands where the
// removed one stood; at the end it takes those before it, so that the closing
// bracket stays on its line. An object or array that loses all of its children
// loses the white space within too.
func cutChildren(parent *node, keep []bool) []span {
	kids := parent.kids
	if !slices.Contains(keep, true) {
		return []span{{parent.start + 1, parent.end - 1}}
	}
	var cuts []span
	for i := 0; i < len(kids); {
		if keep[i] {
			i++
			continue
		}
		first := i
		for i < len(kids) && !keep[i] {
			i++
		}
		if i < len(kids) {
			cuts = append(cuts, span{kids[first].head, kids[i].head})
		} else {
			cuts = append(cuts, span{kids[first-1].end, kids[i-1].end})
		}
	}
	return cuts
}

// text is a decoded JSON string that knows where each of its bytes came from.
type text struct {
	s    string
	base int   // raw offset of the first byte, when nothing is escaped
	off  []int // else: for each byte of s, the raw offset of the rune or escape it is part of; one more for the end
}

// raw maps an offset in s, at a rune's boundary, to one in the source. An
// escape is one unit there, and so is a surrogate pair: a cut can't split it.
func (t *text) raw(i int) int {
	if t.off == nil {
		return t.base + i
	}
	return t.off[i]
}

// decode reads the string n. A lone surrogate becomes U+FFFD, as it does in
// encoding/json; its six bytes stay one unit.
func decode(src []byte, n *node) text {
	in := src[n.start+1 : n.end-1]
	base := n.start + 1
	if bytes.IndexByte(in, '\\') < 0 {
		return text{s: string(in), base: base}
	}
	out := make([]byte, 0, len(in))
	off := make([]int, 0, len(in)+1)
	put := func(at int, b ...byte) {
		for range b {
			off = append(off, base+at)
		}
		out = append(out, b...)
	}
	for i := 0; i < len(in); {
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
	return text{s: string(out), off: append(off, base+len(in))}
}

// hex reads the code unit of a \uXXXX escape at the start of b.
func hex(b []byte) rune {
	v, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	if err != nil {
		return utf8.RuneError // not reached in valid JSON
	}
	return rune(v)
}
