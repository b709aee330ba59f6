package envelope

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain reduces text to what can stand between single quotes in sh, bash, zsh,
// fish, PowerShell and JavaScript without meaning anything: no quotes,
// backslash, backtick, dollar, angle brackets, ampersand, semicolon, bar or
// exclamation mark, no line breaks of any script, no control or format characters. What is not in
// the alphabet becomes a space, runs of spaces become one; invalid UTF-8 goes.
// A reason may quote what a model wrote: it is hostile text.
func Plain(text string) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		if !plain(r) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

func plain(r rune) bool {
	switch r {
	case '\'', '"', '\\', '`', '$', '<', '>', '&', ';', '|', '!',
		'\u2018', '\u2019', '\u201a', '\u201b', '\u201c', '\u201d', '\u201e':
		// PowerShell takes typographic quotes for quotes.
		return false
	case utf8.RuneError:
		return false
	}
	return r != ' ' && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || unicode.IsPunct(r) || unicode.IsSymbol(r))
}

// Cut shortens text to at most n characters, the last of them an ellipsis when
// something was cut.
func Cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	i := 0
	for at := range text {
		if i == n-1 {
			return text[:at] + "…"
		}
		i++
	}
	return text
}
