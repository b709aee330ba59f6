package wire

// The items of a Responses reply. Source of the protocol facts: OpenAI's API
// reference, "Responses", and the unions of its Go SDK (openai-go
// v3.99.0, ResponseOutputItemUnion and ResponseStreamEventUnion).
//
// An item is one of three things. A call: the client runs it, or answers for
// the user whether it may run. Inert: words of the model, calls that the
// provider runs, results. Or unknown, and then a message of the assistant takes
// its place, which says so. The same item stands in a stream several times:
// each time is a copy, and all copies of a call are judged, and replaced, as
// one.

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Items that no client runs.
var responsesInertItems = map[string]bool{
	"message": true, "reasoning": true, "compaction": true, "compaction_summary": true,
	"program": true, "program_output": true,
	"web_search_call": true, "file_search_call": true, "code_interpreter_call": true, "image_generation_call": true,
	"mcp_call": true, "mcp_list_tools": true, "mcp_approval_response": true,
	"additional_tools": true, "tool_search_output": true,
	"function_call_output": true, "custom_tool_call_output": true, "local_shell_call_output": true,
	"shell_call_output": true, "apply_patch_call_output": true, "computer_call_output": true,
}

// Parts of messages and of reasoning.
var responsesInertParts = map[string]bool{
	"output_text": true, "refusal": true, "reasoning_text": true, "summary_text": true, "text": true,
	"input_text": true, "input_image": true, "input_file": true, "computer_screenshot": true,
}

// fields of items
const (
	itemType = iota
	itemID
	itemCallID
	itemName
	itemNamespace
	itemArguments
	itemInput
	itemAction
	itemActions
	itemOperation
	itemExecution
	itemServerLabel
	itemContent
	itemSummary
	itemFields
)

var responsesItemFields = []string{"type", "id", "call_id", "name", "namespace", "arguments", "input", "action", "actions", "operation", "execution", "server_label", "content", "summary"}

// Members of a call that would say a second time what it calls and with what.
var responsesAliases = []string{"function", "custom", "parameters", "args", "tool_calls", "command", "commands", "code", "patch"}

// copyOf is one copy of an item.
type copyOf struct {
	typ     string
	id      string
	kind    *itemKind // of a call, else nil
	unknown bool
	call    Call
	spot    itemSpot
}

// itemSpot is where the parts of a copy stand: the whole item, its name and its
// arguments, which are −1 where it has none, and where these can be put then.
type itemSpot struct {
	item, name, args [2]int
	end              int
}

// readItem reads item i of a reply. off is added to the places in it.
func readItem(t *tape.Tape, i int, inert Inert, off int) (c copyOf, err error) {
	const where = "item"
	if t.Kind(i) != tape.Object {
		return c, refuse(where, "it is %v, not an object", t.Kind(i))
	}
	var at [itemFields]int
	if err := fields(t, i, responsesItemFields, at[:]); err != nil {
		return c, err
	}
	if t.Kind(at[itemType]) != tape.String || t.Empty(at[itemType]) {
		return c, refuse(where, "it has no type")
	}
	if k := t.Kind(at[itemID]); k != tape.None && k != tape.Null && k != tape.String {
		return c, refuse(where, "its id is %v, not a string", k)
	}
	c.typ, c.id = t.Str(at[itemType]), t.Str(at[itemID])
	c.spot.item = place(t, i, off)
	c.kind = itemKinds[c.typ]
	if c.typ == ToolSearchCall && t.Is(at[itemExecution], "server") {
		return copyOf{typ: c.typ, id: c.id, spot: c.spot}, nil
	}
	if c.kind != nil {
		return c, c.read(t, i, at[:], off)
	}
	c.unknown = !responsesInertItems[c.typ] && !inert[c.typ]
	if c.typ == "message" && (couldCall(t, t.Get(i, "tool_calls")) || couldCall(t, t.Get(i, "function_call"))) {
		c.unknown = true // as messages of another dialect
	}
	for _, parts := range []int{at[itemContent], at[itemSummary]} {
		if responsesInertItems[c.typ] && !inertParts(t, parts, inert) {
			c.unknown = true
		}
	}
	return c, nil
}

