package cachecheck

import "fmt"

// Markers (cache_control, cachePoint) say where entries end. These tests find
// what keeps an unchanged prefix from being stored or found.

// lastMark is the index of the last marked block, −1 for none. Automatic
// caching marks the last one.
func (q *request) lastMark() int {
	if q.auto {
		return len(q.blocks) - 1
	}
	for i := len(q.blocks) - 1; i >= 0; i-- {
		if q.blocks[i].marked {
			return i
		}
	}
	return -1
}

func (q *request) marks() int {
	if q.auto {
		return q.markers + 1
	}
	return q.markers
}

// markers tests a pair whose layers and parameters moved nothing, or only
// behind the last marker.
func (c *comparison) markers() (out []change) {
	if c.rule.Lookup != LookupMarkers {
		return nil
	}
	a, b := c.a, c.b
	add := func(l Label, conf Confidence, block int, detail string, level ...string) {
		ch := change{label: l, conf: conf, rank: rankOther, level: level, blockA: -1, blockB: block, nodeA: -1, nodeB: -1, detail: detail}
		if block >= 0 {
			ch.nodeB, ch.layer = int(b.blocks[block].node), b.blocks[block].layer
		}
		out = append(out, ch)
	}
	switch {
	case b.marks() == 0 && a.marks() > 0:
		add(BreakpointDropped, Proved, -1, counted(a.marks(), "marker")+" before, none now", c.rule.Order[:]...)
	case b.marks() == 0:
		add(BreakpointNone, Proved, -1, "neither request has a marker", c.rule.Order[:]...)
	}
	for i := 0; i < min(len(a.blocks), len(b.blocks)) && a.blocks[i].token == b.blocks[i].token; i++ {
		x, y := &a.blocks[i], &b.blocks[i]
		if x.marked && y.marked && c.lifetime(x.ttl) != c.lifetime(y.ttl) {
			add(TTLChanged, Proved, i, fmt.Sprintf("%s became %s", orDefault(x.ttl), orDefault(y.ttl)), c.levels(y.layer)...)
			break
		}
	}
	if c.flow == Append && len(c.changes) == 0 && a.marks() > 0 && b.marks() > 0 {
		// The nearest of B's markers that stands at or behind A's last one.
		w := a.lastMark()
		if w >= a.messages {
			best := -1
			for i := w; i < len(b.blocks); i++ {
				if b.blocks[i].marked || b.auto && i == len(b.blocks)-1 {
					best = i
					break
				}
			}
			if best >= 0 {
				if n := c.positions(w, best); n >= c.rule.Lookback {
					add(BreakpointLookback, Proved, best, fmt.Sprintf("%s behind the earlier marker; %d are looked at", counted(n, "position"), c.rule.Lookback), "messages")
				}
			}
		}
	}
	return out
}

func orDefault(ttl string) string {
	if ttl == "" {
		return "the default"
	}
	return clip(ttl, 10)
}

// lifetime is the seconds of a marker's ttl, 0 when unknown.
func (c *comparison) lifetime(ttl string) int { return c.rule.Lifetimes[ttl] }

// positions counts the steps back from block j to block i of B, as the provider
// counts them.
func (c *comparison) positions(i, j int) int {
	n := 0
	for k := j; k > i; k-- {
		b, next := &c.b.blocks[k], &c.b.blocks[k-1]
		if c.rule.RunsCountOnce && (b.kind == callBlock || b.kind == resultBlock) && b.kind == next.kind && k-1 > i {
			continue
		}
		n++
	}
	return n
}

// static are the tests of one request alone.
func static(q *request, rule *Rule) (out []change) {
	add := func(l Label, detail string) {
		out = append(out, change{label: l, conf: Proved, rank: rankOther, blockA: -1, blockB: -1, nodeA: -1, nodeB: -1, detail: detail})
	}
	if rule.Markers > 0 && q.marks() > rule.Markers {
		add(BreakpointBudget, fmt.Sprintf("%d markers; %d are taken", q.marks(), rule.Markers))
	}
	if rule.Lookup == LookupMarkers {
		shortest := 0
		for i := range q.blocks {
			if b := &q.blocks[i]; b.marked {
				t := rule.Lifetimes[b.ttl]
				if shortest > 0 && t > shortest {
					add(BreakpointOrder, "a marker of "+orDefault(b.ttl)+" stands behind a shorter one")
					break
				}
				if shortest == 0 || t < shortest {
					shortest = t
				}
			}
		}
	}
	if rule.BodyOrder && !q.lossy {
		history, head := -1, -1
		for i, k := range q.order {
			switch k {
			case "messages", "input", "contents":
				history = i
			case "tools", "system", "instructions":
				head = i
			}
		}
		if history >= 0 && history < head {
			add(WireBodyOrder, q.order[history]+" stands before "+q.order[head])
			if rule.Provider == "openai" {
				out[len(out)-1].conf = Inferred // reported, unconfirmed
			}
		}
	}
	return out
}
