package cachecheck

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Sessions are generated, and changes of a known kind injected into them: none
// may be called anything else.

var words = strings.Fields("station ridge valley snow sensor ledger warden wind dew morning reading frost note keeper lake hour gust calm rain instrument mast battery antenna heater ice")

func genText(least, most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(least, most).Draw(t, "words")
		out := make([]string, n)
		for i := range out {
			out[i] = rapid.SampledFrom(words).Draw(t, "w")
		}
		s := strings.Join(out, " ")
		// What JSON writers differ about.
		return s + rapid.SampledFrom([]string{".", "!", "\n", " <b>", " \"x\"", " ü€😀", "\t", " \\d"}).Draw(t, "end")
	})
}

// genTalk draws a conversation that a client has just sent.
func genTalk(t *rapid.T) *talk {
	d := rapid.SampledFrom(talkDialects).Draw(t, "dialect")
	s := &talk{dialect: d, model: talkModels[d], marks: d == dialectMessages || d == dialectConverse, history: rapid.Bool().Draw(t, "order")}
	for i := range rapid.IntRange(2, 6).Draw(t, "tools") {
		name := "tool_" + itoa(i)
		if i%3 == 2 {
			name = "mcp__srv" + itoa(i%2) + "__" + name
		}
		s.tools = append(s.tools, talkTool{name, genText(3, 12).Draw(t, "about"),
			`{"type":"object","properties":{"path":{"type":"string","description":` + q(genText(1, 5).Draw(t, "d")) + `},"n":{"type":"integer"}},"required":["path"]}`})
	}
	s.system = []string{shortHouse(dialectChat) + genText(5, 40).Draw(t, "system")}
	for range rapid.IntRange(1, 2).Draw(t, "blocks") {
		s.system = append(s.system, genText(8, 30).Draw(t, "system"))
	}
	id := 0
	for i := range rapid.IntRange(2, 5).Draw(t, "turns") {
		s.msgs = append(s.msgs, user(txt("Q"+itoa(i)+": "+genText(4, 20).Draw(t, "user"))))
		var parts []talkPart
		if rapid.Bool().Draw(t, "thinks") {
			parts = append(parts, think("T"+itoa(i)+": "+genText(2, 9).Draw(t, "thought")))
		}
		parts = append(parts, txt("A"+itoa(i)+": "+genText(6, 20).Draw(t, "answer")))
		if rapid.Bool().Draw(t, "calls") {
			id++
			c := "call_" + itoa(id)
			parts = append(parts, call(c, s.tools[0].name, `{"path":`+q("/srv/"+itoa(i))+`,"n":`+itoa(id)+`}`))
			s.msgs = append(s.msgs, assistant(parts...), toolMsg(result(c, "R"+itoa(i)+": "+genText(20, 60).Draw(t, "result"))), assistant(txt("B"+itoa(i)+": "+genText(6, 12).Draw(t, "answer"))))
			continue
		}
		s.msgs = append(s.msgs, assistant(parts...))
	}
	s.msgs = append(s.msgs, user(txt("Last: "+genText(4, 20).Draw(t, "user"))))
	return s
}

// injection is one kind of edit. fits says whether it can be made in s; make
// changes t, which is s and a turn more.
type injection struct {
	name  string
	want  Label
	fits  func(s *talk) bool
	base  func(rt *rapid.T, s *talk)
	make_ func(rt *rapid.T, t *talk)
}

func is(dialects ...string) func(s *talk) bool {
	return func(s *talk) bool { return slices.Contains(dialects, s.dialect) }
}

// find picks a part of a kind that is not in the last two messages.
func pick(rt *rapid.T, s *talk, before int, ok func(m *talkMsg, p *talkPart) bool) (int, int) {
	var all [][2]int
	for i := range s.msgs[:before] {
		for k := range s.msgs[i].parts {
			if ok(&s.msgs[i], &s.msgs[i].parts[k]) {
				all = append(all, [2]int{i, k})
			}
		}
	}
	if len(all) == 0 {
		rt.Skip("nothing to edit in this session")
	}
	c := rapid.SampledFrom(all).Draw(rt, "where")
	return c[0], c[1]
}

