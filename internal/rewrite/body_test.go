package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/schema"
)

// member is one member of an object; a value is a string, a raw JSON text, a
// list of values, or members, whose keys may repeat.
type member struct {
	key   string
	value any
}

type raw string

// spell writes a value with white space, escapes and the order of members as r
// draws them.
func spell(r *rapid.T, v any) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", " \r\n "}).Draw(r, "space") }
	str := func(s string) string {
		var b strings.Builder
		b.WriteByte('"')
		escaped := rapid.IntRange(0, 3).Draw(r, "escaped") == 0
		for _, c := range s {
			switch {
			case c == '"' || c == '\\':
				b.WriteString(`\` + string(c))
			case c < ' ' || c < 0x10000 && escaped && rapid.Bool().Draw(r, "this one"):
				fmt.Fprintf(&b, `\u%04x`, c)
			case c == '/' && escaped:
				b.WriteString(`\/`)
			default:
				b.WriteRune(c)
			}
		}
		return b.String() + `"`
	}
	var parts []string
	open, shut := "{", "}"
	switch v := v.(type) {
	case raw:
		return string(v)
	case string:
		return str(v)
	case []member:
		for _, m := range rapid.Permutation(v).Draw(r, "order") {
			parts = append(parts, space()+str(m.key)+space()+":"+space()+spell(r, m.value)+space())
		}
	case []any:
		open, shut = "[", "]"
		for _, e := range v {
			parts = append(parts, space()+spell(r, e)+space())
		}
	}
	if parts == nil {
		return open + space() + shut
	}
	return open + strings.Join(parts, ",") + shut
}

// odd draws JSON that no rule is about.
func odd(r *rapid.T) any {
	return rapid.SampledFrom([]any{
		raw("1e3"), raw("-0.0"), raw("1E+400"), raw("12345678901234567890"), raw("null"), raw(`"\ud800"`), raw(strings.Repeat("[", 200) + strings.Repeat("]", 200)),
		"sandbox_permission", "tools", []any{}, []member{{"tools", []any{[]member{{"name", "bash"}}}}, {"properties", []member{{"justification", raw("{}")}}}},
	}).Draw(r, "odd")
}

// declared draws the tools of a request in dialect d.
func declared(r *rapid.T, d wire.Dialect) []any {
	tools := []any{}
	for range rapid.IntRange(0, 5).Draw(r, "tools") {
		props := []member{}
		for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"command", "path", "properties", "required", "description", "enum", "sandbox_permissions", "justification", "dangerouslyDisableSandbox"}), 0, 6, rapid.ID[string]).Draw(r, "properties") {
			props = append(props, member{p, []member{{"type", "string"}, {"default", odd(r)}}})
		}
		schema := []member{{"type", "object"}, {"properties", props}, {"required", []any{"command", "justification"}}, {"x", odd(r)}}
		name := rapid.SampledFrom([]string{"Bash", "bash", "Read", "request_permissions"}).Draw(r, "name")
		text := rapid.SampledFrom([]string{"", "Runs a command.", "Runs it. Set `sandbox_permissions` to widen. Quote paths.", "Läuft 😀."}).Draw(r, "description")
		switch d {
		case wire.Messages:
			tools = append(tools, []member{{"name", name}, {"description", text}, {"input_schema", schema}, {"cache_control", []member{{"type", "ephemeral"}}}})
		case wire.Chat:
			tools = append(tools, []member{{"type", "function"}, {"function", []member{{"name", name}, {"description", text}, {"parameters", schema}}}})
		default:
			flat := []member{{"type", "function"}, {"name", name}, {"description", text}, {"parameters", schema}, {"strict", raw("false")}}
			if rapid.IntRange(0, 3).Draw(r, "namespace") == 0 {
				tools = append(tools, []member{{"type", "namespace"}, {"name", "ns"}, {"tools", []any{flat, []member{{"type", "web_search"}}}}})
			} else {
				tools = append(tools, flat)
			}
		}
	}
	return tools
}

// anyBody draws a whole request whose history holds nothing to restore.
func anyBody(r *rapid.T, d wire.Dialect) []byte {
	history := "messages"
	said := []any{[]member{{"role", "user"}, {"content", "go, with sandbox_permissions"}}}
	if d == wire.Responses {
		history = "input"
		if rapid.Bool().Draw(r, "additional tools") {
			said = append([]any{[]member{{"type", "additional_tools"}, {"role", "developer"}, {"tools", declared(r, d)}}}, said...)
		}
	}
	members := []member{{"model", "m"}, {history, said}, {"tools", declared(r, d)}, {"metadata", odd(r)}, {"temperature", raw("1e-1")}}
	return []byte(spell(r, members))
}

