package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// numbered writes events with their event lines and sequence numbers, which
// stand where %d is. A dash in front leaves the event line out.
func numbered(data ...string) string {
	for i, d := range data {
		data[i] = strings.Replace(d, `"n":0`, fmt.Sprintf(`"sequence_number":%d`, i), 1)
	}
	return messagesEvents(data...)
}

const (
	rCreated  = `{"type":"response.created","n":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}`
	rProgress = `{"type":"response.in_progress","n":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}`
)

func rItem(typ string, i int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.%s","n":0,"output_index":%d,"item":%s}`, typ, i, item)
}

func rAdded(i int, item string) string { return rItem("added", i, item) }
func rDone(i int, item string) string  { return rItem("done", i, item) }

func rDelta(kind string, i int, id, delta string) string {
	return fmt.Sprintf(`{"type":"response.%s.delta","n":0,"item_id":%q,"output_index":%d,"delta":%s}`, kind, id, i, tape.Quote(nil, delta))
}

func rArgsDone(i int, id, args string) string {
	return fmt.Sprintf(`{"type":"response.function_call_arguments.done","n":0,"item_id":%q,"output_index":%d,"arguments":%s}`, id, i, tape.Quote(nil, args))
}

func rInputDone(i int, id, input string) string {
	return fmt.Sprintf(`{"type":"response.custom_tool_call_input.done","n":0,"item_id":%q,"output_index":%d,"input":%s}`, id, i, tape.Quote(nil, input))
}

func rEnd(typ string, items ...string) string {
	return fmt.Sprintf(`{"type":"response.%s","n":0,"response":{"id":"resp_1","object":"response","status":"%s","output":[%s],"usage":{"total_tokens":3}}}`, typ, typ, strings.Join(items, ","))
}

func rFunc(id, name, args string) string {
	return fmt.Sprintf(`{"id":"fc_%s","type":"function_call","status":"completed","call_id":%q,"name":%q,"arguments":%s}`, id, id, name, tape.Quote(nil, args))
}

func rCustom(id, name, input string) string {
	return fmt.Sprintf(`{"id":"ctc_%s","type":"custom_tool_call","status":"completed","call_id":%q,"name":%q,"input":%s}`, id, id, name, tape.Quote(nil, input))
}

// rCall is the events of one call in two fragments.
func rCall(i int, id, name, args string) []string {
	half := len(args) / 2
	return []string{rAdded(i, rFunc(id, name, "")), rDelta("function_call_arguments", i, "fc_"+id, args[:half]), rDelta("function_call_arguments", i, "fc_"+id, args[half:]),
		rArgsDone(i, "fc_"+id, args), rDone(i, rFunc(id, name, args))}
}

const (
	rMessage   = `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]}]}`
	rReasoning = `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA=="}`
	rShell     = `{"id":"sh_1","type":"shell_call","status":"completed","call_id":"s","action":{"commands":["ls","pwd"],"timeout_ms":1},"environment":{"type":"local"}}`
	rLocal     = `{"id":"lsh_1","type":"local_shell_call","status":"completed","call_id":"l","action":{"type":"exec","command":["bash","-lc","ls"],"env":{}}}`
	rPatch     = `{"id":"apc_1","type":"apply_patch_call","status":"completed","call_id":"p","operation":{"type":"update_file","path":"a.go","diff":"@@\n-x\n+y\n"}}`
	rComputer  = `{"id":"cu_1","type":"computer_call","status":"completed","call_id":"c","action":{"type":"click","x":1,"y":2,"button":"left"},"pending_safety_checks":[]}`
	rSearch    = `{"id":"ts_1","type":"tool_search_call","status":"completed","call_id":"t","execution":"client","arguments":{"query":"x"}}`
	rApproval  = `{"id":"mcpr_1","type":"mcp_approval_request","name":"drop","server_label":"db","arguments":"{\"table\":\"t\"}"}`
	rUnknown   = `{"id":"xx_1","type":"agent_call","call_id":"u","name":"run","arguments":"{}"}`
)

func rText(i int) []string {
	return []string{rAdded(i, `{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`),
		fmt.Sprintf(`{"type":"response.content_part.added","n":0,"item_id":"msg_1","output_index":%d,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`, i),
		rDelta("output_text", i, "msg_1", "hi"),
		fmt.Sprintf(`{"type":"response.output_text.done","n":0,"item_id":"msg_1","output_index":%d,"content_index":0,"text":"hi"}`, i),
		rDone(i, rMessage)}
}

func rStream(parts ...any) []string {
	out := []string{rCreated}
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, p)
		case []string:
			out = append(out, p...)
		}
	}
	return out
}

// ended is a stream with an end, if it has none.
func ended(in []string) []string {
	for _, d := range in {
		for _, end := range []string{"response.completed", "response.incomplete", "response.failed", "error"} {
			if strings.HasPrefix(d, `{"type":"`+end+`"`) {
				return in
			}
		}
	}
	return append(in, rEnd("completed"))
}

// bare leaves output_index out, as some compatible servers do.
func bare(data []string) (out []string) {
	for _, d := range data {
		if i := strings.Index(d, `"output_index":`); i >= 0 {
			d = d[:i] + d[i+len(`"output_index":0,`):]
		}
		out = append(out, d)
	}
	return out
}

