package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Each row is the schema of a tool t that loses x and y, its values of z that
// are dead, and n at any depth.
func TestKeywords(t *testing.T) {
	r := Rules{Tools: map[string][]Field{"t": {
		{Name: "x"}, {Name: "y"}, {Name: "n", Nested: true}, {Name: "z", DeadValues: []string{"wide", "wider"}},
	}}}
	tests := []struct {
		name, in, want string
		removed        []string // pointers below /input_schema
	}{
		{"dependentRequired of a field", `{"dependentRequired":{"x":["a"],"a":["b"]}}`, `{"dependentRequired":{"a":["b"]}}`, []string{"/dependentRequired/x"}},
		{"dependentRequired on a field", `{"dependentRequired":{"a":["x","b"]}}`, `{"dependentRequired":{"a":["b"]}}`, []string{"/dependentRequired/a/0"}},
		{"dependentRequired on fields alone", `{"dependentRequired":{"a":["x","y"],"b":["a"]}}`, `{"dependentRequired":{"b":["a"]}}`, []string{"/dependentRequired/a"}},
		{"dependentRequired with nothing left", `{"a":1,"dependentRequired":{"x":["y"]}}`, `{"a":1}`, []string{"/dependentRequired"}},
		{"dependentSchemas", `{"dependentSchemas":{"x":{"required":["a"]},"a":{"required":["y"]},"b":{"required":["a"]}}}`, `{"dependentSchemas":{"b":{"required":["a"]}}}`,
			[]string{"/dependentSchemas/x", "/dependentSchemas/a"}},
		{"dependencies of both sorts", `{"dependencies":{"x":["a"],"a":["y","b"],"b":{"properties":{"y":{},"c":{}}}}}`, `{"dependencies":{"a":["b"],"b":{"properties":{"c":{}}}}}`,
			[]string{"/dependencies/x", "/dependencies/a/0", "/dependencies/b/properties/y"}},

		{"a condition on a field", `{"if":{"properties":{"x":{"const":1}}},"then":{"required":["a"]},"else":{"required":["b"]},"type":"object"}`, `{"type":"object"}`,
			[]string{"/if", "/then", "/else"}},
		{"a condition on a field and another", `{"if":{"properties":{"x":{"const":1},"a":{"const":1}}},"then":{"required":["b"]}}`, `{}`, []string{"/if", "/then"}},
		{"a condition for a field", `{"if":{"required":["a"]},"then":{"required":["x"]}}`, `{}`, []string{"/if", "/then"}},
		{"a condition for a field and otherwise another", `{"if":{"required":["a"]},"then":{"required":["x"]},"else":{"required":["b"]}}`, `{"if":{"required":["a"]},"else":{"required":["b"]}}`, []string{"/then"}},
		{"a condition of others", `{"if":{"required":["a"]},"then":{"required":["b","x"]}}`, `{"if":{"required":["a"]},"then":{"required":["b"]}}`, []string{"/then/required/1"}},
		{"not", `{"not":{"required":["x","a"]},"type":"object"}`, `{"type":"object"}`, []string{"/not"}},
		{"not of others", `{"not":{"required":["a"]}}`, `{"not":{"required":["a"]}}`, nil},

		{"allOf", `{"allOf":[{"properties":{"x":{}}},{"properties":{"a":{},"x":{}}}]}`, `{"allOf":[{"properties":{"a":{}}}]}`, []string{"/allOf/0", "/allOf/1/properties/x"}},
		{"allOf with nothing left", `{"type":"object","allOf":[{"if":{"required":["x"]},"then":{"required":["y"]}}]}`, `{"type":"object"}`, []string{"/allOf"}},
		{"anyOf of a field or another", `{"anyOf":[{"required":["a"]},{"required":["x"]}]}`, `{"anyOf":[{"required":["a"]}]}`, []string{"/anyOf/1"}},
		{"anyOf that needs a field beside another", `{"anyOf":[{"required":["a"]},{"required":["b","x"],"properties":{"b":{}}}]}`, `{"anyOf":[{"required":["a"]}]}`, []string{"/anyOf/1"}},
		{"anyOf of which each needs a field", `{"anyOf":[{"required":["a","x"]},{"required":["b","y"]}]}`, `{"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			[]string{"/anyOf/0/required/1", "/anyOf/1/required/1"}},
		{"oneOf by the value of a field", `{"oneOf":[{"properties":{"x":{"const":1}}},{"properties":{"x":{"const":2}},"required":["y"]}],"type":"object"}`, `{"type":"object"}`, []string{"/oneOf"}},
		{"oneOf that would hold twice", `{"oneOf":[{"properties":{"a":{},"x":{"const":1}}},{"properties":{"a":{},"x":{"const":2}}},{"properties":{"b":{}}}]}`,
			`{"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, []string{"/oneOf/0/properties/x", "/oneOf/1"}},
		{"oneOf of others that hold twice", `{"oneOf":[{"title":"a"},{"title":"a"}],"properties":{"x":{}}}`, `{"oneOf":[{"title":"a"},{"title":"a"}],"properties":{}}`, []string{"/properties/x"}},

		{"a definition that only a field used", `{"properties":{"x":{"$ref":"#/$defs/X"},"a":{"$ref":"#/$defs/A"}},"$defs":{"X":{"type":"string"},"A":{}}}`,
			`{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{}}}`, []string{"/properties/x", "/$defs/X"}},
		{"a chain of definitions", `{"properties":{"x":{"$ref":"#/definitions/X"}},"definitions":{"X":{"items":{"$ref":"#/definitions/Y"}},"Y":{"$ref":"#/definitions/X"}}}`,
			`{"properties":{}}`, []string{"/properties/x", "/definitions"}},
		{"a definition that nobody used", `{"properties":{"x":{}},"$defs":{"U":{}}}`, `{"properties":{},"$defs":{"U":{}}}`, []string{"/properties/x"}},
		{"a definition that something else uses too", `{"properties":{"x":{"$ref":"#/$defs/X"},"a":{"items":{"$ref":"#/$defs/X"}}},"$defs":{"X":{}}}`,
			`{"properties":{"a":{"items":{"$ref":"#/$defs/X"}}},"$defs":{"X":{}}}`, []string{"/properties/x"}},
		{"definitions with anchors", `{"properties":{"x":{"$ref":"#it"}},"$defs":{"X":{"$anchor":"it"}}}`, `{"properties":{},"$defs":{"X":{"$anchor":"it"}}}`, []string{"/properties/x"}},
		{"the tool's own schema is a definition", `{"$ref":"#/$defs/Args","$defs":{"Args":{"properties":{"x":{},"a":{"properties":{"x":{}}}},"required":["x"]}}}`,
			`{"$ref":"#/$defs/Args","$defs":{"Args":{"properties":{"a":{"properties":{"x":{}}}},"required":[]}}}`, []string{"/$defs/Args/properties/x", "/$defs/Args/required/0"}},
		{"a reference with escapes", `{"properties":{"x":{"$ref":"#/$defs/a~1b%20c"}},"$defs":{"a/b c":{},"k":{}}}`, `{"properties":{},"$defs":{"k":{}}}`, []string{"/properties/x", "/$defs/a~1b c"}},

		{"default", `{"default":{"a":1,"x":2}}`, `{"default":{"a":1}}`, []string{"/default/x"}},
		{"examples", `{"examples":[{"a":1,"x":2},{"x":1,"y":2},{"a":2}]}`, `{"examples":[{"a":1},{"a":2}]}`, []string{"/examples/0/x", "/examples/1"}},
		{"examples with nothing left", `{"examples":[{"x":1}],"type":"object"}`, `{"type":"object"}`, []string{"/examples"}},
		{"an example with a dead value", `{"examples":[{"a":1,"z":"wide"},{"a":1,"z":"narrow"}]}`, `{"examples":[{"a":1},{"a":1,"z":"narrow"}]}`, []string{"/examples/0/z"}},
		{"an example of a property", `{"properties":{"a":{"examples":[{"x":1,"n":2}],"default":{"n":1}}}}`, `{"properties":{"a":{"examples":[{"x":1}],"default":{}}}}`,
			[]string{"/properties/a/examples/0/n", "/properties/a/default/n"}},
		{"propertyOrdering", `{"properties":{"x":{},"a":{}},"propertyOrdering":["x","a"]}`, `{"properties":{"a":{}},"propertyOrdering":["a"]}`, []string{"/properties/x", "/propertyOrdering/0"}},
		{"propertyNames", `{"propertyNames":{"enum":["a","x"]}}`, `{"propertyNames":{"enum":["a"]}}`, []string{"/propertyNames/enum/1"}},

		{"a dead value", `{"properties":{"z":{"enum":["narrow","wide","wider"],"default":"narrow"}}}`, `{"properties":{"z":{"enum":["narrow"],"default":"narrow"}}}`,
			[]string{"/properties/z/enum/1", "/properties/z/enum/2"}},
		{"a dead default", `{"properties":{"z":{"enum":["narrow","wide"],"default":"wide","examples":["wide"]}}}`, `{"properties":{"z":{"enum":["narrow"]}}}`,
			[]string{"/properties/z/enum/1", "/properties/z/default", "/properties/z/examples"}},
		{"dead alternatives", `{"properties":{"z":{"anyOf":[{"const":"narrow"},{"const":"wide"},{"enum":["wider","wide"]},{"enum":["wide","other"]},{"type":"null"}]}}}`,
			`{"properties":{"z":{"anyOf":[{"const":"narrow"},{"enum":["other"]},{"type":"null"}]}}}`, []string{"/properties/z/anyOf/1", "/properties/z/anyOf/2", "/properties/z/anyOf/3/enum/0"}},
		{"a list of values", `{"properties":{"z":{"type":"array","items":{"enum":["wide","narrow"]}}}}`, `{"properties":{"z":{"type":"array","items":{"enum":["narrow"]}}}}`, []string{"/properties/z/items/enum/0"}},
		{"only dead values", `{"properties":{"z":{"enum":["wide"]}}}`, `{"properties":{"z":{"enum":["wide"]}}}`, nil},
		{"the same value of another field", `{"properties":{"a":{"enum":["narrow","wide"]}}}`, `{"properties":{"a":{"enum":["narrow","wide"]}}}`, nil},

		{"nested schemas", `{"properties":{"a":{"items":{"properties":{"n":{},"x":{}}},"additionalProperties":{"properties":{"n":{}}}}},"patternProperties":{"^p":{"required":["n"]}}}`,
			`{"properties":{"a":{"items":{"properties":{"x":{}}},"additionalProperties":{"properties":{}}}},"patternProperties":{"^p":{"required":[]}}}`,
			[]string{"/properties/a/items/properties/n", "/properties/a/additionalProperties/properties/n", "/patternProperties/^p/required/0"}},
		{"a repeated key", `{"properties":{"x":{},"a":{}},"properties":{"x":{}},"required":["x"],"re\u0071uired":["\u0078","a"]}`, `{"properties":{"a":{}},"properties":{},"required":[],"re\u0071uired":["a"]}`,
			[]string{"/properties/x", "/properties/x", "/required/0", "/required/0"}},
		{"words as properties", `{"properties":{"properties":{"properties":{"x":{}}},"required":{"enum":["x"]},"$defs":{"x":1},"if":{"required":["x"]},"x":{}}}`,
			`{"properties":{"properties":{"properties":{"x":{}}},"required":{"enum":["x"]},"$defs":{"x":1},"if":{"required":["x"]}}}`, []string{"/properties/x"}},
		{"strict", `{"type":"object","properties":{"a":{"type":"string"},"x":{"type":["string","null"]},"y":{"type":["string","null"]}},"required":["a","x","y"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`, []string{"/properties/x", "/properties/y", "/required/1", "/required/2"}},
		{"schemas that are no objects", `{"properties":{"x":true,"a":false},"allOf":[true],"if":true,"anyOf":{},"items":[{"required":["n"]}],"$defs":[]}`,
			`{"properties":{"a":false},"allOf":[true],"if":true,"anyOf":{},"items":[{"required":[]}],"$defs":[]}`, []string{"/properties/x", "/items/0/required/0"}},
		{"references in a circle", `{"$ref":"#","allOf":[{"$ref":"#/allOf/0"}],"properties":{"x":{}}}`, `{"$ref":"#","allOf":[{"$ref":"#/allOf/0"}],"properties":{}}`, []string{"/properties/x"}},
	}
	const head, tail = `{"name":"t","input_schema":`, `}`
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(head + tt.in + tail)
			out, rep := Narrow(in, r)
			if diff := cmp.Diff(head+tt.want+tail, string(out)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			var removed []string
			for _, p := range rep.Removed {
				removed = append(removed, strings.TrimPrefix(p, "/input_schema"))
			}
			if diff := cmp.Diff(tt.removed, removed); diff != "" {
				t.Errorf("removed (-want +got)\n%s", diff)
			}
			bytes := 0
			for _, c := range rep.Cuts {
				bytes += c.Bytes
			}
			if bytes != len(in)-len(out) {
				t.Errorf("reported %d bytes, removed %d", bytes, len(in)-len(out))
			}
			if again, _ := Narrow(out, r); !same(out, again) {
				t.Errorf("narrowed again: %s", again)
			}
			if !json.Valid(out) || !subsequence(out, in) {
				t.Error("not valid JSON or not a subsequence")
			}
		})
	}
}

