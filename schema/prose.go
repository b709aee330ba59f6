// How a description is taken apart.
//
// A text is a list of blocks: a paragraph, a list item, a heading, a fenced
// piece of code, a line that is a tag. A block is a list of units: its
// sentences. Everything between units (white space, list markers, blank lines)
// belongs to no unit; it goes with the units around it when they go.
//
//	Runs a command.·It may wait.      block: paragraph, units 0 and 1
//	                                  (separator)
//	- `cwd`: where                    block: item, unit 2
//	  - must exist                    block: item, unit 3, led by block 1
//
// Blocks know what leads them: a nested item its parent, a list the paragraph
// with the colon before it. All offsets are into the decoded text.
//
// Descriptions are written by hand in something near Markdown, so the rules
// are those of a reader rather than of a grammar; where they are in doubt they
// make the larger unit, which is then kept more easily.

package schema

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type blockKind uint8

const (
	paragraph blockKind = iota
	item
	heading
	verbatim // fenced code or a tag on a line: never cut, never crossed
)

type block struct {
	kind   blockKind
	start  int // of its first line, indentation included
	body   int // of its text, after a list marker
	end    int // after its last character that is not white space
	indent int
	level  int  // of a heading; smaller is wider
	lead   int  // the block that introduces it, or -1
	led    int  // how many blocks it introduces
	gap    bool // a blank line stands before it
	row    bool // a table's row
	script bool // TypeScript that was read member by member
	units  span // its units, as indices
}

type unit struct {
	span
	block  int
	naming naming
	stays  string // a property that stays and that it documents, once asked
	asked  bool
	tenor  *tenor // nil until somebody asks
	gone   bool
	remark string // why it looks like one that should go
}

var (
	markerRE  = lazily(`^[ \t]*(?:(?:[-*+•‣·–◦●○▪]|\d{1,3}[.)])[ \t]+|(?:\d{1,3}|[一二三四五六七八九十]{1,3})[、．][ \t]*|[（(](?:\d{1,3}|[一二三四五六七八九十]{1,3})[）)][ \t]*)`)
	headingRE = lazily(`^[ \t]*(#{1,6})[ \t]+\S`)
	boldRE    = lazily(`^[ \t]*\*\*[^*]+\*\*[:：]?$`)
	tagRE     = lazily(`^[ \t]*<(/?)([A-Za-z][\w -]*)>$`)
	fenceRE   = lazily("^[ \t]*(```+|~~~+)")
	// entryRE is an argument's own line in a list without markers.
	entryRE = lazily("^[ \t]*[`*\"]*[A-Za-z_][\\w.-]*[`*\"]*[ \t]*(?:\\([^()]*\\)[ \t]*)?(?:(?::|[-–—])[ \t]+|：[ \t]*)\\S")
)

// boldLevel ranks a line in bold below every heading with a number sign.
const boldLevel = 7

// blocks takes a text apart. The units of each block are in order and so are
// the blocks, so the units of the whole text are in order too.
// opaque are pieces, in order and from line start to line end, that are code
// although no fence says so.
func blocks(s string, opaque []span) ([]block, []unit) {
	var bs []block
	open := -1 // the block that a plain line may continue
	blank := false
	for at := 0; at < len(s); {
		stop, next := lineEnd(s, at)
		line := s[at:stop]
		if strings.TrimSpace(line) == "" {
			blank, open = true, -1
			at = next
			continue
		}
		b := block{start: at, body: at, end: stop, indent: indentOf(line), lead: -1, gap: blank}
		keepOpen := true
		for len(opaque) > 0 && opaque[0].end <= at {
			opaque = opaque[1:]
		}
		c := first(line)
		switch m := fence(line); {
		case len(opaque) > 0 && opaque[0].start == at:
			b.kind, keepOpen = verbatim, false
			stop, next = lineEnd(s, max(at, opaque[0].end-1))
			b.end = stop
		case m != nil:
			b.kind, keepOpen = verbatim, false
			for next < len(s) {
				from := next
				stop, next = lineEnd(s, from)
				b.end = max(b.end, stop)
				if strings.TrimSpace(s[from:stop]) == m[1] {
					break
				}
			}
		case c == '<' && tagRE.MatchString(line):
			b.kind, keepOpen = verbatim, false
		case c == '#' && headingRE.MatchString(line):
			b.kind, keepOpen = heading, false
			b.level = len(headingRE.FindStringSubmatch(line)[1])
		case c == '*' && boldRE.MatchString(line):
			b.kind, b.level, keepOpen = heading, boldLevel, false
		case (c >= utf8.RuneSelf || strings.IndexByte("-*+(0123456789", c) >= 0) && markerRE.MatchString(line):
			b.kind = item
			b.body = at + len(markerRE.FindString(line))
		case open >= 0 && continues(s, &bs[open], line):
			bs[open].end = stop
			at = next
			continue
		case isEntry(line):
			b.kind = item
		case strings.HasPrefix(strings.TrimLeft(line, " \t"), "|"):
			b.kind, b.row = item, true
		}
		bs = append(bs, b)
		blank, open = false, -1
		if keepOpen {
			open = len(bs) - 1
		}
		at = next
	}
	lead(s, bs)
	var us []unit
	for i := range bs {
		first := len(us)
		for _, sp := range sentences(s, &bs[i]) {
			us = append(us, unit{span: sp, block: i})
		}
		bs[i].units = span{first, len(us)}
	}
	return bs, us
}

