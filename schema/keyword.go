// The schema of a tool: every keyword that can name a field.
//
// The walk goes over the schema once and keeps two notes of each part: whether
// it spoke of a removed field, and whether it still says something without it.
// What spoke of one and has nothing left goes as a whole: a member of anyOf, a
// then, a dependent schema. An alternative that requires a removed field can
// never hold again and goes too. A condition that turns on one (if, not) goes
// with what hangs on it, since taking half of a condition away changes when it
// holds. What goes only ever makes a schema accept more, except that a value or
// field is no longer offered; it stays a valid schema.
//
// Only here do the words properties, required and description have their JSON
// Schema meaning; a property of one of these names is a property.

package schema

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"sort"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// scope is what is known of one tool while it is narrowed.
type scope struct {
	fields      []Field
	free        bool     // its description may declare functions of other names
	stay        []string // names of the properties that stay, at any depth
	enums       []string // values that a removed property listed
	live        []string // values that stay beside dead ones
	texts       []place  // descriptions, of the tool and of schemas
	first, last int      // its nodes
	subject     *subject
}

// gone reports whether a property of that name leaves. top is set for the
// tool's own properties, as opposed to those of a nested object.
func (s *scope) gone(name string, top bool) bool {
	return slices.ContainsFunc(s.fields, func(f Field) bool {
		return f.Name == name && len(f.DeadValues) == 0 && (top || f.Nested)
	})
}

// dead returns the values that a property of that name loses.
func (s *scope) dead(name string, top bool) []string {
	var out []string
	for _, f := range s.fields {
		if f.Name == name && (top || f.Nested) {
			out = append(out, f.DeadValues...)
		}
	}
	return out
}

// walk goes over one schema.
type walk struct {
	*narrower
	*scope
	root  place
	asTop map[int]bool // definitions that were read as the tool's own schema
	defs  []place      // $defs and definitions, to be read last
	hits  []hit        // strings that are a removed field's name; in order

	members map[int]map[string]int
}

type hit struct {
	node   int
	nested bool // the name goes from nested objects too
}

// schema narrows the schema of a tool.
func (w *walk) schema(p place) {
	w.root, w.asTop = p, map[int]bool{p.node: true}
	for i, end := p.node, w.After(p.node); i < end; i++ {
		if w.Kind(i) != tape.String {
			continue
		}
		for _, f := range w.fields {
			if len(f.DeadValues) == 0 && w.Is(i, f.Name) {
				w.hits = append(w.hits, hit{i, f.Nested})
				break
			}
		}
	}
	before := len(w.removals)
	w.visit(p, true)
	for len(w.defs) > 0 {
		d := w.defs[0]
		w.defs = w.defs[1:]
		w.each(d.node, func(k, v int) {
			if !w.asTop[v] {
				w.visit(place{v, d.at.key(w.Str(k))}, false)
			}
		})
	}
	if len(w.removals) > before {
		w.orphans()
	}
}

// speaks reports whether the name of a removed field stands anywhere below a
// node.
func (w *walk) speaks(node int, top bool) bool {
	i := sort.Search(len(w.hits), func(i int) bool { return w.hits[i].node >= node })
	for ; i < len(w.hits) && w.hits[i].node < w.After(node); i++ {
		if top || w.hits[i].nested {
			return true
		}
	}
	return false
}

// said is what visiting a schema found.
type said struct {
	spoke bool // it spoke of a removed field
	left  bool // it says something without it
}

// void reports whether nothing but a removed field was the matter.
func (s said) void() bool { return s.spoke && !s.left }

func (s *said) add(o said) { s.spoke, s.left = s.spoke || o.spoke, s.left || o.left }

