package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/machine"
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire"
)

func ring(t interface{ Fatal(...any) }, seeds ...byte) *Keyring {
	var secrets [][]byte
	for _, s := range seeds {
		secrets = append(secrets, bytes.Repeat([]byte{s}, MinKey))
	}
	k, err := NewKeyring(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var targets = map[string]Target{
	"shell":         {Form: ShellForm, Argument: "command", Fallback: UnknownForm},
	"shell, keeps":  {Form: ShellForm, Argument: "command", Keep: []string{"description"}, Fallback: UnknownForm},
	"command array": {Form: ArrayForm, Argument: "command", Fallback: UnknownForm},
	"code":          {Form: CodeForm, Argument: "input", Fallback: UnknownForm},
	"unknown tool":  {Form: UnknownForm, Fallback: UnknownForm},
	"opencode":      {Form: InvalidForm, Fallback: InvalidForm},
	"code as text":  {Form: CodeForm, Fallback: UnknownForm},
	"local shell":   {Form: LocalShellForm, Fallback: UnknownForm, Item: "local_shell_call"},
	"commands":      {Form: CommandsForm, Fallback: UnknownForm, Item: "shell_call"},
	"of an item":    {Form: UnknownForm, Fallback: UnknownForm, Item: "apply_patch_call"},
	"borrowed":      {Form: BorrowedForm, Argument: "cmd", Tool: "exec_command", Fallback: UnknownForm},
	"borrowed list": {Form: BorrowedArrayForm, Argument: "cmd", Tool: "shell", Fallback: UnknownForm},
}

func TestForms(t *testing.T) {
	k := ring(t, 1)
	call := Call{Name: "bash", Args: []byte(`{"command": "rm -rf /", "description":"clean up", "workdir":"/"}`), Text: "guardproxy: not executed. Because."}
	for name, want := range map[string]string{
		"shell":         `bash {"command":"printf '%s\\n' 'guardproxy: not executed. Because.' >&2; (exit 126) # SEAL"}`,
		"shell, keeps":  `bash {"command":"printf '%s\\n' 'guardproxy: not executed. Because.' >&2; (exit 126) # SEAL","description":"clean up"}`,
		"command array": `bash {"command":["bash","-c","printf '%s\\n' 'guardproxy: not executed. Because.' >&2; (exit 126) # SEAL"]}`,
		"code":          `bash {"input":"text(\"guardproxy: not executed. Because.\") // SEAL"}`,
		"unknown tool":  `guardproxy_refused {"reason":"guardproxy: not executed. Because.","sealed":"SEAL"}`,
		"opencode":      `invalid {"tool":"bash","error":"guardproxy: not executed. Because. SEAL"}`,
		"code as text":  `bash text("guardproxy: not executed. Because.") // SEAL`,
		"local shell":   `bash {"type":"exec","command":["bash","-c","printf '%s\\n' 'guardproxy: not executed. Because.' >&2; (exit 126) # SEAL"],"env":{}}`,
		"commands":      `bash {"commands":["printf '%s\\n' 'guardproxy: not executed. Because.' >&2; (exit 126) # SEAL"],"timeout_ms":null,"max_output_length":null}`,
		"of an item":    `guardproxy_refused {"reason":"guardproxy: not executed. Because.","sealed":"SEAL"}`,
		"borrowed":      `exec_command {"cmd":"printf '%s\\n' 'guardproxy: not executed. Because.' >&2; (exit 126) # SEAL"}`,
		"borrowed list": `shell {"cmd":["bash","-c","printf '%s\\n' 'guardproxy: not executed. Because.' >&2; (exit 126) # SEAL"]}`,
	} {
		got, args := k.Refuse(call, targets[name])
		i := bytes.Index(args, []byte(Prefix))
		j := i + len(Prefix)
		for j < len(args) && isBase64URL(args[j]) {
			j++
		}
		text := got + " " + string(args[:i]) + "SEAL" + string(args[j:])
		if text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, want)
		}
	}
}

