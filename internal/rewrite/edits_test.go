package rewrite

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// TestAnyEdits: whatever goes together, tools with and without cache markers
// beside each other, what chooses them, and texts that speak of them, is a
// deletion that leaves JSON, and leaves nothing to do a second time.
func TestAnyEdits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.SampledFrom(dialects).Draw(r, "dialect")
		marked := func(m []member) []member {
			if rapid.IntRange(0, 2).Draw(r, "marked") == 0 {
				m = append(m, member{"cache_control", []member{{"type", "ephemeral"}, {"ttl", odd(r)}}})
			}
			return m
		}
		names := rapid.SampledFrom([]string{"Read", "Bash", "request_permissions", "request_permissions", "\U0001F600"})
		named := func() []member {
			if name := names.Draw(r, "name"); d == wire.Chat {
				return []member{{"type", "function"}, {"function", []member{{"name", name}}}}
			} else {
				return []member{{"type", "function"}, {"name", name}}
			}
		}
		list := func() []any {
			tools := []any{}
			for range rapid.IntRange(0, 6).Draw(r, "tools") {
				tool := named()
				switch rapid.IntRange(0, 9).Draw(r, "odd tool") {
				case 0:
					tools = append(tools, odd(r))
					continue
				case 1:
					tool = nil
				case 2:
					tool = []member{{"type", "namespace"}, {"name", "n"}, {"tools", []any{named(), named(), odd(r)}}}
				}
				tools = append(tools, marked(tool))
			}
			return tools
		}
		said := func() any {
			const text = "Set `sandbox_permissions` to widen. Quote paths."
			if rapid.Bool().Draw(r, "a string") {
				return text
			}
			blocks := []any{}
			for range rapid.IntRange(0, 4).Draw(r, "blocks") {
				blocks = append(blocks, marked([]member{{"type", rapid.SampledFrom([]string{"text", "input_text", "image"}).Draw(r, "type")}, {"text", rapid.SampledFrom([]string{text, "", "x", "Set `sandbox_permissions` to widen."}).Draw(r, "text")}}))
			}
			return blocks
		}
		history, first := "messages", []member{{"role", "system"}, {"content", said()}}
		if d == wire.Responses {
			history = "input"
			if rapid.Bool().Draw(r, "additional tools") {
				first = []member{{"type", "additional_tools"}, {"tools", list()}}
			}
		}
		var choice any = named()
		switch rapid.IntRange(0, 3).Draw(r, "choice") {
		case 0:
			choice = "auto"
		case 1:
			choice = []member{{"type", "allowed_tools"}, {"tools", []any{named(), named(), named()}}}
		case 2:
			choice = []member{{"type", "allowed_tools"}, {"allowed_tools", []member{{"tools", []any{named(), odd(r), named()}}}}}
		}
		body := []byte(spell(r, []member{{"model", "m"}, {history, []any{first, []member{{"role", "developer"}, {"content", said()}}}}, {"system", said()}, {"instructions", said()}, {"tools", list()}, {"tool_choice", choice}}))
		n := NewNarrower(rules, Options{})
		res := apply(r, d, body, n, nil)
		if !json.Valid(res.Body) || !subsequence(res.Body, body) {
			r.Fatalf("no JSON, or not a deletion:\n%s\n%s", body, res.Body)
		}
		if again := apply(r, d, res.Body, n, nil); string(again.Body) != string(res.Body) {
			r.Fatalf("a second time changes it:\n%s\n%s\n%s", body, res.Body, again.Body)
		}
	})
}
