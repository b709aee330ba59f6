package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shell is the subject that most rows use: a shell tool whose two escalation
// fields are gone and whose command, timeout and run_in_background stay.
var shell = &subject{
	names:  []string{"sandbox_permissions", "justification"},
	values: []string{"danger-full-access", "require_escalated"},
	enums:  []string{"use_default", "require_escalated"},
	stay:   []string{"command", "timeout", "run_in_background"},
}

// apply cuts what edit selects.
func apply(text string, e edits) string {
	return string(cut([]byte(text), slices.Clone(e.cuts)))
}

func TestProse(t *testing.T) {
	tests := []struct {
		name, in, want string
		kept           []string // sentences that must be reported
	}{
		// What goes.
		{name: "a field in backticks", in: "Runs a command. Set `sandbox_permissions` to widen. Output is cut at 30 kB.",
			want: "Runs a command. Output is cut at 30 kB."},
		{name: "a field without any quoting", in: "Runs a command. Use sandbox_permissions to widen.", want: "Runs a command."},
		{name: "a field in double quotes", in: `Pass "sandbox_permissions" to widen. Runs a command.`, want: "Runs a command."},
		{name: "a field at the start of a sentence", in: "Runs a command. sandbox_permissions widens it. Prints its output.", want: "Runs a command. Prints its output."},
		{name: "a field in brackets", in: "Runs a command. Ask for more (see sandbox_permissions). Prints.", want: "Runs a command. Prints."},
		{name: "a value on offer", in: "Runs a command. Use danger-full-access when the disk is needed. Prints.", want: "Runs a command. Prints."},
		{name: "everything", in: "Set `sandbox_permissions` to widen.", want: ""},
		{name: "everything but white space", in: "  Set `sandbox_permissions` to widen.\n", want: ""},
		{name: "beside a script without spaces", in: "运行命令。需要时设置sandbox_permissions以扩大权限。输出会被截断。", want: "运行命令。输出会被截断。"},
		{name: "the run of one escalation", in: "Runs a command. If a command is denied by the sandbox, you may retry it with wider permissions. " +
			"Set `sandbox_permissions` to the mode it needs and explain in `justification`. The user will be asked. Long output is cut.",
			want: "Runs a command. Long output is cut."},
		{name: "pronouns and connectives", in: "Runs a command. Set `sandbox_permissions` to widen. This asks the user. It may be refused. In that case, stop. Otherwise go on. Long output is cut.",
			want: "Runs a command. Long output is cut."},
		{name: "a word of the language, asked for", in: "Runs a command. Provide a short justification. Prints.", want: "Runs a command. Prints."},
		{name: "a word of the language as a label", in: "Runs a command. The justification field is shown to the user. Prints.", want: "Runs a command. Prints."},
		{name: "a word of the language with its topic", in: "Runs a command. Escalation needs a justification. Prints.", want: "Runs a command. Prints."},
		{name: "a value that was listed, after the field", in: "Set `sandbox_permissions` when needed. The default is `use_default`. Prints.", want: "Prints."},
		{name: "a sentence over two lines", in: "Runs a command. When it is refused, set the argument\n`sandbox_permissions` and call again. Prints what the\ncommand wrote.",
			want: "Runs a command. Prints what the\ncommand wrote."},
		{name: "an example call", in: "Runs a command. For more, call `{\"command\": \"ls\", \"sandbox_permissions\": \"danger-full-access\"}`. Prints.", want: "Runs a command. Prints."},

		// Lists.
		{name: "an item", in: "Runs a command.\n\n- Quote paths.\n- Set `sandbox_permissions` to widen.\n- Use rg.", want: "Runs a command.\n\n- Quote paths.\n- Use rg."},
		{name: "the last item", in: "Rules:\n- Quote paths.\n- Set `sandbox_permissions` to widen.", want: "Rules:\n- Quote paths."},
		{name: "the first item", in: "Rules:\n\n1. Set `sandbox_permissions` to widen.\n2. Quote paths.", want: "Rules:\n\n2. Quote paths."},
		{name: "a sentence of an item", in: "- Quote paths. Set `sandbox_permissions` to widen.\n- Use rg.", want: "- Quote paths.\n- Use rg."},
		{name: "the only item, and the lead-in with it", in: "Runs a command.\n\nWhen denied:\n- Set `sandbox_permissions`.\n\nLong output is cut.", want: "Runs a command.\n\nLong output is cut."},
		{name: "what a lead-in about the field introduces", in: "Runs a command.\n\nValues of `sandbox_permissions`:\n- small\n- large\n\nLong output is cut.", want: "Runs a command.\n\nLong output is cut."},
		{name: "nested items go with their parent", in: "- Use rg.\n- Set `sandbox_permissions` if:\n  - a write failed\n  - the user said so\n- Quote paths.", want: "- Use rg.\n- Quote paths."},
		{name: "a parent goes with its only item", in: "- Use rg.\n- On failure:\n  - Retry with `sandbox_permissions`\n- Quote paths.", want: "- Use rg.\n- Quote paths."},
		{name: "a parent stays with its other item", in: "- On failure:\n  - Retry with `sandbox_permissions`\n  - Read the log", want: "- On failure:\n  - Read the log"},
		{name: "a step that refers past another", in: "- On failure:\n  - Retry with `sandbox_permissions`\n  - Read the log\n  - This will prompt the user", want: "- On failure:\n  - Read the log"},
		{name: "arguments line by line", in: "Runs a command.\n\nArgs:\n  command: what to run\n  sandbox_permissions: wider mode\n  timeout: in ms", want: "Runs a command.\n\nArgs:\n  command: what to run\n  timeout: in ms"},
		{name: "statements line by line", in: "Runs a command\nUse sandbox_permissions to widen the sandbox\nPrints output", want: "Runs a command\nPrints output"},
		{name: "line ends of another system", in: "Rules:\r\n- Quote paths.\r\n- Set `sandbox_permissions`.\r\n- Use rg.", want: "Rules:\r\n- Quote paths.\r\n- Use rg."},

		// Sections.
		{name: "a section", in: "Runs a command.\n\n## Using sandbox_permissions\nThink first.\n\nThen set it.\n\n## Output\nIs cut.", want: "Runs a command.\n\n## Output\nIs cut."},
		{name: "a section with a narrower one inside", in: "# A\nText.\n\n# The `sandbox_permissions` option\n## When\nRarely.\n# B\nText.", want: "# A\nText.\n\n# B\nText."},
		{name: "a heading over nothing", in: "Runs a command.\n\n## Escalation\nSet `sandbox_permissions`.\n\n## Output\nIs cut.", want: "Runs a command.\n\n## Output\nIs cut."},
		{name: "two headings over nothing", in: "Runs.\n\n# More\n## Rights\n- Set `sandbox_permissions`.", want: "Runs."},
		{name: "a title in bold", in: "Runs.\n\n**`sandbox_permissions`**\nThink first.\n\nOutput is cut.", want: "Runs.\n\nOutput is cut."},
		{name: "a heading keeps the rest of its section", in: "## Running\nSet `sandbox_permissions`.\n\nOutput is cut.", want: "## Running\n\nOutput is cut."},

		// Code, tables, tags.
		{name: "fenced code that shows nothing else, and what introduces it", in: "Runs.\n\nExample:\n```json\n{\"command\": \"make\", \"sandbox_permissions\": \"danger-full-access\"}\n```\n\nPrints.", want: "Runs.\n\nPrints."},
		{name: "a row", in: "| name | what |\n|---|---|\n| cwd | where |\n| sandbox_permissions | wider. Rarely. |\n| tty | terminal |", want: "| name | what |\n|---|---|\n| cwd | where |\n| tty | terminal |"},
		{name: "the last row, and the table with it", in: "Runs.\n\n| name | what |\n|---|---|\n| `sandbox_permissions` | wider |\n| `justification` | why |\n\nPrints.", want: "Runs.\n\nPrints."},
		{name: "a row about what stays", in: "| name | what |\n|---|---|\n| `timeout` | not with sandbox_permissions |", want: "| name | what |\n|---|---|\n| `timeout` | not with sandbox_permissions |",
			kept: []string{"| `timeout` | not with sandbox_permissions |"}},
		{name: "tags around nothing", in: "Runs.\n\n<rights note>\nSet `sandbox_permissions`.\n</rights note>\n\nPrints.", want: "Runs.\n\nPrints."},
		{name: "tags around something", in: "<rights>\nSet `sandbox_permissions`.\nPrints.\n</rights>", want: "<rights>\nPrints.\n</rights>"},
		{name: "a section about more rights", in: "Runs.\n\n## Escalated commands\nThink of the user first. Pass `sandbox_permissions`.\n- Be sparing.\n\n## Output\nIs cut.", want: "Runs.\n\n## Output\nIs cut."},
		{name: "a section about more rights that never names a field", in: "## Escalated privileges\nAsk the owner.\n\n## Output\nSet `sandbox_permissions`. Is cut.", want: "## Escalated privileges\nAsk the owner.\n\n## Output\nIs cut."},

		// What leads in.
		{name: "a case that only the removed text answers", in: "Runs a command. The sandbox may deny a command that reaches out of the workspace. In that case call again with sandbox_permissions set to danger-full-access. Prints.",
			want: "Runs a command. Prints."},
		{name: "a fact that the removed text takes as its case", in: "Runs in a fresh shell. If so, set `sandbox_permissions`. Prints.", want: "Runs in a fresh shell. Prints.",
			kept: []string{"Runs in a fresh shell."}},
		{name: "a denial that stands for itself", in: "A denied write is reported as a line of its own. Set `sandbox_permissions` to widen.", want: "A denied write is reported as a line of its own."},

		// Chinese.
		{name: "zh: one unbroken run", in: "执行命令。如果命令被沙箱拒绝，可以申请更高权限后重试。请将 `sandbox_permissions` 设为 danger-full-access，并在 `justification` 中说明原因。此时会询问用户。如果用户拒绝，请停止。输出过长时会被截断。",
			want: "执行命令。输出过长时会被截断。"},
		{name: "zh: a case that only the removed text answers", in: "执行命令。沙箱可能会拒绝访问工作区之外的命令。这种情况下使用sandbox_permissions重新调用。输出会被截断。", want: "执行命令。输出会被截断。"},
		{name: "zh: a word of English in a Chinese sentence", in: "执行命令。申请时必须填写 justification 字段。支持管道。", want: "执行命令。支持管道。"},
		{name: "zh: wide punctuation", in: "支持管道；设置 sandbox_permissions 可以扩大权限！输出（含错误。不含颜色）会被截断？", want: "支持管道；输出（含错误。不含颜色）会被截断？"},
		{name: "zh: items", in: "说明：\n- 使用绝对路径。\n- 需要时传入 `sandbox_permissions`。\n- 不要使用 cd。", want: "说明：\n- 使用绝对路径。\n- 不要使用 cd。"},
		{name: "zh: numbered", in: "步骤：\n1、检查路径。\n2、被拒绝时设置 sandbox_permissions。\n3、读取输出。", want: "步骤：\n1、检查路径。\n3、读取输出。"},
		{name: "zh: the only item, and the lead-in with it", in: "执行命令。\n\n被拒绝时：\n- 设置 `sandbox_permissions`。\n\n输出会被截断。", want: "执行命令。\n\n输出会被截断。"},
		{name: "zh: a section", in: "执行命令。\n\n## 提升权限\n先想一想。设置 `sandbox_permissions`。\n\n## 输出\n会被截断。", want: "执行命令。\n\n## 输出\n会被截断。"},
		{name: "zh: arguments line by line", in: "参数：\ncommand：要执行的命令\nsandbox_permissions：更宽的模式\ntimeout：毫秒", want: "参数：\ncommand：要执行的命令\ntimeout：毫秒"},
		{name: "zh: a sentence about a property that stays", in: "长时间构建时与 `sandbox_permissions` 一起使用 `timeout`。输出会被截断。", want: "长时间构建时与 `sandbox_permissions` 一起使用 `timeout`。输出会被截断。",
			kept: []string{"长时间构建时与 `sandbox_permissions` 一起使用 `timeout`。"}},
		{name: "zh: nothing about the fields", in: "沙箱会阻止网络访问。推送之前请征求用户同意。", want: "沙箱会阻止网络访问。推送之前请征求用户同意。"},

		// What stays.
		{name: "nothing about the fields", in: "Files get permission 0644. The sandbox blocks the network. Ask the user for approval before a push.",
			want: "Files get permission 0644. The sandbox blocks the network. Ask the user for approval before a push."},
		{name: "escalation by itself", in: "Escalate incidents to the on-call person.", want: "Escalate incidents to the on-call person."},
		{name: "a fact about the sandbox before the run", in: "Commands run in a sandbox that can't reach the network. Set `sandbox_permissions` to widen.", want: "Commands run in a sandbox that can't reach the network."},
		{name: "an honest word of the language", in: "Set `sandbox_permissions` to widen.\n\nNever skip hooks without justification.", want: "Never skip hooks without justification.",
			kept: []string{"Never skip hooks without justification."}},
		{name: "a longer name", in: "Reads my_sandbox_permissions and sandbox_permissions2.", want: "Reads my_sandbox_permissions and sandbox_permissions2."},
		{name: "a value as a fact", in: "The session runs in danger-full-access.", want: "The session runs in danger-full-access.", kept: []string{"The session runs in danger-full-access."}},
		{name: "a sentence about a property that stays", in: "Use `timeout` with `sandbox_permissions` for long builds. Prints.", want: "Use `timeout` with `sandbox_permissions` for long builds. Prints.",
			kept: []string{"Use `timeout` with `sandbox_permissions` for long builds."}},
		{name: "a name that can only be a name, bare", in: "With run_in_background, sandbox_permissions is ignored.", want: "With run_in_background, sandbox_permissions is ignored.",
			kept: []string{"With run_in_background, sandbox_permissions is ignored."}},
		{name: "the word command documents nothing", in: "Prints. Retry the command with `sandbox_permissions`.", want: "Prints."},
		{name: "the tool itself, after the run", in: "Set `sandbox_permissions` to widen. This tool prints the output.", want: "This tool prints the output."},
		{name: "another paragraph that refers back to nothing of ours", in: "Set `sandbox_permissions` to widen.\n\nIt prints the output.", want: "It prints the output."},
		{name: "code of its own after the run", in: "Set `sandbox_permissions` to widen. It prints `done` at the end.", want: "It prints `done` at the end.",
			kept: []string{"It prints `done` at the end."}},
		{name: "fenced code that documents something else too", in: "Example:\n```\n{\"sandbox_permissions\": \"danger-full-access\", \"run_in_background\": true}\n```\nSet `sandbox_permissions` so.", want: "Example:\n```\n{\"sandbox_permissions\": \"danger-full-access\", \"run_in_background\": true}\n```",
			kept: []string{"```\n{\"sandbox_permissions\": \"danger-full-access\", \"run_in_background\": true}\n```"}},
		{name: "fenced code of something else", in: "Set `sandbox_permissions` so.\n\nExample:\n```\nls\n```", want: "Example:\n```\nls\n```"},
		{name: "abbreviations end nothing", in: "Runs e.g. Make. Set `sandbox_permissions` (i.e. The mode) to widen. Prints.", want: "Runs e.g. Make. Prints."},
		{name: "brackets stay whole", in: "Runs (fast. Very fast) commands. Set `sandbox_permissions` to widen. Prints (short. Long).", want: "Runs (fast. Very fast) commands. Prints (short. Long)."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := edit(tt.in, shell)
			got := apply(tt.in, e)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			var kept []string
			for _, k := range e.kept {
				kept = append(kept, k.text)
			}
			if diff := cmp.Diff(tt.kept, kept); diff != "" {
				t.Errorf("reported (-want +got)\n%s", diff)
			}
		})
	}
}

