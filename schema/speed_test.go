package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// holds narrows and checks what must always hold. What it costs is
// BenchmarkLongText's to say.
func holds(t *testing.T, name string, in []byte, r Rules) {
	t.Helper()
	out, rep := Narrow(in, r)
	if !json.Valid(out) || !subsequence(out, in) || len(rep.Suspicious) > maxSuspicions {
		t.Errorf("%s: not valid JSON, not a subsequence, or an endless report", name)
	}
}

// pieces are what long texts are made of.
var pieces = []struct{ name, piece string }{
	{"sentences", "Set `sandbox_permissions` to widen. Prints. "},
	{"sentences that hang together", "If it is denied by the sandbox, retry. It asks for approval when this mode is refused. Set `sandbox_permissions`. This asks the user. "},
	{"one sentence", "sandbox_permissions and "},
	{"nothing of ours but once", "Prints. It may be long. "},
	{"items", "- Set `sandbox_permissions`.\n- Prints.\n"},
	{"nested items", "- When denied:\n  - Set `sandbox_permissions`.\n"},
	{"open brackets", "((((sandbox_permissions "},
	{"wide brackets", "（（sandbox_permissions）"},
	{"brackets in pairs", "(a (b. C) sandbox_permissions) "},
	{"backticks", "` `` ``` sandbox_permissions "},
	{"quotes", "\" \"a\" sandbox_permissions "},
	{"headings", "# sandbox_permissions\n## b\n"},
	{"headings about more rights", "# Escalation\na\n## Escalate\nb\n"},
	{"lines", "a\nsandbox_permissions "},
	{"blank lines", "\n \n"},
	{"short lines", "A\n"},
	{"tabs", "A.\tsandbox_permissions\n\t"},
	{"full stops", ".sandbox_permissions..."},
	{"one word", "sandbox_permissionssandbox_permissions"},
	{"hyphens", "a-sandbox_permissions---"},
	{"fences", "```\nsandbox_permissions\n"},
	{"colons", "a:\nsandbox_permissions:\n\n"},
	{"tables", "| sandbox_permissions | a |\n|---|---|\n"},
	{"tags", "<a>\nsandbox_permissions\n</a>\n"},
	{"open tags", "<a>\n<b>\nsandbox_permissions\n"},
	{"zh", "如果命令被沙箱拒绝，设置 sandbox_permissions 以提升权限。此时会询问用户；输出会被截断。"},
	{"zh, one sentence", "如果被拒绝，提升 sandbox_permissions 权限，"},
	{"a word of the language", "justification "},
	{"code and a word of the language", "`a` justification "},
	{"code and properties", "`sandbox_permissions` command "},
	{"declarations", "```ts\ntype exec_command = (_: { sandbox_permissions?: \"a\" | \"b\"; a: string }) => any;\n```\n"},
	{"declarations without a fence", "type exec_command = (_: { sandbox_permissions?: \"a\" | \"b\"; a: string }) => any;\n"},
	{"declarations that do not end", "type exec_command = (_: {\nsandbox_permissions: Array<{\n"},
	{"types in types", "declare const exec_command: (a: { sandbox_permissions: {"},
	{"bars", "type a = {\n|\n\n\n|\n\n"},
	{"comments", "declare const exec_command: {\n// sandbox_permissions\n// a\n\n"},
	{"open comments", "type a = { /* sandbox_permissions\n"},
	{"open strings", "type a = { b: ` sandbox_permissions\n"},
}

func long(piece string, size int) string {
	return "Set sandbox_permissions. " + strings.Repeat(piece, size/len(piece))
}

// A long description must not take more than its share of time, whatever it is
// made of.
func TestLongTexts(t *testing.T) {
	for _, tt := range pieces {
		t.Run(tt.name, func(t *testing.T) {
			long := long(tt.piece, 1<<15)
			holds(t, "tool", fmt.Appendf(nil, `{"name":"bash","description":%s,"input_schema":{"properties":{"command":{}}}}`, token(long)), rules)
			holds(t, "freeform tool", fmt.Appendf(nil, `{"type":"custom","name":"exec","description":%s}`, token(long)), rules)
			if out, _ := NarrowText(token(long), rules); !json.Valid(out) {
				t.Error("a text is no JSON any more")
			}
		})
	}
}

