package cachecheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// history compares the messages. It first says how the two histories lie to
// each other (flow); where the earlier one is not simply continued, rewound or
// left, it names what was done to the first block that differs.
//
// The tests go from the exact to the vague: a test that comes later may take
// for an edit what an earlier one knows better.
func (c *comparison) history() {
	a, b := c.a.history(), c.b.history()
	i := 0
	for i < len(a) && i < len(b) && c.sameBlock(&a[i], &b[i]) {
		i++
	}
	switch {
	case i == len(a) && i == len(b):
		c.flow = Retry
		return
	case i == len(a) && (b[i].first || !c.boundaries()):
		c.flow = Append
		return
	case i == len(b) && (a[i].first || !c.boundaries()):
		c.flow = Rewind
		return
	}
	ch := change{layer: messagesLayer, label: HistoryMutated, conf: Proved, blockA: -1, blockB: -1, nodeA: -1, nodeB: -1}
	if i < len(a) {
		ch.blockA, ch.nodeA = c.a.messages+i, int(a[i].node)
	}
	if i < len(b) {
		ch.blockB, ch.nodeB = c.b.messages+i, int(b[i].node)
	}
	for _, test := range []func(*change, []piece, []piece, int) bool{
		c.compaction, c.extended, c.partial, c.fork, c.ids, c.images, c.arguments, c.reasoning, c.shape, c.transient, c.reorder,
	} {
		if test(&ch, a, b, i) {
			break
		}
	}
	if ch.label == Fork {
		c.flow = Fork
		return
	}
	if ch.label == HistoryMutated {
		c.mutated(&ch, a, b, i)
	}
	c.add(ch)
}

// boundaries reports whether it counts where a message begins: Anthropic joins
// neighbours of one role.
func (c *comparison) boundaries() bool {
	return c.a.dialect != dialectMessages && c.a.dialect != dialectConverse
}

func (c *comparison) sameBlock(a, b *piece) bool {
	return a.token == b.token && (a.first == b.first || !c.boundaries())
}

// role is the role of the message that a block belongs to.
func (q *request) role(b *piece) string { return q.msgs[b.msg].role }

// turn is the index of the first message after the last one of the model's: B's
// new input.
func (q *request) turn() int {
	for i, m := range slices.Backward(q.msgs) {
		if m.role == "assistant" {
			return i + 1
		}
	}
	return 0
}

// compaction: B has less than half of A's messages, and an early one that A did
// not have is long, compared with the others.
func (c *comparison) compaction(ch *change, a, b []piece, i int) bool {
	if len(c.a.msgs) < 4 || 2*len(c.b.msgs) > len(c.a.msgs) {
		return false
	}
	had := map[sum]bool{}
	for _, m := range c.a.msgs {
		had[m.strip] = true
	}
	longest, all := 0, 0
	for k, m := range c.b.msgs {
		if k < 3 && !had[m.strip] {
			longest = max(longest, m.size)
		}
		all += m.size
	}
	if longest < 200 && longest*3 < all {
		return false
	}
	ch.label, ch.conf = HistoryCompaction, Inferred
	ch.detail = fmt.Sprintf("%s became %d, with a new one of %s", counted(len(c.a.msgs), "message"), len(c.b.msgs), counted(longest, "byte"))
	return true
}

// extended: the last message of A goes on in B. Where entries end with
// messages, its old end is lost.
func (c *comparison) extended(ch *change, a, b []piece, i int) bool {
	if c.rule.Lookup != LookupEndpoints {
		return false
	}
	last := len(c.a.msgs) - 1
	if i == len(a) { // B's message has more parts
		ch.label, ch.detail = EndpointExtended, "the last message has more parts"
		return true
	}
	if i != len(a)-1 || i >= len(b) || int(a[i].msg) != last || int(b[i].msg) != last || c.ta == nil || a[i].kind != textBlock || b[i].kind != textBlock {
		return false
	}
	x, y := text(c.ta, &a[i]), text(c.tb, &b[i])
	if x == "" || len(y) <= len(x) || !strings.HasPrefix(y, x) {
		return false
	}
	ch.label = EndpointExtended
	ch.detail = "the last message grew by " + counted(len(y)-len(x), "byte")
	return true
}

