package e2e

// The Responses dialect in the differential tests: streams by its grammar and
// odd ones, and readers of them.
//
// A call of this dialect is more than a name: an item of one type can end as
// one of another. So the name of a call here is the type of its item and the
// tool's name, and a text is the member input of an object.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	ossestream "github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// seenAs is a judged call as readers have it, after ruling r.
func seenAs(c wire.Call, r wire.Ruling) call {
	if r.Replace {
		if c.Item != "" && c.Item != wire.CustomToolCall && c.Item != wire.FunctionCall && r.Name != c.Name {
			c.Item, c.Text = wire.FunctionCall, false
		}
		c.Name, c.Args = r.Name, r.Args
	}
	name, args := c.Name, string(c.Args)
	if c.Item != "" {
		name = c.Item + " " + name
	}
	if c.Text {
		args = textArgs(args)
	}
	return call{c.ID, name, args}
}

func textArgs(text string) string { return `{"input":` + quote(text) + `}` }

// itemCall is the call that an item is, if it is one.
func itemCall(it obj) (call, bool) {
	typ, id := str(it, "type"), str(it, "call_id")
	tool := strings.TrimSuffix(typ, "_call")
	switch typ {
	case "function_call":
		return call{id, typ + " " + str(it, "name"), str(it, "arguments")}, true
	case "custom_tool_call":
		return call{id, typ + " " + str(it, "name"), textArgs(str(it, "input"))}, true
	case "local_shell_call", "shell_call":
		return call{id, typ + " " + tool, encode(it["action"])}, true
	case "apply_patch_call":
		return call{id, typ + " " + tool, encode(it["operation"])}, true
	case "tool_search_call":
		if str(it, "execution") != "server" {
			return call{id, typ + " " + tool, encode(it["arguments"])}, true
		}
	}
	return call{}, false
}

func responsesSDK(from func(responses.ResponseStreamEventUnion, *[]call) error) func([]byte) ([]call, error) {
	return func(stream []byte) ([]call, error) {
		resp := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(stream))}
		s := ossestream.NewStream[responses.ResponseStreamEventUnion](ossestream.NewDecoder(resp), nil)
		defer s.Close()
		var calls []call
		for s.Next() {
			if err := from(s.Current(), &calls); err != nil {
				return calls, err
			}
		}
		return calls, s.Err()
	}
}

// sdkItem is an item of the SDK's types as a call.
func sdkItem(it responses.ResponseOutputItemUnion) (call, bool) {
	switch v := it.AsAny().(type) {
	case responses.ResponseFunctionToolCall:
		return call{v.CallID, "function_call " + v.Name, v.Arguments}, true
	case responses.ResponseCustomToolCall:
		return call{v.CallID, "custom_tool_call " + v.Name, textArgs(v.Input)}, true
	case responses.ResponseOutputItemLocalShellCall, responses.ResponseFunctionShellToolCall, responses.ResponseApplyPatchToolCall, responses.ResponseToolSearchCall:
		var o obj
		d := json.NewDecoder(strings.NewReader(it.RawJSON()))
		d.UseNumber()
		if d.Decode(&o) != nil {
			return call{}, false
		}
		return itemCall(o)
	}
	return call{}, false
}

// sdkDone runs what output_item.done events bring.
func sdkDone(ev responses.ResponseStreamEventUnion, calls *[]call) error {
	if e, ok := ev.AsAny().(responses.ResponseOutputItemDoneEvent); ok {
		if c, ok := sdkItem(e.Item); ok {
			*calls = append(*calls, c)
		}
	}
	return nil
}

// sdkOutput runs what the last response object has.
func sdkOutput(ev responses.ResponseStreamEventUnion, calls *[]call) error {
	var out []responses.ResponseOutputItemUnion
	switch e := ev.AsAny().(type) {
	case responses.ResponseCompletedEvent:
		out = e.Response.Output
	case responses.ResponseIncompleteEvent:
		out = e.Response.Output
	}
	for _, it := range out {
		if c, ok := sdkItem(it); ok {
			*calls = append(*calls, c)
		}
	}
	return nil
}

