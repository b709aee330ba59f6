// Declarations that are written as TypeScript inside a text.
//
// A client that lets the model write programs describes its functions by their
// types: as a fenced block for each (Codex's code mode), or as one interface
// with a member a function (DSH's). read finds these blocks and lists the
// members of every object type in them:
//
//	declare const tools: { exec_command(args: {   members: tools, exec_command
//	  // What to run.                             lead of cmd
//	  cmd: string;                                member cmd, of exec_command
//	  sandbox_permissions?: "a" | "b";            member, of exec_command
//	}): Promise<{ output: string }>; };           what it returns is nobody's
//
// Only as much of the language is read as that takes: brackets, strings,
// comments and the ends of members. What is not understood is left alone.

package schema

import (
	"slices"
	"strings"
)

// decl is a statement, or a member of an object type.
type decl struct {
	name   string
	up     int    // the member whose type holds it, or -1
	owner  string // the function whose argument it is, "" if none
	direct bool   // of the argument itself, not of an object in it
	lead   []span // its own comments before it
	start  int    // of its first word
	end    int    // after its terminator
	tail   int    // after a comment that follows on its line; else end
	after  int    // the index after the members inside it
	words  []span // string literals of its own type
	gone   bool   // set by prune
}

// begin is where the member starts, its own comments included.
func (m *decl) begin() int {
	if len(m.lead) > 0 {
		return m.lead[0].start
	}
	return m.start
}

// script is one piece of TypeScript in a text.
type script struct {
	span         // its code
	outer   span // with the fence, if there is one
	fenced  bool
	broken  bool // it was not understood
	ours    bool // it declares something; else it may as well be an example
	members []decl
}

var (
	scriptFenceRE = lazily("^[ \t]*(```+|~~~+)[ \t]*(?i:ts|tsx|typescript|d\\.ts|js|javascript)?[ \t]*$")
	declareRE     = lazily(`(?m)^[ \t]*(?:export\s+)?(?:declare|type|interface|namespace)\s+[A-Za-z_$]`)
	statementRE   = lazily(`^(?:export\s+)?(?:declare|type|interface|namespace)\s+[A-Za-z_$]`)
)

// scripts finds the TypeScript in a text. known says which names are
// functions' whose arguments matter.
func scripts(text string, known func(string) bool) []script {
	if !strings.Contains(text, "{") {
		return nil
	}
	var out []script
	failed := 0
	for at := 0; at < len(text); {
		stop, next := lineEnd(text, at)
		line := text[at:stop]
		switch m := fenceRE.FindStringSubmatch(line); {
		case m != nil:
			s := script{fenced: true, outer: span{at, len(text)}, span: span{next, len(text)}}
			for at = next; at < len(text); {
				stop, next = lineEnd(text, at)
				if strings.TrimSpace(text[at:stop]) == m[1] {
					s.end, s.outer.end = at, stop
					break
				}
				at = next
			}
			at = next
			if scriptFenceRE.MatchString(line) && strings.Contains(text[s.start:s.end], "{") {
				s.read(text, known)
				out = append(out, s)
			}
		case failed < maxFailed && len(line) > 0 && line[0] >= 'a' && line[0] <= 't' && statementRE.MatchString(line) && strings.ContainsAny(line, "{("):
			s := script{span: span{at, min(len(text), at+maxStatement)}}
			if s.readOne(text, known); s.broken || s.end <= at {
				at = next
				failed++
				continue
			}
			s.outer = s.span
			out = append(out, s)
			at = s.end
			if at < len(text) && text[at] == '\n' {
				at++
			}
		default:
			at = next
		}
	}
	return out
}

const (
	// maxStatement bounds a statement that no fence ends.
	maxStatement = 1 << 16
	// maxFailed is after how many statements that were not understood a text
	// is taken for prose.
	maxFailed = 8
)

// maxScriptDepth bounds how deep types may nest.
const maxScriptDepth = 100

// reader reads the members of a script.
type reader struct {
	text    string
	stop    int
	known   func(string) bool
	members []decl
	broken  bool
}

// read lists the members of the whole script.
func (s *script) read(text string, known func(string) bool) {
	r := reader{text: text, stop: s.end, known: known}
	end := r.list(s.start, 0, -1, "", false)
	s.members, s.broken = r.members, r.broken || end != s.end
}

