package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func token(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func TestNarrowText(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"a policy that names the field", "<permissions instructions>\n`sandbox_mode` is `workspace-write`: files below `cwd` may be edited. Other directories need approval. The network is closed.\nThe approval policy is never. Leave out `sandbox_permissions`, such commands are rejected.\n The writable roots are `/w`, `/tmp`.\n</permissions instructions>",
			"<permissions instructions>\n`sandbox_mode` is `workspace-write`: files below `cwd` may be edited. Other directories need approval. The network is closed.\nThe approval policy is never.\n The writable roots are `/w`, `/tmp`.\n</permissions instructions>"},
		{"a manual of escalation", "# Sandbox\nReads are free.\n\n# Requests for escalation\n\nCommands run outside the sandbox once the user agrees.\n\n## How to escalate\n\nTo ask for it:\n\n- Provide `sandbox_permissions` with the value `require_escalated`\n- Put a short question into `justification`\n- Suggest a `prefix_rule`\n\n## When to escalate\n\n- Writes to /var\n- A failed command that matters: rerun it with `require_escalated`.\n\n## prefix_rule\n\nChoose a short one. Not `[\"python3\"]`.\n\n# Style\n\nBe brief.",
			"# Sandbox\nReads are free.\n\n# Requests for escalation\n\nCommands run outside the sandbox once the user agrees.\n\n# Style\n\nBe brief."},
		{"items", "Notes:\n - The shell is bash.\n - Commands run in a sandbox. Do not set `dangerouslyDisableSandbox: true` unless the user says so.\n - Use /tmp/x for scratch files.", "Notes:\n - The shell is bash.\n - Commands run in a sandbox.\n - Use /tmp/x for scratch files."},
		{"a run-time note", "Current policy: workspace-write.\n\nApproval prompts are off: what needs approval is rejected — do not set `sandbox_permissions`.", "Current policy: workspace-write."},
		{"a value alone offers nothing", "Set sandbox_permissions so.\n\nThe session may use workspace-write, one of three modes.", "The session may use workspace-write, one of three modes."},
		{"everything", "Set `sandbox_permissions` as needed.", ""},
		{"everything between tags", "<note>\nSet `sandbox_permissions` as needed.\n</note>\n", ""},
		{"a tool that goes", "Read files. Call `request_permissions` for more access. It asks the user. Be brief.", "Read files. Be brief."},
		{"zh", "当前模式为 workspace-write。审批已关闭：请勿设置 `sandbox_permissions`。请保持简洁。", "当前模式为 workspace-write。请保持简洁。"},
		{"declarations", "Tools:\n```ts\ninterface Args {\n  /** Runs. Set `sandbox_permissions` to widen. */\n  bash: {\n    command: string;\n    /** Wider. */\n    sandbox_permissions?: string;\n    /** Why. */\n    justification?: string;\n  };\n  review: {\n    justification: string;\n  };\n}\n```\nBe brief.",
			"Tools:\n```ts\ninterface Args {\n  /** Runs. */\n  bash: {\n    command: string;\n  };\n  review: {\n    justification: string;\n  };\n}\n```\nBe brief."},
		{"words alone", "Give a justification for approval. Use danger-full-access.", "Give a justification for approval. Use danger-full-access."},
		{"nothing", "Be brief.", "Be brief."},
		{"nothing at all", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := token(tt.in)
			out, rep := NarrowText(in, rules)
			if diff := cmp.Diff(string(token(tt.want)), string(out)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if (tt.in == tt.want) != same(in, out) || (len(rep.Cuts) == 0) != same(in, out) {
				t.Errorf("same slice: %v; reported %+v", same(in, out), rep)
			}
			if want := tt.in != tt.want && strings.TrimSpace(tt.want) == ""; rep.Empty != want {
				t.Errorf("Empty is %v", rep.Empty)
			}
			if again, rep := NarrowText(out, rules); !same(out, again) || len(rep.Cuts) > 0 {
				t.Errorf("narrowed again: %s", again)
			}
		})
	}
}

func TestNarrowHint(t *testing.T) {
	const hint = "[sandbox: escalation available — retry with sandbox_permissions + justification; the user is asked]"
	tests := []struct{ name, in, want string }{
		{"at the end", "out\n[sandbox: denied]\n" + hint, "out\n[sandbox: denied]"},
		{"before another", "out\n[sandbox: denied]\n" + hint + "\n[exit code: 1]", "out\n[sandbox: denied]\n[exit code: 1]"},
		{"before white space", "out\n" + hint + "\n\n", "out\n\n"},
		{"alone", hint, ""},
		{"alone, with a line break", hint + "\n[exit code: 1]", "[exit code: 1]"},
		{"behind a word", "Error: " + hint, "Error: "},
		{"other line ends", "out\r\n" + hint + "\r\n[exit code: 1]", "out\r\n[exit code: 1]"},
		{"printed by the command", hint + "\nout", hint + "\nout"},
		{"not in brackets", "out\nretry with sandbox_permissions", "out\nretry with sandbox_permissions"},
		{"brackets that name nothing", "out\n[exit code: 1]", "out\n[exit code: 1]"},
		{"a longer name", "out\n[my_sandbox_permissions2]", "out\n[my_sandbox_permissions2]"},
		{"a list of the command's", "x = [1]\ny = [sandbox_permissions]", "x = [1]\ny = [sandbox_permissions]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := token(tt.in)
			out, rep := NarrowHint(in, rules)
			if diff := cmp.Diff(string(token(tt.want)), string(out)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if (tt.in == tt.want) != same(in, out) {
				t.Error("another slice")
			}
			if rep.Empty != (tt.want == "") {
				t.Errorf("Empty is %v", rep.Empty)
			}
			if again, _ := NarrowHint(out, rules); !same(out, again) {
				t.Errorf("narrowed again: %s", again)
			}
		})
	}
}

