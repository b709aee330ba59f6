package agents

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each client's entry must hold together by itself.
func TestTableIsConsistent(t *testing.T) {
	ids := map[string]bool{}
	for _, c := range Builtin().Clients() {
		if c.ID == "" || ids[c.ID] {
			t.Errorf("client id %q is empty or used twice", c.ID)
		}
		ids[c.ID] = true
		if c.Versions == "" {
			t.Errorf("%s: no word on its versions", c.ID)
		}
		if c.Refusal != UnknownTool && c.Refusal != Invalid {
			t.Errorf("%s: refusal %q is no form for all tools", c.ID, c.Refusal)
		}
		names := map[string]bool{}
		for _, tool := range c.Tools {
			at := c.ID + " " + tool.Name
			if tool.Name == "" || names[tool.Name] {
				t.Errorf("%s: the name is empty or used twice", at)
			}
			names[tool.Name] = true
			checkTool(t, at, tool)
		}
	}
}

func checkTool(t *testing.T, at string, tool Tool) {
	t.Helper()
	if !tool.Kind.Valid() {
		t.Errorf("%s: kind %q", at, tool.Kind)
	}
	if (tool.Kind == Shell) != (len(tool.Command) > 0) {
		t.Errorf("%s: a shell tool, and no other, has a command argument", at)
	}
	if tool.Kind != Shell && (len(tool.Dir) > 0 || len(tool.Interpreter) > 0 || len(tool.Env) > 0 || tool.Opaque || tool.Refusal == Printf) {
		t.Errorf("%s: has what only a shell tool has", at)
	}
	if tool.Kind != Code && (len(tool.Code) > 0 || tool.Refusal == Text) {
		t.Errorf("%s: has what only a code tool has", at)
	}
	if tool.Opaque && tool.Refusal == Printf {
		t.Errorf("%s: a POSIX refusal would go where no POSIX command is read", at)
	}
	writes := len(tool.Patch) > 0
	for _, list := range [][]Arg{tool.Command, tool.Code, tool.Patch, tool.Paths, tool.Dir, tool.Interpreter, tool.Env} {
		for i, a := range list {
			if a.Path == "" || a.Form == 0 {
				t.Errorf("%s: argument %+v is incomplete", at, a)
			}
			if i > 0 && list[i-1].Path >= a.Path {
				t.Errorf("%s: argument %s is doubled or out of order", at, a.Path)
			}
			writes = writes || a.Op == OpWrite
		}
	}
	for _, a := range tool.Paths {
		if a.Op != OpRead && a.Op != OpWrite {
			t.Errorf("%s: path argument %s has no op", at, a.Path)
		}
	}
	if (tool.Kind == Write) != writes {
		t.Errorf("%s: kind %s, but writes=%t", at, tool.Kind, writes)
	}
	if tool.Kind == Read && len(tool.Paths) == 0 {
		t.Errorf("%s: reads, but no argument says what", at)
	}
	groups := map[string]int{}
	for _, f := range tool.Escalation {
		if f.Name == "" {
			t.Errorf("%s: an escalation field has no name", at)
		}
		groups[f.Group]++
	}
	for g, n := range groups {
		if g != "" && n < 2 {
			t.Errorf("%s: group %s has one field, so it pairs nothing", at, g)
		}
	}
}

// The escalation fields that the catalogue promises, each with its partners.
func TestEscalationPairs(t *testing.T) {
	dshPair := []string{"justification", "sandbox_permissions"}
	codexSet := []string{"additional_permissions", "justification", "prefix_rule", "sandbox_permissions", "with_escalated_permissions"}
	for _, row := range []struct {
		client string
		tools  []string
		field  string
		pair   []string
	}{
		{"dsh", []string{"bash", "write", "edit", "pwsh", "run_code"}, "sandbox_permissions", dshPair},
		{"dsh", []string{"bash", "write", "edit", "pwsh", "run_code"}, "justification", dshPair},
		{"codex", []string{"exec_command", "shell", "shell_command", "local_shell", "exec"}, "sandbox_permissions", codexSet},
		{"codex", []string{"exec_command", "shell", "shell_command", "local_shell", "exec"}, "with_escalated_permissions", codexSet},
		{"codex", []string{"exec_command"}, "prefix_rule", codexSet},
		{"codex", []string{"exec_command"}, "additional_permissions", codexSet},
		{"claude-code", []string{"Bash", "Monitor"}, "dangerouslyDisableSandbox", []string{"dangerouslyDisableSandbox"}},
		{"gemini-cli", []string{"run_shell_command"}, "additional_permissions", []string{"additional_permissions"}},
	} {
		c := Builtin().Client(row.client)
		for _, name := range row.tools {
			tool, ok := Builtin().ByName(name, c)
			if !ok {
				t.Errorf("%s has no %s", row.client, name)
				continue
			}
			if !slices.ContainsFunc(tool.Escalation, func(f Field) bool { return f.Name == row.field }) {
				t.Errorf("%s %s: no field %s", row.client, name, row.field)
			}
			if got := tool.Pair(row.field); !slices.Equal(got, row.pair) {
				t.Errorf("%s %s: %s goes with %v, want %v", row.client, name, row.field, got, row.pair)
			}
		}
	}
	if got := (Tool{}).Pair("x"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("a field that nobody knows goes with %v", got)
	}
	if got := Builtin().Escalators(); !slices.Equal(got, []string{"request_permissions"}) {
		t.Errorf("Escalators() = %v", got)
	}
}

