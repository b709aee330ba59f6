package agents

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guardproxy/guardproxy/schema"
)

func TestRules(t *testing.T) {
	names := func(fields []schema.Field) []string {
		var out []string
		for _, f := range fields {
			out = append(out, f.Name)
		}
		return out
	}
	over := map[string]Override{
		"bash":    {Add: []string{"network"}, Remove: []string{"justification"}},
		"mine":    {Add: []string{"sudo", "sudo"}},
		"Bash":    {Remove: []string{"dangerouslyDisableSandbox"}},
		"both":    {Add: []string{"x"}, Remove: []string{"x"}},
		"ignored": {Remove: []string{"x"}},
	}
	r := Builtin().Rules(over)
	for _, row := range []struct {
		tool string
		want []string
	}{
		{"bash", []string{"sandbox_permissions", "network"}},
		{"write", []string{"justification", "sandbox_permissions"}},
		{"exec_command", []string{"additional_permissions", "justification", "prefix_rule", "sandbox_permissions", "with_escalated_permissions"}},
		{"Monitor", []string{"dangerouslyDisableSandbox"}},
		{"mine", []string{"sudo"}},
		{"Bash", nil},
		{"both", nil},
		{"ignored", nil},
		{"Read", nil},
		{"todo_write", nil},
	} {
		if diff := cmp.Diff(row.want, names(r.Tools[row.tool])); diff != "" {
			t.Errorf("%s:\n%s", row.tool, diff)
		}
	}
	if _, ok := r.Tools["Read"]; ok {
		t.Error("a tool that loses nothing is listed")
	}
	i := slices.IndexFunc(r.Tools["exec_command"], func(f schema.Field) bool { return f.Name == "sandbox_permissions" })
	if diff := cmp.Diff([]string{"require_escalated", "with_additional_permissions"}, r.Tools["exec_command"][i].Values); diff != "" {
		t.Error(diff)
	}
}

// The rules are fixed for a session, so two builds must be equal, and nothing
// that a caller does to one may reach another.
func TestRulesAreFreshAndEqual(t *testing.T) {
	a, b := Builtin().Rules(nil), Builtin().Rules(nil)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Fatal(diff)
	}
	for _, fields := range a.Tools {
		for i := range fields {
			fields[i].Name = "changed"
			for j := range fields[i].Values {
				fields[i].Values[j] = "changed"
			}
		}
	}
	if diff := cmp.Diff(b, Builtin().Rules(nil)); diff != "" {
		t.Fatal(diff)
	}
}