// inertParts reports whether all parts of a content are known.
func inertParts(t *tape.Tape, list int, inert Inert) bool {
	if t.Kind(list) != tape.Array {
		return !couldCall(t, list)
	}
	for p, end := list+1, t.After(list); p < end; p = t.After(p) {
		if typ := t.Str(t.Get(p, "type")); !responsesInertParts[typ] && !inert[typ] {
			return false
		}
	}
	return true
}

// read reads a call.
func (c *copyOf) read(t *tape.Tape, i int, at []int, off int) error {
	where := "item " + c.typ
	id := at[itemCallID]
	if absent(t, id) && (c.typ == McpApprovalRequest || c.typ == LocalShellCall) {
		id = at[itemID]
	}
	if t.Kind(id) != tape.String || t.Empty(id) {
		return refuse(where, "a call without an id")
	}
	c.call = Call{ID: t.Str(id), Name: c.kind.tool, Item: c.typ, Text: c.kind.text}
	if c.kind.tool == "" {
		if t.Kind(at[itemName]) != tape.String {
			return refuse(where, "a call without a name")
		}
		c.call.Name = t.Str(at[itemName])
	} else if !absent(t, at[itemName]) {
		return refuse(where, "a call with a name, where the type names the tool")
	}
	ns := at[itemNamespace]
	if c.typ == McpApprovalRequest {
		ns = at[itemServerLabel]
	}
	if k := t.Kind(ns); k != tape.None && k != tape.Null && k != tape.String {
		return refuse(where, "its namespace is %v, not a string", k)
	}
	c.call.Namespace = t.Str(ns)
	args := t.Get(i, c.kind.args)
	for _, o := range at[itemArguments : itemOperation+1] {
		if o != args && !absent(t, o) && (c.typ != ComputerCall || o != at[itemActions]) {
			return refuse(where, "a call with arguments in two places")
		}
	}
	for _, name := range responsesAliases {
		if !absent(t, t.Get(i, name)) {
			return refuse(where, "a call with a member %q beside its arguments", name)
		}
	}
	c.spot.name, c.spot.args, c.spot.end = [2]int{-1, -1}, [2]int{-1, -1}, c.spot.item[1]-1
	if at[itemName] >= 0 {
		c.spot.name = place(t, at[itemName], off)
	}
	if args >= 0 {
		c.spot.args = place(t, args, off)
	}
	return c.arguments(t, args, at[itemActions])
}

// arguments reads what Call.Args says.
func (c *copyOf) arguments(t *tape.Tape, args, actions int) error {
	kind := t.Kind(args)
	if kind == tape.Null {
		kind = tape.None
	}
	switch {
	case c.kind.tool == "" && kind == tape.String, c.typ == ToolSearchCall && kind == tape.String:
		c.call.Args = t.AppendStr(nil, args)
		if loneIn(t, args) {
			c.call.Malformed = loneText
		}
		if c.kind.text && bytes.IndexByte(c.call.Args, 0) >= 0 {
			c.call.Malformed = nulText
		}
	case c.kind.tool == "" && kind == tape.None:
	case c.kind.tool == "":
		return refuse("item "+c.typ, "its %s is %v, not a string", c.kind.args, kind)
	case c.typ == ComputerCall && t.Kind(actions) == tape.Array:
		c.call.Args = append(c.call.Args, '{')
		if kind != tape.None {
			c.call.Args = append(append(append(c.call.Args, `"action":`...), t.Raw(args)...), ',')
		}
		c.call.Args = append(append(append(c.call.Args, `"actions":`...), t.Raw(actions)...), '}')
	case c.typ == ComputerCall && !absent(t, actions):
		return refuse("item "+c.typ, "its actions are %v, not an array", t.Kind(actions))
	case kind == tape.Object:
		c.call.Args = bytes.Clone(t.Raw(args))
	default:
		c.call.Malformed = "there is no " + c.kind.args
	}
	return nil
}

