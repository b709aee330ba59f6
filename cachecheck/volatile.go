package cachecheck

import (
	"regexp"
	"strings"
	"sync"
)

// Values that change by themselves: times and nonces. Two texts differ only in
// such values when they are equal after each value was replaced by its class;
// so a text with a date in five places is told from one with a date and an
// edit.

type class uint8

const (
	noClass class = iota
	timeClass
	uuidClass
	ulidClass
	hexClass
	epochClass
	pathClass
	portClass
	idClass
)

func (c class) String() string {
	return [...]string{"text", "date or time", "UUID", "ULID", "hexadecimal id", "epoch time", "temporary path", "port", "opaque id"}[c]
}

const month = `(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)`

// volatileRE has one group a class, in the order of volatileClasses. The first
// alternative that matches at a place counts.
var volatileRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?\b` +
			`|\b\d{4}/\d{1,2}/\d{1,2}\b|\b\d{1,2}[/.]\d{1,2}[/.](?:\d{4}|\d{2})\b` +
			`|\b` + month + `\.? \d{1,2}(?:st|nd|rd|th)?(?:, ?| )\d{4}\b|\b\d{1,2}(?:st|nd|rd|th)?\.? ` + month + `\.?,? \d{4}\b|\b` + month + ` \d{4}\b` +
			`|\b(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b` +
			`|\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?: ?(?:UTC|GMT|Z\b|[+-]\d{2}:?\d{2}\b))?)` +
			`|(\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b)` +
			`|((?:/private)?/(?:tmp|var/tmp|var/folders)/[^\s"'<>` + "`" + `]+)` +
			`|((?:localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0):\d{2,5}\b|\bport[ =:]+\d{2,5}\b)` +
			`|(\b(?:1[4-9]|20)\d{8}(?:\d{3})?\b)` +
			`|(\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b)` +
			`|(\b(?:0x)?[0-9a-fA-F]{8,}\b)` +
			`|(\b[A-Za-z0-9_-]{12,}\b)`)
})

var volatileClasses = []class{timeClass, uuidClass, pathClass, portClass, epochClass, ulidClass, hexClass, idClass}

// value is one volatile value in a text.
type value struct {
	class    class
	from, to int
}

// values finds the volatile values of s, in order.
func values(s string) []value {
	var out []value
	for _, m := range volatileRE().FindAllStringSubmatchIndex(s, -1) {
		for i, c := range volatileClasses {
			if m[2+2*i] < 0 {
				continue
			}
			from, to := m[2+2*i], m[3+2*i]
			if (c == hexClass || c == idClass) && !opaque(s[from:to], c) {
				break
			}
			out = append(out, value{c, from, to})
			break
		}
	}
	return out
}

// opaque tells an id from a word: it has digits among its letters. An id that
// is no hexadecimal number has more than a version's worth of them.
func opaque(s string, c class) bool {
	letters, digits := 0, 0
	for i := range len(s) {
		switch b := s[i]; {
		case b >= '0' && b <= '9':
			digits++
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z':
			letters++
		}
	}
	if c == hexClass {
		return digits > 0 && (letters > 0 || len(s) >= 32)
	}
	return letters >= 4 && digits >= 3 && !strings.Contains(s, "--")
}

// masked replaces the values of s by their classes.
func masked(s string, vs []value) string {
	var b strings.Builder
	at := 0
	for _, v := range vs {
		b.WriteString(s[at:v.from])
		c := v.class
		if c == hexClass || c == idClass {
			c = idClass // a short id may happen to be hexadecimal
		}
		b.WriteByte(0)
		b.WriteByte('A' + byte(c))
		at = v.to
	}
	b.WriteString(s[at:])
	return b.String()
}

// volatileDiff reports whether a and b differ in volatile values alone, and the
// first pair that does.
func volatileDiff(a, b string) (x, y string, c class, at int) {
	if a == b {
		return "", "", noClass, 0
	}
	// Only the part that differs is looked at, and enough around it for a
	// value to be whole.
	p := commonPrefix(a, b)
	from := p
	for from > 0 && p-from < 200 && a[from-1] != '\n' {
		from--
	}
	s := commonSuffix(a[p:], b[p:])
	tail := 0
	for tail < s && tail < 200 && a[len(a)-s+tail] != '\n' {
		tail++
	}
	a2, b2 := a[from:len(a)-s+tail], b[from:len(b)-s+tail]
	va, vb := values(a2), values(b2)
	if len(va) != len(vb) || len(va) == 0 || masked(a2, va) != masked(b2, vb) {
		return "", "", noClass, 0
	}
	for i := range va {
		x, y := a2[va[i].from:va[i].to], b2[vb[i].from:vb[i].to]
		if x != y {
			return x, y, va[i].class, from + va[i].from
		}
	}
	return "", "", noClass, 0
}

// granularity says which part of a time moved, from the coarsest that did.
func granularity(x, y string) string {
	vx, vy := splitNumbers(x), splitNumbers(y)
	if len(vx) != len(vy) {
		return "time"
	}
	clock := strings.Contains(x, ":")
	for i := range vx {
		if vx[i] == vy[i] {
			continue
		}
		dateParts := 3
		if !strings.ContainsAny(x, "-/") && !strings.Contains(x, ", ") || !clock && len(vx) < 3 {
			if clock {
				dateParts = 0
			}
		}
		switch k := i - dateParts; {
		case !clock, k < 0:
			return "day"
		case k == 0:
			return "hour"
		case k == 1:
			return "minute"
		case k == 2:
			return "second"
		default:
			return "millisecond"
		}
	}
	return "day" // words alone: the name of a day or a month
}

func splitNumbers(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

func commonPrefix[T string | []byte](a, b T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix[T string | []byte](a, b T) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