// visit narrows one schema and those below it.
func (w *walk) visit(p place, top bool) said {
	var all said
	if w.Kind(p.node) != tape.Object {
		return said{left: true}
	}
	var conditions, branches []int
	w.each(p.node, func(k, v int) {
		key := w.Str(k)
		at := place{v, p.at.key(key)}
		drop := func(kind Kind) { w.remove(p, k, at.at, kind); all.spoke = true }
		switch key {
		case "type", "title", "$schema", "nullable":
		case "description", "$comment":
			if w.Kind(v) == tape.String {
				w.texts = append(w.texts, at)
			}
		case "properties":
			all.add(w.properties(at, top))
		case "required", "propertyOrdering":
			s := w.names(at, top, KindRequired)
			if key == "required" {
				all.add(s)
			}
		case "propertyNames":
			if e := w.Get(v, "enum"); e >= 0 {
				w.names(place{e, at.at.key("enum")}, top, KindRequired)
			}
			all.left = true
		case "dependentRequired", "dependentSchemas", "dependencies":
			s := w.dependencies(at, top)
			if s.void() {
				drop(KindDependency)
			}
			all.add(s)
		case "allOf", "anyOf", "oneOf":
			s, empty := w.alternatives(at, top, key)
			if empty {
				drop(KindAlternative)
			}
			all.add(s)
		case "not":
			if w.speaks(v, top) {
				drop(KindCondition)
			} else {
				w.visit(at, top)
				all.left = true
			}
		case "if":
			conditions = append(conditions, k)
		case "then", "else":
			branches = append(branches, k)
		case "$ref":
			all.left = true
			if d, at := w.definition(w.Str(v)); top && d >= 0 && !w.asTop[d] {
				w.asTop[d] = true
				w.visit(place{d, at}, true)
			}
		case "$defs", "definitions":
			if w.Kind(v) == tape.Object {
				w.defs = append(w.defs, at)
			}
		case "default", "example", "const":
			w.example(at, top)
			all.left = all.left || key == "const"
		case "examples":
			w.examples(p, k, top)
		case "additionalProperties", "unevaluatedProperties":
			if w.Kind(v) == tape.Object {
				w.visit(at, false)
				all.left = true
			}
		case "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems":
			all.left = true
			w.visit(at, false)
			w.elements(v, func(i, e int) { w.visit(place{e, at.at.item(i)}, false) })
		case "patternProperties":
			all.left = true
			w.each(v, func(k, e int) { w.visit(place{e, at.at.key(w.Str(k))}, false) })
		default:
			all.left = true
		}
	})
	all.add(w.conditions(p, conditions, branches, top))
	return all
}

// properties narrows the members of a properties object.
func (w *walk) properties(p place, top bool) (all said) {
	w.each(p.node, func(k, v int) {
		name := w.Str(k)
		at := p.at.key(name)
		if w.gone(name, top) {
			all.spoke = true
			w.remove(p, k, at, KindProperty)
			w.elements(w.Get(v, "enum"), func(_, e int) {
				if w.Kind(e) == tape.String {
					w.enums = append(w.enums, w.Str(e))
				}
			})
			return
		}
		all.left = true
		w.stay = append(w.stay, name)
		if dead := w.dead(name, top); len(dead) > 0 {
			w.values(place{v, at}, dead)
		}
		w.visit(place{v, at}, false)
	})
	return all
}

// names takes the names of removed fields out of a list.
func (w *walk) names(p place, top bool, kind Kind) (all said) {
	w.elements(p.node, func(i, e int) {
		if w.Kind(e) == tape.String && w.gone(w.Str(e), top) {
			all.spoke = true
			w.remove(p, e, p.at.item(i), kind)
		} else {
			all.left = true
		}
	})
	return all
}

// dependencies narrows dependentRequired, dependentSchemas and their
// predecessor, dependencies, whose values may be either.
func (w *walk) dependencies(p place, top bool) (all said) {
	w.each(p.node, func(k, v int) {
		at := place{v, p.at.key(w.Str(k))}
		goes := w.gone(w.Str(k), top)
		if !goes {
			var s said
			if w.Kind(v) == tape.Array {
				s = w.names(at, top, KindDependency)
			} else {
				s = w.visit(at, top)
			}
			goes = s.void()
			all.left = all.left || !goes
		}
		if goes {
			all.spoke = true
			w.remove(p, k, at.at, KindDependency)
		}
	})
	return all
}

// alternatives narrows the members of allOf, anyOf and oneOf. empty says that
// none is left, so that the keyword must go.
func (w *walk) alternatives(p place, top bool, key string) (all said, empty bool) {
	if w.Kind(p.node) != tape.Array {
		return said{left: true}, false
	}
	type member struct {
		node, at   int
		void, dead bool
		from, to   int // its removals
	}
	var ms []member
	kept := 0
	w.elements(p.node, func(i, e int) {
		m := member{node: e, at: i, from: len(w.removals)}
		m.dead = key != "allOf" && w.demands(e, top)
		s := w.visit(place{e, p.at.item(i)}, top)
		m.void = s.void()
		m.to = len(w.removals)
		all.spoke = all.spoke || s.spoke
		if !m.void && !m.dead {
			kept++
		}
		ms = append(ms, m)
	})
	live := 0
	var seen map[string]bool
	for _, m := range ms {
		goes := m.void || m.dead && kept > 0
		if !goes && key == "oneOf" && all.spoke {
			// Two that differed in a removed field alone would both hold, and
			// oneOf forbids that.
			if seen == nil {
				seen = map[string]bool{}
			}
			was := w.rendered(m.node, m.from, m.to)
			goes = seen[was] && m.to > m.from
			seen[was] = true
		}
		if goes {
			w.remove(p, m.node, p.at.item(m.at), KindAlternative)
		} else {
			live++
		}
	}
	all.left = live > 0
	return all, len(ms) > 0 && live == 0
}