// sdkAccumulator is the SDK's accumulator. It was made for its WebSocket
// events, which are the same objects. lenient goes on after its errors.
func sdkAccumulator(lenient bool) func([]byte) ([]call, error) {
	return func(stream []byte) ([]call, error) {
		var acc responses.ResponseAccumulator
		var failed error
		for _, ev := range splitWeb(true)(stream) {
			var e responses.ResponsesServerEventUnion
			if ev.data == "[DONE]" {
				continue
			}
			err := json.Unmarshal([]byte(ev.data), &e)
			if err == nil {
				err = acc.AddEvent(e)
			}
			if err != nil {
				failed = err
				if !lenient {
					break
				}
			}
		}
		var calls []call
		for _, it := range acc.Snapshot().Output {
			switch it.Type {
			case "function_call":
				calls = append(calls, call{it.CallID, it.Type + " " + it.Name, it.Arguments})
			case "custom_tool_call":
				calls = append(calls, call{it.CallID, it.Type + " " + it.Name, textArgs(it.Input)})
			}
		}
		return calls, failed
	}
}

// sdkReconstructed is the response that the SDK's accumulator makes at the end.
func sdkReconstructed(stream []byte) ([]call, error) {
	var acc responses.ResponseAccumulator
	for _, ev := range splitWeb(true)(stream) {
		var e responses.ResponsesServerEventUnion
		if ev.data == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(ev.data), &e); err != nil {
			return nil, err
		}
		if err := acc.AddEvent(e); err != nil {
			return nil, err
		}
	}
	r, err := acc.ReconstructedResponse()
	if err != nil {
		return nil, err
	}
	var calls []call
	for _, it := range r.Output {
		if c, ok := sdkItem(it); ok {
			calls = append(calls, c)
		}
	}
	return calls, nil
}

// finder says which item an event of fragments is about.
type finder uint8

const (
	atPlace   finder = iota // output_index as a place in the order of arrival
	atIndex                 // the newest with that output_index
	atID                    // item_id
	lastAdded               // the last item that was added
)

// source says where a reader takes the arguments of a call from.
type source uint8

const (
	fromDone      source = iota // output_item.done
	fromFragments               // its start and fragments, or the event that joins them; output_item.done when there are none
)

// responsesModel is a reader of Responses streams.
type responsesModel struct {
	split  splitter
	keys   keys
	byLine bool // takes the event's type from its event line
	find   finder
	args   source
	// added takes id and name from output_item.added.
	added bool
	// output runs the items of the last response object in the place of all
	// that came before; anyOutput those of every response object.
	output, anyOutput bool
	// untilEnd stops at the last event of the response, untilDone at [DONE].
	untilEnd, untilDone bool
	// skip drops an event whose members have other types than documented.
	skip bool
	// functions leaves out calls that are no function_call.
	functions bool
}

type respBlock struct {
	index    int
	itemID   string
	call     call
	text     string
	function bool
	whole    bool // its arguments came from an output_item.done
	pieces   bool // fragments, or what joins them, came
}

