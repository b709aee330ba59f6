package tape

import (
	"bytes"
	"strconv"
)

// Equal reports whether node i of a and node j of b are the same JSON value:
// key order, white space and escapes do not count, and numbers are compared
// as float64 when their texts differ, since clients that re-serialise a
// history write 1.0 as 1.
func Equal(a *Tape, i int, b *Tape, j int) bool {
	k := a.Kind(i)
	if k != b.Kind(j) {
		return false
	}
	switch k {
	case None, True, False, Null:
		return true
	case Number:
		x, y := a.Raw(i), b.Raw(j)
		if bytes.Equal(x, y) {
			return true
		}
		f, err := strconv.ParseFloat(string(x), 64)
		g, err2 := strconv.ParseFloat(string(y), 64)
		return err == nil && err2 == nil && f == g
	case String:
		if !a.nodes[i].escaped && !b.nodes[j].escaped {
			return bytes.Equal(a.Raw(i), b.Raw(j))
		}
		return a.Str(i) == b.Str(j)
	case Array:
		if a.Count(i) != b.Count(j) {
			return false
		}
		for x, y := i+1, j+1; x < a.After(i); x, y = a.After(x), b.After(y) {
			if !Equal(a, x, b, y) {
				return false
			}
		}
		return true
	}
	if a.Count(i) != b.Count(j) {
		return false
	}
	for x := i + 1; x < a.After(i); x = a.After(x + 1) {
		y := b.Get(j, a.Str(x))
		if y < 0 || !Equal(a, x+1, b, y) {
			return false
		}
	}
	return true
}
