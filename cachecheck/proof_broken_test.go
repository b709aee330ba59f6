package cachecheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/internal/rewrite"
)

// rewriteThen is the way up with something done to what it made.
func rewriteThen(broken func(body []byte) []byte) Rewrite {
	rw := theRewrite(testRing)
	return func(dialect string, rules, body []byte) (Rewritten, error) {
		got, err := rw(dialect, rules, body)
		got.Body = broken(bytes.Clone(got.Body))
		return got, err
	}
}

// onceIn replaces the first old, or nothing.
func onceIn(old, new string) func([]byte) []byte {
	return func(body []byte) []byte { return bytes.Replace(body, []byte(old), []byte(new), 1) }
}

// decode and encode, as a proxy does that does not know better.
func reencode(body []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return body
	}
	out, _ := json.Marshal(v)
	return out
}

// turning changes the order of the keys of an object each time.
func turning() func([]byte) []byte {
	n := 0
	return func(body []byte) []byte {
		n++
		if n%2 == 0 {
			return body
		}
		return bytes.Replace(body, []byte(`"max_tokens":1024,"stream":true`), []byte(`"stream":true,"max_tokens":1024`), 1)
	}
}

// A rewrite that is broken on purpose is caught, each by the property that it
// breaks, which is the finding that follows from no other.
func TestABrokenRewriteIsCaught(t *testing.T) {
	counter := 0
	for name, c := range map[string]struct {
		rw       func() Rewrite
		dialects []string
		want     Property
	}{
		"keys sorted, escapes changed": {rw: func() Rewrite { return rewriteThen(reencode) }, want: P2},
		"key order in a message": {rw: func() Rewrite {
			return rewriteThen(onceIn(`"role":"user","content":"Look at the tests and fix them."`, `"content":"Look at the tests and fix them.","role":"user"`))
		}, want: P2},
		"an escape in a message": {rw: func() Rewrite { return rewriteThen(onceIn(`\u003ccode`, `<code`)) }, want: P2},
		"a slash in a tool":      {rw: func() Rewrite { return rewriteThen(onceIn(`file \/ a`, `file / a`)) }, want: P2},
		"an escape in a tool":    {rw: func() Rewrite { return rewriteThen(onceIn(`one. É.`, `one. \u00c9.`)) }, want: P2},
		"a number":               {rw: func() Rewrite { return rewriteThen(onceIn(`:1024`, `:1024.0`)) }, want: P2},
		"white space":            {rw: func() Rewrite { return rewriteThen(onceIn(`,"stream"`, `, "stream"`)) }, want: P2},
		"a member more":          {rw: func() Rewrite { return rewriteThen(onceIn(`"stream":true`, `"stream":true,"seed":1`)) }, want: P2},
		"a member less":          {rw: func() Rewrite { return rewriteThen(onceIn(`,"max_tokens":1024`, ``)) }, want: P2},
		"a message less":         {rw: func() Rewrite { return rewriteThen(lessMessage) }, want: P2},
		"a lost marker":          {rw: func() Rewrite { return rewriteThen(onceIn(markMember, ``)) }, want: P6},
		"a random id": {rw: func() Rewrite {
			return rewriteThen(func(b []byte) []byte {
				counter++
				return onceIn(`"id":"call_1"`, fmt.Sprintf(`"id":"call_%d"`, 1000+counter))(b)
			})
		}, dialects: []string{"anthropic-messages", "openai-chat"}, want: P1},
		"a clock in a tool": {rw: func() Rewrite {
			return rewriteThen(func(b []byte) []byte {
				counter++
				return onceIn(`Runs a command`, fmt.Sprintf(`Run %d a command`, counter))(b)
			})
		}, want: P1},
		"an order that turns": {rw: func() Rewrite { return rewriteThen(turning()) }, want: P1},
	} {
		t.Run(name, func(t *testing.T) {
			caught := 0
			rapid.Check(t, func(t *rapid.T) {
				among := c.dialects
				if among == nil {
					among = proofDialects
				}
				rw, honest := c.rw(), theRewrite(testRing)
				s := newSession(t, rapid.SampledFrom(among).Draw(t, "dialect"))
				s.spaced = false
				var xs []*record.Exchange
				differs := false
				for range rapid.IntRange(1, 3).Draw(t, "requests") {
					s.grow()
					x := s.exchange(rw)
					got, _ := honest(s.dialect, x.Rules, x.ClientBody)
					differs = differs || !bytes.Equal(got.Body, x.UpstreamBody)
					xs = append(xs, x)
				}
				p, err := Prove("s", strings.NewReader(asRecording(xs)), ProofOptions{Rewrite: rw, Fresh: []Rewrite{rw}})
				if err != nil {
					t.Fatal(err)
				}
				if c.want == P1 && p.NonDeterministic > 0 {
					differs = true
				}
				if !differs {
					if !p.Holds() {
						t.Fatalf("nothing was broken, and %+v was found", p.Findings)
					}
					return
				}
				roots := map[Property]bool{}
				for _, f := range p.Findings {
					if !f.Also {
						roots[f.Property] = true
					}
				}
				if !roots[c.want] || len(roots) > 1 {
					t.Fatalf("want %s alone, got %v\n%+v\nin:  %s\nout: %s", c.want, slices.Collect(maps.Keys(roots)), p.Findings, xs[max(0, firstLine(p)-2)].ClientBody, xs[max(0, firstLine(p)-2)].UpstreamBody)
				}
				caught++
			})
			if caught == 0 {
				t.Error("it never came up")
			}
		})
	}
}