// readOne lists the members of the statement at the start of the script and
// ends the script there.
func (s *script) readOne(text string, known func(string) bool) {
	r := reader{text: text, stop: s.end, known: known}
	s.end = r.member(s.start, nil, 0, -1, "", false)
	s.members, s.broken = r.members, r.broken
	if !s.broken {
		s.end = r.members[0].tail
	}
}

// list reads members from i to the bracket that closes them, or to the end at
// depth 0, and returns where that is.
func (r *reader) list(i, depth, up int, owner string, direct bool) int {
	var lead []span
	last := -1 // the member before
	for i < r.stop && !r.broken {
		c := r.text[i]
		switch {
		case c == '\n':
			// A blank line parts a comment from what follows it.
			if j := i + 1 + blanks(r.text[i+1:r.stop]); j < r.stop && r.text[j] == '\n' {
				lead = nil
			}
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == ';' || c == ',':
			i++
		case c == '/' && i+1 < r.stop && (r.text[i+1] == '/' || r.text[i+1] == '*'):
			end := r.comment(i)
			if last >= 0 && len(lead) == 0 && !strings.Contains(r.text[r.members[last].end:i], "\n") && r.members[last].tail == r.members[last].end && !strings.Contains(r.text[i:end], "\n") && lineEnds(r.text, end, r.stop) {
				r.members[last].tail = end
			} else {
				lead = append(lead, span{i, end})
			}
			i = end
		case c == '}' || c == ')' || c == ']' || c == '>':
			return i
		default:
			last = len(r.members)
			i = r.member(i, lead, depth, up, owner, direct)
			lead = nil
		}
	}
	return i
}

func blanks(s string) int { return len(s) - len(strings.TrimLeft(s, " \t\r")) }

// lineEnds reports whether nothing but blanks follows on the line.
func lineEnds(text string, i, stop int) bool {
	i += blanks(text[i:stop])
	return i >= stop || text[i] == '\n'
}

// comment returns the end of the comment at i.
func (r *reader) comment(i int) int {
	if r.text[i+1] == '/' {
		if n := strings.IndexByte(r.text[i:r.stop], '\n'); n >= 0 {
			return i + len(strings.TrimRight(r.text[i:i+n], "\r"))
		}
		return r.stop
	}
	if n := strings.Index(r.text[i+2:r.stop], "*/"); n >= 0 {
		return i + 2 + n + 2
	}
	r.broken = true
	return r.stop
}

// quoted returns the end of the string at i.
func (r *reader) quoted(i int) int {
	q := r.text[i]
	for i++; i < r.stop; i++ {
		switch c := r.text[i]; {
		case c == '\\':
			i++
		case c == q:
			return i + 1
		case c == '\n' && q != '`':
			r.broken = true
			return r.stop
		}
	}
	r.broken = true
	return r.stop
}

func isNameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// modifiers may stand before a member's name, and be names themselves.
var modifiers = map[string]bool{
	"export": true, "declare": true, "const": true, "let": true, "var": true, "type": true, "interface": true, "namespace": true,
	"module": true, "class": true, "abstract": true, "function": true, "async": true, "readonly": true, "default": true,
	"public": true, "static": true, "get": true, "set": true,
}

// name reads what a member is called and returns what follows.
func (r *reader) name(i int) (string, int) {
	for i < r.stop {
		switch c := r.text[i]; {
		case c == '"' || c == '\'':
			end := r.quoted(i)
			if r.broken {
				return "", end
			}
			return r.text[i+1 : end-1], end
		case isNameByte(c):
			from := i
			for i < r.stop && isNameByte(r.text[i]) {
				i++
			}
			word := r.text[from:i]
			j := i + blanks(r.text[i:r.stop])
			if !modifiers[word] || j >= r.stop || !isNameByte(r.text[j]) && r.text[j] != '"' && r.text[j] != '\'' {
				return word, i
			}
			i = j
		default:
			return "", i
		}
	}
	return "", i
}

