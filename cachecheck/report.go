package cachecheck

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What people and programs read. All of it is written as results come, but for
// the spark lines and the totals, which need the whole.

// WriteJSON writes one result as one line of JSON.
func WriteJSON(w io.Writer, r *Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Table writes results for people: a line for each that is more than growth,
// then the lineages with their spark lines, then the totals.
type Table struct {
	// All writes a line for requests that only grew, too.
	All bool

	w      io.Writer
	err    error
	header bool
	warned map[string]bool
}

// NewTable returns a Table that writes to w.
func NewTable(w io.Writer) *Table { return &Table{w: w, warned: map[string]bool{}} }

func (t *Table) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// Add writes a result, if there is anything to say. The error is that of the
// first write that failed.
func (t *Table) Add(r *Result) error {
	notable := t.All || r.Break || r.Label == ModelGap || r.Label == WireOnly || r.Vendor != nil && r.Vendor.Agreement == "disagrees"
	var warnings []Label
	for _, l := range r.Labels {
		if key := fmt.Sprint(l, r.Lineage); l == WireBodyOrder && !t.warned[key] {
			t.warned[key] = true
			warnings = append(warnings, l)
		}
	}
	if r.Odd != "" && !r.Break || !notable && len(warnings) == 0 {
		return t.err
	}
	if !t.header {
		t.header = true
		t.printf("%7s %7s  %-22s %-10s %-8s %s\n", "REQUEST", "LINEAGE", "CAUSE", "CONFIDENCE", "WASTE", "LOST")
	}
	lost := "-"
	if len(r.Lost) > 0 {
		lost = strings.Join(r.Lost, "+")
	}
	if r.LostTokens != nil && r.LostTokens.Tokens > 0 {
		lost += ", " + r.LostTokens.String() + " tokens"
	}
	t.printf("%7d %7s  %-22s %-10s %-8s %s\n", r.N, lineageName(r), r.Label, r.Confidence, r.Waste, lost)
	in := strings.Repeat(" ", 17)
	where := clean(r.File)
	if r.Line > 0 {
		where += fmt.Sprintf(":%d", r.Line)
	}
	if r.Previous > 0 {
		where += fmt.Sprintf(", after request %d", r.Previous)
	}
	t.printf("%s%s\n", in, strings.TrimPrefix(where, ", "))
	if r.Detail != "" {
		t.printf("%s%s\n", in, clean(r.Detail))
	}
	if s := r.Spot; s != nil {
		t.printf("%sat %s, byte %s → %s\n", in, clean(s.Pointer), offset(s.A), offset(s.B))
		if s.WindowA != "" {
			t.printf("%s- %s\n", in, s.WindowA)
		}
		if s.WindowB != "" {
			t.printf("%s+ %s\n", in, s.WindowB)
		}
	}
	for _, o := range r.Also {
		at := ""
		if o.Pointer != "" {
			at = " at " + clean(o.Pointer)
		}
		t.printf("%salso %s%s: %s\n", in, o.Label, at, clean(o.Detail))
	}
	if r.Planned != "" {
		t.printf("%splanned: %s\n", in, clean(r.Planned))
	}
	if v := r.Vendor; v != nil && v.Agreement != "silent" {
		t.printf("%s%s says %s: it %s\n", in, v.Vendor, clean(v.Word), v.Agreement)
	}
	if r.Cost != nil {
		t.printf("%scosts %s more than a read (prices of %s)\n", in, r.Cost, r.Cost.Date)
	}
	if fix := r.Label.Info().Fix; fix != "" && r.Waste != WasteNo {
		t.printf("%sfix: %s\n", in, fix)
	}
	return t.err
}

func lineageName(r *Result) string {
	if r.Lineage == 0 {
		return "-"
	}
	return fmt.Sprintf("L%d", r.Lineage)
}

func offset(n int) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprint(n)
}

func (c *Cost) String() string {
	if c.Unit == "usd" {
		return fmt.Sprintf("$%.4f", c.Amount)
	}
	return thousands(int(c.Amount)) + " " + c.Unit
}

// clean takes out of a text what would move a terminal's cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '�'
		}
		return r
	}, s)
}

// sparkWidth is how many turns a spark line shows; of longer ones, several
// turns share a column.
const sparkWidth = 60

// spark draws counts in eight heights, scaled to most.
func spark(values []int, most int) string {
	const bars = "▁▂▃▄▅▆▇█"
	r := []rune(bars)
	var b strings.Builder
	for _, v := range values {
		switch {
		case v < 0:
			b.WriteRune('·') // not reported
		case v == 0:
			b.WriteRune(' ')
		default:
			b.WriteRune(r[min(7, v*8/max(1, most+1))])
		}
	}
	return b.String()
}

// columns joins turns so that they fit.
func columns(turns []Turn, of func(Usage) int) []int {
	per := (len(turns) + sparkWidth - 1) / sparkWidth
	var out []int
	for from := 0; from < len(turns); from += per {
		sum, known := 0, false
		part := turns[from:min(len(turns), from+per)]
		for _, t := range part {
			if t.Usage.Reported {
				known = true
				sum += of(t.Usage)
			}
		}
		if !known {
			sum = -1
		}
		out = append(out, sum)
	}
	return out
}