func hasKind(kind string) func(*talkMsg, *talkPart) bool {
	return func(_ *talkMsg, p *talkPart) bool { return p.kind == kind }
}

func old(t *talk) int { return len(t.msgs) - 3 } // before the last input of the first request

var injections = []injection{
	{name: "order", want: ToolsOrder, make_: func(rt *rapid.T, t *talk) {
		i := rapid.IntRange(0, len(t.tools)-2).Draw(rt, "i")
		t.tools[i], t.tools[i+1] = t.tools[i+1], t.tools[i]
	}},
	{name: "added", want: ToolsAdded, make_: func(rt *rapid.T, t *talk) {
		i := rapid.IntRange(0, len(t.tools)).Draw(rt, "i")
		t.tools = slices.Insert(t.tools, i, talkTool{"fresh", "A tool that was not there.", `{"type":"object","properties":{}}`})
	}},
	{name: "removed", want: ToolsRemoved, make_: func(rt *rapid.T, t *talk) {
		i := rapid.IntRange(0, len(t.tools)-1).Draw(rt, "i")
		t.tools = slices.Delete(t.tools, i, i+1)
	}},
	{name: "keys", want: ToolsKeyOrder, make_: func(rt *rapid.T, t *talk) {
		i := rapid.IntRange(0, len(t.tools)-1).Draw(rt, "i")
		s := t.tools[i].schema
		t.tools[i].schema = strings.Replace(s, `{"type":"object",`, `{`, 1)
		t.tools[i].schema = strings.TrimSuffix(t.tools[i].schema, "}") + `,"type":"object"}`
	}},
	{name: "tool edited", want: ToolsEdit, make_: func(rt *rapid.T, t *talk) {
		i := rapid.IntRange(0, len(t.tools)-1).Draw(rt, "i")
		t.tools[i].text += " " + rapid.SampledFrom(words).Draw(rt, "w")
	}},
	{name: "tool volatile", want: ToolsVolatile, base: func(rt *rapid.T, s *talk) {
		s.tools[len(s.tools)-1].text += " Session " + genUUID(rt) + " of this run."
	}, make_: func(rt *rapid.T, t *talk) {
		text := &t.tools[len(t.tools)-1].text
		i := strings.Index(*text, "Session ") + 8
		*text = (*text)[:i] + genUUID(rt) + (*text)[i+36:]
	}},
	{name: "clock", want: SystemTime, base: func(rt *rapid.T, s *talk) {
		i := rapid.IntRange(0, len(s.system)-1).Draw(rt, "block")
		s.system[i] = "Now: 2026-11-30T10:00:00Z. " + s.system[i]
	}, make_: func(rt *rapid.T, t *talk) {
		for i := range t.system {
			t.system[i] = strings.Replace(t.system[i], "T10:00:00Z", "T1"+itoa(rapid.IntRange(1, 9).Draw(rt, "h"))+":3"+itoa(rapid.IntRange(0, 9).Draw(rt, "m"))+":07Z", 1)
		}
	}},
	{name: "nonce", want: SystemNonce, base: func(rt *rapid.T, s *talk) { s.system[0] = "Run " + genUUID(rt) + ". " + s.system[0] },
		make_: func(rt *rapid.T, t *talk) { t.system[0] = "Run " + genUUID(rt) + t.system[0][40:] }},
	{name: "dynamic", want: SystemDynamic, make_: func(rt *rapid.T, t *talk) {
		i := rapid.IntRange(0, len(t.system)-1).Draw(rt, "block")
		at := strings.IndexByte(t.system[i], ' ')
		t.system[i] = t.system[i][:at] + " open files: alpha, beta" + t.system[i][at:]
	}},
	{name: "system order", want: SystemOrder, fits: is(dialectMessages, dialectChat, dialectGemini, dialectConverse), make_: func(rt *rapid.T, t *talk) {
		i := len(t.system) - 2
		if t.system[i] == t.system[i+1] {
			rt.Skip("equal blocks")
		}
		t.system[i], t.system[i+1] = t.system[i+1], t.system[i]
	}},
	{name: "result shortened", want: HistoryMutated, make_: func(rt *rapid.T, t *talk) {
		i, k := pick(rt, t, old(t), hasKind("result"))
		t.msgs[i].parts[k].text = t.msgs[i].parts[k].text[:rapid.IntRange(3, 20).Draw(rt, "n")]
	}},
	{name: "answer edited", want: HistoryMutated, make_: func(rt *rapid.T, t *talk) {
		i, k := pick(rt, t, old(t), func(m *talkMsg, p *talkPart) bool { return p.kind == "text" })
		t.msgs[i].parts[k].text = "Well. " + t.msgs[i].parts[k].text
	}},
	{name: "ids", want: HistoryIDs, make_: func(rt *rapid.T, t *talk) {
		_, _ = pick(rt, t, old(t), hasKind("call"))
		for i := range t.msgs {
			for k := range t.msgs[i].parts {
				if p := &t.msgs[i].parts[k]; p.id != "" {
					p.id = "re_" + p.id
				}
			}
		}
	}},
	{name: "arguments", want: HistoryToolArgs, make_: func(rt *rapid.T, t *talk) {
		i, k := pick(rt, t, old(t), hasKind("call"))
		p := &t.msgs[i].parts[k]
		path, n, _ := strings.Cut(strings.Trim(p.args, "{}"), ",")
		p.args = "{" + n + "," + path + "}"
	}},
	{name: "reasoning dropped", want: HistoryReasoning, make_: func(rt *rapid.T, t *talk) {
		i, k := pick(rt, t, old(t), hasKind("think"))
		t.msgs[i].parts = slices.Delete(slices.Clone(t.msgs[i].parts), k, k+1)
	}},
	{name: "shape", want: HistoryShape, fits: is(dialectMessages, dialectChat, dialectResponses), make_: func(rt *rapid.T, t *talk) {
		i, _ := pick(rt, t, old(t), func(m *talkMsg, p *talkPart) bool { return m.role == "user" })
		t.msgs[i].asStr = true
	}},
	{name: "blank", want: HistoryShape, make_: func(rt *rapid.T, t *talk) {
		i, _ := pick(rt, t, old(t), func(m *talkMsg, p *talkPart) bool { return m.role == "user" })
		t.msgs[i].parts = append(slices.Clone(t.msgs[i].parts), txt(" "))
	}},
	{name: "transient", want: HistoryTransient, fits: is(dialectChat, dialectResponses, dialectGemini), base: func(rt *rapid.T, s *talk) {
		m := &s.msgs[len(s.msgs)-1]
		m.parts = append(m.parts, txt("<context>"+genText(3, 9).Draw(rt, "context")+"</context>"))
	}, make_: func(rt *rapid.T, t *talk) {
		m := &t.msgs[len(t.msgs)-3]
		m.parts = m.parts[:1]
	}},
	{name: "model", want: ParamModel, fits: is(dialectMessages, dialectChat, dialectResponses), make_: func(rt *rapid.T, t *talk) { t.model += "-x" }},
	{name: "effort", want: ParamEffort, fits: is(dialectChat), make_: func(rt *rapid.T, t *talk) { t.params = []string{`"reasoning_effort":"high"`} }},
	{name: "thinking", want: ParamThinking, fits: is(dialectMessages), make_: func(rt *rapid.T, t *talk) {
		t.params = []string{`"thinking":{"type":"adaptive"}`}
	}},
	{name: "markers", want: BreakpointDropped, fits: is(dialectMessages, dialectConverse), make_: func(rt *rapid.T, t *talk) { t.marks = false }},
	{name: "lifetime", want: TTLChanged, fits: is(dialectMessages), make_: func(rt *rapid.T, t *talk) { t.ttl = "1h" }},
	{name: "growth", want: Append, make_: func(rt *rapid.T, t *talk) {}},
	{name: "sampling", want: Append, make_: func(rt *rapid.T, t *talk) { t.params = []string{`"temperature":0.3`} }},
}

