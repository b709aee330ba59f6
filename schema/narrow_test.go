package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write what Narrow does now to testdata")

// rules are those of a session that can never escalate, for the tools of the
// golden files.
var rules = func() Rules {
	ladder := Field{Name: "sandbox_permissions", Values: []string{"workspace-write", "danger-full-access"}}
	why := Field{Name: "justification"}
	codex := []Field{
		{Name: "sandbox_permissions", Values: []string{"require_escalated", "with_additional_permissions"}},
		why, {Name: "prefix_rule"}, {Name: "additional_permissions"}, {Name: "with_escalated_permissions"},
	}
	return Rules{Tools: map[string][]Field{
		"bash": {ladder, why}, "write": {ladder, why}, "edit": {ladder, why},
		"exec_command": codex, "shell": codex,
		"Bash": {{Name: "dangerouslyDisableSandbox"}},
	}, Drop: []string{"request_permissions"}}
}()

// same reports whether a and b are one slice, not merely equal bytes.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// subsequence reports whether a can be had from b by deleting bytes.
func subsequence(a, b []byte) bool {
	for len(a) > 0 {
		i := bytes.IndexByte(b, a[0])
		if i < 0 {
			return false
		}
		a, b = a[1:], b[i+1:]
	}
	return true
}

func (r Report) write() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tool: %q\n", r.Tool)
	for _, part := range []struct {
		name  string
		lines []string
	}{{"removed", r.Removed}, {"prose", r.Prose}, {"suspicious", r.Suspicious}} {
		fmt.Fprintf(&b, "\n%s:\n", part.name)
		for _, l := range part.lines {
			fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(l, "\n", "\n  | "))
		}
	}
	return b.String()
}

func inputs(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.in.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no input in testdata: %v", err)
	}
	return files
}

