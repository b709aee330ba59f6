package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// program is the description of a freeform tool with one declaration.
func program(ts string) []byte {
	text, err := json.Marshal("Runs a program.\n\n```ts\n" + ts + "\n```")
	if err != nil {
		panic(err)
	}
	return []byte(`{"type":"custom","name":"exec","description":` + string(text) + `}`)
}

// Each row is TypeScript in which run loses wide and why, its value "root" of
// mode, and deep at any depth; gone is a function that goes.
func TestScript(t *testing.T) {
	r := Rules{
		Tools: map[string][]Field{"run": {{Name: "wide"}, {Name: "why"}, {Name: "deep", Nested: true}, {Name: "mode", DeadValues: []string{"root", "admin"}}}},
		Drop:  []string{"gone"},
	}
	tests := []struct{ name, in, want string }{
		{"a line", "declare const tools: { run(args: {\n  cmd: string;\n  wide?: boolean;\n  tty?: boolean;\n}): Promise<unknown>; };",
			"declare const tools: { run(args: {\n  cmd: string;\n  tty?: boolean;\n}): Promise<unknown>; };"},
		{"a line and its comments", "declare const tools: { run(args: {\n  // What.\n  cmd: string;\n  // More room.\n  // Rarely.\n  wide?: \"a\" | \"b\";\n}): void; };",
			"declare const tools: { run(args: {\n  // What.\n  cmd: string;\n}): void; };"},
		{"a comment of its own", "declare const tools: { run(args: {\n  // All of them:\n\n  wide?: boolean;\n  cmd: string;\n}): void; };",
			"declare const tools: { run(args: {\n  // All of them:\n\n  cmd: string;\n}): void; };"},
		{"a comment behind", "type run = (_: {\n  cmd: string, // what\n  wide?: boolean, // more room\n  tty?: boolean,\n}) => any;",
			"type run = (_: {\n  cmd: string, // what\n  tty?: boolean,\n}) => any;"},
		{"a block comment", "interface Args {\n  /** Runs. */\n  run: {\n    /** More\n     * room. */\n    wide?: boolean;\n    cmd: string;\n  } & Record<string, unknown>;\n}",
			"interface Args {\n  /** Runs. */\n  run: {\n    cmd: string;\n  } & Record<string, unknown>;\n}"},
		{"an object", "type run = (_: {\n  wide?: {\n    // Read.\n    read?: Array<{ a: \"}\" }>;\n  };\n  cmd: string;\n}) => any;", "type run = (_: {\n  cmd: string;\n}) => any;"},
		{"all of them", "type run = (_: {\n  wide?: boolean;\n  why?: string;\n}) => any;", "type run = (_: {\n}) => any;"},
		{"on one line", "type run = (_: { cmd: string; wide?: boolean; tty?: boolean }) => any;", "type run = (_: { cmd: string; tty?: boolean }) => any;"},
		{"on one line, first", "type run = (_: { wide?: boolean, cmd: string }) => any;", "type run = (_: { cmd: string }) => any;"},
		{"on one line, last", "type run = (_: { cmd: string; wide?: boolean; why?: string }) => any;", "type run = (_: { cmd: string; }) => any;"},
		{"on one line, alone", "type run = (_: { wide?: boolean }) => any;", "type run = (_: {  }) => any;"},
		{"without semicolons", "type run = (_: {\n  cmd: string\n  wide?:\n    | \"a\"\n    | \"b\"\n  tty?: boolean\n}) => any", "type run = (_: {\n  cmd: string\n  tty?: boolean\n}) => any"},
		{"a quoted name", "type run = (_: {\n  \"wide\"?: boolean;\n  'why'?: string;\n  cmd: string;\n}) => any;", "type run = (_: {\n  cmd: string;\n}) => any;"},
		{"a method", "type run = (_: {\n  wide(a: { b: string }): { c: string };\n  cmd: string;\n}) => any;", "type run = (_: {\n  cmd: string;\n}) => any;"},
		{"readonly", "type run = (_: {\n  readonly wide?: boolean;\n  cmd: string;\n}) => any;", "type run = (_: {\n  cmd: string;\n}) => any;"},
		{"a dead value", "type run = (_: {\n  mode?: \"user\" | \"root\" | \"admin\";\n}) => any;", "type run = (_: {\n  mode?: \"user\";\n}) => any;"},
		{"a dead value, first", "type run = (_: { mode?: \"root\" | \"user\" }) => any;", "type run = (_: { mode?: \"user\" }) => any;"},
		{"only dead values", "type run = (_: { mode?: \"root\" }) => any;", "type run = (_: { mode?: \"root\" }) => any;"},
		{"a comment about it on what stays", "type run = (_: {\n  // Shell to start. A system shell when wide is set.\n  shell?: string;\n  wide?: boolean;\n}) => any;", "type run = (_: {\n  // Shell to start.\n  shell?: string;\n}) => any;"},
		{"at any depth", "type run = (_: {\n  o: {\n    deep: string;\n    wide: string;\n  };\n}) => any;", "type run = (_: {\n  o: {\n    wide: string;\n  };\n}) => any;"},
		{"what it returns", "type run = (_: { cmd: string }) => { wide: boolean };", "type run = (_: { cmd: string }) => { wide: boolean };"},
		{"another function", "declare const tools: { jog(args: { wide?: boolean }): void; };", "declare const tools: { jog(args: { wide?: boolean }): void; };"},
		{"a field named as a function", "declare const tools: { jog(args: { run: { wide?: boolean } }): void; };", "declare const tools: { jog(args: { run: { wide?: boolean } }): void; };"},
		{"a function that goes from others", "declare const tools: {\n  // Asks.\n  gone(args: { a: string }): void;\n  jog(): void;\n};", "declare const tools: {\n  jog(): void;\n};"},
		{"a statement that goes from others", "type gone = (_: {}) => any;\ntype jog = (_: {}) => any;", "type jog = (_: {}) => any;"},
		{"not understood", "type run = (_: {\n  wide?: Array<boolean];\n}) => any;", "type run = (_: {\n  wide?: Array<boolean];\n}) => any;"},
		{"signs in strings and comments", "type run = (_: {\n  // Not a { or ' here.\n  cmd: \"a;}\" | '{' | `\n`;\n  /* wide?: x; */\n  wide?: boolean;\n}) => any;", "type run = (_: {\n  // Not a { or ' here.\n  cmd: \"a;}\" | '{' | `\n`;\n}) => any;"},
		{"arrows and generics", "type run = (_: {\n  f: (a: Map<string, Array<number>>) => Promise<void>;\n  wide?: Partial<Record<\"a\", { x: 1 }>>;\n  g: { [key: string]: unknown };\n}) => any;",
			"type run = (_: {\n  f: (a: Map<string, Array<number>>) => Promise<void>;\n  g: { [key: string]: unknown };\n}) => any;"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := program(tt.in)
			out, _ := Narrow(in, r)
			var got struct{ Description string }
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			ts := strings.TrimSuffix(strings.TrimPrefix(got.Description, "Runs a program.\n\n```ts\n"), "\n```")
			if diff := cmp.Diff(tt.want, ts); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if (tt.in == tt.want) != same(in, out) {
				t.Error("another slice")
			}
			if again, _ := Narrow(out, r); !same(out, again) {
				t.Errorf("narrowed again: %s", again)
			}
			// The same without a fence.
			bare, _ := Narrow([]byte(strings.Replace(strings.Replace(string(in), "```ts\\n", "", 1), "\\n```", "", 1)), r)
			if err := json.Unmarshal(bare, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("Runs a program.\n\n"+tt.want, got.Description); diff != "" && tt.name != "not understood" && !strings.HasPrefix(tt.in, "interface") {
				t.Errorf("without a fence (-want +got)\n%s", diff)
			}
		})
	}
}