func TestLargeRefusalTakesTheNextForm(t *testing.T) {
	k := ring(t, 1)
	noise := make([]byte, 80<<10) // does not deflate
	x := uint32(1)
	for i := range noise {
		x = x*1664525 + 1013904223
		noise[i] = 'a' + byte(x>>24)%26
	}
	call := Call{Name: "bash", Args: []byte(`{"command":"` + string(noise) + `"}`), Text: "no"}
	if name, _ := k.Refuse(call, targets["shell"]); name != RefusedTool {
		t.Errorf("a refusal over 64 KiB is a call of %s", name)
	}
	tt := targets["shell"]
	tt.Fallback = InvalidForm
	if name, _ := k.Refuse(call, tt); name != InvalidTool {
		t.Errorf("for opencode it is a call of %s", name)
	}
}

// history is a request whose history has one call and its result.
func history(t interface{ Fatal(...any) }, d wire.Dialect, name string, args []byte) (*wire.Request, []byte) {
	var body []byte
	if d == wire.Chat {
		body = append(body, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":`...)
		body = tape.Quote(body, name)
		body = append(body, `,"arguments":`...)
		body = tape.Quote(body, string(args))
		body = append(body, `}}]},{"role":"tool","tool_call_id":"c1","content":"[exit code: 126]"}]}`...)
	} else if d == wire.Responses {
		body = append(body, `{"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"c1","name":`...)
		body = tape.Quote(body, name)
		body = append(body, `,"arguments":`...)
		body = tape.Quote(body, string(args))
		body = append(body, `},{"type":"function_call_output","call_id":"c1","output":"[exit code: 126]"}]}`...)
	} else {
		body = append(body, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":`...)
		body = tape.Quote(body, name)
		body = append(body, `,"input":`...)
		body = append(body, args...)
		body = append(body, `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"Exit code 126","cache_control":{"type":"ephemeral"}}]}]}`...)
	}
	q, err := wire.Read(wire.Route{Dialect: d}, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q, body
}

func TestRestoreGivesBackTheModelsWords(t *testing.T) {
	words := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"rm -rf '/'", `quote " and \ slash`, "line\nbreak", "gp1:nothing", "日本語 🎉", "\u2028"}))
	rapid.Check(t, func(r *rapid.T) {
		k := ring(r, 1)
		cmd := words.Draw(r, "command")
		// As models write them: spaces, escapes and unknown members survive.
		args := []byte(`{ "command" :`)
		args = tape.Quote(args, cmd)
		args = append(args, `, "description":"caf\u00e9","n":1.0}`...)
		call := Call{Name: words.Draw(r, "name"), Args: args, Text: words.Draw(r, "text")}
		target := targets[rapid.SampledFrom([]string{"shell", "shell, keeps", "command array", "code", "unknown tool", "opencode"}).Draw(r, "target")]
		name, refused := k.Refuse(call, target)

		// Whatever the client does to the JSON on the way, the value stays.
		if rapid.Bool().Draw(r, "re-serialised") {
			var v any
			if err := json.Unmarshal(refused, &v); err != nil {
				r.Fatal(err)
			}
			refused, _ = json.Marshal(v)
		}
		for _, d := range wire.Dialects {
			q, body := history(r, d, name, refused)
			edits, did := k.Restore(q)
			if did != (Restored{Calls: 1}) {
				r.Fatalf("%s: %+v for %s %s", d, did, name, refused)
			}
			out := wire.Splice(body, edits)
			again, err := wire.Read(wire.Route{Dialect: d}, out, nil)
			if err != nil {
				r.Fatalf("%s: the restored request is broken: %v\n%s", d, err, out)
			}
			p := again.Past[0]
			if got := again.Arguments(p); !bytes.Equal(got, args) {
				r.Fatalf("%s: arguments %s, want %s", d, got, args)
			}
			if want := strings.ToValidUTF8(call.Name, "\ufffd"); again.Name(p) != want {
				r.Fatalf("%s: name %q, want %q", d, again.Name(p), want)
			}
			var text [][]byte
			text = append(text, tape.Quote(nil, Plain(call.Text)))
			key := `"content":`
			if d == wire.Responses {
				key = `"output":`
			}
			if !bytes.Contains(out, append([]byte(key), text[0]...)) {
				r.Fatalf("%s: the result is not the refusal's text: %s", d, out)
			}
			if d == wire.Messages && (!bytes.Contains(out, []byte(`"cache_control":{"type":"ephemeral"}`)) || !bytes.Contains(out, []byte(`"is_error":true`))) {
				r.Fatalf("%s", out)
			}
			// The same bytes from another instance with the same key, and from
			// one whose first key is another.
			for _, other := range []*Keyring{ring(r, 1), ring(r, 9, 1)} {
				q2, _ := history(r, d, name, refused)
				e2, _ := other.Restore(q2)
				if !bytes.Equal(wire.Splice(body, e2), out) {
					r.Fatal("restoration is not a function of history and key")
				}
			}
		}
	})
}

