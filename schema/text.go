// Texts that speak of removed fields: descriptions of tools, and the messages
// in which a client explains its options.

package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// TextReport says what was done to one text. Its slices are new and belong to
// the caller.
type TextReport struct {
	// Prose is the removed text, decoded, one entry a cut.
	Prose []string
	// Suspicious describes what looked like a text about a removed field and
	// stayed. For people: the wording may change.
	Suspicious []string
	// Cuts are all removals. At is empty: the text is one string.
	Cuts []Cut
	// Empty says that nothing but white space is left. Providers refuse
	// empty text blocks and empty messages, so the caller takes the block
	// away instead of sending the result.
	Empty bool
}

// NarrowText removes from a text, given as one JSON string token with its
// quotes, what it says about the fields and tools that r takes away: sentences,
// list items and heading sections, and the lines of TypeScript declarations.
// It is meant for texts that a client writes and that are not the declaration
// of a tool: system and developer messages, context notes.
//
// Such a text says much else about sandboxes and approval that is true and
// useful, and the properties that stay are not known here. So it is judged
// with more reserve than a description: a text that names none of the fields,
// by a name that can be nothing but a name, is left alone; one of their values
// only counts where the sentence tells the reader to ask with it; and of the
// sentences before the first that goes, only those go that speak of getting
// more, or of the denial that the next one answers.
//
// Everything that Narrow promises holds: a pure deletion on raw bytes, the same
// slice when nothing goes, idempotent, and the result depends on the arguments
// alone. What is not one valid JSON string comes back as it is.
func NarrowText(text []byte, r Rules) ([]byte, TextReport) {
	if !r.speaks(text) {
		return text, TextReport{}
	}
	return narrowString(text, r, func(n *narrower, s string) edits {
		return n.document(s, &scope{free: true}, true)
	})
}

// NarrowHint removes the lines in square brackets at the end of a text, given
// as one JSON string token with its quotes, that name a field or tool which r
// takes away. A client appends such lines to what a command printed; what the
// command printed is none of our business, whatever it says, so nothing else
// is looked at.
func NarrowHint(text []byte, r Rules) ([]byte, TextReport) {
	if !r.speaks(text) {
		return text, TextReport{}
	}
	return narrowString(text, r, func(n *narrower, s string) edits { return edits{cuts: hints(s, n.words())} })
}

// speaks is a quick test: false means that a text names nothing that goes.
func (r *Rules) speaks(token []byte) bool {
	var room [16]string
	words := r.words(room[:0])
	return len(words) > 0 && len(token) > 1 && token[0] == '"' && (mentions(token, words) || bytes.Contains(token, []byte(`\u00`)))
}

func narrowString(token []byte, r Rules, judge func(*narrower, string) edits) ([]byte, TextReport) {
	var rep TextReport
	t := tapes.Get().(*tape.Tape)
	defer release(t)
	out := token
	for n := 0; ; n++ {
		if t.ParseRepeats(out) != nil || t.Kind(0) != tape.String {
			return token, TextReport{}
		}
		start, end := t.Span(0)
		d := decode(out, start, end)
		var report Report
		e := judge(&narrower{Tape: t, src: out, rules: &r, rep: &report}, d.s)
		rep.Suspicious = report.Suspicious
		for _, k := range e.kept {
			if len(rep.Suspicious) < maxSuspicions {
				rep.Suspicious = append(rep.Suspicious, k.why+": "+excerpt(k.text))
			}
		}
		cuts := e.raw(&d)
		if len(cuts) == 0 {
			break
		}
		if n == maxPasses {
			return token, TextReport{Suspicious: []string{"the text changed its meaning with each cut; left as it is"}}
		}
		var spans []span
		for _, c := range cuts {
			spans = append(spans, c.span)
			gone := strings.TrimSpace(c.text)
			rep.Cuts = append(rep.Cuts, Cut{Kind: c.kind, Bytes: c.end - c.start, Text: gone})
			if gone != "" {
				rep.Prose = append(rep.Prose, gone)
			}
		}
		out = cut(out, spans)
	}
	if len(rep.Cuts) > 0 {
		start, end := t.Span(0)
		rep.Empty = strings.TrimSpace(decode(out, start, end).s) == ""
	}
	return out, rep
}

// words are the names that the rules take away and that can only be names.
func (n *narrower) words() []string { return n.rules.words(nil) }

