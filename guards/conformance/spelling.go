package conformance

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// A model writes the arguments of a call as JSON, in which one value has many
// spellings. Whoever reads them with a parser sees none of that; whoever looks
// for a substring in them can be passed by with each. The spellings here are
// made from the index of the text (internal/tape), value by value, so that
// numbers and unknown things stay as they were written.

// Spelling is JSON text that means the same as another.
type Spelling struct {
	Name string
	JSON []byte
}

// Spellings returns other spellings of an object or any other JSON value. None
// if the text is not strict JSON. The slices are new.
func Spellings(text []byte) []Spelling {
	var t tape.Tape
	if t.Parse(text) != nil {
		return nil
	}
	plain := speller{t: &t, str: escapes(func(r rune) bool { return false })}
	unicode, slash, other, space, order := plain, plain, plain, plain, plain
	unicode.str = escapes(func(r rune) bool { return r < utf8.RuneSelf && r > ' ' })
	slash.str = func(dst []byte, s string) []byte { return spell(dst, s, func(rune) bool { return false }, true) }
	other.str = escapes(func(r rune) bool { return r >= utf8.RuneSelf || r == ' ' })
	space.space = "\t\r\n "
	order.backward = true
	return []Spelling{
		{"escapes as \\u", unicode.value(nil, 0)},
		{"slashes as \\/", slash.value(nil, 0)},
		{"spaces and other scripts as \\u", other.value(nil, 0)},
		{"white space", space.value(nil, 0)},
		{"no white space", plain.value(nil, 0)},
		{"keys in another order", order.value(nil, 0)},
	}
}

// speller writes the values of an indexed text in one of their spellings.
type speller struct {
	t        *tape.Tape
	str      func(dst []byte, s string) []byte
	space    string // around every token
	backward bool   // members of objects
}

func (w speller) value(dst []byte, n int) []byte {
	dst = append(dst, w.space...)
	switch w.t.Kind(n) {
	case tape.String:
		dst = w.str(dst, w.t.Str(n))
	case tape.Array:
		dst = append(dst, '[')
		for e := n + 1; e < w.t.After(n); e = w.t.After(e) {
			if e > n+1 {
				dst = append(dst, ',')
			}
			dst = w.value(dst, e)
		}
		dst = append(dst, ']')
	case tape.Object:
		var keys []int
		for k := n + 1; k < w.t.After(n); k = w.t.After(k + 1) {
			keys = append(keys, k)
		}
		dst = append(dst, '{')
		for i := range keys {
			k := keys[i]
			if w.backward {
				k = keys[len(keys)-1-i]
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, w.space...)
			dst = append(w.str(dst, w.t.Str(k)), w.space...)
			dst = w.value(append(dst, ':'), k+1)
		}
		dst = append(dst, '}')
	default:
		dst = append(dst, w.t.Raw(n)...)
	}
	return append(dst, w.space...)
}

func escapes(which func(rune) bool) func([]byte, string) []byte {
	return func(dst []byte, s string) []byte { return spell(dst, s, which, false) }
}

// spell writes a string in which the characters that which names are escaped
// by number, besides those that have to be.
func spell(dst []byte, s string, which func(rune) bool, slash bool) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r < ' ' || which(r):
			if r > 0xffff {
				high, low := utf16.EncodeRune(r)
				dst = fmt.Appendf(dst, `\u%04x\u%04X`, high, low)
			} else {
				dst = fmt.Appendf(dst, `\u%04x`, r)
			}
		case r == '"' || r == '\\' || r == '/' && slash:
			dst = append(dst, '\\', byte(r))
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