// Responses has items of other types. Each refusal comes back as the item that
// it was, with the model's own bytes, and its result as the refusal.
func TestRestoreItems(t *testing.T) {
	words := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"rm -rf '/'", `quote " and \ slash`, "line\nbreak", "gp1:nothing", "日本語 🎉", "\u2028", `{"json":"text"}`}))
	type row struct {
		target       string
		item, name   string // as the model made it
		becomes      string // the item's type in the history
		call, output string // the history's items, with %s for name and arguments
		want         string // of the result
	}
	rows := []row{
		{"code as text", "custom_tool_call", "exec", "custom_tool_call", `{"type":"custom_tool_call","id":"i","call_id":"c","namespace":"functions","name":%s,"input":%s}`,
			`{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"Output:"},{"type":"input_text","text":"x"}]}`, `"output":[{"type":"input_text","text":%s}]`},
		{"unknown tool", "custom_tool_call", "apply_patch", "custom_tool_call", `{"type":"custom_tool_call","call_id":"c","name":%s,"input":%s}`,
			`{"type":"custom_tool_call_output","call_id":"c","output":"unsupported"}`, `"output":%s`},
		{"unknown tool", "function_call", "view", "function_call", `{"type":"function_call","call_id":"c","name":%s,"arguments":%s}`,
			`{"type":"function_call_output","call_id":"c","output":"unsupported"}`, `"output":%s`},
		{"borrowed", "function_call", "view", "function_call", `{"type":"function_call","call_id":"c","name":%s,"arguments":%s}`,
			`{"type":"function_call_output","call_id":"c","output":"x"}`, `"output":%s`},
		{"borrowed list", "function_call", "view", "function_call", `{"type":"function_call","call_id":"c","name":%s,"arguments":%s}`,
			`{"type":"function_call_output","call_id":"c","output":"x"}`, `"output":%s`},
		{"local shell", "local_shell_call", "local_shell", "local_shell_call", `{"type":"local_shell_call","id":"i","call_id":"c","status":"completed","action":%[2]s}`,
			`{"type":"local_shell_call_output","id":"c","output":"x"}`, `"output":%s`},
		{"commands", "shell_call", "shell", "shell_call", `{"type":"shell_call","call_id":"c","status":"completed","action":%[2]s}`,
			`{"type":"shell_call_output","call_id":"c","output":[]}`, `"stderr":%s`},
		{"of an item", "apply_patch_call", "apply_patch", "function_call", `{"type":"function_call","call_id":"c","name":%s,"arguments":%s}`,
			`{"type":"function_call_output","call_id":"c","output":"unsupported"}`, `"output":%s`},
	}
	rapid.Check(t, func(r *rapid.T) {
		k := ring(r, 1)
		c := rapid.SampledFrom(rows).Draw(r, "row")
		args := []byte(words.Draw(r, "text"))
		isText := c.item == "custom_tool_call"
		if !isText {
			args = append(tape.Quote([]byte(`{ "command" :`), string(args)), `, "n":1.0}`...)
		} else {
			args = []byte(strings.ToValidUTF8(string(args), ""))
		}
		text := words.Draw(r, "refusal")
		name, refused := k.Refuse(Call{Name: c.name, Args: args, Text: text}, targets[c.target])
		spelled := string(refused)
		if c.becomes == "function_call" || isText {
			spelled = string(tape.Quote(nil, spelled))
		}
		call := fmt.Sprintf(c.call, tape.Quote(nil, name), spelled)
		if i := strings.Index(call, "%!(EXTRA"); i >= 0 {
			call = call[:i]
		}
		body := []byte(`{"model":"m","input":[{"role":"user","content":"go"},{"type":"reasoning","encrypted_content":"AbC=="},` + call + `,` + c.output + `],"tools":[]}`)
		q, err := wire.Read(wire.Route{Dialect: wire.Responses}, body, nil)
		if err != nil {
			r.Fatal(err)
		}
		edits, did := k.Restore(q)
		if did != (Restored{Calls: 1}) {
			r.Fatalf("%+v: %s", did, body)
		}
		out := wire.Splice(body, edits)
		again, err := wire.Read(wire.Route{Dialect: wire.Responses}, out, nil)
		if err != nil || len(again.Past) != 1 {
			r.Fatalf("%v\n%s", err, out)
		}
		p := again.Past[0]
		if again.Item(p) != c.item || again.Name(p) != c.name || !bytes.Equal(again.Arguments(p), args) {
			r.Fatalf("%s %s %s, want %s %s %s", again.Item(p), again.Name(p), again.Arguments(p), c.item, c.name, args)
		}
		if want := fmt.Sprintf(c.want, tape.Quote(nil, Plain(text))); !bytes.Contains(out, []byte(want)) {
			r.Fatalf("no %s in\n%s", want, out)
		}
		if !bytes.HasPrefix(out, body[:bytes.Index(body, []byte(`AbC==`))]) || bytes.Contains(out, []byte(Prefix)) && !bytes.Contains(args, []byte(Prefix)) && !strings.Contains(Plain(text), Prefix) {
			r.Fatalf("%s", out)
		}
	})
}