func (m responsesModel) read(stream []byte) (calls []call, err error) {
	var blocks []*respBlock
	var current *respBlock
	var out []call
	final := false
	defer func() {
		calls = out
		if m.output && !final || m.anyOutput {
			return
		}
		if m.output {
			return
		}
		for _, b := range blocks {
			if b == nil || m.functions && !b.function {
				continue
			}
			c := b.call
			if !b.whole && b.function {
				c.args = b.text
			} else if !b.whole && strings.HasPrefix(c.name, "custom_tool_call ") {
				c.args = textArgs(b.text)
			} else if !b.whole {
				continue
			}
			calls = append(calls, c)
		}
	}()
	find := func(o obj) *respBlock {
		n, ok := num(o, "output_index")
		if o["output_index"] == nil {
			n, ok = 0, true // or undefined, which is as good
		}
		switch m.find {
		case lastAdded:
			return current
		case atID:
			for i := len(blocks) - 1; i >= 0; i-- {
				if blocks[i] != nil && blocks[i].itemID == str(o, "item_id") {
					return blocks[i]
				}
			}
		case atPlace:
			if ok && n >= 0 && n < len(blocks) {
				return blocks[n]
			}
		case atIndex:
			for i := len(blocks) - 1; ok && i >= 0; i-- {
				if blocks[i] != nil && blocks[i].index == n {
					return blocks[i]
				}
			}
		}
		return nil
	}
	for _, ev := range m.split(stream) {
		if ev.data == "[DONE]" {
			if m.untilDone {
				break
			}
			continue
		}
		v, perr := m.keys.parse(ev.data)
		o, ok := v.(obj)
		if perr != nil || !ok {
			if m.skip {
				continue
			}
			return nil, fmt.Errorf("no JSON object: %s", ev.data)
		}
		typ := str(o, "type")
		if m.byLine {
			typ = ev.name
		}
		if ev.name == "error" {
			typ = "error"
		}
		switch typ {
		case "error", "response.failed":
			return nil, fmt.Errorf("an error event: %s", ev.data)
		case "response.created", "response.queued", "response.in_progress":
			if m.anyOutput {
				for _, e := range list(sub(o, "response"), "output") {
					it, _ := e.(obj)
					if c, ok := itemCall(it); ok {
						out = append(out, c)
					}
				}
			}
		case "response.output_item.added":
			it := sub(o, "item")
			n, _ := num(o, "output_index")
			c, isCall := itemCall(it)
			b := &respBlock{index: n, itemID: str(it, "id"), call: c, function: str(it, "type") == "function_call"}
			b.text = str(it, "arguments")
			if str(it, "type") == "custom_tool_call" {
				b.text = str(it, "input")
			}
			if !isCall {
				b = nil
			}
			blocks = append(blocks, b)
			if m.find == lastAdded && current != nil && !current.pieces && str(it, "type") != "custom_tool_call" {
				current.text = "" // pi looks at what it began with when it ends as the last one
			}
			if isCall && b.function || str(it, "type") == "message" || str(it, "type") == "reasoning" {
				current = b
			}
		case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
			if m.find == atPlace && o["output_index"] == nil {
				return nil, fmt.Errorf("missing output at index undefined")
			}
			if b := find(o); b != nil && b.function == strings.Contains(typ, "function_call") {
				b.text += str(o, "delta")
				b.pieces = true
			}
		case "response.function_call_arguments.done", "response.custom_tool_call_input.done":
			if m.find == atPlace && o["output_index"] == nil {
				return nil, fmt.Errorf("missing output at index undefined")
			}
			if b := find(o); b != nil && b.function == strings.Contains(typ, "function_call") {
				b.text = str(o, "arguments") + str(o, "input")
				b.pieces = true
				if name := str(o, "name"); name != "" && b.function {
					b.call.name = "function_call " + name
				}
			}
		case "response.output_item.done":
			it := sub(o, "item")
			c, ok := itemCall(it)
			if !ok || m.output || m.anyOutput {
				continue
			}
			if m.skip && !documentedItem(it) {
				continue
			}
			o["item_id"] = str(it, "id")
			b := find(o)
			switch {
			case m.args == fromDone:
				out = append(out, c)
				for i := range blocks {
					if blocks[i] != nil && (blocks[i] == b || blocks[i].call.id == c.id) {
						blocks[i] = nil // it is complete
					}
				}
			case b == nil:
				begun := slices.ContainsFunc(blocks, func(b *respBlock) bool { return b != nil && b.call.id == c.id })
				if !begun && (!m.functions || strings.HasPrefix(c.name, "function_call ")) {
					out = append(out, c)
				}
			default:
				if !m.added {
					b.call.id, b.call.name = c.id, c.name
				}
				if !b.function && !strings.HasPrefix(c.name, "custom_tool_call ") || b.text == "" {
					b.call.args, b.whole = c.args, true
					if b.function {
						b.text = c.args
						b.whole = false
					}
				}
				if b == current {
					current = nil
				}
			}
		case "response.completed", "response.incomplete":
			if r := sub(o, "response"); m.output || m.anyOutput {
				final = true
				for _, e := range list(r, "output") {
					it, _ := e.(obj)
					if c, ok := itemCall(it); ok {
						out = append(out, c)
					}
				}
			}
			if m.untilEnd {
				return nil, nil
			}
		}
	}
	return nil, nil
}

