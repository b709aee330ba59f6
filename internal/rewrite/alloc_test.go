//go:build !race

package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// plain are requests as agents send them, of about 60 KB, in which nothing can
// be narrowed or restored.
func plain() map[wire.Dialect][]byte {
	const output = "\tif err != nil {\n\t\treturn err\n\t}\n"
	var chat, items, functions, flat strings.Builder
	for i := range 150 {
		long := strings.Repeat(output, 8)
		fmt.Fprintf(&chat, `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool_1","arguments":"{\"path\":\"a.go\"}"}}]},{"role":"tool","tool_call_id":"call_%d","content":%q}`, i, i, long)
		fmt.Fprintf(&items, `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Next."}]},{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"tool_1","arguments":"{\"path\":\"a.go\"}"},{"type":"function_call_output","call_id":"call_%d","output":%q}`, i, i, i, long)
	}
	for i := range 25 {
		f := fmt.Sprintf(`"name":"tool_%d","description":"Reads one file.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}`, i)
		fmt.Fprintf(&functions, `,{"type":"function","function":{%s}}`, f)
		fmt.Fprintf(&flat, `,{"type":"function",%s}`, f)
	}
	return map[wire.Dialect][]byte{
		wire.Messages:  conversation(60_000, false),
		wire.Chat:      []byte(`{"model":"m","messages":[{"role":"user","content":"go"}` + chat.String() + `],"tools":[` + functions.String()[1:] + `]}`),
		wire.Responses: []byte(`{"model":"m","input":[{"role":"user","content":"go"}` + items.String() + `],"tools":[` + flat.String()[1:] + `]}`),
	}
}

// A request whose tools are known and that has nothing to narrow and nothing to
// restore costs no memory.
func TestNothingToDoAllocatesNothing(t *testing.T) {
	for dialect, body := range plain() {
		t.Run(string(dialect), func(t *testing.T) {
			n, k := NewNarrower(rules, Options{}), keys(t)
			var q *wire.Request
			step := func() {
				var err error
				if q, err = wire.Read(wire.Route{Dialect: dialect}, body, q); err != nil {
					t.Fatal(err)
				}
				if res := Apply(q, body, n, k); &res.Body[0] != &body[0] || len(res.Tools) != 25 {
					t.Fatal("something was done")
				}
			}
			if got := testing.AllocsPerRun(20, step); got != 0 {
				t.Errorf("%v allocations", got)
			}
		})
	}
}