// The whole output and report of each input, as a reader should see them. An
// input without an .out.json is one that comes back as the very same slice.
func TestGolden(t *testing.T) {
	for _, file := range inputs(t) {
		name := strings.TrimSuffix(file, ".in.json")
		t.Run(filepath.Base(name), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(in)
			out, rep := Narrow(in, rules)
			if !bytes.Equal(in, before) {
				t.Fatal("the input was written to")
			}
			if !json.Valid(out) || !subsequence(out, in) {
				t.Errorf("not valid JSON or not a subsequence: %s", out)
			}
			if *update {
				os.Remove(name + ".out.json")
				if !same(in, out) {
					if err := os.WriteFile(name+".out.json", out, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(name+".report.txt", []byte(rep.write()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name + ".out.json")
			switch {
			case os.IsNotExist(err):
				if !same(in, out) {
					t.Errorf("want the very same slice, got %s", out)
				}
			case err != nil:
				t.Fatal(err)
			default:
				if diff := cmp.Diff(string(want), string(out)); diff != "" {
					t.Errorf("output (-want +got)\n%s", diff)
				}
			}
			report, err := os.ReadFile(name + ".report.txt")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(report), rep.write()); diff != "" {
				t.Errorf("report (-want +got)\n%s", diff)
			}
			if again, rep := Narrow(out, rules); !same(out, again) || rep.Removed != nil || rep.Prose != nil {
				t.Errorf("narrowed again: %s", again)
			}
		})
	}
}

func TestSameSlice(t *testing.T) {
	tests := []struct {
		name, tool string
		suspicious bool
	}{
		{"empty", ``, true},
		{"not JSON", `{"name":"bash",}`, true},
		{"not an object", `["bash"]`, true},
		{"no rule", `{"name":"grep","input_schema":{"properties":{"justification":{}}}}`, false},
		{"another case", `{"name":"BASH","input_schema":{"properties":{"justification":{}}}}`, false},
		{"nothing to remove", `{"name":"bash","description":"Runs.","input_schema":{"properties":{"command":{}}}}`, false},
		{"no properties", `{"name":"bash","input_schema":{"type":"object"}}`, false},
		{"a schema of null", `{"type":"function","name":"bash","parameters":null}`, false},
		{"a function without parameters", `{"type":"function","function":{"name":"bash"}}`, false},
		{"a schema that is a list", `{"name":"bash","input_schema":[{"properties":{"justification":{}}}]}`, true},
		{"a name that is a number", `{"name":1,"input_schema":{"properties":{"sandbox_permissions":{}}}}`, true},
		{"a type that is a number", `{"type":1,"name":"bash","input_schema":{"properties":{"sandbox_permissions":{}}}}`, true},
		{"two shapes that hold nothing", `{"type":"function","name":"bash","function":{"name":"bash","parameters":{}}}`, false},
		{"neither type nor schema", `{"name":"bash"}`, false},
		{"run by the provider", `{"type":"web_search_20250305","name":"bash"}`, false},
		{"not UTF-8", "{\"name\":\"bash\",\"x\":\"\xff\",\"input_schema\":{\"properties\":{\"justification\":{}}}}", true},
		{"a keyword that nobody knows", `{"name":"bash","input_schema":{"properties":{},"x-order":["justification"]}}`, true},
		{"properties inside an example", `{"name":"bash","input_schema":{"default":{"properties":{"justification":1}},"properties":{}}}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.tool)
			out, rep := Narrow(in, rules)
			if !same(in, out) {
				t.Errorf("got %s", out)
			}
			if len(rep.Removed)+len(rep.Prose) > 0 {
				t.Errorf("reported as removed: %q %q", rep.Removed, rep.Prose)
			}
			if got := len(rep.Suspicious) > 0; got != tt.suspicious {
				t.Errorf("suspicious: %q", rep.Suspicious)
			}
		})
	}
}

func TestNested(t *testing.T) {
	const tool = `{"name":"t","input_schema":{"properties":{"a":{"properties":{"x":{},"y":{}}},"l":{"items":{"properties":{"x":{}},"required":["x","y"]}},"x":{}}}}`
	tests := []struct {
		name, want string
		nested     bool
	}{
		{"only the tool's own", `{"name":"t","input_schema":{"properties":{"a":{"properties":{"x":{},"y":{}}},"l":{"items":{"properties":{"x":{}},"required":["x","y"]}}}}}`, false},
		{"everywhere below", `{"name":"t","input_schema":{"properties":{"a":{"properties":{"y":{}}},"l":{"items":{"properties":{},"required":["y"]}}}}}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := Narrow([]byte(tool), Rules{Tools: map[string][]Field{"t": {{Name: "x", Nested: tt.nested}}}})
			if diff := cmp.Diff(tt.want, string(out)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Each row is the inside of a list of required names, laid out in its own way.
func TestCommaAndWhiteSpace(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"the only one", `["x"]`, `[]`},
		{"the only one, spread out", "[\n  \"x\"\n]", `[]`},
		{"first", `["x", "a"]`, `["a"]`},
		{"last", `["a", "x"]`, `["a"]`},
		{"between", `["a", "x", "b"]`, `["a", "b"]`},
		{"first, line by line", "[\n  \"x\",\n  \"a\"\n]", "[\n  \"a\"\n]"},
		{"last, line by line", "[\n  \"a\",\n  \"x\"\n]", "[\n  \"a\"\n]"},
		{"comma first", "[ \"a\"\n, \"x\"\n, \"b\"\n]", "[ \"a\"\n, \"b\"\n]"},
		{"two together", `["a","x","y","b"]`, `["a","b"]`},
		{"two apart", `["x","a","y"]`, `["a"]`},
		{"the same twice", `["x","a","x"]`, `["a"]`},
		{"all of them", `[ "x" , "y" ]`, `[]`},
		{"not a name", `[1,"a"]`, `[1,"a"]`},
	}
	r := Rules{Tools: map[string][]Field{"t": {{Name: "x"}, {Name: "y"}}}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const head, tail = `{"name":"t","input_schema":{"required":`, `}}`
			out, _ := Narrow([]byte(head+tt.in+tail), r)
			if diff := cmp.Diff(head+tt.want+tail, string(out)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// writer draws JSON texts of one value: white space and the spelling of
// strings vary, the value does not.
type writer struct{ t *rapid.T }

func (w writer) space() string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", " \r\n "}).Draw(w.t, "space")
}

func (w writer) string(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	escaped := rapid.Bool().Draw(w.t, "escaped")
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(rapid.SampledFrom([]string{`\n`, `\u000a`, `\u000A`}).Draw(w.t, "line"))
		case r < ' ' || r < 0x10000 && escaped && rapid.Bool().Draw(w.t, "this one"):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

type member struct {
	key   string
	value any
}

func (w writer) value(v any) string {
	var parts []string
	open, end := "{", "}"
	switch v := v.(type) {
	case string:
		return w.string(v)
	case []member:
		for _, m := range v {
			parts = append(parts, w.space()+w.string(m.key)+w.space()+":"+w.space()+w.value(m.value)+w.space())
		}
	case []string:
		open, end = "[", "]"
		for _, s := range v {
			parts = append(parts, w.space()+w.string(s)+w.space())
		}
	default:
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	if len(parts) == 0 {
		return open + w.space() + end
	}
	return open + strings.Join(parts, ",") + end
}

// drawn is a tool and what it should become.
type drawn struct {
	in         []byte
	want       any // as encoding/json decodes it
	sameWanted bool
}

// tool draws a tool of any shape, with or without the fields of its rule, in
// any order, layout and spelling; its prose says nothing about them.
func tool(t *rapid.T) drawn {
	w := writer{t}
	gone := []string{"sandbox_permissions", "justification"}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"command", "properties", "required", "description", "enum", "a b", "ключ", "x\"y", "sandbox_permissions", "justification",
	}), 0, 6, rapid.ID[string]).Draw(t, "properties")
	required := rapid.SliceOfN(rapid.SampledFrom([]string{"command", "justification", "sandbox_permissions", "enum"}), 0, 4).Draw(t, "required")
	kind := rapid.SampledFrom([]string{"string", "boolean"})

	build := func(names, required []string, kinds map[string]string) []member {
		var props []member
		for _, n := range names {
			props = append(props, member{n, []member{{"type", kinds[n]}, {"description", "What it is: {\"a\": [1, 2]}."}}})
		}
		return []member{{"type", "object"}, {"properties", props}, {"additionalProperties", false}, {"required", required}}
	}
	kinds := map[string]string{}
	for _, n := range names {
		kinds[n] = kind.Draw(t, "type")
	}
	keep := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(gone, s) })
	}
	text := rapid.SampledFrom([]string{"", "Runs a command.", "Läuft. 😀 \"Quoted\"\n- item\n"}).Draw(t, "description")
	shape := rapid.IntRange(0, 2).Draw(t, "shape")
	whole := func(schema []member) []member {
		switch shape {
		case 0:
			return []member{{"name", "bash"}, {"description", text}, {"input_schema", schema}, {"cache_control", []member{{"type", "ephemeral"}}}}
		case 1:
			return []member{{"type", "function"}, {"function", []member{{"parameters", schema}, {"name", "bash"}, {"description", text}}}}
		default:
			return []member{{"type", "function"}, {"strict", true}, {"parameters", schema}, {"description", text}, {"name", "bash"}}
		}
	}
	in := w.space() + w.value(whole(build(names, required, kinds))) + w.space()
	var want any
	if err := json.Unmarshal([]byte(writer{t}.value(whole(build(keep(names), keep(required), kinds)))), &want); err != nil {
		t.Fatal(err)
	}
	return drawn{[]byte(in), want, len(keep(names)) == len(names) && len(keep(required)) == len(required)}
}

func TestNarrowRemovesTheFieldsAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := tool(t)
		out, rep := Narrow(d.in, rules)
		if !subsequence(out, d.in) {
			t.Fatalf("%s\nis no subsequence of\n%s", out, d.in)
		}
		var got any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s\nbecame\n%s\n%v", d.in, out, err)
		}
		if diff := cmp.Diff(d.want, got); diff != "" {
			t.Fatalf("%s\nbecame\n%s\n(-want +got)\n%s", d.in, out, diff)
		}
		if same(out, d.in) != d.sameWanted || d.sameWanted != (len(rep.Removed) == 0) {
			t.Fatalf("same slice: %v, reported %q, for %s", same(out, d.in), rep.Removed, d.in)
		}
		if again, _ := Narrow(out, rules); !same(out, again) {
			t.Fatalf("%s\nnarrowed again:\n%s", out, again)
		}
		if twice, rep2 := Narrow(bytes.Clone(d.in), rules); !bytes.Equal(out, twice) || !cmp.Equal(rep, rep2) {
			t.Fatalf("two results for %s", d.in)
		}
	})
}

