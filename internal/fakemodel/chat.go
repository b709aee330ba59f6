package fakemodel

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// chat is OpenAI's dialect. A stream is chunks of one choice: the role, then
// content and pieces of tool calls, then the finish reason; the usage, if it
// was asked for, in a chunk without a choice; [DONE].
type chat struct{}

// created is the time in every reply, in Unix seconds.
const created = 1700000000

func (chat) name() string { return "openai-chat" }

func (chat) head(a ask, object string) string {
	return fmt.Sprintf(`"id":"chatcmpl-fake-%02d","object":"%s","created":%d,"model":%s,"system_fingerprint":"fp_fake"`, a.Replies, object, created, quote(a.Model))
}

func (chat) callID(a ask, n int, c Call) string {
	return cmp.Or(c.ID, fmt.Sprintf("call_fake_%02d_%d", a.Replies, n))
}

func (chat) finish(r Round) string {
	if calls(r) {
		return cmp.Or(r.Stop, "tool_calls")
	}
	return cmp.Or(r.Stop, "stop")
}

func (chat) usage(a ask, r Round) string {
	in, out := tokens(a.size), used(r)
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, in, out, in+out)
}

func (d chat) events(a ask, r Round, o Options) []step {
	var out []step
	chunk := func(choices, usage string) {
		out = append(out, step{data: `{` + d.head(a, "chat.completion.chunk") + `,"choices":[` + choices + `]` + usage + `}`})
	}
	noUsage := ""
	if a.usage {
		noUsage = `,"usage":null`
	}
	add := func(delta, finish string) {
		chunk(`{"index":0,"delta":{`+delta+`},"logprobs":null,"finish_reason":`+finish+`}`, noUsage)
	}
	add(`"role":"assistant","content":"","refusal":null`, "null")
	call := 0
	for _, it := range r.Items {
		switch it := it.(type) {
		case Text:
			for _, p := range fragments(string(it), o.Fragment) {
				add(`"content":`+quote(p), "null")
			}
		case Thinking:
			for _, p := range fragments(string(it), o.Fragment) {
				add(`"reasoning_content":`+quote(p), "null")
			}
		case Call:
			add(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]`, call, quote(d.callID(a, call, it)), quote(it.Tool)), "null")
			for _, p := range fragments(it.Args, o.Fragment) {
				add(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, call, quote(p)), "null")
			}
			call++
		case Error:
			return append(out, step{data: d.error(it)})
		case Cut:
			return append(out, step{cut: true})
		case Wait:
			out = append(out, step{wait: it.For})
		case Raw:
			out = append(out, step{raw: string(it)})
		}
	}
	add("", quote(d.finish(r)))
	if a.usage {
		chunk("", ","+d.usage(a, r))
	}
	return append(out, step{data: "[DONE]"})
}

func (d chat) whole(a ask, r Round) (string, error) {
	var said, thought string
	var made []string
	for _, it := range r.Items {
		switch it := it.(type) {
		case Text:
			said += string(it)
		case Thinking:
			thought += string(it)
		case Call:
			made = append(made, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(d.callID(a, len(made), it)), quote(it.Tool), quote(it.Args)))
		case Raw:
			return "", errors.New("raw events in a whole reply")
		}
	}
	message := `"role":"assistant","content":null`
	if said != "" || len(made) == 0 {
		message = `"role":"assistant","content":` + quote(said)
	}
	message += `,"refusal":null`
	if thought != "" {
		message += `,"reasoning_content":` + quote(thought)
	}
	if len(made) > 0 {
		message += `,"tool_calls":[` + strings.Join(made, ",") + `]`
	}
	return fmt.Sprintf(`{%s,"choices":[{"index":0,"message":{%s},"logprobs":null,"finish_reason":%s}],%s}`,
		d.head(a, "chat.completion"), message, quote(d.finish(r)), d.usage(a, r)), nil
}

func (chat) error(e Error) string {
	return `{"error":{"message":` + quote(e.Message) + `,"type":` + quote(cmp.Or(e.Type, "api_error")) + `,"param":null,"code":null}}`
}