func TestResponsesStream(t *testing.T) {
	call := rCall(0, "a", "bash", `{"command":"ls"}`)
	done := rEnd("completed", rFunc("a", "bash", `{"command":"ls"}`))
	lsA := `0 a bash {"command":"ls"}`
	whole := rFunc("a", "bash", "{}")
	swap := func(s, old, new string) string {
		if !strings.Contains(s, old) {
			t.Fatalf("%q is not in %q", old, s)
		}
		return strings.Replace(s, old, new, 1)
	}
	for _, c := range []struct {
		name  string
		in    []string
		calls []string
		err   string
	}{
		{"text", rStream(rProgress, rText(0), rEnd("completed", rMessage)), nil, ""},
		{"a call in fragments", rStream(call, done), []string{lsA}, ""},
		{"reasoning, text, two calls", rStream(rAdded(0, rReasoning), rDone(0, rReasoning), rText(1), rCall(2, "a", "A", "{}"), rCall(3, "b", "B", `{"x":1}`), rEnd("completed", rReasoning, rMessage, rFunc("a", "A", "{}"), rFunc("b", "B", `{"x":1}`))), []string{"0 a A {}", `1 b B {"x":1}`}, ""},
		{"no fragments, only the item", rStream(rAdded(0, rFunc("a", "A", "")), rDone(0, whole), rEnd("completed", rFunc("a", "A", "{}"))), nil, "output_item.done: the call is not the one that began"},
		{"an item alone", rStream(rAdded(0, rFunc("a", "bash", "")), rDone(0, whole), rEnd("completed", whole)), []string{"0 a bash {}"}, ""},
		{"arguments at the start", rStream(rAdded(0, whole), rDone(0, whole), rEnd("completed", whole)), []string{"0 a bash {}"}, ""},
		{"an item that was never added", rStream(rDone(0, whole), rEnd("completed", whole)), []string{"0 a bash {}"}, ""},
		{"no output at the end", rStream(call, `{"type":"response.completed","n":0,"response":{"id":"resp_1","usage":null}}`), []string{lsA}, ""},
		{"no response at the end", rStream(call, `{"type":"response.completed","n":0}`), []string{lsA}, ""},
		{"nothing at the end", rStream(call), []string{lsA}, "reply: it ends without response.completed, response.incomplete or response.failed"},
		{"keep-alives inside", rStream(call[:2], `{"type":"keepalive","n":0}`, call[2:], done), []string{lsA}, ""},
		{"items that end together", rStream(rText(0)[:4], rAdded(1, rFunc("a", "A", "")), rDelta("function_call_arguments", 1, "fc_a", "{}"), rAdded(2, rFunc("b", "B", "")), rArgsDone(2, "fc_b", `{"x":1}`), rAdded(3, rReasoning), rDone(0, rMessage), rDone(2, rFunc("b", "B", `{"x":1}`)), rDone(1, rFunc("a", "A", "{}")), rDone(3, rReasoning), rEnd("completed", rMessage, rFunc("a", "A", "{}"), rFunc("b", "B", `{"x":1}`), rReasoning)), []string{"0 a A {}", `1 b B {"x":1}`}, ""},
		{"no index anywhere, items that end together", rStream(bare(append(rText(0)[:4:4], rAdded(1, `{"type":"function_call","call_id":"fc_a","name":"A","arguments":""}`), rDelta("function_call_arguments", 1, "fc_a", "{}"), rDone(0, rMessage), rDone(1, `{"type":"function_call","call_id":"fc_a","name":"A","arguments":"{}"}`), rEnd("completed", rMessage)))), []string{"0 fc_a A {}"}, ""},
		{"dropped: failed while a whole call waits for another", rStream(call[:3], rAdded(1, rFunc("b", "B", "{}")), call[4], rEnd("failed")), nil, ""},
		{"the whole reply in one event", []string{rEnd("completed", rMessage, rFunc("a", "A", "{}"), rCustom("b", "B", "text"))}, []string{"0 a A {}", "1 b B text"}, ""},
		{"created, then all in one event", rStream(done), []string{lsA}, ""},
		{"[DONE] at the end", rStream(call, done, "[DONE]"), []string{lsA}, ""},
		{"dropped: failed inside of a call", rStream(call[:3], rEnd("failed")), nil, ""},
		{"dropped: cut off by a limit, with what there was of the call", rStream(call[:3], rEnd("incomplete", rFunc("a", "bash", `{"comm`))), []string{`0 a bash {"comm`}, ""},
		{"dropped: an error inside of a call", rStream(call[:3], `{"type":"error","n":0,"code":"x","message":"overloaded"}`), nil, ""},
		{"a resumed stream", append([]string{rDelta("output_text", 1, "msg_1", "i"), rDone(1, rMessage)}, append(rCall(2, "a", "A", "{}"), rEnd("completed", rFunc("z", "Z", "{}"), rMessage, rFunc("a", "A", "{}")))...), []string{"0 a A {}", "1 z Z {}"}, ""},
		{"a custom call", rStream(rAdded(0, rCustom("a", "exec", "")), rDelta("custom_tool_call_input", 0, "ctc_a", "te"), rDelta("custom_tool_call_input", 0, "ctc_a", "xt"), rInputDone(0, "ctc_a", "text"), rDone(0, rCustom("a", "exec", "text")), rEnd("completed", rCustom("a", "exec", "text"))), []string{"0 a exec text"}, ""},
		{"a shell call that grows", rStream(rAdded(0, swap(rShell, `["ls","pwd"]`, `[]`)),
			`{"type":"response.shell_call_command.added","n":0,"output_index":0,"command_index":0,"command":""}`, `{"type":"response.shell_call_command.delta","n":0,"output_index":0,"command_index":0,"delta":"ls"}`,
			`{"type":"response.shell_call_command.done","n":0,"output_index":0,"command_index":0,"command":"ls"}`, `{"type":"response.shell_call_command.added","n":0,"output_index":0,"command_index":1,"command":"pwd"}`,
			rDone(0, rShell), rEnd("completed", rShell)), []string{`0 s shell {"commands":["ls","pwd"],"timeout_ms":1}`}, ""},
		{"a patch whose diff comes in pieces", rStream(rAdded(0, swap(rPatch, `@@\n-x\n+y\n`, ``)),
			rDelta("apply_patch_call_operation_diff", 0, "apc_1", "@@\n-x\n"), rDelta("apply_patch_call_operation_diff", 0, "apc_1", "+y\n"),
			`{"type":"response.apply_patch_call_operation_diff.done","n":0,"item_id":"apc_1","output_index":0,"diff":"@@\n-x\n+y\n"}`, rDone(0, rPatch), rEnd("completed", rPatch)),
			[]string{`0 p apply_patch {"type":"update_file","path":"a.go","diff":"@@\n-x\n+y\n"}`}, ""},
		{"a command in a local shell, a click, a search, a question", rStream(rAdded(0, rLocal), rDone(0, rLocal), rAdded(1, rComputer), rDone(1, rComputer), rAdded(2, rSearch), rDone(2, rSearch), rAdded(3, rApproval), rDone(3, rApproval), rEnd("completed", rLocal, rComputer, rSearch, rApproval)),
			[]string{`0 l local_shell {"type":"exec","command":["bash","-lc","ls"],"env":{}}`, `1 c computer {"type":"click","x":1,"y":2,"button":"left"}`, `2 t tool_search {"query":"x"}`, `3 mcpr_1 drop {"table":"t"}`}, ""},
		{"several clicks", rStream(rDone(0, swap(rComputer, `"action":`, `"actions":[{"type":"wait"}],"action":`)), rDone(1, swap(swap(rComputer, `"action":{"type":"click","x":1,"y":2,"button":"left"}`, `"actions":[{"type":"wait"}]`), `"c"`, `"d"`))), []string{`0 c computer {"action":{"type":"click","x":1,"y":2,"button":"left"},"actions":[{"type":"wait"}]}`}, `item: a second item with the id "cu_1"`},
		{"a search on the server", rStream(rAdded(0, swap(rSearch, `"client"`, `"server"`)), rDone(0, swap(rSearch, `"client"`, `"server"`)), rEnd("completed", swap(rSearch, `"client"`, `"server"`))), nil, ""},
		{"half a surrogate pair in a fragment", rStream(call[0], `{"type":"response.function_call_arguments.delta","n":0,"output_index":0,"item_id":"fc_a","delta":"{\"x\":\"\ud83d\"}"}`, rDone(0, `{"id":"fc_a","type":"function_call","call_id":"a","name":"bash","arguments":"{\"x\":\"\ud83d\"}"}`)), []string{"0 a bash {\"x\":\"\ufffd\"} (half a surrogate pair in the arguments)"}, ""},
		{"a NUL in a text", rStream(rDone(0, swap(rCustom("a", "exec", "text"), "text", `te\u0000xt`))), []string{"0 a exec te\x00xt (a NUL character in the text)"}, ""},
		{"no action", rStream(rDone(0, swap(rLocal, `"action"`, `"what"`))), []string{"0 l local_shell  (there is no action)"}, ""},
		{"output of a shell that the provider runs", rStream(rAdded(0, rShell), rDone(0, rShell), `{"type":"response.shell_call_output_content.delta","n":0,"output_index":0,"command_index":0,"delta":{"stdout":"x"}}`), []string{`0 s shell {"commands":["ls","pwd"],"timeout_ms":1}`}, ""},
		{"an action spelled anew", rStream(rDone(0, rLocal), rEnd("completed", swap(rLocal, `"type":"exec","command":["bash","-lc","ls"]`, `"command":[ "bash","-lc","l\u0073" ],"type":"exec"`))), []string{`0 l local_shell {"type":"exec","command":["bash","-lc","ls"],"env":{}}`}, ""},

		{"no JSON", rStream("x"), nil, "event: no JSON value at byte 0"},
		{"same key twice", rStream(`{"type":"keepalive","type":"error"}`), nil, "event: a key that the object has already at byte 20"},
		{"an array", rStream(`[1]`), nil, "event: its data is an array, not an object"},
		{"no type", rStream(`{"x":1}`), nil, "event: it has no type"},
		{"an unknown event", rStream(`{"type":"response.call.replace","n":0}`), nil, "event response.call.replace: an unknown event type, which could carry a call"},
		{"a key in another case", rStream(`{"type":"response.output_item.done","n":0,"output_index":0,"item":` + rMessage + `,"Item":` + whole + `}`), nil, `Item: a key that some clients read as "item"`},
		{"a key of an item in another case", rStream(rDone(0, swap(whole, `"name"`, `"NAME":"x","name"`))), nil, `NAME: a key that some clients read as "name"`},
		{"an event without an event line", rStream("-" + call[0]), nil, "event response.output_item.added: some events have an event line and some have none"},
		{"an item that is added after one that only ended", rStream(rDone(0, whole), rAdded(1, rFunc("b", "B", ""))), []string{"0 a bash {}"}, "item: some items are added and some only end"},
		{"an item that only ends after one that was added", rStream(rText(0), rDone(1, whole)), nil, "item: some items are added and some only end"},
		{"two created", rStream(rCreated), nil, "response.created: a second one"},
		{"created after an item", append(rText(0), rCreated), nil, "response.created: it comes after an item"},
		{"an index that skips", rStream(rAdded(1, whole)), nil, "output_item.added: its output_index is not 0, the next one"},
		{"an index that repeats", rStream(rText(0), rAdded(0, whole)), nil, "output_item.added: its output_index is not 1, the next one"},
		{"an index of 0.0", rStream(swap(rAdded(0, whole), `"output_index":0`, `"output_index":0.0`)), nil, "output_item.added: its output_index is not 0, the next one"},
		{"an index that is a text", rStream(swap(rAdded(0, whole), `"output_index":0`, `"output_index":"0"`)), nil, "output_item.added: its output_index is not 0, the next one"},
		{"two calls and no index", rStream(bare(call), bare([]string{rAdded(1, rFunc("b", "B", ""))})), []string{lsA}, "item: more than one call, or one that is no function_call, in a stream without output_index"},
		{"a text and no index", rStream(bare([]string{rAdded(0, rCustom("b", "B", ""))})), nil, "item: more than one call, or one that is no function_call, in a stream without output_index"},
		{"no arguments and no index", rStream(bare([]string{rAdded(0, rFunc("a", "A", "")), rDone(0, rFunc("a", "A", ""))})), nil, "output_item.done: a call without arguments, in a stream without output_index"},
		{"no index after one", rStream(call, swap(rAdded(1, rFunc("b", "B", "")), `"output_index":1,`, ``)), []string{lsA}, "output_item.added: its output_index is not 1, the next one"},
		{"an index after none", rStream(bare(call), rAdded(1, rFunc("b", "B", ""))), []string{lsA}, "output_item.added: an output_index, in a stream without"},
		{"a fragment with an index, in a stream without", rStream(bare(call[:1]), call[1]), nil, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"a fragment without an index, in a stream with", rStream(call[:1], bare(call)[1]), nil, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"a fragment with neither an index nor an id", rStream(bare(call[:1]), swap(bare(call)[1], `"item_id":"fc_a",`, ``)), nil, `event response.function_call_arguments.delta: its item_id is not "fc_a", the open call's`},
		{"text with the id of a call and no index", rStream(bare(call[:1]), bare([]string{rDelta("output_text", 0, "fc_a", "x")})), nil, `event response.output_text.delta: it is about an item of type "function_call"`},
		{"a call between the fragments of another", rStream(call[:2], rAdded(1, rFunc("b", "B", "")), call[2]), nil, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"a message between the fragments of a call", rStream(call[:2], rAdded(1, rMessage), call[2]), nil, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"a message that ends between the fragments of a call", rStream(rText(0)[:4], rAdded(1, rFunc("a", "A", "")), rDelta("function_call_arguments", 1, "fc_a", "{"), rDone(0, rMessage), rDelta("function_call_arguments", 1, "fc_a", "}")), nil, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"arguments that are joined after another item began", rStream(call[:3], rAdded(1, rMessage), call[3]), nil, "event response.function_call_arguments.done: it is not about the call that takes fragments"},
		{"an item that ends while a call has no arguments", rStream(call[:3], rAdded(1, rFunc("b", "B", "")), call[4]), nil, "output_item.done: an item that ends while a call without arguments is open"},
		{"a call that ends while one before the last has no arguments", rStream(call[:3], rAdded(1, rFunc("b", "B", "")), rAdded(2, rCustom("c", "C", "")), rInputDone(2, "ctc_c", "x"), call[4]), nil, "output_item.done: an item that ends while a call without arguments is open"},
		{"a command that ends after another item", rStream(rAdded(0, rLocal), rAdded(1, rMessage), rDone(0, rLocal)), nil, `output_item.done: a call of type "local_shell_call" that ends after another item began or ended`},
		{"arguments at the start, and another item before the end", rStream(rAdded(0, whole), rAdded(1, rMessage), rDone(0, whole)), nil, "output_item.done: arguments of a call that come after another item"},
		{"arguments that come after another item", rStream(call[0], rAdded(1, rMessage), call[4]), nil, "output_item.done: arguments of a call that come after another item"},
		{"a call that is cut short by another item", rStream(call[:2], rAdded(1, rMessage), call[4]), nil, "output_item.done: the call is not what the fragments say"},
		{"an item that only ends inside of a call", rStream(call[:3], rDone(1, rFunc("b", "B", ""))), nil, "item: some items are added and some only end"},
		{"text inside of a call, of an item that had begun", rStream(rText(0)[:2], rAdded(1, rFunc("a", "A", "")), rDelta("output_text", 0, "msg_1", "hi"), rDone(1, rFunc("a", "A", "{}"))), []string{"0 a A {}"}, ""},
		{"text of a call", rStream(call[:2], rDelta("output_text", 0, "fc_a", "x")), nil, `event response.output_text.delta: it is about an item of type "function_call"`},
		{"arguments of a message", rStream(rText(0)[:2], rDelta("function_call_arguments", 0, "msg_1", "{}")), nil, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"arguments after the end of the call", rStream(call, rDelta("function_call_arguments", 0, "fc_a", " ")), []string{lsA}, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"text of a call, by its id alone", rStream(rText(0)[:4], rCall(1, "a", "bash", "{}")[:2], rDelta("output_text", 0, "fc_a", "x")), nil, `event response.output_text.delta: it is about an item of type "function_call"`},
		{"text of a call, by its id in escapes", rStream(bare(call[:1]), bare([]string{swap(rDelta("output_text", 0, "fc_a", "x"), "fc_a", `fc\u005fa`)})), nil, `event response.output_text.delta: it is about an item of type "function_call"`},
		{"arguments of a call of the provider with the id of a call", rStream(rAdded(0, `{"id":"mcp_1","type":"mcp_call","name":"x","server_label":"s","arguments":""}`), rCall(1, "a", "bash", "{}"), rDelta("mcp_call_arguments", 0, "fc_a", "x")), []string{"0 a bash {}"}, `event response.mcp_call_arguments.delta: it is about an item of type "function_call"`},
		{"a text for a function", rStream(call[:1], rDelta("custom_tool_call_input", 0, "fc_a", "x")), nil, `event response.custom_tool_call_input.delta: it is about an item of type "function_call"`},
		{"a fragment for another id", rStream(call[:1], rDelta("function_call_arguments", 0, "fc_b", "x")), nil, `event response.function_call_arguments.delta: its item_id is not "fc_a", the open call's`},
		{"a fragment for another index", rStream(rText(0), rAdded(1, rFunc("a", "A", "")), rDelta("function_call_arguments", 0, "fc_a", "x")), nil, "event response.function_call_arguments.delta: it is not about the call that takes fragments"},
		{"a fragment that is an object", rStream(call[:1], `{"type":"response.function_call_arguments.delta","n":0,"output_index":0,"delta":{}}`), nil, "event response.function_call_arguments.delta: its delta is an object, not a string"},
		{"a fragment after the whole", rStream(call[:4], call[2]), nil, "event response.function_call_arguments.delta: a fragment after the whole"},
		{"a fragment besides arguments at the start", rStream(rAdded(0, whole), rDelta("function_call_arguments", 0, "fc_a", " ")), nil, "event response.function_call_arguments.delta: a fragment of a call that had its arguments when it began"},
		{"arguments.done twice", rStream(call[:4], call[3]), nil, "event response.function_call_arguments.done: a second one for the same call"},
		{"arguments.done says another thing", rStream(call[:3], rArgsDone(0, "fc_a", `{"command":"rm"}`)), nil, "event response.function_call_arguments.done: it is not what came before"},
		{"arguments.done against the start", rStream(rAdded(0, whole), rArgsDone(0, "fc_a", `{"command":"rm"}`)), nil, "event response.function_call_arguments.done: it is not what came before"},
		{"arguments.done with another name", rStream(call[:3], swap(call[3], `"arguments"`, `"name":"rm","arguments"`)), nil, "event response.function_call_arguments.done: a call that changes its name"},
		{"the item says another thing than arguments.done", rStream(call[0], call[3], rDone(0, whole)), nil, "output_item.done: the call is not what the fragments say"},
		{"the item says another thing than the fragments", rStream(call[:3], rDone(0, whole)), nil, "output_item.done: the call is not what the fragments say"},
		{"the item has no arguments", rStream(call[:3], rDone(0, swap(whole, `,"arguments":"{}"`, ``))), nil, "output_item.done: the call is not what the fragments say"},
		{"the item says another thing than its start", rStream(rAdded(0, whole), rDone(0, rFunc("a", "bash", `{"command":"rm"}`))), nil, "output_item.done: the call is not the one that began"},
		{"another name at the end", rStream(call[:4], swap(call[4], `"bash"`, `"rm"`)), nil, "output_item.done: the call is not the one that began"},
		{"another id at the end", rStream(call[:4], swap(call[4], `"fc_a"`, `"fc_b"`)), nil, "output_item.done: the call is not the one that began"},
		{"another call_id at the end", rStream(call[:4], swap(call[4], `"call_id":"a"`, `"call_id":"b"`)), nil, "output_item.done: the call is not the one that began"},
		{"another namespace at the end", rStream(call[:4], swap(call[4], `"name"`, `"namespace":"x","name"`)), nil, "output_item.done: the call is not the one that began"},
		{"a message that ends as a call", rStream(rText(0)[:4], rDone(0, whole)), nil, `output_item.done: an item of type "message" ends as one of type "function_call"`},
		{"a call that ends as a message", rStream(call[:4], rDone(0, rMessage)), nil, `output_item.done: an item of type "function_call" ends as one of type "message"`},
		{"a search that moves to the client", rStream(rAdded(0, swap(rSearch, `"client"`, `"server"`)), rDone(0, rSearch)), nil, `output_item.done: an item of type "tool_search_call" ends as one of type "tool_search_call"`},
		{"a call that ends twice", rStream(call, call[4]), []string{lsA}, "output_item.done: an item that ends twice"},
		{"a shell call whose commands differ", rStream(rAdded(0, swap(rShell, `["ls","pwd"]`, `[]`)), `{"type":"response.shell_call_command.added","n":0,"output_index":0,"command_index":0,"command":"rm"}`, rDone(0, rShell)), nil, "output_item.done: the call is not what its commands say"},
		{"a shell call that began with other commands", rStream(rAdded(0, swap(rShell, `["ls","pwd"]`, `["rm"]`)), rDone(0, rShell)), nil, "output_item.done: the call is not the one that began"},
		{"a patch of another file at its start", rStream(rAdded(0, swap(rPatch, `a.go`, `b.go`)), rDone(0, rPatch)), nil, "output_item.done: the call is not the one that began"},
		{"a patch whose diff differs", rStream(rAdded(0, swap(rPatch, `@@\n-x\n+y\n`, ``)), rDelta("apply_patch_call_operation_diff", 0, "apc_1", "@@"), rDone(0, rPatch)), nil, "output_item.done: the call is not what its diff says"},
		{"two calls with one id", rStream(call, rAdded(1, swap(rFunc("a", "bash", ""), `"fc_a"`, `"fc_b"`))), []string{lsA}, `reply: two calls with the id "a"`},
		{"two items with one id", rStream(call, rAdded(1, swap(rFunc("b", "bash", ""), `"fc_b"`, `"fc_a"`))), []string{lsA}, `item: a second item with the id "fc_a"`},
		{"a message with the id of a call", rStream(call, rAdded(1, swap(rMessage, `"msg_1"`, `"fc_a"`))), []string{lsA}, `item: a second item with the id "fc_a"`},
		{"a call without a call_id", rStream(rAdded(0, swap(whole, `"call_id":"a",`, ``))), nil, "item function_call: a call without an id"},
		{"a call without a name", rStream(rAdded(0, swap(whole, `"name":"bash",`, ``))), nil, "item function_call: a call without a name"},
		{"arguments are an object", rStream(rAdded(0, swap(whole, `"{}"`, `{}`))), nil, "item function_call: its arguments is an object, not a string"},
		{"arguments in two places", rStream(rAdded(0, swap(whole, `"name"`, `"input":"x","name"`))), nil, "item function_call: a call with arguments in two places"},
		{"a function inside", rStream(rAdded(0, swap(whole, `"name"`, `"function":{"name":"x"},"name"`))), nil, `item function_call: a call with a member "function" beside its arguments`},
		{"a shell with a name", rStream(rAdded(0, swap(rLocal, `"action"`, `"name":"x","action"`))), nil, "item local_shell_call: a call with a name, where the type names the tool"},
		{"an item without a type", rStream(rAdded(0, `{"id":"x","name":"bash","arguments":"{}"}`)), nil, "item: it has no type"},
		{"no item", rStream(`{"type":"response.output_item.added","n":0,"output_index":0}`), nil, "item: it is nothing, not an object"},
		{"an item in an event of text", rStream(rText(0)[:2], swap(rDelta("output_text", 0, "msg_1", "x"), `"delta"`, `"item":`+whole+`,"delta"`)), nil, "event response.output_text.delta: an item or a response where there is none"},
		{"arguments in an event of text", rStream(rText(0)[:2], swap(rDelta("output_text", 0, "msg_1", "x"), `"delta"`, `"arguments":"{}","delta"`)), nil, "event response.output_text.delta: arguments in an event that has none"},
		{"a call of another dialect", rStream(swap(rDelta("output_text", 0, "msg_1", "x"), `"delta"`, `"choices":[{"delta":{"tool_calls":[{"function":{"name":"bash"}}]}}],"delta"`)), nil, "event response.output_text.delta: a member of another dialect, which could be a call"},
		{"an unknown part", rStream(rText(0)[:1], `{"type":"response.content_part.added","n":0,"output_index":0,"part":{"type":"tool_use","name":"bash"}}`), nil, `event response.content_part.added: an unknown part type "tool_use", which could be a call`},
		{"a sequence number that goes back", rStream(call[:2], `{"type":"keepalive","sequence_number":1}`), nil, "event keepalive: its sequence_number is not above 2, which came before it in the same call"},
		{"completed inside of a call", rStream(call[:4], done), nil, "response.completed: inside of a call"},
		{"in_progress inside of a call", rStream(call[:4], rProgress), nil, "event response.in_progress: inside of a call"},
		{"[DONE] inside of a call", rStream(call[:4], "[DONE]"), nil, "event: no JSON value at byte 1"},
		{"[DONE] before the end", rStream(call, "[DONE]", done), []string{lsA}, "event: no JSON value at byte 1"},
		{"an event after the end", rStream(call, done, call), []string{lsA}, "event response.output_item.added: it comes after the end"},
		{"an event after an error", rStream(`{"type":"error","n":0,"message":"x"}`, call), nil, "event response.output_item.added: it comes after the end"},
		{"an event after [DONE]", append([]string{"[DONE]"}, call...), nil, "event response.output_item.added: it comes after the end"},
		{"the output says another thing", rStream(call, rEnd("completed", rFunc("a", "bash", `{"command":"rm"}`))), []string{lsA}, `response.completed: the call "a" is another one in its output`},
		{"the output has another id", rStream(call, rEnd("completed", swap(rFunc("a", "bash", `{"command":"ls"}`), `"fc_a"`, `"fc_b"`))), []string{lsA}, `response.completed: the call "a" is another one in its output`},
		{"the output has another name", rStream(call, rEnd("incomplete", rFunc("a", "Bash", `{"command":"ls"}`))), []string{lsA}, `response.incomplete: the call "a" is another one in its output`},
		{"the output has a call twice", rStream(call, rEnd("completed", rFunc("a", "bash", `{"command":"ls"}`), rFunc("a", "bash", `{"command":"ls"}`))), []string{lsA}, `response.completed: the call "a" stands twice in its output`},
		{"the output has a call that was not streamed", rStream(call, rEnd("completed", rFunc("a", "bash", `{"command":"ls"}`), rFunc("b", "bash", "{}"))), []string{lsA}, `response.completed: the call "b" in its output was never streamed`},
		{"the output has a call where only text was streamed", rStream(rText(0), rEnd("failed", rMessage, whole)), nil, `response.failed: the call "a" in its output was never streamed`},
		{"the output has the call as a message", rStream(call, rEnd("completed", swap(rMessage, `"msg_1"`, `"fc_a"`))), []string{lsA}, `response.completed: the call "a" is an item of type "message" in its output`},
		{"a call in created", []string{swap(rCreated, `"output":[]`, `"output":[`+whole+`]`)}, nil, `response.created: the call "a" in its output was never streamed`},
		{"a call in in_progress", rStream(swap(rProgress, `"output":[]`, `"output":[`+whole+`]`)), nil, `response.in_progress: the call "a" in its output was never streamed`},
		{"an output in another case", rStream(`{"type":"response.completed","n":0,"response":{"id":"resp_1","Output":[` + whole + `]}}`), nil, `Output: a key that some clients read as "output"`},
		{"an output that is an object", rStream(`{"type":"response.completed","n":0,"response":{"id":"resp_1","output":{"0":` + whole + `}}}`), nil, "response.completed: its output is an object, not an array"},
		{"a call of another dialect at the end", rStream(`{"type":"response.completed","n":0,"response":{"id":"resp_1","choices":[{"message":{"tool_calls":[{"function":{"name":"x"}}]}}]}}`), nil, `response.completed: its response has a member "choices", which could be a call of another dialect`},
		{"a response of another id", rStream(call, swap(done, `"resp_1"`, `"resp_2"`)), []string{lsA}, "response.completed: a response with another id, in a reply with calls"},
		{"a line separator in a fragment", []string{rCreated, rAdded(0, rFunc("a", "A", "")), raw(rDelta("function_call_arguments", 0, "fc_a", "{\"x\":\"\u2028\"}")), rDone(0, rFunc("a", "A", "{\"x\":\"\u2028\"}"))}, []string{"0 a A {\"x\":\"\u2028\"} (" + breaksText + ")"}, ""},
		{"a line separator in all arguments", []string{rCreated, raw(rDone(0, rFunc("a", "A", "{\"x\":\"\u2028\"}")))}, []string{"0 a A {\"x\":\"\u2028\"} (" + breaksText + ")"}, ""},
		{"a line separator beside all arguments", []string{rCreated, strings.Replace(rDone(0, rFunc("a", "A", "{}")), `"n":0`, "\"n\":0,\"x\":\"\u0085\"", 1)}, nil, "output_item.done: a character at which some clients end a line, in an event of a call"},
		{"a line separator in a call's start", []string{rCreated, raw(rAdded(0, rFunc("a\u2028", "A", "")))}, nil, "output_item.added: a character at which some clients end a line, in an event of a call"},
		{"a call after an item that was added with one", []string{rCreated, strings.Replace(rAdded(0, rReasoning), `"n":0`, "\"n\":0,\"x\":\"\u2028\"", 1), rDone(0, rReasoning), rAdded(1, rFunc("a", "A", ""))}, nil, "output_item.added: a call after an item that was added with a character at which some clients end a line"},
		{"too many calls", rStream(rDone(0, rFunc("a", "A", "")), rDone(1, rFunc("b", "A", "")), rDone(2, rFunc("c", "A", "")), rDone(3, rFunc("d", "A", "")), rDone(4, rFunc("e", "A", ""))), []string{"0 a A ", "1 b A ", "2 c A ", "3 d A "}, "reply: more than 4 calls in one reply"},
		{"a call that is too large", rStream(call[0], rDelta("function_call_arguments", 0, "fc_a", strings.Repeat("x", 300))), nil, "event response.function_call_arguments.delta: a call of more than 256 bytes"},
		{"a whole call that is too large", rStream(rDone(0, rFunc("a", "A", strings.Repeat("x", 300)))), nil, "output_item.done: a call of more than 256 bytes"},
		{"too much held", rStream(call[0], `{"type":"keepalive","x":"`+strings.Repeat("x", 5000)+`"}`), nil, "reply: more than 4096 bytes held"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.err == "" {
				c.in = ended(c.in)
			}
			in := numbered(c.in...)
			out, calls, err := play(Responses, in, nil, Limits{Call: 256, Held: 4096, Calls: 4}, allow)
			if strings.HasPrefix(c.name, "dropped: ") {
				if strings.Contains(out, "arguments.delta") {
					t.Errorf("a part of a call flowed: %s", out)
				}
				in = out
			}
			check(t, in, out, calls, err, c.calls, c.err)
			if c.err == "" && out != in {
				t.Errorf("an allowed stream is another one:\ngot  %s\nwant %s", out, in)
			}
		})
	}
}

