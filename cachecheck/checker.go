package cachecheck

import (
	"container/list"
	"fmt"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/schema"
)

// Options of a Checker. The zero value is ready.
type Options struct {
	// Retain is how many bytes of earlier requests are kept for comparing, in
	// all lineages together; 0 means 96 MiB. Of what is given up, hashes stay
	// for a while: then a change is found, and not shown.
	Retain int
	// Planned lists changes that somebody meant to make.
	Planned []Plan
	// Rules are guardproxy's own narrowing, so that its effect is recognised.
	// Nil stands for the built-in table.
	Rules *schema.Rules
}

// Plan is a change that was meant.
type Plan struct {
	// Label is a label, or a group of them like "tools.*".
	Label string
	// Session, File and Request narrow it down; empty and 0 mean any.
	Session string
	File    string
	Request int
	Reason  string
}

func (p *Plan) covers(l Label, session, file string, n int) bool {
	group, all := strings.CutSuffix(p.Label, "*")
	return (string(l) == p.Label || all && strings.HasPrefix(string(l), group)) &&
		(p.Session == "" || p.Session == session) && (p.File == "" || p.File == file || strings.HasSuffix(file, "/"+p.File)) && (p.Request == 0 || p.Request == n)
}

// Result is what was found for one request: one object of --json.
type Result struct {
	// N counts the exchanges from 1; File and Line say where it stands.
	N     int    `json:"n"`
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Entry int    `json:"entry,omitempty"`

	Odd  Odd    `json:"odd,omitempty"`
	Note string `json:"note,omitempty"`

	Session  string      `json:"session,omitempty"`
	Lineage  int         `json:"lineage,omitempty"`
	Kind     LineageKind `json:"lineage_kind,omitempty"`
	Parent   int         `json:"parent,omitempty"`
	Previous int         `json:"previous,omitempty"` // the request it was compared with
	Paired   string      `json:"paired,omitempty"`   // by what

	Dialect  string `json:"dialect,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Bytes    int    `json:"bytes,omitempty"`
	Messages int    `json:"messages,omitempty"`

	// Label is the cause, or how the request lies to the earlier one; Labels
	// begins with it and has everything else that holds.
	Label      Label      `json:"label"`
	Labels     []Label    `json:"labels"`
	Confidence Confidence `json:"confidence"`
	Waste      Waste      `json:"waste"`
	Break      bool       `json:"break"`
	Planned    string     `json:"planned,omitempty"` // the reason
	Detail     string     `json:"detail,omitempty"`
	// Layer is the first layer that is lost, Lost all that go with it.
	Layer string   `json:"layer,omitempty"`
	Lost  []string `json:"lost,omitempty"`
	Spot  *Spot    `json:"spot,omitempty"`
	Also  []Other  `json:"also,omitempty"`

	Usage *Usage `json:"usage,omitempty"`
	// Observed is what the counters say: hit, partial, miss or unreported.
	Observed string       `json:"observed,omitempty"`
	Expected *Expectation `json:"expected,omitempty"`
	// LostTokens is what had to be processed anew because of the break.
	LostTokens *Figure `json:"lost_tokens,omitempty"`
	Cost       *Cost   `json:"cost,omitempty"`
	Vendor     *Vendor `json:"vendor,omitempty"`
	Layers     *Layers `json:"layers,omitempty"`
}

// Other is something that differs besides the cause.
type Other struct {
	Label   Label  `json:"label"`
	Pointer string `json:"pointer,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// Cost is what lost tokens cost more than a read would have. Unit is "usd", or
// "input tokens": so many tokens at the price of uncached input.
type Cost struct {
	Amount float64 `json:"amount"`
	Unit   string  `json:"unit"`
	Date   string  `json:"price_date"`
	Source string  `json:"price_source"`
}

// Vendor is what the provider says itself, beside what we say.
type Vendor struct {
	Vendor    string `json:"vendor"`
	Word      string `json:"word"`
	Ours      string `json:"ours,omitempty"`
	Agreement string `json:"agreement"` // agrees, disagrees, or silent: nothing to compare
}

// Layers are hashes of the three layers, equal when the layers are.
type Layers struct {
	Tools    string `json:"tools"`
	System   string `json:"system"`
	Messages string `json:"messages"`
}

// Checker takes exchanges in the order in which they were sent, per session. It
// is not safe for concurrent use.
type Checker struct {
	opts   Options
	narrow schema.Rules
	lay    layouter
	client layouter
	before tape.Tape

	n          int
	groups     map[string][]*lineage
	byFirst    map[sum][]*lineage
	byResponse map[string]*lineage
	heads      map[sum]*flight
	live       *list.List // of *lineage, the one used longest ago first
	all        []*lineage // in the order in which they began; nil for one that nobody will ask for
	words      map[sum]bool
	ids        map[string]bool
	kept       int
	spare      []*request

	sum Summary
}

// flight is the last request with a head, for those that start beside it.
type flight struct {
	n                int
	start, firstByte int64
}

// New returns a Checker that has seen nothing.
func New(o Options) *Checker {
	if o.Retain == 0 {
		o.Retain = 96 << 20
	}
	c := &Checker{opts: o, groups: map[string][]*lineage{}, byFirst: map[sum][]*lineage{}, byResponse: map[string]*lineage{}, heads: map[sum]*flight{},
		live: list.New(), words: map[sum]bool{}, ids: map[string]bool{}}
	c.lay.h, c.client.h = newHasher(), newHasher()
	if o.Rules != nil {
		c.narrow = *o.Rules
	} else {
		c.narrow = agents.Builtin().Rules(nil)
	}
	c.sum.Labels, c.sum.Odd, c.sum.Planned = map[Label]int{}, map[Odd]int{}, make([]int, len(o.Planned))
	return c
}

// Add compares the next exchange. It keeps nothing of x.
func (c *Checker) Add(x *Exchange) Result {
	c.n++
	res := Result{N: c.n, File: x.File, Line: x.Line, Entry: x.Entry, Odd: x.Odd, Note: x.Note, Label: OddBody, Confidence: Proved, Waste: WasteNo}
	c.sum.Requests++
	c.sum.Bytes += int64(len(x.Body))
	q := c.fresh()
	if res.Odd == "" {
		res.Odd, res.Note = c.layOut(q, x)
	}
	if res.Odd == OddFailed && x.Status == 400 {
		c.refused(q, &res)
	}
	if res.Odd != "" {
		c.spare = append(c.spare, q)
		res.Labels = append(res.Labels, OddBody)
		res.Dialect, res.Model = q.dialect, q.model
		c.sum.skip(&res)
		return res
	}
	res.Session, res.Dialect, res.Provider, res.Model = clip(strings.ReplaceAll(q.session, "\x00", "/"), 80), q.dialect, q.rule.Provider, clip(q.model, 80)
	res.Bytes, res.Messages = q.size, len(q.msgs)
	res.Layers = c.layers(q)
	if q.usage.Counted || q.usage.Reported {
		u := q.usage
		res.Usage = &u
	}
	l, how := c.find(q)
	if l == nil {
		c.first(q, &res, x)
	} else {
		c.pair(q, l, how, &res, x)
	}
	c.sum.count(&res)
	return res
}

// fresh is a request whose memory can be used.
func (c *Checker) fresh() *request {
	if n := len(c.spare); n > 0 {
		q := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return q
	}
	return &request{}
}

// layOut reads an exchange into q.
func (c *Checker) layOut(q *request, x *Exchange) (Odd, string) {
	path, _, _ := strings.Cut(strings.ToLower(x.Path), "?")
	odd, note := c.lay.read(q, x.Body, x.Dialect, x.Path)
	if odd != "" {
		return odd, note
	}
	if strings.HasSuffix(strings.TrimRight(path, "/"), "count_tokens") {
		return OddCount, ""
	}
	if x.Status >= 400 {
		return OddFailed, fmt.Sprintf("status %d", x.Status)
	}
	q.n, q.file, q.start, q.firstByte = c.n, x.File, x.Start, x.FirstByte
	q.scope = x.Scope
	q.credential, q.host, q.upstream, q.respID, q.usage, q.lossy = x.Credential, x.Host, x.Upstream, x.ResponseID, x.Usage, x.Lossy
	if x.Session != "" {
		q.session = x.Session
	}
	if x.Agent != "" && x.Agent != q.session {
		q.session += "\x00" + x.Agent
	}
	if x.Betas != "" {
		q.setParam(ParamBetas, "betas", normalList(x.Betas))
	}
	q.rule = findRule(q.dialect, x.Host, x.Path, q.model)
	q.provider = q.rule.Provider
	q.clientTools = nil
	if x.Client != nil {
		var cq request
		if odd, _ := c.client.read(&cq, x.Client, q.dialect, x.Path); odd == "" {
			q.clientTools = toolSums(cq.tools())
		}
	}
	return "", ""
}

// refused finds out whether a request was refused for its markers.
func (c *Checker) refused(q *request, res *Result) {
	q.rule = findRule(q.dialect, "", "", q.model)
	for _, ch := range static(q, q.rule) {
		if ch.label == BreakpointBudget || ch.label == BreakpointOrder {
			res.Label, res.Detail, res.Break, res.Waste = ch.label, ch.detail, true, ch.label.Info().Waste
			res.Labels = append(res.Labels, ch.label)
			return
		}
	}
}

// normalList sorts a header's list: its order says nothing.
func normalList(s string) string {
	var out []string
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

func (c *Checker) layers(q *request) *Layers {
	hash := func(l []piece) string {
		buf := c.lay.h.buf[:0]
		for i := range l {
			buf = append(buf, l[i].token[:]...)
		}
		c.lay.h.buf = buf
		return sumOf(buf).String()
	}
	return &Layers{hash(q.tools()), hash(q.sys()), hash(q.history())}
}

// first begins a lineage.
func (c *Checker) first(q *request, res *Result, x *Exchange) {
	kind := MainLineage
	switch {
	case x.Agent != "" && x.Agent != x.Session:
		kind = AgentLineage
	case c.side(q):
		kind = SideLineage
	}
	l := c.begin(q, kind, 0)
	c.place(res, l)
	res.Label, res.Waste, res.Confidence = First, WasteNo, Proved
	res.Labels = []Label{First}
	// Nothing to compare with, but a request with the same head may be on its
	// way already: neither reads what the other writes.
	head := headSum(q)
	if f := c.heads[head]; f != nil && q.start > 0 && f.start > 0 && q.messages > 0 && !(q.usage.Reported && q.usage.Read > 0) {
		// Recordings list requests as they ended, so that either of the two
		// may have been the first.
		beside := ""
		switch {
		case q.start >= f.start && q.start < f.firstByte:
			beside = fmt.Sprintf("sent %d ms before request %d was answered, with the same tools and system text", (f.firstByte-q.start)/1e6, f.n)
		case q.start < f.start && f.start < q.firstByte:
			beside = fmt.Sprintf("request %d was sent %d ms before this one was answered, with the same tools and system text", f.n, (q.firstByte-f.start)/1e6)
		}
		if beside != "" {
			res.Label, res.Labels, res.Confidence = ColdParallel, []Label{ColdParallel, First}, Inferred
			res.Break, res.Waste, res.Previous, res.Detail = true, WasteMaybe, f.n, beside
		}
	}
	c.tail(q, nil, res, static(q, q.rule), x)
	c.commit(q, l, res)
}

func headSum(q *request) sum {
	var sums []sum
	for i := range q.blocks[:q.messages] {
		sums = append(sums, q.blocks[i].token)
	}
	return fold(append(sums, idSum(q.model))...)
}

func (c *Checker) begin(q *request, kind LineageKind, parent int) *lineage {
	l := &lineage{id: len(c.all) + 1, parent: parent, kind: kind, session: q.session, group: c.groupOf(q)}
	c.all = append(c.all, l)
	return l
}

func (c *Checker) place(res *Result, l *lineage) {
	res.Lineage, res.Kind, res.Parent = l.id, l.kind, l.parent
}

// commit makes q the last request of l.
func (c *Checker) commit(q *request, l *lineage, res *Result) {
	l.turns = append(l.turns, Turn{res.N, q.usage, res.Label, res.Waste})
	if f := c.heads; len(f) > 1<<14 {
		clear(f)
	}
	c.heads[headSum(q)] = &flight{c.n, q.start, q.firstByte}
	if l.kind == RetryLineage {
		c.spare = append(c.spare, q)
		return
	}
	old := l.last
	var room []byte
	if old != nil {
		c.kept -= weigh(old)
		if cap(old.body) < 2*len(q.body)+1<<16 {
			room = old.body[:0] // the new one takes the place of the old one
		}
		old.body = nil
	}
	q.body = append(room, q.body...)
	c.kept += weigh(q)
	l.last, l.used = q, c.n
	if old == nil {
		l.place = c.live.PushBack(l)
		c.groups[l.group] = append(c.groups[l.group], l)
		c.byFirst[q.msgs[0].strip] = append(c.byFirst[q.msgs[0].strip], l)
	} else {
		c.live.MoveToBack(l.place)
		if old.msgs[0].strip != q.msgs[0].strip {
			c.byFirst[old.msgs[0].strip] = without(c.byFirst[old.msgs[0].strip], l)
			c.byFirst[q.msgs[0].strip] = append(c.byFirst[q.msgs[0].strip], l)
		}
		c.spare = append(c.spare, old)
	}
	if q.respID != "" {
		if len(c.byResponse) > 1<<16 {
			clear(c.byResponse)
		}
		c.byResponse[q.respID] = l
	}
	c.shrink()
}

// weigh is what a kept request takes, about.
func weigh(q *request) int { return cap(q.body) + len(q.blocks)*blockBytes + 2048 }

const blockBytes = 200

// shrink gives up the bodies of the lineages that were used longest ago, and
// when their turn comes again, those lineages.
func (c *Checker) shrink() {
	for c.kept > c.opts.Retain && c.live.Len() > 1 {
		l := c.live.Front().Value.(*lineage)
		if len(l.last.body) > 4<<10 {
			c.kept -= cap(l.last.body)
			l.last.body = nil
			c.live.MoveToBack(l.place)
			c.sum.Forgotten++
			continue
		}
		c.drop(l)
	}
}

// drop forgets a lineage but for its spark line.
func (c *Checker) drop(l *lineage) {
	c.kept -= weigh(l.last)
	first := l.last.msgs[0].strip
	if c.byFirst[first] = without(c.byFirst[first], l); len(c.byFirst[first]) == 0 {
		delete(c.byFirst, first)
	}
	if c.groups[l.group] = without(c.groups[l.group], l); len(c.groups[l.group]) == 0 {
		delete(c.groups, l.group)
	}
	c.live.Remove(l.place)
	c.spare = append(c.spare, l.last)
	if len(c.spare) > 8 {
		c.spare = c.spare[:8]
	}
	l.dropped, l.last = true, nil
	if len(l.turns) < 2 {
		c.all[l.id-1] = nil
	}
}

// without takes l out of a list. The one used longest ago mostly stands first.
func without(list []*lineage, l *lineage) []*lineage {
	switch i := slices.Index(list, l); {
	case i < 0:
		return list
	case i == 0:
		return list[1:]
	default:
		return slices.Delete(list, i, i+1)
	}
}

// pair compares q with the last request of l.
func (c *Checker) pair(q *request, l *lineage, how string, res *Result, x *Exchange) {
	a := l.last
	cmp := &comparison{a: a, b: q, tb: &c.lay.t, rule: q.rule, narrow: c.narrow}
	same := len(a.blocks) == len(q.blocks) && len(a.msgs) == len(q.msgs)
	if a.body != nil && c.parts(a, q) {
		if c.before.ParseRepeats(a.body) == nil {
			cmp.ta = &c.before
		}
	}
	cmp.run()
	c.scope(cmp)
	res.Previous, res.Paired = a.n, how
	switch {
	case cmp.flow == Fork && len(cmp.changes) == 0:
		// Another branch: what it left goes on by itself.
		l = c.begin(q, ForkLineage, l.id)
	case cmp.flow == Retry && len(cmp.changes) == 0 && same:
		l = c.begin(q, RetryLineage, l.id)
	case cmp.flow == Fork && q.turn() == 0 && len(a.msgs) > 0 && a.turn() > 0:
		l = c.begin(q, ForkLineage, l.id)
	}
	c.place(res, l)
	c.judge(cmp, res)
	c.tail(q, cmp, res, static(q, q.rule), x)
	c.commit(q, l, res)
}

// parts reports whether anything but growth tells q from a.
func (c *Checker) parts(a, q *request) bool {
	if firstDiff(a.tools(), q.tools()) < max(len(a.tools()), len(q.tools())) || firstDiff(a.sys(), q.sys()) < max(len(a.sys()), len(q.sys())) {
		return true
	}
	if a.model != q.model || len(a.params) != len(q.params) {
		return true
	}
	for i := range a.params {
		if a.params[i].name != q.params[i].name || a.params[i].sum != q.params[i].sum {
			return true
		}
	}
	return firstDiff(a.history(), q.history()) < len(a.history())
}

// scope finds what makes it another cache altogether.
func (c *Checker) scope(cmp *comparison) {
	a, b := cmp.a, cmp.b
	what := ""
	switch {
	case a.credential != b.credential && a.credential != "" && b.credential != "":
		what = "another credential"
	case a.host != b.host && a.host != "" && b.host != "":
		what = "host " + clip(a.host, 60) + " → " + clip(b.host, 60)
	case a.upstream != b.upstream && a.upstream != "" && b.upstream != "":
		what = "upstream " + clip(a.upstream, 40) + " → " + clip(b.upstream, 40)
	default:
		return
	}
	cmp.changes = append([]change{{label: ScopeChanged, conf: Proved, level: cmp.rule.Order[:], blockA: -1, blockB: -1, nodeA: -1, nodeB: -1, detail: what}}, cmp.changes...)
}

// judge names the cause of a pair.
func (c *Checker) judge(cmp *comparison, res *Result) {
	a, b := cmp.a, cmp.b
	mark := a.lastMark()
	for i := range cmp.changes {
		ch := &cmp.changes[i]
		if cmp.rule.Lookup == LookupMarkers && a.marks() > 0 && ch.layer == messagesLayer && ch.rank == rankHistory {
			at := ch.blockA
			if at < 0 {
				at = len(a.blocks)
			}
			ch.free = at > mark
		}
	}
	// A change behind the last marker costs nothing, so that it is no cause
	// when there is another.
	slices.SortStableFunc(cmp.changes, func(x, y change) int {
		if x.free != y.free {
			if x.free {
				return 1
			}
			return -1
		}
		return 0
	})
	all := cmp.changes
	if len(all) == 0 || all[0].free {
		all = append(cmp.markers(), all...)
		if all = slices.DeleteFunc(all, func(ch change) bool { return ch.label == BreakpointNone && c.tiny(cmp) }); len(all) == 0 {
			all = nil
		}
	}
	if len(all) > 0 && !all[0].free {
		all = c.onVolatile(cmp, all)
	}
	if len(all) == 0 || all[0].free {
		if t, ok := c.timing(cmp); ok {
			all = append([]change{t}, all...)
		}
	}
	hit := c.observe(cmp, res)
	// What can't be seen in the bodies must be seen in the counters, and these
	// say that there was no miss.
	if hit {
		all = slices.DeleteFunc(all, func(ch change) bool {
			return ch.label == TTLExpired || ch.label == ColdParallel || ch.label == BreakpointNone || ch.label == BreakpointDropped || ch.label == BreakpointLookback
		})
	}
	if len(all) == 0 {
		res.Label, res.Confidence = cmp.flow, Proved
		if detail := c.wireOnly(cmp); detail != "" {
			res.Label, res.Detail = WireOnly, detail
		}
		if m, ok := c.tooShort(cmp, res); ok {
			all = append(all, m)
		} else if res.Observed == "miss" || res.Observed == "partial" {
			res.Label, res.Confidence = ProviderMiss, Unknown
			res.Detail = fmt.Sprintf("%s tokens were read where %s were stored", thousands(b.usage.Read), thousands(res.Expected.Read.Tokens))
			if f := lostReported(res, b); f != nil {
				res.LostTokens = f
			}
		}
	}
	if len(all) > 0 {
		c.cause(cmp, all, res)
	} else {
		res.Labels = []Label{res.Label}
		if res.Label == WireOnly || res.Label == ProviderMiss {
			res.Labels = append(res.Labels, cmp.flow)
		}
		res.Break, res.Waste = res.Label.Info().Break, res.Label.Info().Waste
	}
}

// cause fills in the first change and what else differs.
func (c *Checker) cause(cmp *comparison, all []change, res *Result) {
	b := cmp.b
	ch := all[0]
	info := ch.label.Info()
	res.Label, res.Confidence, res.Detail = ch.label, ch.conf, ch.detail
	res.Break, res.Waste = info.Break, info.Waste
	if len(ch.level) > 0 {
		res.Layer, res.Lost = ch.level[0], ch.level
	}
	if ch.rank < rankOther && (ch.blockA >= 0 || ch.blockB >= 0 || ch.nodeA >= 0 || ch.nodeB >= 0) {
		res.Spot = c.spot(cmp, &ch)
	}
	res.Labels = []Label{ch.label}
	for _, o := range all[1:] {
		if !slices.Contains(res.Labels, o.label) {
			res.Labels = append(res.Labels, o.label)
		}
		p := ""
		if o.nodeB >= 0 && cmp.tb != nil {
			p = pointer(cmp.tb, o.nodeB)
		}
		res.Also = append(res.Also, Other{o.label, p, o.detail})
	}
	if cmp.flow != "" && !slices.Contains(res.Labels, cmp.flow) {
		res.Labels = append(res.Labels, cmp.flow)
	}
	if ch.free {
		res.Waste, res.Break, res.Lost, res.Layer = WasteNo, false, nil, ""
		res.Detail += "; behind the last marker, where nothing was stored"
		return
	}
	if !info.Break {
		return
	}
	c.losses(cmp, &ch, res)
	if c.gap(cmp, &ch, res) {
		res.Also = append([]Other{{ch.label, "", ch.detail}}, res.Also...)
		res.Labels = append([]Label{ModelGap}, res.Labels...)
		res.Label, res.Confidence, res.Break, res.Waste = ModelGap, Unknown, false, WasteNo
		res.Detail = fmt.Sprintf("%s was expected to miss, and %s tokens were read", ch.label, thousands(b.usage.Read))
		res.LostTokens, res.Cost = nil, nil
		return
	}
	for i := range c.opts.Planned {
		if p := &c.opts.Planned[i]; p.covers(res.Label, res.Session, res.File, res.N) && res.Waste != WasteNo {
			res.Planned, res.Waste = p.Reason, WasteNo
			c.sum.Planned[i]++
			break
		}
	}
}

// spot says where the two bodies part.
func (c *Checker) spot(cmp *comparison, ch *change) *Spot {
	a, b := cmp.a, cmp.b
	s := &Spot{A: -1, B: -1}
	if cmp.ta == nil {
		if ch.blockB >= 0 {
			n := int(b.blocks[ch.blockB].node)
			s.Pointer = pointer(cmp.tb, n)
			s.B, _ = cmp.tb.Span(n)
			s.WindowB = window(b.body, s.B)
		}
		if ch.nodeB >= 0 && ch.blockB < 0 {
			s.Pointer = pointer(cmp.tb, ch.nodeB)
			s.B, _ = cmp.tb.Span(ch.nodeB)
			s.WindowB = window(b.body, s.B)
		}
		return s
	}
	atA, atB := a.size, b.size
	if ch.blockA >= 0 {
		atA = int(a.blocks[ch.blockA].from)
	} else if ch.blockB > 0 && ch.blockB-1 < len(a.blocks) {
		atA = int(a.blocks[ch.blockB-1].to)
	}
	if ch.blockB >= 0 {
		atB = int(b.blocks[ch.blockB].from)
	} else if ch.blockA > 0 && ch.blockA-1 < len(b.blocks) {
		atB = int(b.blocks[ch.blockA-1].to)
	}
	x, y, node := parted(cmp.ta, ch.nodeA, cmp.tb, ch.nodeB, atA, atB)
	s.A, s.B = min(x, a.size), min(y, b.size)
	switch {
	case node >= 0 && ch.nodeB >= 0:
		s.Pointer = pointer(cmp.tb, node)
	case ch.nodeA >= 0:
		s.Pointer = pointer(cmp.ta, ch.nodeA)
	}
	s.WindowA, s.WindowB = window(a.body, s.A), window(b.body, s.B)
	return s
}

// onVolatile finds that the first marker stands on the very block that moved,
// while a large stable part before it could have been marked.
func (c *Checker) onVolatile(cmp *comparison, all []change) []change {
	ch := all[0]
	switch ch.label {
	case SystemTime, SystemNonce, SystemDynamic, HistoryTransient, HistoryMutated:
	default:
		return all
	}
	if cmp.rule.Lookup != LookupMarkers || ch.blockA < 0 || ch.blockB < 0 || ch.blockA != ch.blockB || !cmp.a.blocks[ch.blockA].marked || !cmp.b.blocks[ch.blockB].marked {
		return all
	}
	size := 0
	for i := range ch.blockA {
		if cmp.a.blocks[i].marked {
			return all
		}
		size += int(cmp.a.blocks[i].to - cmp.a.blocks[i].from)
	}
	least := 1024
	if m, ok := MinimumOf(cmp.rule.Provider, cmp.b.model); ok {
		least = m.Tokens
	}
	if size/5 < least { // a marker there would not count
		return all
	}
	v := ch
	v.label, v.conf = BreakpointVolatile, Proved
	v.detail = fmt.Sprintf("%s before the marked block, all stable: %s", counted(size, "byte"), ch.detail)
	return append([]change{v}, all...)
}

// timing finds what the clock explains.
func (c *Checker) timing(cmp *comparison) (ch change, ok bool) {
	a, b := cmp.a, cmp.b
	if a.start == 0 || b.start == 0 || b.start < a.start {
		return ch, false
	}
	ch = change{conf: Inferred, rank: rankOther, level: cmp.rule.Order[:], blockA: -1, blockB: -1, nodeA: -1, nodeB: -1}
	if a.firstByte > 0 && b.start < a.firstByte {
		ch.label = ColdParallel
		ch.detail = fmt.Sprintf("sent %d ms before request %d was answered", (a.firstByte-b.start)/1e6, a.n)
		return ch, true
	}
	life := cmp.rule.Lifetimes[""]
	if cmp.rule.Lookup == LookupMarkers {
		life = 0
		for i := range a.blocks {
			if a.blocks[i].marked {
				life = max(life, cmp.rule.Lifetimes[a.blocks[i].ttl])
			}
		}
		if a.auto {
			life = max(life, cmp.rule.Lifetimes[a.autoTTL])
		}
	}
	if gap := (b.start - a.start) / 1e9; life > 0 && gap > int64(life) {
		ch.label = TTLExpired
		ch.detail = fmt.Sprintf("%d s after the earlier request; entries live %d s", gap, life)
		return ch, true
	}
	return ch, false
}

// observe compares the counters with what should have been read, and reports
// whether that was a hit.
func (c *Checker) observe(cmp *comparison, res *Result) bool {
	a, b := cmp.a, cmp.b
	if !b.usage.Reported {
		res.Observed = "unreported"
		return false
	}
	res.Observed = "hit"
	if b.usage.Read == 0 {
		res.Observed = "miss"
	}
	want := 0
	switch {
	case !a.usage.Counted && !a.usage.Reported:
	case cmp.rule.Lookup == LookupMarkers, a.usage.Written > 0:
		want = a.usage.Read + a.usage.Written
	case cmp.rule.Lookup == LookupEndpoints:
		// Where the entry of A ends is not said. What A itself read is still
		// there.
		want = a.usage.Read
	default:
		want = a.usage.Total
		if g := cmp.rule.Granule; g > 1 {
			want -= want % g
		}
	}
	least := 1024
	if m, ok := MinimumOf(cmp.rule.Provider, b.model); ok {
		least = m.Tokens
	}
	if want < least {
		// Too little was stored for anything to be missed.
		if res.Observed == "miss" {
			res.Observed = "none"
		}
		return b.usage.Read > 0
	}
	if cmp.flow == Rewind {
		want = min(want, b.usage.Total)
	}
	res.Expected = &Expectation{Figure{want, "reported", 0}, a.n, string(cmp.rule.Lookup)}
	if b.usage.Read >= want-max(cmp.rule.Granule, want/20) {
		res.Observed = "hit"
		return true
	}
	if b.usage.Read > 0 {
		res.Observed = "partial"
	}
	return false
}

// lostReported is what the counters say was lost.
func lostReported(res *Result, b *request) *Figure {
	if res.Expected == nil || !b.usage.Reported {
		return nil
	}
	return &Figure{max(0, res.Expected.Read.Tokens-b.usage.Read), "reported", 0}
}

// before is the part of A that stands before the change, in bytes, and all of
// what A may have had stored.
func (c *Checker) beforeChange(cmp *comparison, ch *change) (before, all int) {
	a := cmp.a
	end := len(a.blocks)
	if cmp.rule.Lookup == LookupMarkers {
		end = a.lastMark() + 1
	}
	for i := range a.blocks {
		n := int(a.blocks[i].to - a.blocks[i].from)
		lost := slices.Contains(ch.level, a.blocks[i].layer.String())
		if a.blocks[i].layer == ch.layer && ch.blockA >= 0 && i < ch.blockA && lost {
			lost = cmp.rule.Head && ch.layer != messagesLayer
		}
		if !lost {
			before += n
		}
		if i < end {
			all += n
		}
	}
	return min(before, all), all
}

// losses estimates what the break cost.
func (c *Checker) losses(cmp *comparison, ch *change, res *Result) {
	a, b := cmp.a, cmp.b
	before, all := c.beforeChange(cmp, ch)
	switch {
	case lostReported(res, b) != nil:
		res.LostTokens = lostReported(res, b)
	case all-before <= 0:
		return
	case a.usage.Counted && a.usage.Total > 0:
		whole := 0
		for i := range a.blocks {
			whole += int(a.blocks[i].to - a.blocks[i].from)
		}
		f := fit(b.model, a.usage.Total, all-before, whole)
		res.LostTokens = &f
	case a.body != nil:
		// The text that was lost: from the change to the end of what was
		// stored, by its layers.
		var lost []byte
		for i := range a.blocks {
			if len(lost) > 4*sampleBytes {
				break
			}
			if slices.Contains(ch.level, a.blocks[i].layer.String()) {
				lost = append(lost, a.body[a.blocks[i].from:a.blocks[i].to]...)
			}
		}
		f := estimate(b.model, lost)
		f.Tokens = int(float64(f.Tokens) * float64(all-before) / float64(max(1, len(lost))))
		res.LostTokens = &f
	}
	if res.LostTokens == nil {
		return
	}
	if p, ok := PriceOf(cmp.rule.Provider, b.model); ok && res.LostTokens.Tokens > 0 {
		again := p.Input
		if cmp.rule.Lookup == LookupMarkers || p.Write > p.Input {
			again = p.Write
		}
		amount := float64(res.LostTokens.Tokens) * (again - p.Read)
		res.Cost = &Cost{round(amount), "input tokens", p.Date, p.Source}
		if p.Unit == "usd" {
			res.Cost.Amount, res.Cost.Unit = round(amount)/1e6, "usd"
		}
	}
}

func round(f float64) float64 { return float64(int64(f + 0.5)) }

// gap reports that the provider read what we hold for lost.
func (c *Checker) gap(cmp *comparison, ch *change, res *Result) bool {
	b, a := cmp.b, cmp.a
	if res.Expected == nil || !b.usage.Reported || a.usage.Total == 0 || ch.label == TTLChanged || ch.label == MinTokens || ch.label == BreakpointBudget || ch.label == BreakpointOrder {
		return false
	}
	before, all := c.beforeChange(cmp, ch)
	if all == 0 {
		return false
	}
	if b.usage.Read >= res.Expected.Read.Tokens && (cmp.rule.Lookup != LookupEndpoints || a.usage.Written > 0) {
		return true // all that was stored was read
	}
	want := float64(res.Expected.Read.Tokens)
	stable := want * float64(before) / float64(all) * (1 + familyOf(b.model).p90/100)
	return want-stable > max(float64(cmp.rule.Granule), want*0.15) && float64(b.usage.Read) > stable+float64(cmp.rule.Granule)+want*0.05
}

// wireOnly says how the bytes differ while the prompts are equal as far as A
// goes; "" when they don't.
func (c *Checker) wireOnly(cmp *comparison) string {
	a, b := cmp.a, cmp.b
	if a.lossy || b.lossy {
		return ""
	}
	for i := range min(len(a.blocks), len(b.blocks)) {
		x, y := &a.blocks[i], &b.blocks[i]
		if x.token != y.token {
			break
		}
		if x.raw != y.raw && x.marked == y.marked && x.ttl == y.ttl {
			return "white space, escapes or the spelling of numbers"
		}
	}
	if a.mark != b.mark {
		return "a byte order mark"
	}
	common := func(x, y []string) []string {
		return slices.DeleteFunc(slices.Clone(x), func(k string) bool { return !slices.Contains(y, k) })
	}
	if len(a.order)+len(b.order) < 200 && !slices.Equal(common(a.order, b.order), common(b.order, a.order)) {
		return "top-level keys in another order"
	}
	return ""
}

// tiny reports whether a request is so short that no marker would help.
func (c *Checker) tiny(cmp *comparison) bool {
	b, least := cmp.b, 1024
	if m, ok := MinimumOf(cmp.rule.Provider, b.model); ok {
		least = m.Tokens
	}
	if b.usage.Counted {
		return b.usage.Total < least
	}
	return b.size/3 < least
}

// tooShort finds that the marked prefix is under the model's minimum.
func (c *Checker) tooShort(cmp *comparison, res *Result) (change, bool) {
	b := cmp.b
	m, ok := MinimumOf(cmp.rule.Provider, b.model)
	if !ok || cmp.rule.Lookup != LookupMarkers || b.marks() == 0 || b.usage.Reported && b.usage.Read+b.usage.Written > 0 {
		return change{}, false
	}
	end, size := b.lastMark(), 0
	for i := range b.blocks[:end+1] {
		size += int(b.blocks[i].to - b.blocks[i].from)
	}
	if size > m.Tokens*8 {
		return change{}, false
	}
	f := Figure{}
	switch {
	case b.usage.Reported:
		f = Figure{b.usage.Total, "reported", 0}
	default:
		f = estimate(b.model, b.gather(b.blocks[:end+1], len(b.body)))
	}
	if f.High() >= m.Tokens && !(b.usage.Reported && f.Tokens < m.Tokens) {
		return change{}, false
	}
	return change{label: MinTokens, conf: Inferred, rank: rankOther, blockA: -1, blockB: end, nodeA: -1, nodeB: int(b.blocks[end].node), layer: b.blocks[end].layer,
		detail: fmt.Sprintf("%s marked; the minimum is %s tokens (as of %s)", f, thousands(m.Tokens), m.Date)}, true
}

// tail adds what holds of a request whatever came before it.
func (c *Checker) tail(q *request, cmp *comparison, res *Result, more []change, x *Exchange) {
	for _, ch := range more {
		if slices.Contains(res.Labels, ch.label) {
			continue
		}
		if !res.Break && ch.label.Info().Break {
			// An error of its own, when there is no worse.
			res.Labels = append([]Label{ch.label}, res.Labels...)
			res.Label, res.Confidence, res.Detail = ch.label, ch.conf, ch.detail
			res.Break, res.Waste = true, ch.label.Info().Waste
			continue
		}
		res.Labels = append(res.Labels, ch.label)
		res.Also = append(res.Also, Other{ch.label, "", ch.detail})
	}
	if !q.usage.Reported {
		res.Labels = append(res.Labels, Unreported)
		res.Observed = "unreported"
	}
	if d, ok := c.diagnose(x.Diagnostics); ok {
		res.Vendor = agreement(d, res)
	}
}

func agreement(d diagnostic, res *Result) *Vendor {
	v := &Vendor{Vendor: d.vendor, Word: d.word, Ours: wordFor(d.vendor, res.Label), Agreement: "silent"}
	switch {
	case res.Previous == 0, v.Ours == "", strings.HasSuffix(d.word, "not_found"), d.word == "unavailable" && v.Ours != "unavailable", d.word == "cache_miss":
	case v.Ours == v.Word:
		v.Agreement = "agrees"
	default:
		v.Agreement = "disagrees"
	}
	return v
}