// Each row is a tool that loses x, or a container with one.
func TestShapes(t *testing.T) {
	r := Rules{Tools: map[string][]Field{"t": {{Name: "x"}}}, Drop: []string{"ask_more"}}
	const with, without = `{"properties":{"x":{},"a":{}}}`, `{"properties":{"a":{}}}`
	tests := []struct {
		name, in, want string
		drops          bool
	}{
		{"messages", `{"name":"t","input_schema":` + with + `}`, `{"name":"t","input_schema":` + without + `}`, false},
		{"messages, typed", `{"type":"custom","name":"t","input_schema":` + with + `}`, `{"type":"custom","name":"t","input_schema":` + without + `}`, false},
		{"chat", `{"type":"function","function":{"name":"t","parameters":` + with + `}}`, `{"type":"function","function":{"name":"t","parameters":` + without + `}}`, false},
		{"responses", `{"type":"function","name":"t","parameters":` + with + `}`, `{"type":"function","name":"t","parameters":` + without + `}`, false},
		{"a namespace", `{"type":"namespace","name":"t","tools":[{"type":"function","name":"t","parameters":` + with + `},{"type":"function","name":"u","parameters":` + with + `}]}`,
			`{"type":"namespace","name":"t","tools":[{"type":"function","name":"t","parameters":` + without + `},{"type":"function","name":"u","parameters":` + with + `}]}`, false},
		{"a namespace in a namespace", `{"type":"namespace","tools":[{"type":"namespace","tools":[{"name":"t","parameters":` + with + `}]}]}`,
			`{"type":"namespace","tools":[{"type":"namespace","tools":[{"name":"t","parameters":` + without + `}]}]}`, false},
		{"a tool that goes from a namespace", `{"type":"namespace","tools":[{"name":"ask_more","parameters":{}}, {"name":"u","parameters":{}}]}`,
			`{"type":"namespace","tools":[{"name":"u","parameters":{}}]}`, false},
		{"a namespace that goes from a namespace", `{"type":"namespace","tools":[{"name":"u"},{"type":"namespace","tools":[{"name":"ask_more"}]}]}`,
			`{"type":"namespace","tools":[{"name":"u"}]}`, false},
		{"gemini", `{"functionDeclarations":[{"name":"t","parameters":` + with + `},{"name":"t","parametersJsonSchema":` + with + `},{"name":"ask_more"}]}`,
			`{"functionDeclarations":[{"name":"t","parameters":` + without + `},{"name":"t","parametersJsonSchema":` + without + `}]}`, false},
		{"two shapes in one", `{"name":"t","input_schema":` + with + `,"parameters":` + with + `,"function":{"name":"u","parameters":` + with + `}}`,
			`{"name":"t","input_schema":` + without + `,"parameters":` + without + `,"function":{"name":"u","parameters":` + without + `}}`, false},
		{"two names", `{"name":"u","name":"t","input_schema":` + with + `}`, `{"name":"u","name":"t","input_schema":` + without + `}`, false},
		{"two types", `{"type":"web","type":"function","name":"t","parameters":` + with + `}`, `{"type":"web","type":"function","name":"t","parameters":` + without + `}`, false},
		{"an escaped name", `{"n\u0061me":"\u0074","input_schema":{"properties":{"\u0078":{}}}}`, `{"n\u0061me":"\u0074","input_schema":{"properties":{}}}`, false},
		{"a type that nobody knows", `{"type":"local_shell","name":"t","parameters":` + with + `}`, ``, false},
		{"another tool", `{"name":"u","input_schema":` + with + `}`, ``, false},
		{"freeform, chat", `{"type":"custom","custom":{"name":"t","description":"Set ` + "`x`" + ` so. Runs."}}`, `{"type":"custom","custom":{"name":"t","description":"Runs."}}`, false},

		{"dropped, messages", `{"name":"ask_more","input_schema":{}}`, ``, true},
		{"dropped, chat", `{"type":"function","function":{"name":"ask_mor\u0065"}}`, ``, true},
		{"dropped, responses", `{"type":"function","name":"ask_more"}`, ``, true},
		{"dropped, by one of two names", `{"name":"u","name":"ask_more"}`, ``, true},
		{"dropped, a namespace of nothing else", `{"type":"namespace","tools":[{"name":"ask_more"}]}`, ``, true},
		{"not dropped, an empty namespace", `{"type":"namespace","tools":[]}`, ``, false},
		{"not dropped, a type that nobody knows", `{"type":"local_shell","name":"ask_more"}`, ``, false},
		{"not dropped, not JSON", `{"name":"ask_more"`, ``, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			out, rep := Narrow(in, r)
			if tt.want == "" {
				if !same(in, out) {
					t.Errorf("want the very same slice, got %s", out)
				}
			} else if diff := cmp.Diff(tt.want, string(out)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if r.Drops(in) != tt.drops || rep.Dropped != tt.drops {
				t.Errorf("Drops: %v, reported %v", r.Drops(in), rep.Dropped)
			}
			if again, _ := Narrow(out, r); !same(out, again) {
				t.Errorf("narrowed again: %s", again)
			}
		})
	}
}

