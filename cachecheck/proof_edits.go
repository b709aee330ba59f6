package cachecheck

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// A deletion is the claim that one body is another with parts taken out, and
// with calls of the history put back in the place of their refusals. It walks
// both in step. What it allows, and where:
//
//   - a tool, and anything in one: members, elements, and pieces of a text go;
//     the cache marker of one that went may stand on one before it;
//   - a text in which a client explains its options (system and developer
//     messages, a user's text that a client wrote, the result of a call):
//     pieces of it go, or all of its block, but for a result's;
//   - a call that carries a seal, and the result that answers it: anything in
//     the place of its name, arguments, content and error mark;
//   - a cache marker may be missing: that is another property's to say.
//
// Everything else is the same, byte by byte, white space between tokens
// included. It knows nothing of what the rewrite says that it did.
type deletion struct {
	in, out *tape.Tape
	to      []int           // node of in to node of out, -1: gone
	sealed  map[string]bool // ids of calls that carry a seal
	markers map[string]bool // the markers of tools

	restored     int   // calls that are others in out
	free         []int // nodes of out that may be anything
	failed       bool
	why          string
	inAt, outAt  int
	node         int // of in
	contextStart []string
}

const sealMark = "gp1:"

// body checks the whole of it.
func (d *deletion) body() bool {
	d.to = make([]int, d.in.Len())
	for i := range d.to {
		d.to[i] = -1
	}
	d.sealed = map[string]bool{}
	d.contextStart = agents.Builtin().Contexts()
	d.findSealed()
	return d.objects(0, 0, nothingMay, func(k, i, j int) bool {
		switch {
		case d.in.Is(k, "tools"):
			return d.tools(i, j)
		case d.in.Is(k, "system"), d.in.Is(k, "instructions"):
			return d.texts(i, j, d.text)
		case d.in.Is(k, "messages"), d.in.Is(k, "input"):
			return d.arrays(i, j, nothingMay, d.message)
		}
		return d.frozen(i, j)
	})
}

func nothingMay(int) bool { return false }

// tools matches an array of tools.
func (d *deletion) tools(i, j int) bool {
	d.markers = map[string]bool{}
	for e := i + 1; d.in.Kind(i) == tape.Array && e < d.in.After(i); e = d.in.After(e) {
		for k := e + 1; d.in.Kind(e) == tape.Object && k < d.in.After(e); k = d.in.After(k + 1) {
			if isMark(d.in, k) {
				d.markers[string(d.in.Raw(k+1))] = true
			}
		}
	}
	defer func() { d.markers = nil }()
	return d.arrays(i, j, func(int) bool { return true }, d.loose)
}

// inherited reports whether member kj of out is a marker that a tool has got
// from one that went: the last member, at the end of what was there.
func (d *deletion) inherited(i, j, kj int) bool {
	t := d.out
	if !isMark(t, kj) || t.After(kj+1) < t.After(j) || d.in.Get(i, t.Str(kj)) >= 0 || !d.markers[string(t.Raw(kj+1))] {
		return false
	}
	_, end := t.Span(kj + 1)
	_, last := t.Span(j)
	from, _ := t.Span(kj)
	return end == last-1 && t.Src()[from-1] == ','
}

// fail remembers the failure that is furthest in: where there was a choice, it
// is of the best one.
func (d *deletion) fail(i, j int, why string) bool {
	at, _ := d.in.Span(i)
	if !d.failed || at > d.inAt {
		d.failed, d.why, d.inAt, d.node = true, why, at, i
		d.outAt, _ = d.out.Span(max(j, 0))
	}
	return false
}

// pair says that the whole of i is the whole of j.
func (d *deletion) pair(i, j int) bool {
	for k := range d.in.After(i) - i {
		d.to[i+k] = j + k
	}
	return true
}

func (d *deletion) equal(i, j int) bool { return bytes.Equal(d.in.Raw(i), d.out.Raw(j)) }

// frozen: the same bytes, but for markers that are missing.
func (d *deletion) frozen(i, j int) bool {
	if d.equal(i, j) {
		return d.pair(i, j)
	}
	marker := func(k int) bool { return isMark(d.in, k) }
	switch {
	case d.in.Kind(i) != d.out.Kind(j):
	case d.in.Kind(i) == tape.Object:
		return d.objects(i, j, marker, func(_, i, j int) bool { return d.frozen(i, j) })
	case d.in.Kind(i) == tape.Array:
		return d.arrays(i, j, nothingMay, d.frozen)
	}
	return d.fail(i, j, "bytes differ in a place that nothing is taken out of")
}

