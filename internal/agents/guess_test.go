package agents

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParamsAndGuess(t *testing.T) {
	for _, row := range []struct {
		name, schema string
		commands     []string
		opaque       bool
	}{
		{"command", `{"type":"object","properties":{"command":{"type":"string"},"n":{"type":"number"}}}`, []string{"command"}, false},
		{"cmd", `{"properties":{"cmd":{"type":"string"}}}`, []string{"cmd"}, false},
		{"script", `{"properties":{"script":{"type":"string"}}}`, []string{"script"}, false},
		{"code need not be a command", `{"properties":{"code":{"type":"string"}}}`, []string{"code"}, true},
		{"two of them", `{"properties":{"script":{"type":"string"},"cmd":{"type":"string"}}}`, []string{"cmd", "script"}, false},
		{"another case", `{"properties":{"Command":{"type":"string"}}}`, []string{"Command"}, false},
		{"type of an older dialect", `{"properties":{"command":{"type":"STRING"}}}`, []string{"command"}, false},
		{"may be null", `{"properties":{"command":{"type":["string","null"]}}}`, []string{"command"}, false},
		{"no type", `{"properties":{"command":{"description":"x"}}}`, []string{"command"}, false},
		{"anything", `{"properties":{"command":true}}`, []string{"command"}, false},
		{"a union", `{"properties":{"command":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, []string{"command"}, false},
		{"a number", `{"properties":{"code":{"type":"integer"}}}`, nil, false},
		{"a list", `{"properties":{"command":{"type":"array","items":{"type":"string"}}}}`, nil, false},
		{"a choice", `{"properties":{"command":{"type":"string","enum":["view","create"]}}}`, nil, false},
		{"below the top level", `{"properties":{"x":{"type":"object","properties":{"command":{"type":"string"}}}}}`, nil, false},
		{"part of a name", `{"properties":{"command_id":{"type":"string"},"postcode":{"type":"string"}}}`, nil, false},
		{"in an alternative", `{"anyOf":[{"properties":{"url":{"type":"string"}}},{"properties":{"cmd":{"type":"string"}}}]}`, []string{"cmd"}, false},
		{"in a part", `{"allOf":[{"oneOf":[{"properties":{"cmd":{"type":"string"}}}]}]}`, []string{"cmd"}, false},
		{"by reference", `{"$ref":"#/$defs/Run","$defs":{"Run":{"properties":{"command":{"type":"string"}}}}}`, []string{"command"}, false},
		{"by reference to an older place", `{"$ref":"#/definitions/Run","definitions":{"Run":{"properties":{"command":{"type":"string"}}}}}`, []string{"command"}, false},
		{"a definition of something inside", `{"properties":{"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{"properties":{"command":{"type":"string"}}}}}`, nil, false},
		{"a choice in one place, text in another", `{"properties":{"command":{"enum":["a"]}},"anyOf":[{"properties":{"command":{"type":"string"}}}]}`, []string{"command"}, false},
		{"a property that is no schema", `{"properties":{"command":[1]}}`, []string{"command"}, false},
		{"a type that is none", `{"properties":{"command":{"type":7}}}`, []string{"command"}, false},
		{"no properties", `{"type":"object"}`, nil, false},
		{"no schema", `null`, nil, false},
		{"no JSON", `{`, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			tool, ok := Guess("x", Params([]byte(row.schema)))
			if ok != (row.commands != nil) {
				t.Fatalf("Guess says %t", ok)
			}
			var got []string
			for _, a := range tool.Command {
				got = append(got, a.Path)
			}
			if diff := cmp.Diff(row.commands, got); diff != "" {
				t.Error(diff)
			}
			if ok && (tool.Kind != Shell || tool.Opaque != row.opaque || RefusalFor(tool, nil) != UnknownTool) {
				t.Errorf("guessed %+v", tool)
			}
		})
	}
}

// The rule looks at names and types only, in any order.
func TestGuessDependsOnTheSetOfParameters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) Param {
			return Param{Name: rapid.SampledFrom([]string{"command", "cmd", "script", "code", "path", "x"}).Draw(t, "name"), Text: rapid.Bool().Draw(t, "text")}
		}), func(p Param) string { return p.Name }).Draw(t, "params")
		want := false
		for _, p := range params {
			want = want || p.Text && p.Name != "path" && p.Name != "x"
		}
		a, ok := Guess("t", params)
		if ok != want {
			t.Fatalf("Guess says %t, want %t", ok, want)
		}
		b, _ := Guess("t", rapid.Permutation(params).Draw(t, "order"))
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"properties":{"command":{"type":"string"}}}`))
	f.Add([]byte(`{"properties":{"command":{"type":["string"],"enum":[]}}}`))
	f.Add([]byte(`{"properties":[]}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		params := Params(schema)
		for i, p := range params {
			if i > 0 && params[i-1].Name >= p.Name {
				t.Fatalf("out of order: %v", params)
			}
		}
	})
}