// partial: B asks something else about the same long text, and the provider
// stored nothing that ends where the two part.
func (c *comparison) partial(ch *change, a, b []piece, i int) bool {
	if c.rule.Lookup != LookupUnits || i >= len(a) || i >= len(b) || c.ta == nil {
		return false
	}
	k := int(b[i].msg)
	if int(a[i].msg) != k || c.a.role(&a[i]) != "user" || c.b.role(&b[i]) != "user" || k < c.b.turn() {
		return false
	}
	x, y := text(c.ta, &a[i]), text(c.tb, &b[i])
	p := commonPrefix(x, y)
	if 2*p < min(len(x), len(y)) || p < 64 {
		return false
	}
	ch.label = UnitPartial
	ch.detail = fmt.Sprintf("the texts part at byte %d of a user message", p)
	return true
}

// fork: the two part within B's own new input, so that B is another branch and
// nothing of the history was changed.
func (c *comparison) fork(ch *change, a, b []piece, i int) bool {
	if i >= len(b) {
		return false
	}
	if int(b[i].msg) < c.b.turn() {
		return false
	}
	// B's input may not begin before A's message does.
	if i < len(a) && c.a.role(&a[i]) != "assistant" && int(a[i].msg) < c.a.turn() && c.b.role(&b[i]) == "tool" {
		return false
	}
	ch.label = Fork
	return true
}

// ids: nothing but ids differs.
func (c *comparison) ids(ch *change, a, b []piece, i int) bool {
	if i >= len(a) || i >= len(b) || a[i].strip != b[i].strip || a[i].canon == b[i].canon {
		return false
	}
	ch.label = HistoryIDs
	ch.detail = "an id of an old " + [...]string{"item", "message", "call", "result", "reasoning", "image", "message"}[b[i].kind]
	if c.ta != nil {
		if leaves, _ := differ(c.ta, int(a[i].node), c.tb, int(b[i].node), isCacheMark); len(leaves) > 0 {
			ch.nodeA, ch.nodeB = leaves[0].a, leaves[0].b
		}
	}
	return true
}

// images: an image, or a part that holds one, has other bytes.
func (c *comparison) images(ch *change, a, b []piece, i int) bool {
	hasA := i < len(a) && a[i].kind == imageBlock
	hasB := i < len(b) && b[i].kind == imageBlock
	if c.ta != nil && i < len(a) && i < len(b) && (hasA && hasB || a[i].kind == resultBlock && b[i].kind == resultBlock) {
		leaves, _ := differ(c.ta, int(a[i].node), c.tb, int(b[i].node), isCacheMark)
		for _, l := range leaves[:min(1, len(leaves))] {
			path := l.path
			for _, key := range []string{"/source/data", "/source/url", "/image_url", "/inlineData", "/fileData", "/bytes", "/source/file_id"} {
				if strings.Contains(path, key) {
					ch.label, ch.nodeA, ch.nodeB = HistoryImage, l.a, l.b
					ch.detail = "an old image has other bytes"
					if strings.Contains(path, "url") && !strings.HasPrefix(c.tb.Str(l.b), "data:") {
						ch.detail = "the address of an old image changed"
					}
					return true
				}
			}
		}
	}
	if hasA != hasB && i < len(a) && i < len(b) && a[i].msg == b[i].msg && c.a.role(&a[i]) == c.b.role(&b[i]) {
		// One side has an image more here, and goes on as the other does.
		if hasA && (i+1 >= len(a) || a[i+1].strip == b[i].strip || a[i+1].msg != a[i].msg) {
			ch.label, ch.detail = HistoryImage, "an old image was removed or replaced"
			return true
		}
		if hasB && i+1 < len(b) && b[i+1].strip == a[i].strip {
			ch.label, ch.detail = HistoryImage, "an image was added to an old message"
			return true
		}
	}
	if hasA && hasB {
		ch.label, ch.detail = HistoryImage, "an old image was replaced"
		return true
	}
	return false
}