const (
	loneText = "half a surrogate pair in the arguments"
	nulText  = "a NUL character in the text"
)

// agrees reports whether o, a later whole copy, is of the same call. What the
// API defines may be spelled in two ways.
func (c *copyOf) agrees(o *copyOf) bool {
	a, b := &c.call, &o.call
	if c.typ != o.typ || c.id != o.id || a.ID != b.ID || a.Name != b.Name || a.Namespace != b.Namespace || a.Malformed == "" && b.Malformed != "" {
		return false
	}
	if bytes.Equal(a.Args, b.Args) {
		return true
	}
	if c.kind.tool == "" {
		return false
	}
	var x, y tape.Tape
	return x.Parse(a.Args) == nil && y.Parse(b.Args) == nil && tape.Equal(&x, 0, &y, 0)
}

// becomes reports whether c, a copy of a call that has only begun, can become
// the whole copy o: its arguments are the same, or those of their members that
// are empty come later.
func (c *copyOf) becomes(o *copyOf) bool {
	begun := *c
	begun.call.Args, begun.call.Malformed = o.call.Args, o.call.Malformed
	if !begun.agrees(o) {
		return false
	}
	if len(c.call.Args) == 0 || bytes.Equal(c.call.Args, o.call.Args) {
		return true
	}
	if c.kind.tool == "" {
		return false
	}
	var x, y tape.Tape
	if x.Parse(c.call.Args) != nil || y.Parse(o.call.Args) != nil {
		return false
	}
	for k := 1; k < x.After(0); k = x.After(k + 1) {
		if v := y.Get(0, x.Str(k)); !absent(&x, k+1) && (v < 0 || !tape.Equal(&x, k+1, &y, v)) {
			return false
		}
	}
	return true
}

// Roles of a piece: what part of a call it is.
type role uint8

const (
	begun   role = iota // the copy in output_item.added
	part                // an event with a fragment of the arguments
	joined              // an event with all of the arguments
	whole               // a whole copy
	neutral             // an event about the call without arguments
)

// respPiece is a part of a call in a text: an item, or an event about it.
type respPiece struct {
	call int // which: in a stream the place among its items, else among the calls
	role role
	// first says of a fragment that it is the first one that counts, and of a
	// copy that has only begun that it has the arguments, or that no event after
	// it has.
	first bool
	spot  itemSpot
	event [2]int // all of it, for the roles that are no item
}

// edits appends to `to` those that make the piece of text what ruling r says of
// call c.
func (p *respPiece) edits(text []byte, c *Call, r Ruling, to []Edit) []Edit {
	if !r.Replace {
		return to
	}
	kind := itemKinds[c.Item]
	if r.Name == c.Name && r.Message == "" && (kind.typ == ComputerCall || kind.typ == McpApprovalRequest) {
		// As a function of that name the client could run it.
		r.Message = "guardproxy: a call was withheld, since it can't be changed in its kind."
	}
	same := r.Message == "" && (kind.tool == "" && kind.typ != McpApprovalRequest || kind.tool != "" && kind.typ != ComputerCall && r.Name == c.Name)
	if !same {
		if p.role != begun && p.role != whole {
			return append(to, Edit{p.event[0], p.event[1], nil})
		}
		status := "completed"
		if p.role == begun {
			status = "in_progress"
		}
		item := text[p.spot.item[0]:p.spot.item[1]]
		if r.Message != "" {
			return append(to, Edit{p.spot.item[0], p.spot.item[1], messageItem(item, status, r.Message)})
		}
		var t tape.Tape
		if err := t.Parse(item); err != nil {
			panic("wire: an item that was read is no JSON: " + err.Error())
		}
		// The copy that has only begun has its arguments too: no fragments follow.
		return append(to, Edit{p.spot.item[0], p.spot.item[1], callItem(&t, 0, itemKinds[FunctionCall], status, r.Name, r.Args)})
	}
	if kind.tool != "" && p.role != begun && p.role != whole {
		return append(to, Edit{p.event[0], p.event[1], nil})
	}
	if p.role == neutral {
		return to
	}
	if p.spot.name[0] >= 0 {
		to = append(to, Edit{p.spot.name[0], p.spot.name[1], tape.Quote(nil, r.Name)})
	}
	args := r.Args
	if p.role == part && !p.first {
		args = nil
	}
	switch {
	case p.role == begun && kind.tool == "" && !p.first:
		// Its arguments are empty: the fragments, or the whole copy, bring them.
	case p.spot.args[0] >= 0:
		to = append(to, Edit{p.spot.args[0], p.spot.args[1], kind.spell(args)})
	case p.role != part:
		to = append(to, Edit{p.spot.end, p.spot.end, append([]byte(`,"`+kind.args+`":`), kind.spell(args)...)})
	}
	return to
}

