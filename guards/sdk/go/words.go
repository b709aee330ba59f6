package guard

import (
	"iter"
	"strings"
)

// lists goes through a JSON array of arrays of strings as the host writes it:
// without white space, and with the fewest escapes. The slice that it yields
// is used again for the next one; the strings stay, and share the memory of
// text where they can: a guard has little of it, and a long script has
// thousands of words.
//
// Text that is no such array is a panic, which ends the guard and so denies the
// call. What came before it was yielded already.
func lists(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		// Room for the longest command that can be in it: to grow leaves
		// garbage, and collecting that costs more than all else.
		words := make([]string, 0, len(text)/len(`"a",`)+1)
		inside := false
		for rest := text[len("["):]; ; {
			c := rest[0]
			rest = rest[1:]
			switch {
			case c == '[' && !inside:
				inside, words = true, words[:0]
			case c == '"' && inside:
				var word string
				word, rest = cut(rest, nil)
				words = append(words, word)
			case c == ']' && inside:
				if inside = false; !yield(words) {
					return
				}
			case c == ']':
				return
			case c != ',':
				panic("no list of lists of strings")
			}
		}
	}
}

// cut takes the rest of a string, behind its opening quote, off the text.
// decoded is what came of it so far.
func cut(text string, decoded []byte) (word, rest string) {
	for i := 0; ; i++ { // a call to find the byte costs more than most words
		switch text[i] {
		case '"':
			if decoded == nil {
				return text[:i], text[i+1:]
			}
			return string(append(decoded, text[:i]...)), text[i+1:]
		case '\\':
			decoded = append(decoded, text[:i]...)
			c := text[i+1]
			text = text[i+2:]
			if c == 'u' { // \u00XX, a control character
				c = text[2]&1<<4 | byte(strings.IndexByte("0123456789abcdef", text[3]))
				text = text[4:]
			} else if at := strings.IndexByte("nrt", c); at >= 0 {
				c = "\n\r\t"[at]
			}
			decoded = append(decoded, c)
			i = -1
		}
	}
}
