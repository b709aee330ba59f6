package cachecheck

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// What may differ between the two bodies, and what may not: where is the place
// that is named, "" when nothing is wrong.
func TestWhatMayDiffer(t *testing.T) {
	const (
		tool    = `{"name":"a","description":"Runs. Asks.","input_schema":{"properties":{"x":{}, "y":{"enum":[1,2,3]}},"required":["x","y"]},"cache_control":{"t":1}}`
		sealedM = `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"r","input":{"s":"gp1:abc"}}]}`
		backM   = `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"b","input":{"command":"ls"}}]}`
		item    = `{"type":"function_call","call_id":"1","name":"r","arguments":"{\"s\":\"gp1:abc\"}"}`
	)
	tools := func(s string) string { return `{"tools":[` + s + `],"max_tokens":1}` }
	messages := func(s string) string { return `{"messages":[` + s + `]}` }
	input := func(s string) string { return `{"input":[` + s + `]}` }
	for name, c := range map[string]struct{ in, out, where string }{
		"nothing":                          {tools(tool), tools(tool), ""},
		"a property":                       {tools(tool), tools(`{"name":"a","description":"Runs. Asks.","input_schema":{"properties":{"x":{}},"required":["x"]},"cache_control":{"t":1}}`), ""},
		"the first property":               {tools(tool), tools(`{"name":"a","description":"Runs. Asks.","input_schema":{"properties":{"y":{"enum":[1,2,3]}},"required":["y"]},"cache_control":{"t":1}}`), ""},
		"all properties":                   {tools(tool), tools(`{"name":"a","description":"Runs. Asks.","input_schema":{"properties":{},"required":[]},"cache_control":{"t":1}}`), ""},
		"a value of an enum":               {tools(tool), tools(`{"name":"a","description":"Runs. Asks.","input_schema":{"properties":{"x":{}, "y":{"enum":[1,3]}},"required":["x","y"]},"cache_control":{"t":1}}`), ""},
		"a sentence":                       {tools(tool), tools(`{"name":"a","description":"Runs.","input_schema":{"properties":{"x":{}, "y":{"enum":[1,2,3]}},"required":["x","y"]},"cache_control":{"t":1}}`), ""},
		"a tool":                           {tools(tool + `,{"name":"b"}`), tools(tool), ""},
		"all tools":                        {tools(tool), tools(``), ""},
		"a tool whose marker moves on":     {tools(`{"name":"a"},{"name":"b","cache_control":{"t":1}}`), tools(`{"name":"a","cache_control":{"t":1}}`), ""},
		"a marker from nowhere":            {tools(`{"name":"a"},{"name":"b","cache_control":{"t":1}}`), tools(`{"name":"a","cache_control":{"t":2}}`), "/tools/1/name"},
		"a marker that was in no tool":     {tools(`{"name":"a"}`), tools(`{"name":"a","cache_control":{"t":1}}`), "/tools/0"},
		"another order of tools":           {tools(`{"name":"a"},{"name":"b"}`), tools(`{"name":"b"},{"name":"a"}`), "/tools/0/name"},
		"another value":                    {tools(tool), tools(`{"name":"a","description":"Runs. Asks.","input_schema":{"properties":{"x":{}, "y":{"enum":[1,4,3]}},"required":["x","y"]},"cache_control":{"t":1}}`), "/tools/0/input_schema/properties/y/enum/2"},
		"a word more":                      {tools(tool), tools(`{"name":"a","description":"Runs. Never asks.","input_schema":{"properties":{"x":{}, "y":{"enum":[1,2,3]}},"required":["x","y"]},"cache_control":{"t":1}}`), "/tools/0/description"},
		"white space in a tool":            {tools(tool), tools(`{"name":"a","description":"Runs. Asks.","input_schema":{"properties":{"x":{},"y":{"enum":[1,2,3]}},"required":["x","y"]},"cache_control":{"t":1}}`), "/tools/0/input_schema/properties"},
		"half of an escape":                {tools(`{"d":"a\\nb"}`), tools(`{"d":"a\nb"}`), "/tools/0/d"},
		"a number":                         {`{"a":1.0}`, `{"a":1}`, "/a"},
		"white space":                      {`{"a": 1}`, `{"a":1}`, "/a"},
		"a member of the request":          {`{"a":1,"b":2}`, `{"a":1}`, "/b"},
		"order of the request":             {`{"a":1,"b":2}`, `{"b":2,"a":1}`, "/a"},
		"a system text":                    {`{"system":[{"type":"text","text":"One. Two."},{"type":"text","text":"Three."}]}`, `{"system":[{"type":"text","text":"One."}]}`, ""},
		"a system text that is a string":   {`{"system":"One. Two."}`, `{"system":"Two."}`, ""},
		"a user's words":                   {messages(`{"role":"user","content":"One. Two."}`), messages(`{"role":"user","content":"One."}`), "/messages/0/content"},
		"a client's words":                 {messages(`{"role":"user","content":"Current runtime context. One. Two."}`), messages(`{"role":"user","content":"Current runtime context. One."}`), ""},
		"the model's words":                {messages(`{"role":"assistant","content":"One. Two."}`), messages(`{"role":"assistant","content":"One."}`), "/messages/0/content"},
		"a thinking block":                 {messages(`{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"b"}]}`), messages(`{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":""}]}`), "/messages/0/content/0/signature"},
		"a hint in a result":               {messages(`{"role":"tool","tool_call_id":"1","content":"a [b]"}`), messages(`{"role":"tool","tool_call_id":"1","content":"a "}`), ""},
		"a result's id":                    {messages(`{"role":"tool","tool_call_id":"1","content":"a"}`), messages(`{"role":"tool","tool_call_id":"2","content":"a"}`), "/messages/0/tool_call_id"},
		"a message":                        {messages(`{"role":"user","content":"a"},{"role":"user","content":"b"}`), messages(`{"role":"user","content":"a"}`), "/messages/1"},
		"a call that was put back":         {messages(sealedM + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x","cache_control":{}}]}`), messages(backM + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"refused","cache_control":{},"is_error":true}]}`), ""},
		"a call without a seal":            {messages(`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"r","input":{"s":"gp2:abc"}}]}`), messages(backM), "/messages/0/content/0/name"},
		"a call that was put back wrongly": {messages(sealedM), messages(`{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"b","input":{}}]}`), "/messages/0/content/0/id"},
		"the result of another call":       {messages(sealedM + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"x"}]}`), messages(backM + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"refused"}]}`), "/messages/1/content/0/content"},
		"a Chat call that was put back":    {messages(`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"r","arguments":"{\"s\":\"gp1:a\"}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}`), messages(`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"b","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"refused"}`), ""},
		"an item that was put back":        {input(item + `,{"type":"function_call_output","call_id":"1","output":"x"}`), input(`{"type":"function_call","call_id":"1","name":"b","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"refused"}`), ""},
		"an item of another kind":          {input(item + `,{"type":"function_call_output","call_id":"1","output":"x"}`), input(`{"id":"lsh_1","type":"local_shell_call","status":"completed","call_id":"1","action":{}},{"type":"local_shell_call_output","id":"1","output":"refused"}`), ""},
		"an item of another call":          {input(item), input(`{"type":"local_shell_call","call_id":"2","action":{}}`), "/input/0"},
		"an item that is no call":          {input(item), input(`{"type":"message","id":"1","role":"user","content":"x"}`), "/input/0"},
		"tools in an item":                 {input(`{"type":"additional_tools","tools":[{"type":"namespace","tools":[{"name":"a"},{"name":"b"}]}]}`), input(`{"type":"additional_tools","tools":[{"type":"namespace","tools":[{"name":"b"}]}]}`), ""},
		"a developer's item":               {input(`{"type":"message","role":"developer","content":[{"type":"input_text","text":"One. Two."}]}`), input(`{"type":"message","role":"developer","content":[{"type":"input_text","text":"Two."}]}`), ""},
		"instructions":                     {`{"instructions":"One. Two."}`, `{"instructions":"One."}`, ""},
		"encrypted reasoning":              {input(`{"type":"reasoning","encrypted_content":"abc"}`), input(`{"type":"reasoning","encrypted_content":"ab"}`), "/input/0/encrypted_content"},
		"another kind of body":             {`{"a":1}`, `[1]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var in, out tape.Tape
			if err := in.Parse([]byte(c.in)); err != nil {
				t.Fatal(err)
			}
			if err := out.Parse([]byte(c.out)); err != nil {
				t.Fatal(err)
			}
			d := deletion{in: &in, out: &out}
			ok := d.body()
			if name == "another kind of body" {
				if ok {
					t.Error("it passed")
				}
				return
			}
			if ok != (c.where == "") || !ok && d.pointer() != c.where {
				t.Errorf("%v at %q (%s), want %q", ok, d.pointer(), d.why, c.where)
			}
			// The map is into the other body, and in its order.
			last := -1
			for i, j := range d.to {
				if ok && (j >= out.Len() || j >= 0 && j < last && in.Kind(i) != tape.None && c.in == c.out) {
					t.Errorf("node %d is %d", i, j)
				}
				last = max(last, j)
			}
		})
	}
}

// For all bodies: white space that comes or goes between two tokens is seen,
// and so is a byte of a message that is another one.
func TestNoByteMovesUnseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSession(t, rapid.SampledFrom(proofDialects).Draw(t, "dialect"))
		s.grow()
		s.grow()
		body := s.body()
		got, err := theRewrite(testRing)(s.dialect, s.rules, body)
		if err != nil {
			t.Fatal(err)
		}
		var tin, tout tape.Tape
		if err := tin.Parse(body); err != nil {
			t.Fatal(err)
		}
		var d deletion
		passes := func(out []byte) bool {
			if err := tout.Parse(out); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			d = deletion{in: &tin, out: &tout}
			return d.body()
		}
		if !passes(got.Body) {
			t.Fatal("the rewrite itself does not pass")
		}
		if err := tout.Parse(got.Body); err != nil {
			t.Fatal(err)
		}
		node := rapid.IntRange(1, tout.Len()-1).Draw(t, "node")
		at, end := tout.Span(node)
		if rapid.Bool().Draw(t, "behind") {
			at = end
		}
		space := rapid.SampledFrom([]string{" ", "\n", "\t "}).Draw(t, "space")
		if moved := slices.Concat(got.Body[:at], []byte(space), got.Body[at:]); passes(moved) {
			// What was put back is anybody's, as far as the two bodies tell.
			for _, free := range d.free {
				if from, to := tout.Span(free); from < at && at < to {
					return
				}
			}
			t.Fatalf("%q at byte %d passes: %s", space, at, moved)
		}
	})
}