// documentedItem reports whether a call has the members that a checking reader
// wants, in their types.
func documentedItem(it obj) bool {
	for _, key := range map[string][]string{"function_call": {"id", "call_id", "name", "arguments"}, "custom_tool_call": {"id", "call_id", "name", "input"}}[str(it, "type")] {
		if _, ok := it[key].(string); !ok {
			return false
		}
	}
	return true
}

// nodeAccumulator is OpenAI's Node SDK: items are pushed in order of arrival,
// fragments go to the place of their output_index, and the last event's
// response replaces all of it.
func nodeAccumulator(stream []byte) (calls []call, err error) {
	var output []obj
	begun, completed := false, false
	defer func() {
		for _, it := range output {
			// Of what only the last event brings it has nothing when that is not
			// response.completed: neither texts nor arguments without fragments.
			if c, ok := itemCall(it); ok && (completed || c.args != "" && c.args != textArgs("")) {
				calls = append(calls, c)
			}
		}
	}()
	for _, ev := range splitWeb(true)(stream) {
		if ev.data == "[DONE]" {
			break
		}
		v, err := lastKey.parse(ev.data)
		o, ok := v.(obj)
		if err != nil || !ok {
			return nil, fmt.Errorf("no JSON object: %s", ev.data)
		}
		typ := str(o, "type")
		if ev.name == "error" || typ == "error" {
			return nil, fmt.Errorf("an error event")
		}
		take := func() {
			output = nil
			for _, e := range list(sub(o, "response"), "output") {
				it, _ := e.(obj)
				output = append(output, it)
			}
		}
		if !begun {
			if typ != "response.created" {
				return nil, fmt.Errorf("the first event is %s", typ)
			}
			begun = true
			take()
			continue
		}
		n, isIndex := num(o, "output_index")
		at := func() (obj, error) {
			if !isIndex || n < 0 || n >= len(output) {
				return nil, fmt.Errorf("missing output at index %d", n)
			}
			return output[n], nil
		}
		switch typ {
		case "response.output_item.added":
			output = append(output, sub(o, "item"))
		case "response.output_text.delta", "response.content_part.added":
			if _, err := at(); err != nil {
				return nil, err
			}
		case "response.function_call_arguments.delta":
			it, err := at()
			if err != nil {
				return nil, err
			}
			if str(it, "type") == "function_call" {
				it["arguments"] = str(it, "arguments") + str(o, "delta")
			}
		case "response.completed":
			completed = true
			take()
		}
	}
	return nil, nil
}