// How a description is escaped decides nothing.
func TestNarrowReadsDecodedText(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"Runs a command. ", "Set `sandbox_permissions` to widen. ", "It may be refused. ", "😀 Grüße. ", "\n- ", "\n\n", "Give a justification. ",
		"Use `command` as is, with sandbox_permissions. ", "\"Quoted. Text\" (and. More). ", "When denied:", "\n# Rights\n", "\t", "\\", "```\n",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "")
		build := func(s string) []byte {
			return []byte(`{"name":"bash","description":` + s + `,"input_schema":{"properties":{"command":{},"justification":{}}}}`)
		}
		plain, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		other := build(writer{t}.string(text))
		a, repA := Narrow(build(string(plain)), rules)
		b, repB := Narrow(other, rules)
		var va, vb any
		if err := json.Unmarshal(a, &va); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		if err := json.Unmarshal(b, &vb); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if diff := cmp.Diff(va, vb); diff != "" {
			t.Fatalf("%s\n%s\n%s", a, b, diff)
		}
		if diff := cmp.Diff(repA, repB, cmpopts.IgnoreFields(Cut{}, "Bytes")); diff != "" {
			t.Fatalf("reports of %s: %s", other, diff)
		}
		if !subsequence(b, other) {
			t.Fatalf("%s is no subsequence of %s", b, other)
		}
		if again, rep := Narrow(b, rules); !same(b, again) || len(rep.Prose) > 0 {
			t.Fatalf("%s narrowed again: %s", b, again)
		}
	})
}

func FuzzNarrow(f *testing.F) {
	for _, file := range inputs(f) {
		in, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(in)
	}
	f.Add([]byte(`{"name":"bash","description":"\ud83d\u0020 \\u sandbox_permissions","input_schema":{}}`))
	f.Add([]byte(`[[[[`))
	f.Add([]byte("{\"name\":\"bash\",\"description\":\"a\xff sandbox_permissions\",\"input_schema\":{}}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		out, rep := Narrow(in, rules)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was written to")
		}
		if !subsequence(out, in) {
			t.Fatalf("%q is no subsequence of %q", out, in)
		}
		if json.Valid(in) != json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		if bytes.Equal(out, in) != same(out, in) {
			t.Fatal("equal bytes in another slice")
		}
		if same(out, in) && len(rep.Removed)+len(rep.Prose) > 0 {
			t.Fatalf("%q: reported, not removed: %+v", in, rep)
		}
		if again, _ := Narrow(out, rules); !same(out, again) {
			t.Fatalf("%q became %q, then %q", in, out, again)
		}
	})
}
