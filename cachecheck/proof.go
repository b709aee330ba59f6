package cachecheck

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// The rewrite proof looks at what guardproxy itself did to the bodies of a
// recording. A [Prover] takes recordings one by one. Each exchange is checked
// by itself (P1, P2, P4, P7), and against the earlier exchange with which its
// client's body shares the longest prefix (P3, P5, P6). For that it keeps of
// an exchange the hashes of its blocks (proof_chain.go), not its bodies.

// Property is one of the seven things that the proof is about.
type Property string

// The properties. R is the rewrite, x and y are bodies as clients sent them.
const (
	// P1: what went upstream is R(x), and R(x) is the same in every process.
	P1 Property = "P1"
	// P2: outside of what was taken out or put back, not one byte moved.
	P2 Property = "P2"
	// P3: as far as x and y are the same, R(x) and R(y) are the same.
	P3 Property = "P3"
	// P4: R(R(x)) = R(x).
	P4 Property = "P4"
	// P5: the rules are the same for all requests of a session.
	P5 Property = "P5"
	// P6: what the provider can find in its cache is not reduced by more than
	// what was taken out, and no cache marker is lost.
	P6 Property = "P6"
	// P7: no marked prefix falls under the least length that the model caches.
	P7 Property = "P7"
)

// Rewrite is the way up as a function: rules are those of a recording's
// header, body is what a client sent. It must not change body.
type Rewrite func(dialect string, rules, body []byte) (Rewritten, error)

// Rewritten is a body that a Rewrite made.
type Rewritten struct {
	Body []byte
	// Restored counts calls of the history that were put back; Foreign those
	// that carry a seal which no key at hand opens.
	Restored, Foreign int
}

// ProofOptions say what a recording is checked against.
type ProofOptions struct {
	// Rewrite is required.
	Rewrite Rewrite
	// Fresh are the same function, each in a process of its own: what differs
	// from process to process (the order of maps, addresses, random numbers)
	// must not show.
	Fresh []Rewrite
	// Minimum is the least prefix, in tokens, that a model caches; 0 when it is
	// not known. nil: by MinimumOf, as far as the model's name tells whose it is.
	Minimum func(model string) int
	// Retain is how many exchanges are kept to be compared with; 0 means 64.
	Retain int
}