// loose: anything in it may be gone, and nothing be new.
func (d *deletion) loose(i, j int) bool {
	if d.equal(i, j) {
		return d.pair(i, j)
	}
	any := func(int) bool { return true }
	switch {
	case d.in.Kind(i) != d.out.Kind(j):
	case d.in.Kind(i) == tape.Object:
		return d.objects(i, j, any, func(_, i, j int) bool { return d.loose(i, j) })
	case d.in.Kind(i) == tape.Array:
		return d.arrays(i, j, any, d.loose)
	case d.in.Kind(i) == tape.String:
		return d.text(i, j)
	}
	return d.fail(i, j, "it is another value, not a part of what was there")
}

// text: the units of string j are some of those of string i, in order.
func (d *deletion) text(i, j int) bool {
	if d.in.Kind(i) != tape.String || d.out.Kind(j) != tape.String {
		return d.frozen(i, j)
	}
	a, b := d.in.Raw(i), d.out.Raw(j)
	for len(b) > 0 {
		if len(a) == 0 {
			return d.fail(i, j, "the text is not the one that was there with parts taken out: bytes were added, moved or spelled in another way")
		}
		n, m := escapeUnit(a), escapeUnit(b)
		if bytes.Equal(a[:n], b[:m]) {
			b = b[m:]
		}
		a = a[n:]
	}
	d.to[i] = j
	return true
}

// escapeUnit is the length of the first character of a string's text as it is
// spelled: an escape is one.
func escapeUnit(raw []byte) int {
	if raw[0] == '\\' && len(raw) > 1 {
		if raw[1] == 'u' && len(raw) >= 6 {
			return 6
		}
		return 2
	}
	return 1
}

// objects matches members by their keys as they are spelled, in order. Those
// that may go may be missing; values are matched by value.
func (d *deletion) objects(i, j int, may func(key int) bool, value func(key, i, j int) bool) bool {
	if d.in.Kind(i) != tape.Object || d.out.Kind(j) != tape.Object {
		return d.frozen(i, j)
	}
	g := gaps{d: d, i: i, j: j}
	k, end := i+1, d.in.After(i)
	for kj := j + 1; kj < d.out.After(j); kj = d.out.After(kj + 1) {
		if d.inherited(i, j, kj) {
			d.to[i] = j
			return true
		}
		for k < end && !bytes.Equal(d.in.Raw(k), d.out.Raw(kj)) {
			if !may(k) {
				return d.fail(k, kj, "a member is missing, or stands in another place")
			}
			k = d.in.After(k + 1)
		}
		if k >= end {
			return d.fail(i, kj, "a member is new, or stands in another place")
		}
		d.to[k] = kj
		if !bytes.Equal(gapBetween(d.in, i, k, k+1), gapBetween(d.out, j, kj, kj+1)) {
			return d.fail(k+1, kj+1, "the white space before it differs")
		}
		if !value(k, k+1, kj+1) {
			return false
		}
		if !g.kept(k, k+1, kj, kj+1) {
			return false
		}
		k = d.in.After(k + 1)
	}
	for ; k < end; k = d.in.After(k + 1) {
		if !may(k) {
			return d.fail(k, j, "a member is missing")
		}
	}
	d.to[i] = j
	return g.last()
}

// arrays matches elements in order, each with the first that fits.
func (d *deletion) arrays(i, j int, may func(e int) bool, element func(i, j int) bool) bool {
	if d.in.Kind(i) != tape.Array || d.out.Kind(j) != tape.Array {
		return d.frozen(i, j)
	}
	g := gaps{d: d, i: i, j: j}
	e, end := i+1, d.in.After(i)
	for ej := j + 1; ej < d.out.After(j); ej = d.out.After(ej) {
		for e < end && !element(e, ej) {
			d.forget(e)
			if !may(e) {
				return d.fail(e, ej, "an element is missing, or another one")
			}
			e = d.in.After(e)
		}
		if e >= end {
			return d.fail(i, ej, "an element is new, or stands in another place")
		}
		if !g.kept(e, e, ej, ej) {
			return false
		}
		e = d.in.After(e)
	}
	for ; e < end; e = d.in.After(e) {
		if !may(e) {
			return d.fail(e, j, "an element is missing")
		}
	}
	d.to[i] = j
	return g.last()
}