// TestResponsesRefusals: every copy of a refused call is another one, nothing
// else is, and what comes out is a legal stream in which the call is refused.
func TestResponsesRefusals(t *testing.T) {
	no := func(c Call) Ruling {
		switch {
		case c.Name == "bash" || c.Name == "exec":
			return Ruling{Replace: true, Name: c.Name, Args: []byte(`{"command":"false"}`)}
		case c.Name == "shell":
			return Ruling{Replace: true, Name: c.Name, Args: []byte(`{"commands":["false"]}`)}
		case c.Name == "computer":
			return Ruling{Replace: true, Message: `withheld "it"`}
		}
		return Ruling{Replace: true, Name: "no", Args: []byte(`{"why":"\""}`)}
	}
	refusedFunc := func(id string) string { return rFunc(id, "bash", `{"command":"false"}`) }
	empty := func(id string) string { return rFunc(id, "bash", "") }
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{"first, beside reasoning", rStream(rCall(0, "a", "bash", `{"command":"rm"}`), rAdded(1, rReasoning), rDone(1, rReasoning), rEnd("completed", rFunc("a", "bash", `{"command":"rm"}`), rReasoning)),
			rStream(rAdded(0, empty("a")), rDelta("function_call_arguments", 0, "fc_a", `{"command":"false"}`), rDelta("function_call_arguments", 0, "fc_a", ""), rArgsDone(0, "fc_a", `{"command":"false"}`), rDone(0, refusedFunc("a")),
				rAdded(1, rReasoning), rDone(1, rReasoning), rEnd("completed", refusedFunc("a"), rReasoning))},
		{"arguments at the start", rStream(rAdded(0, rFunc("a", "bash", "{}")), rDelta("function_call_arguments", 0, "fc_a", ""), rDone(0, rFunc("a", "bash", "{}")), rEnd("incomplete", rFunc("a", "bash", "{}"))),
			rStream(rAdded(0, refusedFunc("a")), rDelta("function_call_arguments", 0, "fc_a", ""), rDone(0, refusedFunc("a")), rEnd("incomplete", refusedFunc("a")))},
		{"no arguments at all", rStream(rDone(0, `{"id":"fc_a","type":"function_call","call_id":"a","name":"bash"}`)), rStream(rDone(0, `{"id":"fc_a","type":"function_call","call_id":"a","name":"bash","arguments":"{\"command\":\"false\"}"}`))},
		{"an unknown item beside an open call", rStream(rAdded(0, empty("a")), rDelta("function_call_arguments", 0, "fc_a", "{}"), rAdded(1, rUnknown), rDone(0, rFunc("a", "bash", "{}")), rDone(1, rUnknown)),
			rStream(rAdded(0, empty("a")), rDelta("function_call_arguments", 0, "fc_a", `{"command":"false"}`), rAdded(1, `{"id":"msg_xx_1","type":"message","status":"in_progress","role":"assistant","content":[]}`), rDone(0, refusedFunc("a")), rDone(1, `{"id":"msg_xx_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":`+string(tape.Quote(nil, withheldText("agent_call")))+`}]}`))},
		{"no fragments", rStream(rAdded(0, empty("a")), rDone(0, rFunc("a", "bash", "{}"))), rStream(rAdded(0, refusedFunc("a")), rDone(0, refusedFunc("a")))},
		{"a text", rStream(rAdded(0, rCustom("a", "exec", "")), rDelta("custom_tool_call_input", 0, "ctc_a", "rm"), rInputDone(0, "ctc_a", "rm"), rDone(0, rCustom("a", "exec", "rm")), rEnd("completed", rCustom("a", "exec", "rm"))),
			rStream(rAdded(0, rCustom("a", "exec", "")), rDelta("custom_tool_call_input", 0, "ctc_a", `{"command":"false"}`), rInputDone(0, "ctc_a", `{"command":"false"}`), rDone(0, rCustom("a", "exec", `{"command":"false"}`)), rEnd("completed", rCustom("a", "exec", `{"command":"false"}`)))},
		{"another name, which arguments.done has too", rStream(rAdded(0, rFunc("a", "write", "")), strings.Replace(rArgsDone(0, "fc_a", "{}"), `"arguments"`, `"name":"write","arguments"`, 1), rDone(0, rFunc("a", "write", "{}"))),
			rStream(rAdded(0, rFunc("a", "no", "")), strings.Replace(rArgsDone(0, "fc_a", `{"why":"\""}`), `"arguments"`, `"name":"no","arguments"`, 1), rDone(0, rFunc("a", "no", `{"why":"\""}`)))},
		{"a shell call keeps its kind, its own events go", rStream(rAdded(0, strings.Replace(rShell, `["ls","pwd"]`, `[]`, 1)), `{"type":"response.shell_call_command.added","output_index":0,"command_index":0,"command":"ls"}`, `{"type":"response.shell_call_command.added","output_index":0,"command_index":1,"command":"pwd"}`, rDone(0, rShell), rEnd("completed", rShell)),
			rStream(rAdded(0, strings.Replace(rShell, `{"commands":["ls","pwd"],"timeout_ms":1}`, `{"commands":["false"]}`, 1)), "", "", rDone(0, strings.Replace(rShell, `{"commands":["ls","pwd"],"timeout_ms":1}`, `{"commands":["false"]}`, 1)), rEnd("completed", strings.Replace(rShell, `{"commands":["ls","pwd"],"timeout_ms":1}`, `{"commands":["false"]}`, 1)))},
		{"a patch becomes a call of a function", rStream(rAdded(0, rPatch), rDelta("apply_patch_call_operation_diff", 0, "apc_1", "@@\n-x\n+y\n"), rDone(0, rPatch), rEnd("completed", rPatch)),
			rStream(rAdded(0, `{"id":"fc_apc_1","type":"function_call","status":"in_progress","call_id":"p","name":"no","arguments":"{\"why\":\"\\\"\"}"}`), "", rDone(0, `{"id":"fc_apc_1","type":"function_call","status":"completed","call_id":"p","name":"no","arguments":"{\"why\":\"\\\"\"}"}`), rEnd("completed", `{"id":"fc_apc_1","type":"function_call","status":"completed","call_id":"p","name":"no","arguments":"{\"why\":\"\\\"\"}"}`))},
		{"a question becomes a call of a function", rStream(rDone(0, rApproval)), rStream(rDone(0, `{"id":"fc_mcpr_1","type":"function_call","status":"completed","call_id":"mcpr_1","name":"no","arguments":"{\"why\":\"\\\"\"}"}`))},
		{"a click becomes a message", rStream(rAdded(0, rComputer), rDone(0, rComputer), rEnd("completed", rComputer)),
			rStream(rAdded(0, `{"id":"msg_cu_1","type":"message","status":"in_progress","role":"assistant","content":[]}`), rDone(0, `{"id":"msg_cu_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"withheld \"it\""}]}`), rEnd("completed", `{"id":"msg_cu_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"withheld \"it\""}]}`))},
		{"all in one event", rStream(rEnd("completed", rMessage, rFunc("a", "bash", "{}"), rFunc("b", "write", "{}"))), rStream(rEnd("completed", rMessage, refusedFunc("a"), rFunc("b", "no", `{"why":"\""}`)))},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Events that go keep their number to themselves.
			in, want := numbered(ended(c.in)...), strings.ReplaceAll(numbered(ended(c.want)...), "data: \n\n", "")
			got, calls, err := play(Responses, in, nil, DefaultLimits, no)
			if err != nil || got != want {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
			}
			again, calls2, err := play(Responses, got, nil, DefaultLimits, allow)
			if err != nil || again != got || len(calls2) > len(calls) {
				t.Errorf("what came out is not legal: %v, %q", err, calls2)
			}
		})
	}
}

