package wire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// play feeds a stream and returns what the client gets and the calls that were
// complete. rule decides about a call.
func play(d Dialect, in string, inert Inert, l Limits, rule func(Call) Ruling) (out string, calls []string, err error) {
	st := NewStream(d, inert, l)
	rd := sse.NewReader(strings.NewReader(in), 1<<20)
	var b bytes.Buffer
	for {
		ev, err := rd.Next()
		if err == io.EOF {
			return b.String(), calls, st.End()
		}
		if err != nil {
			return b.String(), calls, err
		}
		step, err := st.Feed(ev)
		if err != nil {
			return b.String(), calls, err
		}
		b.Write(step.Flow)
		if step.Calls == nil {
			continue
		}
		var rulings []Ruling
		for _, c := range step.Calls {
			s := fmt.Sprintf("%d %s %s %s", c.Index, c.ID, c.Name, c.Args)
			if c.Malformed != "" {
				s += " (" + c.Malformed + ")"
			}
			calls = append(calls, s)
			rulings = append(rulings, rule(c))
		}
		b.Write(st.Release(rulings))
	}
}

func allow(Call) Ruling { return Ruling{} }

func replace(Call) Ruling { return Ruling{Replace: true, Name: "no", Args: []byte(`{"why":"\""}`)} }

// messagesEvents writes events with their event lines; a dash in front leaves
// that line out.
func messagesEvents(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var t tape.Tape
		d, bare := strings.CutPrefix(d, "-")
		if !bare && t.Parse([]byte(d)) == nil && t.Get(0, "type") >= 0 {
			b.WriteString("event: " + t.Str(t.Get(0, "type")) + "\n")
		}
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func chatEvents(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

const (
	mStart = `{"type":"message_start","message":{"id":"m","role":"assistant","content":[]}}`
	mText  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	mDelta = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
	mStop0 = `{"type":"content_block_stop","index":0}`
	mStop1 = `{"type":"content_block_stop","index":1}`
	mEnd   = `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`
	mStop  = `{"type":"message_stop"}`
)

func mCall(i int, id, name string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, i, id, name)
}

func mArgs(i int, json string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, tape.Quote(nil, json))
}

// raw writes line separators as they are.
func raw(event string) string {
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029", `\u0085`, "\u0085").Replace(event)
}