// member reads one member from its first word to the end of its line.
func (r *reader) member(i int, lead []span, depth, up int, owner string, direct bool) int {
	if depth > maxScriptDepth {
		r.broken = true
		return r.stop
	}
	self := len(r.members)
	m := decl{up: up, owner: owner, direct: direct, lead: lead, start: i}
	m.name, i = r.name(i)
	r.members = append(r.members, m)

	// Whose argument an object in this member's type is.
	inner, first := owner, false
	if owner == "" && depth <= 1 && m.name != "" && r.known(m.name) {
		inner, first = m.name, true
	}
	returns := false // behind the parameters of a function
	var open []byte  // brackets
	end := func(at, next int) int {
		m := &r.members[self]
		m.end, m.tail, m.after = at, at, len(r.members)
		return next
	}
	for i < r.stop && !r.broken {
		switch c := r.text[i]; c {
		case '{':
			o, d := inner, first
			if returns {
				o, d = "", false
			}
			i = r.list(i+1, depth+1, self, o, d)
			if r.broken || i >= r.stop || r.text[i] != '}' {
				r.broken = true
				return r.stop
			}
			i++
		case '(', '[', '<':
			open = append(open, c)
			i++
		case ')', ']', '>', '}':
			if c == '>' && (r.text[i-1] == '=' || len(open) == 0 || open[len(open)-1] != '<') {
				i++ // an arrow, or a sign in something else
				continue
			}
			if len(open) == 0 {
				return end(r.members[self].start+len(strings.TrimRight(r.text[r.members[self].start:i], " \t\r\n")), i)
			}
			if pair := open[len(open)-1]; pair == '(' && c != ')' || pair == '[' && c != ']' || pair == '<' && c != '>' {
				r.broken = true
				return r.stop
			}
			open = open[:len(open)-1]
			if c == ')' && len(open) == 0 && owner == "" {
				returns = true
			}
			i++
		case '"', '\'', '`':
			to := r.quoted(i)
			if len(open) == 0 {
				r.members[self].words = append(r.members[self].words, span{i, to})
			}
			i = to
		case '/':
			if i+1 < r.stop && (r.text[i+1] == '/' || r.text[i+1] == '*') {
				i = r.comment(i)
			} else {
				i++
			}
		case ';', ',':
			i++
			if len(open) == 0 {
				return end(i, i)
			}
		case '\n':
			j := i + spaces(r.text[i:r.stop])
			if len(open) == 0 && (j >= r.stop || strings.IndexByte("|&=?:.", r.text[j]) < 0) {
				was := strings.TrimRight(r.text[r.members[self].start:i], " \t\r")
				if was == "" || strings.IndexByte("|&=:<,", was[len(was)-1]) < 0 && !strings.HasSuffix(was, "=>") {
					return end(r.members[self].start+len(was), i)
				}
			}
			i = j
		default:
			i++
		}
	}
	if len(open) > 0 {
		r.broken = true
	}
	return end(i, i)
}

// declared is what the scripts of a text say, by function.
type declared struct {
	stay  []string // members of its argument that stay
	enums []string // values that removed members listed
	at    int      // where it is declared
}

// scriptEdit is what should leave the scripts of a text.
type scriptEdit struct {
	cuts  []span
	lines int // how many members go
	funcs map[string]*declared
	// whole are scripts of which every declaration goes.
	whole []span
}

