package wire

// OpenAI Responses, the request side. Source of the protocol facts: OpenAI's
// API reference, "Responses", the item types of its Go SDK, and what Codex
// sends: tools stand in `tools`, or in input items (additional_tools in its
// code mode, tool_search_output for tools that a search found), and may be
// grouped in namespaces.
//
// The history is `input`, a list of items in which a call and its result are
// items of their own, tied together by the call's id.

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// itemKind is a type of items that are calls.
type itemKind struct {
	typ    string // of the item
	tool   string // the tool's name, where the item names none
	args   string // the member that holds the arguments
	text   bool   // the arguments are text, no JSON
	output string // the type of the item that answers, where that can hold a text
}

var itemKinds = map[string]*itemKind{
	FunctionCall:       {FunctionCall, "", "arguments", false, "function_call_output"},
	CustomToolCall:     {CustomToolCall, "", "input", true, "custom_tool_call_output"},
	LocalShellCall:     {LocalShellCall, "local_shell", "action", false, "local_shell_call_output"},
	ShellCall:          {ShellCall, "shell", "action", false, "shell_call_output"},
	ApplyPatchCall:     {ApplyPatchCall, "apply_patch", "operation", false, "apply_patch_call_output"},
	ComputerCall:       {ComputerCall, "computer", "action", false, ""},
	ToolSearchCall:     {ToolSearchCall, "tool_search", "arguments", false, ""},
	McpApprovalRequest: {McpApprovalRequest, "", "arguments", false, ""},
}

// kindOf is the kind that node typ names, nil for none. A history has hundreds of
// items: no string is made of each type.
func kindOf(t *tape.Tape, typ int) *itemKind {
	for _, kind := range kindsList {
		if t.Is(typ, kind.typ) {
			return kind
		}
	}
	return nil
}

// roleOf is the role that node i names.
func roleOf(t *tape.Tape, i int) string {
	for _, role := range [...]string{"user", "assistant", "developer", "system"} {
		if t.Is(i, role) {
			return role
		}
	}
	return t.Str(i)
}

// kindsList is itemKinds, to be searched without a key.
var kindsList = slices.Collect(maps.Values(itemKinds))

// responses indexes the tools, calls and texts of a Responses request.
func (q *Request) responses() {
	t := &q.t
	q.Held = Held{
		Previous:     t.Str(t.Get(0, "previous_response_id")),
		Conversation: !absent(t, t.Get(0, "conversation")),
		Store:        t.Kind(t.Get(0, "store")) != tape.False,
		Background:   t.Kind(t.Get(0, "background")) == tape.True,
	}
	q.tools(t.Get(0, "tools"), -1)
	q.text(t.Get(0, "instructions"), "system", -1)
	input := t.Get(0, "input")
	if t.Kind(input) == tape.String {
		q.Turns++
	}
	if t.Kind(input) != tape.Array {
		return
	}
	for n, i, end := 0, input+1, t.After(input); i < end; n, i = n+1, t.After(i) {
		typ := t.Get(i, "type")
		if kind := kindOf(t, typ); kind != nil {
			q.Calls++
			if kind.typ != ComputerCall && kind.typ != McpApprovalRequest {
				q.Past = append(q.Past, Past{t.Get(i, "call_id"), t.Get(i, "name"), t.Get(i, kind.args), i, i, kind})
			}
			continue
		}
		switch {
		case t.Is(typ, "additional_tools"), t.Is(typ, "tool_search_output"):
			q.tools(t.Get(i, "tools"), n)
		case t.Is(typ, "item_reference"):
			q.Held.References++
		case t.Is(typ, "message"), typ < 0, t.Kind(typ) == tape.Null:
			role := roleOf(t, t.Get(i, "role"))
			if role == "" && t.Get(i, "content") < 0 {
				q.Held.References++ // an item that is nothing but an id
			}
			if role == "user" {
				q.Turns++
				q.Calls = 0
			}
			if role != "assistant" {
				q.text(t.Get(i, "content"), role, -1)
			}
		case t.Is(typ, "function_call_output"), t.Is(typ, "custom_tool_call_output"):
			q.text(t.Get(i, "output"), "tool", t.Get(i, "call_id"))
		}
	}
}

// RestoreItem is Restore for a call whose item may have been of another type,
// item, before it was refused: a function_call becomes one of that type again,
// together with its result, or stays as it is when the result can't be told.
// arguments are what Call.Args was.
func (q *Request) RestoreItem(p Past, item, name string, arguments []byte, result string) (edits []Edit, answered bool) {
	t := &q.t
	to := itemKinds[item]
	if p.item == nil || p.args < 0 || t.Kind(p.id) != tape.String || to == nil || to.output == "" {
		return nil, false
	}
	out := q.responsesResult(p)
	if to != p.item {
		if p.item.typ != FunctionCall || to.tool == "" || out < 0 {
			return nil, false
		}
		edits = append(edits, replaceNode(t, p.call, callItem(t, p.call, to, "completed", name, arguments)))
		return append(edits, replaceNode(t, out, resultItem(t, to, t.Raw(p.id), result))), true
	}
	if to.tool == "" {
		if p.name < 0 {
			return nil, false
		}
		edits = append(edits, replaceNode(t, p.name, tape.Quote(nil, name)))
	}
	edits = append(edits, replaceNode(t, p.args, to.spell(arguments)))
	if out < 0 {
		return edits, false
	}
	return append(edits, q.setOutput(out, to, result)...), true
}