// demands reports whether a schema requires a removed field, so that nothing
// can satisfy it any more.
func (w *walk) demands(schema int, top bool) (yes bool) {
	w.elements(w.Get(schema, "required"), func(_, e int) {
		yes = yes || w.Kind(e) == tape.String && w.gone(w.Str(e), top)
	})
	return yes
}

// rendered is the text of a schema as it will be.
func (w *walk) rendered(node, from, to int) string {
	start, end := w.Span(node)
	if from == to {
		return string(w.src[start:end])
	}
	part := narrower{Tape: w.Tape, src: w.src, rep: &Report{}, removals: slices.Clone(w.removals[from:to])}
	part.removals = slices.DeleteFunc(part.removals, func(x removal) bool { return x.child < node || x.child >= w.After(node) })
	cuts := part.settle()
	for i := range cuts {
		cuts[i].start -= start
		cuts[i].end -= start
	}
	return string(cut(w.src[start:end], cuts))
}

// conditions narrows if, then and else, which only mean something together.
func (w *walk) conditions(p place, ifs, branches []int, top bool) (all said) {
	about := func(k int) place { return place{k + 1, p.at.key(w.Str(k))} }
	goes := slices.ContainsFunc(ifs, func(k int) bool { return w.speaks(k+1, top) })
	left := 0
	for _, k := range branches {
		var s said
		if !goes {
			s = w.visit(about(k), top)
		}
		if goes || s.void() {
			all.spoke = true
			w.remove(p, k, about(k).at, KindCondition)
		} else {
			all.spoke = all.spoke || s.spoke
			all.left = true
			left++
		}
	}
	for _, k := range ifs {
		if goes || len(branches) > 0 && left == 0 {
			all.spoke = true
			w.remove(p, k, about(k).at, KindCondition)
		} else {
			w.visit(about(k), top)
			all.left = true
		}
	}
	return all
}

// example takes removed fields out of an example of the object that a schema
// describes. empty says that nothing is left of it.
func (w *walk) example(p place, top bool) (empty bool) {
	kept, cut := 0, 0
	w.each(p.node, func(k, v int) {
		name := w.Str(k)
		goes := w.gone(name, top)
		if !goes && w.Kind(v) == tape.String {
			goes = slices.Contains(w.dead(name, top), w.Str(v))
		}
		if goes {
			cut++
			w.remove(p, k, p.at.key(name), KindExample)
		} else {
			kept++
			w.example(place{v, p.at.key(name)}, false)
		}
	})
	w.elements(p.node, func(i, e int) { w.example(place{e, p.at.item(i)}, false) })
	return cut > 0 && kept == 0
}

// examples narrows a list of examples: the value of key k of p. Those that
// showed nothing else go, and the list with the last of them.
func (w *walk) examples(p place, k int, top bool) {
	list := place{k + 1, p.at.key(w.Str(k))}
	kept, gone := 0, 0
	w.elements(list.node, func(i, e int) {
		if w.example(place{e, list.at.item(i)}, top) {
			gone++
			w.remove(list, e, list.at.item(i), KindExample)
		} else {
			kept++
		}
	})
	if gone > 0 && kept == 0 {
		w.remove(p, k, list.at, KindExample)
	}
}

// values takes dead values out of the schema of a property that stays.
func (w *walk) values(p place, dead []string) {
	is := func(v int) bool { return w.Kind(v) == tape.String && slices.Contains(dead, w.Str(v)) }
	list := func(l place, goes func(int) bool) (kept int) {
		var out []removal
		w.elements(l.node, func(i, e int) {
			if goes(e) {
				out = append(out, removal{l, e, l.at.item(i), KindValue})
				return
			}
			kept++
			if w.Kind(e) == tape.String {
				w.live = append(w.live, w.Str(e))
			}
		})
		if kept > 0 {
			w.removals = append(w.removals, out...)
		} else if len(out) > 0 {
			w.rep.suspect("%s: all of its values are dead, so all stay", l.at)
		}
		return kept
	}
	w.each(p.node, func(k, v int) {
		at := place{v, p.at.key(w.Str(k))}
		switch w.Str(k) {
		case "enum":
			list(at, is)
		case "anyOf", "oneOf":
			list(at, func(e int) bool {
				if is(w.Get(e, "const")) {
					return true
				}
				all, some := true, false
				w.elements(w.Get(e, "enum"), func(_, v int) { some, all = true, all && is(v) })
				return some && all
			})
			w.elements(v, func(i, e int) { w.values(place{e, at.at.item(i)}, dead) })
		case "allOf":
			w.elements(v, func(i, e int) { w.values(place{e, at.at.item(i)}, dead) })
		case "items":
			w.values(at, dead)
		case "default", "example":
			if is(v) {
				w.remove(p, k, at.at, KindValue)
			}
		case "examples":
			kept := 0
			w.elements(v, func(i, e int) {
				if is(e) {
					w.remove(at, e, at.at.item(i), KindValue)
				} else {
					kept++
				}
			})
			if kept == 0 && w.Count(v) > 0 {
				w.remove(p, k, at.at, KindValue)
			}
		}
	})
}

