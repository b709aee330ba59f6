package schema

import (
	"encoding/json"
	"strings"
	"testing"
)

// What the catalogued clients say about their escalation fields, each in a few
// words of ours with the real names and the real structure. When a client
// changes its wording, its new sentences belong here: a row whose output still
// holds one of the words, or lost what it must keep, is a text that the model
// would see, or miss.
func TestDrift(t *testing.T) {
	never := []string{"sandbox_permissions", "require_escalated", "with_additional_permissions", "additional_permissions", "prefix_rule", "dangerouslyDisableSandbox", "request_permissions", "escalat", "justif", "approval prompt"}
	tests := []struct {
		name string
		by   string // bash, Bash, exec_command: its description; exec: a freeform one; text; hint
		in   string
		keep []string
	}{
		{"dsh 0.1.0: bash", "bash",
			"Execute a bash command. Commands may run under a file sandbox; a blocked operation is reported as `[sandbox: denied]` — a policy denial, not a bug. Long output is truncated. " +
				"Attempting a command the sandbox may deny is safe: run it and read the marker. When a command is denied and a wider mode would let it succeed, escalate at once: retry the same command with `sandbox_permissions` (the narrowest) plus a `justification`. " +
				"Do not detour through chat to ask permission first — the approval prompt of that retry is how the user consents. If the session states approval prompts are disabled, a denial is final — do not set `sandbox_permissions`. " +
				"Never escalate speculatively: ground the request in a real denial. A rejected escalation is final for that command, but it does not forbid escalating others.",
			[]string{"Execute a bash command.", "not a bug.", "Long output is truncated."}},
		{"dsh 0.1.0: bash, Chinese", "bash", "执行命令。遇到沙箱拒绝时，用 `sandbox_permissions` 和 `justification` 重试一次。用户会收到审批提示。审批关闭时不要设置 `sandbox_permissions`。输出会截断。", []string{"执行命令。", "输出会截断。"}},
		{"dsh 0.1.0: run-time note", "text", "Current runtime context.\n\nCurrent file policy: workspace-write. The workspace is \"/w\".\n\nApproval prompts are disabled in this session: what requires approval is rejected — do not request sandbox escalation (do not set `sandbox_permissions`).",
			[]string{"Current file policy: workspace-write.", `The workspace is "/w".`}},
		{"dsh 0.1.0: hint", "hint", "[stderr]\ntouch: read-only\n[sandbox: file access denied under workspace-write mode]\n[sandbox: escalation available — retry this command with sandbox_permissions + justification; the approval prompt asks the user]\n[exit code: 1]",
			[]string{"touch: read-only", "[sandbox: file access denied under workspace-write mode]", "[exit code: 1]"}},
		{"dsh 0.1.0: hint of a file tool", "hint", "Error: [sandbox: file access denied under workspace-write mode]\n[sandbox: escalation available — retry this operation with sandbox_permissions + justification]",
			[]string{"Error: [sandbox: file access denied under workspace-write mode]"}},
		{"dsh 0.1.0: code mode", "text", "Use `run_code`.\n\n```ts\ninterface ToolArgsMap {\n  /** Execute a command. When it is denied, escalate: retry with `sandbox_permissions` and `justification`. */\n  bash: {\n    /** The command. */\n    command: string;\n    /** The wider mode. */\n    sandbox_permissions?: \"workspace-write\" | \"danger-full-access\";\n    /** Required with sandbox_permissions. */\n    justification?: string;\n  } & Record<string, JsonValue>;\n}\n```",
			[]string{"Use `run_code`.", "/** Execute a command. */", "command: string;", "} & Record<string, JsonValue>;"}},
		{"codex 0.171: permissions, never", "text", "<permissions instructions>\n`sandbox_mode` is `workspace-write`: files in `cwd` may be edited. Editing elsewhere requires approval.\nApproval policy is currently never. Do not provide the `sandbox_permissions` for any reason, commands will be rejected.\n The writable roots are `/tmp`.\n</permissions instructions>",
			[]string{"Editing elsewhere requires approval.", "Approval policy is currently never.", "The writable roots are `/tmp`."}},
		{"codex: permissions, on request", "text", "# Escalation Requests\n\nProvide `sandbox_permissions` with \"require_escalated\". Put a question into `justification`.\n\n## prefix_rule guidance\n\nSuggest a `prefix_rule` such as [\"npm\", \"test\"].\n\n# Working\n\nBe brief.",
			[]string{"# Working\n\nBe brief."}},
		{"codex 0.171: code mode", "exec", "Runs JavaScript.\n\n### `exec_command`\nRuns a command in a PTY.\n\nexec tool declaration:\n```ts\ndeclare const tools: { exec_command(args: {\n  // Access for this command; only with `sandbox_permissions: \"with_additional_permissions\"`.\n  additional_permissions?: {\n  // Request.\n  network?: {\n  enabled?: boolean;\n};\n};\n  // Shell command.\n  cmd: string;\n  // User-facing question for `require_escalated`; omit otherwise.\n  justification?: string;\n  // Reusable prefix for `cmd`, only with `sandbox_permissions: \"require_escalated\"`.\n  prefix_rule?: Array<string>;\n  // Per-command override. Defaults to `use_default`.\n  sandbox_permissions?: \"use_default\" | \"require_escalated\";\n  // Wait.\n  yield_time_ms?: number;\n}): Promise<{\n  output: string;\n}>; };\n```\n\n### `request_permissions`\nRequest more.\n\nexec tool declaration:\n```ts\ndeclare const tools: { request_permissions(args: {\n  reason?: string;\n}): Promise<unknown>; };\n```\n\n### `view_image`\nView.",
			[]string{"Runs JavaScript.", "### `exec_command`\nRuns a command in a PTY.", "exec_command(args: {\n  // Shell command.\n  cmd: string;\n  // Wait.\n  yield_time_ms?: number;\n}): Promise<{\n  output: string;\n}>; };", "### `view_image`"}},
		{"codex, older: shell", "exec_command", "Runs a command. Commands that need the network: set `sandbox_permissions` to `require_escalated` and give a `justification`. Prints.", []string{"Runs a command.", "Prints."}},
		{"claude 2: Bash", "Bash", "Runs a command.\n\n## Command sandbox\n- Commands run in a sandbox.\n- Do NOT set `dangerouslyDisableSandbox: true` unless:\n  - the user *explicitly* asks\n  - a command just failed and the sandbox is the cause\n- When you see such a failure:\n  - Immediately retry with `dangerouslyDisableSandbox: true`\n  - This will prompt the user for permission\n- Use $TMPDIR.",
			[]string{"Runs a command.", "- Commands run in a sandbox.", "- Use $TMPDIR."}},
		{"claude 2: system message", "text", "# Environment\n - Shell: bash\n - Commands run in a sandbox. Set `dangerouslyDisableSandbox: true` only when the user asks. This will prompt the user.\n - OS: linux", []string{" - Shell: bash", " - Commands run in a sandbox.", " - OS: linux"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := token(tt.in)
			var out []byte
			switch tt.by {
			case "text":
				out, _ = NarrowText(in, rules)
			case "hint":
				out, _ = NarrowHint(in, rules)
			default:
				tool := `{"name":"` + tt.by + `","description":` + string(in) + `,"input_schema":{"properties":{"command":{},"sandbox_permissions":{"enum":["use_default","require_escalated"]}}}}`
				if tt.by == "exec" {
					tool = `{"type":"custom","name":"exec","description":` + string(in) + `}`
				}
				narrowed, _ := Narrow([]byte(tool), rules)
				var v struct{ Description json.RawMessage }
				if err := json.Unmarshal(narrowed, &v); err != nil {
					t.Fatal(err)
				}
				out = v.Description
			}
			var text string
			if err := json.Unmarshal(out, &text); err != nil {
				t.Fatal(err)
			}
			for _, w := range never {
				if strings.Contains(strings.ToLower(text), strings.ToLower(w)) {
					t.Errorf("still says %q:\n%s", w, text)
				}
			}
			for _, k := range tt.keep {
				if !strings.Contains(text, k) {
					t.Errorf("lost %q:\n%s", k, text)
				}
			}
		})
	}
}