func replaceNode(t *tape.Tape, i int, new []byte) Edit {
	s, e := t.Span(i)
	return Edit{s, e, new}
}

// spell writes arguments as the value of the member that holds them.
func (k *itemKind) spell(arguments []byte) []byte {
	if k.tool == "" {
		return tape.Quote(nil, string(arguments))
	}
	var a tape.Tape
	if a.Parse(arguments) != nil || a.Kind(0) != tape.Object || a.LoneSurrogate() {
		return []byte("{}") // the API takes nothing else there
	}
	return bytes.Clone(arguments)
}

// Beginnings of items' ids, where an item can't stand without one.
var idPrefix = map[string]string{FunctionCall: "fc_", LocalShellCall: "lsh_"}

// callItem writes a call in the place of item i of another kind, for the same
// call.
func callItem(t *tape.Tape, i int, k *itemKind, status, name string, arguments []byte) []byte {
	b := append([]byte(nil), '{')
	if prefix := idPrefix[k.typ]; prefix != "" {
		b = tape.Quote(append(b, `"id":`...), idFor(prefix, t.Str(t.Get(i, "id"))))
		b = append(b, ',')
	}
	b = append(append(append(b, `"type":"`...), k.typ...), `","status":"`...)
	b = append(append(b, status...), `","call_id":`...)
	id := t.Get(i, "call_id")
	if absent(t, id) {
		id = t.Get(i, "id")
	}
	b = tape.Quote(b, t.Str(id))
	if caller := t.Get(i, "caller"); caller >= 0 {
		b = append(append(b, `,"caller":`...), t.Raw(caller)...)
	}
	if k.tool == "" {
		b = tape.Quote(append(b, `,"name":`...), name)
	}
	b = append(append(append(b, `,"`...), k.args...), `":`...)
	return append(append(b, k.spell(arguments)...), '}')
}

// resultItem writes the item that answers a call, whose id is given as it is
// spelled.
func resultItem(t *tape.Tape, k *itemKind, id []byte, text string) []byte {
	b := append(append(append([]byte(`{"type":"`), k.output...), `",`...), `"call_id":`...)
	if k.typ == LocalShellCall {
		b = append(append(append(b[:0:0], `{"type":"`...), k.output...), `","id":`...)
	}
	b = append(b, id...)
	if k.typ == ApplyPatchCall {
		b = append(b, `,"status":"failed"`...)
	}
	b = append(b, `,"output":`...)
	return append(append(b, k.result(text)...), '}')
}

// result writes text as the output of a call of kind k.
func (k *itemKind) result(text string) []byte {
	if k.typ != ShellCall {
		return tape.Quote(nil, text)
	}
	b := tape.Quote([]byte(`[{"stdout":"","stderr":`), text)
	return append(b, `,"outcome":{"type":"exit","exit_code":126}}]`...)
}

// responsesResult is the item that answers p, or −1: the first one after it with
// its id, where no other call of that id waits for one, and no second one stands
// in the same run of results. What stands behind that run does not count, or a
// history would be rewritten otherwise once it has grown: some servers count the
// ids of calls anew in each reply.
func (q *Request) responsesResult(p Past) int {
	t := &q.t
	id := t.Str(p.id)
	calls := map[int]bool{}
	for _, o := range q.Past {
		if t.Is(o.id, id) {
			calls[o.call] = true
		}
	}
	waiting, found := false, -1 // waiting: an earlier call, for its result
	input := t.Get(0, "input")
	for i, end := input+1, t.After(input); i < end; i = t.After(i) {
		typ := t.Str(t.Get(i, "type"))
		output := strings.HasSuffix(typ, "_output")
		result := output && (t.Is(t.Get(i, "call_id"), id) || typ == "local_shell_call_output" && t.Is(t.Get(i, "id"), id))
		switch {
		case i < p.call:
			waiting = calls[i] || waiting && !result
		case found >= 0 && !output:
			return found
		case i == p.call && waiting, i > p.call && calls[i], result && found >= 0, result && typ != p.item.output && typ != "function_call_output":
			return -1 // whose result it is, nobody knows
		case result:
			found = i
		}
	}
	return found
}

// setOutput makes text the output of item i, which answers a call of kind k. A
// list of parts stays one, of a single part.
func (q *Request) setOutput(i int, k *itemKind, text string) (edits []Edit) {
	t := &q.t
	if k.typ == ApplyPatchCall {
		if status := t.Get(i, "status"); status >= 0 {
			edits = append(edits, replaceNode(t, status, []byte(`"failed"`)))
		}
	}
	new := k.result(text)
	if t.Is(t.Get(i, "type"), "function_call_output") && k.typ == ShellCall {
		new = tape.Quote(nil, text)
	}
	out := t.Get(i, "output")
	switch {
	case out < 0:
		_, e := t.Span(i)
		return append(edits, Edit{e - 1, e - 1, append([]byte(`,"output":`), new...)})
	case t.Kind(out) == tape.Array && k.typ != ShellCall:
		if first := out + 1; t.Count(out) == 1 && t.Is(t.Get(first, "type"), "input_text") && t.Kind(t.Get(first, "text")) == tape.String {
			return append(edits, replaceNode(t, t.Get(first, "text"), new))
		}
		new = append(append([]byte(`[{"type":"input_text","text":`), new...), `}]`...)
	}
	return append(edits, replaceNode(t, out, new))
}
