package codemode

// The lexer: a flat list of tokens, strings decoded. A template with
// substitutions is a head, the tokens of the substitution, and a middle or a
// tail; a stack of open braces tells which closing brace goes on with one.
//
// It reads less than JavaScript: ASCII outside of strings and comments, no
// regular expression (a slash could start one, so it makes everything after it
// doubtful), no escape in a name. What it can't read ends the list.
//
// Source: ECMA-262, "ECMAScript Language: Lexical Grammar", for modules (no
// HTML-like comments, no legacy octal escapes).

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

type kind uint8

const (
	punct  kind = iota
	word        // a name or a keyword
	str         // a string, or a template without substitutions; text is its value
	number      // text as it was written
	head        // of a template with substitutions, up to ${
	middle      // from } to ${
	tail        // from } to `
	end         // of the source
)

type token struct {
	kind       kind
	text       string
	start, end int
	quote      byte // that a string began with
	newline    bool // a line ends between the token before and this one
}

type lexer struct {
	src    string
	at     int
	tokens []token
	braces []byte // open: { of code, $ of a substitution
	unsure bool   // what follows may be misread
}

func lex(src string) *lexer {
	l := &lexer{src: src}
	if !utf8.ValidString(src) {
		l.unsure = true
		l.tokens = []token{{kind: end}}
		return l
	}
	for {
		newline, ok := l.space()
		if !ok {
			break
		}
		from := l.at
		if from == len(src) {
			l.tokens = append(l.tokens, token{kind: end, start: from, end: from, newline: newline})
			if len(l.braces) > 0 {
				l.unsure = true
			}
			return l
		}
		k, text, ok := l.next()
		if !ok {
			break
		}
		t := token{kind: k, text: text, start: from, end: l.at, newline: newline}
		if k == str {
			t.quote = src[from]
		}
		l.tokens = append(l.tokens, t)
	}
	l.unsure = true
	l.tokens = append(l.tokens, token{kind: end, start: l.at, end: l.at})
	return l
}

// lineEnd is the length of the line terminator at the start of s. A comment
// ends at each of the four: a program behind U+2028 is no comment.
func lineEnd(s string) int {
	switch {
	case s == "":
		return 0
	case s[0] == '\n', s[0] == '\r':
		return 1
	case strings.HasPrefix(s, "\u2028"), strings.HasPrefix(s, "\u2029"):
		return 3
	}
	return 0
}

// space skips white space and comments.
func (l *lexer) space() (newline, ok bool) {
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		switch n := lineEnd(rest); {
		case n > 0:
			newline = true
			l.at += n
		case rest[0] == ' ' || rest[0] == '\t':
			l.at++
		case strings.HasPrefix(rest, "//"):
			for l.at < len(l.src) && lineEnd(l.src[l.at:]) == 0 {
				l.at++
			}
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return newline, false
			}
			comment := rest[:n+4]
			newline = newline || strings.ContainsAny(comment, "\n\r\u2028\u2029")
			l.at += len(comment)
		default:
			return newline, true
		}
	}
	return newline, true
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// The punctuators of more than one character that the grammar tells apart
// from their first.
var long = []string{"...", "??", "||", "?.", "=>"}

func (l *lexer) next() (kind, string, bool) {
	from := l.at
	c := l.src[from]
	switch {
	case letter(c):
		for l.at < len(l.src) && (letter(l.src[l.at]) || digit(l.src[l.at])) {
			l.at++
		}
		return word, l.src[from:l.at], true
	case digit(c):
		for l.at < len(l.src) && (letter(l.src[l.at]) || digit(l.src[l.at]) || l.src[l.at] == '.') {
			l.at++
		}
		return number, l.src[from:l.at], true
	case c == '"' || c == '\'':
		l.at++
		text, ok := l.quoted(c)
		return str, text, ok
	case c == '`':
		l.at++
		return l.template(true)
	case c == '}' && len(l.braces) > 0 && l.braces[len(l.braces)-1] == '$':
		l.braces = l.braces[:len(l.braces)-1]
		l.at++
		return l.template(false)
	case c < ' ' || c >= 0x7f || c == '\\' || c == '#' || c == '@':
		return punct, "", false
	}
	switch c {
	case '{':
		if len(l.braces) == maxDepth {
			return punct, "", false
		}
		l.braces = append(l.braces, '{')
	case '}':
		if len(l.braces) == 0 {
			return punct, "", false
		}
		l.braces = l.braces[:len(l.braces)-1]
	case '/':
		l.unsure = true
	}
	for _, p := range long {
		if strings.HasPrefix(l.src[from:], p) {
			l.at += len(p)
			return punct, p, true
		}
	}
	l.at++
	return punct, l.src[from:l.at], true
}