func TestMessagesStream(t *testing.T) {
	for _, c := range []struct {
		name  string
		in    []string
		calls []string
		err   string
	}{
		{"text", []string{mStart, mText, mDelta, mStop0, mEnd, mStop}, nil, ""},
		{"a call in pieces", []string{mStart, mCall(0, "a", "Bash"), mArgs(0, ""), mArgs(0, `{"command"`), `{"type":"ping"}`, mArgs(0, `:"ls"}`), mStop0, mEnd, mStop}, []string{`0 a Bash {"command":"ls"}`}, ""},
		{"a call without arguments", []string{mStart, mCall(0, "a", "Bash"), mStop0, mEnd}, []string{"0 a Bash "}, ""},
		{"text, then two calls", []string{mStart, mText, mDelta, mStop0, mCall(1, "a", "A"), mArgs(1, "{}"), mStop1, mCall(2, "b", "B"), mArgs(2, "{}"), `{"type":"content_block_stop","index":2}`, mEnd}, []string{"0 a A {}", "1 b B {}"}, ""},
		{"no event lines at all", []string{"-" + mStart, "-" + mCall(0, "a", "A"), "-" + mArgs(0, "{}"), `{"type":"ping"}`, "-" + mStop0}, []string{"0 a A {}"}, ""},
		{"a tool that the provider runs", []string{mStart, `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"a","name":"web_search","input":{}}}`, mArgs(0, `{"q":1}`), mStop0}, nil, ""},
		{"an error inside a call", []string{mStart, mCall(0, "a", "A"), mArgs(0, "{}"), `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`}, nil, ""},
		{"[DONE] at the end", []string{mStart, mEnd, mStop, "[DONE]"}, nil, ""},
		{"half a surrogate pair in a piece", []string{mStart, mCall(0, "a", "A"), `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":\"\ud83d"}}`, mStop0}, []string{"0 a A {\"x\":\"\ufffd (half a surrogate pair in the arguments)"}, ""},

		{"no JSON", []string{mStart, `{"type":`}, nil, "event: the text ends where a value should start at byte 8"},
		{"same key twice", []string{mStart, `{"type":"ping","type":"content_block_start"}`}, nil, "event: a key that the object has already at byte 15"},
		{"same key deep inside", []string{mStart, mText, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x","text":"y"}}`}, nil, "event: a key that the object has already at byte 80"},
		{"no type", []string{`{"x":1}`}, nil, "event: it has no type"},
		{"type is no string", []string{`{"type":1}`}, nil, "event: it has no type"},
		{"an array", []string{`[1]`}, nil, "event: its data is an array, not an object"},
		{"unknown event", []string{mStart, `{"type":"content_block_replace"}`}, nil, "event content_block_replace: an unknown event type, which could carry a call"},
		{"unknown block", []string{mStart, `{"type":"content_block_start","index":0,"content_block":{"type":"agent_use","id":"a"}}`}, nil, `content_block_start: an unknown block type "agent_use", which could be a call`},
		{"unknown delta", []string{mStart, mText, `{"type":"content_block_delta","index":0,"delta":{"type":"tool_delta"}}`}, nil, `content_block_delta: an unknown delta type "tool_delta"`},
		{"arguments in a text block", []string{mStart, mText, mArgs(0, "{}")}, nil, `content_block_delta: arguments in a block of type "text"`},
		{"text in a call", []string{mStart, mCall(0, "a", "A"), mDelta}, nil, `content_block_delta: a delta of type "text_delta" in a call`},
		{"content in message_start", []string{`{"type":"message_start","message":{"content":[{"type":"tool_use","id":"a","name":"A","input":{}}]}}`}, nil, "message_start: it holds content, which some clients run"},
		{"two message_start", []string{mStart, mStart}, nil, "message_start: a second one"},
		{"a block before message_start", []string{mText}, nil, "content_block_start: outside of a message"},
		{"a block after message_stop", []string{mStart, mEnd, mStop, mText}, nil, "content_block_start: outside of a message"},
		{"an index that skips", []string{mStart, mCall(1, "a", "A")}, nil, "content_block_start: its index is not 0, the next one"},
		{"an index that repeats", []string{mStart, mText, mStop0, mCall(0, "a", "A")}, nil, "content_block_start: its index is not 1, the next one"},
		{"an index of 0.0", []string{mStart, `{"type":"content_block_start","index":0.0,"content_block":{"type":"text"}}`}, nil, "content_block_start: its index is not 0, the next one"},
		{"a block in a block", []string{mStart, mText, mCall(1, "a", "A")}, nil, "content_block_start: inside another block"},
		{"a delta for another block", []string{mStart, mText, mStop0, mCall(1, "a", "A"), mArgs(0, "{}")}, nil, "content_block_delta: its index is not 1, the open block's"},
		{"a delta outside of a block", []string{mStart, mArgs(0, "{}")}, nil, "content_block_delta: outside of a block"},
		{"a stop outside of a block", []string{mStart, mStop0}, nil, "content_block_stop: outside of a block"},
		{"a stop for another block", []string{mStart, mCall(0, "a", "A"), mStop1}, nil, "content_block_stop: its index is not 0, the open block's"},
		{"the end inside a block", []string{mStart, mCall(0, "a", "A"), mEnd}, nil, "message_delta: inside a content block"},
		{"arguments in the start", []string{mStart, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"A","input":{"x":1}}}`}, nil, "content_block_start: a call whose input at the start is not {}"},
		{"an empty input of another spelling", []string{mStart, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"A","input":{ }}}`}, nil, "content_block_start: a call whose input at the start is not {}"},
		{"some events without an event line", []string{mStart, "-" + mText}, nil, "event content_block_start: some events have an event line and some have none"},
		{"partial_json is an object", []string{mStart, mCall(0, "a", "A"), `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":{}}}`}, nil, "content_block_delta: partial_json is an object, not a string"},
		{"a call without an id", []string{mStart, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"A","input":{}}}`}, nil, "content_block_start: a call without an id and a name"},
		{"two calls with one id", []string{mStart, mCall(0, "a", "A"), mStop0, mCall(1, "a", "B")}, []string{"0 a A "}, `content_block_start: a second call with the id "a"`},
		{"a key in another case", []string{mStart, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""},"Content_Block":{"type":"tool_use","id":"a","name":"A"}}`}, nil, `Content_Block: a key that some clients read as "content_block"`},
		{"a type in another case", []string{mStart, `{"type":"content_block_start","index":0,"content_block":{"type":"text","TYPE":"tool_use"}}`}, nil, `TYPE: a key that some clients read as "type"`},
		{"too many calls", []string{mStart, mCall(0, "a", "A"), mStop0, mCall(1, "b", "A"), mStop1, mCall(2, "c", "A")}, []string{"0 a A ", "1 b A "}, "content_block_start: more than 2 calls in one reply"},
		{"a line separator in arguments", []string{mStart, mCall(0, "a", "A"), raw(mArgs(0, "{\"x\":\"\u2028\"}")), mStop0, mEnd, mStop}, []string{"0 a A {\"x\":\"\u2028\"} (" + breaksText + ")"}, ""},
		{"an escaped one", []string{mStart, mCall(0, "a", "A"), mArgs(0, "{\"x\":\"\u2028\"}"), mStop0, mEnd, mStop}, []string{"0 a A {\"x\":\"\u2028\"}"}, ""},
		{"a line separator beside arguments", []string{mStart, mCall(0, "a", "A"), strings.Replace(mArgs(0, "{}"), `"index"`, "\"\u0085\":0,\"index\"", 1)}, nil, "content_block_delta: a character at which some clients end a line, in an event of a call"},
		{"a line separator in an id", []string{mStart, raw(mCall(0, "a\u2029", "A"))}, nil, "content_block_start: a character at which some clients end a line, in an event of a call"},
		{"a call after a text that begins with one", []string{mStart, strings.Replace(mText, `"text":""`, "\"text\":\"\u2028\"", 1), mDelta, mStop0, mCall(1, "a", "A")}, nil, "content_block_start: a call after a block whose start has a character at which some clients end a line"},
		{"a call that is too large", []string{mStart, mCall(0, "a", "A"), mArgs(0, strings.Repeat("x", 300))}, nil, "content_block_delta: a call of more than 256 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := messagesEvents(c.in...)
			out, calls, err := play(Messages, in, nil, Limits{Call: 256, Held: 4096, Calls: 2}, allow)
			check(t, in, out, calls, err, c.calls, c.err)
		})
	}
	in := "event: ping\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n"
	_, _, err := play(Messages, messagesEvents(mStart)+in, nil, DefaultLimits, allow)
	if err == nil || err.Error() != `event content_block_start: its event line says "ping"` {
		t.Errorf("an event line that differs from the type: %v", err)
	}
}

