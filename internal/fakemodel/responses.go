package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// responses is OpenAI's newer dialect. A stream is the response as it was
// created; each item with its parts, deltas and their ends, once more as a
// whole when it is done; and the response with all of its items. Every event
// has the next sequence number.
type responses struct{}

func (responses) name() string { return "openai-responses" }

func (d responses) callID(a ask, n int, c Call) string {
	return cmp.Or(c.ID, fmt.Sprintf("call_fake_%02d_%d", a.Replies, n))
}

// response is the response object with the given status and items.
func (d responses) response(a ask, r Round, status string, items []string) string {
	details, usage := "null", "null"
	if status == "incomplete" {
		details = `{"reason":` + quote(r.Stop) + `}`
	}
	if status != "in_progress" {
		in, out := tokens(a.size), used(r)
		usage = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`, in, out, in+out)
	}
	return fmt.Sprintf(`{"id":"resp_fake_%02d","object":"response","created_at":%d,"status":"%s","error":null,"incomplete_details":%s,"instructions":null,"metadata":{},"model":%s,"output":[%s],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"auto","tools":%s,"top_p":1.0,"usage":%s}`,
		a.Replies, created, status, details, quote(a.Model), strings.Join(items, ","), cmp.Or(a.tools, "[]"), usage)
}

// status is how a reply ends.
func (responses) status(r Round) string {
	if r.Stop != "" && r.Stop != "completed" {
		return "incomplete"
	}
	return "completed"
}

// item is an item of the output at one of the two moments when it is whole: as
// it begins (without what comes in deltas), and as it is done.
func (d responses) item(a ask, n, call int, it Item, done bool) (id, text string) {
	status := `"status":"in_progress"`
	if done {
		status = `"status":"completed"`
	}
	switch it := it.(type) {
	case Text:
		id = fmt.Sprintf("msg_fake_%02d_%d", a.Replies, n)
		content := ""
		if done {
			content = d.part(string(it))
		}
		return id, `{"id":"` + id + `","type":"message",` + status + `,"role":"assistant","content":[` + content + `]}`
	case Thinking:
		id = fmt.Sprintf("rs_fake_%02d_%d", a.Replies, n)
		summary, secret := "", ""
		if done {
			summary, secret = `{"type":"summary_text","text":`+quote(string(it))+`}`, signature
		}
		return id, `{"id":"` + id + `","type":"reasoning","summary":[` + summary + `],"encrypted_content":"` + secret + `"}`
	case Call:
		callID := `"call_id":` + quote(d.callID(a, call, it))
		space := ""
		if it.Namespace != "" {
			space = `,"namespace":` + quote(it.Namespace)
		}
		args := ""
		if done {
			args = it.Args
		}
		switch it.Item {
		case "custom_tool_call":
			id = fmt.Sprintf("ctc_fake_%02d_%d", a.Replies, n)
			return id, `{"id":"` + id + `","type":"custom_tool_call",` + status + `,` + callID + `,"name":` + quote(it.Tool) + space + `,"input":` + quote(args) + `}`
		case "", "function_call":
			id = fmt.Sprintf("fc_fake_%02d_%d", a.Replies, n)
			return id, `{"id":"` + id + `","type":"function_call",` + status + `,"arguments":` + quote(args) + `,` + callID + `,"name":` + quote(it.Tool) + space + `}`
		}
		// A tool of the API: the whole action from the start.
		member := "action"
		if it.Item == "apply_patch_call" {
			member = "operation"
		}
		id = fmt.Sprintf("it_fake_%02d_%d", a.Replies, n)
		return id, `{"id":"` + id + `","type":` + quote(it.Item) + `,` + status + `,` + callID + `,"` + member + `":` + cmp.Or(it.Args, "{}") + `}`
	}
	return "", ""
}

func (responses) part(text string) string {
	return `{"type":"output_text","text":` + quote(text) + `,"annotations":[],"logprobs":[]}`
}

func (d responses) events(a ask, r Round, o Options) []step {
	var out []step
	var items []string
	add := func(event, format string, args ...any) {
		out = append(out, step{event: event, data: fmt.Sprintf(`{"type":"%s","sequence_number":%d`, event, seq(out)) + fmt.Sprintf(format, args...) + `}`})
	}
	add("response.created", `,"response":%s`, d.response(a, r, "in_progress", nil))
	add("response.in_progress", `,"response":%s`, d.response(a, r, "in_progress", nil))
	call := 0
	for _, it := range r.Items {
		n := len(items)
		id, begun := d.item(a, n, call, it, false)
		_, done := d.item(a, n, call, it, true)
		deltas := func(event, more, text string) {
			for _, p := range fragments(text, o.Fragment) {
				add(event, `,"item_id":"%s","output_index":%d%s,"delta":%s`, id, n, more, quote(p))
			}
		}
		switch it := it.(type) {
		case Error:
			add("error", `,"code":%s,"message":%s,"param":null`, quote(cmp.Or(it.Type, "server_error")), quote(it.Message))
			return out
		case Cut:
			return append(out, step{cut: true})
		case Wait:
			out = append(out, step{wait: it.For})
			continue
		case Raw:
			out = append(out, step{raw: string(it)})
			continue
		case Text:
			add("response.output_item.added", `,"output_index":%d,"item":%s`, n, begun)
			add("response.content_part.added", `,"item_id":"%s","output_index":%d,"content_index":0,"part":%s`, id, n, d.part(""))
			deltas("response.output_text.delta", `,"content_index":0,"logprobs":[]`, string(it))
			add("response.output_text.done", `,"item_id":"%s","output_index":%d,"content_index":0,"text":%s,"logprobs":[]`, id, n, quote(string(it)))
			add("response.content_part.done", `,"item_id":"%s","output_index":%d,"content_index":0,"part":%s`, id, n, d.part(string(it)))
		case Thinking:
			add("response.output_item.added", `,"output_index":%d,"item":%s`, n, begun)
			add("response.reasoning_summary_part.added", `,"item_id":"%s","output_index":%d,"summary_index":0,"part":{"type":"summary_text","text":""}`, id, n)
			deltas("response.reasoning_summary_text.delta", `,"summary_index":0`, string(it))
			add("response.reasoning_summary_text.done", `,"item_id":"%s","output_index":%d,"summary_index":0,"text":%s`, id, n, quote(string(it)))
			add("response.reasoning_summary_part.done", `,"item_id":"%s","output_index":%d,"summary_index":0,"part":{"type":"summary_text","text":%s}`, id, n, quote(string(it)))
		case Call:
			call++
			add("response.output_item.added", `,"output_index":%d,"item":%s`, n, begun)
			event, member := "", ""
			switch it.Item {
			case "", "function_call":
				event, member = "response.function_call_arguments", "arguments"
			case "custom_tool_call":
				event, member = "response.custom_tool_call_input", "input"
			}
			if event != "" {
				deltas(event+".delta", "", it.Args)
			}
			if it.Unfinished {
				continue
			}
			if event != "" {
				add(event+".done", `,"item_id":"%s","output_index":%d,"%s":%s`, id, n, member, quote(it.Args))
			}
		}
		add("response.output_item.done", `,"output_index":%d,"item":%s`, n, done)
		items = append(items, done)
	}
	add("response."+d.status(r), `,"response":%s`, d.response(a, r, d.status(r), items))
	return out
}

// seq is the sequence number of the next event.
func seq(steps []step) (n int) {
	for _, s := range steps {
		if s.data != "" {
			n++
		}
	}
	return n
}

func (d responses) whole(a ask, r Round) (string, error) {
	var items []string
	call := 0
	for _, it := range r.Items {
		switch c := it.(type) {
		case Raw:
			return "", errors.New("raw events in a whole reply")
		case Text, Thinking, Call:
			_, text := d.item(a, len(items), call, it, true)
			items = append(items, text)
			if c, ok := c.(Call); ok {
				call++
				if c.Item != "" && c.Item != "function_call" && c.Item != "custom_tool_call" && c.Args != "" && !json.Valid([]byte(c.Args)) {
					return "", errors.New("an action that is no JSON: " + c.Args)
				}
			}
		}
	}
	return d.response(a, r, d.status(r), items), nil
}

func (responses) error(e Error) string { return chat{}.error(e) }

// readResponses is read for this dialect, whose history is a list of items.
func readResponses(d dialect, body []byte) (ask, error) {
	var q struct {
		Model    string
		Stream   bool
		Previous string `json:"previous_response_id"`
		Input    json.RawMessage
		Tools    json.RawMessage
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return ask{}, fmt.Errorf("the request is no JSON: %w", err)
	}
	if q.Previous != "" {
		return ask{}, errors.New("no response is stored here: previous_response_id is not supported")
	}
	a := ask{stream: q.Stream, size: len(body)}
	a.Dialect, a.Model = d.name(), q.Model
	if len(q.Tools) > 0 && q.Tools[0] == '[' {
		a.tools = string(q.Tools)
		a.Tools = toolNames(q.Tools)
	}
	var said string
	if json.Unmarshal(q.Input, &said) == nil {
		return a, nil
	}
	var items []struct {
		Type, Role string
		Tools      json.RawMessage
		ID         string
		CallID     string `json:"call_id"`
		Output     json.RawMessage
	}
	if err := json.Unmarshal(q.Input, &items); err != nil || len(items) == 0 {
		return ask{}, errors.New("the request has no input")
	}
	speaking := false
	for _, it := range items {
		switch {
		case it.Type == "additional_tools":
			a.Tools = append(a.Tools, toolNames(it.Tools)...)
			continue
		case strings.HasSuffix(it.Type, "_output"):
			a.Results = append(a.Results, Result{ID: cmp.Or(it.CallID, it.ID), Text: text(it.Output)})
		case it.Role == "assistant", it.Type == "reasoning", strings.HasSuffix(it.Type, "_call"):
			if !speaking {
				a.Round, a.Replies = a.Round+1, a.Replies+1
			}
			speaking, a.Results = true, nil
			continue
		case it.Role == "user":
			a.Round, a.Results = 0, nil
		}
		speaking = false
	}
	return a, nil
}

// toolNames are the names in a list of tools, namespaces opened. A tool of the
// API goes by its type.
func toolNames(list json.RawMessage) (names []string) {
	var tools []struct {
		Type, Name string
		Tools      json.RawMessage
	}
	json.Unmarshal(list, &tools)
	for _, t := range tools {
		if t.Type == "namespace" {
			names = append(names, toolNames(t.Tools)...)
			continue
		}
		names = append(names, cmp.Or(t.Name, t.Type))
	}
	return names
}
