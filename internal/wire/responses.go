package wire

// OpenAI Responses, the request side. Source of the protocol facts: OpenAI's
// API reference, "Responses", and what Codex sends: tools stand in `tools`, or
// in input items of type additional_tools (its code mode), and may be grouped
// in namespaces of any depth.

import "github.com/guardproxy/guardproxy/internal/tape"

// responses indexes the tools and texts of a Responses request.
func (q *Request) responses() {
	t := &q.t
	q.tools(t.Get(0, "tools"), -1)
	q.text(t.Get(0, "instructions"), "system", -1)
	input := t.Get(0, "input")
	if t.Kind(input) == tape.Array {
		for n, i, end := 0, input+1, t.After(input); i < end; n, i = n+1, t.After(i) {
			switch typ := t.Get(i, "type"); {
			case t.Is(typ, "additional_tools"):
				q.tools(t.Get(i, "tools"), n)
			case t.Is(typ, "message"), typ < 0:
				role := t.Str(t.Get(i, "role"))
				if role == "user" {
					q.Turns++
					q.Calls = 0
				}
				if role != "assistant" {
					q.text(t.Get(i, "content"), role, -1)
				}
			case t.Is(typ, "function_call"), t.Is(typ, "custom_tool_call"), t.Is(typ, "local_shell_call"):
				q.Calls++
				args := t.Get(i, "arguments")
				if args < 0 {
					args = t.Get(i, "input")
				}
				q.Past = append(q.Past, Past{t.Get(i, "call_id"), t.Get(i, "name"), args, i, i})
			case t.Is(typ, "function_call_output"), t.Is(typ, "custom_tool_call_output"):
				q.text(t.Get(i, "output"), "tool", t.Get(i, "call_id"))
			}
		}
	} else if t.Kind(input) == tape.String {
		q.Turns++
	}
}
