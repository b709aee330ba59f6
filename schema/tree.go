// A tree of spans. parse turns a tool into nodes that remember where their
// bytes lie, so that a decision made on decoded keys and values can be carried
// out on raw bytes. Nothing is copied out of the source but keys and strings.

package schema

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// span is a half-open range of byte offsets.
type span struct{ start, end int }

// node is one JSON value.
type node struct {
	kind  byte // '{', '[', '"', or the first byte of a number or literal
	start int  // offset of the value's first byte
	end   int  // offset after its last
	head  int  // where it begins as a child: its key's offset in an object, else start
	key   string
	text  string // decoded value of a string
	kids  []node // members or elements, in the source's order
}

// member returns the value of a key, nil if there is none.
func (n *node) member(key string) *node {
	if n == nil || n.kind != '{' {
		return nil
	}
	for i := range n.kids {
		if n.kids[i].key == key {
			return &n.kids[i]
		}
	}
	return nil
}

// path is where a node stands: a JSON pointer that is only written out when a
// report needs it, so that deep trees with long keys cost nothing.
type path struct {
	up    *path // nil for the root
	token string
	index int // the token, when elem is set
	elem  bool
}

// in returns the path of child i of n, which stands at p.
func (p *path) in(n *node, i int) *path {
	if n.kind == '[' {
		return &path{up: p, index: i, elem: true}
	}
	return &path{up: p, token: n.kids[i].key}
}

// key returns the path of a member.
func (p *path) key(token string) *path { return &path{up: p, token: token} }

// String is the JSON pointer of RFC 6901.
func (p *path) String() string {
	var tokens []string
	for ; p != nil && p.up != nil; p = p.up {
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

// walk visits n, which stands at p, and everything below it.
func (n *node) walk(p *path, visit func(*node, *path)) {
	visit(n, p)
	for i := range n.kids {
		n.kids[i].walk(p.in(n, i), visit)
	}
}

// duplicate finds the first key that an object repeats. Keys are compared
// decoded: which of two wins differs between parsers, so neither may be edited.
func duplicate(n *node, p *path) (*path, bool) {
	var seen map[string]bool
	if n.kind == '{' && len(n.kids) > 1 {
		seen = make(map[string]bool, len(n.kids))
	}
	for i := range n.kids {
		k := &n.kids[i]
		if seen != nil {
			if seen[k.key] {
				return p.in(n, i), true
			}
			seen[k.key] = true
		}
		if len(k.kids) > 0 {
			if where, ok := duplicate(k, p.in(n, i)); ok {
				return where, true
			}
		}
	}
	return nil, false
}

// parse builds the tree of src, which is valid JSON.
func parse(src []byte) node {
	p := parser{src: src}
	p.space()
	return p.value()
}

type parser struct {
	src []byte
	i   int
}

func (p *parser) space() {
	for p.i < len(p.src) && strings.IndexByte(" \t\r\n", p.src[p.i]) >= 0 {
		p.i++
	}
}

func (p *parser) value() node {
	n := node{kind: p.src[p.i], start: p.i, head: p.i}
	switch n.kind {
	case '{', '[':
		p.i++
		for p.space(); p.src[p.i] != '}' && p.src[p.i] != ']'; p.space() {
			if p.src[p.i] == ',' {
				p.i++
				p.space()
			}
			head, key := p.i, ""
			if n.kind == '{' {
				key = p.string()
				p.space()
				p.i++ // the colon
				p.space()
			}
			k := p.value()
			k.head, k.key = head, key
			n.kids = append(n.kids, k)
		}
		p.i++
	case '"':
		n.text = p.string()
	default:
		for p.i < len(p.src) && strings.IndexByte(" \t\r\n,]}", p.src[p.i]) < 0 {
			p.i++
		}
	}
	n.end = p.i
	return n
}

// string reads a string and returns its decoded value.
func (p *parser) string() string {
	start := p.i
	for p.i++; p.src[p.i] != '"'; p.i++ {
		if p.src[p.i] == '\\' {
			p.i++
		}
	}
	p.i++
	if bytes.IndexByte(p.src[start:p.i], '\\') < 0 {
		return string(p.src[start+1 : p.i-1])
	}
	return decode(p.src, &node{kind: '"', start: start, end: p.i}).s
}

// declaration is where a tool keeps its parts.
type declaration struct {
	name        string
	at          *path // the object with name and description
	description *node // a string, or nil
	schema      *node // an object, or nil
	schemaAt    *path
	problem     string // why the tool can't be narrowed, "" if it can
	hosted      bool   // a type of its own: nothing here to narrow, nothing remarkable
}

// locate reads the shape of a tool.
func locate(root *node) declaration {
	if root.kind != '{' {
		return declaration{problem: "the tool is not a JSON object"}
	}
	d := declaration{at: &path{}}
	holder := root
	kind := root.member("type")
	function := root.member("function")
	switch {
	case kind != nil && kind.kind != '"' && kind.kind != 'n':
		d.problem = "the tool's type is not a string"
	case function != nil && (kind == nil || kind.text == "function" || kind.kind == 'n'):
		if root.member("name") != nil || root.member("input_schema") != nil || root.member("parameters") != nil {
			d.problem = "the tool mixes two shapes"
		}
		holder, d.at = function, d.at.key("function")
	case kind == nil || kind.kind == 'n' || kind.text == "function":
	case kind.text == "custom" && root.member("input_schema") != nil:
	default:
		d.problem = "tools of type " + strconv.Quote(kind.text) + " are not narrowed"
		d.hosted = true
	}
	if n := holder.member("name"); n != nil && n.kind == '"' {
		d.name = n.text
	} else if d.problem == "" {
		d.problem = "the tool has no name"
	}
	if d.problem != "" {
		return d
	}
	if n := holder.member("description"); n != nil && n.kind == '"' {
		d.description = n
	}
	messages, openai := holder.member("input_schema"), holder.member("parameters")
	switch {
	case messages != nil && openai != nil:
		d.problem = "the tool has two schemas"
	case messages != nil:
		d.schema, d.schemaAt = messages, d.at.key("input_schema")
	case openai != nil:
		d.schema, d.schemaAt = openai, d.at.key("parameters")
	case kind == nil || kind.kind == 'n':
		// OpenAI lets a function without parameters leave them out; a tool
		// with neither type nor schema is no shape that we know.
		if function == nil {
			d.problem = "the tool has no schema in a known place"
		}
	}
	if d.schema != nil && d.schema.kind != '{' {
		if d.schema.kind != 'n' {
			d.problem = "the tool's schema is not an object"
		}
		d.schema = nil
	}
	return d
}
