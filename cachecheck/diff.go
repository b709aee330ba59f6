package cachecheck

import (
	"strings"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// leaf is one place at which two values differ: a pair of values that are not
// both objects or both arrays, or one that only one side has (−1).
type leaf struct {
	path string // below the values compared
	a, b int
}

const maxLeaves = 64

// differ lists the leaves at which node i of a and node j of b differ by value,
// in b's order; key order does not count. skip leaves members out. more says
// that there are more than the list holds.
func differ(a *tape.Tape, i int, b *tape.Tape, j int, skip func(t *tape.Tape, k int) bool) (out []leaf, more bool) {
	var walk func(i, j int, path string)
	walk = func(i, j int, path string) {
		if len(out) >= maxLeaves {
			more = true
			return
		}
		if i < 0 || j < 0 || a.Kind(i) != b.Kind(j) {
			out = append(out, leaf{path, i, j})
			return
		}
		switch a.Kind(i) {
		case tape.Object:
			inA, inB := members(a, i), members(b, j)
			for k := j + 1; k < b.After(j) && !more; k = b.After(k + 1) {
				if skip == nil || !skip(b, k) {
					walk(inA(b.Str(k)), k+1, path+"/"+clip(b.Str(k), 60))
				}
			}
			for k := i + 1; k < a.After(i) && !more; k = a.After(k + 1) {
				if (skip == nil || !skip(a, k)) && inB(a.Str(k)) < 0 {
					walk(k+1, -1, path+"/"+clip(a.Str(k), 60))
				}
			}
		case tape.Array:
			x, y, n := i+1, j+1, 0
			for ; (x < a.After(i) || y < b.After(j)) && !more; n++ {
				p := path + "/" + itoa(n)
				switch {
				case x >= a.After(i):
					walk(-1, y, p)
					y = b.After(y)
				case y >= b.After(j):
					walk(x, -1, p)
					x = a.After(x)
				default:
					walk(x, y, p)
					x, y = a.After(x), b.After(y)
				}
			}
		default:
			if !same(a, i, b, j, canonForm) {
				out = append(out, leaf{path, i, j})
			}
		}
	}
	walk(i, j, "")
	return out, more
}

// members finds the values of an object's keys: by a map when there are many,
// so that no body can make comparing it slow.
func members(t *tape.Tape, o int) func(key string) int {
	if t.Count(o) <= 32 {
		return func(key string) int { return t.Get(o, key) }
	}
	m := map[string]int{}
	for k := o + 1; k < t.After(o); k = t.After(k + 1) {
		if key := t.Str(k); m[key] == 0 {
			m[key] = k + 1
		}
	}
	return func(key string) int {
		if n := m[key]; n > 0 {
			return n
		}
		return -1
	}
}

// same compares two values in a form.
func same(a *tape.Tape, i int, b *tape.Tape, j int, f form) bool {
	if i < 0 || j < 0 || a.Kind(i) != b.Kind(j) {
		return false
	}
	var x, y hasher
	x.write(a, i, plainPlace, f, 0)
	y.write(b, j, plainPlace, f, 0)
	return string(x.buf) == string(y.buf)
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// Spot is where two bodies part.
type Spot struct {
	// Pointer is the JSON pointer of the value in the later body, or in the
	// earlier one when only that has it.
	Pointer string `json:"pointer"`
	// A and B are byte offsets in the decoded bodies, −1 where a body was
	// given up to save memory.
	A int `json:"a"`
	B int `json:"b"`
	// WindowA and WindowB show 40 characters around the places, with letters
	// and digits masked.
	WindowA string `json:"window_a"`
	WindowB string `json:"window_b"`
}

// parted finds the first byte at which node i of a and node j of b part, as
// values. Either may be −1: then the other's start counts, and at says where
// the missing one would stand.
func parted(a *tape.Tape, i int, b *tape.Tape, j int, atA, atB int) (x, y int, node int) {
	if i < 0 || j < 0 {
		if i >= 0 {
			atA, _ = a.Span(i)
		}
		if j >= 0 {
			atB, _ = b.Span(j)
		}
		return atA, atB, j
	}
	sa, _ := a.Span(i)
	sb, _ := b.Span(j)
	if a.Kind(i) != b.Kind(j) {
		return sa, sb, j
	}
	switch a.Kind(i) {
	case tape.Array:
		x, y := i+1, j+1
		for x < a.After(i) && y < b.After(j) {
			if !sameToken(a, x, b, y) {
				return parted(a, x, b, y, 0, 0)
			}
			x, y = a.After(x), b.After(y)
		}
		return endOr(a, i, x), endOr(b, j, y), nodeOr(b, j, y)
	case tape.Object:
		x, y := i+1, j+1
		for x < a.After(i) && y < b.After(j) {
			if a.Str(x) != b.Str(y) {
				inA, inB := members(a, i), members(b, j)
				if inB(a.Str(x)) >= 0 && inA(b.Str(y)) >= 0 && !same(a, i, b, j, canonForm) {
					// Order alone is not what differs here: find the value.
					for k := j + 1; k < b.After(j); k = b.After(k + 1) {
						if v := inA(b.Str(k)); v < 0 || !same(a, v, b, k+1, canonForm) {
							return parted(a, v, b, k+1, sa, 0)
						}
					}
				}
				fa, _ := a.Span(x)
				fb, _ := b.Span(y)
				return fa, fb, y + 1
			}
			if !sameToken(a, x+1, b, y+1) {
				return parted(a, x+1, b, y+1, 0, 0)
			}
			x, y = a.After(x+1), b.After(y+1)
		}
		n := nodeOr(b, j, y)
		if n != j {
			n++ // the value of the key
		}
		return endOr(a, i, x), endOr(b, j, y), n
	case tape.String:
		ra, rb := a.Raw(i), b.Raw(j)
		p := commonPrefix(ra, rb)
		for p > 0 && (p < len(rb) && !utf8.RuneStart(rb[p]) || rb[p-1] == '\\') {
			p--
		}
		return sa + p, sb + p, j
	}
	return sa, sb, j
}

// sameToken is equality that counts key order.
func sameToken(a *tape.Tape, i int, b *tape.Tape, j int) bool { return same(a, i, b, j, tokenForm) }

func endOr(t *tape.Tape, parent, child int) int {
	if child < t.After(parent) {
		s, _ := t.Span(child)
		return s
	}
	_, e := t.Span(parent)
	return e - 1
}

func nodeOr(t *tape.Tape, parent, child int) int {
	if child < t.After(parent) {
		return child
	}
	return parent
}

// window shows 40 characters of a body around a byte, a third of them before
// it. Letters become x or X and digits 0, so that the shape can be seen and
// nothing can be read.
func window(body []byte, at int) string {
	if body == nil || at < 0 || at > len(body) {
		return ""
	}
	from := at
	for n := 0; n < 13 && from > 0; n++ {
		_, size := utf8.DecodeLastRune(body[:from])
		from -= size
	}
	var b strings.Builder
	for n := 0; n < 40 && from < len(body); n++ {
		r, size := utf8.DecodeRune(body[from:])
		from += size
		switch {
		case r >= 'a' && r <= 'z':
			r = 'x'
		case r >= 'A' && r <= 'Z':
			r = 'X'
		case r >= '0' && r <= '9':
			r = '0'
		case r >= 0x80:
			r = '¤'
		case r < 0x20:
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}
