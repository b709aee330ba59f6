// Package schema takes out of a tool's declaration the options that a session
// can never be granted, so that the model never sees them.
//
// The root idea: a tool is one JSON value in a request, and narrowing it is a
// deletion of bytes, nothing else. The package finds spans, cuts them, and
// leaves every other byte where it was. Key order, white space, escapes and
// cache_control are the client's own afterwards, so a prompt cache sees the
// same bytes at each turn of a session.
//
// Three things leave a tool: the field among its properties, the field's name
// in required, and the prose that speaks of it. Prose is judged by its
// structure and by what a sentence is about; no client's text is known here.
// See prose.go for how a text is taken apart, about.go for what a sentence is
// about, and run.go for how far a cut reaches.
//
// The package is pure: the result depends on the two arguments only. Nothing
// is cached and nothing global is written, so all of it is safe for concurrent
// use.
package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Rules says which fields of which tools can never be granted. It is fixed for
// a session: the same rules must be used for each request of it, or the
// rewritten bytes move. Narrow only reads it. The zero value removes nothing.
//
// The JSON form is stable, since recordings carry it.
type Rules struct {
	// Tools maps a tool's name, compared byte for byte with the decoded name
	// in the request, to the fields it loses.
	Tools map[string][]Field `json:"tools,omitempty"`
}

// Field is one option of a tool.
type Field struct {
	// Name is the property's name, compared with the decoded key.
	Name string `json:"name"`
	// Values are the field's values that ask for more than the session has,
	// as prose may offer them without naming the field. Only those that can
	// be nothing else in a sentence are looked for: danger-full-access, but
	// not true.
	Values []string `json:"values,omitempty"`
	// Nested removes the field from object schemas below the tool's own as
	// well (under properties and items). Without it a nested property of the
	// same name is somebody else's and stays.
	Nested bool `json:"nested,omitempty"`
}

// Report says what Narrow did to one tool. Its slices are new and belong to
// the caller.
type Report struct {
	// Tool is the tool's decoded name, "" when there is none to read.
	Tool string
	// Removed are the JSON pointers (RFC 6901) of the removed members and
	// elements, as they were in the input; of each schema first its
	// properties, then its required.
	Removed []string
	// Prose is the removed text, decoded, one entry a cut.
	Prose []string
	// Suspicious describes what looked like an option or like a text about
	// one, and stayed; and why a tool was left alone if that is remarkable.
	// For people: the wording may change.
	Suspicious []string
}

// suspect adds a line to Suspicious, once.
func (r *Report) suspect(format string, args ...any) {
	if len(r.Suspicious) >= maxSuspicions {
		return
	}
	if line := fmt.Sprintf(format, args...); !slices.Contains(r.Suspicious, line) {
		r.Suspicious = append(r.Suspicious, line)
	}
}

const (
	// maxSuspicions bounds a report on a hostile or merely repetitive tool.
	maxSuspicions = 64
	// maxPasses bounds the search for a text that narrowing leaves alone.
	// Two are usual: one that cuts and one that finds nothing more.
	maxPasses = 8
)

// Narrow removes from one element of a request's tools array the fields that r
// lists for the tool of that name: from the properties and the required list
// of its schema, and from the prose of the tool's description and of the
// descriptions of the properties that stay.
//
// Three shapes are understood: Anthropic Messages ({name, description,
// input_schema}), OpenAI Chat ({type:"function", function:{name, description,
// parameters}}) and OpenAI Responses ({type:"function", name, description,
// parameters}), each as in the provider's API reference for tools. Everything
// else is left alone: a tool that no rule names, a tool that the provider runs
// itself, an unknown type, a duplicate key anywhere in the tool, bytes that are
// not JSON or not UTF-8.
//
// The result is a subsequence of the input's bytes. When nothing is removed it
// is the very slice that came in; otherwise it is a new slice that belongs to
// the caller. The input is never written to. Valid JSON stays valid JSON, and
// narrowing a result again returns that result itself.
//
// A description whose whole text is about removed fields becomes the empty
// string; the member stays, because taking it away could break a client's or a
// provider's schema of a tool.
func Narrow(tool []byte, r Rules) ([]byte, Report) {
	// encoding/json, not gjson, decides what is JSON: it bounds the depth, so
	// the recursion below is bounded too.
	if !json.Valid(tool) {
		return tool, Report{Suspicious: []string{"the tool is not valid JSON; left as it is"}}
	}
	var rep Report
	out := tool
	for range maxPasses {
		next := pass(out, r, &rep)
		if next == nil {
			return out, rep
		}
		out = next
	}
	return tool, Report{Tool: rep.Tool, Suspicious: []string{
		fmt.Sprintf("the prose of tool %q changed its meaning with each of %d cuts; left as it is", rep.Tool, maxPasses),
	}}
}

