package codemode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/machine"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// shown is a program's calls in a short form.
func shown(p Program) string {
	var b strings.Builder
	for i, c := range p.Calls {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s(%s)", c.Tool, c.Args)
	}
	return b.String()
}

func TestWholePrograms(t *testing.T) {
	for _, c := range []struct{ name, src, calls string }{
		{"nothing", "", ""},
		{"a comment", "// nothing to do\n/* here */", ""},
		{"text", `text("done")`, ""},
		{"a command and its output", "const r = await tools.exec_command({\"cmd\":\"echo hi\"});\ntext(r.output ?? JSON.stringify(r));\n", `exec_command({"cmd":"echo hi"})`},
		{"names for keys", "const r = await tools.exec_command({cmd: 'ls', workdir: \"/x\", yield_time_ms: 10_000, tty: false,});\ntext(r.output)", `exec_command({"cmd":"ls","workdir":"/x","yield_time_ms":10000,"tty":false})`},
		{"inside of text", `text((await tools.exec_command({cmd: "ls"})).output)`, `exec_command({"cmd":"ls"})`},
		{"without a name", `await tools.exec_command({cmd: "ls"})`, `exec_command({"cmd":"ls"})`},
		{"not awaited", `tools.exec_command({cmd: "ls"});`, `exec_command({"cmd":"ls"})`},
		{"awaited later", "const p = tools.exec_command({cmd: 'a'});\nconst r = await p;\ntext(r.output)", `exec_command({"cmd":"a"})`},
		{"several at a time", "const [a, b] = await Promise.all([\n  tools.exec_command({cmd: 'a'}),\n  tools.exec_command({cmd: 'b'}),\n]);\ntext(a.output); text(b['output'])", `exec_command({"cmd":"a"}) exec_command({"cmd":"b"})`},
		{"taken apart", "const { output, exit_code: code } = await tools.exec_command({cmd: 'a'})\ntext(`${code}: ${output || \"nothing\"} of \\`it\\``)", `exec_command({"cmd":"a"})`},
		{"a pragma", "// @exec: {\"yield_time_ms\": 1000}\ntext(await tools.exec_command({cmd: `a\nb`}))", `exec_command({"cmd":"a\nb"})`},
		{"an optional member", "const r = await tools.exec_command({cmd: 'a'}); text(r?.output + '\\n' + r.exit_code)", `exec_command({"cmd":"a"})`},
		{"escapes", `tools.exec_command({cmd: "\x65\u0063\u{68}o \'\"\\ \t\u00e9 \ud83d\ude00\
 on"})`, `exec_command({"cmd":"echo '\"\\ \té 😀 on"})`},
		{"lists and objects", `tools.exec_command({cmd: "a", prefix_rule: ["b", 1.5, [], {}], x: {y: null, "z": true}})`, `exec_command({"cmd":"a","prefix_rule":["b",1.5,[],{}],"x":{"y":null,"z":true}})`},
		{"a text argument", "text(JSON.stringify(await tools.apply_patch(\"*** Begin Patch\\n\"), null, 2))", `apply_patch("*** Begin Patch\n")`},
		{"line separators end a comment", "// x\u2028text('a')", ""},
	} {
		p := Read(c.src)
		if !p.Whole || shown(p) != c.calls {
			t.Errorf("%s: whole %v, %s; want %s", c.name, p.Whole, shown(p), c.calls)
		}
	}
}