// messageItem writes a message of the assistant in the place of an item.
func messageItem(item []byte, status, text string) []byte {
	var t tape.Tape
	id := ""
	if t.Parse(item) == nil {
		id = t.Str(t.Get(0, "id"))
	}
	b := tape.Quote([]byte(`{"id":`), idFor("msg_", id))
	b = append(append(append(b, `,"type":"message","status":"`...), status...), `","role":"assistant","content":[`...)
	if status == "completed" {
		b = tape.Quote(append(b, `{"type":"output_text","annotations":[],"text":`...), text)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// idFor makes an item's id one of another kind of items: the API tells them by
// their beginnings, and refuses a request that mixes them up. The rest stays,
// so that two of them stay two.
func idFor(prefix, id string) string {
	if strings.HasPrefix(id, prefix) {
		return id
	}
	return prefix + id
}

// withheldText says to the user what an unknown item became.
func withheldText(typ string) string {
	if utf8.RuneCountInString(typ) > 64 {
		typ = string([]rune(typ)[:64]) + "…"
	}
	return "guardproxy: an item of this reply was withheld. Its type, " + typ + ", or a part of it is not known, and a client might run it as a call. " +
		"If it carries no call, the operator can let it pass: dialects, openai-responses, inert."
}

// responses indexes the calls of a whole reply: a response, a compaction, or
// an answer without items.
func (r *Reply) responses(t *tape.Tape, inert Inert, l Limits) error {
	var at [3]int
	if err := fields(t, 0, []string{"output", "tools", "id"}, at[:]); err != nil {
		return err
	}
	if err := foreign(t, "choices", "content", "candidates", "message", "tool_calls", "response", "item", "items", "data"); err != nil {
		return err
	}
	if t.Kind(at[1]) == tape.Array {
		r.Tools = t.Raw(at[1])
	}
	output := at[0]
	if absent(t, output) {
		return nil
	}
	if t.Kind(output) != tape.Array {
		return refuse("output", "it is %v, not an array", t.Kind(output))
	}
	ids := map[string]bool{}
	for i, end := output+1, t.After(output); i < end; i = t.After(i) {
		c, err := readItem(t, i, inert, 0)
		if err != nil {
			return err
		}
		if c.id != "" && ids[c.id] && c.kind != nil {
			return refuse("output", "two items with the id %q", c.id)
		}
		ids[c.id] = true
		switch {
		case c.unknown:
			r.Withheld = append(r.Withheld, c.typ)
			r.fixed = append(r.fixed, replaceNode(t, i, messageItem(t.Raw(i), "completed", withheldText(c.typ))))
		case c.kind != nil:
			if err := r.add(c.call, spot{}, l); err != nil {
				return err
			}
			r.pieces = append(r.pieces, respPiece{call: len(r.Calls) - 1, role: whole, spot: c.spot})
		}
	}
	return nil
}
