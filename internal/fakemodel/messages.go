package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// messages is Anthropic's dialect. A stream is message_start, the blocks with
// their deltas in order, message_delta with the stop reason, message_stop.
type messages struct{}

// signature stands for the encrypted proof that a real thinking block has.
const signature = "ZmFrZW1vZGVsIHNpZ25hdHVyZQ=="

func (messages) name() string { return "anthropic-messages" }

func (messages) head(a ask) string {
	return fmt.Sprintf(`"id":"msg_fake_%02d","type":"message","role":"assistant","model":%s`, a.Replies, quote(a.Model))
}

func (messages) callID(a ask, n int, c Call) string {
	return cmp.Or(c.ID, fmt.Sprintf("toolu_fake_%02d_%d", a.Replies, n))
}

func (messages) stop(r Round) string {
	if calls(r) {
		return cmp.Or(r.Stop, "tool_use")
	}
	return cmp.Or(r.Stop, "end_turn")
}

func (d messages) events(a ask, r Round, o Options) []step {
	var out []step
	add := func(event, format string, args ...any) {
		out = append(out, step{event: event, data: `{"type":"` + event + `"` + fmt.Sprintf(format, args...) + `}`})
	}
	add("message_start", `,"message":{%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":1}}`, d.head(a), tokens(a.size))
	block, call := 0, 0
	open := func(content string) {
		add("content_block_start", `,"index":%d,"content_block":{%s}`, block, content)
		if block == 0 {
			add("ping", "")
		}
	}
	deltas := func(kind, field string, pieces []string) {
		for i, p := range pieces {
			if i > 0 && o.Pings {
				add("ping", "")
			}
			add("content_block_delta", `,"index":%d,"delta":{"type":"%s","%s":%s}`, block, kind, field, quote(p))
		}
	}
	shut := func() {
		add("content_block_stop", `,"index":%d`, block)
		block++
	}
	for _, it := range r.Items {
		switch it := it.(type) {
		case Text:
			open(`"type":"text","text":""`)
			deltas("text_delta", "text", fragments(string(it), o.Fragment))
			shut()
		case Thinking:
			open(`"type":"thinking","thinking":"","signature":""`)
			deltas("thinking_delta", "thinking", fragments(string(it), o.Fragment))
			deltas("signature_delta", "signature", []string{signature})
			shut()
		case Call:
			open(fmt.Sprintf(`"type":"tool_use","id":%s,"name":%s,"input":{}`, quote(d.callID(a, call, it)), quote(it.Tool)))
			call++
			// The real API begins with an empty piece, too.
			deltas("input_json_delta", "partial_json", append([]string{""}, fragments(it.Args, o.Fragment)...))
			if !it.Unfinished {
				shut()
			}
		case Error:
			return append(out, step{event: "error", data: d.error(it)})
		case Cut:
			return append(out, step{cut: true})
		case Wait:
			out = append(out, step{wait: it.For})
		case Raw:
			out = append(out, step{raw: string(it)})
		}
	}
	add("message_delta", `,"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d}`, quote(d.stop(r)), used(r))
	add("message_stop", "")
	return out
}

func (d messages) whole(a ask, r Round) (string, error) {
	var content []string
	call := 0
	for _, it := range r.Items {
		switch it := it.(type) {
		case Text:
			content = append(content, `{"type":"text","text":`+quote(string(it))+`}`)
		case Thinking:
			content = append(content, `{"type":"thinking","thinking":`+quote(string(it))+`,"signature":"`+signature+`"}`)
		case Call:
			input := cmp.Or(it.Args, "{}")
			if !json.Valid([]byte(input)) {
				return "", errors.New("a whole reply of Messages can't hold arguments that are no JSON: " + input)
			}
			content = append(content, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(d.callID(a, call, it)), quote(it.Tool), input))
			call++
		case Raw:
			return "", errors.New("raw events in a whole reply")
		}
	}
	return fmt.Sprintf(`{%s,"content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`,
		d.head(a), strings.Join(content, ","), quote(d.stop(r)), tokens(a.size), used(r)), nil
}

func (messages) error(e Error) string {
	return `{"type":"error","error":{"type":` + quote(cmp.Or(e.Type, "api_error")) + `,"message":` + quote(e.Message) + `},"request_id":"req_fake"}`
}
