package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// span is a half-open range of byte offsets.
type span struct{ start, end int }

// place is a value of the tape and where it stands.
type place struct {
	node int
	at   *path
}

// path is a JSON pointer that is only written out when a report needs it, so
// that deep trees with long keys cost nothing. The root is nil.
type path struct {
	up    *path
	token string
	index int // the token, when elem is set
	elem  bool
}

// key returns the path of a member.
func (p *path) key(token string) *path { return &path{up: p, token: token} }

// item returns the path of an element.
func (p *path) item(i int) *path { return &path{up: p, index: i, elem: true} }

// String is the JSON pointer of RFC 6901.
func (p *path) String() string {
	var tokens []string
	for ; p != nil; p = p.up {
		t := pointerEscapes.Replace(p.token)
		if p.elem {
			t = strconv.Itoa(p.index)
		}
		tokens = append(tokens, t)
	}
	slices.Reverse(tokens)
	if len(tokens) == 0 {
		return ""
	}
	return "/" + strings.Join(tokens, "/")
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pathTo finds where a node stands: for the few that a report names and that
// nobody walked to. A key stands where its value does.
func pathTo(t *tape.Tape, node int) *path {
	var at *path
	for i := 0; i != node; {
		object := t.Kind(i) == tape.Object
		n := 0
		for c, end := i+1, t.After(i); c < end; n++ {
			next, value := t.After(c), c
			if object {
				value = c + 1
				next = t.After(value)
			}
			if node < next {
				if object {
					at = at.key(t.Str(c))
				} else {
					at = at.item(n)
				}
				if node == c {
					return at
				}
				i = value
				break
			}
			c = next
		}
	}
	return at
}
