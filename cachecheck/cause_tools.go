package cachecheck

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/schema"
)

// tools compares the declarations. The first place at which the lists differ is
// the cause; the kinds of change that are found beyond it are listed too.
func (c *comparison) tools() {
	a, b := c.a.tools(), c.b.tools()
	i := firstDiff(a, b)
	if i == len(a) && i == len(b) {
		return
	}
	inA, inB := names(a), names(b)
	at := change{layer: toolsLayer, conf: Proved, blockA: -1, blockB: -1, nodeA: -1, nodeB: -1}
	if i < len(a) {
		at.blockA, at.nodeA = i, int(a[i].node)
	}
	if i < len(b) {
		at.blockB, at.nodeB = i, int(b[i].node)
	}
	var later []change
	switch {
	case i >= len(a) || i < len(b) && inA[b[i].name] == 0 && (inB[a[i].name] > 0):
		c.added(&at, a, b, inA)
	case i >= len(b) || inB[a[i].name] == 0 && inA[b[i].name] > 0:
		c.removed(&at, a, b, inB)
	case a[i].name == b[i].name:
		c.edited(&at, &a[i], &b[i])
	case inB[a[i].name] == 0:
		add := at
		c.removed(&at, a, b, inB)
		c.added(&add, a, b, inA)
		later = append(later, add)
	default:
		at.label, at.name = ToolsOrder, b[i].name
		at.detail = fmt.Sprintf("%s stands where %s stood", quoted(b[i].name), quoted(a[i].name))
		if prefix := movedGroup(a, b); prefix != "" {
			at.detail += ", with the other tools of " + prefix
		}
	}
	c.toggle(&at, a, b)
	c.guard(&at, a, b)
	c.add(at)
	// What else differs.
	for _, l := range later {
		c.guard(&l, a, b)
		l.rank = c.rank(toolsLayer) + 1
		c.add(l)
	}
	seen := map[Label]bool{at.label: true}
	if at.label == ParamToggles {
		seen[ToolsAdded], seen[ToolsRemoved] = true, true
	}
	for _, l := range later {
		seen[l.label] = true
	}
	more := func(ch change) {
		if c.guard(&ch, a, b); !seen[ch.label] {
			seen[ch.label] = true
			ch.rank = c.rank(toolsLayer) + 1
			c.add(ch)
		}
	}
	if k := slices.IndexFunc(b, func(x piece) bool { return inA[x.name] == 0 }); k >= 0 {
		ch := change{layer: toolsLayer, conf: Proved, blockA: -1, blockB: k, nodeA: -1, nodeB: int(b[k].node)}
		c.added(&ch, a, b, inA)
		more(ch)
	}
	if k := slices.IndexFunc(a, func(x piece) bool { return inB[x.name] == 0 }); k >= 0 {
		ch := change{layer: toolsLayer, conf: Proved, blockA: k, blockB: -1, nodeA: int(a[k].node), nodeB: -1}
		c.removed(&ch, a, b, inB)
		more(ch)
	}
	if !slices.Equal(common(a, inB), common(b, inA)) {
		more(change{layer: toolsLayer, label: ToolsOrder, conf: Proved, blockA: -1, blockB: -1, nodeA: -1, nodeB: -1, detail: "the tools that both have stand in another order"})
	}
	firstAt := make(map[string]int, len(a)) // where a name first stands
	for j := range a {
		if _, ok := firstAt[a[j].name]; !ok {
			firstAt[a[j].name] = j
		}
	}
	looked := 0
	for k := range b {
		j, ok := firstAt[b[k].name]
		if ok && a[j].token != b[k].token && k != i && looked < 16 { // more would say no more
			looked++
			ch := change{layer: toolsLayer, conf: Proved, blockA: j, blockB: k, nodeA: int(a[j].node), nodeB: int(b[k].node)}
			c.edited(&ch, &a[j], &b[k])
			more(ch)
		}
	}
}

func names(l []piece) map[string]int {
	out := map[string]int{}
	for i := range l {
		out[l[i].name]++
	}
	return out
}

// common lists the names of l that are in the other list too, in order.
func common(l []piece, other map[string]int) (out []string) {
	for i := range l {
		if other[l[i].name] > 0 {
			out = append(out, l[i].name)
		}
	}
	return out
}

func quoted(name string) string {
	if name == "" {
		return "a nameless tool"
	}
	return clip(name, 60)
}

func (c *comparison) added(ch *change, a, b []piece, inA map[string]int) {
	ch.label, ch.nodeA = ToolsAdded, -1
	var fresh []string
	where, seen := "at the end", false
	for k := len(b) - 1; k >= 0; k-- {
		if inA[b[k].name] == 0 {
			fresh = append(fresh, b[k].name)
			if seen {
				where = "in the middle"
				if k == 0 {
					where = "at the front"
				}
			}
		} else {
			seen = true
		}
	}
	if len(fresh) == 0 { // a second declaration of a name
		fresh = []string{b[min(len(a), len(b)-1)].name}
	}
	slices.Reverse(fresh)
	ch.name = fresh[0]
	ch.detail = listed(fresh) + " " + where
}

func (c *comparison) removed(ch *change, a, b []piece, inB map[string]int) {
	ch.label, ch.nodeB = ToolsRemoved, -1
	var gone []string
	for k := range a {
		if inB[a[k].name] == 0 {
			gone = append(gone, a[k].name)
		}
	}
	if len(gone) == 0 {
		gone = []string{a[min(len(b), len(a)-1)].name}
	}
	ch.name = gone[0]
	ch.detail = listed(gone)
}