// prune decides which members go.
func (n *narrower) prune(text string, all []script, rep *Report, describe func() string) scriptEdit {
	e := scriptEdit{funcs: map[string]*declared{}}
	for si := range all {
		s := &all[si]
		s.ours = declareRE.MatchString(text[s.start:s.end])
		if s.broken {
			if mentions([]byte(text[s.start:s.end]), n.rules.words(nil)) {
				rep.suspect("%s: a declaration was not understood, and stays: %s", describe(), excerpt(text[s.start:s.end]))
			}
			continue
		}
		gone := make([]bool, len(s.members))
		kept := 0 // functions that stay
		for i := range s.members {
			m := &s.members[i]
			if m.up >= 0 && gone[m.up] {
				gone[i] = true
				continue
			}
			if m.owner == "" {
				level := 0
				for up := m.up; up >= 0 && level < 2; up = s.members[up].up {
					level++
				}
				if level < 2 && m.name != "" && slices.Contains(n.rules.Drop, m.name) {
					gone[i], s.ours = true, true
					e.of(m.name, m.start)
				}
				continue
			}
			s.ours = true
			f := e.of(m.owner, m.start)
			tool := scope{fields: n.rules.Tools[m.owner]}
			if tool.gone(m.name, m.direct) {
				gone[i] = true
				for _, w := range m.words {
					f.enums = append(f.enums, text[w.start+1:w.end-1])
				}
				continue
			}
			f.stay = append(f.stay, m.name)
			if dead := tool.dead(m.name, m.direct); len(dead) > 0 {
				e.values(text, m, dead)
			}
		}
		// A statement that only holds what goes is a statement about nothing.
		inside := make([]int, len(s.members))
		left := make([]int, len(s.members))
		for i := len(s.members) - 1; i >= 0; i-- {
			m := &s.members[i]
			if !gone[i] && m.owner == "" && inside[i] > 0 && left[i] == 0 && m.up < 0 && n.emptied(s, gone, i) {
				gone[i] = true
			}
			if m.up >= 0 {
				inside[m.up]++
				if !gone[i] {
					left[m.up]++
				}
			} else if !gone[i] {
				kept++
			}
		}
		if kept == 0 && len(s.members) > 0 {
			e.whole = append(e.whole, s.outer)
			continue
		}
		for i := range gone {
			s.members[i].gone = gone[i]
		}
		e.members(text, s, gone)
	}
	return e
}

// emptied reports whether all that was directly inside a statement is dropped
// functions.
func (n *narrower) emptied(s *script, gone []bool, i int) bool {
	any := false
	for j := i + 1; j < s.members[i].after; j++ {
		if s.members[j].up == i {
			if !gone[j] || s.members[j].owner != "" {
				return false
			}
			any = true
		}
	}
	return any
}

func (e *scriptEdit) of(name string, at int) *declared {
	f := e.funcs[name]
	if f == nil {
		f = &declared{at: at}
		e.funcs[name] = f
	}
	return f
}

// values cuts dead words out of a union, each with the bar that belongs to it.
func (e *scriptEdit) values(text string, m *decl, dead []string) {
	var keep []bool
	left, last := 0, 0
	for i, w := range m.words {
		ok := !slices.Contains(dead, text[w.start+1:w.end-1])
		keep = append(keep, ok)
		if ok {
			left++
			last = i
		}
	}
	if left == 0 || left == len(keep) {
		return
	}
	for i, w := range m.words {
		if keep[i] {
			continue
		}
		before := strings.TrimRight(text[m.start:w.start], " \t\r\n")
		after := text[w.end:m.end]
		gap := spaces(after)
		switch {
		case i < last && gap < len(after) && after[gap] == '|':
			e.cuts = append(e.cuts, span{w.start, w.end + gap + 1 + spaces(after[gap+1:])})
		case strings.HasSuffix(before, "|"):
			e.cuts = append(e.cuts, span{m.start + len(strings.TrimRight(before[:len(before)-1], " \t\r\n")), w.end})
		}
	}
}

// members cuts the members that go: their lines, where they stand on lines of
// their own, else the piece between their neighbours.
func (e *scriptEdit) members(text string, s *script, gone []bool) {
	prev := map[int]int{} // parent → the end of its last member that stays
	for i := 0; i < len(s.members); i++ {
		m := &s.members[i]
		if !gone[i] {
			prev[m.up] = m.tail
			continue
		}
		// The run of neighbours that goes.
		last, next := i, -1
		for j := m.after; j < len(s.members) && s.members[j].up == m.up; j = s.members[j].after {
			if !gone[j] {
				next = j
				break
			}
			last = j
		}
		from, to := m.begin(), s.members[last].tail
		lineStart := strings.LastIndexByte(text[:from], '\n') + 1
		if lineStart >= s.start && strings.TrimSpace(text[lineStart:from]) == "" && lineEnds(text, to, s.end) {
			_, nl := lineEnd(text, to)
			e.cuts = append(e.cuts, span{lineStart, min(nl, s.end)})
		} else if next >= 0 {
			e.cuts = append(e.cuts, span{from, s.members[next].begin()})
		} else if p, ok := prev[m.up]; ok {
			e.cuts = append(e.cuts, span{p, to})
		} else {
			e.cuts = append(e.cuts, span{from, to})
		}
		e.lines += last - i + 1
		i = s.members[last].after - 1
	}
}
