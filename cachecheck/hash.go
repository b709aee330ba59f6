package cachecheck

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Each block of a request has four forms, and two blocks are the same in a form
// when these are equal byte for byte:
//
//	raw    as it stands in the body
//	token  white space, escapes and number spelling made equal; keys in order
//	canon  the same with keys sorted
//	strip  the same without ids of calls and messages
//
// Cache markers are in none but the first: they are kept beside the block. Keys
// of the protocol's own objects (a block, a message, an image's source) are
// sorted in the token form too, since no provider renders those as JSON; keys of
// tools, arguments and results are not.
//
// Forms are compared by hash: 128 bits of SHA-256, so that equal means equal
// and the hashes that are printed are the same on every machine. Since most of
// a body stood in the one before, the hashes of a raw text are remembered under
// a fast 64-bit hash, whose seed can be seen nowhere.

type sum [16]byte

type forms struct{ token, canon, strip sum }

type form uint8

const (
	tokenForm form = iota
	canonForm
	stripForm
)

// place says how the keys of an object count.
type place uint8

const (
	plainPlace    place = iota // of a JSON value that is rendered as such
	protocolPlace              // of a block or message
	toolPlace                  // of a tool: markers stand here, keys are in order
)

type hasher struct {
	buf  []byte
	keys [][]int32 // scratch, one a depth
	memo map[uint64]forms
	seed maphash.Seed
}

func newHasher() hasher {
	return hasher{memo: map[uint64]forms{}, seed: maphash.MakeSeed()}
}

const maxMemo = 1 << 16

// forms hashes node n in the three forms; prefix stands before each, to keep
// blocks of different roles and layers apart.
func (h *hasher) forms(t *tape.Tape, n int, prefix string, p place) (uint64, forms) {
	var m maphash.Hash
	m.SetSeed(h.seed)
	m.WriteString(prefix)
	m.WriteByte(byte(p))
	m.Write(t.Raw(n))
	raw := m.Sum64()
	if f, ok := h.memo[raw]; ok {
		return raw, f
	}
	var f forms
	f.token = h.sum(t, n, prefix, p, tokenForm)
	if k := t.Kind(n); k == tape.Object || k == tape.Array {
		f.canon = h.sum(t, n, prefix, p, canonForm)
		f.strip = f.canon
		if p == protocolPlace {
			f.strip = h.sum(t, n, prefix, p, stripForm)
		}
	} else {
		f.canon, f.strip = f.token, f.token
	}
	if len(h.memo) >= maxMemo {
		clear(h.memo)
	}
	h.memo[raw] = f
	return raw, f
}

func (h *hasher) sum(t *tape.Tape, n int, prefix string, p place, f form) sum {
	h.buf = append(append(h.buf[:0], prefix...), 0)
	h.write(t, n, p, f, 0)
	s := sha256.Sum256(h.buf)
	return sum(s[:16])
}

// markerKeys name cache markers.
func isCacheMark(t *tape.Tape, k int) bool {
	return t.Is(k, "cache_control") || t.Is(k, "prompt_cache_breakpoint") || t.Is(k, "cachePoint")
}

// isID names the members that hold an id of a call or a message.
func isID(t *tape.Tape, k int) bool {
	for _, s := range []string{"id", "call_id", "tool_use_id", "tool_call_id", "toolUseId"} {
		if t.Is(k, s) {
			return true
		}
	}
	return false
}

// protocolKeys hold objects of the protocol within objects of the protocol.
var protocolKeys = []string{"content", "source", "image_url", "function", "functionCall", "functionResponse", "inlineData", "fileData", "toolUse", "toolResult", "image", "reasoningContent", "document", "file", "input_audio"}

func isProtocol(t *tape.Tape, k int) bool {
	for _, s := range protocolKeys {
		if t.Is(k, s) {
			return true
		}
	}
	return false
}

// write appends the form of node n to buf. Strings carry their length, so that
// no text can look like another structure.
func (h *hasher) write(t *tape.Tape, n int, p place, f form, depth int) {
	switch t.Kind(n) {
	case tape.String:
		at := len(h.buf)
		h.buf = append(h.buf, '"', 0, 0, 0, 0)
		h.buf = t.AppendStr(h.buf, n)
		binary.LittleEndian.PutUint32(h.buf[at+1:], uint32(len(h.buf)-at-5))
	case tape.Number:
		h.buf = append(appendNumber(append(h.buf, '#'), t.Raw(n)), ' ')
	case tape.Array:
		h.buf = append(h.buf, '[')
		for e := n + 1; e < t.After(n); e = t.After(e) {
			h.write(t, e, p, f, depth+1)
		}
		h.buf = append(h.buf, ']')
	case tape.Object:
		h.buf = append(h.buf, '{')
		if f == tokenForm && p != protocolPlace {
			for k := n + 1; k < t.After(n); k = t.After(k + 1) {
				if p == toolPlace && isCacheMark(t, k) {
					continue
				}
				h.member(t, k, p, f, depth)
			}
		} else {
			for len(h.keys) <= depth {
				h.keys = append(h.keys, nil)
			}
			keys := h.keys[depth][:0]
			for k := n + 1; k < t.After(n); k = t.After(k + 1) {
				if p != plainPlace && isCacheMark(t, k) || f == stripForm && p == protocolPlace && isID(t, k) {
					continue
				}
				keys = append(keys, int32(k))
			}
			slices.SortStableFunc(keys, func(a, b int32) int { return compareKeys(t, int(a), int(b)) })
			h.keys[depth] = keys
			for i := 0; i < len(keys); i++ {
				h.member(t, int(h.keys[depth][i]), p, f, depth)
			}
		}
		h.buf = append(h.buf, '}')
	default:
		h.buf = append(h.buf, t.Raw(n)...)
		h.buf = append(h.buf, ' ')
	}
}

func (h *hasher) member(t *tape.Tape, k int, p place, f form, depth int) {
	h.write(t, k, plainPlace, f, depth+1)
	inner := plainPlace
	switch {
	case p == protocolPlace && isProtocol(t, k):
		inner = protocolPlace
	case p == toolPlace && (t.Is(k, "function") || t.Is(k, "toolSpec")):
		inner = toolPlace
	}
	h.write(t, k+1, inner, f, depth+1)
}

func compareKeys(t *tape.Tape, a, b int) int {
	x, y := t.Str(a), t.Str(b)
	if x < y {
		return -1
	}
	if x > y {
		return 1
	}
	return 0
}

// appendNumber writes a number so that 1e3, 1000 and 1000.0 are the same, and
// integers too large for a float stay apart.
func appendNumber(dst, raw []byte) []byte {
	plain := true
	for i, c := range raw {
		if (c < '0' || c > '9') && !(i == 0 && c == '-') {
			plain = false
		}
	}
	if plain {
		if string(raw) == "-0" {
			raw = raw[1:]
		}
		return append(dst, raw...)
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return append(dst, raw...)
	}
	if v == float64(int64(v)) && v < 1<<53 && v > -1<<53 {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// fold joins hashes in order.
func fold(sums ...sum) sum {
	var b []byte
	for _, s := range sums {
		b = append(b, s[:]...)
	}
	h := sha256.Sum256(b)
	return sum(h[:16])
}

func (s sum) String() string { return hex.EncodeToString(s[:8]) }

// fingerprint tells values apart without showing them.
func fingerprint(s string) string {
	h := sha256.Sum256([]byte("guardproxy cachecheck\x00" + s))
	return hex.EncodeToString(h[:6])
}

// sumOf is the hash of b.
func sumOf(b []byte) sum {
	h := sha256.Sum256(b)
	return sum(h[:16])
}
