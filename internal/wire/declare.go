package wire

import "github.com/guardproxy/guardproxy/internal/tape"

// Declaration is what a tool's declaration says about its arguments.
type Declaration struct {
	Name     string
	Required []string // of the schema's top level
	Schema   []byte   // the JSON Schema of the arguments, nil when there is none

	// Item, in Responses, is the type of the items that call the tool, and
	// Namespace the group that it is declared in, both as Call has them. Item is
	// "" for a tool that no client runs. Name is then the tool's own, if any.
	Item, Namespace string
	// Hosted says that the provider runs the calls of a tool whose calls clients
	// may run as well: a shell in a container, a search on the server.
	Hosted bool
}

// Declare reads the declaration of one tool, an element of a request's tools.
// A shape that it does not know gives a Declaration without arguments. Schema
// is a slice of tool.
func Declare(d Dialect, tool []byte) Declaration {
	var t tape.Tape
	if t.Parse(tool) != nil {
		return Declaration{}
	}
	return declare(d, &t, 0)
}

// Declarations reads all that an element of a request's tools declares: in
// Responses a namespace declares each tool in it, everything else itself. A
// tool in a namespace inside of another is in the inner one.
func Declarations(d Dialect, tool []byte) []Declaration {
	var t tape.Tape
	if t.Parse(tool) != nil {
		return nil
	}
	return appendDeclarations(nil, d, &t, 0, "")
}

func appendDeclarations(to []Declaration, d Dialect, t *tape.Tape, i int, namespace string) []Declaration {
	if d == Responses && t.Is(t.Get(i, "type"), "namespace") {
		name := t.Str(t.Get(i, "name"))
		if list := t.Get(i, "tools"); t.Kind(list) == tape.Array {
			for n, end := list+1, t.After(list); n < end; n = t.After(n) {
				to = appendDeclarations(to, d, t, n, name)
			}
		}
		return to
	}
	one := declare(d, t, i)
	if one.Item == FunctionCall || one.Item == CustomToolCall {
		one.Namespace = namespace
	}
	return append(to, one)
}

func declare(d Dialect, t *tape.Tape, i int) Declaration {
	from, key := i, "input_schema"
	switch d {
	case Chat:
		from, key = t.Get(i, "function"), "parameters"
	case Responses:
		key = "parameters"
	}
	out := Declaration{Name: t.Str(t.Get(from, "name"))}
	if d == Responses {
		out.responses(t, i)
	}
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

// responses says what calls tool i.
func (d *Declaration) responses(t *tape.Tape, i int) {
	switch typ := t.Str(t.Get(i, "type")); typ {
	case "function":
		d.Item = FunctionCall
	case "custom":
		d.Item = CustomToolCall
	case "local_shell", "apply_patch":
		d.Item, d.Name = typ+"_call", typ
	case "shell":
		d.Item, d.Name = ShellCall, typ
		env := t.Get(t.Get(i, "environment"), "type")
		d.Hosted = env >= 0 && !t.Is(env, "local")
	case "computer", "computer_use_preview", "computer_use":
		d.Item, d.Name = ComputerCall, "computer"
	case "tool_search":
		d.Item, d.Name = ToolSearchCall, typ
		d.Hosted = !t.Is(t.Get(i, "execution"), "client")
	case "mcp":
		d.Item, d.Namespace = McpApprovalRequest, t.Str(t.Get(i, "server_label"))
	}
}
