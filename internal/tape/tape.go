// Package tape indexes a JSON text without decoding it.
//
// A [Tape] is a flat list of nodes in document order. Every node knows where
// its text starts and ends in the source, and which node follows its subtree,
// so a reader hops over what it does not care about and can cut or splice the
// source at exact bytes. For an object the children alternate: key, value,
// key, value.
//
//	{"a":[1,2],"b":"x"}
//	 0    1 2 …
//	 node 0  object   next 7
//	 node 1  key "a"  next 2
//	 node 2  array    next 5
//	 node 3  1        next 4
//	 node 4  2        next 5
//	 node 5  key "b"  next 6
//	 node 6  "x"      next 7
//
// Parse is strict where two readers of the same bytes could see two
// documents: the text must be one value of RFC 8259 JSON, valid UTF-8, and no
// object may name a key twice (compared after unescaping). Parsers disagree on
// duplicate keys (some take the first, some the last), and the one that counts
// is the client's, which we do not control.
//
// A Tape is reused: Parse keeps its memory, so indexing an event of a stream
// allocates nothing once the tape has grown. It is not safe for concurrent
// use. Nodes are valid until the next Parse.
package tape

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind is the type of a JSON value.
type Kind uint8

// The kinds of a node. A key of an object is a String.
const (
	None Kind = iota
	Object
	Array
	String
	Number
	True
	False
	Null
)

// String names the kind as an error message would.
func (k Kind) String() string {
	return [...]string{"nothing", "an object", "an array", "a string", "a number", "true", "false", "null"}[k]
}

type node struct {
	start, end int32 // byte offsets in the source; strings include their quotes
	next       int32 // the node after this subtree
	kind       Kind
	escaped    bool // a string with at least one backslash
}

// MaxDepth is the deepest nesting that Parse accepts, in containers.
const MaxDepth = 1000

