// Package gitconfig judges changes of a repository's configuration: which of
// them only describe the repository, and which would make git run a program,
// read another file, or work on another directory.
//
// A file is read as git reads it (git-config(1), "Syntax") into entries in
// their order: section, subsection, key, value, and the bytes that hold them.
// What git would refuse is an error here, and so is some of what it would take:
// a file that two readers understand differently is not judged at all.
//
// The keys that may change are a list. There is no list of the dangerous ones:
// every version of git adds some.
package gitconfig

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxSize bounds a file that is judged, in bytes.
const MaxSize = 1 << 20

// Entry is one variable. Section and Key are in lower case, as git compares
// them; Sub is as it is written.
type Entry struct {
	Section, Sub, Key, Value string

	from, to int // the bytes of the variable, line end included
}

// Name is the variable's full name, as git config prints it.
func (e Entry) Name() string {
	if e.Sub == "" {
		return e.Section + "." + e.Key
	}
	return e.Section + "." + e.Sub + "." + e.Key
}

// Parse returns the entries of a configuration file in their order. It keeps no
// part of text.
func Parse(text []byte) ([]Entry, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("longer than %d bytes", MaxSize)
	}
	p := parser{text: text, line: 1}
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		p.at = 3
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("a NUL byte")
	}
	if err := p.file(); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line, err)
	}
	return p.entries, nil
}

type parser struct {
	text         []byte
	at, line     int
	section, sub string
	named        bool // a section has begun
	entries      []Entry
}

const end = -1

// next returns the next character, a line end of two as one, or end.
func (p *parser) next() int {
	if p.at >= len(p.text) {
		return end
	}
	c := p.text[p.at]
	p.at++
	if c == '\r' && p.at < len(p.text) && p.text[p.at] == '\n' {
		p.at++
		c = '\n'
	}
	if c == '\n' {
		p.line++
	}
	return int(c)
}

func (p *parser) file() error {
	for {
		from := p.at
		switch c := p.next(); {
		case c == end:
			return nil
		case space(c) || c == '\n':
		case c == '#' || c == ';':
			for c != '\n' && c != end {
				c = p.next()
			}
		case c == '[':
			if err := p.header(); err != nil {
				return err
			}
		case letter(c):
			if err := p.variable(from, c); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q begins nothing", rune(c))
		}
	}
}

// header reads a section's name after its bracket: [name], [name "sub"], or
// the old [name.sub], whose subsection compares in lower case.
func (p *parser) header() error {
	var name strings.Builder
	for {
		c := p.next()
		switch {
		case c == ']':
			if name.Len() == 0 {
				return errors.New("a section without a name")
			}
			p.section, p.sub, _ = strings.Cut(name.String(), ".")
			p.named = true
			return nil
		case c == ' ' || c == '\t':
			if name.Len() == 0 || strings.Contains(name.String(), ".") {
				return errors.New("a section's name is not understood")
			}
			p.section, p.named = name.String(), true
			return p.subsection()
		case letter(c) || digit(c) || c == '-' || c == '.':
			name.WriteByte(lower(c))
		default:
			return errors.New("a section's name is not understood")
		}
	}
}

func (p *parser) subsection() error {
	c := p.next()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if c != '"' {
		return errors.New("a subsection without quotes")
	}
	var sub strings.Builder
	for {
		c := p.next()
		switch {
		case c == '\n' || c == end:
			return errors.New("a subsection without an end")
		case c == '"':
			if p.next() != ']' {
				return errors.New("a section without an end")
			}
			p.sub = sub.String()
			return nil
		case c == '\\':
			if c = p.next(); c == '\n' || c == end {
				return errors.New("a subsection without an end")
			}
		}
		sub.WriteByte(byte(c))
	}
}

