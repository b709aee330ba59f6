package proxy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/fakemodel"
)

// The tools of Codex, classic and in code mode, and those of the API.
const (
	execCommand    = `{"type":"function","name":"exec_command","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"},"justification":{"type":"string"},"prefix_rule":{"type":"array","items":{"type":"string"}},"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]},"shell":{"type":"string"},"workdir":{"type":"string"}},"required":["cmd"],"additionalProperties":false}}`
	writeStdin     = `{"type":"function","name":"write_stdin","parameters":{"type":"object","properties":{"chars":{"type":"string"},"session_id":{"type":"number"}},"required":["session_id"]}}`
	applyPatch     = `{"type":"custom","name":"apply_patch","description":"Edits files."}`
	viewImage      = `{"type":"function","name":"view_image","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`
	apiTools       = `{"type":"local_shell"},{"type":"shell","environment":{"type":"local"}},{"type":"apply_patch"},{"type":"computer_use_preview","display_width":1,"display_height":1,"environment":"linux"},{"type":"web_search"},{"type":"mcp","server_label":"docs","server_url":"https://mcp.example"}`
	custom         = `{"type":"custom","name":"frobnicate"}`
	classicTools   = `"tools":[` + execCommand + `,` + writeStdin + `,` + applyPatch + `,` + viewImage + `,` + apiTools + `,` + custom + `]`
	codeTools      = `{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec","description":"Runs JavaScript."},{"type":"function","name":"wait","parameters":{"type":"object","properties":{}}}]},{"type":"namespace","name":"clock","tools":[{"type":"function","name":"sleep","parameters":{"type":"object","properties":{"ms":{"type":"number"}}}}]}]}`
	responsesAsk   = `{"model":"m","stream":true,"store":false,"input":[` + codeTools + `,{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}],` + classicTools + `}`
	responsesHeld  = `{"model":"m","stream":true,"previous_response_id":"resp_0","input":[{"role":"user","content":"go"}],` + classicTools + `}`
	codexUserAgent = "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.171.0)"
)

// speaking is an upstream that makes the given calls, whatever it is asked.
func speaking(items ...fakemodel.Item) http.HandlerFunc {
	return fakemodel.New(fakemodel.Script{Choose: func(fakemodel.History) fakemodel.Round { return fakemodel.Round{Items: items} }}, fakemodel.Options{}).ServeHTTP
}

// seenBy records what guards are shown and denies calls that hold a word.
type seenBy struct {
	mu    sync.Mutex
	deny  string
	calls []guards.Call
}

func (s *seenBy) chain() guards.Chain {
	return guards.Chain{{Name: "g", Guard: guardFunc(func(c *guards.Call) guards.Verdict {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, *c)
		if s.deny != "" && strings.Contains(string(c.Arguments), s.deny) {
			return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: "no"}
		}
		return guards.Verdict{}
	})}}
}