// maxLineages is how many lineages are drawn.
const maxLineages = 20

// Close writes the lineages and the totals.
func (t *Table) Close(c *Checker) error {
	lineages := c.Lineages()
	slices.SortStableFunc(lineages, func(a, b Lineage) int { return len(b.Turns) - len(a.Turns) })
	drawn := 0
	for _, l := range lineages {
		if len(l.Turns) < 2 || drawn == maxLineages {
			continue
		}
		if drawn == 0 && t.header {
			t.printf("\n")
		}
		drawn++
		parent := ""
		if l.Parent > 0 {
			parent = fmt.Sprintf(" of L%d", l.Parent)
		}
		breaks := 0
		for _, turn := range l.Turns {
			if turn.Label.Info().Break {
				breaks++
			}
		}
		t.printf("L%d %s%s: %s, %s\n", l.ID, l.Kind, parent, plural(len(l.Turns), "request"), plural(breaks, "break"))
		cached := columns(l.Turns, func(u Usage) int { return u.Read })
		if slices.ContainsFunc(cached, func(n int) bool { return n >= 0 }) {
			written, fresh := columns(l.Turns, func(u Usage) int { return u.Written }), columns(l.Turns, func(u Usage) int { return u.Uncached })
			most := max(slices.Max(cached), slices.Max(written), slices.Max(fresh))
			total := func(of func(Usage) int) (n int) {
				for _, turn := range l.Turns {
					n += of(turn.Usage)
				}
				return n
			}
			t.printf("  cached   %s  %s\n", pad(spark(cached, most), len(cached)), thousands(total(func(u Usage) int { return u.Read })))
			t.printf("  written  %s  %s\n", pad(spark(written, most), len(cached)), thousands(total(func(u Usage) int { return u.Written })))
			t.printf("  uncached %s  %s\n", pad(spark(fresh, most), len(cached)), thousands(total(func(u Usage) int { return u.Uncached })))
		}
		marks := make([]rune, 0, sparkWidth)
		per := (len(l.Turns) + sparkWidth - 1) / sparkWidth
		for from := 0; from < len(l.Turns); from += per {
			m := ' '
			for _, turn := range l.Turns[from:min(len(l.Turns), from+per)] {
				if turn.Label.Info().Break {
					m = '^'
				}
			}
			marks = append(marks, m)
		}
		if breaks > 0 {
			t.printf("  breaks   %s\n", strings.TrimRight(string(marks), " "))
		}
	}
	s := c.Summary()
	if drawn > 0 || t.header {
		t.printf("\n")
	}
	t.printf("%s, %d compared in %s: %s, %d of them waste\n", plural(s.Requests, "request"), s.Compared, plural(s.Lineages, "lineage"), plural(s.Breaks, "break"), s.Waste)
	if s.Total.Reported {
		t.printf("reported: %s tokens cached, %s written, %s uncached\n", thousands(s.Total.Read), thousands(s.Total.Written), thousands(s.Total.Uncached))
	}
	if s.Lost > 0 {
		note := "reported"
		switch {
		case s.LostEstimated == s.Lost:
			note = "estimated"
		case s.LostEstimated > 0:
			note = thousands(s.LostEstimated) + " of them estimated"
		}
		t.printf("lost to breaks: %s tokens (%s)\n", thousands(s.Lost), note)
	}
	if n := s.Labels[Unreported]; n > 0 {
		t.printf("%s without cache counters: no miss is claimed there\n", plural(n, "request"))
	}
	if s.Agrees+s.Disagrees > 0 {
		t.printf("the vendors' own diagnostics agree %s, disagree %s\n", times(s.Agrees), times(s.Disagrees))
	}
	if s.Forgotten > 0 {
		t.printf("%s given up to save memory: changes there are named by hashes alone\n", plural(s.Forgotten, "earlier body", "earlier bodies"))
	}
	for _, odd := range slices.Sorted(maps.Keys(s.Odd)) {
		t.printf("not compared: %s (%s)\n", plural(s.Odd[odd], "request"), odd)
		for _, n := range s.Notes {
			if rest, ok := strings.CutPrefix(n, string(odd)+": "); ok {
				t.printf("  %s\n", clean(rest))
			}
		}
	}
	for i, n := range s.Planned {
		if n == 0 {
			t.printf("planned and not seen: %s (%s)\n", c.opts.Planned[i].Label, clean(c.opts.Planned[i].Reason))
		}
	}
	return t.err
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-len([]rune(s)))) }

// plural is a number with thousands apart and what is counted, of which many
// is the plural where that is not one with an s.
func plural(n int, one string, many ...string) string {
	if n == 1 {
		return "1 " + one
	}
	if len(many) > 0 {
		return thousands(n) + " " + many[0]
	}
	return thousands(n) + " " + one + "s"
}

// counted is plural with plain digits, for what programs read too.
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return thousands(n) + " times"
}