// reasoning: without the reasoning blocks the two are the same here.
func (c *comparison) reasoning(ch *change, a, b []piece, i int) bool {
	skip := func(l []piece, k int) int {
		for k < len(l) && l[k].kind == reasoningBlock {
			k++
		}
		return k
	}
	x, y := skip(a, i), skip(b, i)
	if x == i && y == i {
		return false
	}
	same := x < len(a) && y < len(b) && a[x].strip == b[y].strip ||
		x == len(a) && y <= len(b) && x > i || // nothing follows in A
		x < len(a) && y < len(b) && x-i == y-i && a[x].kind == b[y].kind
	if !same {
		return false
	}
	ch.label = HistoryReasoning
	switch {
	case x > i && y == i:
		ch.detail = "reasoning was dropped from an old message"
	case x == i && y > i:
		ch.detail = "reasoning was added to an old message"
	default:
		ch.detail = "the reasoning of an old message was changed"
	}
	return true
}

// shape: the same texts and parts, told apart by how they are packed.
func (c *comparison) shape(ch *change, a, b []piece, i int) bool {
	if i >= len(a) && i >= len(b) || c.ta == nil {
		return false
	}
	// From the beginning of the message in which they part.
	from := func(q *request, l []piece, i int) int {
		if i >= len(l) {
			i = len(l) - 1
		}
		return q.msgs[l[i].msg].from - q.messages
	}
	fa, fb := from(c.a, a, i), from(c.b, b, i)
	if fa != fb {
		fa, fb = min(fa, fb), min(fa, fb)
	}
	x, y := flat(c.ta, c.a, a[fa:], len(a)), flat(c.tb, c.b, b[fb:], len(a)-fa+8)
	// All of A's message is in B's, packed otherwise.
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	k := int(a[min(i, len(a)-1)].msg)
	end := c.a.msgs[k].to - c.a.messages // of the message
	need := len(flat(c.ta, c.a, a[fa:end], end))
	if n < need || need == 0 {
		return false
	}
	ch.label = HistoryShape
	switch {
	case i < len(a) && i < len(b) && a[i].blank != b[i].blank:
		ch.detail = "an empty part came or went"
	case i < len(a) && i < len(b) && a[i].token == b[i].token:
		ch.detail = "messages were joined or split"
	default:
		ch.detail = "the text is packed in another shape"
	}
	return true
}

// flat is what blocks say, whatever their packing: texts of one role joined,
// without blank ones, everything else by its strip form.
func flat(t *tape.Tape, q *request, l []piece, most int) []string {
	var out []string
	joined := false
	for i := range l[:min(len(l), most)] {
		b := &l[i]
		if b.blank {
			continue
		}
		if b.kind != textBlock || b.id != "" {
			out = append(out, b.strip.String())
			joined = false
			continue
		}
		s, role := text(t, b), q.role(b)
		if joined && strings.HasPrefix(out[len(out)-1], role+"\x00") {
			out[len(out)-1] += s
			continue
		}
		out = append(out, role+"\x00"+s)
		joined = true
	}
	return out
}

