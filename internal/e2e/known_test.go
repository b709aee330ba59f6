package e2e

// Streams in which readers in use end up with different calls, each cut down
// to what it takes. Either the proxy refuses the stream, or no reader has
// anything that was not judged.

import (
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// quick is a Messages event with its event line.
func quick(data string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
	return event(name, data)
}

const (
	mStart = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`
	mOpen  = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c0","name":"Bash","input":{}}}`
	mLs    = `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"ls\"}"}}`
	mLsOpn = `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"ls"}}`
	mMore  = `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":" # "}}`
	mEnd   = `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"}"}}`
	mStop  = `{"type":"content_block_stop","index":0}`
	mDelta = `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}`
	mDone  = `{"type":"message_stop"}`
)

func messagesOf(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		if strings.HasPrefix(e, "{") {
			e = quick(e)
		}
		b.WriteString(e)
	}
	return b.String()
}

func chatOf(deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		switch {
		case strings.HasPrefix(d, "data:"):
			b.WriteString(d)
		default:
			b.WriteString(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}` + "\n\n")
		}
	}
	return b.String()
}

const (
	cFirst  = `{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"ls"}}]}`
	cMiddle = `{"tool_calls":[{"index":0,"function":{"arguments":" # "}}]}`
	cLast   = `{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}`
	cFinish = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
)

func responsesOf(events ...string) string {
	var b strings.Builder
	for _, e := range append([]string{`{"type":"response.created","response":{"id":"r","object":"response","status":"in_progress","output":[]}}`}, events...) {
		b.WriteString(quick(e))
	}
	return b.String()
}

const (
	rItem = `{"id":"fc0","type":"function_call","status":"completed","call_id":"c0","name":"Bash","arguments":"{\"command\":\"ls # \"}"}`
	rOpen = `{"type":"response.output_item.added","output_index":0,"item":{"id":"fc0","type":"function_call","status":"in_progress","call_id":"c0","name":"Bash","arguments":""}}`
	rLs   = `{"type":"response.function_call_arguments.delta","item_id":"fc0","output_index":0,"delta":"{\"command\":\"ls"}`
	rMore = `{"type":"response.function_call_arguments.delta","item_id":"fc0","output_index":0,"delta":" # "}`
	rEnd  = `{"type":"response.function_call_arguments.delta","item_id":"fc0","output_index":0,"delta":"\"}"}`
	rDone = `{"type":"response.output_item.done","output_index":0,"item":` + rItem + `}`
	rLast = `{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[` + rItem + `]}}`
)

func TestStreamsThatReadersTakeDifferently(t *testing.T) {
	rows := []struct {
		name   string
		d      wire.Dialect
		stream string
	}{
		// The Go SDK replaces an input of exactly {} by the deltas and appends
		// them to any other text; what is no JSON then counts as {}.
		{"an empty input spelled with a space", wire.Messages, messagesOf(mStart, strings.Replace(mOpen, `"input":{}`, `"input":{ }`, 1), mLs, mStop, mDelta, mDone)},
		{"an empty string for an input", wire.Messages, messagesOf(mStart, strings.Replace(mOpen, `"input":{}`, `"input":""`, 1), mLs, mStop, mDelta, mDone)},
		{"an empty list for an input", wire.Messages, messagesOf(mStart, strings.Replace(mOpen, `"input":{}`, `"input":[]`, 1), mLs, mStop, mDelta, mDone)},
		{"null for an input", wire.Messages, messagesOf(mStart, strings.Replace(mOpen, `"input":{}`, `"input":null`, 1), mLs, mStop, mDelta, mDone)},
		// pi and others take arguments from deltas alone: for them the call has
		// none.
		{"all arguments at the start", wire.Messages, messagesOf(mStart, strings.Replace(mOpen, `"input":{}`, `"input":{"command":"ls"}`, 1), mStop, mDelta, mDone)},
		// The SDKs and pi drop an event without an event line, others read it.
		{"a delta without an event line", wire.Messages, messagesOf(mStart, mOpen, mLsOpn, "data: "+mMore+"\n\n", mEnd, mStop, mDelta, mDone)},
		{"a start without an event line", wire.Messages, messagesOf(mStart, "data: "+mOpen+"\n\n", mLs, mStop,
			strings.NewReplacer(`"index":0`, `"index":1`, "c0", "c1").Replace(mOpen), strings.Replace(mLs, `"index":0`, `"index":1`, 1), strings.Replace(mStop, `"index":0`, `"index":1`, 1), mDelta, mDone)},
		// Readers that take each data line for an event drop both halves.
		{"a delta on two data lines", wire.Messages, messagesOf(mStart, mOpen, mLsOpn, strings.Replace(quick(mMore), `,"delta"`, ",\ndata: \"delta\"", 1), mEnd, mStop, mDelta, mDone)},

		// Node's SDK takes the newest name, Go's joins them: what takes the
		// place of a refused call must not keep the old name anywhere.
		{"a refused call that repeats its name", wire.Chat, chatOf(strings.Replace(cFirst, `\"ls`, `\"forbidden`, 1), strings.Replace(cLast, `"function":{`, `"id":"c0","function":{"name":"Bash",`, 1), cFinish)},
		// Readers of decoded text end lines at characters that JSON leaves as they
		// are in strings, and skip both halves of what was one event.
		{"a line separator in a delta", wire.Messages, messagesOf(mStart, mOpen, mLsOpn, strings.Replace(mMore, "#", "\u2028", 1), mEnd, mStop, mDelta, mDone)},
		{"a line separator in the second delta of a refused call", wire.Messages, messagesOf(mStart, mOpen, strings.Replace(mLsOpn, "ls", "forbidden", 1), strings.Replace(mMore, "#", "\u2028", 1), mEnd, mStop, mDelta, mDone)},
		{"a line separator beside a delta", wire.Messages, messagesOf(mStart, mOpen, mLsOpn, strings.Replace(mMore, `{"type":"input`, "{\"x\":\"\u0085\",\"type\":\"input", 1), mEnd, mStop, mDelta, mDone)},
		{"a line separator in a call's start", wire.Messages, messagesOf(mStart, mOpen, mLs, mStop, strings.NewReplacer(`"index":0`, `"index":1`, "c0", "c1\u2029").Replace(mOpen), strings.Replace(mLs, `"index":0`, `"index":1`, 1), strings.Replace(mStop, `"index":0`, `"index":1`, 1), mDelta, mDone)},
		{"a line separator in a piece", wire.Chat, chatOf(cFirst, strings.Replace(cMiddle, "#", "\u2028", 1), cLast, cFinish)},
		{"a line separator beside a piece", wire.Chat, chatOf(cFirst, strings.Replace(cMiddle, `{"index":0`, "{\"x\":\"\u2029\",\"index\":0", 1), cLast, cFinish)},
		{"a line separator in a call's first piece", wire.Chat, chatOf(cFirst, cLast, strings.NewReplacer(`"index":0`, `"index":1`, "c0", "c1\u0085").Replace(cFirst), strings.Replace(cLast, `"index":0`, `"index":1`, 1), cFinish)},
		{"a line separator in a fragment", wire.Responses, responsesOf(rOpen, rLs, strings.Replace(rMore, "#", "\u2028", 1), rEnd, strings.Replace(rDone, "#", "\u2028", 1), strings.Replace(rLast, "#", "\u2028", 1))},
		{"a line separator beside a fragment", wire.Responses, responsesOf(rOpen, rLs, strings.Replace(rMore, `"delta"`, "\"obfuscation\":\"\u2028\",\"delta\"", 1), rEnd, rDone, rLast)},
		{"a line separator in a call's start and its copies", wire.Responses, strings.ReplaceAll(responsesOf(rOpen, rLs, rMore, rEnd, rDone, rLast), `"c0"`, "\"c0\u2028\"")},
		// Go's SDK drops a chunk with another completion id.
		{"a piece with another completion id", wire.Chat, chatOf(cFirst, strings.Replace(chatOf(cMiddle), `"id":"x"`, `"id":"y"`, 1), cLast, cFinish)},
		{"a piece without a completion id", wire.Chat, chatOf(cFirst, strings.Replace(chatOf(cMiddle), `"id":"x",`, ``, 1), cLast, cFinish)},
		// The AI SDK drops a chunk that is not of the documented types.
		{"a piece with another role", wire.Chat, chatOf(cFirst, strings.Replace(cMiddle, `{"tool`, `{"role":"tool","tool`, 1), cLast, cFinish)},
		{"a piece with content of another type", wire.Chat, chatOf(cFirst, strings.Replace(cMiddle, `{"tool`, `{"content":{},"tool`, 1), cLast, cFinish)},
		{"a piece with a creation time of another type", wire.Chat, chatOf(cFirst, strings.Replace(chatOf(cMiddle), `"created":1`, `"created":"1"`, 1), cLast, cFinish)},
		{"a piece with usage of another type", wire.Chat, chatOf(cFirst, strings.Replace(chatOf(cMiddle), `"created":1`, `"usage":1`, 1), cLast, cFinish)},
		{"a piece with a finish reason of another type", wire.Chat, chatOf(cFirst, strings.Replace(chatOf(cMiddle), `"finish_reason":null`, `"finish_reason":1`, 1), cLast, cFinish)},
		{"a piece beside one without a function", wire.Chat, chatOf(cFirst, strings.Replace(cMiddle, `}}]`, `}},{"index":0}]`, 1), cLast, cFinish)},
		// A last event without its blank line is an event for some readers only.
		{"arguments in an event that is cut off", wire.Chat, strings.TrimSuffix(chatOf(
			`{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"Bash","arguments":""}}]}`,
			strings.Replace(chatOf(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"ls\"}"}}]}`), `"finish_reason":null`, `"finish_reason":"tool_calls"`, 1)), "\n\n")},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p := through(r.d, []byte(r.stream))
			if m := mismatch(r.d, []byte(r.stream), p, false); m != "" {
				t.Error(m)
			}
		})
	}
	// The rows differ from these in one place each, so that none is refused
	// for a reason that is not its own.
	for d, s := range map[wire.Dialect]string{
		wire.Messages: messagesOf(mStart, mOpen, mLsOpn, mMore, mEnd, mStop, mDelta, mDone),
		wire.Chat:     chatOf(cFirst, cMiddle, cLast, cFinish),
		// Escaped, a line separator is one character of a text.
		wire.Responses: responsesOf(rOpen, rLs, strings.Replace(rMore, "#", `\u2028`, 1), rEnd, strings.Replace(rDone, "#", `\u2028`, 1), strings.Replace(rLast, "#", `\u2028`, 1)),
	} {
		if m := mismatch(d, []byte(s), through(d, []byte(s)), true); m != "" {
			t.Error(m)
		}
	}
}