// Nor may a schema.
func TestLargeSchemas(t *testing.T) {
	many := func(n int, open, each, shut string) string {
		var b strings.Builder
		b.WriteString(open)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, each, i, i)
		}
		return b.String() + shut
	}
	deep := func(n int, open, inner, shut string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	nested := Rules{Tools: map[string][]Field{"bash": {{Name: "x", Nested: true}, {Name: "sandbox_permissions"}}}}
	for _, tt := range []struct{ name, schema string }{
		{"properties", many(2000, `{"properties":{`, `"p_%d":{"description":"Like p_%d, set sandbox_permissions."}`, `}}`)},
		{"properties that lose one", many(2000, `{"properties":{`, `"p_%d":{"properties":{"x":{"enum":["v_%d"]}}}`, `}}`)},
		{"required", many(5000, `{"required":[`, `"x","r_%d_%d"`, `]}`)},
		{"the same key", many(5000, `{"properties":{`, `"x":{"title":"%d %d"}`, `}}`)},
		{"definitions in a chain", many(2000, `{"properties":{"x":{"$ref":"#/$defs/d_0"}},"$defs":{`, `"d_%d":{"$ref":"#/$defs/d_1%d"}`, `}}`)},
		{"alternatives", many(2000, `{"oneOf":[`, `{"properties":{"x":{},"a":{"const":%d}},"title":"%d"}`, `]}`)},
		{"conditions in each other", deep(400, `{"if":{"required":["a"]},"then":`, `{"required":["x"]}`, `}`)},
		{"conditions of conditions", deep(400, `{"if":`, `{"required":["x"]}`, `,"then":{}}`)},
		{"alternatives in each other", deep(400, `{"oneOf":[{"properties":{"x":{}}},`, `{"required":["x"]}`, `]}`)},
		{"examples", many(2000, `{"examples":[`, `{"x":%d,"a":{"x":%d}}`, `]}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			holds(t, "tool", []byte(`{"name":"bash","description":"Set sandbox_permissions. `+strings.Repeat("See p_17 and sandbox_permissions. ", 500)+`","input_schema":`+tt.schema+`}`), nested)
		})
	}
}

// Nesting beyond what the index reads is passed on, at once.
func TestDeepNesting(t *testing.T) {
	for _, depth := range []int{900, 20_000, 1_000_000} {
		for _, brackets := range []string{"[]", "{}"} {
			open, shut := brackets[:1], brackets[1:]
			if open == "{" {
				open = `{"properties":`
			}
			in := []byte(`{"name":"bash","input_schema":{"properties":{"sandbox_permissions":` + strings.Repeat(open, depth) + `{}` + strings.Repeat(shut, depth) + `}}}`)
			out, rep := Narrow(in, rules)
			if deep := depth > 1000; deep != same(in, out) || deep != (len(rep.Suspicious) == 1) {
				t.Errorf("%d × %s: same slice %v, %q", depth, brackets, same(in, out), rep.Suspicious)
			}
		}
	}
}

// A request of ten megabytes with twenty thousand tools.
func TestManyTools(t *testing.T) {
	in := tenKB(t)
	in = in[:len(in):len(in)]
	plain := []byte(`{"name":"tool_%d","description":"` + strings.Repeat("Prints a line. ", 25) + `","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}`)
	for i := range 20_000 {
		tool := fmt.Appendf(nil, string(plain), i)
		if i%1000 == 0 {
			tool = in
		}
		out, _ := Narrow(tool, rules)
		if (i%1000 == 0) == same(out, tool) {
			t.Fatalf("tool %d: same slice %v", i, same(out, tool))
		}
	}
}

// tenKB is a tool of about 10 KB with its two fields and its run of prose.
func tenKB(t testing.TB) []byte {
	t.Helper()
	in, err := os.ReadFile("testdata/dsh-bash-chat.in.json")
	if err != nil {
		t.Fatal(err)
	}
	const mark = `"description":"`
	filler := strings.Repeat("Prefer absolute paths, and quote those with spaces. ", (10<<10-len(in))/52)
	return bytes.Replace(in, []byte(mark), []byte(mark+filler), 1)
}

// plainTool is a tool of the same size that no rule names and that says nothing
// about any of their fields.
func plainTool(t testing.TB) []byte {
	out, _ := Narrow(tenKB(t), rules)
	return bytes.Replace(slices.Clone(out), []byte(`"name":"bash"`), []byte(`"name":"grep"`), 1)
}

func benchmark(b *testing.B, in []byte, f func()) {
	b.Helper()
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// BenchmarkTool compares what one tool of 10 KB costs with the least that any
// other way would: a copy, a look at each quote, an index and a splice, and
// decoding and encoding.
func BenchmarkTool(b *testing.B) {
	ours, plain := tenKB(b), plainTool(b)
	stranger := bytes.Replace(slices.Clone(ours), []byte(`"name":"bash"`), []byte(`"name":"grep"`), 1)
	b.Run("narrow", func(b *testing.B) { benchmark(b, ours, func() { Narrow(ours, rules) }) })
	b.Run("narrow/no rule", func(b *testing.B) { benchmark(b, plain, func() { Narrow(plain, rules) }) })
	b.Run("narrow/no rule, suspicious", func(b *testing.B) { benchmark(b, stranger, func() { Narrow(stranger, rules) }) })
	b.Run("copy", func(b *testing.B) {
		buf := make([]byte, len(plain))
		benchmark(b, plain, func() { copy(buf, plain) })
	})
	b.Run("quotes", func(b *testing.B) {
		benchmark(b, plain, func() {
			for at := 0; ; at++ {
				i := bytes.IndexByte(plain[at:], '"')
				if i < 0 {
					break
				}
				at += i
			}
		})
	})
	b.Run("gjson and splice", func(b *testing.B) {
		benchmark(b, ours, func() {
			if gjson.GetBytes(ours, "function.name").Str != "bash" {
				b.Fatal("no name")
			}
			out := ours
			for _, key := range []string{"justification", "sandbox_permissions"} {
				v := gjson.GetBytes(out, "function.parameters.properties."+key)
				out = slices.Concat(out[:v.Index-len(key)-4], out[v.Index+len(v.Raw):])
			}
		})
	})
	b.Run("decode and encode", func(b *testing.B) {
		benchmark(b, ours, func() {
			var v map[string]any
			if err := json.Unmarshal(ours, &v); err != nil {
				b.Fatal(err)
			}
			props := v["function"].(map[string]any)["parameters"].(map[string]any)["properties"].(map[string]any)
			delete(props, "sandbox_permissions")
			delete(props, "justification")
			if _, err := json.Marshal(v); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// BenchmarkText is a system message of 32 KB that says nothing of the fields.
func BenchmarkText(b *testing.B) {
	in := token(strings.Repeat("The user works here, in some_directory, and it is late. ", 580))
	benchmark(b, in, func() { NarrowText(in, rules) })
}

// BenchmarkLongText is a description at two sizes: eight times the text should
// cost about eight times as much.
func BenchmarkLongText(b *testing.B) {
	for _, p := range pieces {
		for _, size := range []int{1 << 17, 1 << 20} {
			in := fmt.Appendf(nil, `{"name":"bash","description":%s,"input_schema":{"properties":{"command":{}}}}`, token(long(p.piece, size)))
			b.Run(fmt.Sprintf("%s/%d", p.name, size), func(b *testing.B) { benchmark(b, in, func() { Narrow(in, rules) }) })
		}
	}
}