// arguments: the JSON of a call or a result was written anew.
func (c *comparison) arguments(ch *change, a, b []piece, i int) bool {
	if i >= len(a) || i >= len(b) || a[i].kind != b[i].kind {
		return false
	}
	if a[i].canon == b[i].canon && a[i].token != b[i].token {
		ch.label, ch.detail = HistoryToolArgs, "the keys of old arguments are in another order"
		return true
	}
	if c.ta == nil || a[i].kind != callBlock && a[i].kind != resultBlock {
		return false
	}
	leaves, more := differ(c.ta, int(a[i].node), c.tb, int(b[i].node), func(t *tape.Tape, k int) bool { return isCacheMark(t, k) || isID(t, k) })
	if more || len(leaves) == 0 {
		return false
	}
	for _, l := range leaves {
		if !equalJSON(c.ta, l.a, c.tb, l.b) {
			return false
		}
	}
	ch.label, ch.nodeA, ch.nodeB = HistoryToolArgs, leaves[0].a, leaves[0].b
	ch.detail = "the same JSON in other bytes"
	return true
}

// equalJSON reports whether two strings hold equal JSON, or a string holds what
// the other side has as an object.
func equalJSON(a *tape.Tape, i int, b *tape.Tape, j int) bool {
	if i < 0 || j < 0 || a.Kind(i) != tape.String || b.Kind(j) != tape.String {
		return false
	}
	var x, y tape.Tape
	if x.Parse([]byte(a.Str(i))) != nil || y.Parse([]byte(b.Str(j))) != nil {
		return false
	}
	if k := x.Kind(0); k != tape.Object && k != tape.Array {
		return false
	}
	return same(&x, 0, &y, 0, canonForm)
}

// transient: A's last input has something that B's copy of it lacks, and lacks
// nothing else.
func (c *comparison) transient(ch *change, a, b []piece, i int) bool {
	if i >= len(a) || int(a[i].msg) < c.a.turn() || c.a.role(&a[i]) == "assistant" {
		return false
	}
	// Blocks that went: what follows them in A is what B has here, or A ends.
	k := i
	for k < len(a) && (i >= len(b) || a[k].strip != b[i].strip) {
		k++
	}
	rest := b[min(i, len(b)):]
	gone := k > i && k < len(a) || k == len(a) && len(rest) > 0 && c.b.role(&rest[0]) == "assistant"
	if gone {
		ch.label, ch.conf = HistoryTransient, Inferred
		ch.nodeB = -1
		ch.detail = counted(k-i, "block") + " of the last input gone"
		if k-i == 1 {
			ch.detail = "a block of the last input is gone"
		}
		for x := c.b.msgs[min(c.b.turn(), len(c.b.msgs)-1)].from; x < len(c.b.blocks); x++ {
			if c.b.blocks[x].strip == a[i].strip {
				ch.conf = Proved
				ch.detail += ", and stand in the new one"
				break
			}
		}
		return true
	}
	if c.ta == nil || i >= len(b) || a[i].kind != textBlock || b[i].kind != textBlock {
		return false
	}
	x, y := text(c.ta, &a[i]), text(c.tb, &b[i])
	p := commonPrefix(x, y)
	s := commonSuffix(x[p:], y[p:])
	if p+s < len(y) || len(y) == 0 {
		return false // something else was put in its place
	}
	run := strings.TrimSpace(x[p : len(x)-s])
	if len(run) < 8 {
		return false
	}
	ch.label, ch.conf = HistoryTransient, Inferred
	ch.detail = counted(len(x)-len(y), "byte") + " of the last input gone"
	probe := run[:min(len(run), 32)]
	if line, _, ok := strings.Cut(run, "\n"); ok && len(line) >= 4 {
		probe = line[:min(len(line), 32)]
	}
	for x := c.b.msgs[min(c.b.turn(), len(c.b.msgs)-1)].from; x < len(c.b.blocks); x++ {
		if strings.Contains(text(c.tb, &c.b.blocks[x]), probe) {
			ch.conf = Proved
			ch.detail += ", and stand in the new one"
			return true
		}
	}
	return true
}