// pass narrows src once. It returns nil when there is nothing to remove. src is
// valid JSON.
//
// Cutting a sentence makes neighbours of two others, so a second pass could in
// principle see a run that the first did not. Narrow therefore repeats passes
// until one removes nothing: that is what makes it idempotent by construction
// rather than by hope.
func pass(src []byte, r Rules, rep *Report) []byte {
	root := parse(src)
	d := locate(&root)
	rep.Tool = d.name
	fields := r.Tools[d.name]
	if d.problem != "" || len(fields) == 0 {
		reportStranger(&root, d, r, rep)
		return nil
	}
	if !utf8.Valid(src) {
		rep.suspect("the tool is not valid UTF-8; left as it is")
		return nil
	}
	if at, ok := duplicate(&root, &path{}); ok {
		rep.suspect("%s: duplicate key; the tool is left as it is", at)
		return nil
	}

	n := narrower{fields: fields, rep: rep}
	if d.schema != nil {
		n.visit(place{d.schema, d.schemaAt}, true)
	}
	subj := n.subject()
	texts := n.descriptions
	if d.description != nil {
		texts = append([]place{{d.description, d.at.key("description")}}, texts...)
	}
	prose := map[*node]bool{}
	for _, t := range texts {
		prose[t.node] = true
		n.prose(src, t, subj)
	}
	if len(n.cuts) == 0 {
		reportRemains(&root, subj, prose, rep)
		return nil
	}
	return cut(src, n.cuts)
}

// narrower collects the cuts of one pass.
type narrower struct {
	fields       []Field
	rep          *Report
	cuts         []span
	stay         []string // names of the properties that stay, at any depth
	enums        []string // values that a removed property listed
	descriptions []place  // descriptions of schemas that stay
}

// place is a node and where it stands.
type place struct {
	node *node
	at   *path
}

// visit cuts the fields from one object schema and goes down into those that
// stay. Only here do the words properties, required and description have their
// JSON Schema meaning; a property of one of these names is a property.
//
// Of the keywords that hold schemas, properties and items are followed. The
// others (dependentRequired, allOf, $defs and the like) are left alone, and
// what they still say of a removed field is reported.
func (n *narrower) visit(p place, top bool) {
	s, at := p.node, p.at
	if s.kind != '{' {
		return
	}
	if d := s.member("description"); d != nil && d.kind == '"' {
		n.descriptions = append(n.descriptions, place{d, at.key("description")})
	}
	gone := func(name string) bool {
		return slices.ContainsFunc(n.fields, func(f Field) bool { return f.Name == name && (top || f.Nested) })
	}
	if props := s.member("properties"); props != nil && props.kind == '{' {
		at := at.key("properties")
		n.remove(place{props, at}, func(p *node) bool { return gone(p.key) })
		for i := range props.kids {
			p := &props.kids[i]
			if gone(p.key) {
				if e := p.member("enum"); e != nil {
					for j := range e.kids {
						if e.kids[j].kind == '"' {
							n.enums = append(n.enums, e.kids[j].text)
						}
					}
				}
				continue
			}
			n.stay = append(n.stay, p.key)
			n.visit(place{p, at.key(p.key)}, false)
		}
	}
	if req := s.member("required"); req != nil && req.kind == '[' {
		n.remove(place{req, at.key("required")}, func(e *node) bool { return e.kind == '"' && gone(e.text) })
	}
	if items := s.member("items"); items != nil {
		n.visit(place{items, at.key("items")}, false)
	}
}