func TestOtherPrograms(t *testing.T) {
	for _, c := range []struct{ name, src, calls string }{
		{"no program", "rm -rf /", ""},
		{"a loop", "for (const f of ['a']) await tools.exec_command({cmd: 'rm x'})", `exec_command({"cmd":"rm x"})`},
		{"a computed command", "const c = 'ls'; await tools.exec_command({cmd: c})", ""},
		{"a joined command", `tools.exec_command({cmd: "a" + "b"})`, ""},
		{"a substitution", "const r = 'x'; tools.exec_command({cmd: `a ${r}`})", ""},
		{"a call in a substitution", "text(`${eval('x')}`)", ""},
		{"another spelling of a member", `await tools["exec_command"]({cmd: "ls"})`, ""},
		{"an escaped name", `tools.exec\u005fcommand({cmd: "ls"})`, ""},
		{"an alias", "const t = tools; t.exec_command({cmd: 'ls'})", ""},
		{"a taken member", "const { exec_command } = tools", ""},
		{"a function of tools", "const f = tools.exec_command; f({cmd: 'ls'})", ""},
		{"tools bound again", "const tools = {exec_command: 1}; text('x')", ""},
		{"text bound again", "const text = eval; text('x')", ""},
		{"text bound by a pattern", "const {a: text} = await tools.exec_command({cmd: 'ls'}); text('x')", `exec_command({"cmd":"ls"})`},
		{"a name bound twice", "const a = 'x'; const a = 'y'", ""},
		{"an unknown name", "text(secret)", ""},
		{"a name before it is bound", "text(a); const a = 'x'", ""},
		{"a name in its own binding", "const a = a", ""},
		{"an assignment", "let a = 'x'; a = 'y'", ""},
		{"a method", "const r = await tools.exec_command({cmd: 'ls'}); text(r.output.trim())", `exec_command({"cmd":"ls"})`},
		{"a constructor", "const r = await tools.exec_command({cmd: 'ls'}); r.constructor.constructor('x')()", `exec_command({"cmd":"ls"})`},
		{"a tagged template", "const r = await tools.exec_command({cmd: 'ls'}); text(r.output`x`)", `exec_command({"cmd":"ls"})`},
		{"a tag with a substitution", "const r = 'x'; text(r`${r}`)", ""},
		{"a then", "tools.exec_command({cmd: 'ls'}).then(eval)", `exec_command({"cmd":"ls"})`},
		{"a getter", "tools.exec_command({get cmd() { return 'ls' }})", ""},
		{"a method in the argument", "tools.exec_command({cmd() {}})", ""},
		{"a shorthand", "const cmd = 'ls'; tools.exec_command({cmd})", ""},
		{"a spread", "tools.exec_command({...{cmd: 'ls'}})", ""},
		{"a computed key", "tools.exec_command({['cmd']: 'ls'})", ""},
		{"a template as a key", "tools.exec_command({`cmd`: 'ls'})", ""},
		{"a prototype", "tools.exec_command({cmd: 'ls', __proto__: {workdir: '/'}})", ""},
		{"a quoted prototype", "tools.exec_command({cmd: 'ls', '__proto__': {workdir: '/'}})", ""},
		{"a key twice", "tools.exec_command({cmd: 'ls', \"cmd\": 'rm'})", ""},
		{"two arguments", "tools.exec_command({cmd: 'ls'}, 1)", ""},
		{"no argument", "tools.exec_command()", ""},
		{"a hole in a list", "tools.exec_command({cmd: 'ls', prefix_rule: [,]})", ""},
		{"an octal number", "tools.exec_command({cmd: 'ls', n: 010})", ""},
		{"a number in hex", "tools.exec_command({cmd: 'ls', n: 0x10})", ""},
		{"an octal escape", `tools.exec_command({cmd: "\162m"})`, ""},
		{"a NUL", `tools.exec_command({cmd: "a\0"})`, ""},
		{"half a pair", `tools.exec_command({cmd: "\ud83d"})`, ""},
		{"a carriage return in a template", "tools.exec_command({cmd: `a\r\nb`})", ""},
		{"a string over two lines", "tools.exec_command({cmd: 'a\nb'})", ""},
		{"code behind a line separator", "// x\u2028eval('x')", ""},
		{"code behind a paragraph separator", "// x\u2029eval('x')", ""},
		{"code behind a carriage return", "// x\reval('x')", ""},
		{"an HTML-like comment", "<!-- x\ntext('a')", ""},
		{"its end", "text('a')\n--> text('b')", ""},
		{"a regular expression with a quote", "text('a'.replace(/\"/, '')); tools.exec_command({cmd: 'ls'}); text(\"x\")", ``},
		{"two statements in a line", "text('a') text('b')", ""},
		{"a statement that goes on", "text('a')\n(eval)('x')", ""},
		{"a list that goes on", "const a = 'x'\n[eval('y')]", ""},
		{"an open comment", "text('a') /* ", ""},
		{"an open string", "text('a", ""},
		{"an open template", "text(`a", ""},
		{"an open brace", "tools.exec_command({cmd: 'ls'", ""},
		{"a closing brace too many", "text('a') }", ""},
		{"a name outside of ASCII", "const é = 'a'", ""},
		{"no UTF-8", "text('\xff')", ""},
		{"an import", "import x from 'y'; text('a')", ""},
		{"an import call", "await import('y')", ""},
		{"an exit", "exit()", ""},
		{"a private name", "#x", ""},
		{"deep", strings.Repeat("(", 200) + "'a'" + strings.Repeat(")", 200), ""},
		{"deep in text", "text(" + strings.Repeat("(", 200) + "'a'" + strings.Repeat(")", 200) + ")", ""},
		{"deep in an argument", "tools.x({a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "})", ""},
		{"the tools of something else", "x.tools.exec_command({cmd: 'ls'})", ""},
	} {
		p := Read(c.src)
		if p.Whole || shown(p) != c.calls {
			t.Errorf("%s: whole %v, %s; want %s", c.name, p.Whole, shown(p), c.calls)
		}
	}
}