// Error says why a text was not indexed, and at which byte.
type Error struct {
	Offset int
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// Tape is the index of one text. The zero value is ready for Parse.
type Tape struct {
	src   []byte
	nodes []node
	open  []int32
	keys  []int32

	depth         int
	loneSurrogate bool
	nul           bool
	repeats       bool // keys may repeat
	loose         bool // the inside of string values is not checked
}

// Parse indexes src, which must hold exactly one JSON value and white space.
// The tape refers to src until the next Parse and never changes it. The error
// is an *Error; after one the tape is empty.
func (t *Tape) Parse(src []byte) error {
	t.repeats, t.loose = false, false
	return t.index(src)
}

// ParseRepeats is Parse for a reader who looks at every occurrence of a key: an
// object may name one more than once. Get and Equal see the first alone.
func (t *Tape) ParseRepeats(src []byte) error {
	t.repeats, t.loose = true, false
	return t.index(src)
}

// ParseLoose is Parse for a text whose reader is strict itself, and which may
// be long: strings that are values are hopped over to their ends, without a
// look at their escapes and control characters. LoneSurrogate and NUL then say
// nothing; a broken escape is decoded as [Unescape] says.
func (t *Tape) ParseLoose(src []byte) error {
	t.repeats, t.loose = false, true
	return t.index(src)
}

func (t *Tape) index(src []byte) error {
	t.src, t.nodes, t.open = src, t.nodes[:0], t.open[:0]
	t.depth, t.loneSurrogate, t.nul = 0, false, false
	err := t.parse()
	if err != nil {
		t.nodes = t.nodes[:0]
		return err
	}
	return nil
}

// Depth is the deepest nesting of containers in the text: 0 for a scalar.
func (t *Tape) Depth() int { return t.depth }

// LoneSurrogate reports a \u escape of half a surrogate pair somewhere in the
// text. Such a string has no UTF-8 form; decoders replace or reject it.
func (t *Tape) LoneSurrogate() bool { return t.loneSurrogate }

// NUL reports a \u0000 escape somewhere in the text.
func (t *Tape) NUL() bool { return t.nul }

// Len is the number of nodes.
func (t *Tape) Len() int { return len(t.nodes) }

// Src is the text that was indexed, not a copy.
func (t *Tape) Src() []byte { return t.src }

// Kind is the type of node i; None when i is negative.
func (t *Tape) Kind(i int) Kind {
	if i < 0 || i >= len(t.nodes) {
		return None
	}
	return t.nodes[i].kind
}

// Span is where node i stands in the source: src[start:end].
func (t *Tape) Span(i int) (start, end int) { return int(t.nodes[i].start), int(t.nodes[i].end) }

// Raw is the text of node i, a slice of the source.
func (t *Tape) Raw(i int) []byte { return t.src[t.nodes[i].start:t.nodes[i].end] }

// After is the node that follows the subtree of i.
func (t *Tape) After(i int) int { return int(t.nodes[i].next) }

// Get is the value of key in object i, or −1 when i is no object or lacks it.
func (t *Tape) Get(i int, key string) int {
	if t.Kind(i) != Object {
		return -1
	}
	for k, end := i+1, t.After(i); k < end; k = t.After(k + 1) {
		if t.Is(k, key) {
			return k + 1
		}
	}
	return -1
}

// Is reports whether node i is a string whose decoded value is s.
func (t *Tape) Is(i int, s string) bool {
	if t.Kind(i) != String {
		return false
	}
	n := &t.nodes[i]
	raw := t.src[n.start+1 : n.end-1]
	if !n.escaped {
		return string(raw) == s
	}
	return len(raw) >= len(s) && t.Str(i) == s
}

// IsBytes is Is for a value that is held as bytes.
func (t *Tape) IsBytes(i int, s []byte) bool {
	if t.Kind(i) != String {
		return false
	}
	n := &t.nodes[i]
	if !n.escaped {
		return bytes.Equal(t.src[n.start+1:n.end-1], s)
	}
	return t.Str(i) == string(s)
}

// Str is the decoded value of string node i, "" for any other kind. Lone
// surrogates become U+FFFD.
func (t *Tape) Str(i int) string {
	if t.Kind(i) != String {
		return ""
	}
	n := &t.nodes[i]
	raw := t.src[n.start+1 : n.end-1]
	if !n.escaped {
		return string(raw)
	}
	return string(Unescape(make([]byte, 0, len(raw)), raw))
}

// AppendStr appends the decoded value of string node i to dst.
func (t *Tape) AppendStr(dst []byte, i int) []byte {
	if t.Kind(i) != String {
		return dst
	}
	n := &t.nodes[i]
	raw := t.src[n.start+1 : n.end-1]
	if !n.escaped {
		return append(dst, raw...)
	}
	return Unescape(dst, raw)
}

// Empty reports whether string node i has no characters.
func (t *Tape) Empty(i int) bool {
	return t.Kind(i) == String && t.nodes[i].end-t.nodes[i].start == 2
}

// Count is the number of children of array i, or of members of object i.
func (t *Tape) Count(i int) int {
	n := 0
	switch t.Kind(i) {
	case Object:
		for k, end := i+1, t.After(i); k < end; k = t.After(k + 1) {
			n++
		}
	case Array:
		for c, end := i+1, t.After(i); c < end; c = t.After(c) {
			n++
		}
	}
	return n
}

// Int is the value of number node i when it is a plain integer without sign,
// fraction or exponent that fits an int32; otherwise ok is false.
func (t *Tape) Int(i int) (v int, ok bool) {
	if t.Kind(i) != Number {
		return 0, false
	}
	raw := t.Raw(i)
	if len(raw) > 9 {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, true
}

func fail(at int, reason string) error { return &Error{at, reason} }

func (t *Tape) parse() error {
	src := t.src
	if len(src) > math.MaxInt32-1 {
		return fail(0, "the text is over 2 GiB")
	}
	if !utf8.Valid(src) {
		return fail(invalidAt(src), "invalid UTF-8")
	}
	i := skipSpace(src, 0)
	for {
		// A value starts here.
		if i >= len(src) {
			return fail(len(src), "the text ends where a value should start")
		}
		at := i
		switch c := src[i]; c {
		case '{', '[':
			if len(t.open) == MaxDepth {
				return fail(i, fmt.Sprintf("more than %d containers in each other", MaxDepth))
			}
			kind, closing := Object, byte('}')
			if c == '[' {
				kind, closing = Array, ']'
			}
			t.open = append(t.open, int32(len(t.nodes)))
			t.depth = max(t.depth, len(t.open))
			t.nodes = append(t.nodes, node{start: int32(i), kind: kind})
			i = skipSpace(src, i+1)
			if i < len(src) && src[i] == closing {
				break // closed below
			}
			if kind == Object {
				var err error
				if i, err = t.key(i); err != nil {
					return err
				}
			}
			continue
		case '"':
			var err error
			if t.loose {
				i, err = t.hop(i)
			} else {
				i, err = t.str(i)
			}
			if err != nil {
				return err
			}
		case 't':
			if !bytes.HasPrefix(src[i:], []byte("true")) {
				return fail(at, "an unknown word")
			}
			t.scalar(i, i+4, True)
			i += 4
		case 'f':
			if !bytes.HasPrefix(src[i:], []byte("false")) {
				return fail(at, "an unknown word")
			}
			t.scalar(i, i+5, False)
			i += 5
		case 'n':
			if !bytes.HasPrefix(src[i:], []byte("null")) {
				return fail(at, "an unknown word")
			}
			t.scalar(i, i+4, Null)
			i += 4
		default:
			end := number(src, i)
			if end < 0 {
				return fail(at, "no JSON value")
			}
			t.scalar(i, end, Number)
			i = end
		}
		// A value ended: close what closes, or go on to the next member.
		for {
			i = skipSpace(src, i)
			if len(t.open) == 0 {
				if i < len(src) {
					return fail(i, "more text after the value")
				}
				return nil
			}
			if i >= len(src) {
				return fail(len(src), "the text ends inside "+t.nodes[t.open[len(t.open)-1]].kind.String())
			}
			top := t.open[len(t.open)-1]
			object := t.nodes[top].kind == Object
			if src[i] == ',' {
				i = skipSpace(src, i+1)
				if object {
					var err error
					if i, err = t.key(i); err != nil {
						return err
					}
				}
				break
			}
			if object && src[i] == '}' || !object && src[i] == ']' {
				i++
				t.nodes[top].end, t.nodes[top].next = int32(i), int32(len(t.nodes))
				t.open = t.open[:len(t.open)-1]
				if object && !t.repeats {
					if err := t.unique(int(top)); err != nil {
						return err
					}
				}
				continue
			}
			return fail(i, "a comma or the end of "+t.nodes[top].kind.String()+" is missing")
		}
	}
}

func (t *Tape) scalar(start, end int, k Kind) {
	t.nodes = append(t.nodes, node{start: int32(start), end: int32(end), next: int32(len(t.nodes) + 1), kind: k})
}

// key indexes a key and its colon; i is where the value starts.
func (t *Tape) key(i int) (int, error) {
	if i >= len(t.src) || t.src[i] != '"' {
		return 0, fail(i, "a key is missing")
	}
	i, err := t.str(i)
	if err != nil {
		return 0, err
	}
	i = skipSpace(t.src, i)
	if i >= len(t.src) || t.src[i] != ':' {
		return 0, fail(i, "a colon is missing")
	}
	return skipSpace(t.src, i+1), nil
}

// short marks the escapes of two bytes by their second one.
var short = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// str indexes the string that starts at src[i] and returns its end. Almost all
// of a request is the inside of strings, so eight bytes are looked at in one
// step, and what stops it (a quote, a backslash, a control character) is found
// by its bit.
func (t *Tape) str(i int) (int, error) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	src, start, escaped := t.src, i, false
	i++
	for {
		for i+8 <= len(src) {
			w := binary.LittleEndian.Uint64(src[i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			// A lane's high bit says: zero, or less than a space. A borrow makes
			// only lanes after a true one say so falsely.
			hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs
			if hit != 0 {
				i += bits.TrailingZeros64(hit) >> 3
				break
			}
			i += 8
		}
		for i < len(src) && src[i] >= 0x20 && src[i] != '"' && src[i] != '\\' {
			i++ // within the last eight bytes
		}
		if i >= len(src) {
			return 0, fail(len(src), "the text ends inside a string")
		}
		switch src[i] {
		case '"':
			i++
			t.nodes = append(t.nodes, node{start: int32(start), end: int32(i), next: int32(len(t.nodes) + 1), kind: String, escaped: escaped})
			return i, nil
		case '\\':
			escaped = true
			if i+1 < len(src) && short[src[i+1]] {
				i += 2
				continue
			}
			n, err := t.escape(i)
			if err != nil {
				return 0, err
			}
			i += n
		default:
			return 0, fail(i, "a control character inside a string")
		}
	}
}

// hop indexes the string that starts at src[i] by its end alone: the first
// quote after an even number of backslashes.
func (t *Tape) hop(i int) (int, error) {
	src, start, escaped := t.src, i, false
	for i++; ; {
		n := bytes.IndexByte(src[i:], '"')
		if n < 0 {
			return 0, fail(len(src), "the text ends inside a string")
		}
		from, even := i, true
		for i += n; i > from && src[i-1] == '\\'; i-- {
			even = !even
		}
		escaped = escaped || i < from+n
		i = from + n + 1
		if even {
			break
		}
	}
	escaped = escaped || bytes.IndexByte(src[start:i], '\\') >= 0
	t.nodes = append(t.nodes, node{start: int32(start), end: int32(i), next: int32(len(t.nodes) + 1), kind: String, escaped: escaped})
	return i, nil
}

// escape checks the escape at src[i] and returns its length in bytes. A whole
// surrogate pair is one escape of 12.
func (t *Tape) escape(i int) (int, error) {
	if i+1 >= len(t.src) {
		return 0, fail(len(t.src), "the text ends inside a string")
	}
	if short[t.src[i+1]] {
		return 2, nil
	}
	if t.src[i+1] != 'u' {
		return 0, fail(i, "an unknown escape")
	}
	r := hex4(t.src[i+2:])
	if r < 0 {
		return 0, fail(i, "a broken \\u escape")
	}
	switch {
	case r == 0:
		t.nul = true
	case utf16.IsSurrogate(r):
		if r < 0xDC00 && i+7 < len(t.src) && t.src[i+6] == '\\' && t.src[i+7] == 'u' {
			if lo := hex4(t.src[i+8:]); lo >= 0xDC00 && lo <= 0xDFFF {
				return 12, nil
			}
		}
		t.loneSurrogate = true
	}
	return 6, nil
}

// unique fails when object o names a key twice.
func (t *Tape) unique(o int) error {
	keys, escaped := t.keys[:0], false
	for k, end := o+1, int(t.nodes[o].next); k < end; k = t.After(k + 1) {
		keys = append(keys, int32(k))
		escaped = escaped || t.nodes[k].escaped
	}
	t.keys = keys
	if len(keys) < 2 {
		return nil
	}
	if escaped {
		seen := make(map[string]bool, len(keys))
		for _, k := range keys {
			s := t.Str(int(k))
			if seen[s] {
				return fail(int(t.nodes[k].start), "a key that the object has already")
			}
			seen[s] = true
		}
		return nil
	}
	if len(keys) <= 12 {
		for a := 1; a < len(keys); a++ {
			ka := t.Raw(int(keys[a]))
			for b := range a {
				if kb := t.Raw(int(keys[b])); len(ka) == len(kb) && string(ka) == string(kb) {
					return fail(int(t.nodes[keys[a]].start), "a key that the object has already")
				}
			}
		}
		return nil
	}
	slices.SortFunc(keys, func(a, b int32) int { return bytes.Compare(t.Raw(int(a)), t.Raw(int(b))) })
	for a := 1; a < len(keys); a++ {
		if bytes.Equal(t.Raw(int(keys[a-1])), t.Raw(int(keys[a]))) {
			return fail(int(max(t.nodes[keys[a]].start, t.nodes[keys[a-1]].start)), "a key that the object has already")
		}
	}
	return nil
}

func skipSpace(src []byte, i int) int {
	for i < len(src) && (src[i] == ' ' || src[i] == '\n' || src[i] == '\t' || src[i] == '\r') {
		i++
	}
	return i
}

// number returns the end of the number at src[i], or −1.
func number(src []byte, i int) int {
	digits := func() bool {
		from := i
		for i < len(src) && src[i] >= '0' && src[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(src) && src[i] == '-' {
		i++
	}
	if i < len(src) && src[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(src) && src[i] == '.' {
		i++
		if !digits() {
			return -1
		}
	}
	if i < len(src) && (src[i] == 'e' || src[i] == 'E') {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}

// hex4 is the value of the four hexadecimal digits that b starts with, or −1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return r
}

func invalidAt(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(src)
}

// Unescape appends the value of the JSON string body raw (without quotes) to
// dst. Lone surrogates become U+FFFD, as does a broken \u escape; of any other
// escape that JSON does not know the backslash goes.
func Unescape(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		if i+1 == len(raw) {
			return append(dst, '\\')
		}
		c := raw[i+1]
		n := 2
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw[i+2:])
			if r < 0 {
				dst = utf8.AppendRune(dst, utf8.RuneError)
				break
			}
			n = 6
			if utf16.IsSurrogate(r) {
				if len(raw) >= i+12 && raw[i+6] == '\\' && raw[i+7] == 'u' {
					if full := utf16.DecodeRune(r, hex4(raw[i+8:])); full != utf8.RuneError {
						r, n = full, 12
					}
				}
			}
			dst = utf8.AppendRune(dst, r) // a surrogate half is written as U+FFFD
		default:
			dst = append(dst, c)
		}
		raw = raw[i+n:]
	}
}

// Quote appends s as a JSON string. Only what JSON requires is escaped, and
// U+0085, U+2028 and U+2029, which end a line in some readers; invalid UTF-8
// becomes U+FFFD.
func Quote(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				dst = append(dst, "\ufffd"...)
			case r == '\u0085':
				dst = append(dst, `\u0085`...)
			case r == '\u2028' || r == '\u2029':
				dst = append(dst, '\\', 'u', '2', '0', '2', digits[r&15])
			default:
				dst = append(dst, s[i:i+n]...)
			}
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