func genUUID(t *rapid.T) string {
	h := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "0123456789abcdef"[rapid.IntRange(0, 15).Draw(t, "h")]
		}
		return string(b)
	}
	return h(8) + "-" + h(4) + "-4" + h(3) + "-a" + h(3) + "-" + h(12)
}

// TestInjectedChanges: edits of a known kind in generated sessions are named as
// what they are.
func TestInjectedChanges(t *testing.T) {
	for _, in := range injections {
		t.Run(in.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := genTalk(rt)
				if in.fits != nil && !in.fits(s) {
					rt.Skip("not in this dialect")
				}
				if in.base != nil {
					in.base(rt, s)
				}
				u := s.say(more(rapid.IntRange(0, 99).Draw(rt, "turn"))...)
				in.make_(rt, u)
				a, b := s.body(), u.body()
				if string(a) == string(b) {
					rt.Skip("the edit changed nothing")
				}
				if res := compareBodies(a, b); res.Label != in.want {
					rt.Fatalf("%s (%s), want %s: labels %v\n%s\n%s", res.Label, res.Detail, in.want, res.Labels, a, b)
				}
			})
		})
	}
}

// TestAppendingIsNeverABreak: whatever a session holds, sending it again with
// more messages is growth, in any number of steps.
func TestAppendingIsNeverABreak(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := genTalk(rt)
		c := New(Options{Retain: rapid.SampledFrom([]int{0, 1}).Draw(rt, "retain")})
		c.Add(exchangeOf(s.body()))
		for i := range rapid.IntRange(1, 4).Draw(rt, "steps") {
			s = s.say(more(i)...)
			if res := c.Add(exchangeOf(s.body())); res.Label != Append || res.Break {
				rt.Fatalf("step %d: %s (%s)", i, res.Label, res.Detail)
			}
		}
	})
}

