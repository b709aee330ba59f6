package agents

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// guessed are the parameter names that make an uncatalogued tool a shell.
var guessed = []string{"command", "cmd", "script", "code"}

// Param is one parameter of a declared tool.
type Param struct {
	Name string
	// Text says that the parameter takes free text: a string, or something of
	// no declared type, and not one of a fixed list of values.
	Text bool
}

// Params reads the parameters of a call out of a declaration's JSON Schema, in
// the order of their names: its properties, and those of the alternatives and
// definitions that it may be composed of. A property that can't be read, or
// is text in one place, counts as text: what we don't understand must not hide
// a command. Objects inside parameters are not looked into.
func Params(schema []byte) []Param {
	text := map[string]bool{}
	collect(schema, text, 0)
	var out []Param
	for _, name := range slices.Sorted(maps.Keys(text)) {
		out = append(out, Param{Name: name, Text: text[name]})
	}
	return out
}

// schemaDepth bounds how far compositions nest; no real schema comes near.
const schemaDepth = 8

func collect(schema []byte, text map[string]bool, depth int) {
	var s struct {
		Properties  map[string]json.RawMessage `json:"properties"`
		AllOf       []json.RawMessage          `json:"allOf"`
		AnyOf       []json.RawMessage          `json:"anyOf"`
		OneOf       []json.RawMessage          `json:"oneOf"`
		Ref         string                     `json:"$ref"`
		Defs        map[string]json.RawMessage `json:"$defs"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	if depth > schemaDepth || json.Unmarshal(schema, &s) != nil {
		return
	}
	for name, raw := range s.Properties {
		text[name] = text[name] || isText(raw)
	}
	inner := slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
	// Definitions count for a schema that is composed of others only: where
	// properties are listed they describe what is inside those.
	if s.Ref != "" || len(inner) > 0 {
		inner = slices.AppendSeq(inner, maps.Values(s.Defs))
		inner = slices.AppendSeq(inner, maps.Values(s.Definitions))
	}
	for _, raw := range inner {
		collect(raw, text, depth+1)
	}
}

func isText(raw json.RawMessage) bool {
	var p struct {
		Type any               `json:"type"`
		Enum []json.RawMessage `json:"enum"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return true
	}
	if len(p.Enum) > 0 {
		return false
	}
	switch t := p.Type.(type) {
	case nil:
		return true
	case string:
		return strings.EqualFold(t, "string")
	case []any:
		return slices.ContainsFunc(t, func(e any) bool { s, _ := e.(string); return strings.EqualFold(s, "string") })
	}
	return true
}

// Guess is the rule for a tool that no catalogue knows: one with a text
// parameter called command, cmd, script or code is judged as a shell. What
// `code` holds need not be a command, so such a tool is opaque. Since nobody
// knows what reads the text, a refusal doesn't take the shell form.
//
// It depends on nothing but its arguments. False: not a shell by this rule.
func Guess(name string, params []Param) (Tool, bool) {
	t := Tool{Name: name, Kind: Shell, Refusal: ByClient}
	for _, p := range params {
		if !p.Text || !slices.ContainsFunc(guessed, func(g string) bool { return strings.EqualFold(g, p.Name) }) {
			continue
		}
		t.Command = append(t.Command, Arg{Path: p.Name, Form: String | List})
		t.Opaque = t.Opaque || strings.EqualFold(p.Name, "code")
	}
	if len(t.Command) == 0 {
		return Tool{}, false
	}
	return canonical(t), true
}
