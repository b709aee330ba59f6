package cachecheck

import (
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/schema"
)

// change is one difference between two requests. The one that the provider
// renders first is the cause.
type change struct {
	label  Label
	conf   Confidence
	rank   int // place in the order of rendering
	layer  layer
	level  []string // layers lost
	blockA int      // index into blocks, −1 for none
	blockB int
	nodeA  int // the value that differs, −1 when one side lacks it
	nodeB  int
	name   string // of a parameter or a tool
	detail string
	free   bool // nothing that was stored is lost
}

// Ranks of what is no layer. Layers stand at 10, 20 and 40 in their order.
const (
	rankModel    = 0
	rankHead     = 5
	rankFirst    = 10
	rankSecond   = 20
	rankMessages = 30
	rankHistory  = 40
	rankOther    = 50
)

// comparison holds what the tests of one pair need. ta is the earlier body's
// index, tb the later one's; ta is nil when the earlier body was given up, and
// then only hashes are compared.
type comparison struct {
	a, b   *request
	ta, tb *tape.Tape
	rule   *Rule
	narrow schema.Rules

	flow    Label // Append, Rewind, Fork, Retry, or "" for a break in the history
	changes []change
}

func (c *comparison) rank(l layer) int {
	for i, name := range c.rule.Order {
		if name == l.String() {
			return [...]int{rankFirst, rankSecond, rankHistory}[i]
		}
	}
	return rankHistory
}

// levels lists the layers that are lost with layer l.
func (c *comparison) levels(l layer) []string {
	if l == messagesLayer {
		return []string{"messages"}
	}
	i := slices.Index(c.rule.Order[:], l.String())
	if c.rule.Head {
		i = 0
	}
	return c.rule.Order[i:]
}

func (c *comparison) add(ch change) {
	if ch.level == nil {
		ch.level = c.levels(ch.layer)
	}
	if ch.rank == 0 && ch.label != ParamModel {
		ch.rank = c.rank(ch.layer)
	}
	c.changes = append(c.changes, ch)
}

// run compares the pair and sorts what it found.
func (c *comparison) run() {
	c.params()
	c.tools()
	c.system()
	c.history()
	slices.SortStableFunc(c.changes, func(x, y change) int { return x.rank - y.rank })
}

// text is the text of a block, "" when it has none or its body is gone.
func text(t *tape.Tape, b *piece) string {
	if t == nil {
		return ""
	}
	n := int(b.node)
	if t.Kind(n) == tape.Object {
		n = t.Get(n, "text")
	}
	return t.Str(n)
}

// firstDiff is the first index at which the token forms differ, or the length
// of the shorter list.
func firstDiff(a, b []piece) int {
	i := 0
	for i < len(a) && i < len(b) && a[i].token == b[i].token {
		i++
	}
	return i
}

// sameBag reports whether two lists hold the same blocks, in any order.
func sameBag(a, b []piece, of func(*piece) sum) bool {
	if len(a) != len(b) {
		return false
	}
	n := map[sum]int{}
	for i := range a {
		n[of(&a[i])]++
	}
	for i := range b {
		if n[of(&b[i])]--; n[of(&b[i])] < 0 {
			return false
		}
	}
	return true
}

func canonOf(b *piece) sum { return b.canon }

// params compares what is not in the layers. Where a parameter stands in the
// order of rendering, and what it takes along, is the provider's.
func (c *comparison) params() {
	if c.a.model != c.b.model && c.a.model != "" && c.b.model != "" {
		nodeA := -1
		if c.ta != nil {
			nodeA = first(c.ta, 0, "model", "modelId")
		}
		c.add(change{label: ParamModel, conf: Proved, level: c.rule.Order[:], blockA: -1, blockB: -1, nodeA: nodeA, nodeB: first(c.tb, 0, "model", "modelId"),
			name: "model", detail: clip(c.a.model, 40) + " → " + clip(c.b.model, 40)})
	}
	all := c.rule.Order[:]
	seen := map[string]bool{}
	for _, list := range [][]param{c.a.params, c.b.params} {
		for _, p := range list {
			if seen[p.name] {
				continue
			}
			seen[p.name] = true
			x, y := c.a.param(p.name), c.b.param(p.name)
			if x.sum == y.sum {
				continue
			}
			ch := change{label: p.label, conf: Proved, layer: messagesLayer, blockA: -1, blockB: -1, nodeA: x.node, nodeB: y.node, name: p.name, detail: p.name + ": " + show(x) + " → " + show(y)}
			switch c.rule.Provider {
			case "anthropic", "vertex", "bedrock":
				switch p.label {
				case ParamTier, ParamCacheKey:
					continue // no part of the prompt
				case ParamSpeed, ParamToggles:
					ch.rank, ch.level = rankFirst+1, []string{"system", "messages"}
				case ParamBetas, ParamFormat:
					ch.rank, ch.level, ch.conf = rankMessages, []string{"messages"}, Inferred
				default:
					ch.rank, ch.level = rankMessages, []string{"messages"}
				}
			case "openai":
				switch p.label {
				case ParamToolChoice:
					continue // named as the way to forbid a call without moving the prefix
				case ParamTier:
					ch.conf = Inferred
				case ParamCacheKey:
					if c.rule.Lookup != LookupEndpoints {
						ch.conf = Inferred // steers routing only
					}
				}
				ch.rank, ch.level = rankHead, all
			case "deepseek":
				switch p.label {
				case ParamToolChoice, ParamParallel, ParamTier, ParamCacheKey:
					continue
				}
				ch.rank, ch.level, ch.conf = rankMessages, []string{"messages"}, Inferred
			default:
				switch p.label {
				case ParamToolChoice, ParamParallel, ParamTier:
					continue
				}
				ch.rank, ch.level, ch.conf = rankHead, all, Inferred
			}
			c.add(ch)
		}
	}
}

func (q *request) param(name string) param {
	for _, p := range q.params {
		if p.name == name {
			return p
		}
	}
	return param{node: -1}
}

func show(p param) string {
	switch {
	case p.sum == (sum{}):
		return "absent"
	case p.value == "":
		return "other value"
	}
	return strings.ToValidUTF8(p.value, "")
}