func TestUnknownItems(t *testing.T) {
	said := withheldText("agent_call")
	message := func(status, content string) string {
		return `{"id":"msg_xx_1","type":"message","status":"` + status + `","role":"assistant","content":[` + content + `]}`
	}
	part := `{"type":"output_text","annotations":[],"text":` + string(tape.Quote(nil, said)) + `}`
	call := rCall(1, "a", "bash", "{}")
	in := numbered(rStream(rAdded(0, rUnknown), rDone(0, rUnknown), call, rEnd("completed", rUnknown, rFunc("a", "bash", "{}")))...)
	want := numbered(rStream(rAdded(0, message("in_progress", "")), rDone(0, message("completed", part)), rCall(1, "a", "bash", "{}"), rEnd("completed", message("completed", part), rFunc("a", "bash", "{}")))...)
	got, calls, err := play(Responses, in, nil, DefaultLimits, allow)
	if err != nil || got != want || len(calls) != 1 {
		t.Errorf("%v %q\ngot  %s\nwant %s", err, calls, got, want)
	}
	if got, _, err := play(Responses, in, Inert{"agent_call": true}, DefaultLimits, allow); err != nil || got != in {
		t.Errorf("an item that the operator knows: %v\n%s", err, got)
	}
	// A message is known, a part of it is not.
	odd := strings.Replace(rMessage, "output_text", "output_tool", 1)
	got, _, err = play(Responses, numbered(rStream(rAdded(0, odd), rDone(0, odd), rEnd("completed", odd))...), nil, DefaultLimits, allow)
	if err != nil || strings.Contains(got, "output_tool") || strings.Count(got, "withheld") != 2 {
		t.Errorf("%v\n%s", err, got)
	}
	// Events about it.
	for _, ev := range []string{rDelta("output_text", 0, "xx_1", "x"), rDelta("function_call_arguments", 0, "xx_1", "{}"), `{"type":"response.agent_call.progress","n":0}`} {
		if got, _, err := play(Responses, numbered(rStream(rAdded(0, rUnknown), ev, rEnd("completed"))...), nil, DefaultLimits, allow); err == nil {
			t.Errorf("an event about an unknown item flows: %s", got)
		}
	}
	// The step says what was withheld, once an item.
	st := NewStream(Responses, nil, DefaultLimits)
	rd := sse.NewReader(strings.NewReader(in), 1<<20)
	var withheld []string
	for ev, err := rd.Next(); err == nil; ev, err = rd.Next() {
		step, err := st.Feed(ev)
		if err != nil {
			t.Fatal(err)
		}
		withheld = append(withheld, step.Withheld...)
		if step.Calls != nil {
			st.Release(make([]Ruling, len(step.Calls)))
		}
	}
	if fmt.Sprint(withheld) != "[agent_call]" {
		t.Errorf("withheld %q", withheld)
	}
}