// A text is put back only when all of it is what its seal generates.
func TestForeignTextsAreLeftAlone(t *testing.T) {
	k := ring(t, 1)
	name, args := k.Refuse(Call{Name: "exec", Args: []byte("x"), Text: "no"}, targets["code as text"])
	for what, text := range map[string]string{
		"another program before it": "evil();" + string(args), "another one behind it": string(args) + "\nevil()",
		"another text": strings.Replace(string(args), "no", "yes", 1), "a cut seal": string(args[:len(args)-3]), "the prefix": "text(1) // gp1:",
	} {
		body := append(tape.Quote([]byte(`{"input":[{"type":"custom_tool_call","call_id":"c","name":"`+name+`","input":`), text), `}]}`...)
		q, err := wire.Read(wire.Route{Dialect: wire.Responses}, body, nil)
		if err != nil {
			t.Fatal(err)
		}
		if edits, did := k.Restore(q); len(edits) != 0 || did != (Restored{Foreign: 1}) {
			t.Errorf("%s: %+v", what, did)
		}
	}
	// What may be text in a custom call is none in a function's arguments.
	body := append(tape.Quote([]byte(`{"input":[{"type":"function_call","call_id":"c","name":"exec","arguments":`), string(args)), `}]}`...)
	q, err := wire.Read(wire.Route{Dialect: wire.Responses}, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, did := k.Restore(q); did != (Restored{Foreign: 1}) {
		t.Errorf("%+v", did)
	}
}

func TestForeignSealsAreLeftAlone(t *testing.T) {
	k := ring(t, 1)
	call := Call{Name: "bash", Args: []byte(`{"command":"rm -rf /"}`), Text: "guardproxy: not executed."}
	name, args := k.Refuse(call, targets["shell"])
	_, unknown := k.Refuse(call, targets["unknown tool"])
	edit := func(old, new string) []byte { return bytes.Replace(bytes.Clone(args), []byte(old), []byte(new), 1) }
	seal := string(args[bytes.Index(args, []byte(Prefix)) : len(args)-2])
	for _, c := range []struct {
		what, name string
		args       []byte
	}{
		{"another key", name, func() []byte { _, a := ring(t, 2).Refuse(call, targets["shell"]); return a }()},
		{"another name", "Bash", args},
		{"another text in the command", name, edit("not executed", "executed")},
		{"another command behind the seal's", name, edit("(exit 126)", "(exit 0)")},
		{"one more argument", name, edit(`{"command"`, `{"x":1,"command"`)},
		{"a cut seal", name, append(bytes.Clone(args[:len(args)-6]), '"', '}')},
		{"a flipped bit", name, edit(seal, seal[:len(seal)-1]+string(rune(seal[len(seal)-1]^1)))},
		{"a wrap's seal", name, edit(seal, k.seal(Wrap, [][]byte{[]byte("shell"), []byte("bash"), nil, nil, []byte("command")}))},
		{"the seal in a tool that is not ours", "write", unknown},
		{"only the prefix", name, []byte(`{"command":"echo gp1:"}`)},
		{"no object", name, []byte(`"` + seal + `"`)},
	} {
		for _, d := range wire.Dialects {
			q, body := history(t, d, c.name, c.args)
			edits, did := k.Restore(q)
			if len(edits) != 0 || did != (Restored{Foreign: 1}) {
				t.Errorf("%s, %s: %+v, %d edits", d, c.what, did, len(edits))
			}
			if out := wire.Splice(body, edits); &out[0] != &body[0] {
				t.Errorf("%s, %s: the body was copied", d, c.what)
			}
		}
	}
	// And what a model may well say is not even looked at.
	q, _ := history(t, wire.Messages, name, []byte(`{"command":"echo gp2:x"}`))
	if _, did := k.Restore(q); did != (Restored{}) {
		t.Errorf("%+v", did)
	}
}

func TestReplayedRefusalIsRestoredWithoutHarm(t *testing.T) {
	// The same refusal twice: a history may repeat it (a client that copies a
	// session). Both are the model's own words again; nothing runs.
	k := ring(t, 1)
	_, args := k.Refuse(Call{Name: "bash", Args: []byte(`{"command":"x"}`), Text: "no"}, targets["shell"])
	body := []byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":` + string(args) + `},{"type":"tool_use","id":"b","name":"bash","input":` + string(args) + `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"x","cache_control":{}}],"is_error":false},{"type":"tool_result","tool_use_id":"a"}]}]}`)
	q, err := wire.Read(wire.Route{Dialect: wire.Messages}, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	edits, did := k.Restore(q)
	if did != (Restored{Calls: 2}) {
		t.Fatalf("%+v", did)
	}
	want := `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":{"command":"x"}},{"type":"tool_use","id":"b","name":"bash","input":{"command":"x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"no","cache_control":{}}],"is_error":true},{"type":"tool_result","tool_use_id":"a","content":"no","is_error":true}]}]}`
	if got := string(wire.Splice(body, edits)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAmbiguousResultsStay(t *testing.T) {
	k := ring(t, 1)
	_, a := k.Refuse(Call{Name: "bash", Args: []byte(`{"command":"x"}`), Text: "no"}, targets["shell"])
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":` + string(a) + `}]}`
	for name, after := range map[string]string{
		"two results":                  `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"a","content":"2"}]}`,
		"none":                         ``,
		"another turn":                 `,{"role":"assistant","content":"hm"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}`,
		"a cache marker would be lost": `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"},{"type":"text","text":"2","cache_control":{"type":"ephemeral"}}]}]}`,
	} {
		body := []byte(`{"messages":[` + call + after + `],"tools":[]}`)
		q, err := wire.Read(wire.Route{Dialect: wire.Messages}, body, nil)
		if err != nil {
			t.Fatal(err)
		}
		edits, did := k.Restore(q)
		if did != (Restored{Calls: 1, Unanswered: 1}) {
			t.Errorf("%s: %+v", name, did)
		}
		if out := string(wire.Splice(body, edits)); !strings.HasSuffix(out, after+`],"tools":[]}`) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestHolds(t *testing.T) {
	k := ring(t, 1, 2)
	_, args := k.Refuse(Call{Name: "bash", Text: "no"}, targets["unknown tool"])
	var v struct{ Sealed string }
	if err := json.Unmarshal(args, &v); err != nil {
		t.Fatal(err)
	}
	wrap := ring(t, 2).seal(Wrap, [][]byte{[]byte("x")})
	for text, want := range map[string]bool{
		v.Sealed: true, "echo " + v.Sealed + " done": true, "gp1:gp1:" + v.Sealed + "'": true, wrap: true,
		v.Sealed[:len(v.Sealed)-1]: false, v.Sealed + "A": false, "gp1:": false, "": false, v.Sealed[1:]: false,
		ring(t, 3).seal(Refusal, nil): false,
	} {
		if k.Holds(text) != want {
			t.Errorf("Holds(%q) = %v", text, !want)
		}
	}
}

func TestKeyrings(t *testing.T) {
	if _, err := NewKeyring(); err == nil {
		t.Error("a keyring without keys")
	}
	if _, err := NewKeyring(make([]byte, MinKey-1)); err == nil {
		t.Error("a short key")
	}
	k := ring(t, 1)
	seen := map[string]Type{}
	for _, ty := range []Type{Refusal, Wrap, Credential, Audit} {
		if other, ok := seen[string(k.Key(ty))]; ok {
			t.Errorf("%s and %s share a key", ty, other)
		}
		seen[string(k.Key(ty))] = ty
	}
}

// hostile is what a guard's reason may quote from a model.
var hostile = []string{
	"plain", "'; touch pwned; '", `"; touch pwned; "`, "$(touch pwned)", "`touch pwned`", "a\ntouch pwned\n", "a\r\ntouch pwned",
	"a\u2028touch pwned\u2029", "\\'; touch pwned #", "<(touch pwned)", ">pwned", "| touch pwned", "& touch pwned &", "!touch pwned",
	"${x:=$(touch pwned)}", "%s%n%d", "-e", "--", "\x00'; touch pwned", "’; touch pwned; ’", "‘; touch pwned; ‘", "\u202e';touch pwned", "#{touch pwned}", "*", "~", "{a,b}", "\xff\xfe'",
}

func TestHostileReasonsRunNothing(t *testing.T) {
	k := ring(t, 1)
	ran := 0
	for _, shell := range []struct {
		name string
		form string
		args func(string) []string
	}{
		{"sh", "shell", func(s string) []string { return []string{"-c", s} }},
		{"bash", "shell", func(s string) []string { return []string{"-c", s} }},
		{"zsh", "shell", func(s string) []string { return []string{"-c", s} }},
		{"fish", "shell", func(s string) []string { return []string{"-c", s} }},
		{"pwsh", "shell", func(s string) []string { return []string{"-NoProfile", "-Command", s} }},
		{"node", "code", func(s string) []string { return []string{"-e", "const text=(s)=>process.stderr.write(s);\n" + s} }},
	} {
		path, err := exec.LookPath(shell.name)
		if err != nil {
			if machine.Required(shell.name) {
				t.Errorf("%s is required: %v", shell.name, err)
			}
			t.Logf("%s is not installed", shell.name)
			continue
		}
		ran++
		for _, reason := range hostile {
			_, args := k.Refuse(Call{Name: "x", Args: []byte(`{}`), Text: reason}, targets[shell.form])
			var v map[string]string
			if err := json.Unmarshal(args, &v); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			cmd := exec.Command(path, shell.args(v["command"]+v["input"])...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			if made, _ := filepath.Glob(filepath.Join(dir, "pwned*")); len(made) > 0 {
				t.Errorf("%s ran something for %q", shell.name, reason)
			}
			switch shell.name {
			case "sh", "bash", "zsh":
				if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 126 || stderr.String() != Plain(reason)+"\n" {
					t.Errorf("%s, %q: %v, stderr %q", shell.name, reason, err, stderr.String())
				}
			case "node":
				if err != nil || stderr.String() != Plain(reason) {
					t.Errorf("%s, %q: %v, stderr %q", shell.name, reason, err, stderr.String())
				}
			}
		}
	}
	if ran == 0 {
		t.Fatal("not even sh was found")
	}
}

func TestPlain(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := rapid.String().Draw(r, "s")
		p := Plain(s)
		if !utf8.ValidString(p) || strings.ContainsAny(p, "'\"\\`$<>&;|\n\r\t\u2028\u2029\x00\x1b") || strings.Contains(p, "  ") || p != strings.TrimSpace(p) {
			r.Fatalf("Plain(%q) = %q", s, p)
		}
		if Plain(p) != p {
			r.Fatalf("Plain(%q) changes what is plain", p)
		}
	})
	if got := Plain("no 'rm' $(here)\nplease: use ./build/* (ok?) 10% {a} #1"); got != "no rm (here) please: use ./build/* (ok?) 10% {a} #1" {
		t.Errorf("%q", got)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語版", 3, "日本…"}, {"", 3, ""}} {
		if got := Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q", c.in, c.n, got)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	k := ring(f, 1)
	f.Add(k.seal(Refusal, [][]byte{[]byte("shell"), []byte("n"), []byte("{}"), []byte("t"), []byte("command")}))
	f.Add("gp1:")
	f.Add("gp1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if fields, ok := k.unseal(Refusal, s); ok && k.seal(Refusal, fields) != s {
			t.Fatalf("%q opens, and is not what sealing gives", s)
		}
	})
}
