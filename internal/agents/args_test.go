package agents

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCommands(t *testing.T) {
	tab := Builtin()
	for _, row := range []struct {
		name, tool, client, args string
		want                     []Value
		err                      string
	}{
		{"string", "bash", "dsh", `{"command":"ls\n-l"}`, []Value{{Path: "command", Text: "ls\n-l"}}, ""},
		{"list", "shell", "codex", `{"command":["bash","-lc","ls"]}`, []Value{{Path: "command", List: []string{"bash", "-lc", "ls"}}}, ""},
		{"string for the same tool", "shell", "codex", `{"command":"ls"}`, []Value{{Path: "command", Text: "ls"}}, ""},
		{"empty list", "shell", "codex", `{"command":[]}`, []Value{{Path: "command", List: []string{}}}, ""},
		{"nested", "local_shell", "codex", `{"action":{"type":"exec","command":["ls"]}}`, []Value{{Path: "action.command", List: []string{"ls"}}}, ""},
		{"key in another case", "bash", "crush", `{"Command":"ls"}`, []Value{{Path: "command", Text: "ls"}}, ""},
		{"other arguments", "exec_command", "codex", `{"workdir":"/","cmd":"ls"}`, []Value{{Path: "cmd", Text: "ls"}}, ""},
		{"optional and absent", "Monitor", "claude-code", `{"ws":{"url":"x"}}`, nil, ""},
		{"absent for an unknown client", "bash", "", `{"restart":true}`, nil, ""},
		{"missing", "bash", "dsh", `{"cmd":"ls"}`, nil, "command is missing"},
		{"null", "bash", "dsh", `{"command":null}`, nil, "command is missing"},
		{"list where a string belongs", "bash", "dsh", `{"command":["ls"]}`, nil, "command is an array"},
		{"object", "bash", "dsh", `{"command":{"a":1}}`, nil, "command is an object"},
		{"number", "bash", "", `{"command":1}`, nil, "command is a number"},
		{"boolean", "shell", "codex", `{"command":true}`, nil, "command is a boolean"},
		{"list with a number", "shell", "codex", `{"command":["ls",1]}`, nil, "command is an array"},
		{"no object", "bash", "dsh", `["ls"]`, nil, "not an object"},
		{"no JSON", "bash", "dsh", `{"command":`, nil, "not JSON"},
		{"typed into a live shell", "write_stdin", "codex", `{"session_id":1,"chars":"ls\n"}`, []Value{{Path: "chars", Text: "ls\n"}}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			tool, ok := tab.ByName(row.tool, tab.Client(row.client))
			if !ok {
				t.Fatal("no such tool")
			}
			got, err := tool.Commands([]byte(row.args))
			if row.err != "" {
				if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), row.err) {
					t.Fatalf("error %v, want one with %q", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProgramsAndDirs(t *testing.T) {
	tab := Builtin()
	exec, _ := tab.ByName("exec", tab.Client("codex"))
	if got, err := exec.Programs([]byte(`{"input":"text(1)"}`)); err != nil || len(got) != 1 || got[0].Text != "text(1)" {
		t.Errorf("Programs = %v, %v", got, err)
	}
	shell, _ := tab.ByName("run_shell_command", nil)
	got, err := shell.Dirs([]byte(`{"command":"ls","dir_path":"/a","directory":"/b"}`))
	if diff := cmp.Diff([]Value{{Path: "dir_path", Text: "/a"}, {Path: "directory", Text: "/b"}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestPathsIn(t *testing.T) {
	tab := Builtin()
	for _, row := range []struct {
		name, tool, client, args string
		want                     []Path
		err                      bool
	}{
		{"write", "write", "pi", `{"path":"a","content":"x"}`, []Path{{"a", OpWrite}}, false},
		{"unknown client, each spelling", "write", "", `{"filePath":"b"}`, []Path{{"b", OpWrite}}, false},
		{"unknown client, several", "write", "", `{"filePath":"b","path":"c"}`, []Path{{"b", OpWrite}, {"c", OpWrite}}, false},
		{"each of a list", "read_many_files", "", `{"include":["a","b/*"]}`, []Path{{"a", OpRead}, {"b/*", OpRead}}, false},
		{"a string in the place of a list", "read_many_files", "", `{"include":"a"}`, []Path{{"a", OpRead}}, false},
		{"inside a list of objects", "MultiEdit", "claude-code", `{"file_path":"a","edits":[{"file_path":"b"},{"x":1},{"file_path":"a"}]}`, []Path{{"b", OpWrite}, {"a", OpWrite}}, false},
		{"none is named", "glob", "", `{"pattern":"*"}`, nil, false},
		{"empty", "glob", "", `{"path":""}`, nil, false},
		{"patch of a function", "apply_patch", "opencode", `{"patchText":"*** Begin Patch\n*** Delete File: x\n*** End Patch"}`, []Path{{"x", OpWrite}}, false},
		{"patch of a freeform call", "apply_patch", "codex", `{"input":"*** Begin Patch\n*** Add File: y\n+z\n*** End Patch"}`, []Path{{"y", OpWrite}}, false},
		{"patch, client unknown", "apply_patch", "", `{"input":"*** Begin Patch\n*** Update File: y\n*** End Patch","patchText":"*** Begin Patch\n*** Update File: z\n*** End Patch\n"}`, []Path{{"y", OpWrite}, {"z", OpWrite}}, false},
		{"missing", "Write", "claude-code", `{"content":"x"}`, nil, true},
		{"wrong type", "write", "", `{"path":["a"]}`, nil, true},
		{"a patch that is none", "apply_patch", "codex", `{"input":"--- a/x\n+++ b/x\n"}`, nil, true},
		{"one of two patches is none", "apply_patch", "", `{"input":"*** Begin Patch\n*** Update File: y\n*** End Patch","patchText":"x"}`, nil, true},
		{"patch of a wrong type", "apply_patch", "codex", `{"input":1}`, nil, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			tool, ok := tab.ByName(row.tool, tab.Client(row.client))
			if !ok {
				t.Fatal("no such tool")
			}
			got, err := tool.PathsIn([]byte(row.args))
			if errors.Is(err, ErrArgument) != row.err {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever string is put where the table says, it is found, decoded.
func TestPathsAreFoundWhereverTheTableSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(Builtin().Clients()).Draw(t, "client")
		tool := rapid.SampledFrom(c.Tools).Draw(t, "tool")
		value := rapid.StringMatching(`[^\x00]{1,20}`).Draw(t, "value")
		root := map[string]any{}
		for _, a := range tool.Paths {
			put(root, a.Path, value)
		}
		for _, a := range tool.Patch {
			put(root, a.Path, "*** Begin Patch\n*** Delete File: patched\n*** End Patch")
		}
		args, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		json.Unmarshal(args, &root)
		got, err := tool.PathsIn(args)
		if err != nil {
			t.Fatal(err)
		}
		found := map[Op]bool{}
		for _, p := range got {
			if p.Path == "patched" && len(tool.Patch) > 0 {
				continue
			}
			found[p.Op] = true
			if p.Path != value {
				t.Fatalf("path %q, want %q", p.Path, value)
			}
		}
		for _, a := range tool.Paths {
			if !found[a.Op] {
				t.Fatalf("%s in %s isn't found", a.Path, args)
			}
		}
	})
}

func put(at map[string]any, path string, value string) {
	step, rest, more := strings.Cut(path, ".")
	name, list := strings.CutSuffix(step, "[]")
	switch {
	case list && more:
		inner := map[string]any{}
		put(inner, rest, value)
		at[name] = []any{inner}
	case list:
		at[name] = []any{value}
	case more:
		inner, _ := at[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		put(inner, rest, value)
		at[name] = inner
	default:
		at[name] = value
	}
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"command":"ls"}`, `{"command":["a"]}`, `{"edits":[{"file_path":"a"}]}`, `{"input":"*** Add File: a"}`, `[]`, `{"a":`, ``, `null`, "{\"path\":\"\x00\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		for _, name := range sharedNames() {
			tool, _ := Builtin().ByName(name, nil)
			cmds, err := tool.Commands(args)
			if err != nil && !errors.Is(err, ErrArgument) {
				t.Fatalf("error %v", err)
			}
			if err == nil && !json.Valid(args) && len(cmds) > 0 {
				t.Fatalf("commands in what is no JSON: %v", cmds)
			}
			if _, err := tool.PathsIn(args); err != nil && !errors.Is(err, ErrArgument) {
				t.Fatalf("error %v", err)
			}
		}
	})
}