func check(t *testing.T, in, out string, calls []string, err error, wantCalls []string, wantErr string) {
	t.Helper()
	if got := fmt.Sprint(err); wantErr != "" && got != wantErr || wantErr == "" && err != nil {
		t.Fatalf("error %v, want %q", err, wantErr)
	}
	if strings.Join(calls, "\n") != strings.Join(wantCalls, "\n") {
		t.Fatalf("calls %q, want %q", calls, wantCalls)
	}
	if !strings.HasPrefix(in, out) && !strings.Contains(in, `"error"`) {
		t.Fatalf("what flowed is no prefix of the stream:\n%s", out)
	}
}

const (
	cRole = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	cText = `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`
	cEnd  = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	cDone = `[DONE]`
)

func cDelta(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }

func cCall(i int, id, name, args string) string {
	return cDelta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]}`, i, id, name, tape.Quote(nil, args)))
}

func cArgs(i int, args string) string {
	return cDelta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, tape.Quote(nil, args)))
}

func TestChatStream(t *testing.T) {
	for _, c := range []struct {
		name  string
		in    []string
		calls []string
		err   string
	}{
		{"text", []string{cRole, cText, cEnd, cDone}, nil, ""},
		{"a call in pieces", []string{cRole, cText, cCall(0, "a", "bash", ""), cArgs(0, `{"command"`), cArgs(0, `:"ls"}`), cEnd, `{"choices":[],"usage":{}}`, cDone}, []string{`0 a bash {"command":"ls"}`}, ""},
		{"no finish reason, only [DONE]", []string{cCall(0, "a", "bash", "{}"), cDone}, []string{"0 a bash {}"}, ""},
		{"two calls in one chunk", []string{cDelta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"A"}},{"index":1,"id":"b","function":{"name":"B","arguments":"{}"}}]}`), cEnd}, []string{"0 a A ", "1 b B {}"}, ""},
		{"id and name repeated, empty or null", []string{cCall(0, "a", "A", "{"), cCall(0, "a", "A", ""), cDelta(`{"tool_calls":[{"index":0,"id":"","type":null,"function":{"name":null,"arguments":"}"}}]}`), cEnd}, []string{"0 a A {}"}, ""},
		{"finish in the chunk of the call", []string{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"A","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`}, []string{"0 a A {}"}, ""},
		{"empty tool_calls and function_call", []string{cDelta(`{"content":"x","tool_calls":[],"function_call":null}`), cDelta(`{"tool_calls":null}`), cEnd}, nil, ""},
		{"reasoning", []string{cDelta(`{"reasoning_content":"hm"}`), cDelta(`{"reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}`), cEnd}, nil, ""},
		{"an unknown field without a call", []string{cDelta(`{"x_future":{"a":[1]}}`), cEnd}, nil, ""},
		{"text in another choice", []string{`{"choices":[{"index":1,"delta":{"content":"x"}}]}`, `{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`, cEnd}, nil, ""},
		{"the end before the call is whole", []string{cCall(0, "a", "A", `{"x":`)}, nil, ""},
		{"an error inside a call", []string{cCall(0, "a", "A", `{`), `{"error":{"message":"overloaded"}}`}, nil, ""},
		{"an error alone", []string{`{"error":{"message":"overloaded"}}`}, nil, ""},

		{"function_call", []string{cDelta(`{"function_call":{"name":"A","arguments":"{}"}}`)}, nil, "delta: function_call, the retired form of a call"},
		{"a message in a chunk", []string{`{"choices":[{"index":0,"message":{"tool_calls":[]}}]}`}, nil, "choice: a whole message inside a chunk"},
		{"a call in a chunk of another completion", []string{`{"id":"x","choices":[]}`, `{"id":"y","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"A"}}]}}]}`}, nil, "tool_calls: a call in a chunk whose id some clients do not take"},
		{"a call in a chunk with a role of its own", []string{cDelta(`{"role":"tool","tool_calls":[{"index":0,"id":"a","function":{"name":"A"}}]}`)}, nil, "tool_calls: a call in a chunk whose role some clients do not take"},
		{"a call in a chunk of odd types", []string{`{"created":"now","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"A"}}]}}]}`}, nil, "tool_calls: a call in a chunk whose created some clients do not take"},
		{"a piece without a function", []string{cCall(0, "a", "A", "{}"), cDelta(`{"tool_calls":[{"index":0}]}`)}, nil, "tool_calls: function is nothing, not an object"},
		{"custom type", []string{cDelta(`{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"A","input":"x"}}]}`)}, nil, "tool_calls: a call of a type other than function"},
		{"an unknown field with a call", []string{cDelta(`{"calls":[{"name":"A"}]}`)}, nil, `delta: an unknown member "calls", which could be a call`},
		{"an unknown field in the choice", []string{`{"choices":[{"index":0,"delta":{},"extra":{"function":{}}}]}`}, nil, `choice: an unknown member "extra", which could be a call`},
		{"content that holds a call", []string{cDelta(`{"content":[{"type":"tool_use","name":"A"}]}`)}, nil, "delta: a member holds what could be a call"},
		{"a call in another choice", []string{`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"A"}}]}}]}`}, nil, "tool_calls: a call in a choice other than the first"},
		{"choice 0 in second place", []string{`{"choices":[{"index":1,"delta":{}},{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"A"}}]}}]}`}, nil, "tool_calls: a call in a choice other than the first"},
		{"no index", []string{cDelta(`{"tool_calls":[{"id":"a","function":{"name":"A"}}]}`)}, nil, "tool_calls: a call without an index"},
		{"an index that skips", []string{cCall(1, "a", "A", "{}")}, nil, "tool_calls: index 1, where call -1 is open"},
		{"pieces of two calls in turn", []string{cCall(0, "a", "A", "{"), cCall(1, "b", "B", "{"), cArgs(0, "}")}, nil, "tool_calls: index 0, where call 1 is open"},
		{"no id", []string{cDelta(`{"tool_calls":[{"index":0,"function":{"name":"A"}}]}`)}, nil, "tool_calls: a call without an id and a name"},
		{"no name", []string{cDelta(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}`)}, nil, "tool_calls: a call without an id and a name"},
		{"another name later", []string{cCall(0, "a", "A", ""), cCall(0, "a", "B", "{}")}, nil, "tool_calls: a call that changes its id or name"},
		{"another id later", []string{cCall(0, "a", "A", ""), cCall(0, "b", "A", "{}")}, nil, "tool_calls: a call that changes its id or name"},
		{"two calls with one id", []string{cCall(0, "a", "A", "{}"), cCall(1, "a", "B", "{}")}, nil, `tool_calls: two calls with the id "a"`},
		{"text inside a call", []string{cCall(0, "a", "A", `{"x":"1"`), cText, cArgs(0, "}")}, nil, "tool_calls: a call that goes on after other content"},
		{"arguments are an object", []string{cDelta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"A","arguments":{}}}]}`)}, nil, "tool_calls: an id, a name or arguments that are an object, not a string"},
		{"a call after the end", []string{cEnd, cCall(0, "a", "A", "{}")}, nil, "tool_calls: a call after the finish reason"},
		{"a chunk after [DONE]", []string{cDone, cText}, nil, "chunk: it comes after [DONE]"},
		{"an object in the place of choices", []string{`{"choices":{"0":{}}}`}, nil, "chunk: choices is an object, not an array"},
		{"delta is an array", []string{`{"choices":[{"index":0,"delta":[1]}]}`}, nil, "delta: it is an array, not an object"},
		{"key in another case", []string{cDelta(`{"content":"x","Tool_Calls":[]}`)}, nil, `Tool_Calls: a key that some clients read as "tool_calls"`},
		{"same key twice", []string{`{"choices":[],"choices":[]}`}, nil, "chunk: a key that the object has already at byte 14"},
		{"no JSON", []string{"x"}, nil, "chunk: no JSON value at byte 0"},
		{"a line separator in arguments", []string{cCall(0, "a", "A", ""), raw(cArgs(0, "{\"x\":\"\u2028\"}")), cEnd, cDone}, []string{"0 a A {\"x\":\"\u2028\"} (" + breaksText + ")"}, ""},
		{"a line separator beside arguments", []string{cCall(0, "a", "A", ""), strings.Replace(cArgs(0, "{}"), `{"choices"`, "{\"x\":\"\u2028\",\"choices\"", 1)}, nil, "tool_calls: a character at which some clients end a line, in an event of a call"},
		{"too many calls", []string{cCall(0, "a", "A", "{}"), cCall(1, "b", "A", "{}"), cCall(2, "c", "A", "{}")}, nil, "tool_calls: more than 2 calls in one reply"},
		{"a call that is too large", []string{cCall(0, "a", "A", strings.Repeat("x", 300))}, nil, "tool_calls: a call of more than 256 bytes"},
		{"too much held", []string{cCall(0, "a", "A", "{}"), cDelta(`{"content":"` + strings.Repeat("x", 4096) + `"}`)}, nil, "reply: more than 4096 bytes held"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := chatEvents(c.in...)
			out, calls, err := play(Chat, in, nil, Limits{Call: 256, Held: 4096, Calls: 2}, allow)
			check(t, in, out, calls, err, c.calls, c.err)
		})
	}
}

