package rewrite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/schema"
)

// For all rules: their JSON form gives them back, and equal rules have equal
// bytes.
func TestRulesComeBackFromJSON(t *testing.T) {
	name := rapid.StringMatching(`[a-z<>"\\é]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.Custom(func(t *rapid.T) schema.Field {
			return schema.Field{Name: name.Draw(t, "name"), Values: rapid.SliceOfN(name, 0, 2).Draw(t, "values"), DeadValues: rapid.SliceOfN(name, 0, 2).Draw(t, "dead"), Nested: rapid.Bool().Draw(t, "nested")}
		})
		in := Rules{Rules: schema.Rules{Tools: rapid.MapOfN(name, rapid.SliceOfN(fields, 1, 3), 0, 4).Draw(t, "tools"), Drop: rapid.SliceOfN(name, 0, 2).Draw(t, "drop")},
			KeepTexts: rapid.Bool().Draw(t, "texts"), KeepHints: rapid.Bool().Draw(t, "hints")}
		text := in.JSON()
		out, err := ParseRules(text)
		if err != nil {
			t.Fatal(err)
		}
		if again := out.JSON(); string(again) != string(text) || strings.ContainsAny(string(text), "\n\r") {
			t.Fatalf("%s became %s", text, again)
		}
	})
	built := Rules{Rules: agents.Builtin().Rules(nil)}
	out, err := ParseRules(built.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(built, out); d != "" {
		t.Errorf("the catalogue's rules (-out +back):\n%s", d)
	}
}

// Rules of a later version could narrow something else: they are no rules.
func TestUnknownRulesAreRefused(t *testing.T) {
	for _, text := range []string{`{"later":true}`, `[]`, ``, `{"tools":{"a":[{"name":"x","when":1}]}}`} {
		if r, err := ParseRules([]byte(text)); err == nil {
			t.Errorf("%q gave %+v", text, r)
		}
	}
}