func TestMentions(t *testing.T) {
	for _, c := range []struct {
		src  string
		want bool
	}{
		{`tools.exec_command({sandbox_permissions: "x"})`, true},
		{`tools.exec_command({"sandbox_permission\u0073": "x"})`, true},
		{"const o = {}; o['sandbox_permissions'] = 1", true},
		{`tools.exec_command({cmd: "rg sandbox_permissions"})`, false},
		{"// sandbox_permissions\ntext('a')", false},
		{"/x/.test(y); o.sandbox_permissions = 1", true},
		{"/x/.test(y); o.my_sandbox_permissions = 1", false},
		{"text('\nsandbox_permissions", true},
		{"", false},
	} {
		p := Read(c.src)
		if got := p.Mentions("sandbox_permissions"); got != c.want {
			t.Errorf("%q: %v", c.src, got)
		}
	}
}

func TestWithout(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"last", `tools.x({cmd: "a", p: "b", j: 'c'})`, `tools.x({cmd: "a"})`},
		{"first", `tools.x({p: "b", cmd: "a"})`, `tools.x({cmd: "a"})`},
		{"around", `tools.x({ p: "b", cmd: "a", j: 1 });`, `tools.x({ cmd: "a" });`},
		{"in between", `tools.x({cmd: "a", p: "b", n: 1})`, `tools.x({cmd: "a", n: 1})`},
		{"a comma at the end", "tools.x({\n  cmd: 'a',\n  p: 'b',\n})", "tools.x({\n  cmd: 'a',\n})"},
		{"with comments", "tools.x({cmd: 'a', // what\n p: 'b' /* why */})", "tools.x({cmd: 'a' /* why */})"},
		{"in two calls", "tools.x({cmd: 'a', p: 'b'})\ntools.x({j: 'c', cmd: 'd'})", "tools.x({cmd: 'a'})\ntools.x({cmd: 'd'})"},
		{"alone", "tools.x({p: 'b'})", "tools.x({})"},
		{"an escaped key", `tools.x({cmd: "a", "\x70": "b"})`, `tools.x({cmd: "a"})`},
		{"nothing", "tools.x({cmd: 'p'})", "tools.x({cmd: 'p'})"},
		{"deeper ones stay", "tools.x({cmd: 'a', o: {p: 1}, p: 2})", "tools.x({cmd: 'a', o: {p: 1}})"},
	} {
		p := Read(c.src)
		gone := make([][]string, len(p.Calls))
		for i := range gone {
			gone[i] = []string{"p", "j"}
		}
		got, ok := p.Without(gone)
		if !ok || got != c.want {
			t.Errorf("%s: %q %v", c.name, got, ok)
		}
	}
	for name, src := range map[string]string{
		"not whole":                "for (;;) tools.x({cmd: 'a', p: 'b'})",
		"a comma would be doubled": "tools.x({p: 'b', })",
	} {
		p := Read(src)
		if got, ok := p.Without([][]string{{"p"}}); ok || got != src {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// drawn is a program of the small form, and what it calls.
type drawn struct {
	src   string
	calls []string // NAME JSON
}

// program draws a program in one of the many spellings of its tokens.
func program() *rapid.Generator[drawn] {
	return rapid.Custom(func(t *rapid.T) drawn {
		var d drawn
		pick := func(s ...string) string { return rapid.SampledFrom(s).Draw(t, "pick") }
		space := func() string {
			return pick("", "", " ", "\n", "\t", "/* a */", " // tools.x({})\n", "\r\n", "\u2028")
		}
		// Where a line end would mean something.
		gap := func() string { return pick("", " ", "/* ' */") }
		quoted := func(s string) string {
			q := pick(`"`, `'`, "`")
			var b strings.Builder
			for _, r := range s {
				switch {
				case r == '\r' || r == 0:
					fmt.Fprintf(&b, `\u{%x}`, r+1) // not in a template, and a NUL nowhere
				case r == '\\' || string(r) == q || r == '$' && q == "`":
					b.WriteString(`\` + string(r))
				case r == '\n' && q != "`":
					b.WriteString(pick(`\n`, `\x0a`, `\u000a`, `\u{a}`))
				case r < 0x80 && r > ' ' && rapid.IntRange(0, 9).Draw(t, "escape") == 0:
					fmt.Fprintf(&b, pick(`\x%02x`, `\u%04X`, `\u{%x}`, `\u{0%X}`), r)
				default:
					b.WriteRune(r)
				}
			}
			return q + b.String() + q
		}
		norm := func(s string) string {
			return strings.Map(func(r rune) rune {
				if r == '\r' || r == 0 {
					return r + 1
				}
				return r
			}, s)
		}
		text := rapid.OneOf(rapid.SampledFrom([]string{"ls -la", "rm -rf '/x y'", "a\nb", `"q" \ $HOME ${x}`, "`id`", "日本 🎉", "", "// no", "</script>"}), rapid.StringOfN(rapid.RuneFrom([]rune("ab '\"`$\\{}\n\t/*é🎉")), 0, 12, -1))
		var value func(depth int) (js string, v any)
		value = func(depth int) (string, any) {
			k := rapid.IntRange(0, 6).Draw(t, "kind")
			if depth > 2 && k > 4 {
				k = 0
			}
			switch k {
			case 0, 1:
				s := text.Draw(t, "text")
				return quoted(s), norm(s)
			case 2:
				n := rapid.IntRange(0, 99999).Draw(t, "n")
				return fmt.Sprint(n), float64(n)
			case 3:
				return "true", true
			case 4:
				return "null", nil
			case 5:
				var parts []string
				list := []any{}
				for range rapid.IntRange(0, 3).Draw(t, "length") {
					js, v := value(depth + 1)
					parts, list = append(parts, space()+js+space()), append(list, v)
				}
				tail := ""
				if len(parts) > 0 {
					tail = pick("", ",")
				}
				return "[" + strings.Join(parts, ",") + tail + "]", list
			}
			var parts []string
			m := map[string]any{}
			for _, key := range []string{"a", "b c", "if"}[:rapid.IntRange(0, 3).Draw(t, "members")] {
				js, v := value(depth + 1)
				k := key
				if key == "b c" || rapid.Bool().Draw(t, "quoted key") {
					k = strings.ReplaceAll(string(tape.Quote(nil, key)), "a", pick("a", `\u0061`))
				}
				parts, m[key] = append(parts, space()+k+space()+":"+space()+js), v
			}
			return "{" + strings.Join(parts, ",") + space() + "}", m
		}
		n := 0
		call := func() string {
			tool := pick("exec_command", "view_image", "mcp__x")
			m := map[string]any{}
			var parts []string
			for _, key := range []string{"cmd", "workdir", "sandbox_permissions", "justification"}[:rapid.IntRange(1, 4).Draw(t, "arguments")] {
				js, v := value(0)
				parts, m[key] = append(parts, space()+key+space()+":"+space()+js+space()), v
			}
			b, _ := json.Marshal(m)
			d.calls = append(d.calls, tool+" "+string(b))
			return "tools" + space() + "." + space() + tool + gap() + "(" + space() + "{" + strings.Join(parts, ",") + pick("", ",") + space() + "}" + pick("", ",") + space() + ")"
		}
		var bound []string
		var print func(depth int) string
		print = func(depth int) string {
			switch k := rapid.IntRange(0, 6).Draw(t, "print"); {
			case k == 0 && len(bound) > 0:
				return rapid.SampledFrom(bound).Draw(t, "name") + pick("", ".output", "?.output", "['output']", ".a.b", "[0]")
			case k == 1 && len(bound) > 0:
				return "JSON.stringify(" + rapid.SampledFrom(bound).Draw(t, "name") + pick(")", ", null, 2)", ",null,\"\\t\")")
			case k == 2 && depth < 2:
				return print(depth+1) + space() + pick("+", "??") + space() + print(depth+1)
			case k == 3 && depth < 2:
				return "(" + print(depth+1) + ")"
			case k == 4 && depth < 2:
				return "`a ${" + space() + print(depth+1) + space() + "} b ${" + print(depth+1) + "}`"
			case k == 5 && depth < 2:
				return "(await " + call() + ").output"
			}
			return quoted(text.Draw(t, "text"))
		}
		for range rapid.IntRange(0, 5).Draw(t, "statements") {
			switch rapid.IntRange(0, 4).Draw(t, "statement") {
			case 0:
				d.src += pick("", "await ") + call()
			case 1:
				n++
				name := fmt.Sprintf("r%d", n)
				d.src += pick("const ", "let ", "var ") + name + " = " + pick("", "await ") + call()
				bound = append(bound, name)
			case 2:
				n++
				a, b := fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)
				d.src += "const [" + a + ", " + b + pick("", ",") + "] = await Promise.all([" + call() + "," + space() + call() + pick("", ",") + "])"
				bound = append(bound, a, b)
			case 3:
				n++
				name := fmt.Sprintf("o%d", n)
				d.src += "const { output: " + name + " } = await " + call()
				bound = append(bound, name)
			case 4:
				d.src += "text(" + print(0) + ")"
			}
			d.src += pick(";", "\n", " ;\n", " // ;\n", "; ")
		}
		return d
	})
}

func sameCalls(t interface{ Fatalf(string, ...any) }, d drawn, p Program) {
	if len(p.Calls) != len(d.calls) {
		t.Fatalf("%d calls of %d in\n%s", len(p.Calls), len(d.calls), d.src)
	}
	for i, want := range d.calls {
		var a, b any
		tool, args, _ := strings.Cut(want, " ")
		if json.Unmarshal(p.Calls[i].Args, &a) != nil || json.Unmarshal([]byte(args), &b) != nil || p.Calls[i].Tool != tool || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("call %d is %s(%s), want %s\n%s", i, p.Calls[i].Tool, p.Calls[i].Args, want, d.src)
		}
	}
}

// Whatever the spelling, a program of the small form is whole, and its calls
// are those that were written.
func TestSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := program().Draw(t, "program")
		p := Read(d.src)
		if !p.Whole {
			t.Fatalf("not whole:\n%s", d.src)
		}
		sameCalls(t, d, p)
	})
}