func TestInertTypesFlow(t *testing.T) {
	in := messagesEvents(mStart, `{"type":"x_event","n":1}`, `{"type":"content_block_start","index":0,"content_block":{"type":"x_block"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"x_delta"}}`, mStop0)
	if _, _, err := play(Messages, in, nil, DefaultLimits, allow); err == nil {
		t.Error("unknown types flow unasked")
	}
	out, _, err := play(Messages, in, Inert{"x_event": true, "x_block": true, "x_delta": true}, DefaultLimits, allow)
	if err != nil || out != in {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestReplacedCalls(t *testing.T) {
	in := messagesEvents(mStart, mText, mDelta, mStop0, mCall(1, "a", "Bash"), mArgs(1, `{"command":`), mArgs(1, `"x"}`), mStop1, mEnd, mStop)
	want := messagesEvents(mStart, mText, mDelta, mStop0, mCall(1, "a", "no"), mArgs(1, `{"why":"\""}`), mStop1, mEnd, mStop)
	if got, _, err := play(Messages, in, nil, DefaultLimits, replace); err != nil || got != want {
		t.Errorf("messages: %v\ngot  %s\nwant %s", err, got, want)
	}
	// The delta that is put there has an event line only if the others do.
	in = messagesEvents("-"+mStart, "-"+mCall(0, "a", "Bash"), "-"+mStop0)
	want = messagesEvents("-"+mStart, "-"+mCall(0, "a", "no"), "-"+mArgs(0, `{"why":"\""}`), "-"+mStop0)
	if got, _, err := play(Messages, in, nil, DefaultLimits, replace); err != nil || got != want {
		t.Errorf("messages, no event lines: %v\ngot  %s\nwant %s", err, got, want)
	}
	second := func(c Call) Ruling {
		if c.Index == 1 {
			return replace(c)
		}
		return Ruling{}
	}
	in = chatEvents(cRole, cCall(0, "a", "A", `{"x":`), cArgs(0, "1}"), cDelta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"B"}}]}`), cArgs(1, `{"y"`), cCall(1, "b", "B", `:2}`), cCall(2, "c", "C", "{}"), cEnd, cDone)
	want = chatEvents(cRole, cCall(0, "a", "A", `{"x":`), cArgs(0, "1}"), cDelta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"no","arguments":"{\"why\":\"\\\"\"}"}}]}`), cArgs(1, ``), cCall(1, "b", "", ``), cCall(2, "c", "C", "{}"), cEnd, cDone)
	if got, _, err := play(Chat, in, nil, DefaultLimits, second); err != nil || got != want {
		t.Errorf("chat: %v\ngot  %s\nwant %s", err, got, want)
	}
}