// hints finds the lines in brackets at the end of a text that name one of the
// words.
func hints(text string, words []string) []span {
	var out []span
	end := len(text) - len(text[len(strings.TrimRight(text, " \t\r\n")):])
	for end > 0 {
		start := strings.LastIndexByte(text[:end], '\n') + 1
		line := strings.TrimSpace(text[start:end])
		// A client may put a word before the first of its lines.
		if i := strings.Index(line, "["); i > 0 && i <= 20 && strings.HasSuffix(line[:i], ": ") && !strings.Contains(line[i+1:len(line)-1], "[") {
			line = line[i:]
			start = end - len(line)
		}
		if len(line) < 2 || line[0] != '[' || line[len(line)-1] != ']' {
			break
		}
		if slices.ContainsFunc(words, func(w string) bool { return len(find(line, w)) > 0 }) {
			// With the line break before it, so that what follows closes up.
			from := start
			if from > 0 && text[from-1] == '\n' {
				from--
				if from > 0 && text[from-1] == '\r' {
					from--
				}
				out = append(out, span{from, end})
			} else {
				_, next := lineEnd(text, start)
				out = append(out, span{from, next})
			}
		}
		end = len(strings.TrimRight(text[:start], " \t\r\n"))
		if start > 0 && text[start-1] != '\n' {
			break
		}
	}
	slices.Reverse(out)
	return out
}

// prose cuts what the descriptions of one tool say about what it loses.
func (n *narrower) prose(s *scope) {
	s.subject = n.subject(s.fields, s.stay, s.enums, s.live, true)
	if n.mute {
		return
	}
	for _, d := range s.texts {
		if n.within(d.node) {
			continue
		}
		raw := n.Raw(d.node)
		if bytes.IndexByte(raw, '\\') < 0 && !n.relevant(s, raw) {
			continue
		}
		start, end := n.Span(d.node)
		t := decode(n.src, start, end)
		e := n.document(t.s, s, false)
		for _, c := range e.raw(&t) {
			c.at = d.at
			n.textual = append(n.textual, c)
		}
		for _, k := range e.kept {
			n.rep.suspect("%s: %s: %s", d.at, k.why, excerpt(k.text))
		}
	}
}

// relevant is a quick test: false means that nothing in the text can go.
func (n *narrower) relevant(s *scope, text []byte) bool {
	if s.subject.relevant(string(text)) {
		return true
	}
	if !s.free {
		return false
	}
	for _, fields := range n.rules.Tools {
		for _, f := range fields {
			if f.Name != "" && bytes.Contains(text, []byte(f.Name)) {
				return true
			}
		}
	}
	return false
}

// subject is what prose must not speak of when a tool loses these fields.
func (n *narrower) subject(fields []Field, stay, enums, live []string, report bool) *subject {
	s := &subject{stay: stay, enums: enums, live: live}
	for _, f := range fields {
		for _, v := range f.DeadValues {
			if isIdentifier(v) {
				s.names = append(s.names, v)
			}
		}
		if len(f.DeadValues) > 0 {
			continue
		}
		switch {
		case f.Name == "":
		case slices.Contains(stay, f.Name):
			// What the prose says of it may be about the one that stays.
			if report {
				n.rep.suspect("a property %q stays below the tool's own schema, and so does the prose that names it", f.Name)
			}
		default:
			s.names = append(s.names, f.Name)
		}
		for _, v := range f.Values {
			if isIdentifier(v) {
				s.values = append(s.values, v)
			}
		}
	}
	for _, d := range n.rules.Drop {
		if isIdentifier(d) && !slices.Contains(s.names, d) {
			s.names = append(s.names, d)
		}
	}
	return s
}