// first is the first byte of a line that is not white space. It tells most
// lines from those that an expression has to look at.
func first(line string) byte {
	if l := strings.TrimLeft(line, " \t"); l != "" {
		return l[0]
	}
	return 0
}

// isEntry is entryRE for a line that may not be one at all.
func isEntry(line string) bool {
	return (strings.ContainsAny(line, ":-") || strings.ContainsAny(line, "–—：")) && entryRE.MatchString(line)
}

// fence is fenceRE for a line that may not be one at all.
func fence(line string) []string {
	if l := strings.TrimLeft(line, " \t"); strings.HasPrefix(l, "```") || strings.HasPrefix(l, "~~~") {
		return fenceRE.FindStringSubmatch(line)
	}
	return nil
}

// continues reports whether a plain line belongs to the block before it.
func continues(s string, b *block, line string) bool {
	if strings.HasPrefix(strings.TrimLeft(line, " \t"), "|") {
		return false
	}
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(line, " \t"))
	if isEntry(line) {
		// In a list of arguments, a new one; in a wrapped text, most often a
		// word that happens to have a colon after it.
		last, _ := utf8.DecodeLastRuneInString(s[:b.end])
		ended := strings.ContainsRune(".:!?)。：！？；）", last)
		return b.kind == paragraph && !ended || b.kind == item && indentOf(line) > b.indent+1 && unicode.IsLower(r) && !ended && b.body > b.start
	}
	return b.kind == paragraph || indentOf(line) > b.indent || unicode.IsLower(r)
}

// lineEnd returns the end of the line at i without trailing white space, and
// the start of the next one.
func lineEnd(s string, i int) (stop, next int) {
	next = len(s)
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		next = i + n + 1
	}
	return i + len(strings.TrimRight(s[i:next], " \t\r\n")), next
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// lead finds what introduces each block.
func lead(s string, bs []block) {
	var parents []int // open items, by growing indentation
	intro := -1       // the block with a colon that the present list follows
	for i := range bs {
		b := &bs[i]
		if b.kind == heading {
			parents, intro = nil, -1
			continue
		}
		for len(parents) > 0 && bs[parents[len(parents)-1]].indent >= b.indent {
			parents = parents[:len(parents)-1]
		}
		switch {
		case len(parents) > 0:
			b.lead = parents[len(parents)-1]
		case i > 0 && bs[i-1].kind == paragraph && hasColon(s[:bs[i-1].end]):
			b.lead = i - 1
			intro = i - 1
		case b.kind == item && intro >= 0:
			b.lead = intro
		}
		if b.lead >= 0 {
			bs[b.lead].led++
		}
		if b.kind == item {
			parents = append(parents, i)
		} else if len(parents) == 0 && b.lead != intro {
			intro = -1
		}
	}
}

// hasColon reports whether a text ends with a colon, narrow or wide.
func hasColon(s string) bool { return strings.HasSuffix(s, ":") || strings.HasSuffix(s, "：") }