func responsesReaders() []reader {
	m := func(name string, m responsesModel) reader { return reader{name: name, read: m.read} }
	partial := func(r reader) reader { r.partial = true; return r } // why is said behind each
	return []reader{
		{name: "OpenAI's Go SDK, item by item", read: responsesSDK(sdkDone)},
		{name: "OpenAI's Go SDK, the last response", read: responsesSDK(sdkOutput)},
		partial(reader{name: "OpenAI's Go SDK, its accumulator", read: sdkAccumulator(false)}), // functions and texts alone
		partial(reader{name: "OpenAI's Go SDK, its accumulator, errors ignored", read: sdkAccumulator(true)}),
		{name: "OpenAI's Go SDK, reconstructed", read: sdkReconstructed},
		{name: "OpenAI's Node SDK", read: nodeAccumulator},
		m("Codex", responsesModel{split: splitWeb(false), untilEnd: true, skip: true}),
		m("Vercel AI SDK", responsesModel{split: splitWeb(false), find: atIndex, skip: true}),
		partial(m("pi", responsesModel{split: splitWeb(true), find: lastAdded, args: fromFragments, added: true, functions: true, untilDone: true})), // functions alone
		m("agents: the last response", responsesModel{split: splitWeb(true), output: true, untilDone: true}),
		m("every response", responsesModel{split: splitWeb(true), anyOutput: true}),
		m("fragments by index", responsesModel{split: splitWeb(false), find: atIndex, args: fromFragments}),
		m("fragments by index, named when they began", responsesModel{split: splitWeb(false), find: atIndex, args: fromFragments, added: true}),
		m("fragments by place", responsesModel{split: splitWeb(false), find: atPlace, args: fromFragments}),
		m("fragments by item id", responsesModel{split: splitWeb(false), find: atID, args: fromFragments}),
		partial(m("fragments to the last item", responsesModel{split: splitWeb(false), find: lastAdded, args: fromFragments, added: true, functions: true})), // functions alone
		partial(m("by event line", responsesModel{split: splitWeb(false), byLine: true, find: atIndex})),                                                     // nothing without event lines
		m("a data line is an event", responsesModel{split: splitLines, skip: true, find: atIndex, args: fromFragments}),
		decoded(m("", responsesModel{split: splitDecoded, skip: true, find: atIndex, args: fromFragments})),
		m("the first of equal keys", responsesModel{split: splitWeb(false), keys: firstKey}),
		m("the first of equal keys, the last response", responsesModel{split: splitWeb(false), keys: firstKey, output: true}),
		m("keys without case", responsesModel{split: splitWeb(false), keys: foldKey, find: atIndex, args: fromFragments}),
		m("keys without case, the last response", responsesModel{split: splitWeb(false), keys: foldKey, output: true}),
	}
}

// respItem is one item of a reply that is being drawn.
func respItem(c call, kind string, status, args string) string {
	switch kind {
	case "custom_tool_call":
		return fmt.Sprintf(`{"id":"item_%s","type":"custom_tool_call","status":"%s","call_id":%s,"name":%s,"input":%s}`, c.id, status, quote(c.id), quote(c.name), quote(args))
	case "local_shell_call":
		return fmt.Sprintf(`{"id":"item_%s","type":"local_shell_call","status":"%s","call_id":%s,"action":{"type":"exec","command":["bash","-lc",%s],"env":{}}}`, c.id, status, quote(c.id), quote(c.args))
	case "apply_patch_call":
		return fmt.Sprintf(`{"id":"item_%s","type":"apply_patch_call","status":"%s","call_id":%s,"operation":{"type":"update_file","path":"a","diff":%s}}`, c.id, status, quote(c.id), quote(c.args))
	}
	return fmt.Sprintf(`{"id":"item_%s","type":"function_call","status":"%s","arguments":%s,"call_id":%s,"name":%s}`, c.id, status, quote(args), quote(c.id), quote(c.name))
}

const (
	respCreated   = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"in_progress","model":"gpt-test","output":[]}}`
	respReasoning = `{"id":"item_r","type":"reasoning","summary":[],"encrypted_content":"gAAAA=="}`
)

func respMessage(text string) string {
	return `{"id":"item_m","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + quote(text) + `,"annotations":[]}]}`
}

func respCompleted(items []string) string {
	return `{"type":"response.completed","response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"completed","model":"gpt-test","output":[` + strings.Join(items, ",") + `],"usage":{"input_tokens":5,"output_tokens":7,"total_tokens":12}}}`
}