// Sentences about other things survive, whatever run stands between them.
func TestProseKeepsTheHonestRest(t *testing.T) {
	honest := []string{
		"Runs a shell command.", "Output over 30 kB is cut.", "Files are made with permission 0644.",
		"Use `rg` rather than `grep`.", "Set `timeout` in milliseconds.", "Paths with spaces need quotes.",
		"Variables (e.g. PATH) do not last.", "Use run_in_background for servers.", "Version 1.2 and later print colours.",
	}
	runs := []string{
		"Set `sandbox_permissions` to widen.",
		"Use danger-full-access if the disk is needed.",
		"If a command is denied, you may escalate. Set `sandbox_permissions` and give a `justification`. The user will be asked.",
		"Pass sandbox_permissions=danger-full-access. This needs approval. Only then run it again.",
	}
	rapid.Check(t, func(t *rapid.T) {
		sep := rapid.SampledFrom([]string{" ", "\n\n", "\n- "}).Draw(t, "separator")
		var all, want []string
		for range rapid.IntRange(1, 8).Draw(t, "pieces") {
			if rapid.Bool().Draw(t, "run") {
				all = append(all, rapid.SampledFrom(runs).Draw(t, "text"))
			} else {
				s := rapid.SampledFrom(honest).Draw(t, "text")
				all, want = append(all, s), append(want, s)
			}
		}
		lead := ""
		if sep == "\n- " {
			lead = "- "
		}
		in := lead + strings.Join(all, sep)
		out := ""
		if len(want) > 0 {
			out = lead + strings.Join(want, sep)
		}
		if got := apply(in, edit(in, shell)); got != out {
			t.Fatalf("edit(%q)\n got %q\nwant %q", in, got, out)
		}
	})
}