// lessMessage drops the first message.
func lessMessage(body []byte) []byte {
	for _, list := range []string{`"messages":[`, `"input":[`} {
		i := bytes.Index(body, []byte(list))
		if i < 0 {
			continue
		}
		i += len(list)
		dec := json.NewDecoder(bytes.NewReader(body[i:]))
		var first json.RawMessage
		if dec.Decode(&first) != nil {
			return body
		}
		rest := bytes.TrimPrefix(body[i+int(dec.InputOffset()):], []byte(","))
		return slices.Concat(body[:i], rest)
	}
	return body
}

// Rules that change half-way are P5, whether or not a block moves.
func TestChangedRulesAreCaught(t *testing.T) {
	for _, dialect := range proofDialects {
		t.Run(dialect, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rw := theRewrite(testRing)
				s := newSession(t, dialect)
				s.tools = append([]genTool{genTools[0]}, slices.DeleteFunc(s.tools, func(g genTool) bool { return g.name == "Bash" })...)
				s.rules = rewrite.Rules{Rules: agents.Builtin().Rules(nil)}.JSON()
				var xs []*record.Exchange
				at := rapid.IntRange(1, 3).Draw(t, "change at")
				for n := range 4 {
					if n == at {
						s.rules = rewrite.Rules{}.JSON()
					}
					s.grow()
					xs = append(xs, s.exchange(rw))
				}
				p, err := Prove("s", strings.NewReader(asRecording(xs)), ProofOptions{Rewrite: rw})
				if err != nil {
					t.Fatal(err)
				}
				// A conversation that goes back behind the change breaks once more.
				follows := func(f ProofFinding) bool { return f.Also && (f.Property == P3 || f.Property == P6) }
				if len(p.Findings) < 2 || p.Findings[0].Property != P5 || p.Findings[0].Also || p.Findings[1].Property != P3 || p.BreaksAdded < 1 ||
					slices.ContainsFunc(p.Findings[1:], func(f ProofFinding) bool { return !follows(f) }) {
					t.Fatalf("%s\n%+v", p.Verdict(), p.Findings)
				}
			})
		})
	}
}

// memory is a rewrite that depends on what it has seen before: the tool of the
// third request is another one.
func TestARewriteWithMemoryIsCaught(t *testing.T) {
	s := plainSession(t)
	rw := theRewrite(testRing)
	var xs []*record.Exchange
	for n := range 3 {
		x := s.exchange(rw)
		if n == 2 {
			x.UpstreamBody = onceIn(`"description":"Runs a command in a shell.`, `"description":"Runs a command.`)(bytes.Clone(x.UpstreamBody))
		}
		xs = append(xs, x)
		s.messages = append(s.messages, `{"role":"user","content":"on"}`)
	}
	p, err := Prove("s", strings.NewReader(asRecording(xs)), ProofOptions{Rewrite: rw})
	if err != nil {
		t.Fatal(err)
	}
	want := "3 requests, 3 rewritten, 1 break added, 0 non-deterministic"
	if p.Verdict() != want || len(p.Findings) != 2 || p.Findings[0].Property != P1 || p.Findings[1].Property != P3 || p.Findings[1].Where != "/tools/0" || p.Findings[1].Against != 3 {
		t.Fatalf("%s\n%+v", p.Verdict(), p.Findings)
	}
}