// drawResponses is a Responses stream by the grammar; odd lets odd arguments,
// names and fragments into it.
func drawResponses(t *rapid.T, odd bool) []item {
	var items []item
	lines, numbers := !chance(t, "no event lines", 20), !chance(t, "no sequence numbers", 20)
	put := func(data string) {
		typ, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
		it := item{data: data, lead: drawLead(t)}
		if lines {
			it.name = typ
		}
		if numbers && !strings.Contains(data, `"sequence_number"`) {
			it.data = strings.Replace(data, `",`, fmt.Sprintf(`","sequence_number":%d,`, len(items)), 1)
		}
		items = append(items, it)
	}
	put(respCreated)
	if chance(t, "in progress", 50) {
		put(strings.Replace(respCreated, "response.created", "response.in_progress", 1))
		items[len(items)-1].data = strings.Replace(items[len(items)-1].data, `"sequence_number":0`, `"sequence_number":1`, 1)
	}
	var output, ends []string
	calls := drawCalls(t, odd)
	// Not beside a call without arguments: the last-item readers.
	together := chance(t, "items end together", 20) && (odd || !slices.ContainsFunc(calls, func(c call) bool { return c.args == "" }))
	end := func(data string) {
		if together {
			ends = append(ends, data)
		} else {
			put(data)
		}
	}
	n := 0
	words := func() {
		if chance(t, "reasoning", 50) {
			put(fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, n, respReasoning))
			end(fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, n, respReasoning))
			output = append(output, respReasoning)
			n++
			return
		}
		put(fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"id":"item_m","type":"message","status":"in_progress","role":"assistant","content":[]}}`, n))
		put(fmt.Sprintf(`{"type":"response.content_part.added","output_index":%d,"item_id":"item_m","content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`, n))
		put(fmt.Sprintf(`{"type":"response.output_text.delta","output_index":%d,"item_id":"item_m","content_index":0,"delta":"data: {\"type\":\"function_call\"}"}`, n))
		end(fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, n, respMessage(`data: {"type":"function_call"}`)))
		output = append(output, respMessage(`data: {"type":"function_call"}`))
		n++
	}
	for _, c := range calls {
		if chance(t, "words", 30) {
			words()
		}
		kind := pick(t, "kind", "function_call", "function_call", "function_call", "function_call", "custom_tool_call", "local_shell_call", "apply_patch_call")
		if together && !odd && kind != "custom_tool_call" {
			kind = "function_call"
		}
		events := map[string]string{"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}[kind]
		early := events == "" || !together && chance(t, "arguments at the start", 15)
		first := ""
		if early {
			first = c.args
		}
		put(fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, n, respItem(c, kind, "in_progress", first)))
		if events != "" && !early {
			// Readers that know fragments alone need them, or what joins them.
			fragmented := chance(t, "fragments", 80)
			if fragmented {
				for _, f := range fragments(t, c.args, odd) {
					put(fmt.Sprintf(`{"type":"response.%s.delta","output_index":%d,"item_id":"item_%s","delta":%s,"obfuscation":"x"}`, events, n, c.id, f))
					if chance(t, "keep-alive", 10) {
						items = append(items, item{raw: ": keep-alive\n\n"})
					}
				}
			}
			if !fragmented || chance(t, "joined", 70) {
				member := map[string]string{"function_call": "arguments", "custom_tool_call": "input"}[kind]
				put(fmt.Sprintf(`{"type":"response.%s.done","output_index":%d,"item_id":"item_%s","%s":%s}`, events, n, c.id, member, quote(c.args)))
			}
		}
		whole := respItem(c, kind, "completed", c.args)
		end(fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, n, whole))
		output = append(output, whole)
		n++
	}
	if chance(t, "words at the end", 30) {
		words()
	}
	for _, e := range ends {
		put(e)
	}
	put(respCompleted(output))
	if chance(t, "[DONE]", 30) {
		items = append(items, item{data: "[DONE]"})
	}
	return items
}

func respEvent(typ, rest string) item {
	return item{name: typ, data: `{"type":"` + typ + `",` + rest + `}`}
}

var oddCall = call{"odd_1", "Bash", `{"command":"rm"}`}

