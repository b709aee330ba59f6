package wasm

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// JSON Pointer (RFC 6901) over the bytes of a document, without a tree: most
// guards ask for two or three values of a document that is mostly one long
// string, and skipping a string is a search for a quote. The document is the
// host's own: valid, compact JSON.
//
// Guards read arrays element by element, so the place after the last element
// read is kept; otherwise a long argv would take quadratic time.

// document answers pointers. It is used by one call at a time.
type document struct {
	json []byte

	parent  string // pointer of the array that was read last
	array   []byte // its text
	index   int    // the element at offset
	offset  int
	isArray bool
}

// get returns the value at a pointer: a string decoded, anything else as
// compact JSON. found is false if there is no such value. ok is false if ptr
// is no JSON pointer.
func (d *document) get(ptr string) (value []byte, found, ok bool) {
	if !wellFormed(ptr) {
		return nil, false, false
	}
	raw, found := d.lookup(ptr)
	if !found {
		return nil, false, true
	}
	if raw[0] == '"' {
		return decode(raw), true, true
	}
	return raw, true, true
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

func (d *document) lookup(ptr string) ([]byte, bool) {
	at := d.json
	if cut := strings.LastIndexByte(ptr, '/'); cut > 0 && d.isArray && ptr[:cut] == d.parent {
		return d.element(ptr[cut+1:])
	}
	for rest := ptr; rest != ""; {
		slash := len(ptr) - len(rest)
		token := rest[1:]
		if end := strings.IndexByte(token, '/'); end >= 0 {
			token = token[:end]
		}
		rest = rest[1+len(token):]
		switch at[0] {
		case '{':
			v, ok := member(at, unescape(token))
			if !ok {
				return nil, false
			}
			at = v
		case '[':
			if rest == "" {
				d.parent, d.array, d.isArray, d.index, d.offset = ptr[:slash], at, true, 0, 1
				return d.element(token)
			}
			v, ok := (&document{array: at, offset: 1}).element(token)
			if !ok {
				return nil, false
			}
			at = v
		default:
			return nil, false
		}
	}
	return at, true
}

// element returns an element of the array at hand, going on from the last one
// if it lies before.
func (d *document) element(token string) ([]byte, bool) {
	want, ok := arrayIndex(token)
	if !ok {
		return nil, false
	}
	if want < d.index {
		d.index, d.offset = 0, 1
	}
	for {
		if d.array[d.offset] == ']' {
			return nil, false
		}
		n := skip(d.array[d.offset:])
		if d.index == want {
			return d.array[d.offset : d.offset+n], true
		}
		if d.array[d.offset+n] == ']' {
			return nil, false
		}
		d.offset += n + 1
		d.index++
	}
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

// member finds a key in an object. Of equal keys the last one counts, as it
// does for JSON.parse; the host refuses such calls anyway.
func member(object []byte, key string) (value []byte, found bool) {
	for i := 1; object[i] != '}'; {
		if object[i] == ',' {
			i++
		}
		n := skip(object[i:])
		name := object[i : i+n]
		i += n + 1 // the colon
		n = skip(object[i:])
		if same(name, key) {
			value, found = object[i:i+n], true
		}
		i += n
	}
	return value, found
}

func same(quoted []byte, key string) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return string(decode(quoted)) == key
	}
	return string(quoted[1:len(quoted)-1]) == key
}

// skip returns the length of the value at the start of valid, compact JSON.
func skip(b []byte) int {
	depth := 0
	for i := 0; ; {
		switch b[i] {
		case '"':
			i += skipString(b[i:])
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':':
			i++
			continue
		default: // a number, true, false or null
			for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

func skipString(b []byte) int {
	for i := 1; ; {
		n := bytes.IndexByte(b[i:], '"')
		end := i + n
		slashes := 0
		for b[end-1-slashes] == '\\' {
			slashes++
		}
		i = end + 1
		if slashes%2 == 0 {
			return i
		}
	}
}

func decode(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

var tokenEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func unescape(token string) string {
	if strings.IndexByte(token, '~') < 0 {
		return token
	}
	return tokenEscapes.Replace(token)
}
