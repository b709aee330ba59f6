package cachecheck

import "testing"

// TestVendorsVerdicts: what providers say of a pair is read, and set beside what
// we say.
func TestVendorsVerdicts(t *testing.T) {
	edit := func(f func(s *talk)) func(s *talk) *talk {
		return func(s *talk) *talk { return s.say(more(1)...).with(f) }
	}
	grow := edit(func(*talk) {})
	clock := edit(func(s *talk) { s.system[1] = "It is 10:16 UTC." })
	tools := edit(func(s *talk) { s.tools[0], s.tools[1] = s.tools[1], s.tools[0] })
	model := edit(func(s *talk) { s.model += "-next" })
	effort := edit(func(s *talk) {
		s.params = []string{`"reasoning":{"effort":"low"}`, `"output_config":{"effort":"low"}`}
	})
	for _, c := range []struct {
		name, dialect string
		next          func(*talk) *talk
		says          string
		word, ours    string
		agreement     string
	}{
		{"tools", dialectMessages, tools, `{"cache_miss_reason":{"type":"tools_changed"}}`, "tools_changed", "tools_changed", "agrees"},
		{"system", dialectMessages, clock, `{"cache_miss_reason":{"type":"system_changed","cache_missed_input_tokens":9}}`, "system_changed", "system_changed", "agrees"},
		{"model", dialectMessages, model, `{"cache_miss_reason":{"type":"model_changed"}}`, "model_changed", "model_changed", "agrees"},
		{"parameters", dialectMessages, effort, `{"cache_miss_reason":{"type":"unavailable"}}`, "unavailable", "unavailable", "agrees"},
		{"no miss", dialectMessages, grow, `{"cache_miss_reason":null}`, "none", "none", "agrees"},
		{"another cause", dialectMessages, tools, `{"cache_miss_reason":{"type":"messages_changed"}}`, "messages_changed", "tools_changed", "disagrees"},
		{"a miss that we don't see", dialectMessages, grow, `{"cache_miss_reason":{"type":"messages_changed"}}`, "messages_changed", "none", "disagrees"},
		{"no comparison", dialectMessages, tools, `{"cache_miss_reason":{"type":"previous_message_not_found"}}`, "previous_message_not_found", "tools_changed", "silent"},
		{"no word for it", dialectMessages, tools, `{"cache_miss_reason":{"type":"unavailable"}}`, "unavailable", "tools_changed", "silent"},
		{"OpenAI's tools", dialectResponses, tools, `{"type":"cache_miss","reason":"tools_changed","cache_missed_tokens":800}`, "tools_changed", "tools_changed", "agrees"},
		{"OpenAI's input", dialectResponses, clock, `{"type":"cache_miss","reason":"input_changed"}`, "input_changed", "input_changed", "agrees"},
		{"OpenAI's effort", dialectResponses, effort, `{"type":"cache_miss","reason":"reasoning_effort_changed"}`, "reasoning_effort_changed", "reasoning_effort_changed", "agrees"},
		{"OpenAI's hit", dialectResponses, grow, `{"type":"cache_hit"}`, "cache_hit", "cache_hit", "agrees"},
		{"OpenAI's hit, against us", dialectResponses, tools, `{"type":"cache_hit"}`, "cache_hit", "tools_changed", "disagrees"},
		{"OpenAI compares with nothing", dialectResponses, tools, `{"type":"comparison_response_not_found"}`, "comparison_response_not_found", "tools_changed", "silent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := baseTalk(c.dialect)
			s.system[1] = "It is 10:15 UTC."
			ch := New(Options{})
			ch.Add(exchangeOf(s.body()))
			res := ch.Add(&Exchange{Body: c.next(s).body(), Diagnostics: []byte(c.says)})
			v := res.Vendor
			if v == nil || v.Word != c.word || v.Ours != c.ours || v.Agreement != c.agreement {
				t.Fatalf("%+v for %s, want %s, %s, %s", v, res.Label, c.word, c.ours, c.agreement)
			}
			sum := ch.Summary()
			if (sum.Agrees == 1) != (c.agreement == "agrees") || (sum.Disagrees == 1) != (c.agreement == "disagrees") {
				t.Errorf("counted as %d and %d", sum.Agrees, sum.Disagrees)
			}
		})
	}
	for _, says := range []string{"", "null", "[]", "x", "{}", `{"type":""}`} {
		ch := New(Options{})
		ch.Add(exchangeOf(baseTalk(dialectChat).body()))
		if res := ch.Add(&Exchange{Body: baseTalk(dialectChat).say(more(1)...).body(), Diagnostics: []byte(says)}); res.Vendor != nil {
			t.Errorf("%q was taken for %+v", says, res.Vendor)
		}
	}
}

// TestResponseIDsPair: a request that names the response it continues is
// compared with that one, whatever the sessions say.
func TestResponseIDsPair(t *testing.T) {
	s := baseTalk(dialectMessages)
	s.params = []string{`"diagnostics":{"previous_message_id":null}`}
	u := s.say(more(1)...)
	u.params = []string{`"diagnostics":{"previous_message_id":"msg_a"}`}
	c := New(Options{})
	c.Add(&Exchange{Body: s.body(), Session: "one", ResponseID: "msg_a"})
	c.Add(&Exchange{Body: s.body(), Session: "two", ResponseID: "msg_b"})
	if res := c.Add(&Exchange{Body: u.body(), Session: "two"}); res.Previous != 1 || res.Paired != "response_id" {
		t.Errorf("after %d by %s", res.Previous, res.Paired)
	}
}