// A program with members taken out is the same program with the same calls but
// for them, by deletion alone.
func TestWithoutOnlyDeletes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := program().Draw(t, "program")
		p := Read(d.src)
		gone := make([][]string, len(p.Calls))
		for i := range gone {
			gone[i] = []string{"sandbox_permissions", "justification"}
		}
		out, ok := p.Without(gone)
		if !ok {
			t.Fatalf("refused:\n%s", d.src)
		}
		rest := d.src
		for i := range len(out) { // out is a subsequence
			k := strings.IndexByte(rest, out[i])
			if k < 0 {
				t.Fatalf("%q is no deletion of %q", out, d.src)
			}
			rest = rest[k+1:]
		}
		q := Read(out)
		if !q.Whole || len(q.Calls) != len(p.Calls) {
			t.Fatalf("%q", out)
		}
		for i, c := range q.Calls {
			for _, m := range c.Members {
				if m.Name == "sandbox_permissions" || m.Name == "justification" {
					t.Fatalf("%q", out)
				}
			}
			if !same(p.Calls[i], c, gone[i]) {
				t.Fatalf("%s and %s", p.Calls[i].Args, c.Args)
			}
		}
		if again, ok := q.Without(gone); !ok || again != out {
			t.Fatalf("%q, then %q", out, again)
		}
	})
}

