package command

import (
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// script takes in one script at the given depth of nesting.
func (r *reader) script(src string, depth int) {
	r.scripts++
	if r.bytes += len(src); r.bytes > MaxScript || depth > MaxNesting || r.scripts > MaxScripts {
		r.opaque = true
		return
	}
	// Shells disagree about these bytes, and the parser about a carriage
	// return, so no claim is made about where words end.
	if strings.ContainsAny(src, "\x00\r") || !utf8.ValidString(src) {
		r.opaque = true
	}
	file, err := parse(src)
	if err != nil {
		r.opaque = true
	}
	if file == nil {
		return
	}
	w := walker{reader: r, src: src, depth: depth}
	for _, s := range file.Stmts {
		w.visit(s)
	}
}

// parse runs the parser, which recurses once for each level of nesting: a
// stack of parentheses would take gigabytes, and a stack overflow ends the
// process. So the source is fed in small pieces, and no more comes once the
// stack is deep.
func parse(src string) (file *syntax.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, errors.New("the parser failed")
		}
	}()
	f := feed{src: src}
	f.base = f.frames()
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(&f, "")
}

const (
	feedPiece = 256  // bytes, hence at most so many more levels before the next look
	maxFrames = 2000 // of the parser's stack; a level takes two to ten
)

var errTooDeep = errors.New("nested too deeply")

type feed struct {
	src  string
	base int
	pcs  [maxFrames + 500]uintptr
}

func (f *feed) frames() int { return runtime.Callers(0, f.pcs[:]) }

func (f *feed) Read(p []byte) (int, error) {
	if n := f.frames(); n == len(f.pcs) || n-f.base > maxFrames {
		return 0, errTooDeep
	}
	if f.src == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), feedPiece)], f.src)
	f.src = f.src[n:]
	return n, nil
}

// walker visits the syntax tree of one script.
type walker struct {
	*reader
	src   string
	depth int
}

// visit walks a node. Lists and pipelines are chains as long as the script,
// which the library's walk would recurse into: they are unrolled here.
func (w *walker) visit(root syntax.Node) {
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			w.stmt(n)
			if _, ok := n.Cmd.(*syntax.BinaryCmd); ok {
				for _, rd := range n.Redirs {
					w.visit(rd)
				}
				for _, s := range chain(n) {
					w.visit(s)
				}
				return false
			}
		case *syntax.DeclClause:
			w.decl(n)
		case *syntax.Assign:
			w.assign(n)
		case *syntax.ArrayElem:
			w.opaque = w.opaque || n.Index != nil && !number(n.Index)
			if n.Value != nil {
				w.literal(n.Value)
			}
		case *syntax.WordIter:
			for _, item := range n.Items {
				w.literal(item)
			}
			w.opaque = w.opaque || !n.InPos.IsValid() || steering(n.Name.Value) // over "$@"
		case *syntax.CaseClause:
			w.literal(n.Word)
		case *syntax.UnaryTest, *syntax.BinaryTest:
			w.test(n)
		case *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			w.opaque = true // arithmetic evaluates what variables hold
		case *syntax.TestDecl:
			w.opaque = true
		}
		return true
	})
}

// chain lists the operands of a && b | c && d from left to right.
func chain(s *syntax.Stmt) []*syntax.Stmt {
	var out []*syntax.Stmt
	stack := []*syntax.Stmt{s}
	for first := true; len(stack) > 0; first = false {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if b, ok := top.Cmd.(*syntax.BinaryCmd); ok && (first || len(top.Redirs) == 0) {
			stack = append(stack, b.Y, b.X)
			continue
		}
		out = append(out, top)
	}
	return out
}