// The whole table as text, so that a change of the data is read as one.
func TestGoldenTable(t *testing.T) {
	var b strings.Builder
	for _, c := range Builtin().Clients() {
		fmt.Fprintf(&b, "%s (%s)\n", c.ID, c.Versions)
		fmt.Fprintf(&b, "  detect  user-agent %q, header %q\n", c.UserAgents, c.Headers)
		fmt.Fprintf(&b, "  ids     session %q, agent %q, parent %q\n", c.Session, c.Agent, c.Parent)
		fmt.Fprintf(&b, "  refusal %s\n", c.Refusal)
		tools := slices.SortedFunc(slices.Values(c.Tools), func(x, y Tool) int { return cmp.Compare(x.Name, y.Name) })
		for _, tool := range tools {
			fmt.Fprintf(&b, "  %s\n", render(tool, &c))
		}
		b.WriteString("\n")
	}
	b.WriteString("names of several clients, client unknown\n")
	for _, name := range sharedNames() {
		tool, _ := Builtin().ByName(name, nil)
		fmt.Fprintf(&b, "  %s\n", render(tool, nil))
	}
	golden(t, "testdata/table.golden", b.String())
}

func render(tool Tool, c *Client) string {
	var b strings.Builder
	seen := "-"
	if tool.Seen {
		seen = "+"
	}
	fmt.Fprintf(&b, "%s %-5s %s", seen, tool.Kind, tool.Name)
	list := func(label string, args []Arg) {
		for _, a := range args {
			fmt.Fprintf(&b, "  %s=%s", label, a.Path)
			if a.Form != String {
				fmt.Fprintf(&b, ":%s", map[Form]string{List: "list", String | List: "string|list", Map: "map"}[a.Form])
			}
			if a.Op != "" {
				fmt.Fprintf(&b, ":%s", a.Op)
			}
			if a.Required {
				b.WriteString("!")
			}
		}
	}
	list("command", tool.Command)
	list("code", tool.Code)
	list("patch", tool.Patch)
	list("path", tool.Paths)
	list("dir", tool.Dir)
	list("shell", tool.Interpreter)
	list("env", tool.Env)
	for _, f := range tool.Escalation {
		fmt.Fprintf(&b, "  never=%s", f.Name)
		if len(f.Values) > 0 {
			fmt.Fprintf(&b, "%v", f.Values)
		}
		if f.Group != "" {
			fmt.Fprintf(&b, "@%s", f.Group)
		}
	}
	if tool.Escalates {
		b.WriteString("  never")
	}
	for _, p := range tool.Harmless {
		fmt.Fprintf(&b, "  harmless=%s", p)
	}
	if tool.Opaque {
		b.WriteString("  opaque")
	}
	if tool.Kind == Shell || tool.Kind == Code {
		fmt.Fprintf(&b, "  refused as %s", RefusalFor(tool, c))
	}
	return b.String()
}