// plainSession is one without anything drawn.
func plainSession(t interface{ Fatalf(string, ...any) }) *genSession {
	return &genSession{dialect: "anthropic-messages", tools: genTools[:1], order: "model tools system messages", system: "Be brief.",
		rules: rewrite.Rules{Rules: agents.Builtin().Rules(nil)}.JSON(), messages: []string{`{"role":"user","content":"go"}`}}
}

// A rewrite that is undone by a second one is P4.
func TestARewriteThatGoesOnIsCaught(t *testing.T) {
	s := plainSession(t)
	// Takes one sentence at a time.
	rw := rewriteThen(func(b []byte) []byte {
		if bytes.Contains(b, []byte("Usage notes:")) {
			return onceIn("Usage notes:", "")(b)
		}
		return onceIn("Quote paths with spaces", "")(b)
	})
	p, err := Prove("s", strings.NewReader(asRecording([]*record.Exchange{s.exchange(rw)})), ProofOptions{Rewrite: rw})
	if err != nil || len(p.Findings) != 1 || p.Findings[0].Property != P4 {
		t.Fatalf("%v %+v", err, p.Findings)
	}
}

// A prefix that falls under the model's minimum is P7, once a session.
func TestAPrefixUnderTheMinimumIsFound(t *testing.T) {
	for name, c := range map[string]struct{ least, want int }{
		"under it":        {130, 1},
		"far above":       {20, 0},
		"under it before": {5000, 0},
		"not known":       {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := plainSession(t)
			s.marked = true
			rw := theRewrite(testRing)
			var xs []*record.Exchange
			for range 2 {
				xs = append(xs, s.exchange(rw))
				s.messages = append(s.messages, `{"role":"user","content":"on"}`)
			}
			p, err := Prove("s", strings.NewReader(asRecording(xs)), ProofOptions{Rewrite: rw, Minimum: func(model string) int {
				if model != "m" {
					t.Errorf("asked for %q", model)
				}
				return c.least
			}})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Findings) != c.want || c.want > 0 && p.Findings[0].Property != P7 {
				t.Fatalf("%+v", p.Findings)
			}
			if c.least == 0 && p.NoMinimum != 2 {
				t.Errorf("%d without a minimum", p.NoMinimum)
			}
		})
	}
}

// Without the key, a request with a call that was put back is unverifiable,
// and with another key too; never a pass, and no finding either.
func TestWithoutTheKeyNothingIsPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSession(t, rapid.SampledFrom(proofDialects).Draw(t, "dialect"))
		with := theRewrite(testRing)
		var xs []*record.Exchange
		restored := 0
		for range 4 {
			s.grow()
			x := s.exchange(with)
			if x.Rewrite.Restored > 0 {
				restored++
			}
			xs = append(xs, x)
		}
		p, err := Prove("s", strings.NewReader(asRecording(xs)), ProofOptions{Rewrite: theRewrite(nil)})
		if err != nil {
			t.Fatal(err)
		}
		if p.Unverifiable != restored || !p.Holds() {
			t.Fatalf("%d restored: %s\n%+v", restored, p.Verdict(), p.Findings)
		}
	})
}