func TestWholeReplies(t *testing.T) {
	m := Route{Dialect: Messages}
	c := Route{Dialect: Chat}
	for _, tc := range []struct {
		name  string
		route Route
		in    string
		calls string
		out   string // with every call replaced; "" for the very same
		err   string
	}{
		{"text", m, `{"type":"message","content":[{"type":"text","text":"hi"}]}`, "", "", ""},
		{"a call", m, `{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"A","input":{"x": 1},"z":1}],"stop_reason":"tool_use"}`, `a A {"x": 1};`, `{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"no","input":{"why":"\""},"z":1}],"stop_reason":"tool_use"}`, ""},
		{"a call without input", m, `{"content":[{"type":"tool_use","id":"a","name":"A"}]}`, `a A ;`, `{"content":[{"type":"tool_use","id":"a","name":"no","input":{"why":"\""}}]}`, ""},
		{"count_tokens", Route{Dialect: Messages, Count: true}, `{"input_tokens":7}`, "", "", ""},
		{"an error", m, `{"type":"error","error":{"type":"x"}}`, "", "", ""},
		{"unknown block", m, `{"content":[{"type":"agent_use"}]}`, "", "", `content: an unknown block type "agent_use", which could be a call`},
		{"content is an object", m, `{"content":{"type":"tool_use"}}`, "", "", "content: it is an object, not an array"},
		{"content in another case", m, `{"Content":[{"type":"tool_use"}]}`, "", "", `Content: a key that some clients read as "content"`},
		{"cut", m, `{"content":[`, "", "", "reply: it is no JSON: the text ends where a value should start at byte 12"},
		{"two ids", m, `{"content":[{"type":"tool_use","id":"a","name":"A"},{"type":"tool_use","id":"a","name":"A"}]}`, "", "", `reply: two calls with the id "a"`},

		{"chat text", c, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}]}`, "", "", ""},
		{"chat call", c, `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"a","type":"function","function":{"name":"A","arguments":"{\"x\": 1}"}}]}}]}`, `a A {"x": 1};`, `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"a","type":"function","function":{"name":"no","arguments":"{\"why\":\"\\\"\"}"}}]}}]}`, ""},
		{"chat call without arguments", c, `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"A"}}]}}]}`, `a A ;`, `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"no","arguments":"{\"why\":\"\\\"\"}"}}]}}]}`, ""},
		{"chat, another choice", c, `{"choices":[{"index":0,"message":{}},{"index":1,"message":{"tool_calls":[{"id":"a","function":{"name":"A"}}]}}]}`, "", "", "tool_calls: a call in a choice other than the first"},
		{"chat, function_call", c, `{"choices":[{"message":{"function_call":{"name":"A"}}}]}`, "", "", "message: function_call, the retired form of a call"},
		{"chat, a delta", c, `{"choices":[{"delta":{"tool_calls":[{}]}}]}`, "", "", "choice: a delta in a whole reply"},
		{"chat, custom", c, `{"choices":[{"message":{"tool_calls":[{"id":"a","type":"custom","custom":{"name":"A"}}]}}]}`, "", "", "tool_calls: a call of a type other than function"},
		{"chat, unknown member", c, `{"choices":[{"message":{"tools":[{"name":"A"}]}}]}`, "", "", `message: an unknown member "tools", which could be a call`},
	} {
		t.Run(tc.name, func(t *testing.T) { checkWhole(t, tc.route, tc.in, tc.calls, tc.out, tc.err) })
	}
}

// checkWhole reads a whole reply: the error, or the calls in it and the bytes
// when all of them are replaced; "" for the same bytes. Allowed, a reply is the
// very slice that came, unless something was withheld.
func checkWhole(t *testing.T, route Route, in, calls, out, wantErr string) *Reply {
	t.Helper()
	rep, err := ReadReply(route, []byte(in), nil, DefaultLimits)
	if wantErr != "" {
		if err == nil || err.Error() != wantErr {
			t.Fatalf("error %v, want %q", err, wantErr)
		}
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	got, rulings, none := "", []Ruling{}, []Ruling{}
	for _, c := range rep.Calls {
		got += fmt.Sprintf("%s %s %s;", c.ID, c.Name, c.Args)
		rulings, none = append(rulings, replace(c)), append(none, Ruling{})
	}
	if got != calls {
		t.Errorf("calls %q, want %q", got, calls)
	}
	if out := rep.Release(none); len(rep.Withheld) == 0 && &out[0] != &rep.src[0] {
		t.Error("an allowed reply was copied")
	}
	if out == "" {
		out = in
	}
	if got := string(rep.Release(rulings)); got != out {
		t.Errorf("got  %s\nwant %s", got, out)
	}
	return rep
}

func TestMatch(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/messages": "anthropic-messages false", "//v1/messages/": "anthropic-messages false", "/messages": "anthropic-messages false",
		"/anthropic/v1/messages": "anthropic-messages false", "/v1/messages/count_tokens": "anthropic-messages true",
		"/chat/completions": "openai-chat false", "/v1/chat/completions/": "openai-chat false", "/openai/deployments/x/chat/completions": "openai-chat false",
		"/v1/chat/completions/chatcmpl-1": "", "/v1/messages/batches": "", "/v1/completions": "", "/v1/models": "", "/": "", "": "", "/v1/Messages": "", "/count_tokens": "",
		"/v1/responses": "openai-responses false", "/backend-api/codex/responses/": "openai-responses false", "/v1/responses/compact": "openai-responses false",
		"/v1/responses/input_tokens": "openai-responses true", "/v1/responses/resp_1": "openai-responses false stored", "/v1/responses/resp_1/cancel": "openai-responses false stored cancel",
		"/v1/responses/resp_1/input_items": "", "/v1/conversations/c/items": "", "/v1/responses/a/b/cancel": "", "/v1/Responses": "",
	} {
		got := ""
		if r, ok := Match(path); ok {
			got = fmt.Sprint(r.Dialect, " ", r.Count)
			if r.Stored {
				got += " stored"
			}
			if r.Cancel {
				got += " cancel"
			}
		}
		if got != want {
			t.Errorf("Match(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestCarriesCalls(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/messages": true, "/v1/Messages": true, "/v1/messages/batches/b/results": true, "/v1/chat/completions": true, "/v1/completions": true,
		"/v1/messages;x=1": true, "/v1/messages.": true, "/v1/messages ": true, "/v1/ messages": true, "/v1/messages\x00": true, "/v1/messages?x": true, "/v1\\messages": true, "/v1/messages/": true,
		"/v1beta/models/gemini:generateContent": true, "/v1beta/models/gemini:streamGenerateContent;x": true, "/models/claude:streamRawPredict": true, "/model/m/invoke-with-response-stream": true,
		"": false, "/": false, "/v1/models": false, "/v1/models/deepseek-chat": false, "/v1/models/x.chat": false, "/v1/usage": false, "/v1/messagesx": false, "/v1/x-messages": false, "/v1/files/file_1/content": false,
	} {
		if got := CarriesCalls(path); got != want {
			t.Errorf("CarriesCalls(%q) = %v", path, got)
		}
	}
}

// TestAllowedIsIdentical: whatever flows or is released untouched comes out
// as it went in.
func TestAllowedIsIdentical(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.SampledFrom([]Dialect{Messages, Chat}).Draw(r, "dialect")
		in := legal(r, d)
		out, _, err := play(d, in, nil, DefaultLimits, allow)
		if err != nil || out != in {
			r.Fatalf("%v\nin  %q\nout %q", err, in, out)
		}
	})
}

// legal draws a legal stream with odd spellings.
func legal(r *rapid.T, d Dialect) string {
	nl := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(r, "line ending")
	named := rapid.Bool().Draw(r, "event lines")
	var b strings.Builder
	put := func(data string) {
		if rapid.IntRange(0, 5).Draw(r, "comment") == 0 {
			b.WriteString(": " + rapid.StringMatching(`[a-z ]{0,9}`).Draw(r, "text") + nl + nl)
		}
		var t tape.Tape
		if d == Messages && t.Parse([]byte(data)) == nil && named {
			b.WriteString("event: " + t.Str(t.Get(0, "type")) + nl)
		}
		b.WriteString("data:" + rapid.SampledFrom([]string{"", " "}).Draw(r, "space") + data + nl + nl)
	}
	pieces := func(args string, piece func(string)) {
		for len(args) > 0 {
			n := rapid.IntRange(1, len(args)).Draw(r, "piece")
			for n < len(args) && args[n]&0xC0 == 0x80 {
				n++
			}
			piece(args[:n])
			args = args[n:]
		}
	}
	args := rapid.SampledFrom([]string{"", "{}", `{"command": "ls \"é\" 😀"}`, `{ "a" : [1, {"b":null}] }`, "not json", `{"a":1}{"a":2}`})
	blocks := rapid.IntRange(0, 4).Draw(r, "blocks")
	if d == Chat {
		put(cRole)
		calls := 0
		for range blocks {
			if calls == 0 && rapid.Bool().Draw(r, "text") {
				put(cText)
				continue
			}
			put(cCall(calls, fmt.Sprint("c", calls), "T", ""))
			pieces(args.Draw(r, "args"), func(p string) { put(cArgs(calls, p)) })
			calls++
		}
		put(cEnd)
		put(cDone)
		return b.String()
	}
	put(mStart)
	for i := range blocks {
		if rapid.Bool().Draw(r, "text") {
			put(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i))
			put(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":"x"}}`, i))
		} else {
			put(mCall(i, fmt.Sprint("t", i), "T"))
			pieces(args.Draw(r, "args"), func(p string) {
				put(mArgs(i, p))
				if rapid.IntRange(0, 4).Draw(r, "ping") == 0 {
					put(`{"type": "ping"}`)
				}
			})
		}
		put(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	put(mEnd)
	put(mStop)
	return b.String()
}