// TestConversationsDontMeet: conversations of one client that go on side by
// side, with the same tools and system text, are told apart, whether something
// names a session or not; and so are title requests between them.
func TestConversationsDontMeet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base := genTalk(rt)
		session := rapid.SampledFrom([]string{"", "one-a-credential"}).Draw(rt, "session")
		var talks []*talk
		for i := range rapid.IntRange(2, 4).Draw(rt, "talks") {
			s := base.clone()
			s.msgs = []talkMsg{user(txt("Conversation " + itoa(i) + ". " + genText(3, 20).Draw(rt, "opening")))}
			if rapid.Bool().Draw(rt, "reminded") && s.dialect != dialectResponses {
				s.msgs[0].parts = append([]talkPart{txt("<reminder>Be brief and exact.</reminder>")}, s.msgs[0].parts...)
			}
			talks = append(talks, s)
		}
		c := New(Options{})
		started := make([]bool, len(talks))
		for step := range rapid.IntRange(4, 12).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(talks)-1).Draw(rt, "turn")
			if rapid.IntRange(0, 5).Draw(rt, "title") == 0 {
				title := &talk{dialect: base.dialect, model: base.model, system: []string{"Write a title for it."}, msgs: []talkMsg{user(txt("Conversation " + itoa(i) + ", step " + itoa(step)))}}
				if res := c.Add(&Exchange{Body: title.body(), Session: session}); res.Break {
					rt.Fatalf("a title request: %s (%s)", res.Label, res.Detail)
				}
				continue
			}
			res := c.Add(&Exchange{Body: talks[i].body(), Session: session})
			want := Append
			if !started[i] {
				want = First
			}
			if res.Label != want && !(want == First && res.Label == Fork) {
				rt.Fatalf("step %d, conversation %d: %s (%s) after %d, want %s", step, i, res.Label, res.Detail, res.Previous, want)
			}
			started[i] = true
			talks[i] = talks[i].say(assistant(txt("Answer "+itoa(step)+" of conversation "+itoa(i)+": "+genText(4, 9).Draw(rt, "answer"))), user(txt("And "+itoa(step)+"? "+genText(2, 6).Draw(rt, "user"))))
		}
	})
}