// The JSON of the rules is part of recordings.
func TestRulesAreStableJSON(t *testing.T) {
	const want = `{"tools":{"t":[{"name":"x","values":["v"],"nested":true},{"name":"z","dead_values":["d"]}]},"drop":["u"]}`
	var r Rules
	if err := json.Unmarshal([]byte(want), &r); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(r)
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// schemaText draws the text of a schema: any keywords, in any order, some of
// them twice, over fields that go and fields that stay.
func schemaText(t *rapid.T, depth int) string {
	w := writer{t}
	name := rapid.SampledFrom([]string{"x", "y", "n", "z", "a", "required", "properties", "$defs"})
	names := func() string { return w.value(rapid.SliceOfN(name, 0, 3).Draw(t, "names")) }
	sub := func() string {
		if depth <= 0 {
			return rapid.SampledFrom([]string{"true", "{}", `{"type":"string"}`, `{"enum":["wide","narrow"]}`, `{"$ref":"#/$defs/a"}`, "1e3", "null"}).Draw(t, "leaf")
		}
		return schemaText(t, depth-1)
	}
	members := func(value func() string) string {
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			parts = append(parts, w.space()+w.string(name.Draw(t, "name"))+w.space()+":"+w.space()+value()+w.space())
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	list := func(value func() string) string {
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			parts = append(parts, w.space()+value()+w.space())
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	scalar := func() string {
		return rapid.SampledFrom([]string{`"wide"`, `"narrow"`, `1E-3`, `{"x":1,"a":2}`, `{"n":[{"n":1}]}`}).Draw(t, "value")
	}
	var parts []string
	for range rapid.IntRange(0, 4).Draw(t, "keywords") {
		key := rapid.SampledFrom([]string{"properties", "required", "dependentRequired", "dependentSchemas", "dependencies", "allOf", "anyOf", "oneOf",
			"not", "if", "then", "else", "$ref", "$defs", "definitions", "default", "examples", "enum", "items", "additionalProperties", "description", "type"}).Draw(t, "key")
		var value string
		switch key {
		case "properties", "dependentSchemas", "$defs", "definitions":
			value = members(sub)
		case "dependentRequired":
			value = members(names)
		case "dependencies":
			value = members(rapid.SampledFrom([]func() string{sub, names}).Draw(t, "sort"))
		case "required":
			value = names()
		case "allOf", "anyOf", "oneOf":
			value = list(sub)
		case "default":
			value = scalar()
		case "examples", "enum":
			value = list(scalar)
		case "$ref":
			value = rapid.SampledFrom([]string{`"#/$defs/a"`, `"#/definitions/z"`, `"#"`, `"#/properties/a"`}).Draw(t, "ref")
		case "description":
			value = rapid.SampledFrom([]string{`"Set x_mode. Prints."`, `"Pass ` + "`x`" + ` and more."`, `""`}).Draw(t, "text")
		case "type":
			value = `"object"`
		default:
			value = sub()
		}
		parts = append(parts, w.space()+w.string(key)+w.space()+":"+w.space()+value+w.space())
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Whatever a schema says: bytes are deleted and nothing else, valid JSON is
// left, a second time finds nothing more, and nobody offers the fields.
func TestNarrowAnySchema(t *testing.T) {
	r := Rules{Tools: map[string][]Field{"t": {
		{Name: "x"}, {Name: "y"}, {Name: "n", Nested: true}, {Name: "z", DeadValues: []string{"wide"}},
	}}}
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(`{"name":"t","description":"Prints.","input_schema":` + schemaText(t, 4) + `}`)
		out, rep := Narrow(in, r)
		if !json.Valid(out) || !subsequence(out, in) {
			t.Fatalf("%s\nbecame\n%s", in, out)
		}
		if same(in, out) != (len(rep.Cuts) == 0) {
			t.Fatalf("%s\nsame slice: %v, reported %+v", in, same(in, out), rep.Cuts)
		}
		if again, _ := Narrow(out, r); !same(out, again) {
			t.Fatalf("%s\nbecame\n%s\nthen\n%s", in, out, again)
		}
		if twice, _ := Narrow(slices.Clone(in), r); string(twice) != string(out) {
			t.Fatalf("%s\nbecame\n%s\nand\n%s", in, out, twice)
		}
		// Every occurrence of properties and required, repeated keys included.
		var tp tape.Tape
		if err := tp.ParseRepeats(out); err != nil {
			t.Fatal(err)
		}
		schema := tp.Get(0, "input_schema")
		for k := schema + 1; k < tp.After(schema); k = tp.After(k + 1) {
			for c := k + 2; c < tp.After(k+1); {
				if tp.Is(k, "properties") && tp.Kind(k+1) == tape.Object && (tp.Is(c, "x") || tp.Is(c, "y") || tp.Is(c, "n")) ||
					tp.Is(k, "required") && tp.Kind(k+1) == tape.Array && (tp.Is(c, "x") || tp.Is(c, "y") || tp.Is(c, "n")) {
					t.Fatalf("%s\nstill offers %s:\n%s", in, tp.Raw(c), out)
				}
				if tp.Kind(k+1) == tape.Object {
					c++
				}
				c = tp.After(c)
			}
		}
	})
}