var strangeResponses = []item{
	respEvent("response.output_item.added", `"output_index":0,"item":`+respItem(oddCall, "", "in_progress", "")),
	respEvent("response.output_item.added", `"output_index":1,"item":`+respItem(oddCall, "", "in_progress", oddCall.args)),
	respEvent("response.output_item.done", `"output_index":0,"item":`+respItem(oddCall, "", "completed", oddCall.args)),
	respEvent("response.output_item.done", `"output_index":1,"item":`+respItem(oddCall, "", "completed", oddCall.args)),
	respEvent("response.output_item.done", `"output_index":2,"item":`+respItem(oddCall, "custom_tool_call", "completed", oddCall.args)),
	respEvent("response.output_item.done", `"output_index":0,"item":`+respItem(oddCall, "local_shell_call", "completed", "")),
	respEvent("response.output_item.done", `"item":`+respItem(oddCall, "", "completed", oddCall.args)),
	respEvent("response.output_item.done", `"output_index":0,"item":`+respItem(call{"call_0", "Bash", ""}, "", "completed", `{"command":"rm"}`)),
	respEvent("response.output_item.done", `"output_index":0,"item":`+respMessage("x")),
	respEvent("response.output_item.added", `"output_index":0,"item":`+respMessage("x")),
	respEvent("response.output_item.added", `"output_index":1,"item":`+respMessage("x")),
	respEvent("response.output_item.added", `"output_index":0,"item":{"id":"u","type":"new_call","call_id":"u","name":"Bash","arguments":"{}"}`),
	respEvent("response.output_item.done", `"output_index":0,"item":{"id":"u","type":"new_call","call_id":"u","name":"Bash","arguments":"{}"}`),
	respEvent("response.function_call_arguments.delta", `"output_index":0,"item_id":"item_call_0","delta":" "`),
	respEvent("response.function_call_arguments.delta", `"output_index":0,"item_id":"item_call_0","delta":"{\"command\":\"rm\"}"`),
	respEvent("response.function_call_arguments.delta", `"output_index":1,"item_id":"item_call_1","delta":" #"`),
	respEvent("response.function_call_arguments.delta", `"output_index":0,"item_id":"item_call_1","delta":" #"`),
	respEvent("response.function_call_arguments.done", `"output_index":0,"item_id":"item_call_0","arguments":"{\"command\":\"rm\"}"`),
	respEvent("response.function_call_arguments.done", `"output_index":0,"item_id":"item_call_0","name":"Read","arguments":"{}"`),
	respEvent("response.custom_tool_call_input.delta", `"output_index":0,"item_id":"item_call_0","delta":"rm"`),
	respEvent("response.custom_tool_call_input.done", `"output_index":0,"item_id":"item_call_0","input":"rm"`),
	respEvent("response.mcp_call_arguments.delta", `"output_index":0,"item_id":"item_call_0","delta":"rm"`),
	respEvent("response.mcp_call_arguments.done", `"output_index":0,"item_id":"item_call_0","arguments":"rm"`),
	respEvent("response.output_text.delta", `"output_index":0,"item_id":"item_m","content_index":0,"delta":"x"`),
	respEvent("response.output_text.delta", `"output_index":0,"item_id":"item_m","content_index":0,"delta":"x","arguments":"{\"command\":\"rm\"}"`),
	respEvent("response.content_part.added", `"output_index":0,"item_id":"item_m","content_index":0,"part":`+respItem(oddCall, "", "completed", oddCall.args)),
	{name: "response.created", data: respCreated},
	respEvent("response.created", `"response":{"id":"resp_1","output":[`+respItem(oddCall, "", "completed", oddCall.args)+`]}`),
	respEvent("response.in_progress", `"response":{"id":"resp_1","output":[`+respItem(oddCall, "", "completed", oddCall.args)+`]}`),
	respEvent("response.in_progress", `"response":{"id":"resp_2","output":[]}`),
	respEvent("response.completed", `"response":{"id":"resp_1","output":[]}`),
	respEvent("response.completed", `"response":{"id":"resp_1","output":[`+respItem(oddCall, "", "completed", oddCall.args)+`]}`),
	respEvent("response.completed", `"response":[`+respItem(oddCall, "", "completed", oddCall.args)+`]`),
	respEvent("response.completed", `"output":[`+respItem(oddCall, "", "completed", oddCall.args)+`]`),
	respEvent("response.incomplete", `"response":{"id":"resp_1","output":[`+respItem(call{"call_0", "Bash", ""}, "", "incomplete", `{"command":"ls"}`)+`]}`),
	respEvent("response.failed", `"response":{"id":"resp_1","output":[],"error":{"code":"x","message":"y"}}`),
	respEvent("response.new_event", `"output_index":0`), respEvent("keepalive", `"x":1`), respEvent("keepalive", `"sequence_number":0`),
	respEvent("keepalive", `"item":`+respItem(oddCall, "", "completed", oddCall.args)),
	respEvent("error", `"code":"x","message":"y"`),
	{data: `{"type":"error","error":{"message":"Overloaded"}}`}, {name: "error", data: `{"error":{"message":"Overloaded"}}`},
	{data: `{"type":"response.output_item.done","output_index":0,"item":` + respItem(oddCall, "", "completed", oddCall.args) + `}`},
	{data: `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"odd_2","function":{"name":"Bash","arguments":"{}"}}]}}]}`},
	{data: "[DONE]"}, {data: ""}, {data: "{}"}, {data: "null"}, {data: "[]"},
	{raw: "event: response.completed\n\n"}, {raw: "data\n\n"}, {raw: "what\n\n"}, {raw: ":\n\n"}, {raw: "\ufeff"}, {raw: "\r"}, {raw: "\n"}, {raw: "id\n\n"},
}