var dialects = []wire.Dialect{wire.Messages, wire.Chat, wire.Responses}

// TestAnyBody: whatever a body's spelling, what goes up is the body with bytes
// deleted and nothing else; it is JSON, without a dead field in a schema of a
// tool that has one; a second time nothing is left to do; and what became of a
// tool depends on that tool's bytes alone.
func TestAnyBody(t *testing.T) {
	used := NewNarrower(rules, Options{})
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.SampledFrom(dialects).Draw(r, "dialect")
		body := anyBody(r, d)
		before := bytes.Clone(body)
		res := apply(r, d, body, used, nil)
		if !bytes.Equal(before, body) {
			r.Fatal("the body itself was changed")
		}
		if !json.Valid(res.Body) || !subsequence(res.Body, body) {
			r.Fatalf("no JSON, or not a deletion:\n%s\n%s", body, res.Body)
		}
		if fresh := apply(r, d, body, NewNarrower(rules, Options{}), nil); !bytes.Equal(fresh.Body, res.Body) {
			r.Fatalf("two results:\n%s\n%s", fresh.Body, res.Body)
		}
		if again := apply(r, d, res.Body, used, nil); &again.Body[0] != &res.Body[0] {
			r.Fatalf("a second time changes it:\n%s\n%s", res.Body, again.Body)
		}
		if same := &res.Body[0] == &body[0]; same != (len(res.Body) == len(body)) || same && len(res.Removed) > 0 {
			r.Fatalf("the same slice: %v, removed %q", same, res.Removed)
		}
		// Each tool that stayed stands in the new body as it would alone.
		q, err := wire.Read(wire.Route{Dialect: d}, res.Body, nil)
		if err != nil {
			r.Fatal(err)
		}
		at := 0
		for _, tool := range res.Tools {
			if tool.Report.Dropped {
				continue
			}
			alone, _ := schema.Narrow(bytes.Clone(tool.original), rules)
			if got := res.Body[q.Tools[at].Start:q.Tools[at].End]; !bytes.Equal(got, alone) {
				r.Fatalf("in the body %s\nalone       %s", got, alone)
			}
			at++
		}
		if at != len(q.Tools) {
			r.Fatalf("%d tools stand where %d should", len(q.Tools), at)
		}
	})
}

// A key that repeats could be a field for one reader and none for another, so
// such a body is refused as a whole, however it is spelt.
func TestRepeatedKeysAreRefused(t *testing.T) {
	for _, body := range []string{
		`{"tools":[],"tools":[{"name":"bash"}]}`,
		`{"tools":[],"\u0074ools":[{"name":"bash"}]}`,
		`{"tools":[{"name":"Read","name":"bash","input_schema":{"properties":{"justification":{}}}}]}`,
		`{"tools":[{"name":"bash","input_schema":{"properties":{"justification":{},"justif\u0069cation":{}}}}]}`,
		`{"tools":[{"name":"bash","input_schema":{"properties":{}},"input_schema":{"properties":{"justification":{}}}}]}`,
	} {
		for _, d := range dialects {
			if _, err := wire.Read(wire.Route{Dialect: d}, []byte(body), nil); err == nil {
				t.Errorf("%s: %s was read", d, body)
			}
		}
	}
}

// An escaped key is the same key.
func TestEscapedKeys(t *testing.T) {
	body := `{"\u0074ools":[{"n\u0061me":"b\u0061sh","input_schema":{"prop\u0065rties":{"command":{},"sandbox_permission\u0073":{}},"required":["command","sandbox\u005fpermissions"]}}]}`
	want := `{"\u0074ools":[{"n\u0061me":"b\u0061sh","input_schema":{"prop\u0065rties":{"command":{}},"required":["command"]}}]}`
	if got := apply(t, wire.Messages, []byte(body), NewNarrower(rules, Options{}), nil).Body; string(got) != want {
		t.Errorf("%s", got)
	}
}