// What is no string token comes back as it is.
func TestTextsThatAreNone(t *testing.T) {
	for _, in := range []string{``, `"`, `sandbox_permissions`, `"sandbox_permissions`, `"sandbox_permissions" x`, `{"sandbox_permissions":1}`, `"\x sandbox_permissions"`, "\"sandbox_permissions \xff\"", `["sandbox_permissions"]`} {
		for name, f := range map[string]func([]byte, Rules) ([]byte, TextReport){"NarrowText": NarrowText, "NarrowHint": NarrowHint} {
			if out, rep := f([]byte(in), rules); string(out) != in || rep.Empty || len(rep.Cuts) > 0 {
				t.Errorf("%s(%q) = %q, %+v", name, in, out, rep)
			}
		}
	}
}

// How a text is escaped decides nothing.
func TestNarrowTextReadsDecodedText(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"Read files. ", "Set `sandbox_permissions` to widen. ", "It may be refused. ", "请勿设置 sandbox_permissions。", "😀 Grüße. ", "\n- ", "\n\n", "\n# More rights\n", "\t", "\\",
		"```ts\ntype bash = (_: {\n  sandbox_permissions: string;\n  a: string;\n}) => any;\n```\n", "[sandbox_permissions]\n", "<a>\n", "</a>\n", "| a | b |\n|---|---|\n",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "")
		plain, other := token(text), []byte(writer{t}.string(text))
		for name, f := range map[string]func([]byte, Rules) ([]byte, TextReport){"text": NarrowText, "hint": NarrowHint} {
			a, _ := f(plain, rules)
			b, rep := f(other, rules)
			var sa, sb string
			if json.Unmarshal(a, &sa) != nil || json.Unmarshal(b, &sb) != nil || sa != sb {
				t.Fatalf("%s: %s and %s", name, a, b)
			}
			if !subsequence(b, other) || (len(rep.Cuts) == 0) != same(b, other) {
				t.Fatalf("%s: %s of %s", name, b, other)
			}
			if again, _ := f(b, rules); !same(b, again) {
				t.Fatalf("%s: %s, then %s", name, b, again)
			}
			if want := len(rep.Cuts) > 0 && strings.TrimSpace(sb) == ""; rep.Empty != want {
				t.Fatalf("%s: Empty is %v for %q", name, rep.Empty, sb)
			}
		}
	})
}

func FuzzNarrowText(f *testing.F) {
	f.Add("Set `sandbox_permissions` to widen. Prints.")
	f.Add("```ts\ntype bash = (_: { sandbox_permissions: \"a\" | \"b\"; a: {} }) => any;\n```\n| a |\n|-|\n| sandbox_permissions |")
	f.Add("<a>\n设置 sandbox_permissions。此时询问用户；\n</a>\n1、x\n（2）[sandbox_permissions]")
	f.Add("# Escalation\ndeclare const t: { request_permissions(a: { /* x */ b: Array<{ c: 1 }> }): void; }\n// [request_permissions]\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := token(text)
		for name, narrow := range map[string]func([]byte, Rules) ([]byte, TextReport){"text": NarrowText, "hint": NarrowHint} {
			out, rep := narrow(in, rules)
			if !json.Valid(out) || !subsequence(out, in) || bytes.Equal(in, out) != same(in, out) || (len(rep.Cuts) == 0) != same(in, out) {
				t.Fatalf("%s: %q became %q", name, in, out)
			}
			if again, _ := narrow(out, rules); !same(out, again) {
				t.Fatalf("%s: %q became %q, then %q", name, in, out, again)
			}
		}
		// The same text as a description.
		for _, tool := range []string{`{"type":"custom","name":"exec","description":%s}`, `{"name":"bash","description":%s,"input_schema":{"properties":{"command":{}}}}`} {
			in := fmt.Appendf(nil, tool, in)
			out, rep := Narrow(in, rules)
			if !json.Valid(out) || !subsequence(out, in) || (len(rep.Cuts) == 0) != same(in, out) {
				t.Fatalf("%q became %q", in, out)
			}
			if again, _ := Narrow(out, rules); !same(out, again) {
				t.Fatalf("%q became %q, then %q", in, out, again)
			}
		}
	})
}