// What is masked is proved by what was found when it was recorded: held, it is
// counted; broken, it is a finding although the masked bytes look fine; and
// without it, what can't be told is no pass.
func TestMaskedBodiesAreProvedByWhatWasFound(t *testing.T) {
	rw := theRewrite(testRing)
	s := plainSession(t)
	whole := s.exchange(rw)
	// A rewrite of which the masked bytes show another result.
	other := *whole
	other.UpstreamBody = onceIn("Be brief.", "Be ****f.")(bytes.Clone(whole.UpstreamBody))
	for name, c := range map[string]struct {
		x                    *record.Exchange
		proof                string
		live, unsure, broken int
	}{
		"held, and shown":    {whole, `{"p1":true,"p2":true,"p4":true}`, 0, 0, 0},
		"held, not shown":    {&other, `{"p1":true,"p2":true,"p4":true}`, 1, 0, 0},
		"broken, not shown":  {whole, `{"p1":false,"p2":true,"p4":true,"text":"why"}`, 0, 0, 1},
		"nothing was found":  {&other, ``, 0, 1, 1},
		"what is no finding": {&other, `7`, 0, 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			x := *c.x
			x.Proof = json.RawMessage(c.proof)
			x.Masked.ClientBody = []record.Span{{Start: 1, End: 2}}
			p, err := Prove("s", strings.NewReader(asRecording([]*record.Exchange{&x})), ProofOptions{Rewrite: rw})
			if err != nil {
				t.Fatal(err)
			}
			if p.Live != c.live || p.Unverifiable != c.unsure || len(p.Findings) != c.broken {
				t.Errorf("live %d, unverifiable %d, %+v", p.Live, p.Unverifiable, p.Findings)
			}
		})
	}
	live := ProveLive(func() Rewrite { return theRewrite(testRing) }, whole.Dialect, whole.Rules, whole.ClientBody, whole.UpstreamBody)
	if live != (LiveProof{true, true, true, ""}) {
		t.Errorf("%+v", live)
	}
	live = ProveLive(func() Rewrite { return theRewrite(testRing) }, whole.Dialect, whole.Rules, whole.ClientBody, onceIn(`"m"`, `"n"`)(bytes.Clone(whole.UpstreamBody)))
	if live.P1 || live.P2 || live.Text == "" {
		t.Errorf("%+v", live)
	}
}

// A damaged recording is proved as far as it goes, and says what is missing.
func TestDamagedRecordingsAreCounted(t *testing.T) {
	s := plainSession(t)
	rw := theRewrite(testRing)
	text := asRecording([]*record.Exchange{s.exchange(rw), s.exchange(rw)})
	p, err := Prove("s", strings.NewReader(text[:len(text)-20]), ProofOptions{Rewrite: rw})
	if err != nil || p.Requests != 1 || len(p.Skipped) != 1 || p.Skipped[0] != (ProofSkip{"s", "cut off", 1, 3}) {
		t.Fatalf("%v %+v", err, p)
	}
	if _, err := Prove("s", strings.NewReader("no recording"), ProofOptions{Rewrite: rw}); err == nil {
		t.Error("no error for something else")
	}
}

// For any two bodies, the proof comes to an end, and finds something when they
// are different and the rewrite leaves bodies alone.
func FuzzProof(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a"}],"messages":[{"role":"user","content":"x"}]}`), []byte(`{"tools":[],"messages":[{"role":"user","content":"x"}]}`), 0)
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","input":{"a":"gp1:x"}}]}]}`), []byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","input":{}}]}]}`), 1)
	f.Add([]byte(`{"input":[{"type":"additional_tools","tools":[{"a":[1, 2 ]}]}],"instructions":[]}`), []byte(`{"input":[{"type":"additional_tools","tools":[{"a":[1]}]}],"instructions":[]}`), 2)
	f.Fuzz(func(t *testing.T, in, out []byte, d int) {
		same := func(_ string, _, body []byte) (Rewritten, error) { return Rewritten{Body: body}, nil }
		x := &record.Exchange{Session: "a", Dialect: proofDialects[uint(d)%3], ClientBody: in, UpstreamBody: out}
		text := record.AppendExchange(record.AppendHeader(nil, nil), x)
		text = record.AppendExchange(text, x)
		p, err := Prove("f", bytes.NewReader(text), ProofOptions{Rewrite: same})
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if p.Requests != 2 {
			t.Fatalf("%d requests", p.Requests)
		}
		if !bytes.Equal(in, out) && p.Holds() {
			t.Fatal("other bodies went upstream, and nothing was found")
		}
	})
}