// remove cuts the children of an object or array that drop selects, each with
// the one comma and the white space that belong to it.
func (n *narrower) remove(parent place, drop func(*node) bool) {
	keep := make([]bool, len(parent.node.kids))
	for i := range keep {
		keep[i] = !drop(&parent.node.kids[i])
		if !keep[i] {
			n.rep.Removed = append(n.rep.Removed, parent.at.in(parent.node, i).String())
		}
	}
	if slices.Contains(keep, false) {
		n.cuts = append(n.cuts, cutChildren(parent.node, keep)...)
	}
}

// subject is what the prose of this tool must not speak of.
func (n *narrower) subject() *subject {
	s := &subject{stay: n.stay, enums: n.enums}
	for _, f := range n.fields {
		switch {
		case f.Name == "":
		case slices.Contains(n.stay, f.Name):
			// What the prose says of it may be about the one that stays.
			n.rep.suspect("a property %q stays below the tool's own schema, and so does the prose that names it", f.Name)
		default:
			s.names = append(s.names, f.Name)
		}
		for _, v := range f.Values {
			if isIdentifier(v) {
				s.values = append(s.values, v)
			}
		}
	}
	return s
}

// prose cuts what a description says about the subject.
func (n *narrower) prose(src []byte, d place, s *subject) {
	t := decode(src, d.node)
	e := edit(t.s, s)
	for _, c := range e.cuts {
		n.cuts = append(n.cuts, span{t.raw(c.start), t.raw(c.end)})
		if gone := strings.TrimSpace(t.s[c.start:c.end]); gone != "" {
			n.rep.Prose = append(n.rep.Prose, gone)
		}
	}
	for _, k := range e.kept {
		n.rep.suspect("%s: %s: %s", d.at, k.why, excerpt(k.text))
	}
}

// reportStranger notes where a tool that is left alone carries a field name
// that the rules know from other tools. Plain words (justification) say
// nothing in a strange tool; identifiers do.
func reportStranger(root *node, d declaration, r Rules, rep *Report) {
	var names []string
	for _, fields := range r.Tools {
		for _, f := range fields {
			if isIdentifier(f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	slices.Sort(names) // map order must not show in the report
	names = slices.Compact(names)
	why := "the rules do not name this tool"
	if d.problem != "" {
		why = d.problem
		if !d.hosted && (d.name == "" || len(r.Tools[d.name]) > 0) {
			rep.suspect("%s; left as it is", why)
		}
	}
	if len(names) == 0 {
		return
	}
	s := &subject{names: names}
	root.walk(&path{}, func(n *node, at *path) {
		for _, text := range [...]string{n.key, n.text} {
			if name := s.firstName(text); name != "" {
				rep.suspect("%s: names %q, but %s", at, name, why)
			}
		}
	})
}

// reportRemains notes removed fields that other parts of a narrowed tool still
// name: keywords that are not followed, examples, defaults, titles.
func reportRemains(root *node, s *subject, prose map[*node]bool, rep *Report) {
	root.walk(&path{}, func(n *node, at *path) {
		if prose[n] {
			return // judged sentence by sentence
		}
		for _, text := range [...]string{n.key, n.text} {
			for _, name := range s.names {
				if text == name || isIdentifier(name) && len(find(text, name)) > 0 {
					rep.suspect("%s: still names %q", at, name)
				}
			}
		}
	})
}

// excerpt quotes a text for a report, shortened.
func excerpt(s string) string {
	const limit = 160
	if len(s) > limit {
		i := limit
		for !utf8.RuneStart(s[i]) {
			i--
		}
		s = s[:i] + "…"
	}
	return fmt.Sprintf("%q", s)
}
