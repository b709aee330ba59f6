// Where a tool keeps its parts.
//
// A tool is an element of a request's tools array, of a namespace's, or of
// Gemini's functionDeclarations. Its name, description and schema stand in the
// element itself or in the object under function or custom; each of these is a
// holder. Which of two places a reader takes is his business, so every holder
// is looked at, and every occurrence of a key in it.

package schema

import (
	"bytes"
	"slices"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// form is what the type of a tool says about its shape.
type form uint8

const (
	function  form = 1 << iota // the usual one; also a tool without a type
	freeform                   // type custom: its input is text
	container                  // a namespace of tools
	foreign                    // a type of its own
)

// form reads the types of a tool object.
func (n *narrower) form(obj int) form {
	var f form
	n.each(obj, func(k, v int) {
		switch {
		case n.Is(k, "functionDeclarations"), n.Is(k, "function_declarations"):
			f |= container
		case !n.Is(k, "type"):
		case n.Kind(v) == tape.Null, n.Is(v, "function"):
			f |= function
		case n.Is(v, "custom"):
			f |= function | freeform
		case n.Is(v, "namespace"):
			f |= container
		default:
			f |= foreign
		}
	})
	if f == 0 {
		f = function
	}
	if f&^foreign != 0 {
		f &^= foreign // one of two types is ours, and a reader may take that one
	}
	return f
}

// each calls f with the key and value of each member of an object.
func (n *narrower) each(obj int, f func(k, v int)) {
	if n.Kind(obj) != tape.Object {
		return
	}
	for k, end := obj+1, n.After(obj); k < end; k = n.After(k + 1) {
		f(k, k+1)
	}
}

// elements calls f with each element of an array and its index.
func (n *narrower) elements(arr int, f func(i, v int)) {
	if n.Kind(arr) != tape.Array {
		return
	}
	i := 0
	for v, end := arr+1, n.After(arr); v < end; v = n.After(v) {
		f(i, v)
		i++
	}
}

// inside calls f with the lists of tools that a container holds.
func (n *narrower) inside(obj int, f func(k, list int)) {
	n.each(obj, func(k, v int) {
		if n.Kind(v) == tape.Array && (n.Is(k, "tools") || n.Is(k, "functionDeclarations") || n.Is(k, "function_declarations")) {
			f(k, v)
		}
	})
}

// holders calls f with each object that may hold the tool's parts.
func (n *narrower) holders(obj int, f func(key string, holder int)) {
	f("", obj)
	n.each(obj, func(k, v int) {
		if n.Kind(v) != tape.Object {
			return
		}
		switch {
		case n.Is(k, "function"):
			f("function", v)
		case n.Is(k, "custom"):
			f("custom", v)
		}
	})
}

// toolName is the first name of the tool, "" if it has none.
func (n *narrower) toolName(obj int) string {
	name := ""
	n.holders(obj, func(_ string, h int) {
		if name == "" {
			name = n.Str(n.Get(h, "name"))
		}
	})
	return name
}

// drops reports whether the tool goes as a whole.
func (n *narrower) drops(obj int) bool {
	if len(n.rules.Drop) == 0 || n.Kind(obj) != tape.Object {
		return false
	}
	f := n.form(obj)
	gone := false
	if f&function != 0 {
		n.holders(obj, func(_ string, h int) {
			n.each(h, func(k, v int) {
				gone = gone || n.Is(k, "name") && n.Kind(v) == tape.String && slices.ContainsFunc(n.rules.Drop, func(d string) bool { return n.Is(v, d) })
			})
		})
	}
	if f&container != 0 && !gone {
		any, left := false, false
		n.inside(obj, func(_, list int) {
			n.elements(list, func(_, v int) {
				any = true
				left = left || !n.drops(v)
			})
		})
		gone = any && !left
	}
	return gone
}

// tool narrows one tool.
func (n *narrower) tool(p place) {
	if n.Kind(p.node) != tape.Object {
		if p.at == nil {
			n.rep.suspect("the tool is not a JSON object; left as it is")
		}
		return
	}
	f := n.form(p.node)
	if p.at == nil {
		n.rep.Tool = n.toolName(p.node)
	}
	if f&container != 0 {
		n.inside(p.node, func(k, list int) {
			lp := place{list, p.at.key(n.Str(k))}
			n.elements(list, func(i, v int) {
				at := lp.at.item(i)
				if n.drops(v) {
					n.remove(lp, v, at, KindTool)
				} else {
					n.tool(place{v, at})
				}
			})
		})
	}
	if f&function == 0 {
		if f&foreign != 0 {
			n.stranger(p, "tools of its type are not narrowed")
		}
		return
	}

	s := scope{first: p.node, last: n.After(p.node), free: f&freeform != 0}
	named := false
	n.holders(p.node, func(_ string, h int) {
		n.each(h, func(k, v int) {
			if n.Is(k, "name") && n.Kind(v) == tape.String {
				named = true
				for _, field := range n.listed(v) {
					if field.Name != "" {
						s.fields = append(s.fields, field)
					}
				}
			}
		})
	})
	if len(s.fields) == 0 && !s.free {
		switch {
		case named:
			n.stranger(p, "the rules do not name this tool")
		case f&container == 0:
			if n.stranger(p, "the tool has no name"); p.at == nil {
				n.rep.suspect("the tool has no name; left as it is")
			}
		}
		return
	}
	schemas := 0
	n.holders(p.node, func(key string, h int) {
		at := p.at
		if key != "" {
			at = at.key(key)
		}
		n.each(h, func(k, v int) {
			switch {
			case n.Is(k, "description"):
				if n.Kind(v) == tape.String {
					s.texts = append(s.texts, place{v, at.key("description")})
				}
			case n.Is(k, "input_schema"), n.Is(k, "parameters"), n.Is(k, "parametersJsonSchema"):
				if len(s.fields) == 0 || n.Kind(v) == tape.Null {
					break
				}
				if n.Kind(v) != tape.Object {
					n.rep.suspect("%s: the schema is not an object", at.key(n.Str(k)))
					break
				}
				schemas++
				(&walk{narrower: n, scope: &s}).schema(place{v, at.key(n.Str(k))})
			case n.Is(k, "input_examples"):
				w := &walk{narrower: n, scope: &s}
				w.examples(place{h, at}, k, true)
			}
		})
	})
	n.scopes = append(n.scopes, &s)
}

// listed returns the fields that the rules list for the name at a node.
func (n *narrower) listed(name int) []Field {
	raw := n.Raw(name)
	if bytes.IndexByte(raw, '\\') < 0 {
		return n.rules.Tools[string(raw[1:len(raw)-1])]
	}
	return n.rules.Tools[n.Str(name)]
}

// ignores reports whether nothing at all is to be done about a tool, or said:
// a plain function that no rule names, and whose text names nothing that other
// tools lose. It is the usual case, so it allocates the name alone.
func (r *Rules) ignores(t *tape.Tape) (name string, ok bool) {
	holder := 0
	for range 2 {
		inner := -1
		if t.Kind(holder) != tape.Object {
			return "", false
		}
		for k, end := holder+1, t.After(holder); k < end; k = t.After(k + 1) {
			v := k + 1
			switch {
			case t.Is(k, "name"):
				if t.Kind(v) != tape.String || name != "" {
					return "", false
				}
				name = t.Str(v)
			case t.Is(k, "function"):
				if inner >= 0 {
					return "", false
				}
				inner = v
			case t.Is(k, "type"):
				if holder == 0 && t.Kind(v) != tape.Null && !t.Is(v, "function") {
					return "", false
				}
			case t.Is(k, "custom"), t.Is(k, "functionDeclarations"), t.Is(k, "function_declarations"):
				return "", false
			}
		}
		if inner < 0 || holder != 0 {
			break
		}
		holder = inner
	}
	if name == "" || len(r.Tools[name]) > 0 || slices.Contains(r.Drop, name) {
		return "", false
	}
	var room [16]string
	return name, !mentions(t.Src(), r.words(room[:0]))
}

// stranger notes where a tool that is left alone carries a field name that the
// rules know from other tools. Plain words (justification) say nothing in a
// strange tool; identifiers do.
func (n *narrower) stranger(p place, why string) {
	if n.again {
		return
	}
	start, end := n.Span(p.node)
	var room [16]string
	names := n.rules.words(room[:0])
	if !mentions(n.src[start:end], names) {
		return
	}
	slices.Sort(names) // map order must not show in the report
	for i, stop := p.node, n.After(p.node); i < stop; i++ {
		if n.Kind(i) != tape.String {
			continue
		}
		if raw := n.Raw(i); !mentions(raw, names) && bytes.IndexByte(raw, '\\') < 0 {
			continue
		}
		text := n.Str(i)
		for _, name := range names {
			if len(find(text, name)) > 0 {
				n.rep.suspect("%s: names %q, but %s", pathTo(n.Tape, i), name, why)
				break
			}
		}
	}
}

// words appends the names, of fields and of dropped tools, that can be nothing
// but names.
func (r *Rules) words(dst []string) []string {
	add := func(name string) {
		if isIdentifier(name) && !slices.Contains(dst, name) {
			dst = append(dst, name)
		}
	}
	for _, fields := range r.Tools {
		for _, f := range fields {
			if len(f.DeadValues) == 0 {
				add(f.Name)
			}
			for _, v := range f.DeadValues {
				add(v)
			}
		}
	}
	for _, d := range r.Drop {
		add(d)
	}
	return dst
}

// mentions reports whether one of the names stands in text as it is. It looks
// for each name's rarest letter first: that is what makes the usual tool, which
// says nothing of the kind, cheap.
func mentions(text []byte, names []string) bool {
	var done [256]bool
	for i, name := range names {
		a := anchor(name)
		c := name[a]
		if done[c] {
			continue
		}
		done[c] = true
		for at := 0; ; at++ {
			j := bytes.IndexByte(text[at:], c)
			if j < 0 {
				break
			}
			at += j
			for _, other := range names[i:] {
				b := anchor(other)
				if other[b] == c && at >= b && len(text)-at >= len(other)-b && string(text[at-b:at-b+len(other)]) == other {
					return true
				}
			}
		}
	}
	return false
}

// anchor is the index of a letter of an identifier that is rare in prose.
func anchor(name string) int {
	best := 0
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' || c == '-':
			return i
		case c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			best = i
		}
	}
	return best
}