// ProofFinding is one violated property.
type ProofFinding struct {
	Property Property `json:"property"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	// Against is the line of the earlier exchange that this one was compared
	// with, 0 for none; AgainstFile is its file when that is another.
	Against     int    `json:"against,omitempty"`
	AgainstFile string `json:"against_file,omitempty"`
	// Where is a JSON pointer into the client's body; In and Out are byte
	// offsets into the client's and the upstream body, -1 when there is none.
	Where string `json:"where,omitempty"`
	In    int    `json:"in"`
	Out   int    `json:"out"`
	Text  string `json:"text"`
	// Also marks what follows from an earlier finding: one on the same exchange
	// or on the one that it is compared with, or rules that changed in between.
	Also bool `json:"also,omitempty"`
}

// Proof is what was found.
type Proof struct {
	Requests  int `json:"requests"`
	Rewritten int `json:"rewritten"`
	// Pairs counts requests that were compared with an earlier one.
	Pairs            int `json:"pairs"`
	BreaksAdded      int `json:"breaks_added"`
	NonDeterministic int `json:"non_deterministic"`
	// Unverifiable counts requests of which something could not be checked:
	// calls that were put back without the key that sealed them, or bodies
	// that are masked where it matters. They are no passes.
	Unverifiable int `json:"unverifiable"`
	// Live counts requests for which the proof that was taken when they were
	// recorded stands, since their exact bytes were not written down.
	Live int `json:"live"`
	// NoMinimum counts requests whose model's minimum is not known: P7 was not
	// checked.
	NoMinimum int `json:"no_minimum"`
	// Skipped are damaged lines, by reason.
	Skipped  []ProofSkip    `json:"skipped"`
	Findings []ProofFinding `json:"findings"`
}

// ProofSkip is one reason for which lines of a file were skipped.
type ProofSkip struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
	Lines  int    `json:"lines"`
	First  int    `json:"first"`
}

// Verdict is the proof in one line.
func (p *Proof) Verdict() string {
	s := fmt.Sprintf("%s, %d rewritten, %s added, %d non-deterministic", counted(p.Requests, "request"), p.Rewritten, counted(p.BreaksAdded, "break"), p.NonDeterministic)
	if n := p.Unverifiable; n > 0 {
		s += fmt.Sprintf(", %d unverifiable", n)
	}
	other := map[Property]int{}
	for _, f := range p.Findings {
		if !f.Also && (f.Property == P2 || f.Property == P4 || f.Property == P5) {
			other[f.Property]++
		}
	}
	for _, o := range []struct {
		p    Property
		text string
	}{{P2, "moved bytes"}, {P4, "not idempotent"}, {P5, "changed rules"}} {
		if n := other[o.p]; n > 0 {
			s += fmt.Sprintf(", %d %s", n, o.text)
		}
	}
	return s
}

// Holds reports whether nothing was found. What is unverifiable is no finding.
func (p *Proof) Holds() bool { return len(p.Findings) == 0 }

// Prove reads one recording and proves it. See [Prover] for several.
func Prove(name string, recording io.Reader, o ProofOptions) (*Proof, error) {
	p := NewProver(o)
	err := p.Add(name, recording)
	return p.Proof(), err
}

// Prover proves recordings. It is not safe for concurrent use.
type Prover struct {
	o     ProofOptions
	proof Proof
	kept  []*proofPast // the latest last
	in    chain
	out   chain
	tin   tape.Tape
	tout  tape.Tape
}

// proofPast is what is kept of an exchange.
type proofPast struct {
	file, session, dialect, model, credential string
	line                                      int
	rules                                     [sha256.Size]byte
	in, out                                   chain
	to                                        []int // block of in to block of out, -1: gone
	saysMinimum                               bool
	found                                     bool // something was
}

// NewProver returns a Prover that has seen nothing.
func NewProver(o ProofOptions) *Prover {
	if o.Retain <= 0 {
		o.Retain = 64
	}
	if o.Minimum == nil {
		o.Minimum = minimumByName
	}
	return &Prover{o: o}
}

// Proof is what was found so far.
func (p *Prover) Proof() *Proof {
	out := p.proof
	out.Findings, out.Skipped = slices.Clone(out.Findings), slices.Clone(out.Skipped)
	if out.Findings == nil {
		out.Findings = []ProofFinding{}
	}
	if out.Skipped == nil {
		out.Skipped = []ProofSkip{}
	}
	return &out
}

// Add proves the exchanges of one recording, which name names in findings. The
// error is what the recording could not be read for.
func (p *Prover) Add(name string, recording io.Reader) error {
	r := record.NewReader(recording)
	defer func() {
		for _, s := range r.Skipped() {
			p.proof.Skipped = append(p.proof.Skipped, ProofSkip{name, s.Reason, s.Lines, s.First})
		}
	}()
	for {
		x, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.exchange(name, x)
	}
}

// proofRun is one exchange on its way through the checks.
type proofRun struct {
	p       *Prover
	x       *record.Exchange
	file    string
	against *proofPast
	found   int  // findings of this exchange so far
	follows bool // what is found follows from rules that changed before, or from what was found of the other exchange
	broken  bool
	unsure  bool // something of it can't be verified
	live    bool
}

func (r *proofRun) find(p Property, where string, in, out int, format string, args ...any) {
	f := ProofFinding{Property: p, File: r.file, Line: r.x.Line, Where: where, In: in, Out: out, Text: fmt.Sprintf(format, args...), Also: r.found > 0 || r.follows}
	if r.against != nil {
		f.Against = r.against.line
		if r.against.file != r.file {
			f.AgainstFile = r.against.file
		}
	}
	r.found++
	r.p.proof.Findings = append(r.p.proof.Findings, f)
	switch p {
	case P3, P6, P7:
		r.broken = true
	}
}

// exchange checks one. The order is that of causes: what differs between
// processes moves everything, moved bytes and changed rules move prefixes, and
// whoever moves bytes does it again.
func (p *Prover) exchange(file string, x *record.Exchange) {
	r := &proofRun{p: p, x: x, file: file}
	p.proof.Requests++
	if x.Rewritten() {
		p.proof.Rewritten++
	}
	if err := p.tin.Parse(x.ClientBody); err != nil || p.tin.Kind(0) != tape.Object {
		// Nothing of this kind goes upstream, so nobody rewrote it.
		if x.Rewritten() {
			r.find(P2, "", 0, 0, "a body that is no JSON object was rewritten")
		}
		return
	}
	r.claimed()
	made, ok := r.same()
	to := r.edits()
	p.in.read(&p.tin, x.Dialect)
	if !x.Rewritten() {
		p.out = p.in
		to = to[:0]
		for i := range p.in.blocks {
			to = append(to, i)
		}
	} else if p.tout.Parse(x.UpstreamBody) == nil {
		p.out.read(&p.tout, x.Dialect)
		to = p.in.follow(&p.out, to)
	} else {
		p.out = chain{}
	}
	now := &proofPast{file: file, session: x.Session, dialect: x.Dialect, model: p.tin.Str(p.tin.Get(0, "model")), credential: x.Credential, line: x.Line,
		rules: sha256.Sum256(x.Rules), in: p.in.clone(), to: slices.Clone(to)}
	now.out = now.in
	if x.Rewritten() {
		now.out = p.out.clone()
	}
	p.in, p.out = chain{}, chain{}
	r.rules(now)
	r.markers(now)
	r.prefix(now)
	r.minimum(now)
	if ok {
		r.twice(made)
	}
	if r.broken {
		p.proof.BreaksAdded++
	}
	if r.unsure {
		p.proof.Unverifiable++
	}
	if r.live {
		p.proof.Live++
	}
	if len(p.kept) >= p.o.Retain {
		p.kept = append(p.kept[:0], p.kept[1:]...)
	}
	now.found = r.found > 0
	p.kept = append(p.kept, now)
}

// LiveProof is what a recorder finds while it has the exact bytes.
type LiveProof struct {
	P1 bool `json:"p1"`
	P2 bool `json:"p2"`
	P4 bool `json:"p4"`
	// Text says what did not hold.
	Text string `json:"text,omitempty"`
}

// ProveLive proves P1, P2 and P4 of one exchange, whose bodies are in and out,
// with rewrites that have seen nothing before.
func ProveLive(rewrite func() Rewrite, dialect string, rules, in, out []byte) LiveProof {
	x := &record.Exchange{Dialect: dialect, Rules: rules, ClientBody: in, UpstreamBody: out}
	p := NewProver(ProofOptions{Rewrite: rewrite(), Fresh: []Rewrite{rewrite()}})
	p.exchange("", x)
	live := LiveProof{true, true, true, ""}
	for _, f := range p.proof.Findings {
		switch f.Property {
		case P1:
			live.P1 = false
		case P2:
			live.P2 = false
		case P4:
			live.P4 = false
		default:
			continue
		}
		if live.Text == "" {
			live.Text = f.Text
		}
	}
	if p.proof.Unverifiable > 0 {
		live.P1, live.Text = false, "a call that was put back could not be verified"
	}
	return live
}

// same checks P1, and returns what the rewrite makes of the client's body; ok
// if that is what went upstream.
func (r *proofRun) same() (made []byte, ok bool) {
	x := r.x
	got, err := r.p.o.Rewrite(x.Dialect, x.Rules, x.ClientBody)
	if err != nil {
		r.find(P1, "", -1, -1, "the rewrite refuses the client's body: %v", err)
		return nil, false
	}
	for i, fresh := range r.p.o.Fresh {
		again, err := fresh(x.Dialect, x.Rules, x.ClientBody)
		if err != nil {
			r.p.proof.NonDeterministic++
			r.find(P1, "", -1, -1, "process %d: %v", i+1, err)
			return nil, false
		}
		if n := differAt(got.Body, again.Body); n >= 0 {
			r.p.proof.NonDeterministic++
			r.find(P1, "", -1, n, "another process makes another body of the same bytes, from byte %d on", n)
			return nil, false
		}
	}
	if n := differAt(got.Body, x.UpstreamBody); n >= 0 {
		masked := len(x.Masked.ClientBody)+len(x.Masked.UpstreamBody) > 0
		switch {
		case got.Restored < x.Rewrite.Restored:
			// Without the key nobody can say whether what was put back is what
			// was sealed.
			r.unsure = true
			return nil, false
		case masked && r.took().P1 && r.took().P4:
			r.live = true
			return nil, false
		case masked:
			r.unsure = true
			return nil, false
		}
		r.find(P1, "", -1, n, "what went upstream is not what the rewrite makes of the client's body, from byte %d on (was it recorded by another version?)", n)
		return nil, false
	}
	return got.Body, true
}

// twice checks P4.
func (r *proofRun) twice(made []byte) {
	twice, err := r.p.o.Rewrite(r.x.Dialect, r.x.Rules, made)
	if err != nil {
		r.find(P4, "", -1, -1, "the rewrite refuses its own body: %v", err)
	} else if n := differAt(made, twice.Body); n >= 0 {
		r.find(P4, "", -1, n, "rewritten again, the body changes again, from byte %d on", n)
	}
}

// claimed takes what a proof that was taken when the exchange was recorded found
// to be broken. The masked bytes may not show it.
func (r *proofRun) claimed() {
	if len(r.x.Proof) == 0 {
		return
	}
	live := r.took()
	for _, c := range []struct {
		p    Property
		held bool
	}{{P1, live.P1}, {P2, live.P2}, {P4, live.P4}} {
		if !c.held {
			r.find(c.p, "", -1, -1, "it did not hold when this was recorded: %s", live.Text)
		}
	}
}

// took is the proof that was taken when the exchange was recorded.
func (r *proofRun) took() (live LiveProof) {
	if json.Unmarshal(r.x.Proof, &live) != nil {
		return LiveProof{}
	}
	return live
}

// differAt is the first byte at which two texts differ, -1 when they don't.
func differAt(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// edits checks P2 and returns which blocks of the client's body are left, by
// the node that they start at; nil when that is not known.
func (r *proofRun) edits() (to []int) {
	x := r.x
	if !x.Rewritten() {
		return nil
	}
	if err := r.p.tout.Parse(x.UpstreamBody); err != nil {
		r.find(P2, "", -1, 0, "what went upstream is no JSON that can be read: %v", err)
		return nil
	}
	d := deletion{in: &r.p.tin, out: &r.p.tout}
	if !d.body() {
		if len(x.Masked.ClientBody)+len(x.Masked.UpstreamBody) > 0 && r.took().P2 {
			r.live = true
			return nil
		}
		r.find(P2, d.pointer(), d.inAt, d.outAt, "%s", d.why)
		return nil
	}
	if d.restored > 0 && x.Rewrite.Restored == 0 {
		r.find(P2, d.pointer(), d.inAt, d.outAt, "a call of the history was replaced, and the recording tells of none that was put back")
	}
	return d.to
}

// rules checks P5: against the session's exchange before this one.
func (r *proofRun) rules(now *proofPast) {
	for _, past := range slices.Backward(r.p.kept) {
		if past.file != now.file || past.session != now.session {
			continue
		}
		if past.rules != now.rules {
			r.against = past
			r.find(P5, "", -1, -1, "the rules changed within the session: %s", r.x.Rules)
			r.against = nil
		}
		return
	}
}

// nearest is the earlier exchange that shares the longest prefix, of the same
// dialect and the same credential; the session's own and the latest win.
func (r *proofRun) nearest(now *proofPast) (best *proofPast, shared int) {
	for _, past := range slices.Backward(r.p.kept) {
		if past.dialect != now.dialect || past.credential != now.credential || past.rules != now.rules && past.session != now.session {
			continue
		}
		n := past.in.shared(&now.in)
		if n > shared || n == shared && best != nil && n > 0 && best.session != now.session && past.session == now.session {
			best, shared = past, n
		}
	}
	return best, shared
}

// prefix checks P3, and the part of P6 that is about what is found again.
func (r *proofRun) prefix(now *proofPast) {
	past, shared := r.nearest(now)
	if past == nil {
		return
	}
	r.p.proof.Pairs++
	r.against, r.follows = past, past.rules != now.rules || past.found
	defer func() { r.against, r.follows = nil, false }()
	if past.to == nil || now.to == nil {
		// The blocks of one of them could not be told apart (P2): count.
		if n := past.out.shared(&now.out); n < shared-past.gone()-now.gone() {
			r.find(P3, now.out.place(n), -1, now.out.at(n), "the client's bodies are the same for %s, those that went upstream for %d", counted(shared, "block"), n)
		}
		return
	}
	same := past.out.shared(&now.out)
	for i := range shared {
		a, b := past.to[i], now.to[i]
		if a == b && (a < 0 || a < same) {
			continue
		}
		at := -1
		if b >= 0 {
			at = now.out.at(b)
		}
		r.find(P3, now.in.place(i), now.in.at(i), at, "%s is the same in both bodies of the client, and not in those that went upstream", now.in.what(i))
		return
	}
	hit := past.in.hit(&now.in, shared)
	if hit < 0 {
		return
	}
	want := past.to[hit]
	if got := past.out.hit(&now.out, same); got < want {
		r.find(P6, now.in.place(hit), now.in.at(hit), -1, "the client's body would find %s in the cache; what went upstream finds %s", past.in.upTo(hit), past.out.upTo(got))
	}
}

// gone counts blocks that are not upstream.
func (p *proofPast) gone() int { return max(0, len(p.in.blocks)-len(p.out.blocks)) }

// markers checks the other part of P6.
func (r *proofRun) markers(now *proofPast) {
	if now.to == nil {
		if a, b := now.in.marks(), now.out.marks(); b < a {
			r.find(P6, "", -1, -1, "the client's body has %s, the one that went upstream %d", counted(a, "cache marker"), b)
		}
		return
	}
	for i, b := range now.in.blocks {
		if b.marks == 0 {
			continue
		}
		if j := now.to[i]; j >= 0 && now.out.blocks[j].marks < b.marks || j < 0 && !now.heir(i) {
			r.find(P6, now.in.place(i), now.in.at(i), -1, "%s loses its cache marker", now.in.what(i))
			return
		}
	}
}

// heir reports whether the marker of block i, which went with all of its block,
// lives on: on the last block before it that is left.
func (p *proofPast) heir(i int) bool {
	for k := i - 1; k >= 0; k-- {
		if p.in.blocks[k].frame {
			continue
		}
		if j := p.to[k]; j >= 0 {
			return p.out.blocks[j].marks > 0
		}
	}
	return true // there is nothing before it to be cached
}

// bytesPerToken is the rough measure for bodies that nobody counted.
const bytesPerToken = 4

// minimumByName is MinimumOf for a model whose name says who made it: a
// recording does not hold where its requests went.
func minimumByName(model string) int {
	for _, by := range []struct{ provider, start string }{{"anthropic", "claude"}, {"openai", "gpt-"}, {"openai", "codex-"}, {"gemini", "gemini"}} {
		if strings.HasPrefix(strings.ToLower(model), by.start) {
			m, _ := MinimumOf(by.provider, model)
			return m.Tokens
		}
	}
	return 0
}

// minimum checks P7.
func (r *proofRun) minimum(now *proofPast) {
	least := r.p.o.Minimum(now.model)
	if least <= 0 {
		r.p.proof.NoMinimum++
		return
	}
	if now.to == nil {
		return
	}
	for _, past := range r.p.kept {
		if past.file == now.file && past.session == now.session && past.saysMinimum {
			now.saysMinimum = true // once a session: it grows out of it
			return
		}
	}
	before, after := 0, 0
	auto := now.in.marks() == 0 && now.dialect != "anthropic-messages"
	for i, b := range now.in.blocks {
		before += b.size
		j := now.to[i]
		if j >= 0 {
			after += now.out.blocks[j].size
		}
		end := b.marks > 0 || auto && i == len(now.in.blocks)-1
		if end && before/bytesPerToken >= least && after/bytesPerToken < least {
			now.saysMinimum = true
			r.find(P7, now.in.place(i), now.in.at(i), -1, "the prefix up to %s falls from about %d to about %d tokens (bytes/4, rough), under the %d that %s caches at least",
				now.in.what(i), before/bytesPerToken, after/bytesPerToken, least, strings.TrimSpace(now.model))
			return
		}
	}
}