// stmt takes in a statement's redirections and, if it is one, its simple
// command. The nodes below are visited after it.
func (w *walker) stmt(s *syntax.Stmt) {
	var in input
	for _, rd := range s.Redirs {
		stdin := rd.N == nil || rd.N.Value == "0"
		switch rd.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			if !stdin { // text for another descriptor; what becomes of it is unknown
				w.opaque = true
				continue
			}
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			if stdin {
				in = input{} // the last one counts
			}
		}
		switch rd.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = input{}
			if rd.Hdoc != nil {
				in = w.hereDoc(rd)
			}
		case syntax.WordHdoc:
			text, literal := w.text(rd.Word)
			w.opaque = w.opaque || !literal
			in = input{text, true, literal}
		default:
			w.literal(rd.Word)
			w.target(rd)
		}
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return
	}
	var argv []string
	for _, word := range call.Args {
		argv = append(argv, w.words(word)...)
	}
	w.command(argv, in, w.depth)
}

// target takes in the file that a redirection opens.
func (w *walker) target(rd *syntax.Redirect) {
	if rd.Word == nil {
		return
	}
	text, literal := w.text(rd.Word)
	read, write := false, false
	switch rd.Op {
	case syntax.RdrIn:
		read = true
	case syntax.RdrInOut:
		read, write = true, true
	case syntax.DplIn, syntax.DplOut:
		// A descriptor, mostly; bash takes any other word of >& for a file.
		write = rd.Op == syntax.DplOut && !(literal && (text == "-" || strings.Trim(strings.TrimSuffix(text, "-"), "0123456789") == ""))
	default:
		write = true
	}
	for _, f := range []struct {
		is   bool
		file File
	}{{read, File{text, false}}, {write, File{text, true}}} {
		switch {
		case !f.is || slices.Contains(w.files[max(0, len(w.files)-16):], f.file):
		case len(w.files) == MaxCommands:
			w.opaque = true
		default:
			w.files = append(w.files, f.file)
		}
	}
}

func (w *walker) decl(d *syntax.DeclClause) {
	argv := []string{d.Variant.Value}
	for _, a := range d.Args {
		switch {
		case a.Name == nil && a.Value != nil:
			argv = append(argv, w.words(a.Value)...)
		case a.Naked:
			argv = append(argv, a.Name.Value)
		case a.Name != nil && a.Value != nil:
			text, _ := w.text(a.Value)
			argv = append(argv, a.Name.Value+"="+text)
		case a.Name != nil:
			argv = append(argv, a.Name.Value+"=")
		}
	}
	w.command(argv, input{}, w.depth)
}

// assign checks a variable assignment. Its value is no word of a command, but
// a value that is not literal, or that steers the shell, leaves the words
// that follow in doubt.
func (w *walker) assign(a *syntax.Assign) {
	if a.Value != nil {
		w.literal(a.Value)
	}
	if a.Index != nil {
		w.opaque = true
	}
	if a.Name != nil && !a.Naked {
		value := ""
		if a.Value != nil {
			value, _ = w.text(a.Value)
		}
		w.opaque = w.opaque || assigns(a.Name.Value, value)
	}
}

// number reports whether n is a decimal number. Anything else in arithmetic may
// be, or name, a subscript with a command in it.
func number(n syntax.Node) bool {
	word, ok := n.(*syntax.Word)
	if !ok {
		return false
	}
	s := strings.TrimPrefix(word.Lit(), "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func (w *walker) test(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.UnaryTest:
		w.opaque = w.opaque || n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar
		if word, ok := n.X.(*syntax.Word); ok {
			w.literal(word)
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			w.opaque = w.opaque || !number(n.X) || !number(n.Y)
		}
		// The right side may be a pattern, which runs nothing by itself.
		if word, ok := n.X.(*syntax.Word); ok {
			w.literal(word)
		}
		if n.Op != syntax.TsMatch && n.Op != syntax.TsNoMatch && n.Op != syntax.TsMatchShort && n.Op != syntax.TsReMatch {
			if word, ok := n.Y.(*syntax.Word); ok {
				w.literal(word)
			}
		}
	}
}