// responsesWhole is a reply in one body; calls are functions, but for one that
// is called Text.
func responsesWhole(text string, calls []call) string {
	var output []string
	if text != "" {
		output = append(output, respMessage(text))
	}
	for i, c := range calls {
		kind := "function_call"
		if i%3 == 1 {
			kind = "custom_tool_call"
		}
		output = append(output, respItem(c, kind, "completed", c.args))
	}
	return `{"id":"resp_1","object":"response","created_at":1700000000,"status":"completed","model":"gpt-test","output":[` + strings.Join(output, ",") + `],"usage":{"input_tokens":5,"output_tokens":7,"total_tokens":12}}`
}

// responsesStream is the same as a stream, arguments in fragments of n bytes.
func responsesStream(text string, calls []call, n int) string {
	var b strings.Builder
	k := 0
	put := func(typ, rest string) {
		b.WriteString(event(typ, fmt.Sprintf(`{"type":"%s","sequence_number":%d,%s}`, typ, k, rest)))
		k++
	}
	put("response.created", `"response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"in_progress","model":"gpt-test","output":[]}`)
	var output []string
	if text != "" {
		put("response.output_item.added", `"output_index":0,"item":{"id":"item_m","type":"message","status":"in_progress","role":"assistant","content":[]}`)
		put("response.content_part.added", `"output_index":0,"item_id":"item_m","content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`)
		put("response.output_text.delta", `"output_index":0,"item_id":"item_m","content_index":0,"delta":`+quote(text))
		put("response.output_item.done", `"output_index":0,"item":`+respMessage(text))
		output = append(output, respMessage(text))
	}
	for i, c := range calls {
		kind, events, member := "function_call", "function_call_arguments", "arguments"
		if i%3 == 1 {
			kind, events, member = "custom_tool_call", "custom_tool_call_input", "input"
		}
		at := len(output)
		put("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, at, respItem(c, kind, "in_progress", "")))
		for _, p := range pieces(c.args, n) {
			put("response."+events+".delta", fmt.Sprintf(`"output_index":%d,"item_id":"item_%s","delta":%s`, at, c.id, quote(p)))
		}
		put("response."+events+".done", fmt.Sprintf(`"output_index":%d,"item_id":"item_%s","%s":%s`, at, c.id, member, quote(c.args)))
		put("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, at, respItem(c, kind, "completed", c.args)))
		output = append(output, respItem(c, kind, "completed", c.args))
	}
	put("response.completed", `"response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"completed","model":"gpt-test","output":[`+strings.Join(output, ",")+`],"usage":{"input_tokens":5,"output_tokens":7,"total_tokens":12}}`)
	return b.String()
}