// Whatever types are drawn, the declaration without the field is what is left,
// and nothing else moves.
func TestScriptKeepsTheRest(t *testing.T) {
	r := Rules{Tools: map[string][]Field{"run": {{Name: "wide"}, {Name: "why"}}}}
	kind := rapid.SampledFrom([]string{
		"string", "\"a\" | \"b;}\"", "Array<{ wide: number }>", "{ a?: string; wide: { b: 1 } }", "(x: string) => void", "Map<string, Array<number>>",
		"{\n    // Inner wide.\n    c: string;\n  }", "[string, number]", "`t;`", "{ [key: string]: unknown }",
	})
	comment := rapid.SampledFrom([]string{"", "", "  // One; with } signs.\n", "  /** Block\n   * of two. */\n", "  // Two,\n  // lines.\n"})
	rapid.Check(t, func(t *rapid.T) {
		term := rapid.SampledFrom([]string{";", ",", ""}).Draw(t, "terminator")
		var all, want strings.Builder
		for _, name := range rapid.Permutation([]string{"cmd", "wide", "tty", "why", "cwd"}).Draw(t, "order") {
			line := comment.Draw(t, "comment") + "  " + name + "?: " + kind.Draw(t, "type") + term + "\n"
			all.WriteString(line)
			if name != "wide" && name != "why" {
				want.WriteString(line)
			}
		}
		head, tail := "declare const tools: { run(args: {\n", "}): Promise<{ wide: string }>; };\n"
		out, _ := Narrow(program(head+all.String()+tail), r)
		if diff := cmp.Diff(string(program(head+want.String()+tail)), string(out)); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}