// forget takes back what was paired in an element that did not fit.
func (d *deletion) forget(i int) {
	for k := i; k < d.in.After(i); k++ {
		d.to[k] = -1
	}
}

// gaps holds what stands between the children of two containers: it is the
// same, and where children went it is one of the gaps that were there.
type gaps struct {
	d     *deletion
	i, j  int
	from  int // the last node that was kept, 0 before the first
	fromJ int
}

// gapBetween is the text from the end of child a, or the start of container c, to
// the start of child b, or the end of the container.
func gapBetween(t *tape.Tape, c, a, b int) []byte {
	from, to := t.Span(c)
	from, to = from+1, to-1
	if a >= 0 {
		_, from = t.Span(a)
	}
	if b >= 0 {
		to, _ = t.Span(b)
	}
	return t.Src()[from:to]
}

// kept takes the next child that is in both: its first and its last node.
func (g *gaps) kept(first, last, firstJ, lastJ int) bool {
	if !g.check(first, firstJ) {
		return false
	}
	g.from, g.fromJ = last, lastJ
	return true
}

// last takes the end of both.
func (g *gaps) last() bool { return g.check(-1, -1) }

func (g *gaps) check(b, bj int) bool {
	d := g.d
	a, aj := g.from, g.fromJ
	if a == 0 {
		a, aj = -1, -1
	}
	got := gapBetween(d.out, g.j, aj, bj)
	// All gaps between the children of in from a to b.
	object := d.in.Kind(g.i) == tape.Object
	next := g.i + 1
	if a >= 0 {
		next = d.in.After(a)
	}
	for {
		to := next
		if next >= d.in.After(g.i) {
			to = -1
		}
		if bytes.Equal(got, gapBetween(d.in, g.i, a, to)) {
			return true
		}
		if to < 0 || to == b {
			break
		}
		a = to
		if object {
			a = to + 1
		}
		next = d.in.After(a)
	}
	// All children went, with the white space on one side of them.
	if aj < 0 && bj < 0 && len(bytes.TrimSpace(got)) == 0 {
		return true
	}
	return d.fail(g.i, g.j, "the white space or the commas between its parts differ")
}

// texts matches a text, or an array of blocks of which those that hold one may
// go.
func (d *deletion) texts(i, j int, text func(i, j int) bool) bool {
	if d.in.Kind(i) == tape.String {
		return text(i, j)
	}
	return d.arrays(i, j, d.isText, func(i, j int) bool { return d.block(i, j, text) })
}

func (d *deletion) isText(e int) bool {
	typ := d.in.Get(e, "type")
	return d.in.Is(typ, "text") || d.in.Is(typ, "input_text")
}

// block matches one content block; in one that holds a text, that is matched
// by text.
func (d *deletion) block(i, j int, text func(i, j int) bool) bool {
	if d.equal(i, j) {
		return d.pair(i, j)
	}
	if !d.isText(i) {
		return d.frozen(i, j)
	}
	return d.objects(i, j, func(k int) bool { return isMark(d.in, k) }, func(k, i, j int) bool {
		if d.in.Is(k, "text") {
			return text(i, j)
		}
		return d.frozen(i, j)
	})
}

// message matches a message, or an item of a Responses input.
func (d *deletion) message(i, j int) bool {
	if d.equal(i, j) {
		return d.pair(i, j)
	}
	if d.in.Kind(i) != tape.Object || d.out.Kind(j) != tape.Object {
		return d.frozen(i, j)
	}
	t := d.in
	typ := t.Get(i, "type")
	switch {
	case t.Is(typ, "additional_tools"):
		return d.objects(i, j, nothingMay, func(k, i, j int) bool {
			if t.Is(k, "tools") {
				return d.tools(i, j)
			}
			return d.frozen(i, j)
		})
	case isCall(d.in, i):
		return d.call(i, j)
	case isResult(d.in, i):
		return d.result(i, j)
	}
	role := t.Str(t.Get(i, "role"))
	return d.objects(i, j, func(k int) bool { return isMark(t, k) }, func(k, i, j int) bool {
		switch {
		case t.Is(k, "content") && (role == "system" || role == "developer"):
			return d.texts(i, j, d.text)
		case t.Is(k, "content") && role == "user":
			return d.user(i, j)
		case t.Is(k, "content") && role == "assistant", t.Is(k, "tool_calls"):
			return d.arrays(i, j, nothingMay, func(i, j int) bool {
				if isCall(d.in, i) {
					return d.call(i, j)
				}
				return d.frozen(i, j)
			})
		}
		return d.frozen(i, j)
	})
}

