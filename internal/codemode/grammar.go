package codemode

// The grammar of a whole program, by recursive descent over the tokens:
//
//	program   = { statement ( ";" | line end | end ) }
//	statement = ( "const" | "let" | "var" ) binding { "," binding }
//	          | "text" "(" value [","] ")"
//	          | effect
//	binding   = pattern "=" ( effect | value )
//	pattern   = NAME | "[" NAME { "," NAME } [","] "]"
//	          | "{" NAME [ ":" NAME ] { "," … } [","] "}"
//	effect    = [ "await" ] ( call | all )
//	call      = "tools" "." NAME "(" ( object | string ) [","] ")"
//	all       = "Promise" "." "all" "(" "[" item { "," item } [","] "]" [","] ")"
//	value     = operand { ( "??" | "||" | "+" ) operand }
//	operand   = [ "await" ] primary { "." NAME | "?." NAME | "[" ( string | number ) "]" }
//	primary   = string | template | number | bound NAME | "(" value ")" | call | all
//	          | "JSON" "." "stringify" "(" value { "," ( "null" | number | string ) } [","] ")"
//
// Every statement starts with a name, so a statement that ends at a line end
// can't be taken for the beginning of the next one.

import (
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// maxMembers is how many members a literal object may have.
const maxMembers = 256

type reader struct {
	tokens []token
	at     int
	depth  int
	bound  map[string]bool
	calls  int // read by the grammar
}

func (r *reader) peek() *token { return &r.tokens[r.at] }

// is reports whether the next token is a punctuator or a word of that text.
func (r *reader) is(text string) bool {
	t := r.peek()
	return (t.kind == punct || t.kind == word) && t.text == text
}

// take takes the next token if it is one of that text.
func (r *reader) take(texts ...string) bool {
	from := r.at
	for _, s := range texts {
		if !r.is(s) {
			r.at = from
			return false
		}
		r.at++
	}
	return true
}

// enter counts the nesting; every successful enter is followed by a leave.
func (r *reader) enter() bool {
	r.depth++
	return r.depth <= maxDepth
}

func (r *reader) leave() { r.depth-- }

// list reads item { "," item } [","] close.
func (r *reader) list(closing string, item func() bool) bool {
	for {
		if !item() {
			return false
		}
		if r.take(closing) {
			return true
		}
		if !r.take(",") {
			return false
		}
		if r.take(closing) {
			return true
		}
	}
}

func (r *reader) program() bool {
	for {
		for r.take(";") {
		}
		if r.peek().kind == end {
			return true
		}
		if !r.statement() {
			return false
		}
		if t := r.peek(); t.kind != end && !r.is(";") && !t.newline {
			return false
		}
	}
}

func (r *reader) statement() bool {
	switch {
	case r.take("const"), r.take("let"), r.take("var"):
		for {
			if !r.binding() {
				return false
			}
			if !r.take(",") {
				return true
			}
		}
	case r.take("text", "("):
		return r.value() && (r.take(")") || r.take(",", ")"))
	}
	r.take("await")
	return r.call() || r.all()
}

// binding reads what is bound before it binds the names: they mean nothing in
// there yet.
func (r *reader) binding() bool {
	var names []string
	name := func() bool {
		t := r.peek()
		if t.kind != word || reserved[t.text] {
			return false
		}
		r.at++
		names = append(names, t.text)
		return true
	}
	switch {
	case r.take("["):
		if !r.list("]", name) {
			return false
		}
	case r.take("{"):
		if !r.list("}", func() bool {
			if t := r.peek(); t.kind == word && r.at+1 < len(r.tokens) && r.tokens[r.at+1].text == ":" && r.tokens[r.at+1].kind == punct {
				r.at += 2
			}
			return name()
		}) {
			return false
		}
	default:
		if !name() {
			return false
		}
	}
	if !r.take("=") || !r.value() {
		return false
	}
	for _, n := range names {
		if r.bound[n] {
			return false
		}
		r.bound[n] = true
	}
	return true
}

// call reads the call of a tool.
func (r *reader) call() bool {
	from := r.at
	if _, ok := r.toolCall(); !ok {
		r.at = from
		return false
	}
	r.calls++
	return true
}

func (r *reader) all() bool {
	return r.take("Promise", ".", "all", "(", "[") &&
		r.list("]", func() bool {
			if t := r.peek(); t.kind == word && r.bound[t.text] {
				r.at++
				return true
			}
			return r.call()
		}) &&
		(r.take(")") || r.take(",", ")"))
}

func (r *reader) value() bool {
	if !r.enter() {
		return false
	}
	defer r.leave()
	for {
		if !r.operand() {
			return false
		}
		if !r.take("??") && !r.take("||") && !r.take("+") {
			return true
		}
	}
}

func (r *reader) operand() bool {
	r.take("await")
	if !r.primary() {
		return false
	}
	for {
		switch {
		case r.take("."), r.take("?."):
			if r.peek().kind != word {
				return false
			}
			r.at++
		case r.take("["):
			if k := r.peek().kind; k != str && k != number {
				return false
			}
			r.at++
			if !r.take("]") {
				return false
			}
		default:
			return !r.is("(") && r.peek().kind != head // a method, or a tag
		}
	}
}

func (r *reader) primary() bool {
	switch t := r.peek(); t.kind {
	case str:
		r.at++
		return true
	case number:
		r.at++
		_, ok := decimal(t.text)
		return ok
	case head:
		r.at++
		for {
			if !r.value() {
				return false
			}
			switch r.peek().kind {
			case middle:
				r.at++
			case tail:
				r.at++
				return true
			default:
				return false
			}
		}
	case punct:
		return r.take("(") && r.value() && r.take(")")
	case word:
		switch t.text {
		case "JSON":
			return r.take("JSON", ".", "stringify", "(") && r.stringified()
		case "tools":
			return r.call()
		case "Promise":
			return r.all()
		}
		if !r.bound[t.text] {
			return false
		}
		r.at++
		return true
	}
	return false
}

func (r *reader) stringified() bool {
	first := true
	return r.list(")", func() bool {
		if first {
			first = false
			return r.value()
		}
		t := r.peek()
		_, plain := decimal(t.text)
		if !r.is("null") && t.kind != str && !(t.kind == number && plain) {
			return false
		}
		r.at++
		return true
	})
}

// reserved are the names that a program of the small form must not bind: the
// words of the language, and the globals that the form relies on.
var reserved = func() map[string]bool {
	m := map[string]bool{}
	for _, s := range strings.Fields(`tools text JSON Promise
		arguments as async await break case catch class const continue debugger default delete do else enum
		eval export extends false finally for from function get globalThis if implements import in instanceof
		interface let new null of package private protected public return set static super switch this throw
		true try typeof undefined var void while with yield NaN Infinity Object Array String then`) {
		m[s] = true
	}
	return m
}()

// seen collects the literal calls anywhere in the tokens.
func (r *reader) seen() (calls []Call) {
	for r.at = 0; r.peek().kind != end; r.at++ {
		if !r.is("tools") || r.at > 0 && r.tokens[r.at-1].kind == punct && (r.tokens[r.at-1].text == "." || r.tokens[r.at-1].text == "?.") {
			continue
		}
		from := r.at
		c, ok := r.toolCall()
		if ok {
			calls = append(calls, c)
		}
		// Arguments that are no literal may hold calls themselves.
		r.at = from
	}
	return calls
}

// toolCall reads the call of a tool with one literal argument.
func (r *reader) toolCall() (Call, bool) {
	if !r.take("tools", ".") && !r.take("tools", "?.") {
		return Call{}, false
	}
	name := r.peek()
	if name.kind != word {
		return Call{}, false
	}
	r.at++
	c := Call{Tool: name.text}
	if !r.take("(") {
		return c, false
	}
	var ok bool
	switch t := r.peek(); {
	case t.kind == str:
		c.Args, ok = tape.Quote(nil, t.text), true
		r.at++
	case r.is("{"):
		c.Args, ok = r.object(nil, &c.Members)
	}
	return c, ok && (r.take(")") || r.take(",", ")"))
}

// literal reads a literal value and appends it as JSON.
func (r *reader) literal(out []byte) ([]byte, bool) {
	t := r.peek()
	switch {
	case t.kind == str:
		r.at++
		return tape.Quote(out, t.text), true
	case t.kind == number:
		r.at++
		n, ok := decimal(t.text)
		return append(out, n...), ok
	case r.is("true"), r.is("false"), r.is("null"):
		r.at++
		return append(out, t.text...), true
	case r.is("{"):
		return r.object(out, nil)
	case r.is("["):
		if !r.enter() {
			return out, false
		}
		defer r.leave()
		r.at++
		out = append(out, '[')
		if r.take("]") {
			return append(out, ']'), true
		}
		n, ok := 0, true
		ok = r.list("]", func() bool {
			if n++; n > 1 {
				out = append(out, ',')
			}
			out, ok = r.literal(out)
			return ok
		})
		return append(out, ']'), ok
	}
	return out, false
}

// object reads a literal object and appends it as JSON. Names are words or
// strings, each once, and never __proto__, which is no member.
func (r *reader) object(out []byte, members *[]Member) ([]byte, bool) {
	if !r.enter() {
		return out, false
	}
	defer r.leave()
	r.at++ // {
	out = append(out, '{')
	if r.take("}") {
		return append(out, '}'), true
	}
	names := map[string]bool{}
	ok := r.list("}", func() bool {
		key := *r.peek()
		if key.kind != word && (key.kind != str || key.quote == '`') || key.text == "__proto__" || names[key.text] || len(names) == maxMembers {
			return false
		}
		r.at++
		if !r.take(":") {
			return false
		}
		if len(names) > 0 {
			out = append(out, ',')
		}
		names[key.text] = true
		out = append(tape.Quote(out, key.text), ':')
		var ok bool
		if out, ok = r.literal(out); !ok {
			return false
		}
		if members != nil {
			*members = append(*members, Member{key.text, key.start, r.tokens[r.at-1].end})
		}
		return true
	})
	return append(out, '}'), ok
}

// decimal is a plain decimal number as JSON writes it.
func decimal(s string) (string, bool) {
	whole, fraction, dotted := strings.Cut(s, ".")
	digits := func(s string) bool {
		for i := range len(s) {
			if !digit(s[i]) && !(s[i] == '_' && i > 0 && i+1 < len(s) && digit(s[i-1]) && digit(s[i+1])) {
				return false
			}
		}
		return s != ""
	}
	if !digits(whole) || len(whole) > 1 && whole[0] == '0' || dotted && !digits(fraction) {
		return "", false
	}
	return strings.ReplaceAll(s, "_", ""), true
}
