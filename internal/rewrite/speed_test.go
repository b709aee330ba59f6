package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/wire"
)

// conversation is a request of about size bytes as agents send them: a history
// of calls and their results, and 25 tools of a few KB each after it. One of
// them offers a field that can't be granted when offer is set.
func conversation(size int, offer bool) []byte {
	var b strings.Builder
	var tools []string
	for i := range 25 {
		name, extra := fmt.Sprintf("tool_%d", i), ""
		if i == 3 && offer {
			name, extra = "Bash", `,"dangerouslyDisableSandbox":{"type":"boolean","description":"Run without the sandbox."}`
		}
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":%q,"input_schema":{"type":"object","properties":{"path":{"type":"string","description":"Where."}%s},"required":["path"],"additionalProperties":false}}`,
			name, strings.Repeat("Reads \"one\" file.\n- It returns lines, with their numbers.\n", 40), extra))
	}
	declared := strings.Join(tools, ",")
	b.WriteString(`{"model":"m","max_tokens":32000,"stream":true,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"go"}`)
	code := strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", name, err)\n\t}\n", 40)
	for i := 0; b.Len()+len(declared) < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"Next."},{"type":"tool_use","id":"toolu_%d","name":"tool_1","input":{"path":"/src/a%d.go"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%q}]}`, i, i, i, code)
	}
	b.WriteString(`],"tools":[` + declared + `]}`)
	return []byte(b.String())
}

// BenchmarkSecondRequest is a session's second request, whose tools are known:
// the whole way up (the index of the body, the tools found and compared, the
// history looked through, the splice) beside a plain copy, a look at each
// quote, an index and a splice by gjson, and decoding and encoding.
func BenchmarkSecondRequest(b *testing.B) {
	offers, plain := conversation(400_000, true), conversation(400_000, false)
	k := keys(b)
	ours := func(body []byte, k *envelope.Keyring) func(b *testing.B) {
		return func(b *testing.B) {
			n := NewNarrower(rules, Options{})
			buf := make([]byte, 0, len(body))
			var q *wire.Request
			step := func() {
				var err error
				if q, err = wire.Read(wire.Route{Dialect: wire.Messages}, body, q); err != nil {
					b.Fatal(err)
				}
				ApplyTo(buf[:0], q, body, n, k)
			}
			step()
			measure(b, body, step)
		}
	}
	b.Run("narrow", ours(offers, k))
	b.Run("nothing to narrow", ours(plain, k))
	b.Run("copy", func(b *testing.B) {
		buf := make([]byte, len(plain))
		measure(b, plain, func() { copy(buf, plain) })
	})
	b.Run("quotes", func(b *testing.B) {
		measure(b, plain, func() {
			for at := 0; ; at++ {
				i := bytes.IndexByte(plain[at:], '"')
				if i < 0 {
					break
				}
				at += i
			}
		})
	})
	b.Run("scan by hand and splice", func(b *testing.B) {
		buf := make([]byte, 0, len(offers))
		measure(b, offers, func() {
			start, end := byHand(offers, "tools")
			key := []byte(`,"dangerouslyDisableSandbox":`)
			i := bytes.Index(offers[start:end], key)
			if i < 0 {
				b.Fatal("no field")
			}
			i += start
			j := skipByHand(offers, i+len(key))
			buf = append(append(buf[:0], offers[:i]...), offers[j:]...)
		})
	})
	b.Run("gjson and splice", func(b *testing.B) {
		buf := make([]byte, 0, len(offers))
		measure(b, offers, func() {
			cut := gjson.Result{}
			gjson.GetBytes(offers, "tools").ForEach(func(_, tool gjson.Result) bool {
				if v := tool.Get("input_schema.properties.dangerouslyDisableSandbox"); v.Exists() {
					cut = v
				}
				return true
			})
			if cut.Index == 0 {
				b.Fatal("no field")
			}
			buf = append(append(buf[:0], offers[:cut.Index-len(`,"dangerouslyDisableSandbox":`)]...), offers[cut.Index+len(cut.Raw):]...)
		})
	})
	b.Run("decode and encode", func(b *testing.B) {
		measure(b, offers, func() {
			var v map[string]any
			if err := json.Unmarshal(offers, &v); err != nil {
				b.Fatal(err)
			}
			if _, err := json.Marshal(v); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func measure(b *testing.B, in []byte, f func()) {
	b.Helper()
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// byHand finds a top-level member without looking at what it skips: the least
// that finding the tools can cost.
func byHand(s []byte, key string) (start, end int) {
	for i := 1; i < len(s); {
		for s[i] == ',' || s[i] == ' ' {
			i++
		}
		shut := stringByHand(s, i)
		name := string(s[i+1 : shut-1])
		start = shut + 1
		end = skipByHand(s, start)
		if name == key {
			return start, end
		}
		i = end
	}
	return 0, 0
}

func stringByHand(s []byte, i int) int {
	for i++; ; {
		j := i + bytes.IndexByte(s[i:], '"')
		n := 0
		for s[j-1-n] == '\\' {
			n++
		}
		i = j + 1
		if n%2 == 0 {
			return i
		}
	}
}

func skipByHand(s []byte, i int) int {
	for depth := 0; ; {
		switch s[i] {
		case '"':
			i = stringByHand(s, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
}