// reorder: A's blocks are all in B, in another order.
func (c *comparison) reorder(ch *change, a, b []piece, i int) bool {
	if i >= len(a) || i >= len(b) || len(a)-i < 2 {
		return false
	}
	have := map[sum]int{}
	for k := i; k < len(b); k++ {
		have[b[k].strip]++
	}
	at, inOrder := i, true
	for k := i; k < len(a); k++ {
		if have[a[k].strip]--; have[a[k].strip] < 0 {
			return false
		}
		for at < len(b) && b[at].strip != a[k].strip {
			at++
		}
		if at == len(b) {
			inOrder = false
			at = i
		}
	}
	if inOrder {
		return false // something was inserted
	}
	ch.label, ch.detail = HistoryReorder, counted(len(a)-i, "old block")+" in another order"
	return true
}

var placeholders = []string{"[pruned", "[truncated", "truncated]", "[removed", "[omitted", "omitted]", "[cleared", "cleared]", "[old tool result", "elided"}

// mutated is what remains: an old block was edited, removed or inserted.
func (c *comparison) mutated(ch *change, a, b []piece, i int) {
	// Is the rest of A still there? Then this is an edit in place for sure.
	again := func(l, m []piece, from, to int) bool {
		return from < len(l) && to < len(m) && l[from].strip == m[to].strip
	}
	switch {
	case i >= len(b):
		ch.detail, ch.conf = "the last message lost its end", Proved
		return
	case i >= len(a):
		ch.detail = "the last message got more parts"
		return
	case again(a, b, i+1, i+1) || i+1 >= len(a) && a[i].kind == b[i].kind:
		ch.detail = "an old " + kindName(b[i].kind) + " was edited"
	case again(a, b, i+1, i), again(a, b, i+2, i):
		ch.detail, ch.nodeB = "an old "+kindName(a[i].kind)+" was removed", -1
		return
	case again(a, b, i, i+1), again(a, b, i, i+2):
		ch.detail, ch.nodeA = "a "+kindName(b[i].kind)+" was put between old ones", -1
		return
	case a[i].id != "" && a[i].id == b[i].id:
		ch.detail = "an old " + kindName(b[i].kind) + " was edited"
	case a[i].kind == b[i].kind && c.a.role(&a[i]) == c.b.role(&b[i]):
		ch.detail, ch.conf = "an old "+kindName(b[i].kind)+" was edited or replaced", Inferred
	default:
		ch.detail, ch.conf = "the history goes on with something else", Unknown
		return
	}
	if c.ta == nil {
		return
	}
	leaves, _ := differ(c.ta, int(a[i].node), c.tb, int(b[i].node), func(t *tape.Tape, k int) bool { return isCacheMark(t, k) || isID(t, k) })
	if len(leaves) == 0 {
		return
	}
	ch.nodeA, ch.nodeB = leaves[0].a, leaves[0].b
	for _, l := range leaves {
		if !strings.HasSuffix(l.path, "/citations") && !strings.HasSuffix(l.path, "/citations/enabled") {
			goto text
		}
	}
	ch.label, ch.detail, ch.rank, ch.level = ParamToggles, "citations switched on a document", rankFirst+1, []string{"system", "messages"}
	return
text:
	x, y := c.ta.Str(leaves[0].a), c.tb.Str(leaves[0].b)
	if x == "" && y == "" {
		return
	}
	low := strings.ToLower(y)
	switch {
	case len(y) < len(x) && slices.ContainsFunc(placeholders, func(p string) bool { return strings.Contains(low, p) && !strings.Contains(strings.ToLower(x), p) }):
		ch.detail = fmt.Sprintf("an old %s of %s became a placeholder of %d", kindName(b[i].kind), counted(len(x), "byte"), len(y))
	case len(y) < len(x):
		ch.detail = fmt.Sprintf("an old %s was shortened from %d to %s", kindName(b[i].kind), len(x), counted(len(y), "byte"))
	case len(y) > len(x):
		ch.detail = fmt.Sprintf("an old %s grew from %d to %s", kindName(b[i].kind), len(x), counted(len(y), "byte"))
	}
}

func kindName(k kind) string {
	return [...]string{"item", "text", "call", "result", "reasoning", "image", "message"}[k]
}