func TestWholeResponses(t *testing.T) {
	body := func(items ...string) string {
		return `{"id":"resp_1","object":"response","status":"completed","output":[` + strings.Join(items, ",") + `],"tools":[{"type":"function","name":"bash"}]}`
	}
	for _, c := range []struct{ name, in, calls, out, err string }{
		{"text", body(rReasoning, rMessage), "", "", ""},
		{"calls", body(rMessage, rFunc("a", "A", `{"x": 1}`), rCustom("b", "B", "te\"xt")), `a A {"x": 1};b B te"xt;`, body(rMessage, rFunc("a", "no", `{"why":"\""}`), rCustom("b", "no", `{"why":"\""}`)), ""},
		{"a local shell", body(rLocal), `l local_shell {"type":"exec","command":["bash","-lc","ls"],"env":{}};`, body(`{"id":"fc_lsh_1","type":"function_call","status":"completed","call_id":"l","name":"no","arguments":"{\"why\":\"\\\"\"}"}`), ""},
		{"an unknown item", body(rUnknown, rMessage), "", body(`{"id":"msg_xx_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":`+string(tape.Quote(nil, withheldText("agent_call")))+`}]}`, rMessage), ""},
		{"a compaction", `{"id":"c","object":"response.compaction","output":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"compaction","encrypted_content":"gAA="}]}`, "", "", ""},
		{"in the background", `{"id":"r","object":"response","status":"queued","output":[]}`, "", "", ""},
		{"deleted", `{"id":"r","object":"response","deleted":true}`, "", "", ""},
		{"a number", `{"object":"response.input_tokens","input_tokens":7}`, "", "", ""},
		{"an error", `{"error":{"message":"x"}}`, "", "", ""},
		{"a list", `{"object":"list","data":[` + rFunc("a", "A", "{}") + `]}`, "", "", "data: it is no member of this dialect, and could be a call of another"},
		{"an event", `{"type":"response.completed","response":{"output":[` + rFunc("a", "A", "{}") + `]}}`, "", "", "response: it is no member of this dialect, and could be a call of another"},
		{"output in another case", `{"Output":[` + rFunc("a", "A", "{}") + `]}`, "", "", `Output: a key that some clients read as "output"`},
		{"output is an object", `{"output":{"a":1}}`, "", "", "output: it is an object, not an array"},
		{"two calls with one id", body(rFunc("a", "A", "{}"), strings.Replace(rFunc("a", "A", "{}"), "fc_a", "fc_b", 1)), "", "", `reply: two calls with the id "a"`},
		{"two items with one id", body(rFunc("a", "A", "{}"), strings.Replace(rFunc("b", "A", "{}"), "fc_b", "fc_a", 1)), "", "", `output: two items with the id "fc_a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := checkWhole(t, Route{Dialect: Responses}, c.in, c.calls, c.out, c.err)
			if rep != nil && strings.Contains(c.in, `"tools"`) && string(rep.Tools) != `[{"type":"function","name":"bash"}]` {
				t.Errorf("tools %s", rep.Tools)
			}
		})
	}
}

func TestDeclarations(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"function","name":"f","parameters":{"type":"object","required":["a"]}}`: "function_call /f [a];",
		`{"type":"custom","name":"apply_patch","format":{}}`:                             "custom_tool_call /apply_patch [];",
		`{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"wait"},{"type":"namespace","name":"in","tools":[{"type":"function","name":"deep"}]}]}`: "custom_tool_call functions/exec [];function_call functions/wait [];function_call in/deep [];",
		`{"type":"local_shell"}`:                                         "local_shell_call /local_shell [];",
		`{"type":"shell","environment":{"type":"local"}}`:                "shell_call /shell [];",
		`{"type":"shell"}`:                                               "shell_call /shell [];",
		`{"type":"shell","environment":{"type":"container_auto"}}`:       "shell_call /shell [] hosted;",
		`{"type":"tool_search","execution":"client","parameters":{}}`:    "tool_search_call /tool_search [];",
		`{"type":"tool_search"}`:                                         "tool_search_call /tool_search [] hosted;",
		`{"type":"computer_use_preview","environment":"browser"}`:        "computer_call /computer [];",
		`{"type":"mcp","server_label":"db","require_approval":"always"}`: "mcp_approval_request db/ [];",
		`{"type":"web_search","external_web_access":false}`:              " / [];",
		`{"type":"namespace","name":"n"}`:                                "", `x`: "",
	} {
		got := ""
		for _, d := range Declarations(Responses, []byte(in)) {
			got += fmt.Sprintf("%s %s/%s %v", d.Item, d.Namespace, d.Name, d.Required)
			if d.Hosted {
				got += " hosted"
			}
			got += ";"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestResponsesRequest(t *testing.T) {
	in := `{"model":"m","stream":true,"store":false,"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[]}]},{"role":"user","content":"go"},{"id":"rs_1","type":"reasoning"},
		` + rFunc("a", "A", `{"x": 1}`) + `,` + rCustom("b", "exec", `te"xt`) + `,` + rLocal + `,` + rShell + `,` + rPatch + `,` + rComputer + `,{"type":"function_call_output","call_id":"a","output":"r"},
		{"type":"tool_search_output","tools":[{"type":"function","name":"found"}]}],"tools":[{"type":"function","name":"A"}]}`
	q, err := Read(Route{Dialect: Responses}, []byte(in), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(q.Model, " ", q.Stream, " turns=", q.Turns, " calls=", q.Calls, " tools=")
	for _, tool := range q.Tools {
		got += tool.Name + ","
	}
	for _, p := range q.Past {
		got += fmt.Sprintf("\n%s %s %v %s", q.Item(p), q.Name(p), q.Text(p), q.Arguments(p))
	}
	want := `m true turns=1 calls=6 tools=A,n,found,
function_call A false {"x": 1}
custom_tool_call exec true te"xt
local_shell_call local_shell false {"type":"exec","command":["bash","-lc","ls"],"env":{}}
shell_call shell false {"commands":["ls","pwd"],"timeout_ms":1}
apply_patch_call apply_patch false {"type":"update_file","path":"a.go","diff":"@@\n-x\n+y\n"}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for in, want := range map[string]Held{
		`{"input":"x"}`: {Store: true}, `{"input":[],"store":false}`: {}, `{"previous_response_id":"r","background":true}`: {Previous: "r", Store: true, Background: true},
		`{"conversation":{"id":"c"}}`: {Conversation: true, Store: true}, `{"conversation":null,"store":null}`: {Store: true},
		`{"input":[{"type":"item_reference","id":"x"},{"id":"y"},{"role":"user","content":"z"}]}`: {References: 2, Store: true},
	} {
		q, err := Read(Route{Dialect: Responses}, []byte(in), nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Held != want {
			t.Errorf("%s: %+v, want %+v", in, q.Held, want)
		}
		if q.Held.Elsewhere() != (want.Previous != "" || want.Conversation || want.References > 0) {
			t.Errorf("%s: elsewhere %v", in, q.Held.Elsewhere())
		}
	}
}

func TestRestoreResponses(t *testing.T) {
	input := func(items ...string) string {
		return `{"input":[{"role":"user","content":"go"},` + strings.Join(items, ",") + `]}`
	}
	out := func(typ, id, output string) string {
		return `{"type":"` + typ + `","call_id":"` + id + `","output":` + output + `}`
	}
	refused := rFunc("a", "guardproxy_refused", `{"sealed":"x"}`)
	for _, c := range []struct {
		name, in, item, tool, args string
		want                       string // "" for no edit
		answered                   bool
	}{
		{"a function", input(refused, out("function_call_output", "a", `"r"`)), FunctionCall, "bash", `{"x": "\u00e9"}`, input(rFunc("a", "bash", `{"x": "\u00e9"}`), out("function_call_output", "a", `"the \"text\""`)), true},
		{"results in another order", input(refused, rFunc("b", "B", "{}"), out("function_call_output", "b", `"r"`), out("function_call_output", "a", `"r"`)), FunctionCall, "bash", "{}", input(rFunc("a", "bash", `{}`), rFunc("b", "B", "{}"), out("function_call_output", "b", `"r"`), out("function_call_output", "a", `"the \"text\""`)), true},
		{"a text, with a result in parts", input(rCustom("a", "exec", "no"), out("custom_tool_call_output", "a", `[{"type":"input_text","text":"Script"},{"type":"input_text","text":"r"}]`)), CustomToolCall, "exec", "rm(\"x\")\n", input(rCustom("a", "exec", "rm(\"x\")\n"), out("custom_tool_call_output", "a", `[{"type":"input_text","text":"the \"text\""}]`)), true},
		{"one part", input(rCustom("a", "exec", "no"), out("custom_tool_call_output", "a", `[{"type":"input_text","text":"r","x":1}]`)), CustomToolCall, "exec", "rm", input(rCustom("a", "exec", "rm"), out("custom_tool_call_output", "a", `[{"type":"input_text","text":"the \"text\"","x":1}]`)), true},
		{"no output member", input(refused, `{"type":"function_call_output","call_id":"a"}`), FunctionCall, "bash", "{}", input(rFunc("a", "bash", "{}"), `{"type":"function_call_output","call_id":"a","output":"the \"text\""}`), true},
		{"no result", input(refused), FunctionCall, "bash", "{}", input(rFunc("a", "bash", "{}")), false},
		{"two results", input(refused, out("function_call_output", "a", `"r"`), out("function_call_output", "a", `"r"`)), FunctionCall, "bash", "{}", input(rFunc("a", "bash", "{}"), out("function_call_output", "a", `"r"`), out("function_call_output", "a", `"r"`)), false},
		{"two calls with the id", input(refused, rFunc("a", "B", "{}"), out("function_call_output", "a", `"r"`)), FunctionCall, "bash", "{}", input(rFunc("a", "bash", "{}"), rFunc("a", "B", "{}"), out("function_call_output", "a", `"r"`)), false},
		{"a shell call", input(rShell, `{"type":"shell_call_output","call_id":"s","output":[{"stdout":"","stderr":"no","outcome":{"type":"exit","exit_code":126}}]}`), ShellCall, "shell", `{"commands":["rm"]}`, input(strings.Replace(rShell, `{"commands":["ls","pwd"],"timeout_ms":1}`, `{"commands":["rm"]}`, 1), `{"type":"shell_call_output","call_id":"s","output":[{"stdout":"","stderr":"the \"text\"","outcome":{"type":"exit","exit_code":126}}]}`), true},
		{"a local shell, answered by the item's id", input(rLocal, `{"type":"local_shell_call_output","id":"l","output":"no"}`), LocalShellCall, "local_shell", `{"command":["rm"]}`, input(strings.Replace(rLocal, `{"type":"exec","command":["bash","-lc","ls"],"env":{}}`, `{"command":["rm"]}`, 1), `{"type":"local_shell_call_output","id":"l","output":"the \"text\""}`), true},
		{"a patch that was a patch", input(rPatch, `{"type":"apply_patch_call_output","call_id":"p","status":"completed","output":"no"}`), ApplyPatchCall, "apply_patch", `{"type":"delete_file","path":"x"}`, input(strings.Replace(rPatch, `{"type":"update_file","path":"a.go","diff":"@@\n-x\n+y\n"}`, `{"type":"delete_file","path":"x"}`, 1), `{"type":"apply_patch_call_output","call_id":"p","status":"failed","output":"the \"text\""}`), true},
		{"a function that was a patch", input(refused, out("function_call_output", "a", `"r"`)), ApplyPatchCall, "apply_patch", `{"type":"delete_file","path":"x"}`, input(`{"type":"apply_patch_call","status":"completed","call_id":"a","operation":{"type":"delete_file","path":"x"}}`, `{"type":"apply_patch_call_output","call_id":"a","status":"failed","output":"the \"text\""}`), true},
		{"a function that was a shell", input(refused, out("function_call_output", "a", `"r"`)), ShellCall, "shell", `{"commands":["x"]}`, input(`{"type":"shell_call","status":"completed","call_id":"a","action":{"commands":["x"]}}`, `{"type":"shell_call_output","call_id":"a","output":[{"stdout":"","stderr":"the \"text\"","outcome":{"type":"exit","exit_code":126}}]}`), true},
		{"a function that was a local shell", input(refused, out("function_call_output", "a", `"r"`)), LocalShellCall, "local_shell", `{"command":["x"]}`, input(`{"id":"lsh_fc_a","type":"local_shell_call","status":"completed","call_id":"a","action":{"command":["x"]}}`, `{"type":"local_shell_call_output","id":"a","output":"the \"text\""}`), true},
		{"a function that was a patch, without a result", input(refused), ApplyPatchCall, "apply_patch", `{}`, "", false},
		{"a function that was a click", input(refused, out("function_call_output", "a", `"r"`)), ComputerCall, "computer", `{}`, "", false},
		{"a function that was a text", input(refused, out("function_call_output", "a", `"r"`)), CustomToolCall, "exec", `x`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !json.Valid([]byte(c.in)) {
				t.Fatalf("no JSON: %s", c.in)
			}
			q, err := Read(Route{Dialect: Responses}, []byte(c.in), nil)
			if err != nil {
				t.Fatal(err)
			}
			edits, answered := q.RestoreItem(q.Past[0], c.item, c.tool, []byte(c.args), `the "text"`)
			if answered != c.answered || (c.want == "") != (len(edits) == 0) {
				t.Fatalf("answered %v, %d edits", answered, len(edits))
			}
			got := string(Splice([]byte(c.in), edits))
			if c.want != "" && got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.want != "" {
				q, err := Read(Route{Dialect: Responses}, []byte(got), nil)
				if err != nil || q.Item(q.Past[0]) != c.item || q.Name(q.Past[0]) != c.tool || !bytes.Equal(q.Arguments(q.Past[0]), []byte(c.args)) {
					t.Errorf("%v: it is not what was there", err)
				}
			}
		})
	}
}