// sentences splits a block's text.
func sentences(s string, b *block) []span {
	if b.kind == heading || b.kind == verbatim || b.row {
		return []span{{b.body, b.end}}
	}
	text := s[b.body:b.end]
	whole := zones(text)
	width := 0
	for at := 0; at < len(text); {
		stop, next := lineEnd(text, at)
		width = max(width, stop-at)
		at = next
	}
	var out []span
	from, line := 0, 0
	end := func(stop, next int) {
		if stop > from {
			out = append(out, span{b.body + from, b.body + stop})
		}
		from = next
	}
	for i := 0; i < len(text); {
		if len(whole) > 0 && i >= whole[0].start {
			z := whole[0]
			whole = whole[1:]
			if i < z.end {
				i = z.end
				// A bracket or quotation may end a sentence from within.
				if p := z.end - 2; p > z.start && text[z.start] != '`' && strings.IndexByte(".!?", text[p]) >= 0 {
					if next, ok := boundary(text, p, i); ok {
						end(i, next)
						i = next
					}
				}
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '.' || r == '!' || r == '?' || r == '…':
			p := i
			i += size
			for i < len(text) && strings.IndexByte(".!?", text[i]) >= 0 {
				i++
			}
			i += closers(text[i:])
			if next, ok := boundary(text, p, i); ok {
				end(i, next)
				i = next
			}
		case r == '。' || r == '！' || r == '？' || r == '；':
			i += size
			i += closers(text[i:])
			next := i + spaces(text[i:])
			end(i, next)
			i = next
		case r == '\n':
			stop := len(strings.TrimRight(text[:i], " \t\r"))
			next := i + spaces(text[i:])
			if stop > from && newSentence(text, line, stop, next, width) {
				end(stop, next)
			}
			line = i + 1
			i = max(next, i+1)
		default:
			i += size
		}
	}
	end(len(text), len(text))
	return out
}

// newSentence reports whether the line break between stop and next was meant:
// after a colon or full stop, or where the next word would still have fitted
// on the line.
func newSentence(text string, line, stop, next, width int) bool {
	if end, _ := utf8.DecodeLastRuneInString(text[:stop]); strings.ContainsRune(".:!?;。：！？；", end) {
		return true
	}
	word := text[next:]
	if n := strings.IndexAny(word, " \t\n"); n >= 0 {
		word = word[:n]
	}
	r, _ := utf8.DecodeRuneInString(word)
	return !unicode.IsLower(r) && stop-line+1+len(word) <= max(width, wrapWidth)
}

// wrapWidth is narrower than people wrap their text: a break before it was
// meant.
const wrapWidth = 60

// boundary reports whether a sentence ends with the punctuation at p, given
// that what closes it ends at i, and where the next one starts.
func boundary(text string, p, i int) (next int, ok bool) {
	next = i + spaces(text[i:])
	if next == i && i < len(text) {
		return 0, false
	}
	if next < len(text) {
		word := text[next:]
		if n := strings.IndexAny(word, " \t\n"); n >= 0 {
			word = word[:n]
		}
		r, _ := utf8.DecodeRuneInString(word)
		if unicode.IsLower(r) && !isIdentifier(strings.Trim(word, ".,:;!?`'\"()")) {
			return 0, false
		}
	}
	if text[p] == '.' {
		from := strings.LastIndexAny(text[:p], " \t\n(`\"") + 1
		switch word := strings.ToLower(text[from:p]); word {
		case "e.g", "i.e", "eg", "ie", "vs", "cf", "approx", "resp", "incl", "no", "fig":
			return 0, next >= len(text)
		default:
			// "1." counts inside a line; it ends no sentence.
			if word != "" && strings.Trim(word, "0123456789") == "" && len(word) < 3 && from == 0 {
				return 0, next >= len(text)
			}
		}
	}
	return next, true
}

func spaces(s string) int { return len(s) - len(strings.TrimLeft(s, " \t\r\n")) }

// closers is the length of what may close a sentence after its full stop.
func closers(s string) int { return len(s) - len(strings.TrimLeft(s, ")]\"'”’*_`）】」』")) }

// zoneLimit is the longest bracket or quotation that is kept in one piece. A
// longer one is more likely two unrelated signs.
const zoneLimit = 400

// zones finds what no sentence ends in: code between backticks, and brackets
// and quotations of moderate length. They are in order and do not overlap.
func zones(text string) []span {
	if !strings.ContainsAny(text, "`(\"（") {
		return nil
	}
	code := codeSpans(text)
	var out []span
	quote := -1
	var brackets []int
	add := func(z span) {
		for len(out) > 0 && out[len(out)-1].start >= z.start {
			out = out[:len(out)-1]
		}
		if len(out) == 0 || out[len(out)-1].end <= z.start {
			out = append(out, z)
		}
	}
	for i := 0; i < len(text); i++ {
		if len(code) > 0 && i == code[0].start {
			add(code[0])
			i = code[0].end - 1
			code = code[1:]
			continue
		}
		switch text[i] {
		case 0xEF: // （ and ） are EF BC 88 and EF BC 89
			if strings.HasPrefix(text[i:], "（") {
				brackets = append(brackets, i)
			} else if n := len(brackets); n > 0 && strings.HasPrefix(text[i:], "）") {
				if i-brackets[n-1] < zoneLimit {
					add(span{brackets[n-1], i + len("）")})
				}
				brackets = brackets[:n-1]
			}
		case '(':
			brackets = append(brackets, i)
		case ')':
			if n := len(brackets); n > 0 {
				if i-brackets[n-1] < zoneLimit {
					add(span{brackets[n-1], i + 1})
				}
				brackets = brackets[:n-1]
			}
		case '"':
			opens := (i == 0 || strings.IndexByte(" \t\n([{:=,", text[i-1]) >= 0) && i+1 < len(text) && strings.IndexByte(" \t\n", text[i+1]) < 0
			switch {
			case quote >= 0 && i-quote < zoneLimit:
				add(span{quote, i + 1})
				quote = -1
			case opens:
				quote = i
			default:
				quote = -1
			}
		}
	}
	return out
}

// codeSpans pairs runs of backticks of the same length, as Markdown does.
func codeSpans(text string) []span {
	var runs []span
	for i := 0; i < len(text); i++ {
		if text[i] == '`' {
			start := i
			for i < len(text) && text[i] == '`' {
				i++
			}
			runs = append(runs, span{start, i})
		}
	}
	partner := make([]int, len(runs))
	later := map[int]int{}
	for i := len(runs) - 1; i >= 0; i-- {
		partner[i] = -1
		n := runs[i].end - runs[i].start
		if j, ok := later[n]; ok {
			partner[i] = j
		}
		later[n] = i
	}
	var out []span
	for i := 0; i < len(runs); i++ {
		if j := partner[i]; j >= 0 {
			out = append(out, span{runs[i].start, runs[j].end})
			i = j
		}
	}
	return out
}
