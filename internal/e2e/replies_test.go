package e2e

// Replies as the two APIs write them: a scenario is a list of calls, and each
// dialect renders it as a stream, in fragments, or as one JSON body. Sources:
// the streaming pages of Anthropic's and OpenAI's API references.

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// call is a tool call as a model makes it, or as a client ends up with it.
type call struct{ id, name, args string }

func quote(s string) string { return string(tape.Quote(nil, s)) }

// pieces cuts s into runs of n bytes at character borders; n 0 is one piece.
func pieces(s string, n int) []string {
	if n <= 0 || len(s) == 0 {
		return []string{s}
	}
	var out []string
	from := 0
	for i := range s {
		if i-from >= n {
			out = append(out, s[from:i])
			from = i
		}
	}
	return append(out, s[from:])
}

func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

const messageStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}`

// messagesStream is a reply of text and calls, arguments in fragments of n
// bytes.
func messagesStream(text string, calls []call, n int) string {
	var b strings.Builder
	b.WriteString(event("message_start", messageStart))
	b.WriteString(event("ping", `{"type": "ping"}`))
	i := 0
	if text != "" {
		fmt.Fprintf(&b, "%s", event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`))
		b.WriteString(event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quote(text)+`}}`))
		b.WriteString(event("content_block_stop", `{"type":"content_block_stop","index":0}`))
		i = 1
	}
	for _, c := range calls {
		b.WriteString(event("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}}`, i, quote(c.id), quote(c.name))))
		for k, p := range append([]string{""}, pieces(c.args, n)...) {
			b.WriteString(event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, quote(p))))
			if k == 1 {
				b.WriteString(event("ping", `{"type": "ping"}`))
			}
		}
		b.WriteString(event("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i)))
		i++
	}
	stop := "end_turn"
	if len(calls) > 0 {
		stop = "tool_use"
	}
	b.WriteString(event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+stop+`","stop_sequence":null},"usage":{"output_tokens":15}}`))
	b.WriteString(event("message_stop", `{"type":"message_stop"}`))
	return b.String()
}

func messagesWhole(text string, calls []call) string {
	var blocks []string
	if text != "" {
		blocks = append(blocks, `{"type":"text","text":`+quote(text)+`}`)
	}
	stop := "end_turn"
	for _, c := range calls {
		args := c.args
		if args == "" {
			args = "{}"
		}
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.id), quote(c.name), args))
		stop = "tool_use"
	}
	return `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[` + strings.Join(blocks, ",") +
		`],"stop_reason":"` + stop + `","stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":15}}`
}

func chunkOf(choice string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-test","choices":[` + choice + "]}\n\n"
}

// chatStream is the same in Chat Completions.
func chatStream(text string, calls []call, n int) string {
	var b strings.Builder
	b.WriteString(chunkOf(`{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}`))
	if text != "" {
		b.WriteString(chunkOf(`{"index":0,"delta":{"content":` + quote(text) + `},"logprobs":null,"finish_reason":null}`))
	}
	for i, c := range calls {
		b.WriteString(chunkOf(fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]},"logprobs":null,"finish_reason":null}`, i, quote(c.id), quote(c.name))))
		for _, p := range pieces(c.args, n) {
			b.WriteString(chunkOf(fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]},"logprobs":null,"finish_reason":null}`, i, quote(p))))
		}
	}
	finish := "stop"
	if len(calls) > 0 {
		finish = "tool_calls"
	}
	b.WriteString(chunkOf(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"` + finish + `"}`))
	b.WriteString(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-test","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}` + "\n\n")
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

func chatWhole(text string, calls []call) string {
	var list []string
	finish := "stop"
	for _, c := range calls {
		list = append(list, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.id), quote(c.name), quote(c.args)))
		finish = "tool_calls"
	}
	content := "null"
	if text != "" {
		content = quote(text)
	}
	message := `{"role":"assistant","content":` + content + `,"refusal":null`
	if len(list) > 0 {
		message += `,"tool_calls":[` + strings.Join(list, ",") + `]`
	}
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-test","choices":[{"index":0,"message":` + message +
		`},"logprobs":null,"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`
}

var (
	sseHeader  = http.Header{"Content-Type": {"text/event-stream"}}
	jsonHeader = http.Header{"Content-Type": {"application/json"}}
)