// output is the list of items of a reply: of its last event, or whole.
func output(t *testing.T, body string) []map[string]any {
	t.Helper()
	if i := strings.LastIndex(body, "data: "); i >= 0 {
		body = body[i+6:]
	}
	var r struct {
		Output   []map[string]any
		Response struct{ Output []map[string]any }
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return append(r.Output, r.Response.Output...)
}

// What guards see of each kind of call, and that it comes through unchanged.
func TestResponsesCallsAsGuardsSeeThem(t *testing.T) {
	type call = fakemodel.Call
	patch := "*** Begin Patch\n*** Add File: a b.txt\n+x\n*** Update File: old\n*** Move to: new\n@@\n-x\n+y\n*** End Patch\n"
	patchPaths := []guards.Path{{Path: "a b.txt", Op: "write"}, {Path: "old", Op: "write"}, {Path: "new", Op: "write"}}
	exec := func(src string) call {
		return call{Tool: "exec", Namespace: "functions", Item: "custom_tool_call", Args: src}
	}
	shell := func(opaque bool, argv ...[]string) *guards.Shell { return &guards.Shell{Argv: argv, Opaque: opaque} }
	for _, c := range []struct {
		name  string
		call  call
		kind  string
		args  string // as guards see them; "" for those of the call
		shell *guards.Shell
		paths []guards.Path
	}{
		{"a command", call{Tool: "exec_command", Args: `{"cmd":"ls -la | head", "workdir":"/x"}`}, "shell", "", shell(false, []string{"ls", "-la"}, []string{"head"}), nil},
		{"a shell of the system", call{Tool: "exec_command", Args: `{"cmd":"ls","shell":"/bin/bash"}`}, "shell", "", shell(false, []string{"ls"}), nil},
		{"another language", call{Tool: "exec_command", Args: `{"cmd":"ls","shell":"/usr/bin/fish"}`}, "shell", "", shell(true, []string{"ls"}), nil},
		{"keys for a live shell", call{Tool: "write_stdin", Args: `{"session_id":1,"chars":"ls\n"}`}, "shell", "", shell(true, []string{"ls"}), nil},
		{"waiting for a live shell", call{Tool: "write_stdin", Args: `{"session_id":1}`}, "shell", "", shell(true), nil},
		{"a patch in a command", call{Tool: "exec_command", Args: `{"cmd":` + quote("apply_patch <<'EOF'\n"+patch+"EOF") + `}`}, "shell", "", shell(false, []string{"apply_patch"}), patchPaths},
		{"a patch from elsewhere", call{Tool: "exec_command", Args: `{"cmd":"apply_patch < x"}`}, "shell", "", shell(true, []string{"apply_patch"}), []guards.Path{{Path: "x", Op: "read"}}},
		{"a freeform patch", call{Tool: "apply_patch", Item: "custom_tool_call", Args: patch}, "write", `{"input":` + quote(patch) + `}`, nil, patchPaths},
		{"an image", call{Tool: "view_image", Args: `{"path":"/x.png"}`}, "read", "", nil, []guards.Path{{Path: "/x.png", Op: "read"}}},
		{"a custom tool that nobody knows", call{Tool: "frobnicate", Item: "custom_tool_call", Args: "rm -rf /"}, "code", `{"input":"rm -rf /"}`, shell(true), nil},
		{"a local shell", call{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","command":["bash","-lc","ls /x; id"],"env":{},"working_directory":"/w/y"}`}, "shell", "", shell(false, []string{"cd", "/w/y"}, []string{"bash", "-lc", "ls /x; id"}, []string{"ls", "/x"}, []string{"id"}), nil},
		{"a local shell with an environment", call{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","command":["ls"],"env":{"PATH":"/tmp"}}`}, "shell", "", shell(true, []string{"env", "PATH=/tmp", "ls"}, []string{"ls"}), nil},
		{"a shell's scripts", call{Tool: "shell", Item: "shell_call", Args: `{"commands":["ls /x","id"],"timeout_ms":null,"max_output_length":null}`}, "shell", "", shell(false, []string{"ls", "/x"}, []string{"id"}), nil},
		{"scripts that may share a shell", call{Tool: "shell", Item: "shell_call", Args: `{"commands":["cd /","rm -r x"]}`}, "shell", "", shell(true, []string{"cd", "/"}, []string{"rm", "-r", "x"}), nil},
		{"a patch of the API", call{Tool: "apply_patch", Item: "apply_patch_call", Args: `{"type":"delete_file","path":"/etc/x"}`}, "write", "", nil, []guards.Path{{Path: "/etc/x", Op: "write"}}},
		{"a click", call{Tool: "computer", Item: "computer_call", Args: `{"type":"click","x":1,"y":2,"button":"left"}`}, "other", "", nil, nil},
		{"a program", exec("const r = await tools.exec_command({cmd: \"ls -la\"});\ntext(r.output)"), "code", `{"input":"const r = await tools.exec_command({cmd: \"ls -la\"});\ntext(r.output)"}`, shell(false, []string{"ls", "-la"}), nil},
		{"a program of text", exec("text('hi')"), "code", `{"input":"text('hi')"}`, shell(false), nil},
		{"a program with directories", exec("await tools.exec_command({cmd: 'cd sub; ls'}); await tools.exec_command({cmd: 'rm x', workdir: 'y'}); await tools.exec_command({cmd: 'id'})"), "code",
			`{"input":"await tools.exec_command({cmd: 'cd sub; ls'}); await tools.exec_command({cmd: 'rm x', workdir: 'y'}); await tools.exec_command({cmd: 'id'})"}`,
			shell(false, []string{"cd", "sub"}, []string{"ls"}, []string{"cd", "/work space"}, []string{"cd", "y"}, []string{"rm", "x"}, []string{"cd", "/work space"}, []string{"id"}), nil},
		{"a program that redirects", exec("await tools.exec_command({cmd: 'id > out; ls 2> ~/log', workdir: 'y'})"), "code", `{"input":"await tools.exec_command({cmd: 'id > out; ls 2> ~/log', workdir: 'y'})"}`,
			shell(true, []string{"cd", "y"}, []string{"id"}, []string{"ls"}), []guards.Path{{Path: "y/out", Op: "write"}, {Path: "~/log", Op: "write"}}},
		{"a program with a loop", exec("for (;;) await tools.exec_command({cmd: 'rm -rf /'})"), "code", `{"input":"for (;;) await tools.exec_command({cmd: 'rm -rf /'})"}`, shell(true, []string{"rm", "-rf", "/"}), nil},
		{"a program that writes to a live shell", exec("await tools.write_stdin({session_id: 1, chars: 'ls\\n'})"), "code", `{"input":"await tools.write_stdin({session_id: 1, chars: 'ls\\n'})"}`, shell(true), nil},
		{"a program that patches", exec("text(JSON.stringify(await tools.apply_patch(" + quote(patch) + ")))"), "code", `{"input":` + quote("text(JSON.stringify(await tools.apply_patch("+quote(patch)+")))") + `}`, shell(true), patchPaths},
		{"a program whose command patches", exec("await tools.exec_command({cmd: " + quote("apply_patch <<'EOF'\n"+patch+"EOF") + ", workdir: '/etc'})"), "code", `{"input":` + quote("await tools.exec_command({cmd: "+quote("apply_patch <<'EOF'\n"+patch+"EOF")+", workdir: '/etc'})") + `}`,
			shell(false, []string{"cd", "/etc"}, []string{"apply_patch"}), []guards.Path{{Path: "/etc/a b.txt", Op: "write"}, {Path: "/etc/old", Op: "write"}, {Path: "/etc/new", Op: "write"}}},
		{"a program in a loop whose command patches", exec("for (;;) await tools.exec_command({cmd: " + quote("apply_patch <<'EOF'\n"+patch+"EOF") + "})"), "code", `{"input":` + quote("for (;;) await tools.exec_command({cmd: "+quote("apply_patch <<'EOF'\n"+patch+"EOF")+"})") + `}`,
			shell(true, []string{"apply_patch"}), patchPaths},
		{"a patch in a local shell elsewhere", call{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","command":["apply_patch",` + quote(patch) + `],"env":{},"working_directory":"/etc"}`}, "shell", "",
			shell(false, []string{"cd", "/etc"}, []string{"apply_patch", patch}), []guards.Path{{Path: "/etc/a b.txt", Op: "write"}, {Path: "/etc/old", Op: "write"}, {Path: "/etc/new", Op: "write"}}},
		{"a program with another shell", exec("tools.exec_command({cmd: 'ls', shell: '/usr/bin/fish'})"), "code", `{"input":"tools.exec_command({cmd: 'ls', shell: '/usr/bin/fish'})"}`, shell(true, []string{"ls"}), nil},
		{"the namespace of tools without one", call{Tool: "exec_command", Namespace: "functions", Args: `{"cmd":"ls"}`}, "shell", "", shell(false, []string{"ls"}), nil},
		{"a namespace left out where it is clear", call{Tool: "sleep", Args: `{"ms":1}`}, "other", "", nil, nil},
		{"a namespace left out", call{Tool: "exec", Item: "custom_tool_call", Args: "text('hi')"}, "code", `{"input":"text('hi')"}`, shell(false), nil},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, " stream ", stream), func(t *testing.T) {
				g := &seenBy{}
				up := speaking(fakemodel.Text("hi"), c.call)
				r := newRig(t, up, func(o *Options) { o.Guards = g.chain() })
				ask := strings.Replace(responsesAsk, `"stream":true`, fmt.Sprintf(`"stream":%v`, stream), 1)
				status, _, got := r.send("/v1/responses", ask, "User-Agent", codexUserAgent)
				if status != 200 || len(g.calls) != 1 {
					t.Fatalf("status %d, %d judged: %s", status, len(g.calls), got)
				}
				seen := g.calls[0]
				want := c.args
				if want == "" {
					want = c.call.Args
				}
				if seen.Kind != c.kind || string(seen.Arguments) != want || seen.ArgumentsRaw != c.call.Args || seen.Dialect != "openai-responses" || seen.Name != c.call.Tool || seen.Session.Turn != 1 || seen.Session.Calls != 1 {
					t.Errorf("seen %+v", seen)
				}
				if diff := cmp.Diff(c.shell, seen.Shell); diff != "" {
					t.Error("shell", diff)
				}
				if diff := cmp.Diff(c.paths, seen.Paths); diff != "" {
					t.Error("paths", diff)
				}
				if seen.Document(nil) == nil {
					t.Error("no document")
				}
				sent := r.seen()[0]
				_, _, direct := func() (int, http.Header, string) {
					w := newRecorder()
					req, _ := http.NewRequest("POST", "/v1/responses", strings.NewReader(sent))
					up(w, req)
					return w.status, w.header, w.body.String()
				}()
				if got != direct {
					t.Errorf("got\n%s\nwant\n%s", got, direct)
				}
			})
		}
	}
}

type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newRecorder() *recorder                          { return &recorder{status: 200, header: http.Header{}} }
func (r *recorder) Header() http.Header               { return r.header }
func (r *recorder) WriteHeader(status int)            { r.status = status }
func (r *recorder) Write(p []byte) (n int, err error) { return r.body.Write(p) }

// Calls that no guard is asked about.
func TestResponsesRefusals(t *testing.T) {
	type call = fakemodel.Call
	exec := func(src string) call {
		return call{Tool: "exec", Namespace: "functions", Item: "custom_tool_call", Args: src}
	}
	own := t.TempDir()
	for _, c := range []struct {
		name string
		call call
		why  string // of the refusal
		item string // the type of the item that is there instead
	}{
		{"an undeclared function", call{Tool: "shell", Args: `{"command":["ls"]}`}, "declares no tool named shell", "function_call"},
		{"a function of the name of a tool of the API", call{Tool: "local_shell", Args: `{"command":["ls"]}`}, "declares no tool named local_shell", "function_call"},
		{"a function that is a custom tool", call{Tool: "apply_patch", Args: `{"input":"x"}`}, "declares no tool named apply_patch", "function_call"},
		{"a custom tool that is a function", call{Tool: "exec_command", Item: "custom_tool_call", Args: `ls`}, "declares no tool named exec_command", "custom_tool_call"},
		{"another namespace", call{Tool: "exec", Namespace: "other", Item: "custom_tool_call", Args: "text('x')"}, "declares no tool named exec", "custom_tool_call"},
		{"a name that differs in case", call{Tool: "Exec_command", Args: `{"cmd":"ls"}`}, "declares no tool named Exec_command", "function_call"},
		{"arguments that are no object", call{Tool: "exec_command", Args: `["ls"]`}, "not an object", "function_call"},
		{"no command", call{Tool: "exec_command", Args: `{"workdir":"/"}`}, "cmd is missing", "function_call"},
		{"a command of another type", call{Tool: "exec_command", Args: `{"cmd":["ls"]}`}, "cmd is an array", "function_call"},
		{"a shell in the workspace", call{Tool: "exec_command", Args: `{"cmd":"ls","shell":"./bash"}`}, "the shell ./bash is not one of the system", "function_call"},
		{"a shell by its name", call{Tool: "exec_command", Args: `{"cmd":"ls","shell":"bash"}`}, "the shell bash is not one of the system", "function_call"},
		{"a shell in a program", exec("tools.exec_command({cmd: 'ls', shell: '/tmp/bash'})"), "the shell /tmp/bash of tools.exec_command is not one", "custom_tool_call"},
		{"a shell in a program that is not whole", exec("while (1) tools.exec_command({cmd: 'ls', shell: '/tmp/bash'})"), "the shell /tmp/bash of tools.exec_command is not one", "custom_tool_call"},
		{"a patch that is none", call{Tool: "apply_patch", Item: "custom_tool_call", Args: "--- a/x\n+++ b/x\n"}, "there is no patch", "custom_tool_call"},
		{"a patch of too many files", call{Tool: "apply_patch", Item: "custom_tool_call", Args: "*** Begin Patch\n" + manyFiles(5000) + "*** End Patch"}, "names more than 4096 files", "custom_tool_call"},
		{"a NUL in a text", call{Tool: "frobnicate", Item: "custom_tool_call", Args: "a\x00b"}, "NUL", "custom_tool_call"},
		{"a local shell without a command", call{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","env":{}}`}, "command is missing", "local_shell_call"},
		{"an environment that is none", call{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","command":["ls"],"env":{"A":1}}`}, "env is an object", "local_shell_call"},
		{"own files in a program", exec("text(1); tools.exec_command({cmd: `cat " + own + "/key`})"), "files of guardproxy itself", "custom_tool_call"},
		{"own files behind escapes", exec(`for (;;) tools.exec_command({cmd: "cat \x2f` + own[1:] + `/key"})`), "files of guardproxy itself", "custom_tool_call"},
		{"own files behind a redirection", call{Tool: "exec_command", Args: `{"cmd":"cat <'` + own[:3] + `'` + own[3:] + `/key"}`}, "files of guardproxy itself", "function_call"},
		{"own files from the directory above", call{Tool: "exec_command", Args: `{"cmd":"cat ` + filepath.Base(own) + `/key","workdir":"` + filepath.Dir(own) + `"}`}, "files of guardproxy itself", "function_call"},
		{"own files from the directory above, in a program", exec("await tools.exec_command({cmd: 'cat < " + filepath.Base(own) + "/key', workdir: '" + filepath.Dir(own) + "'})"), "files of guardproxy itself", "custom_tool_call"},
		{"own files in a patch", call{Tool: "apply_patch", Item: "custom_tool_call", Args: "*** Begin Patch\n*** Delete File: " + own + "/key\n*** End Patch"}, "files of guardproxy itself", "custom_tool_call"},
		{"own files in a shell's scripts", call{Tool: "shell", Item: "shell_call", Args: `{"commands":["cat ` + own + `/key"]}`}, "files of guardproxy itself", "shell_call"},
		{"own files in a patch of the API", call{Tool: "apply_patch", Item: "apply_patch_call", Args: `{"type":"update_file","path":"` + own + `/key","diff":""}`}, "files of guardproxy itself", "function_call"},
		{"a dead field in a loop", exec("while (1) tools.exec_command({cmd: 'ls', sandbox_permissions: 'require_escalated'})"), "no value of sandbox_permissions can be granted", "custom_tool_call"},
		{"a dead field by assignment", exec("const o = {cmd: 'ls'}; o['sandbox_permissions'] = 'require_escalated'; tools.exec_command(o)"), "no value of sandbox_permissions can be granted", "custom_tool_call"},
		{"a tool that asks for more", exec("await tools.request_permissions({reason: 'x'})"), "no value of request_permissions can be granted", "custom_tool_call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &seenBy{}
			r := newRig(t, speaking(fakemodel.Text("hi"), c.call), func(o *Options) { o.Guards, o.OwnFiles = g.chain(), []string{own} })
			status, _, got := r.send("/v1/responses", responsesAsk, "User-Agent", codexUserAgent)
			items := output(t, got)
			if status != 200 || len(items) != 2 {
				t.Fatalf("status %d: %s", status, got)
			}
			it := items[1]
			text, _ := json.Marshal(it)
			if len(g.calls) != 0 || it["type"] != c.item || it["call_id"] != "call_fake_00_0" {
				t.Errorf("%d judged, %s", len(g.calls), text)
			}
			if want := strings.Map(func(r rune) rune { return r }, c.why); !strings.Contains(string(text), "not executed") || !strings.Contains(string(text), want) {
				t.Errorf("it says %s", text)
			}
			if strings.Contains(got, `"ls"`) || strings.Contains(got, "/tmp/bash'") || strings.Contains(got, own+"/key`") {
				t.Errorf("something of the call is left:\n%s", got)
			}
		})
	}
}

func manyFiles(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "*** Delete File: f%d\n", i)
	}
	return b.String()
}

// Fields that can't be granted leave a program by deletion, and those that can
// be stay for whoever approves.
func TestResponsesResidueInPrograms(t *testing.T) {
	exec := func(src string) fakemodel.Call {
		return fakemodel.Call{Tool: "exec", Namespace: "functions", Item: "custom_tool_call", Args: src}
	}
	for _, c := range []struct {
		name, src, want string
		approval        string
		refuse          bool
	}{
		{"both fields", "await tools.exec_command({cmd: 'ls', sandbox_permissions: 'require_escalated', justification: 'why'})", "await tools.exec_command({cmd: 'ls'})", "never", false},
		{"one of two calls", "text((await tools.exec_command({cmd: 'ls'})).output); await tools.exec_command({justification: 'why', cmd: 'id'})", "text((await tools.exec_command({cmd: 'ls'})).output); await tools.exec_command({cmd: 'id'})", "never", false},
		{"asked for nothing", "await tools.exec_command({cmd: 'ls', sandbox_permissions: 'use_default'})", "await tools.exec_command({cmd: 'ls'})", "ask", true},
		{"left to the approver", "await tools.exec_command({cmd: 'ls', sandbox_permissions: 'require_escalated', justification: 'why'})", "", "ask", false},
		{"left to the approver in a loop", "while (1) tools.exec_command({cmd: 'ls', sandbox_permissions: 'require_escalated'})", "", "ask", false},
		{"a word in a command", "await tools.exec_command({cmd: 'rg sandbox_permissions'}); while (0) text('justification')", "", "never", false},
		{"refused by choice", "await tools.exec_command({cmd: 'ls', sandbox_permissions: 'require_escalated'})", "refused", "never", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &seenBy{}
			r := newRig(t, speaking(exec(c.src)), func(o *Options) {
				o.Guards, o.Policy.Approval, o.RefuseResidue = g.chain(), c.approval, c.refuse
			})
			_, _, got := r.send("/v1/responses", responsesAsk, "User-Agent", codexUserAgent)
			items := output(t, got)
			text, _ := items[0]["input"].(string)
			want := c.want
			if want == "" {
				want = c.src
			}
			if want == "refused" {
				if !strings.Contains(text, "no value of sandbox_permissions can be granted") || len(g.calls) != 0 {
					t.Errorf("%q", text)
				}
				return
			}
			if text != want || len(g.calls) != 1 || g.calls[0].ArgumentsRaw != want {
				t.Errorf("the client has %q, guards saw %+v, want %q", text, g.calls, want)
			}
			if want != c.src && strings.Count(got, quote(want)) < 3 {
				t.Errorf("not every copy was edited:\n%s", got)
			}
		})
	}
}

// A refused call comes back as the model's own bytes, call by call, request
// after request, whatever its item was and wherever it stood.
func TestResponsesHistoryIsRestored(t *testing.T) {
	type call = fakemodel.Call
	calls := []call{
		{Tool: "exec_command", Args: `{ "cmd":"echo forbidden \u0041\/" , "workdir" : "/x", "shell":"/bin/bash","login":true }`},
		{Tool: "exec", Namespace: "functions", Item: "custom_tool_call", Args: "// what\nconst r = await tools.exec_command({\"cmd\":\"echo forbidden\"});\ntext(r.output);\n"},
		{Tool: "apply_patch", Item: "custom_tool_call", Args: "*** Begin Patch\n*** Add File: forbidden\n+ü\\n\n*** End Patch\n"},
		{Tool: "exec_command", Args: `{"cmd":"echo allowed"}`},
		{Tool: "view_image", Args: `{"path":  "/forbidden"}`},
		{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","command":["echo", "forbidden"],"env":{"A":"b"}}`},
		{Tool: "shell", Item: "shell_call", Args: `{"commands":["echo forbidden"],"timeout_ms":1,"max_output_length":null}`},
		{Tool: "apply_patch", Item: "apply_patch_call", Args: `{"type":"delete_file", "path":"forbidden"}`},
	}
	items := []fakemodel.Item{fakemodel.Thinking("hm"), fakemodel.Text("Now.")}
	for _, c := range calls {
		items = append(items, c)
	}
	g := &seenBy{deny: "forbidden"}
	r := newRig(t, speaking(items...), func(o *Options) { o.Guards = g.chain() })
	ask := func(input string) []string {
		body := `{"model":"m","stream":true,"store":false,"input":[` + codeTools + `,{"role":"user","content":"go"}` + input + `],` + classicTools + `}`
		_, _, got := r.send("/v1/responses", body, "User-Agent", codexUserAgent)
		var list []string
		for _, it := range output(t, got) {
			b, _ := json.Marshal(it)
			list = append(list, string(b))
		}
		if len(list) != len(items) {
			t.Fatalf("%d items: %s", len(list), got)
		}
		return list
	}
	input := ""
	for turn := range 3 {
		got := ask(input)
		for _, raw := range got {
			input += "," + raw
		}
		for _, raw := range got { // results are behind all calls, last call first
			var it struct {
				Type, Name string
				CallID     string `json:"call_id"`
			}
			json.Unmarshal([]byte(raw), &it)
			if args := map[string]any{}; it.Name == "exec_command" && json.Unmarshal([]byte(jsonOf(t, raw, "arguments")), &args) == nil && len(args) != 1 {
				t.Fatalf("a refusal keeps more than its command: %s", raw)
			}
			// The ids of a turn must differ from those of the one before, as they do
			// with a real model.
			switch it.Type {
			case "function_call":
				input += fmt.Sprintf(`,{"type":"function_call_output","call_id":%q,"output":"client's words"}`, it.CallID)
			case "custom_tool_call":
				input += fmt.Sprintf(`,{"type":"custom_tool_call_output","call_id":%q,"output":[{"type":"input_text","text":"client's words"}]}`, it.CallID)
			case "local_shell_call":
				input += fmt.Sprintf(`,{"type":"local_shell_call_output","id":%q,"output":"client's words"}`, it.CallID)
			case "shell_call":
				input += fmt.Sprintf(`,{"type":"shell_call_output","call_id":%q,"output":[]}`, it.CallID)
			}
		}
		if turn > 0 {
			sent := r.seen()[turn]
			if strings.Contains(sent, "gp1:") || strings.Contains(sent, "guardproxy_refused") {
				t.Fatalf("turn %d: upstream sees a refusal:\n%s", turn, sent)
			}
			for _, c := range calls {
				want := c.Args
				if c.Item == "" || c.Item == "custom_tool_call" {
					want = quote(c.Args)
				}
				if n := strings.Count(sent, want); n < turn {
					t.Errorf("turn %d: upstream sees %d of %s in\n%s", turn, n, want, sent)
				}
			}
			if !strings.HasPrefix(sent, strings.TrimSuffix(r.seen()[turn-1], `],`+narrowed(classicTools)+`}`)) {
				t.Errorf("turn %d: the prefix moved:\n%s\n%s", turn, r.seen()[turn-1], sent)
			}
			if n := strings.Count(sent, "guard g says: no."); n != 7*turn {
				t.Errorf("turn %d: %d results are the refusal:\n%s", turn, n, sent)
			}
			if !strings.Contains(sent, `"encrypted_content":"ZmFrZW1vZGVsIHNpZ25hdHVyZQ=="`) {
				t.Error("reasoning was touched")
			}
		}
	}
}

func jsonOf(t *testing.T, raw, member string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		t.Fatal(err)
	}
	s, _ := m[member].(string)
	return s
}

// narrowed is classicTools as upstream sees them.
func narrowed(tools string) string {
	for _, gone := range []string{`"justification":{"type":"string"},`, `"prefix_rule":{"type":"array","items":{"type":"string"}},`, `"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]},`} {
		tools = strings.Replace(tools, gone, "", 1)
	}
	return tools
}

// Where upstream holds the history, what a shell prints is all that the model
// will read.
func TestResponsesHeldHistory(t *testing.T) {
	g := &seenBy{deny: "forbidden"}
	r := newRig(t, speaking(fakemodel.Call{Tool: "view_image", Args: `{"path":"/forbidden"}`}, fakemodel.Call{Tool: "exec_command", Args: `{"cmd":"forbidden"}`},
		fakemodel.Call{Tool: "apply_patch", Item: "custom_tool_call", Args: "*** Begin Patch\n*** Delete File: forbidden\n*** End Patch"}), func(o *Options) { o.Guards = g.chain() })
	// The fake model has no memory: its part here is to answer.
	r.up.Config.Handler = fakeMemory{r.up.Config.Handler}
	for i, ask := range []string{responsesHeld, strings.Replace(responsesAsk, `"store":false,`, "", 1), responsesHeld} {
		_, _, got := r.send("/v1/responses", ask, "Session-Id", "s")
		items := output(t, got)
		for k, want := range []string{"exec_command", "exec_command", "guardproxy_refused"} {
			if items[k]["name"] != want {
				t.Fatalf("request %d, call %d is one of %v:\n%s", i, k, items[k]["name"], got)
			}
		}
		for k := range 2 {
			args, _ := items[k]["arguments"].(string)
			if !strings.HasPrefix(args, `{"cmd":"printf '%s\\n' 'guardproxy: not executed. guard g says: no.`) || strings.Count(args, `":`) != 1 {
				t.Errorf("request %d: %s", i, args)
			}
		}
	}
	r.mustLog(t, "history is held upstream", 1)
	// Nothing of the kind where the request holds all of its history.
	_, _, got := r.send("/v1/responses", responsesAsk, "Session-Id", "t")
	if items := output(t, got); items[0]["name"] != "guardproxy_refused" {
		t.Errorf("%v", items[0])
	}
	r.mustLog(t, "history is held upstream", 1)
	// Should the call come back in a request after all, it is restored.
	first := output(t, func() string { _, _, s := r.send("/v1/responses", responsesHeld, "Session-Id", "s"); return s }())[0]
	b, _ := json.Marshal(first)
	r.send("/v1/responses", `{"model":"m","store":false,"input":[{"role":"user","content":"go"},`+string(b)+`,{"type":"function_call_output","call_id":"call_fake_00_0","output":"x"}]}`, "Session-Id", "s")
	last := r.seen()[len(r.seen())-1]
	if !strings.Contains(last, `"name":"view_image"`) || !strings.Contains(last, quote(`{"path":"/forbidden"}`)) || strings.Contains(last, "gp1:") {
		t.Errorf("upstream sees %s", last)
	}
}

func (r *rig) mustLog(t *testing.T, text string, times int) {
	t.Helper()
	if n := strings.Count(r.log.String(), text); n != times {
		t.Errorf("%q stands %d times in the log, want %d:\n%s", text, n, times, r.log)
	}
}

// fakeMemory drops what the model can't read.
type fakeMemory struct{ http.Handler }

func (f fakeMemory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(b, []byte(`"previous_response_id":"resp_0",`), nil, 1)))
	f.Handler.ServeHTTP(w, r)
}

// Responses that upstream keeps are guarded when they are fetched.
func TestStoredResponses(t *testing.T) {
	const calls = `{"id":"fc_1","type":"function_call","status":"completed","call_id":"c1","name":"exec_command","arguments":"{\"cmd\":\"echo ok\"}"},{"id":"fc_2","type":"function_call","status":"completed","call_id":"c2","name":"exec_command","arguments":"{\"cmd\":\"echo forbidden\"}"}`
	stored := func(tools string) string {
		return `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[` + calls + `],` + tools + `}`
	}
	g := &seenBy{deny: "forbidden"}
	reply := ""
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) { io.WriteString(w, reply) }, func(o *Options) { o.Guards = g.chain() })
	do := func(method, path string) (int, string) {
		req, err := http.NewRequest(method, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", codexUserAgent)
		resp, err := plain.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}

	reply = stored(`"tools":[` + execCommand + `]`)
	status, got := do("GET", "/v1/responses/resp_1")
	items := output(t, got)
	if status != 200 || len(items) != 2 || items[0]["arguments"] != `{"cmd":"echo ok"}` || !strings.Contains(fmt.Sprint(items[1]["arguments"]), "guard g says: no.") {
		t.Errorf("status %d: %s", status, got)
	}
	reply = stored(`"tools":[]`)
	if _, got = do("GET", "/v1/responses/resp_1"); strings.Contains(got, "echo ok") || strings.Count(got, "declares no tool named exec_command") != 2 {
		t.Errorf("without declarations: %s", got)
	}
	if _, got = do("POST", "/v1/responses/resp_1/cancel"); strings.Contains(got, "echo ok") {
		t.Errorf("cancelled: %s", got)
	}
	// A stream that is taken up again.
	done := `{"type":"response.completed","sequence_number":9,"response":` + stored(`"tools":[`+execCommand+`]`) + `}`
	reply = "event: response.completed\ndata: " + done + "\n\n"
	if status, got = do("GET", "/v1/responses/resp_1?stream=true&starting_after=8"); status != 200 || !strings.Contains(got, "echo ok") || strings.Contains(got, "echo forbidden") {
		t.Errorf("stream: status %d: %s", status, got)
	}
	reply = `{"id":"resp_1","object":"response.deleted","deleted":true}`
	if status, got = do("DELETE", "/v1/responses/resp_1"); status != 200 || got != reply {
		t.Errorf("deleted: status %d: %s", status, got)
	}
	reply = `{"id":"resp_1","object":"response","status":"queued","output":[],"tools":[` + execCommand + `]}`
	if status, got = do("GET", "/v1/responses/resp_1"); status != 200 || got != reply {
		t.Errorf("queued: status %d: %s", status, got)
	}
	for _, p := range []string{"GET /v1/responses", "PUT /v1/responses/resp_1", "POST /v1/responses/resp_1", "GET /v1/responses/resp_1/input_items", "GET /v1/responses/resp_1/cancel", "GET /v1/responses/compact", "GET /v1/conversations/c/items"} {
		method, path, _ := strings.Cut(p, " ")
		if status, got := do(method, path); status != 501 {
			t.Errorf("%s: status %d: %s", p, status, got)
		}
	}
	r.mustLog(t, "history is held upstream", 1)
}