// hereDoc is the text of a here-document. Only a shell that reads it cares
// whether it is literal.
func (w *walker) hereDoc(rd *syntax.Redirect) input {
	var b strings.Builder
	literal, quoted := true, false
	for _, part := range rd.Word.Parts {
		lit, ok := part.(*syntax.Lit)
		quoted = quoted || !ok || strings.IndexByte(lit.Value, '\\') >= 0
	}
	for _, part := range rd.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok:
			b.WriteString(w.source(part))
			literal = false
		case quoted:
			b.WriteString(lit.Value)
		default:
			b.WriteString(unescape(lit.Value, "$`\\\n"))
		}
	}
	return input{b.String(), true, literal}
}

// literal marks the script opaque unless the word is a literal.
func (w *walker) literal(word *syntax.Word) {
	if word == nil {
		return
	}
	if _, ok := w.text(word); !ok {
		w.opaque = true
	}
}

// words is the text of an argument; more than one where a brace list
// multiplies it.
func (w *walker) words(word *syntax.Word) []string {
	text, ok := w.text(word)
	w.opaque = w.opaque || !ok
	if n := braces(word); n == 0 || n > maxBraces {
		// Splitting takes time and memory in the square of the braces.
		w.opaque = w.opaque || n > 0
		return []string{text}
	}
	split := &syntax.Word{Parts: append([]syntax.WordPart(nil), word.Parts...)}
	syntax.SplitBraces(split) // also reports true for a pair of braces that is none
	if !slices.ContainsFunc(split.Parts, func(p syntax.WordPart) bool { _, ok := p.(*syntax.BraceExp); return ok }) {
		return []string{text}
	}
	w.opaque = true // a plain sh would not expand it
	const most = 64
	var out []string
	for one, err := range expand.BracesSeq(nil, split) {
		if err != nil || len(out) == most {
			return []string{text}
		}
		t, _ := w.text(one)
		out = append(out, t)
	}
	if w.multiplied += len(out); w.multiplied > maxMultiplied {
		return []string{text}
	}
	return out
}

const (
	maxBraces     = 32   // opening braces in a word that is multiplied out
	maxMultiplied = 4096 // words that come of brace lists
)

// braces counts the opening braces that could begin a brace list.
func braces(word *syntax.Word) int {
	n := 0
	for _, part := range word.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			n += strings.Count(lit.Value, "{")
		}
	}
	return n
}

// text resolves quotes and escapes. It reports false if the shell would
// expand something in the word.
func (w *walker) text(word *syntax.Word) (string, bool) {
	var b strings.Builder
	literal, bracket := true, false
	for i, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if i == 0 && (strings.HasPrefix(p.Value, "~") || len(p.Value) > 1 && p.Value[0] == '=') {
				literal = false // a home directory; zsh's =program
			}
			if globs(p.Value, &bracket) {
				literal = false
			}
			b.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			if !p.Dollar {
				b.WriteString(p.Value)
				continue
			}
			// Only some shells know $'…', and they differ in the escapes.
			literal = false
			s, err := expand.Literal(&expand.Config{}, &syntax.Word{Parts: []syntax.WordPart{p}})
			if err != nil {
				s = p.Value
			}
			b.WriteString(s)
		case *syntax.DblQuoted:
			literal = literal && !p.Dollar
			for _, inner := range p.Parts {
				if lit, ok := inner.(*syntax.Lit); ok {
					b.WriteString(unescape(lit.Value, "$`\"\\\n"))
					continue
				}
				literal = false
				b.WriteString(w.source(inner))
			}
		default:
			literal = false
			b.WriteString(w.source(part))
		}
	}
	return b.String(), literal
}

// source is the text of a node as it was written.
func (w *walker) source(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(w.src)) {
		return "$"
	}
	return w.src[from:to]
}

// unescape removes backslashes before the bytes in set, or before every byte
// if set is empty. A backslash before a line break removes both.
func unescape(s, set string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (set == "" || strings.IndexByte(set, s[i+1]) >= 0) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// globs reports whether the unquoted text s makes its word a pattern. bracket
// carries an open bracket from one part of the word to the next.
func globs(s string, bracket *bool) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		case '[':
			*bracket = true
		case ']':
			if *bracket {
				return true
			}
		}
	}
	return false
}