// What is left is well-formed however blocks, markers and runs are mixed.
func TestProseSeams(t *testing.T) {
	line := rapid.SampledFrom([]string{
		"Runs a command.", "Set `sandbox_permissions` to widen.", "- Use rg.", "- Set `sandbox_permissions`.", "  - Retry with `sandbox_permissions`.",
		"  - Read the log.", "When denied:", "- On failure:", "# Rights", "## Output", "", "", "It may be refused.", "1. First.", "2. Pass `sandbox_permissions`.",
	})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(line, 0, 14).Draw(t, "lines"), "\n")
		got := apply(in, edit(in, shell))
		if got == in {
			return
		}
		if strings.Contains(got, "sandbox_permissions") {
			t.Fatalf("%q\nstill names the field: %q", in, got)
		}
		for _, l := range strings.Split(got, "\n") {
			if s := strings.TrimSpace(l); s == "-" || s == "1." || s == "2." || s == "#" || s == "##" {
				t.Fatalf("%q\nleft a bare marker: %q", in, got)
			}
			if strings.Contains(strings.TrimLeft(l, " "), "  ") || strings.HasSuffix(l, " ") {
				t.Fatalf("%q\nleft a seam: %q", in, got)
			}
		}
		// Every line that is left was a line before, or a part of one.
		rest := in
		for _, l := range strings.Split(got, "\n") {
			i := strings.Index(rest, l)
			if i < 0 {
				t.Fatalf("%q\nmade a new line %q", in, l)
			}
			rest = rest[i+len(l):]
		}
	})
}