// FuzzStream: no input makes a stream panic, lets through what is no prefix of
// it, or gives another answer when every call is replaced.
func FuzzStream(f *testing.F) {
	f.Add(messagesEvents(mStart, mText, mDelta, mStop0, mCall(1, "a", "Bash"), mArgs(1, `{"command":`), mArgs(1, `"x"}`), mStop1, mEnd, mStop), false)
	f.Add(chatEvents(cRole, cCall(0, "a", "A", `{"x":`), cArgs(0, "1}"), cDelta(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"B"}}]}`), cEnd, cDone), true)
	f.Add("data: [DONE]", true)
	f.Add("event: message_start\r\ndata: {}\r\n\r\n", false)
	f.Fuzz(func(t *testing.T, in string, chat bool) {
		d := Messages
		if chat {
			d = Chat
		}
		out, calls, err := play(d, in, nil, DefaultLimits, allow)
		if err == nil && !strings.Contains(in, "error") && !strings.HasPrefix(in, out) {
			t.Fatalf("what flowed is no prefix of the stream:\n%q\n%q", in, out)
		}
		out2, calls2, err2 := play(d, in, nil, DefaultLimits, replace)
		if fmt.Sprint(calls, err) != fmt.Sprint(calls2, err2) {
			t.Fatalf("replacing calls changes what is seen: %q %v, %q %v", calls, err, calls2, err2)
		}
		// What the client gets has the same calls in the same places, all
		// replaced, and is in the grammar itself.
		if err == nil {
			_, calls3, err3 := play(d, out2, nil, DefaultLimits, allow)
			if err3 != nil || len(calls3) != len(calls) {
				t.Fatalf("the replaced stream is not legal: %v\n%q", err3, out2)
			}
			for _, c := range calls3 {
				if !strings.HasSuffix(c, ` no {"why":"\""}`) {
					t.Fatalf("a call that was not replaced: %s", c)
				}
			}
		}
	})
}

// TestFlowingAllocatesNothing: an event that passes costs no allocation.
func TestFlowingAllocatesNothing(t *testing.T) {
	for d, in := range map[Dialect][2]string{
		Messages:  {messagesEvents(mStart, mText), messagesEvents(mDelta)},
		Chat:      {chatEvents(cRole), chatEvents(cText)},
		Responses: {numbered(rStream(rText(0)[:2])...), numbered(rDelta("output_text", 0, "msg_1", "hi"))},
	} {
		st := NewStream(d, nil, DefaultLimits)
		feed := func(ev *sse.Event) {
			if _, err := st.Feed(ev); err != nil {
				t.Fatal(err)
			}
		}
		before := sse.NewReader(strings.NewReader(in[0]), 1<<20)
		for ev, err := before.Next(); err == nil; ev, err = before.Next() {
			feed(ev)
		}
		ev, err := sse.NewReader(strings.NewReader(in[1]), 1<<20).Next()
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { feed(ev) }); n != 0 {
			t.Errorf("%s: %v allocations an event", d, n)
		}
	}
}

func TestFolds(t *testing.T) {
	for key, want := range map[string]bool{`"type"`: true, `"TYPE"`: true, `"tyPe"`: true, `"\u0054ype"`: true, `"typ"`: false, `"types"`: false, `"tYpE "`: false, `"T9PE"`: false, `"@ype"`: false} {
		var tp tape.Tape
		if err := tp.Parse([]byte(key)); err != nil {
			t.Fatal(err)
		}
		if got := folds(&tp, 0, "type"); got != want {
			t.Errorf("folds(%s) = %v", key, got)
		}
	}
	var tp tape.Tape
	if err := tp.Parse([]byte(`"choiceſ"`)); err != nil || !folds(&tp, 0, "choices") {
		t.Error("the long s is not folded, as Go's decoder folds it")
	}
	if err := tp.Parse([]byte(`"tool_call\u017f"`)); err != nil || !folds(&tp, 0, "tool_calls") {
		t.Error("the escaped long s is not folded")
	}
}