// A real engine is the judge: it makes the very calls that were read, in every
// program that is whole.
func TestAgainstAnEngine(t *testing.T) {
	node := machine.Needs(t, "node")
	// Programs by the grammar, and what is left of the claim when a few tokens
	// change: of those that still count as whole, the engine must not make a call
	// that was not read.
	var programs []drawn
	rapid.Check(t, func(t *rapid.T) {
		d := program().Draw(t, "program")
		programs = append(programs, d)
		for range 30 {
			src := d.src
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				at := rapid.IntRange(0, len(src)).Draw(t, "at")
				to := min(len(src), at+rapid.IntRange(0, 12).Draw(t, "cut"))
				src = src[:at] + rapid.SampledFrom(fragments).Draw(t, "fragment") + src[to:]
			}
			if p := Read(src); p.Whole {
				programs = append(programs, drawn{src: src})
			}
		}
	})
	t.Logf("%d programs", len(programs))
	var in []string
	for _, d := range programs {
		in = append(in, d.src)
	}
	input, _ := json.Marshal(in)
	cmd := exec.Command(node, "-e", `
		const Program = Object.getPrototypeOf(async function () {}).constructor;
		const programs = JSON.parse(require("fs").readFileSync(0, "utf8"));
		(async () => {
			const out = [];
			for (const source of programs) {
				const made = [];
				const tools = new Proxy({}, { get: (_, name) => async (args) => { made.push([name, args]); return { output: "x", a: { b: 1 } }; } });
				try { await new Program("tools", "text", source)(tools, () => {}); } catch (e) { made.push(["failed", String(e)]); }
				out.push(made);
			}
			console.log(JSON.stringify(out));
		})();`)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	var made [][][2]any
	if err := json.Unmarshal(output, &made); err != nil {
		t.Fatal(err)
	}
	for i, d := range programs {
		p := Read(d.src)
		if len(made[i]) > 0 && made[i][len(made[i])-1][0] == "failed" {
			// An expression that reads a member of nothing: it was still the
			// same calls up to there.
			made[i] = made[i][:len(made[i])-1]
			if len(made[i]) > len(p.Calls) {
				t.Fatalf("more calls than read:\n%s", d.src)
			}
		} else if len(made[i]) != len(p.Calls) {
			// The right side of ?? and || may not run.
			if !strings.Contains(d.src, "??") && !strings.Contains(d.src, "||") || len(made[i]) > len(p.Calls) {
				t.Fatalf("%d calls read, %d made:\n%s", len(p.Calls), len(made[i]), d.src)
			}
		}
		at := 0
		for _, m := range made[i] {
			args, _ := json.Marshal(m[1])
			var want any
			json.Unmarshal(args, &want)
			for {
				if at == len(p.Calls) {
					t.Fatalf("%v(%s) was made and not read:\n%s", m[0], args, d.src)
				}
				var got any
				json.Unmarshal(p.Calls[at].Args, &got)
				at++
				if p.Calls[at-1].Tool == m[0] && fmt.Sprint(got) == fmt.Sprint(want) {
					break
				}
			}
		}
	}
}

