package wire

import (
	"io"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// What a stream says about itself, however it says it.
func TestTell(t *testing.T) {
	const start = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"m1","content":[],"usage":{"input_tokens":3}}}` + "\n\n"
	const delta = `event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\n"
	for name, c := range map[string]struct {
		dialect Dialect
		stream  string
		want    string // id, first, usage, diagnostics
	}{
		"Messages":                          {Messages, start + delta, `m1|{"input_tokens":3}|{"output_tokens":1}|`},
		"Messages, several deltas":          {Messages, start + delta + strings.ReplaceAll(delta, ":1}", ":2}"), `m1|{"input_tokens":3}|{"output_tokens":2}|`},
		"Messages, diagnostics at the end":  {Messages, start + strings.Replace(delta, `"usage"`, `"diagnostics":{"cache_miss_reason":null},"usage"`, 1), `m1|{"input_tokens":3}|{"output_tokens":1}|{"cache_miss_reason":null}`},
		"Messages, cut":                     {Messages, start, `m1|{"input_tokens":3}||`},
		"Messages, usage that is none":      {Messages, strings.Replace(start, `{"input_tokens":3}`, `7`, 1), `m1|||`},
		"Messages, comments and [DONE]":     {Messages, ": hello\n\n" + start + ": usage\n\ndata: [DONE]\n\n", `m1|{"input_tokens":3}||`},
		"Chat":                              {Chat, `data: {"id":"c1","choices":[]}` + "\n\n" + `data: {"id":"c2","choices":[],"usage":{"a":1}}` + "\n\ndata: [DONE]\n\n", `c1||{"a":1}|`},
		"Chat, null until the end":          {Chat, `data: {"id":"c1","choices":[],"usage":null}` + "\n\n" + `data: {"choices":[],"usage":{"a":1},"prompt_cache_diagnostics":{"type":"cache_hit"}}` + "\n\n", `c1||{"a":1}|{"type":"cache_hit"}`},
		"Chat, an id that is as long as it": {Chat, `data: {"id":"` + strings.Repeat("x", 2000) + `","choices":[]}` + "\n\n", `|||`},
	} {
		t.Run(name, func(t *testing.T) {
			st := NewStream(c.dialect, nil, DefaultLimits)
			rd := sse.NewReader(strings.NewReader(c.stream), 1<<20)
			var got Told
			for {
				ev, err := rd.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := st.Feed(ev); err != nil {
					t.Fatal(err)
				}
				got.Tell(st, ev)
			}
			if s := got.ID + "|" + string(got.First) + "|" + string(got.Usage) + "|" + string(got.Diagnostics); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

// A stream of another dialect says it in the response that its events hold.
func TestTellOfAResponse(t *testing.T) {
	var got Told
	for _, data := range []string{
		`{"type":"response.created","response":{"id":"r1","usage":null}}`,
		`{"type":"response.output_text.delta","delta":"response.completed"}`,
		`{"type":"response.completed","response":{"id":"r1","usage":{"input_tokens":5},"prompt_cache_diagnostics":{"type":"cache_miss"}}}`,
	} {
		got.Tell(nil, &sse.Event{Data: []byte(data), HasData: true})
	}
	if got.ID != "r1" || string(got.Usage) != `{"input_tokens":5}` || string(got.Diagnostics) != `{"type":"cache_miss"}` {
		t.Errorf("%+v", got)
	}
	got = Told{}
	got.TellReply(Responses, []byte(`{"id":"r2","usage":{"a":1}}`))
	got.TellReply(Responses, []byte(`no JSON`))
	if got.ID != "r2" || string(got.Usage) != `{"a":1}` {
		t.Errorf("%+v", got)
	}
}
