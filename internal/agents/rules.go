package agents

import (
	"maps"
	"slices"

	"github.com/guardproxy/guardproxy/schema"
)

// Override is what the operator adds to or removes from one tool's fields.
type Override struct {
	Add, Remove []string
}

// Rules returns what schema.Narrow removes in a session that can never be
// granted more than it has: for each tool name the escalation fields of all
// clients that use the name, with the operator's additions and without what
// the operator takes out. A field both added and removed is removed. Tools
// that lose nothing are left out. The result is new.
//
// The rules name tools, not clients, so that they hold for a client that
// nobody recognised, and don't move when one is.
func (t *Table) Rules(over map[string]Override) schema.Rules {
	out := schema.Rules{Tools: map[string][]schema.Field{}}
	names := maps.Clone(over)
	if names == nil {
		names = map[string]Override{}
	}
	for name := range t.byName {
		names[name] = over[name]
	}
	for name, o := range names {
		var fields []schema.Field
		if all := t.byName[name]; len(all) > 0 {
			for _, f := range Merge(all...).Escalation {
				fields = append(fields, schema.Field{Name: f.Name, Values: f.Values})
			}
		}
		for _, add := range o.Add {
			if !slices.ContainsFunc(fields, func(f schema.Field) bool { return f.Name == add }) {
				fields = append(fields, schema.Field{Name: add})
			}
		}
		fields = slices.DeleteFunc(fields, func(f schema.Field) bool { return slices.Contains(o.Remove, f.Name) })
		if len(fields) > 0 {
			out.Tools[name] = fields
		}
	}
	out.Drop = t.Escalators()
	return out
}

// Escalators returns the names of the tools that are, as a whole, a request
// for more than the session has; sorted, new.
func (t *Table) Escalators() []string {
	var out []string
	for name, all := range t.byName {
		if slices.ContainsFunc(all, func(e Tool) bool { return e.Escalates }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