// user matches what stands under the role of a user.
func (d *deletion) user(i, j int) bool {
	if d.in.Kind(i) != tape.Array {
		return d.context(i, j)
	}
	may := func(e int) bool { return d.isText(e) && d.isContext(d.in.Get(e, "text")) }
	return d.arrays(i, j, may, func(i, j int) bool {
		if isResult(d.in, i) {
			return d.result(i, j)
		}
		return d.block(i, j, d.context)
	})
}

// context matches a user's text: parts of it go only when a client wrote it.
func (d *deletion) context(i, j int) bool {
	if d.isContext(i) {
		return d.text(i, j)
	}
	return d.frozen(i, j)
}

func (d *deletion) isContext(i int) bool {
	if d.in.Kind(i) != tape.String {
		return false
	}
	raw := d.in.Raw(i)[1:]
	for _, c := range d.contextStart {
		if bytes.HasPrefix(raw, []byte(c)) {
			return true
		}
	}
	return false
}

// Calls and their results, in all dialects: an object with a name and
// arguments, and one that names the call's id. In Responses each kind of call
// has a type of its own, which ends alike.
var (
	callIDs   = []string{"call_id", "id"}
	resultIDs = []string{"tool_use_id", "tool_call_id", "call_id", "id"}
)

func isCall(t *tape.Tape, i int) bool {
	typ := t.Str(t.Get(i, "type"))
	return typ == "tool_use" || strings.HasSuffix(typ, "_call") || t.Get(i, "function") >= 0
}

func isResult(t *tape.Tape, i int) bool {
	typ := t.Str(t.Get(i, "type"))
	return typ == "tool_result" || strings.HasSuffix(typ, "_call_output") || t.Is(t.Get(i, "role"), "tool") && t.Get(i, "tool_call_id") >= 0
}

func idOf(t *tape.Tape, i int, names []string) string {
	for _, n := range names {
		if v := t.Get(i, n); t.Kind(v) == tape.String {
			return t.Str(v)
		}
	}
	return ""
}

// findSealed finds the calls that carry a seal.
func (d *deletion) findSealed() {
	t := d.in
	if !bytes.Contains(t.Src(), []byte(sealMark)) {
		return
	}
	for i := range t.Len() {
		if isCall(d.in, i) && bytes.Contains(t.Raw(i), []byte(sealMark)) {
			if id := idOf(t, i, callIDs); id != "" {
				d.sealed[id] = true
			}
		}
	}
}

// call matches a call: the same, unless it carries a seal.
func (d *deletion) call(i, j int) bool {
	if d.equal(i, j) {
		return d.pair(i, j)
	}
	if !bytes.Contains(d.in.Raw(i), []byte(sealMark)) || d.out.Kind(j) != tape.Object {
		return d.frozen(i, j)
	}
	if bytes.Contains(d.out.Raw(j), []byte(sealMark)) && bytes.Count(d.out.Raw(j), []byte(sealMark)) >= bytes.Count(d.in.Raw(i), []byte(sealMark)) {
		return d.frozen(i, j) // it was not put back
	}
	d.restored++
	if !bytes.Equal(d.in.Raw(max(0, d.in.Get(i, "type"))), d.out.Raw(max(0, d.out.Get(j, "type")))) {
		return d.otherKind(i, j, isCall, callIDs)
	}
	inside := func(k, i, j int) bool {
		switch d.in.Str(k) {
		case "name", "arguments", "input", "action", "operation":
			d.to[i], d.free = j, append(d.free, j)
			return true
		}
		return d.frozen(i, j)
	}
	return d.objects(i, j, func(k int) bool { return isMark(d.in, k) }, func(k, i, j int) bool {
		if d.in.Is(k, "function") || d.in.Is(k, "custom") {
			return d.objects(i, j, nothingMay, inside)
		}
		return inside(k, i, j)
	})
}

// otherKind matches a call, or a result, that was of another kind before it was
// refused: all of it is another item then, with the same id.
func (d *deletion) otherKind(i, j int, is func(*tape.Tape, int) bool, ids []string) bool {
	if id := idOf(d.in, i, ids); id == "" || !is(d.out, j) || idOf(d.out, j, ids) != id && idOf(d.out, j, []string{"id"}) != id {
		return d.fail(i, j, "another item stands in its place")
	}
	d.to[i], d.free = j, append(d.free, j)
	return true
}

