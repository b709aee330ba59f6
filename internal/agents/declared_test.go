package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// declared is what a real client declares: names and shapes as seen, words not.
type declared struct {
	Client, Version string
	Tools           []struct {
		Name     string          `json:"name"`
		Schema   json.RawMessage `json:"input_schema"`
		Freeform bool            `json:"freeform"`
	}
}

func readDeclared(t *testing.T) []declared {
	t.Helper()
	files, err := filepath.Glob("testdata/declared/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var out []declared
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d declared
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		out = append(out, d)
	}
	return out
}

type schemaNode struct {
	Type       any                   `json:"type"`
	Enum       []string              `json:"enum"`
	Required   []string              `json:"required"`
	Properties map[string]schemaNode `json:"properties"`
	Items      *schemaNode           `json:"items"`
}

// find follows an Arg's path through a schema.
func (s schemaNode) find(path string) (node schemaNode, required, ok bool) {
	step, rest, more := strings.Cut(path, ".")
	name, list := strings.CutSuffix(step, "[]")
	node, ok = s.Properties[name]
	required = slices.Contains(s.Required, name)
	if ok && list {
		if node.Items == nil {
			return node, false, false
		}
		node = *node.Items
	}
	if ok && more {
		return node.find(rest)
	}
	return node, required, ok
}

// What was seen is in the table, and the table says no more than was seen.
func TestDeclaredToolsFitTheTable(t *testing.T) {
	for _, d := range readDeclared(t) {
		c := Builtin().Client(d.Client)
		if c == nil {
			t.Errorf("%s: no such client", d.Client)
			continue
		}
		if !strings.HasPrefix(c.Versions, d.Version+" seen") {
			t.Errorf("%s: the fixture is %s, the entry says %q", d.Client, d.Version, c.Versions)
		}
		var names []string
		for _, decl := range d.Tools {
			names = append(names, decl.Name)
			at := d.Client + " " + decl.Name
			tool, ok := c.tool(decl.Name)
			if !ok || !tool.Seen {
				t.Errorf("%s: declared, but not in the table as seen", at)
				continue
			}
			var s schemaNode
			if decl.Freeform {
				s = schemaNode{Required: []string{"input"}, Properties: map[string]schemaNode{"input": {Type: "string"}}}
			} else if decl.Schema != nil {
				if err := json.Unmarshal(decl.Schema, &s); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
			}
			for label, args := range map[string][]Arg{"command": tool.Command, "code": tool.Code, "patch": tool.Patch, "path": tool.Paths, "dir": tool.Dir} {
				found := 0
				for _, a := range args {
					node, required, ok := s.find(a.Path)
					if a.Required && (!ok || !required) {
						t.Errorf("%s: %s %s is required in the table only", at, label, a.Path)
					}
					if !ok {
						continue
					}
					found++
					if want := map[Form]string{String: "string", List: "array"}[a.Form]; node.Type != want {
						t.Errorf("%s: %s %s is %v, the table says %s", at, label, a.Path, node.Type, want)
					}
					if len(node.Enum) > 0 {
						t.Errorf("%s: %s %s is a choice", at, label, a.Path)
					}
				}
				if len(args) > 0 && found == 0 {
					t.Errorf("%s: no %s of the table is declared", at, label)
				}
			}
			for _, f := range tool.Escalation {
				for _, v := range f.Values {
					if node, _, ok := s.find(f.Name); ok && !slices.Contains(node.Enum, v) {
						t.Errorf("%s: %s has no value %s", at, f.Name, v)
					}
				}
			}
		}
		for _, tool := range c.Tools {
			if tool.Seen && !slices.Contains(names, tool.Name) {
				t.Errorf("%s %s: the table says seen, the fixture has it not", d.Client, tool.Name)
			}
		}
	}
}

// Among all declared parameters, those whose names say path or command are
// explained by the table, or by the list of exceptions with its reason.
func TestNoDeclaredPathOrCommandIsMissed(t *testing.T) {
	exceptions := map[string]string{
		"codex list_agents path_prefix": "a prefix of agents' names",
	}
	used := map[string]bool{}
	suspicious := func(name string) bool {
		n := strings.ToLower(name)
		for _, part := range []string{"path", "dir", "file_", "command", "cmd", "script", "code", "chars"} {
			if strings.Contains(n, part) && n != "description" && n != "file_text" && n != "file_filtering_options" {
				return true
			}
		}
		return false
	}
	for _, d := range readDeclared(t) {
		c := Builtin().Client(d.Client)
		for _, decl := range d.Tools {
			tool, _ := c.tool(decl.Name)
			for _, p := range Params(decl.Schema) {
				if !suspicious(p.Name) {
					continue
				}
				if at := d.Client + " " + decl.Name + " " + p.Name; exceptions[at] != "" {
					used[at] = true
					continue
				}
				if !tool.explains(p.Name) {
					t.Errorf("%s %s: nobody looks at %s", d.Client, decl.Name, p.Name)
				}
			}
		}
	}
	for at := range exceptions {
		if !used[at] {
			t.Errorf("%s is an exception to nothing", at)
		}
	}
}

// The escalation fields really are where the table looks for them, in a
// version that was seen.
func TestDeclaredEscalationFieldsAreKnown(t *testing.T) {
	want := map[string]bool{"sandbox_permissions": true, "justification": true, "prefix_rule": true, "additional_permissions": true, "dangerouslyDisableSandbox": true}
	found := map[string]bool{}
	for _, d := range readDeclared(t) {
		c := Builtin().Client(d.Client)
		for _, decl := range d.Tools {
			tool, _ := c.tool(decl.Name)
			for _, p := range Params(decl.Schema) {
				if !want[p.Name] {
					continue
				}
				found[p.Name] = true
				if !slices.ContainsFunc(tool.Escalation, func(f Field) bool { return f.Name == p.Name }) {
					t.Errorf("%s %s: %s is no escalation field of the table", d.Client, decl.Name, p.Name)
				}
			}
		}
	}
	for name := range want {
		if !found[name] {
			t.Errorf("no fixture has %s", name)
		}
	}
}

// With the client known, the general rule changes nothing about a tool whose
// declaration was seen.
func TestClassifyOfDeclaredToolsIsTheirEntry(t *testing.T) {
	for _, d := range readDeclared(t) {
		c := Builtin().Client(d.Client)
		for _, decl := range d.Tools {
			want, _ := c.tool(decl.Name)
			got, ok := Builtin().Classify(decl.Name, c, Params(decl.Schema))
			if !ok || got.Kind != want.Kind || len(got.Command) != len(want.Command) {
				t.Errorf("%s %s: classified as %s with %v, the entry says %s with %v", d.Client, decl.Name, got.Kind, got.Command, want.Kind, want.Command)
			}
			// With the client unknown, it is never watched less.
			blind, ok := Builtin().Classify(decl.Name, nil, Params(decl.Schema))
			if !ok || blind.Kind.rank() < want.Kind.rank() {
				t.Errorf("%s %s: client unknown, classified as %s, the entry says %s", d.Client, decl.Name, blind.Kind, want.Kind)
			}
		}
	}
}