// Bodies that clients compress, the upgrade that Codex tries first, and the
// paths that clients use.
func TestResponsesOnTheWay(t *testing.T) {
	r := newRig(t, speaking(fakemodel.Call{Tool: "exec_command", Args: `{"cmd":"ls"}`}))
	var zip, zst bytes.Buffer
	z := gzip.NewWriter(&zip)
	io.WriteString(z, responsesAsk)
	z.Close()
	zs, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(zs, responsesAsk)
	zs.Close()
	want := strings.Replace(responsesAsk, classicTools, narrowed(classicTools), 1)
	for _, c := range []struct {
		name, path, body string
		header           []string
		status           int
	}{
		{"plain", "/v1/responses", responsesAsk, nil, 200},
		{"gzip", "/v1/responses", zip.String(), []string{"Content-Encoding", "gzip"}, 200},
		{"zstd", "/backend-api/codex/responses", zst.String(), []string{"Content-Encoding", "zstd"}, 200},
		{"odd slashes", "//v1/responses/", responsesAsk, nil, 200},
		{"with a session", "/s/one/v1/responses", responsesAsk, nil, 200},
		{"an unknown encoding", "/v1/responses", responsesAsk, []string{"Content-Encoding", "br"}, 400},
		{"not what it says", "/v1/responses", responsesAsk, []string{"Content-Encoding", "zstd"}, 400},
		{"an upgrade", "/v1/responses", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 426},
		{"a tool with the name of refusals", "/v1/responses", strings.Replace(responsesAsk, `"wait"`, `"guardproxy_refused"`, 1), nil, 400},
	} {
		before := len(r.seen())
		status, _, got := r.send(c.path, c.body, c.header...)
		if status != c.status {
			t.Errorf("%s: status %d: %s", c.name, status, got)
		}
		switch {
		case c.status != 200:
			if len(r.seen()) != before {
				t.Errorf("%s: it went to the upstream", c.name)
			}
			if !strings.Contains(got, `"code":"guardproxy_`) {
				t.Errorf("%s: %s", c.name, got)
			}
		case r.seen()[before] != want:
			t.Errorf("%s: upstream got %s", c.name, r.seen()[before])
		case r.reqs[before].Header.Get("Content-Encoding") != "":
			t.Errorf("%s: the encoding is still announced", c.name)
		}
	}
	// Counting is answered with a number, compaction with items that no client
	// runs; both carry tools and history up.
	for path, reply := range map[string]string{
		"/v1/responses/input_tokens": `{"object":"response.input_tokens","input_tokens":11}`,
		"/v1/responses/compact":      `{"id":"resp_1","object":"response.compaction","created_at":1,"output":[{"id":"msg_1","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"go"}]},{"id":"cmp_1","type":"compaction","encrypted_content":"gAAA"}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`,
	} {
		c := newRig(t, answering(reply))
		status, _, got := c.send(path, responsesAsk)
		if status != 200 || got != reply || c.seen()[0] != want {
			t.Errorf("%s: status %d: %s\nupstream got %s", path, status, got, c.seen()[0])
		}
	}
	// Compaction carries tools and history, and is a reply like any other.
	status, _, got := r.send("/v1/responses/compact", responsesAsk)
	if status != 404 || r.seen()[len(r.seen())-1] != want { // the fake model has no such route
		t.Errorf("compact: status %d: %s", status, got)
	}
}