// A choice of a tool that goes would make every provider refuse the request.
func TestChoiceOfADroppedTool(t *testing.T) {
	const gone = `"name":"request_permissions"`
	for _, tt := range []struct {
		name     string
		d        wire.Dialect
		in, want string
	}{
		{"messages", wire.Messages, `"tool_choice":{"type":"tool",` + gone + `},"x":1`, `"x":1`},
		{"last", wire.Messages, `"x":1 , "tool_choice":{"type":"tool",` + gone + `}`, `"x":1`},
		{"another tool", wire.Messages, `"tool_choice":{"type":"tool","name":"Read"}`, `"tool_choice":{"type":"tool","name":"Read"}`},
		{"any", wire.Messages, `"tool_choice":{"type":"any"}`, `"tool_choice":{"type":"any"}`},
		{"a word", wire.Chat, `"tool_choice":"required"`, `"tool_choice":"required"`},
		{"chat", wire.Chat, `"tool_choice":{"type":"function","function":{` + gone + `}},"x":1`, `"x":1`},
		{"chat, allowed", wire.Chat, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{` + gone + `}},{"type":"function","function":{"name":"a"}}]}}`, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"a"}}]}}`},
		{"responses", wire.Responses, `"tool_choice":{"type":"function",` + gone + `},"x":1`, `"x":1`},
		{"responses, none left", wire.Responses, `"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function",` + gone + `}]},"x":1`, `"x":1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			declared, other := `{"type":"function",`+gone+`}`, `{"type":"function","name":"Read"}`
			if tt.d == wire.Chat {
				declared, other = `{"type":"function","function":{`+gone+`}}`, `{"type":"function","function":{"name":"Read"}}`
			}
			head := `{"input":[],"tools":[` + other
			res := apply(t, tt.d, []byte(head+`,`+declared+`],`+tt.in+`}`), NewNarrower(rules, Options{}), nil)
			if got, want := string(res.Body), head+`],`+tt.want+`}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if reported := slices.Contains(res.Removed, "/tool_choice"); reported != (tt.in != tt.want) {
				t.Errorf("removed %q", res.Removed)
			}
		})
	}
	only := `{"tool_choice":{"type":"tool",` + gone + `}}`
	if got := apply(t, wire.Messages, []byte(only), NewNarrower(rules, Options{}), nil).Body; string(got) != only {
		t.Errorf("a choice of a tool that is not declared was changed: %s", got)
	}
}

// A body of ten megabytes with twenty thousand tools, the first, the last and
// every thousandth of which offer a dead field.
func TestManyTools(t *testing.T) {
	filler := strings.Repeat("Prints a line. ", 25)
	var in, want strings.Builder
	for _, b := range []*strings.Builder{&in, &want} {
		b.WriteString(`{"messages":[],"tools":[`)
	}
	removed := 0
	for i := range 20_000 {
		comma := ","
		if i == 0 {
			comma = ""
		}
		name, field := fmt.Sprintf("tool_%d", i), ""
		if i%1000 == 0 || i == 19_999 {
			name, field = "Bash", `,"dangerouslyDisableSandbox":{}`
			removed++
		}
		const form = `%s{"name":%q,"description":%q,"input_schema":{"properties":{"n%d":{}%s}}}`
		fmt.Fprintf(&in, form, comma, name, filler, i, field)
		fmt.Fprintf(&want, form, comma, name, filler, i, "")
	}
	in.WriteString(`]}`)
	want.WriteString(`]}`)
	res := apply(t, wire.Messages, []byte(in.String()), NewNarrower(rules, Options{}), nil)
	if string(res.Body) != want.String() || len(res.Removed) != removed || len(res.Tools) != 20_000 {
		t.Errorf("%d bytes became %d, want %d; removed %d", in.Len(), len(res.Body), want.Len(), len(res.Removed))
	}
}

// Nesting that a reader could not follow is refused; what can be followed
// passes.
func TestDeepBodies(t *testing.T) {
	for _, brackets := range []string{"[]", `{"a":}`} {
		open, shut := strings.TrimRight(brackets, "]}"), brackets[len(brackets)-1:]
		for depth, ok := range map[int]bool{900: true, 20_000: false} {
			deep := strings.Repeat(open, depth) + "1" + strings.Repeat(shut, depth)
			for _, body := range []string{`{"x":` + deep + `}`, `{"tools":[{"name":"bash","input_schema":` + deep + `}]}`} {
				q, err := wire.Read(wire.Route{Dialect: wire.Messages}, []byte(body), nil)
				if (err == nil) != ok {
					t.Fatalf("%d × %s: %v", depth, open, err)
				}
				if ok {
					if res := Apply(q, []byte(body), NewNarrower(rules, Options{}), nil); string(res.Body) != body {
						t.Errorf("%d × %s was changed", depth, open)
					}
				}
			}
		}
	}
}