// document decides what leaves a text that may hold declarations. own is the
// tool that the text describes.
func (n *narrower) document(text string, own *scope, reserved bool) edits {
	known := func(name string) bool { return len(n.rules.Tools[name]) > 0 }
	var ss []script
	if strings.Contains(text, "{") {
		ss = scripts(text, known)
	}
	se := n.prune(text, ss, n.rep, func() string { return "text" })

	if !own.free && len(se.funcs) == 0 {
		return n.layOut(text, ss, se, own.subject, nil)
	}
	// What the text as a whole must not speak of: what the tool loses, and
	// what the functions in it lose.
	fields := slices.Clone(own.fields)
	stay, enums := slices.Clone(own.stay), slices.Clone(own.enums)
	var names []string
	for name := range se.funcs {
		names = append(names, name)
	}
	slices.Sort(names) // map order must not show
	if reserved || own.free && len(own.fields) == 0 && len(names) == 0 {
		names = names[:0]
		for name := range n.rules.Tools {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	for _, name := range names {
		for _, f := range n.rules.Tools[name] {
			if i := slices.IndexFunc(fields, func(o Field) bool { return o.Name == f.Name }); i < 0 {
				fields = append(fields, f)
			} else {
				o := fields[i] // shared with nobody: the values are copied
				o.Values = union(o.Values, f.Values)
				o.DeadValues = union(o.DeadValues, f.DeadValues)
				fields[i] = o
			}
		}
		if f := se.funcs[name]; f != nil {
			stay, enums = append(stay, f.stay...), append(enums, f.enums...)
		}
	}
	base := n.subject(fields, stay, enums, own.live, false)
	base.reserved = reserved
	byName := map[string]*subject{}
	for name, f := range se.funcs {
		byName[name] = n.subject(n.rules.Tools[name], f.stay, f.enums, nil, false)
	}
	return n.layOut(text, ss, se, base, byName)
}

// layOut judges a text of which the scripts are known.
func (n *narrower) layOut(text string, ss []script, se scriptEdit, base *subject, byName map[string]*subject) edits {
	l := layout{subject: base, whole: se.whole}
	for i := range ss {
		s := &ss[i]
		if !s.fenced {
			l.opaque = append(l.opaque, s.outer)
		}
		if s.ours {
			l.scripts = append(l.scripts, s.outer)
		}
	}
	for name, sub := range byName {
		l.own = append(l.own, owned{se.funcs[name].at, sub})
	}
	slices.SortFunc(l.own, func(a, b owned) int { return a.at - b.at })
	e := editLayout(text, l)
	e.declarations = se.cuts
	for i := range ss {
		if !ss[i].broken && len(byName) > 0 {
			n.comments(text, &ss[i], byName, &e)
		}
	}
	return e
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// comments judges the comments of the members that stay: of a field by the
// function it belongs to, of a function by itself.
func (n *narrower) comments(text string, s *script, byName map[string]*subject, e *edits) {
	for i := range s.members {
		m := &s.members[i]
		if m.gone {
			continue
		}
		sub := byName[m.owner]
		if sub == nil && m.owner == "" {
			sub = byName[m.name]
		}
		if sub == nil {
			continue
		}
		for _, c := range m.lead {
			from, to := c.start+2, c.end
			if text[c.start+1] == '*' {
				to -= 2
				if from < to && text[from] == '*' {
					from++
				}
			}
			if from >= to {
				continue
			}
			in := text[from:to]
			ce := edit(in, sub)
			e.kept = append(e.kept, ce.kept...)
			if len(ce.cuts) == 0 {
				continue
			}
			if strings.TrimSpace(string(cut([]byte(in), slices.Clone(ce.cuts)))) == "" {
				lineStart := strings.LastIndexByte(text[:c.start], '\n') + 1
				if strings.TrimSpace(text[lineStart:c.start]) == "" && lineEnds(text, c.end, len(text)) {
					_, next := lineEnd(text, c.end)
					e.cuts = append(e.cuts, span{lineStart, next})
				} else {
					e.cuts = append(e.cuts, span{c.start, c.end + blanks(text[c.end:])})
				}
				continue
			}
			for _, x := range ce.cuts {
				e.cuts = append(e.cuts, span{from + x.start, from + x.end})
			}
		}
	}
}

// raw turns the edits of a decoded text into cuts of its source, those within
// others left out.
func (e *edits) raw(t *text) []textCut {
	if len(e.cuts)+len(e.declarations) == 0 {
		return nil
	}
	var all []textCut
	for _, c := range e.cuts {
		all = append(all, textCut{span: c, kind: KindProse})
	}
	for _, c := range e.declarations {
		all = append(all, textCut{span: c, kind: KindDeclaration})
	}
	slices.SortStableFunc(all, func(a, b textCut) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	out := all[:0]
	end := 0
	for _, c := range all {
		if c.end <= end || c.start == c.end {
			continue
		}
		c.start = max(c.start, end)
		end = c.end
		c.text = t.s[c.start:c.end]
		c.span = span{t.raw(c.start), t.raw(c.end)}
		out = append(out, c)
	}
	return out
}