// A reply that can't be judged ends with an error that clients show.
func TestResponsesErrorEvent(t *testing.T) {
	const begun = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"output\":[]}}\n\n"
	r := newRig(t, answering(begun+"data: {\"type\":\"response.new_thing\",\"item\":{\"name\":\"x\"}}\n\n"))
	status, _, got := r.send("/v1/responses", responsesAsk)
	rest, ok := strings.CutPrefix(got, begun+"event: error\ndata: ")
	var e struct {
		Type, Code, Message string
		Error               struct{ Message string }
	}
	if err := json.Unmarshal([]byte(rest), &e); status != 200 || !ok || err != nil || e.Type != "error" || e.Code != "guardproxy_reply_refused" || e.Message == "" || e.Error.Message != e.Message {
		t.Errorf("status %d, %v: %s", status, err, got)
	}
}

// The declarations of a history may change from item to item.
func TestToolsDeclaredAgain(t *testing.T) {
	g := &seenBy{}
	r := newRig(t, speaking(fakemodel.Call{Tool: "run", Args: `{"script":"ls"}`}), func(o *Options) { o.Guards = g.chain() })
	tool := func(param string) string {
		return `{"type":"additional_tools","tools":[{"type":"function","name":"run","parameters":{"type":"object","properties":{"` + param + `":{"type":"string"}}}}]}`
	}
	r.send("/v1/responses", `{"store":false,"input":[`+tool("script")+`,{"role":"user","content":"go"},`+tool("other")+`]}`)
	if len(g.calls) != 1 || g.calls[0].Kind != "shell" || !slices.Equal(g.calls[0].Shell.Argv[0], []string{"ls"}) {
		t.Errorf("%+v", g.calls)
	}
}