func sharedNames() []string {
	count := map[string]int{}
	for _, c := range Builtin().Clients() {
		for _, tool := range c.Tools {
			count[tool.Name]++
		}
	}
	var out []string
	for name, n := range count {
		if n > 1 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}

func TestDetect(t *testing.T) {
	for _, row := range []struct {
		name    string
		headers map[string]string
		want    string
	}{
		{"claude", map[string]string{"User-Agent": "claude-cli/2.1.332 (external, sdk-cli)", "X-Claude-Code-Session-Id": "s"}, "claude-code"},
		{"claude by its header alone", map[string]string{"User-Agent": "Anthropic/JS 0.128.0", "X-Claude-Code-Session-Id": "s"}, "claude-code"},
		{"codex exec", map[string]string{"User-Agent": "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.171.0)"}, "codex"},
		{"codex terminal", map[string]string{"User-Agent": "codex-tui/0.171.0"}, "codex"},
		{"codex cli", map[string]string{"User-Agent": "codex_cli_rs/0.50.0"}, "codex"},
		{"codex desktop", map[string]string{"User-Agent": "Codex Desktop/1.0"}, "codex"},
		{"dsh", map[string]string{"User-Agent": "deepseek-harness/0.1.0-rc.8 (+url)"}, "dsh"},
		{"dsh on Responses sends pi's session header too", map[string]string{"User-Agent": "deepseek-harness/0.1.0-rc.8", "Session_id": "s"}, "dsh"},
		{"opencode", map[string]string{"User-Agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14", "X-Session-Id": "s"}, "opencode"},
		{"the next opencode is another client", map[string]string{"User-Agent": "opencode2/0.1"}, ""},
		{"gemini", map[string]string{"User-Agent": "GeminiCLI-tui/0.61.0/gemini-3.1-pro-preview (linux; x64; terminal)"}, "gemini-cli"},
		{"qwen", map[string]string{"User-Agent": "QwenCode/0.15.10 (linux; x64)"}, "qwen-code"},
		{"crush", map[string]string{"User-Agent": "Charm-Crush/v0.97.1 (https://charm.land/crush)"}, "crush"},
		{"pi says nothing", map[string]string{"User-Agent": "OpenAI/JS 6.26.0", "Session_id": "s"}, ""},
		{"the user agent stands over another's header", map[string]string{"User-Agent": "QwenCode/1", "X-Claude-Code-Session-Id": "s"}, "qwen-code"},
		{"two clients' headers", map[string]string{"X-Claude-Code-Session-Id": "s", "X-Deepseek-Harness-Session-Id": "s"}, ""},
		{"case of the user agent", map[string]string{"User-Agent": "Claude-CLI/3"}, "claude-code"},
		{"a prefix is not enough", map[string]string{"User-Agent": "claude"}, ""},
		{"nothing", nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := http.Header{}
			for k, v := range row.headers {
				h.Set(k, v)
			}
			got := ""
			if c := Builtin().Detect(h.Get); c != nil {
				got = c.ID
			}
			if got != row.want {
				t.Errorf("Detect = %q, want %q", got, row.want)
			}
		})
	}
}

func TestSessionHeaders(t *testing.T) {
	tab := Builtin()
	if got := tab.SessionHeaders(tab.Client("opencode")); got[0] != "X-Session-Id" {
		t.Errorf("opencode's own header isn't first: %v", got)
	}
	for name, got := range map[string][]string{"session": tab.SessionHeaders(nil), "agent": tab.AgentHeaders(nil), "parent": tab.ParentHeaders(nil)} {
		if s := slices.Compact(slices.Sorted(slices.Values(got))); len(s) != len(got) || len(got) == 0 {
			t.Errorf("%s headers are doubled or none: %v", name, got)
		}
	}
	for _, want := range []string{"X-Claude-Code-Session-Id", "Session-Id", "X-Session-Id", "session_id", "X-Deepseek-Harness-Session-Id"} {
		if !slices.Contains(tab.SessionHeaders(nil), want) {
			t.Errorf("no session header %s", want)
		}
	}
}

func TestByName(t *testing.T) {
	tab := Builtin()
	pathOf := func(c *Client) string {
		tool, ok := tab.ByName("edit", c)
		if !ok {
			t.Fatal("no edit")
		}
		var out []string
		for _, a := range tool.Paths {
			out = append(out, a.Path)
		}
		return strings.Join(out, " ")
	}
	for _, row := range []struct{ client, want string }{
		{"opencode", "filePath"}, {"pi", "path"}, {"dsh", "file_path"}, {"qwen-code", "file_path"}, {"crush", "file_path"},
		{"", "filePath file_path path"}, {"claude-code", "filePath file_path path"},
	} {
		if got := pathOf(tab.Client(row.client)); got != row.want {
			t.Errorf("edit of %q: paths %q, want %q", row.client, got, row.want)
		}
	}
	if _, ok := tab.ByName("EDIT", nil); ok {
		t.Error("names match without case")
	}
	if _, ok := tab.ByName("no_such_tool", nil); ok {
		t.Error("an unknown tool is known")
	}
	if _, ok := tab.ByName("bash", &Client{ID: "stranger"}); !ok {
		t.Error("a client of no table hides the entries of a name")
	}
}

