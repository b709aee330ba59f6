// Package codemode reads the programs that a model writes in a client's code
// mode: JavaScript that calls the client's tools as members of the object
// `tools` and shows results by `text(…)`.
//
// The reader is a recogniser, not an interpreter. It knows one small form of
// program, in which nothing but literals decides what is called: statements
// that await calls of tools with literal arguments, bind their results to
// names, and print strings and members of what was bound. Of such a program
// it says that it is Whole, and then its calls are all that it does. Every
// other program is not; the literal calls that can be seen in it are reported
// all the same, and there may be others.
//
// What makes the small form safe to believe: a program runs in an isolate of
// its own with fresh globals, the form can neither assign nor define a
// function, nothing is called but `tools.NAME`, `text`, `JSON.stringify` and
// `Promise.all`, and none of these names can be bound again. Results of tools
// are data without methods, so reading and printing them runs nothing.
//
// The source of the facts is the description of Codex's tool exec, which holds
// the programs' rules and the types of the tools.
//
// Everything here is pure, takes time linear in the size of the program, and
// errs towards "not whole".
package codemode

import (
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// maxDepth is how deep braces, brackets and parentheses may nest.
const maxDepth = 64

// Program is what was read of a program.
type Program struct {
	// Whole says that Calls are all that the program does, text aside.
	Whole bool
	// Calls are the calls of tools with one literal argument, in the order of
	// the source.
	Calls []Call
	// Strings are the values of all string literals that were read, in order,
	// those in arguments included.
	Strings []string

	src    string
	unsure bool // tokens may be misread
	words  map[string]bool
}

// Call is the call of a tool with a literal argument.
type Call struct {
	Tool string
	// Args is the argument as JSON, an object or a string, written anew.
	Args []byte
	// Members are those of an object, in order.
	Members []Member
}

// Member is one member of a literal object, without the commas around it:
// source[Start:End].
type Member struct {
	Name       string
	Start, End int
}

// Read reads a program.
func Read(source string) Program {
	l := lex(source)
	p := Program{src: source, unsure: l.unsure, words: map[string]bool{}}
	for _, t := range l.tokens {
		switch t.kind {
		case word:
			p.words[t.text] = true
		case str:
			p.words[t.text] = true
			p.Strings = append(p.Strings, t.text)
		}
	}
	r := reader{tokens: l.tokens}
	p.Calls = r.seen()
	whole := reader{tokens: l.tokens, bound: map[string]bool{}}
	p.Whole = !l.unsure && whole.program() && whole.calls == len(p.Calls)
	return p
}

// Mentions reports whether the program uses a name: as a name of its own, or
// as a whole string, which could be a key. Where the program could not be read
// the text as such counts.
func (p *Program) Mentions(name string) bool {
	if !p.unsure {
		return p.words[name]
	}
	for at := 0; ; {
		i := strings.Index(p.src[at:], name)
		if i < 0 {
			return false
		}
		at += i
		before := at > 0 && (letter(p.src[at-1]) || digit(p.src[at-1]))
		at += len(name)
		after := at < len(p.src) && (letter(p.src[at]) || digit(p.src[at]))
		if !before && !after {
			return true
		}
	}
}

// Without returns the program without the named members of its calls'
// arguments: a pure deletion. call[i] names those that go from Calls[i].
// ok is false when the result is not the same program without them, which is
// read again to be sure; then nothing was changed.
func (p *Program) Without(gone [][]string) (source string, ok bool) {
	if !p.Whole {
		return p.src, false
	}
	var b strings.Builder
	at := 0
	for i, c := range p.Calls {
		for k := 0; k < len(c.Members); k++ {
			if !has(gone[i], c.Members[k].Name) {
				continue
			}
			e := k + 1 // the run of members that go
			for e < len(c.Members) && has(gone[i], c.Members[e].Name) {
				e++
			}
			from, to := c.Members[k].Start, c.Members[e-1].End
			if e < len(c.Members) {
				to = c.Members[e].Start // up to the next key
			} else if k > 0 {
				from = c.Members[k-1].End // the comma before it goes
			}
			b.WriteString(p.src[at:from])
			at, k = to, e
		}
	}
	b.WriteString(p.src[at:])
	again := Read(b.String())
	if !again.Whole || len(again.Calls) != len(p.Calls) {
		return p.src, false
	}
	for i, c := range p.Calls {
		if again.Calls[i].Tool != c.Tool || !same(c, again.Calls[i], gone[i]) {
			return p.src, false
		}
	}
	return b.String(), true
}

func has(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// same reports whether b's argument is a's without some members.
func same(a, b Call, gone []string) bool {
	var x, y tape.Tape
	if x.Parse(a.Args) != nil || y.Parse(b.Args) != nil || x.Kind(0) != y.Kind(0) {
		return false
	}
	if x.Kind(0) != tape.Object {
		return tape.Equal(&x, 0, &y, 0)
	}
	n := 0
	for k := 1; k < x.After(0); k = x.After(k + 1) {
		name := x.Str(k)
		v := y.Get(0, name)
		if has(gone, name) {
			if v >= 0 {
				return false
			}
			continue
		}
		if v < 0 || !tape.Equal(&x, k+1, &y, v) {
			return false
		}
		n++
	}
	return y.Count(0) == n
}