// variable reads key or key = value to the line's end.
func (p *parser) variable(from, first int) error {
	if !p.named {
		return errors.New("a variable without a section")
	}
	key := []byte{lower(first)}
	c := p.next()
	for letter(c) || digit(c) || c == '-' {
		key = append(key, lower(c))
		c = p.next()
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	e := Entry{Section: p.section, Sub: p.sub, Key: string(key), from: from}
	switch {
	case c == '\n' || c == end: // a key alone is true
	case c == '=':
		value, err := p.value()
		if err != nil {
			return err
		}
		e.Value = value
	default:
		return fmt.Errorf("%s is followed by neither = nor a line end", key)
	}
	e.to = p.at
	p.entries = append(p.entries, e)
	return nil
}

// value reads to the line's end: quotes, escapes and continued lines.
func (p *parser) value() (string, error) {
	var v strings.Builder
	var blanks []byte // kept only if something follows
	quoted, comment := false, false
	for {
		c := p.next()
		if c == '\n' || c == end {
			if quoted {
				return "", errors.New("a quote without an end")
			}
			return v.String(), nil
		}
		if comment {
			continue
		}
		if space(c) && !quoted {
			if v.Len() > 0 {
				blanks = append(blanks, byte(c))
			}
			continue
		}
		if (c == '#' || c == ';') && !quoted {
			comment = true
			continue
		}
		v.Write(blanks)
		blanks = blanks[:0]
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			switch c = p.next(); c {
			case '\n':
			case 't':
				v.WriteByte('\t')
			case 'b':
				v.WriteByte('\b')
			case 'n':
				v.WriteByte('\n')
			case '"', '\\':
				v.WriteByte(byte(c))
			default:
				return "", errors.New("an escape is not understood")
			}
		default:
			v.WriteByte(byte(c))
		}
	}
}

// space is what git takes for one besides a line end.
func space(c int) bool  { return c == ' ' || c == '\t' || c == '\r' }
func letter(c int) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c int) bool  { return c >= '0' && c <= '9' }
func lower(c int) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return byte(c)
}

// Denied returns the names of variables that a change from before to after may
// not touch: added, changed, removed or put in another order. Empty means that
// the change is harmless.
func Denied(before, after []Entry) []string {
	was, is := values(before), values(after)
	var names []string
	for name := range is {
		if !slices.Equal(was[name], is[name]) {
			names = append(names, name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// values are, by name, the values of variables that are not free to change, in
// their order: the last one counts for git.
func values(entries []Entry) map[string][]string {
	m := map[string][]string{}
	for _, e := range entries {
		if !e.free() {
			m[e.Name()] = append(m[e.Name()], e.Value)
		}
	}
	return m
}

// Merge returns after, with every variable that may not change as it is in
// before. The result is after itself if Denied finds nothing.
func Merge(before []Entry, after []byte) ([]byte, error) {
	now, err := Parse(after)
	if err != nil {
		return nil, err
	}
	names := Denied(before, now)
	if len(names) == 0 {
		return after, nil
	}
	var out []byte
	at := 0
	for _, e := range now {
		if slices.Contains(names, e.Name()) {
			out = append(out, after[at:e.from]...)
			// Alone on its line it goes with the line.
			line := bytes.TrimRight(out, " \t")
			if len(line) == 0 || line[len(line)-1] == '\n' {
				out = line
			} else {
				out = append(out, '\n')
			}
			at = e.to
		}
	}
	out = append(out, after[at:]...)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	for _, e := range before {
		if slices.Contains(names, e.Name()) {
			out = append(out, e.text()...)
		}
	}
	// What was written is read again: the result must be what it is meant to be.
	check, err := Parse(out)
	if err != nil || len(Denied(before, check)) > 0 {
		return nil, errors.New("the changes can't be taken apart")
	}
	return out, nil
}

// text writes e under a header of its own.
func (e Entry) text() string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	head := "[" + e.Section + "]"
	if e.Sub != "" {
		head = "[" + e.Section + ` "` + quote(e.Sub) + `"]`
	}
	value := strings.NewReplacer("\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(quote(e.Value))
	return head + "\n\t" + e.Key + ` = "` + value + "\"\n"
}