func listed(names []string) string {
	out := make([]string, 0, 4)
	for _, n := range names[:min(3, len(names))] {
		out = append(out, quoted(n))
	}
	s := strings.Join(out, ", ")
	if len(names) > 3 {
		s += fmt.Sprintf(" and %d more", len(names)-3)
	}
	if p := group(names[0]); p != "" && len(names) > 1 && !slices.ContainsFunc(names, func(n string) bool { return group(n) != p }) {
		s += " (all of " + p + ")"
	}
	return s
}

// group is the server that a tool's name begins with: mcp__github of
// mcp__github__search.
func group(name string) string {
	i := strings.LastIndex(name, "__")
	if i <= 0 {
		return ""
	}
	if p := name[:i]; strings.Contains(p, "__") || !strings.HasPrefix(name, "mcp__") {
		return p
	}
	return ""
}

// movedGroup names the server when all its tools moved together and no other
// did.
func movedGroup(a, b []piece) string {
	groups := map[string]bool{}
	for i := range a {
		if g := group(a[i].name); g != "" {
			groups[g] = true
		}
	}
	if len(groups) > 50 {
		return ""
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		rest := func(l []piece) (out []string) {
			for i := range l {
				if group(l[i].name) != g {
					out = append(out, l[i].name)
				}
			}
			return out
		}
		if slices.Equal(rest(a), rest(b)) {
			return g
		}
	}
	return ""
}

// edited names the change of one tool.
func (c *comparison) edited(ch *change, a, b *piece) {
	ch.name = b.name
	if a.canon == b.canon {
		ch.label, ch.detail = ToolsKeyOrder, quoted(b.name)
		return
	}
	ch.label, ch.detail = ToolsEdit, quoted(b.name)
	if c.ta == nil {
		return
	}
	leaves, more := differ(c.ta, int(a.node), c.tb, int(b.node), isCacheMark)
	if len(leaves) == 0 {
		return
	}
	ch.detail += leaves[0].path
	if len(leaves) > 1 {
		ch.detail += fmt.Sprintf(" and %d more", len(leaves)-1)
	}
	ch.nodeA, ch.nodeB = leaves[0].a, leaves[0].b
	if !more {
		if cl, x, y := allVolatile(c.ta, c.tb, leaves); cl != noClass {
			ch.label, ch.conf = ToolsVolatile, Inferred
			ch.detail = quoted(b.name) + leaves[0].path + ": a " + cl.String()
			if len(x) == len(y) {
				ch.detail += " of equal length"
			}
			return
		}
	}
	// Our own narrowing of one is the other: the rules were switched.
	ra, rb := c.ta.Raw(int(a.node)), c.tb.Raw(int(b.node))
	na, _ := schema.Narrow(ra, c.narrow)
	nb, _ := schema.Narrow(rb, c.narrow)
	if bytes.Equal(na, rb) && !bytes.Equal(na, ra) || bytes.Equal(nb, ra) && !bytes.Equal(nb, rb) {
		ch.label, ch.conf = ToolsGuard, Inferred
		ch.detail = quoted(b.name) + ": one is what narrowing makes of the other"
	}
}

// allVolatile reports whether all leaves are strings that differ in volatile
// values alone; the class is that of the first.
func allVolatile(ta, tb *tape.Tape, leaves []leaf) (cl class, x, y string) {
	for _, l := range leaves {
		if ta.Kind(l.a) != tape.String || tb.Kind(l.b) != tape.String {
			return noClass, "", ""
		}
		u, v, k, _ := volatileDiff(ta.Str(l.a), tb.Str(l.b))
		if k == noClass {
			return noClass, "", ""
		}
		if cl == noClass {
			cl, x, y = k, u, v
		}
	}
	return cl, x, y
}

// toggle recognises Anthropic's web search, whose switch changes the system
// text and leaves the tools' entry alone.
func (c *comparison) toggle(ch *change, a, b []piece) {
	if p := c.rule.Provider; p != "anthropic" && p != "vertex" || ch.label != ToolsAdded && ch.label != ToolsRemoved || c.ta == nil {
		return
	}
	rest := func(t *tape.Tape, l []piece) (out []sum, hosted int) {
		for i := range l {
			if strings.HasPrefix(t.Str(t.Get(int(l[i].node), "type")), "web_search") {
				hosted++
				continue
			}
			out = append(out, l[i].token)
		}
		return out, hosted
	}
	ra, na := rest(c.ta, a)
	rb, nb := rest(c.tb, b)
	if na != nb && slices.Equal(ra, rb) {
		ch.label, ch.level, ch.detail = ParamToggles, []string{"system", "messages"}, "web search switched"
	}
}

// guard renames a change of the tools that the client did not make.
func (c *comparison) guard(ch *change, a, b []piece) {
	if c.a.clientTools == nil && c.b.clientTools == nil {
		if ch.label == ToolsRemoved && slices.Contains(c.narrow.Drop, ch.name) || ch.label == ToolsAdded && slices.Contains(c.narrow.Drop, ch.name) {
			ch.label, ch.conf = ToolsGuard, Inferred
			ch.detail += ": a tool that narrowing takes out"
		}
		return
	}
	client := func(q *request, l []piece) map[string]sum {
		if q.clientTools != nil {
			return q.clientTools
		}
		return toolSums(l)
	}
	ca, cb := client(c.a, a), client(c.b, b)
	x, inA := ca[ch.name]
	y, inB := cb[ch.name]
	if inA && inB && x == y && ch.label != ToolsOrder {
		ch.label, ch.conf = ToolsGuard, Proved
		ch.detail = quoted(ch.name) + ": the client sent the same both times"
	}
}

func toolSums(l []piece) map[string]sum {
	m := make(map[string]sum, len(l))
	for i := range l {
		m[l[i].name] = l[i].token
	}
	return m
}
