package schema_test

import (
	"fmt"

	"github.com/guardproxy/guardproxy/schema"
)

func ExampleNarrow() {
	tool := []byte(`{"name": "bash", "description": "Runs a command. Set ` + "`sandbox_permissions`" + ` to widen. The user is asked.",` +
		` "input_schema": {"type": "object", "properties": {"command": {"type": "string"}, "sandbox_permissions": {"type": "string"}}}}`)
	never := schema.Rules{Tools: map[string][]schema.Field{
		"bash": {{Name: "sandbox_permissions", Values: []string{"danger-full-access"}}},
	}}
	out, report := schema.Narrow(tool, never)
	fmt.Println(string(out))
	fmt.Println(report.Removed)
	fmt.Println(report.Prose)
	// Output:
	// {"name": "bash", "description": "Runs a command.", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
	// [/input_schema/properties/sandbox_permissions]
	// [Set `sandbox_permissions` to widen. The user is asked.]
}
