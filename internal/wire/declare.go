package wire

import "github.com/guardproxy/guardproxy/internal/tape"

// Declaration is what a tool's declaration says about its arguments.
type Declaration struct {
	Name     string
	Required []string // of the schema's top level
	Schema   []byte   // the JSON Schema of the arguments, nil when there is none
}

// Declare reads the declaration of one tool, an element of a request's tools.
// A shape that it does not know gives a Declaration without arguments. Schema
// is a slice of tool.
func Declare(d Dialect, tool []byte) Declaration {
	var t tape.Tape
	if t.Parse(tool) != nil {
		return Declaration{}
	}
	from, key := 0, "input_schema"
	if d == Chat {
		from, key = t.Get(0, "function"), "parameters"
	}
	out := Declaration{Name: t.Str(t.Get(from, "name"))}
	schema := t.Get(from, key)
	if t.Kind(schema) == tape.Object {
		out.Schema = t.Raw(schema)
	}
	if req := t.Get(schema, "required"); t.Kind(req) == tape.Array {
		for i := req + 1; i < t.After(req); i = t.After(i) {
			if t.Kind(i) == tape.String {
				out.Required = append(out.Required, t.Str(i))
			}
		}
	}
	return out
}