// fragments are what a program could turn into another one by.
var fragments = []string{"", "", "", ";", "\n", ",", ".", "?.", "(", ")", "[", "]", "{", "}", "`", "${", "'", "\"", "\\", "//", "/*", "*/", "\u2028", "??", "||", "+", "=", "await ", "tools", "tools.exec_command({cmd: 'new'})",
	"text", "text(", "JSON", "Promise", "Promise.all([", "const x = ", "let ", "r1", "a2", ": ", "...", "=>", "() => ", "x => tools.y({})", "async ", "new ", "eval", "tools.z", "tools['w']", ".then(", ".constructor", "__proto__", "\"__proto__\": ", "0", "1.5", "/", "<!--", "-->", "#", "@", "get ", "if (0) ", "return ", "\\u0074ools", "\u00a0", "\ufeff"}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"const r = await tools.exec_command({\"cmd\":\"echo hi\"});\ntext(r.output ?? JSON.stringify(r));\n",
		"const [a, b] = await Promise.all([tools.exec_command({cmd: 'a'}), tools.exec_command({cmd: `b`, p: 1})]);\ntext(`${a.output} ${b?.output}`)",
		"text(\"no\") // gp1:x", "tools.x({a:[1,{b:null}],})", "`${`${`", "/*", "'\\u{", "tools.x({p: 'b', })",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := Read(s)
		for _, c := range p.Calls {
			var at tape.Tape
			if err := at.Parse(c.Args); err != nil || at.LoneSurrogate() || at.NUL() {
				t.Fatalf("%q: arguments %s: %v", s, c.Args, err)
			}
			for _, m := range c.Members {
				if m.Start < 0 || m.End > len(s) || m.Start >= m.End {
					t.Fatalf("%q: member %+v", s, m)
				}
			}
		}
		if !p.Whole {
			return
		}
		gone := make([][]string, len(p.Calls))
		for i := range gone {
			gone[i] = []string{"p"}
		}
		if out, ok := p.Without(gone); ok && len(out) > len(s) {
			t.Fatalf("%q grew to %q", s, out)
		}
		// A whole program stays whole, with the same calls, behind another one.
		twice := Read("text('a')\n" + s)
		if !twice.Whole || shown(twice) != shown(p) {
			t.Fatalf("%q: %s, then %s", s, shown(p), shown(twice))
		}
	})
}

// Half a megabyte of what is hard to read.
func BenchmarkRead(b *testing.B) {
	for name, unit := range map[string]string{
		"calls": "const r = await tools.exec_command({cmd: 'ls -la'});\n", "open literals": "tools.x({a: ", "strings": `text("a\u0061");`,
	} {
		src := strings.Repeat(unit, 512<<10/len(unit))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				Read(src)
			}
		})
	}
}
