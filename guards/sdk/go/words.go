package guard

import (
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// lists goes through a JSON array of arrays of strings. The slice that it
// yields is used again for the next one; the strings stay, and share the memory
// of text where they can: a guard has little of it, and a long script has
// thousands of words.
//
// Text that is no such array is a panic, which ends the guard and so denies the
// call. What came before it was yielded already.
func lists(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		r := reader{text: text}
		var words []string
		r.array(func() bool {
			words = words[:0]
			r.array(func() bool {
				words = append(words, r.str())
				return true
			})
			return yield(words)
		})
	}
}

// reader reads JSON from left to right.
type reader struct {
	text string
	at   int
}

func (r *reader) next() byte {
	for ; r.at < len(r.text); r.at++ {
		if c := r.text[r.at]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	panic("the list ends too soon")
}

func (r *reader) expect(c byte) {
	if r.next() != c {
		panic("no list of lists of strings at byte " + strconv.Itoa(r.at))
	}
	r.at++
}

// array calls element at the start of each element, until it returns false.
func (r *reader) array(element func() bool) {
	r.expect('[')
	if r.next() == ']' {
		r.at++
		return
	}
	for element() {
		if r.next() == ']' {
			r.at++
			return
		}
		r.expect(',')
	}
}

func (r *reader) str() string {
	r.expect('"')
	i := r.at
	// Eight at a time: each turn of a loop is where the host may stop the
	// guard, and costs as much as many steps.
	for i+8 <= len(r.text) {
		s := r.text[i : i+8]
		if special[s[0]]|special[s[1]]|special[s[2]]|special[s[3]]|special[s[4]]|special[s[5]]|special[s[6]]|special[s[7]] != 0 {
			break
		}
		i += 8
	}
	for ; i < len(r.text); i++ {
		if special[r.text[i]] == 0 {
			continue
		}
		if r.text[i] == '\\' {
			return r.escaped()
		}
		s := r.text[r.at:i]
		r.at = i + 1
		return s
	}
	panic("the list ends too soon")
}

var special = [256]byte{'"': 1, '\\': 1}

// escaped is the rest of a string in which there is a backslash.
func (r *reader) escaped() string {
	var b strings.Builder
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		switch c {
		case '"':
			return b.String()
		case '\\':
			b.WriteRune(r.escape())
		default:
			b.WriteByte(c)
		}
	}
	panic("the list ends too soon")
}

// escape is the character that is written after a backslash. Half a surrogate
// pair is U+FFFD.
func (r *reader) escape() rune {
	if r.at == len(r.text) {
		panic("the list ends too soon")
	}
	c := r.text[r.at]
	r.at++
	switch c {
	case '"', '\\', '/':
		return rune(c)
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'u':
		one := r.hex()
		if !utf16.IsSurrogate(one) {
			return one
		}
		if strings.HasPrefix(r.text[r.at:], `\u`) {
			before := r.at
			r.at += 2
			if both := utf16.DecodeRune(one, r.hex()); both != utf8.RuneError {
				return both
			}
			r.at = before
		}
		return utf8.RuneError
	}
	panic("no escape at byte " + strconv.Itoa(r.at-1))
}

func (r *reader) hex() rune {
	if r.at+4 > len(r.text) {
		panic("the list ends too soon")
	}
	n, err := strconv.ParseUint(r.text[r.at:r.at+4], 16, 16)
	if err != nil {
		panic("no escape at byte " + strconv.Itoa(r.at))
	}
	r.at += 4
	return rune(n)
}
