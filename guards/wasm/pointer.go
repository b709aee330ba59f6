package wasm

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// JSON Pointer (RFC 6901) over a document that is indexed once per call: a
// tape of its values in document order, over which a pointer hops. Guards read
// arrays element by element, thousands of them, so an array gets a list of
// where its elements are when the first of them is read; whatever order a
// guard reads in, an element then costs the same.

// document answers pointers. It is used by one call at a time.
type document struct {
	tape tape.Tape

	arrays map[int][]int32 // array node: nodes of its elements

	decoded []byte // the string that was asked for last
}

// parse indexes the text, which must not change while the document is in use.
func (d *document) parse(text []byte) error {
	d.arrays = nil
	return d.tape.Parse(text)
}

// get returns the value at a pointer: a string decoded, anything else as it
// stands in the text. found is false if there is no such value. ok is false if
// ptr is no JSON pointer. The value is good until the next get; it may be a part
// of the text.
func (d *document) get(ptr string) (value []byte, found, ok bool) {
	if !wellFormed(ptr) {
		return nil, false, false
	}
	n := d.lookup(ptr)
	if n < 0 {
		return nil, false, true
	}
	raw := d.tape.Raw(n)
	if d.tape.Kind(n) != tape.String {
		return raw, true, true
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, true, true
	}
	// A guard may ask for a long string ever again: that makes no garbage.
	d.decoded = tape.Unescape(slices.Grow(d.decoded[:0], len(raw)), raw)
	return d.decoded, true, true
}

func wellFormed(ptr string) bool {
	if ptr == "" {
		return true
	}
	if ptr[0] != '/' || !utf8.ValidString(ptr) {
		return false
	}
	for i := 0; i < len(ptr); i++ {
		if ptr[i] == '~' && (i+1 == len(ptr) || ptr[i+1] != '0' && ptr[i+1] != '1') {
			return false
		}
	}
	return true
}

// lookup is the node at a well-formed pointer, or −1.
func (d *document) lookup(ptr string) int {
	if d.tape.Len() == 0 {
		return -1
	}
	at := 0
	for rest := ptr; rest != ""; {
		token := rest[1:]
		if end := strings.IndexByte(token, '/'); end >= 0 {
			token = token[:end]
		}
		rest = rest[1+len(token):]
		switch d.tape.Kind(at) {
		case tape.Object:
			at = d.tape.Get(at, unescape(token))
		case tape.Array:
			at = d.element(at, token)
		default:
			return -1
		}
		if at < 0 {
			return -1
		}
	}
	return at
}

// element is the node of an array's element, or −1.
func (d *document) element(array int, token string) int {
	i, ok := arrayIndex(token)
	if !ok {
		return -1
	}
	elements, ok := d.arrays[array]
	if !ok {
		for n, end := array+1, d.tape.After(array); n < end; n = d.tape.After(n) {
			elements = append(elements, int32(n))
		}
		if d.arrays == nil {
			d.arrays = map[int][]int32{}
		}
		d.arrays[array] = elements
	}
	if i >= len(elements) {
		return -1
	}
	return int(elements[i])
}

// arrayIndex reads an index as RFC 6901 writes it: no sign, no leading zero.
func arrayIndex(token string) (int, bool) {
	if token == "" || len(token) > 8 || len(token) > 1 && token[0] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

var tokenEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func unescape(token string) string {
	if strings.IndexByte(token, '~') < 0 {
		return token
	}
	return tokenEscapes.Replace(token)
}
