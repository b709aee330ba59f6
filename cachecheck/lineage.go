package cachecheck

import (
	"container/list"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// A lineage is a run of requests of which each continues the one before. Which
// request a new one continues is decided in this order of trust: a response id
// that it names, the session that headers or body name, the prompt_cache_key,
// the credential. Within those the messages decide, by the tiers below, since a
// session has title requests, sub-agents and branches beside its conversation.
// A pair across sessions, models or credentials needs the whole earlier history
// as a prefix, with words of the model in it.
//
// Branches, retries and side requests are lineages of their own, with a parent:
// what they were split from goes on unharmed.

// LineageKind says how a lineage began.
type LineageKind string

// The kinds of lineages.
const (
	MainLineage  LineageKind = "main"
	AgentLineage LineageKind = "agent" // a sub-agent, by its headers
	SideLineage  LineageKind = "side"  // a short request beside a conversation: titles, summaries, classifiers
	ForkLineage  LineageKind = "fork"  // a branch
	RetryLineage LineageKind = "retry" // one request, sent again
)

type lineage struct {
	id, parent int
	kind       LineageKind
	session    string
	group      string
	last       *request
	turns      []Turn
	used       int // the request that used it last
	dropped    bool
	place      *list.Element // among the live ones, the oldest first
}

// Turn is the usage of one request of a lineage, for the spark line.
type Turn struct {
	N     int
	Usage Usage
	Label Label
	Waste Waste
}

// Tiers of likeness. From tierLike on a request counts as a continuation.
const (
	tierNone   = iota
	tierDigest // the same head, and a summary where the history was
	tierLike   // the first messages are alike
	tierShared // words of the model, or call ids, are in both
	tierPrefix // the first messages are equal
	tierNamed  // by response id
)

// likeness compares a request with the last one of a lineage.
func (c *Checker) likeness(q *request, l *lineage) (tier, prefix int) {
	a := l.last
	for prefix < len(a.msgs) && prefix < len(q.msgs) && a.msgs[prefix].strip == q.msgs[prefix].strip {
		prefix++
	}
	answered := q.turn() > 0
	if q.session == "" && prefix < min(len(a.msgs), len(q.msgs)) && len(q.msgs) <= len(a.msgs) &&
		a.msgs[prefix].role == "assistant" && q.msgs[prefix].role == "assistant" && !c.shares(a, a.msgs[prefix].from) {
		// The model said something else, and nothing was added: another
		// conversation that began alike.
		return tierNone, 0
	}
	switch {
	case prefix == len(a.msgs) && answered, prefix > 1:
		return tierPrefix, prefix
	case prefix > 0:
		// One equal message may be a common opening: the head must be alike
		// too.
		if !c.headAlike(a, q) {
			return tierNone, 0
		}
		return tierPrefix, prefix
	}
	if c.shares(a, a.messages) {
		return tierShared, 0
	}
	if answered && c.headAlike(a, q) && c.firstAlike(a, q) {
		return tierLike, 0
	}
	if 2*len(q.msgs) <= len(a.msgs) && len(a.msgs) >= 4 && c.headAlike(a, q) && c.digest(q) {
		return tierDigest, 0
	}
	return tierNone, 0
}

// remember notes the words of the model and the call ids of a request, which
// is compared with many lineages.
func (c *Checker) remember(q *request) {
	clear(c.words)
	clear(c.ids)
	for i := q.messages; i < len(q.blocks); i++ {
		b := &q.blocks[i]
		if b.to-b.from >= 24 && q.role(b) == "assistant" {
			c.words[b.strip] = true
		}
		if b.id != "" {
			c.ids[b.id] = true
		}
	}
}

// shares reports whether a, from a block on, has words of the model or call ids
// of the request that was remembered.
func (c *Checker) shares(a *request, from int) bool {
	if len(c.words)+len(c.ids) == 0 {
		return false
	}
	for i := from; i < len(a.blocks); i++ {
		b := &a.blocks[i]
		if b.id != "" && c.ids[b.id] || b.to-b.from >= 24 && c.words[b.strip] && a.role(b) == "assistant" {
			return true
		}
	}
	return false
}

// headAlike reports whether tools and system text are mostly the same.
func (c *Checker) headAlike(a, b *request) bool {
	same := func(x, y []piece) (n int) {
		have := map[sum]int{}
		for i := range x {
			have[x[i].strip]++
		}
		for i := range y {
			if have[y[i].strip]--; have[y[i].strip] >= 0 {
				n++
			}
		}
		return n
	}
	ta, tb := a.tools(), b.tools()
	toolsAlike := len(ta) == 0 && len(tb) == 0 || 2*same(ta, tb) >= max(1, min(len(ta), len(tb)))
	if !toolsAlike && len(ta) > 0 && len(tb) > 0 {
		// By name: all schemas may have been edited at once.
		na, n := names(ta), 0
		for i := range tb {
			if na[tb[i].name] > 0 {
				n++
			}
		}
		toolsAlike = 2*n >= min(len(ta), len(tb))
	}
	sa, sb := a.sys(), b.sys()
	if len(sa) == 0 || len(sb) == 0 {
		return toolsAlike && (len(sa) == len(sb) || len(ta) > 0 && len(tb) > 0)
	}
	if same(sa, sb) > 0 {
		return toolsAlike || len(sa) == same(sa, sb)
	}
	// The system text as a whole may have changed a little.
	if a.body == nil || b.body == nil {
		return toolsAlike && len(ta) > 0
	}
	x, y := a.extent(sa), b.extent(sb)
	p := commonPrefix(x, y)
	s := commonSuffix(x[p:], y[p:])
	return toolsAlike && (len(ta) > 0 && len(tb) > 0 || 2*(p+s) >= min(len(x), len(y)))
}

// firstAlike reports whether the first messages share a part, or most of their
// text.
func (c *Checker) firstAlike(a, b *request) bool {
	ma, mb := a.msgs[0], b.msgs[0]
	if ma.role != mb.role {
		return false
	}
	for i := ma.from; i < ma.to; i++ {
		for k := mb.from; k < mb.to; k++ {
			if a.blocks[i].strip == b.blocks[k].strip {
				return true
			}
		}
	}
	if a.body == nil || b.body == nil {
		return false
	}
	x, y := a.extent(a.blocks[ma.from:ma.to]), b.extent(b.blocks[mb.from:mb.to])
	p := commonPrefix(x, y)
	s := commonSuffix(x[p:], y[p:])
	return p+s >= 16 && 2*(p+s) >= min(len(x), len(y))
}

// digest reports whether a request begins with a summary of a conversation.
func (c *Checker) digest(q *request) bool {
	for k := 0; k < min(2, len(q.msgs)); k++ {
		m := q.msgs[k]
		for i := m.from; i < m.to; i++ {
			if q.blocks[i].kind != textBlock {
				continue
			}
			s := text(&c.lay.t, &q.blocks[i])
			s = strings.ToLower(s[:min(len(s), 2000)])
			if strings.Contains(s, "summar") || strings.Contains(s, "compact") || strings.Contains(s, "continued from") {
				return true
			}
		}
	}
	return false
}

// find returns the lineage that q continues, and why it is thought so.
func (c *Checker) find(q *request) (l *lineage, how string) {
	if l := c.byResponse[q.prevID]; q.prevID != "" && l != nil && !l.dropped {
		return l, "response_id"
	}
	c.remember(q)
	best, bestPrefix := tierNone, 0
	consider := func(x *lineage, least int, why string) {
		if x.dropped || x.last.dialect != q.dialect {
			return
		}
		tier, prefix := c.likeness(q, x)
		if tier < least {
			return
		}
		better := tier > best || tier == best && prefix > bestPrefix
		if tier == best && prefix == bestPrefix && l != nil {
			whole, wasWhole := prefix == len(x.last.msgs), prefix == len(l.last.msgs)
			better = whole && !wasWhole || whole == wasWhole && x.used > l.used
		}
		if l == nil || better {
			l, best, bestPrefix, how = x, tier, prefix, why
		}
	}
	group := c.groups[c.groupOf(q)]
	least := tierDigest
	why := "session"
	switch {
	case q.session == "" && q.cacheKey != "":
		why = "prompt_cache_key"
	case q.session == "":
		why = "prefix"
	}
	candidates := latest(group)
	if q.turn() == 0 && !c.digest(q) {
		// Without words of the model, only an equal beginning says anything.
		candidates = nil
		for _, x := range latest(c.byFirst[q.msgs[0].strip]) {
			if x.group == c.groupOf(q) {
				candidates = append(candidates, x)
			}
		}
	}
	for _, x := range candidates {
		if why == "prefix" && (x.last.model != q.model) {
			// Another model and nothing that names a session: below.
			continue
		}
		consider(x, least, why)
	}
	if l != nil && best >= tierShared {
		return l, how
	}
	// Across sessions, models, credentials.
	if len(q.msgs) > 0 && q.turn() > 0 {
		for _, x := range latest(c.byFirst[q.msgs[0].strip]) {
			if x.dropped || x.last.dialect != q.dialect || x.last.scope != q.scope {
				continue
			}
			n := len(x.last.msgs)
			if n <= len(q.msgs) && (x.last.turn() > 0 || x.last.model == q.model) {
				if tier, prefix := c.likeness(q, x); tier == tierPrefix && prefix == n {
					if x.group != c.groupOf(q) && x.last.agent() != q.agent() {
						continue
					}
					consider(x, tierPrefix, "prefix")
				}
			}
		}
	}
	return l, how
}

// maxCandidates is how many lineages a request is compared with.
const maxCandidates = 256

// latest are those that began last.
func latest(l []*lineage) []*lineage { return l[max(0, len(l)-maxCandidates):] }

func (q *request) agent() string {
	_, a, _ := strings.Cut(q.session, "\x00")
	return a
}

// groupOf is where a request's lineage is looked for first.
func (c *Checker) groupOf(q *request) string {
	switch {
	case q.session != "":
		return "s\x00" + q.session
	case q.cacheKey != "":
		return "k\x00" + q.cacheKey
	}
	return "c\x00" + q.scope + "\x00" + q.credential
}

// side reports whether q looks like a request beside a conversation: one turn,
// and no tools or another head than the conversations of its session have.
func (c *Checker) side(q *request) bool {
	return q.turn() == 0 && len(q.tools()) == 0 && len(c.groups[c.groupOf(q)]) > 0
}

// diagnostic is what a provider said of its cache.
type diagnostic struct{ vendor, word string }

// diagnose reads a vendor's own diagnostics. Sources: Anthropic "Cache
// diagnostics", OpenAI "Prompt caching: diagnostics".
func (c *Checker) diagnose(raw []byte) (d diagnostic, ok bool) {
	var t tape.Tape
	if len(raw) == 0 || t.ParseRepeats(raw) != nil || t.Kind(0) != tape.Object {
		return d, false
	}
	if r := t.Get(0, "cache_miss_reason"); r >= 0 {
		d.vendor, d.word = "anthropic", "none"
		if t.Kind(r) == tape.Object {
			d.word = clip(t.Str(t.Get(r, "type")), 60)
		}
		return d, true
	}
	if typ := t.Str(t.Get(0, "type")); typ != "" {
		d.vendor, d.word = "openai", clip(typ, 60)
		if r := t.Str(t.Get(0, "reason")); r != "" {
			d.word = clip(r, 60)
		}
		return d, true
	}
	return d, false
}

// wordFor is what a vendor calls a label; "" when it has no word for it.
func wordFor(vendor string, l Label) string {
	s := string(l)
	has := func(p string) bool { return strings.HasPrefix(s, p) }
	if vendor == "anthropic" {
		switch {
		case l == ParamModel:
			return "model_changed"
		case has("tools."):
			return "tools_changed"
		case has("system."):
			return "system_changed"
		case has("history."):
			return "messages_changed"
		case has("param."):
			return "unavailable"
		case !l.Info().Break:
			return "none"
		}
		return ""
	}
	switch {
	case l == ParamModel:
		return "model_changed"
	case l == ParamCacheKey:
		return "prompt_cache_key_changed"
	case l == ParamTier:
		return "service_tier_changed"
	case l == ParamFormat:
		return "text_format_changed"
	case l == ParamEffort:
		return "reasoning_effort_changed"
	case l == ParamVerbosity:
		return "verbosity_changed"
	case l == HistoryCompaction:
		return "context_compacted"
	case has("tools."):
		return "tools_changed"
	case has("system."), has("history."), l == EndpointExtended:
		return "input_changed"
	case !l.Info().Break:
		return "cache_hit"
	}
	return ""
}