// quoted reads a string up to its closing quote.
func (l *lexer) quoted(quote byte) (string, bool) {
	var b strings.Builder
	for l.at < len(l.src) {
		switch c := l.src[l.at]; {
		case c == quote:
			l.at++
			return b.String(), true
		case c == '\n' || c == '\r' || c == 0:
			return "", false
		case c == '\\':
			if !l.escape(&b) {
				return "", false
			}
		default:
			b.WriteByte(c)
			l.at++
		}
	}
	return "", false
}

// template reads a template up to its end or its next substitution.
func (l *lexer) template(first bool) (kind, string, bool) {
	var b strings.Builder
	for l.at < len(l.src) {
		switch c := l.src[l.at]; {
		case c == '`':
			l.at++
			if first {
				return str, b.String(), true
			}
			return tail, "", true
		case c == '$' && l.at+1 < len(l.src) && l.src[l.at+1] == '{':
			l.at += 2
			if len(l.braces) == maxDepth {
				return head, "", false
			}
			l.braces = append(l.braces, '$')
			if first {
				return head, "", true
			}
			return middle, "", true
		case c == '\r' || c == 0: // a carriage return is not what it says there
			return str, "", false
		case c == '\\':
			if !l.escape(&b) {
				return str, "", false
			}
		default:
			b.WriteByte(c)
			l.at++
		}
	}
	return str, "", false
}

// escape decodes the escape sequence at the place of the lexer.
func (l *lexer) escape(b *strings.Builder) bool {
	l.at++
	if l.at == len(l.src) {
		return false
	}
	if n := lineEnd(l.src[l.at:]); n > 0 { // the line goes on
		if strings.HasPrefix(l.src[l.at:], "\r\n") {
			n = 2
		}
		l.at += n
		return true
	}
	c := l.src[l.at]
	l.at++
	switch c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'v':
		b.WriteByte('\v')
	case 'x':
		v, ok := l.hex(2)
		b.WriteRune(v)
		return ok && v != 0
	case 'u':
		return l.unicode(b)
	default:
		if digit(c) { // \0 is a NUL, and the others are octal or nothing
			return false
		}
		l.at--
		r, n := utf8.DecodeRuneInString(l.src[l.at:])
		b.WriteRune(r)
		l.at += n
	}
	return true
}

func (l *lexer) unicode(b *strings.Builder) bool {
	if l.at < len(l.src) && l.src[l.at] == '{' {
		n := strings.IndexByte(l.src[l.at:], '}')
		if n < 2 || n > 9 {
			return false
		}
		l.at++
		v, ok := l.hex(n - 1)
		l.at++
		b.WriteRune(v)
		return ok && v != 0 && utf8.ValidRune(v)
	}
	v, ok := l.hex(4)
	if !ok || v == 0 {
		return false
	}
	if utf16.IsSurrogate(v) {
		if !strings.HasPrefix(l.src[l.at:], `\u`) {
			return false
		}
		l.at += 2
		low, ok := l.hex(4)
		if v = utf16.DecodeRune(v, low); !ok || v == utf8.RuneError {
			return false
		}
	}
	b.WriteRune(v)
	return true
}

// hex reads n hexadecimal digits.
func (l *lexer) hex(n int) (rune, bool) {
	if l.at+n > len(l.src) {
		return 0, false
	}
	var v rune
	for _, c := range []byte(l.src[l.at : l.at+n]) {
		switch {
		case digit(c):
			v = v<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			v = v<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	l.at += n
	return v, true
}