// definition finds what a reference within the schema points to.
func (w *walk) definition(ref string) (int, *path) {
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return -1, nil
	}
	if u, err := url.PathUnescape(rest); err == nil {
		rest = u
	}
	p := w.root
	for token := range strings.SplitSeq(rest, "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		next := w.lookup(p.node, token)
		if next < 0 {
			return -1, nil
		}
		p = place{next, p.at.key(token)}
	}
	return p.node, p.at
}

// lookup is Get for an object that is asked often.
func (w *walk) lookup(obj int, key string) int {
	if w.Kind(obj) != tape.Object {
		return -1
	}
	m := w.members[obj]
	if m == nil {
		m = map[string]int{}
		w.each(obj, func(k, v int) {
			if name := w.Str(k); m[name] == 0 {
				m[name] = v
			}
		})
		if w.members == nil {
			w.members = map[int]map[string]int{}
		}
		w.members[obj] = m
	}
	if v, ok := m[key]; ok {
		return v
	}
	return -1
}

// orphans takes the definitions that something referred to before the cuts and
// nothing refers to after them. One that nobody ever used stays.
func (w *walk) orphans() {
	type def struct {
		parent place
		key    int
		end    int
		uses   [2][]int // definitions it refers to: before the cuts, after them
	}
	var defs []def
	w.each(w.root.node, func(k, v int) {
		if w.Is(k, "$defs") || w.Is(k, "definitions") {
			p := place{v, w.root.at.key(w.Str(k))}
			w.each(v, func(k, v int) { defs = append(defs, def{parent: p, key: k, end: w.After(v)}) })
		}
	})
	if len(defs) == 0 {
		return
	}
	holding := func(node int) int {
		i := sort.Search(len(defs), func(i int) bool { return defs[i].end > node })
		if i < len(defs) && defs[i].key <= node {
			return i
		}
		return -1
	}
	cut := slices.Clone(w.removals)
	slices.SortFunc(cut, func(a, b removal) int { return cmp.Compare(a.child, b.child) })
	ends := make([]int, len(cut)) // the furthest end so far: removals nest
	far := 0
	for i, x := range cut {
		far = max(far, w.endOf(x))
		ends[i] = far
	}
	gone := func(node int) bool {
		i := sort.Search(len(cut), func(i int) bool { return cut[i].child > node })
		return i > 0 && ends[i-1] > node
	}
	var roots [2][]int
	for i, end := w.root.node, w.After(w.root.node); i+1 < end; i++ {
		if w.Kind(i) != tape.String || !w.Is(i, "$ref") || w.Kind(i+1) != tape.String {
			continue
		}
		ref := w.Raw(i + 1)
		d, _ := w.definition(w.Str(i + 1))
		if d < 0 {
			if bytes.HasPrefix(ref, []byte(`"#`)) && string(ref) != `"#"` {
				return // an anchor, say: who is used can't be told
			}
			continue
		}
		to := holding(d)
		if to < 0 {
			continue
		}
		from := holding(i)
		if from == to {
			continue
		}
		into := &roots
		if from >= 0 {
			into = &defs[from].uses
		}
		into[0] = append(into[0], to)
		if !gone(i) {
			into[1] = append(into[1], to)
		}
	}
	reach := func(when int) []bool {
		used := make([]bool, len(defs))
		todo := slices.Clone(roots[when])
		for len(todo) > 0 {
			d := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !used[d] {
				used[d] = true
				todo = append(todo, defs[d].uses[when]...)
			}
		}
		return used
	}
	before, after := reach(0), reach(1)
	left := map[int]int{}
	for i, d := range defs {
		if before[i] && !after[i] {
			w.remove(d.parent, d.key, d.parent.at.key(w.Str(d.key)), KindDefinition)
		} else {
			left[d.parent.node]++
		}
	}
	w.each(w.root.node, func(k, v int) {
		if (w.Is(k, "$defs") || w.Is(k, "definitions")) && w.Count(v) > 0 && left[v] == 0 {
			w.remove(w.root, k, w.root.at.key(w.Str(k)), KindDefinition)
		}
	})
}