func TestClassify(t *testing.T) {
	tab := Builtin()
	command := []Param{{Name: "command", Text: true}, {Name: "timeout"}}
	for _, row := range []struct {
		name, tool, client string
		params             []Param
		kind               Kind
		known              bool
	}{
		{"own entry", "bash", "dsh", command, Shell, true},
		{"own entry explains its parameter", "task", "opencode", command, Other, true},
		{"own entry doesn't explain a new one", "task", "opencode", []Param{{Name: "cmd", Text: true}}, Shell, true},
		{"nor a new one of a tool that reads", "read", "dsh", command, Shell, true},
		{"own code is explained", "run_code", "dsh", []Param{{Name: "code", Text: true}}, Code, true},
		{"another's harmless entry doesn't", "task", "", command, Shell, true},
		{"nor for a client without it", "exec", "pi", command, Shell, true},
		{"code stays code where no command is declared", "exec", "", nil, Code, true},
		{"own script is no shell", "Workflow", "claude-code", []Param{{Name: "script", Text: true}}, Code, true},
		{"a choice named command is none", "str_replace_editor", "", []Param{{Name: "command"}, {Name: "path", Text: true}}, Write, true},
		{"uncatalogued with a command", "mcp__box__run", "claude-code", command, Shell, true},
		{"uncatalogued without", "mcp__box__say", "claude-code", []Param{{Name: "text", Text: true}}, "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			tool, known := tab.Classify(row.tool, tab.Client(row.client), row.params)
			if known != row.known || tool.Kind != row.kind {
				t.Errorf("Classify = %q %t, want %q %t", tool.Kind, known, row.kind, row.known)
			}
		})
	}
}

func TestWithKinds(t *testing.T) {
	base := Builtin()
	tab := base.WithKinds(map[string]Kind{"mcp__box__go": Shell, "Skill": Write, "Bash": Other}).WithKinds(map[string]Kind{"note": Read})
	claude := tab.Client("claude-code")
	for _, row := range []struct {
		tool string
		want Kind
	}{{"mcp__box__go", Shell}, {"Skill", Write}, {"Bash", Other}, {"note", Read}, {"Read", Read}} {
		for _, c := range []*Client{nil, claude, tab.Client("pi")} {
			if tool, ok := tab.ByName(row.tool, c); !ok || tool.Kind != row.want {
				t.Errorf("%s of %v: %q %t, want %q", row.tool, c, tool.Kind, ok, row.want)
			}
		}
	}
	tool, _ := tab.ByName("mcp__box__go", nil)
	cmds, err := tool.Commands([]byte(`{"cmd":"ls"}`))
	if err != nil || len(cmds) != 1 || cmds[0].Text != "ls" {
		t.Errorf("a tool declared a shell: commands %v, %v", cmds, err)
	}
	if got := RefusalFor(tool, nil); got != UnknownTool {
		t.Errorf("a tool declared a shell is refused as %s: nobody knows which shell", got)
	}
	tool, _ = tab.Classify("Bash", nil, []Param{{Name: "command", Text: true}})
	if tool.Kind != Other {
		t.Errorf("the general rule stands over the operator: %s", tool.Kind)
	}
	if tool, _ := base.ByName("Bash", nil); tool.Kind != Shell {
		t.Error("WithKinds changed its receiver")
	}
}

func TestRefusalFor(t *testing.T) {
	tab := Builtin()
	for _, row := range []struct {
		tool, client string
		want         Refusal
	}{
		{"bash", "dsh", Printf}, {"bash", "", Printf}, {"Bash", "claude-code", Printf}, {"shell", "codex", Printf},
		{"pwsh", "dsh", UnknownTool}, {"write_stdin", "codex", UnknownTool}, {"exec", "codex", Text}, {"run_code", "dsh", UnknownTool},
		{"write", "dsh", UnknownTool}, {"write", "opencode", Invalid}, {"bash", "opencode", Printf}, {"write", "", UnknownTool},
	} {
		c := tab.Client(row.client)
		tool, ok := tab.ByName(row.tool, c)
		if got := RefusalFor(tool, c); !ok || got != row.want {
			t.Errorf("%s of %q is refused as %s, want %s", row.tool, row.client, got, row.want)
		}
	}
	if got := RefusalFor(Tool{}, tab.Client("opencode")); got != Invalid {
		t.Errorf("an uncatalogued tool of opencode is refused as %s", got)
	}
}