// result matches what answers a call. In one that answers a sealed call the
// content may be any, and it may have got an error mark.
func (d *deletion) result(i, j int) bool {
	if d.equal(i, j) {
		return d.pair(i, j)
	}
	t := d.in
	sealed := d.sealed[idOf(t, i, resultIDs)]
	if !sealed || d.out.Kind(j) != tape.Object {
		return d.objects(i, j, func(k int) bool { return isMark(t, k) }, func(k, i, j int) bool {
			if t.Is(k, "content") || t.Is(k, "output") {
				if t.Kind(i) == tape.String {
					return d.text(i, j)
				}
				return d.arrays(i, j, nothingMay, func(i, j int) bool { return d.block(i, j, d.text) })
			}
			return d.frozen(i, j)
		})
	}
	if typ := t.Get(i, "type"); typ >= 0 && !bytes.Equal(t.Raw(typ), d.out.Raw(max(0, d.out.Get(j, "type")))) {
		return d.otherKind(i, j, isResult, resultIDs)
	}
	free := func(t *tape.Tape, k int) bool {
		return t.Is(k, "content") || t.Is(k, "output") || t.Is(k, "is_error") || t.Is(k, "status")
	}
	// Members are the same, in their order. New ones stand behind them, just
	// before the closing brace.
	k, last, lastJ, skipped, added := i+1, -1, -1, false, false
	gap := func(b, bj int) bool {
		got := gapBetween(d.out, j, lastJ, bj)
		switch {
		case skipped: // a marker is missing, and one of the gaps beside it
			return true
		case b >= 0:
			return bytes.Equal(got, gapBetween(t, i, last, b))
		case bj < 0 && added:
			return len(got) == 0
		case bj < 0:
			return bytes.Equal(got, gapBetween(t, i, last, -1))
		case added:
			return string(got) == ","
		}
		return string(got) == string(gapBetween(t, i, last, -1))+","
	}
	markers := func(kj int) {
		for k < t.After(i) && isMark(t, k) && (kj < 0 || !bytes.Equal(t.Raw(k), d.out.Raw(kj))) {
			k, skipped = t.After(k+1), true
		}
	}
	const why = "the white space or the commas between its parts differ"
	for kj := j + 1; kj < d.out.After(j); kj = d.out.After(kj + 1) {
		markers(kj)
		colon := gapBetween(d.out, j, kj, kj+1)
		if k < t.After(i) && bytes.Equal(t.Raw(k), d.out.Raw(kj)) {
			if added || !gap(k, kj) || !bytes.Equal(colon, gapBetween(t, i, k, k+1)) {
				return d.fail(i, j, why)
			}
			if free(t, k) {
				d.to[k+1], d.free = kj+1, append(d.free, kj+1)
			} else if !d.frozen(k+1, kj+1) {
				return false
			}
			last, lastJ, k, skipped = k+1, kj+1, t.After(k+1), false
			continue
		}
		if !free(d.out, kj) || t.Get(i, d.out.Str(kj)) >= 0 || k < t.After(i) {
			return d.fail(i, kj, "a member is new, or stands in another place")
		}
		if string(colon) != ":" || !gap(-1, kj) {
			return d.fail(i, j, why)
		}
		lastJ, added, d.free = kj+1, true, append(d.free, kj+1)
	}
	if markers(-1); k < t.After(i) {
		return d.fail(k, j, "a member is missing")
	}
	if !gap(-1, -1) {
		return d.fail(i, j, why)
	}
	d.to[i] = j
	return true
}

// pointer is where the failure is, as a JSON pointer into in.
func (d *deletion) pointer() string { return pointerTo(d.in, d.node) }

func pointerTo(t *tape.Tape, node int) string {
	var b strings.Builder
	for i := 0; i != node; {
		next := -1
		switch t.Kind(i) {
		case tape.Object:
			for k := i + 1; k < t.After(i); k = t.After(k + 1) {
				if node == k || node > k && node < t.After(k+1) {
					b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t.Str(k)))
					next = k + 1
					if node == k {
						return b.String()
					}
				}
			}
		case tape.Array:
			for n, e := 0, i+1; e < t.After(i); n, e = n+1, t.After(e) {
				if node >= e && node < t.After(e) {
					b.WriteString("/" + strconv.Itoa(n))
					next = e
				}
			}
		}
		if next < 0 {
			return b.String()
		}
		i = next
	}
	return b.String()
}
