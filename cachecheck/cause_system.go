package cachecheck

import (
	"fmt"
	"slices"
	"strings"
)

// system compares the system text, block by block.
func (c *comparison) system() {
	a, b := c.a.sys(), c.b.sys()
	if c.rule.Provider == "anthropic" {
		// Claude Code's first line is for billing and changes each time;
		// Anthropic takes it out before it renders. Nobody else does.
		a, b = withoutBilling(a), withoutBilling(b)
	}
	i := firstDiff(a, b)
	if i == len(a) && i == len(b) {
		return
	}
	index := func(q *request, l []piece, i int) (int, int) {
		if i >= len(l) {
			return -1, -1
		}
		return q.system + slices.IndexFunc(q.sys(), func(x piece) bool { return x.from == l[i].from }), int(l[i].node)
	}
	ch := change{layer: systemLayer, label: SystemDynamic, conf: Proved}
	ch.blockA, ch.nodeA = index(c.a, a, i)
	ch.blockB, ch.nodeB = index(c.b, b, i)
	switch {
	case sameBag(a, b, canonOf) && len(a) > 1 && !sameOrder(a, b):
		ch.label = SystemOrder
		ch.detail = fmt.Sprintf("block %d of %d is the first that moved", i+1, len(b))
	case i >= len(a):
		ch.detail = "a block was added"
		c.hoist(&ch, "", text(c.tb, &b[i]))
	case i >= len(b):
		ch.detail = "a block was removed"
	case c.ta == nil:
		ch.conf = Inferred
	default:
		x, y := text(c.ta, &a[i]), text(c.tb, &b[i])
		if len(b) > len(a) && i < len(b)-1 && b[i+1].token == a[i].token {
			ch.detail, ch.nodeA, x = "a block was added", -1, ""
			if c.hoist(&ch, "", y) {
				break
			}
			break
		}
		if len(a) > len(b) && i < len(a)-1 && a[i+1].token == b[i].token {
			ch.detail, ch.nodeB = "a block was removed", -1
			break
		}
		if a[i].billing && b[i].billing || strings.Contains(x, "cch=") && strings.Contains(y, "cch=") && cchOnly(x, y) {
			ch.label, ch.detail = SystemNonce, "Claude Code's billing line"
			break
		}
		if a[i].canon == b[i].canon || x == y {
			ch.detail = "the shape of a block"
			break
		}
		u, v, cl, at := volatileDiff(x, y)
		switch {
		case cl == timeClass || cl == epochClass:
			ch.label, ch.conf = SystemTime, Inferred
			ch.detail = fmt.Sprintf("a %s, changing by the %s, at byte %d of the block (%d%% of the system text)", cl, granularity(u, v), at, c.share(a, i, at))
			if cl == epochClass {
				ch.detail = fmt.Sprintf("an epoch time at byte %d of the block (%d%% of the system text)", at, c.share(a, i, at))
			}
		case cl != noClass:
			ch.label, ch.conf = SystemNonce, Inferred
			ch.detail = fmt.Sprintf("a %s at byte %d of the block (%d%% of the system text)", cl, at, c.share(a, i, at))
		default:
			if c.hoist(&ch, x, y) {
				break
			}
			p := commonPrefix(x, y)
			s := commonSuffix(x[p:], y[p:])
			ch.detail = fmt.Sprintf("%s became %d at byte %d of the block (%d%% of the system text)", counted(len(x)-p-s, "byte"), len(y)-p-s, p, c.share(a, i, p))
			if 2*(p+s) < min(len(x), len(y)) {
				ch.conf = Inferred
				ch.detail = "most of the block is another text"
			}
		}
	}
	c.add(ch)
}

func withoutBilling(l []piece) []piece {
	if !slices.ContainsFunc(l, func(b piece) bool { return b.billing }) {
		return l
	}
	return slices.DeleteFunc(slices.Clone(l), func(b piece) bool { return b.billing })
}

func sameOrder(a, b []piece) bool {
	for i := range a {
		if a[i].canon != b[i].canon {
			return false
		}
	}
	return true
}

// cchOnly reports whether two texts are equal but for the values of cch=.
func cchOnly(x, y string) bool {
	cut := func(s string) string {
		var b strings.Builder
		for {
			i := strings.Index(s, "cch=")
			if i < 0 {
				return b.String() + s
			}
			b.WriteString(s[:i+4])
			s = strings.TrimLeft(s[i+4:], "0123456789abcdefABCDEF")
		}
	}
	return cut(x) == cut(y)
}

// share is where in the system text byte at of block i stands, in per cent.
func (c *comparison) share(l []piece, i, at int) int {
	before, all := at, 0
	for k := range l {
		n := int(l[k].to - l[k].from)
		if k < i {
			before += n
		}
		all += n
	}
	return 100 * before / max(1, all)
}

// maxHoisted is the longest text that is looked for among the messages.
const maxHoisted = 64 << 10

// hoist reports whether what the system text gained, x becoming y, is a
// message of the conversation.
func (c *comparison) hoist(ch *change, x, y string) bool {
	p := commonPrefix(x, y)
	s := commonSuffix(x[p:], y[p:])
	if len(x)-p-s > 0 {
		return false // something was replaced
	}
	gained := strings.TrimSpace(y[p : len(y)-s])
	if len(gained) < 12 || len(gained) > maxHoisted {
		return false
	}
	look := func(q *request, of func(*piece) string) bool {
		for i := q.messages; i < len(q.blocks); i++ {
			b := &q.blocks[i]
			if b.kind != textBlock || q.msgs[b.msg].role == "assistant" {
				continue
			}
			t := strings.TrimSpace(of(b))
			if len(t) >= 12 && (t == gained || strings.Contains(gained, t) || len(gained)*2 > len(t) && strings.Contains(t, gained)) {
				return true
			}
		}
		return false
	}
	if c.ta != nil && look(c.a, func(b *piece) string { return text(c.ta, b) }) || look(c.b, func(b *piece) string { return text(c.tb, b) }) {
		ch.label, ch.conf = SystemHoist, Proved
		ch.detail = counted(len(gained), "byte") + " that are a message of the conversation"
		return true
	}
	return false
}