// What a client is asked to agree to, or to look up, is judged like a call.
func TestRequestsToTheClient(t *testing.T) {
	const approval = `{"id":"mcpr_1","type":"mcp_approval_request","server_label":"docs","name":"search","arguments":"{\"q\":\"x\"}"}`
	const search = `{"id":"tsc_1","type":"tool_search_call","execution":"client","call_id":"c1","status":"completed","arguments":{"query":"x"}}`
	for _, c := range []struct {
		name, item, deny string
		left             bool // as it was
		judged           int
	}{
		{"an approval", approval, "", true, 1},
		{"an approval that a guard denies", approval, `"q"`, false, 1},
		{"an approval for a server that is not declared", strings.Replace(approval, "docs", "other", 1), "", false, 0},
		{"a search", search, "", true, 1},
		{"a search that a guard denies", search, "query", false, 1},
	} {
		reply := `{"id":"resp_1","object":"response","status":"completed","output":[` + c.item + `]}`
		g := &seenBy{deny: c.deny}
		r := newRig(t, answering(reply), func(o *Options) { o.Guards = g.chain() })
		ask := strings.Replace(responsesAsk, custom, custom+`,{"type":"tool_search","execution":"client"}`, 1)
		status, _, got := r.send("/v1/responses", ask)
		if status != 200 || (got == reply) != c.left || len(g.calls) != c.judged {
			t.Errorf("%s: status %d, %d judged: %s", c.name, status, len(g.calls), got)
			continue
		}
		if c.judged > 0 && g.calls[0].Kind != "other" {
			t.Errorf("%s: judged as %s", c.name, g.calls[0].Kind)
		}
		if it := output(t, got)[0]; !c.left && (it["type"] != "function_call" || it["name"] != "guardproxy_refused" || it["call_id"] == "") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
