package e2e

// An agent meets refusals and goes on. The client here does what agents do: it
// runs the calls it was given, a shell call in a real bash, sends the results
// back, and goes on until the model is done. What the model reads in the next
// request is its own call, byte for byte, and the refusal as its result.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"

	"github.com/guardproxy/guardproxy/internal/machine"
)

type fate uint8

const (
	allowed fate = iota
	edited       // allowed without its residue
	refused
)

// step is a call and what has to become of it.
type step struct {
	call
	fate      fate
	delivered string // arguments after an edit
}

type scenario struct {
	name       string
	streamOnly bool // arguments that a whole reply can't hold
	steps      func(d dialect) []step
}

var scenarios = []scenario{
	{name: "allowed", steps: func(d dialect) []step {
		return []step{d.ok("c1", "echo one")}
	}},
	{name: "allowed with escapes and odd spacing", steps: func(d dialect) []step {
		return []step{{call: call{"c1", d.shell(), "{ \"command\" :\t\"printf '%s' 'a<b>&\\u0041 \\ud83d\\ude00 \u00e9'\" }"}}}
	}},
	{name: "allowed without arguments", steps: func(d dialect) []step {
		return []step{{call: call{"c1", "lookup", ""}}, {call: call{"c2", "lookup", "{}"}}}
	}},
	{name: "refused", steps: func(d dialect) []step {
		return []step{d.no("c1", "echo forbidden")}
	}},
	{name: "refused with escapes, odd spacing and other arguments", steps: func(d dialect) []step {
		return []step{{call{"c1", d.shell(), "{ \"description\":\"x\", \"command\" : \"echo forbidden \\u0041 'quoted' \\\\ \\\"\u00e9\\\"\" }"}, refused, ""}}
	}},
	{name: "refusal first", steps: func(d dialect) []step {
		return []step{d.no("c1", "echo forbidden"), d.ok("c2", "echo two"), d.ok("c3", "echo three")}
	}},
	{name: "refusal in the middle", steps: func(d dialect) []step {
		return []step{d.ok("c1", "echo one"), d.no("c2", "echo forbidden"), d.ok("c3", "echo three")}
	}},
	{name: "refusal last", steps: func(d dialect) []step {
		return []step{d.ok("c1", "echo one"), d.ok("c2", "echo two"), d.no("c3", "echo forbidden")}
	}},
	{name: "two refusals in a row", steps: func(d dialect) []step {
		return []step{d.ok("c1", "echo one"), d.no("c2", "echo forbidden"), d.no("c3", "echo forbidden again"), d.ok("c4", "echo four")}
	}},
	{name: "all refused", steps: func(d dialect) []step {
		return []step{d.no("c1", "echo forbidden"), d.no("c2", "echo forbidden")}
	}},
	{name: "a tool that is no shell refused", steps: func(d dialect) []step {
		return []step{{call{"c1", "Read", `{"file_path": "/etc/forbidden"}`}, refused, ""}, {call{"c2", "lookup", `{"q":"forbidden"}`}, refused, ""}}
	}},
	{name: "undeclared tools", steps: func(d dialect) []step {
		return []step{{call{"c1", "BASH", `{"command": "echo one"}`}, refused, ""}, d.ok("c2", "echo two"), {call{"c3", "write", `{"path":"x"}`}, refused, ""}}
	}},
	{name: "residue dropped", steps: func(d dialect) []step {
		var s []step
		for i, args := range []string{
			`{"command":"echo one",%s}`, `{%s,"command":"echo one"}`, `{"command":"echo one", %s , "timeout":1}`, `{"command":"echo one" , %s }`,
		} {
			r := `"dangerouslyDisableSandbox" : true`
			if !d.messages() {
				r = `"sandbox_permissions":"danger-full-access", "justification":"please, \"},"`
			}
			want := `{"command":"echo one"}`
			if i == 2 {
				want = `{"command":"echo one","timeout":1}`
			}
			s = append(s, step{call{"c" + string(rune('1'+i)), d.shell(), strings.Replace(args, "%s", r, 1)}, edited, want})
		}
		return s
	}},
	{name: "residue in a refused call", steps: func(d dialect) []step {
		return []step{{call{"c1", d.shell(), `{"command":"echo forbidden","dangerouslyDisableSandbox":true,"sandbox_permissions":"danger-full-access","justification":"why"}`}, refused, ""}}
	}},
	{name: "arguments that are no JSON object", streamOnly: true, steps: func(d dialect) []step {
		return []step{
			{call{"c1", d.shell(), `{"command":"echo on`}, refused, ""},
			{call{"c2", d.shell(), `["echo one"]`}, refused, ""},
			{call{"c3", d.shell(), `{"command":"echo one"}{"command":"echo two"}`}, refused, ""},
			{call{"c4", d.shell(), `{"command":"echo one","command":"echo two"}`}, refused, ""},
			{call{"c5", d.shell(), `null`}, refused, ""},
			d.ok("c6", "echo six"),
		}
	}},
}

func (d dialect) ok(id, command string) step {
	return step{call: call{id, d.shell(), `{"command":` + quote(command) + `}`}}
}

func (d dialect) no(id, command string) step {
	return step{call{id, d.shell(), `{"command":` + quote(command) + `}`}, refused, ""}
}

func TestAgentGoesOn(t *testing.T) {
	bash := machine.Needs(t, "bash")
	every(t, func(t *testing.T, d dialect) {
		for _, sc := range scenarios {
			if sc.streamOnly && !d.streaming {
				continue
			}
			t.Run(sc.name, func(t *testing.T) { goesOn(t, d, bash, sc.steps(d)) })
		}
	})
}

func goesOn(t *testing.T, d dialect, bash string, steps []step) {
	r := start(t)
	var calls []call
	for _, s := range steps {
		calls = append(calls, s.call)
	}
	r.up.then(d.reply("First this.", calls, 7), d.reply("Done.", nil, 0))
	client := d.open(r.url, d.streaming, 0)
	got, err := client.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.text != "First this." || got.stop != d.stop() {
		t.Errorf("the turn is %+v", got)
	}
	if len(got.calls) != len(steps) {
		t.Fatalf("the client has %d calls of %d: %+v", len(got.calls), len(steps), got.calls)
	}

	// The client runs what it got.
	var results []result
	told := map[string]string{} // refusals, as the client printed them
	for i, s := range steps {
		c := got.calls[i]
		if c.id != s.id {
			t.Fatalf("call %d has id %q, want %q", i, c.id, s.id)
		}
		switch s.fate {
		case allowed:
			if c.name != s.name || !d.sameArgs(c.args, s.args) {
				t.Errorf("call %s was allowed and is %s(%s), not %s(%s)", s.id, c.name, c.args, s.name, s.args)
			}
		case edited:
			if c.name != s.name || !sameJSON(c.args, s.delivered) {
				t.Errorf("call %s is %s(%s), want %s(%s)", s.id, c.name, c.args, s.name, s.delivered)
			}
		case refused:
			if c == s.call {
				t.Fatalf("call %s was to be refused and is there: %+v", s.id, c)
			}
		}
		switch c.name {
		case d.shell():
			res, failed := run(t, bash, c.args)
			results = append(results, result{c.id, res, failed})
			if s.fate == refused {
				if !failed {
					t.Errorf("refused call %s succeeded", s.id)
				}
				told[s.id] = strings.TrimSuffix(res, "\n")
				if onlyKey(c.args) != "command" {
					t.Errorf("a refusal keeps only the command, and this is %s", c.args)
				}
			}
		case "guardproxy_refused":
			var a struct{ Reason, Sealed string }
			if err := json.Unmarshal([]byte(c.args), &a); err != nil || a.Reason == "" || a.Sealed == "" || s.fate != refused {
				t.Errorf("call %s is an odd refusal: %s(%s)", s.id, c.name, c.args)
			}
			told[s.id] = a.Reason
			results = append(results, result{c.id, "no such tool: " + c.name, true})
		default:
			results = append(results, result{c.id, "ran " + c.name, false})
		}
		if s.fate == refused && !strings.HasPrefix(told[s.id], "guardproxy: not executed. ") {
			t.Errorf("call %s tells the model %q", s.id, told[s.id])
		}
	}
	client.answer(results)
	last, err := client.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if last.text != "Done." || len(last.calls) != 0 {
		t.Errorf("the last turn is %+v", last)
	}

	// What the model reads.
	past := d.history(t, r.up.last().body)
	if len(past) != len(steps) {
		t.Fatalf("upstream's history has %d calls of %d: %+v", len(past), len(steps), past)
	}
	for i, s := range steps {
		p := past[i]
		want := result{s.id, results[i].text, results[i].failed}
		switch s.fate {
		case refused:
			args := s.args
			if d.messages() && !json.Valid([]byte(args)) || d.messages() && !strings.HasPrefix(strings.TrimSpace(args), "{") || strings.Count(args, `"command":"echo`) > 1 && d.messages() {
				args = "{}" // the API takes nothing but an object
			}
			if p.call != (call{s.id, s.name, args}) {
				t.Errorf("upstream reads %+v for refused %+v", p.call, s.call)
			}
			want.text, want.failed = told[s.id], true
		case allowed:
			if p.call.name != s.name || !sameJSON(p.call.args, s.args) {
				t.Errorf("upstream reads %+v for allowed %+v", p.call, s.call)
			}
		case edited:
			if p.call.name != s.name || !sameJSON(p.call.args, s.delivered) {
				t.Errorf("upstream reads %+v for edited %+v", p.call, s.call)
			}
		}
		if !d.messages() {
			want.failed = false // OpenAI's have no mark for it
		}
		if p.result != want {
			t.Errorf("upstream reads the result %+v, want %+v", p.result, want)
		}
	}
	if strings.Contains(string(r.up.last().body), "gp1:") {
		t.Errorf("upstream sees a seal:\n%s", r.up.last().body)
	}

	// The guard judged what is there, and nothing else.
	for _, c := range r.guard.calls() {
		i := 0
		for i < len(steps) && steps[i].id != c.ID {
			i++
		}
		if i == len(steps) {
			t.Errorf("the guard saw a call %q that nobody made", c.ID)
			continue
		}
		s := steps[i]
		if s.fate != refused && !sameJSON(string(c.Arguments), got.calls[i].args) {
			t.Errorf("the guard judged %s and the client has %s", c.Arguments, got.calls[i].args)
		}
		if c.Name != s.name {
			t.Errorf("the guard judged %s as %s", s.name, c.Name)
		}
	}
}

// sameArgs compares allowed arguments: by bytes where the client keeps them.
// The Anthropic SDK replaces an input of {} by the fragments that follow, so
// that a call without fragments has {}.
func (d dialect) sameArgs(got, want string) bool {
	if d.messages() && want == "" {
		want = "{}"
	}
	return got == want
}

// onlyKey is the one key of an object, or all of them.
func onlyKey(args string) string {
	var m map[string]any
	if json.Unmarshal([]byte(args), &m) != nil {
		return args
	}
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return strings.Join(keys, " ")
}

// run runs the command of a shell call and returns what an agent would report.
func run(t *testing.T, bash, args string) (output string, failed bool) {
	t.Helper()
	var a struct {
		Command string `json:"command"`
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil {
		t.Fatalf("the client can't read %s: %v", args, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, bash, "-c", a.Command)
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if exit.ExitCode() == 126 && stdout.Len() > 0 {
			t.Errorf("a refusal wrote to stdout: %q", stdout.String())
		}
		if exit.ExitCode() != 126 {
			t.Errorf("%q ended with %d", a.Command, exit.ExitCode())
		}
	} else if err != nil {
		t.Fatal(err)
	}
	return stdout.String() + stderr.String(), err != nil
}

// pastCall is a call of a request's history and the result that answers it.
type pastCall struct {
	call
	result result
}

// history reads the calls of a request's body, raw.
func (d dialect) history(t fatal, body []byte) []pastCall {
	t.Helper()
	var q struct {
		Messages []struct {
			Role       string          `json:"role"`
			Content    json.RawMessage `json:"content"`
			ToolCallID string          `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"messages"`
		Input json.RawMessage
	}
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatalf("upstream got no JSON: %v\n%s", err, body)
	}
	if len(q.Input) > 0 {
		return pastItems(t, q.Input)
	}
	var past []pastCall
	answer := func(r result) {
		for i := range past {
			if past[i].id == r.id && past[i].result.id == "" {
				past[i].result = r
				return
			}
		}
		t.Errorf("a result for no call: %+v", r)
	}
	for _, m := range q.Messages {
		for _, c := range m.ToolCalls {
			past = append(past, pastCall{call: call{c.ID, c.Function.Name, c.Function.Arguments}})
		}
		if m.Role == "tool" {
			answer(result{m.ToolCallID, plainText(m.Content), false})
			continue
		}
		var blocks []struct {
			Type, ID, Name string
			Input          json.RawMessage
			ToolUseID      string `json:"tool_use_id"`
			Content        json.RawMessage
			IsError        bool `json:"is_error"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			continue
		}
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				past = append(past, pastCall{call: call{b.ID, b.Name, string(b.Input)}})
			case "tool_result":
				answer(result{b.ToolUseID, plainText(b.Content), b.IsError})
			}
		}
	}
	return past
}

func plainText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []struct{ Text string }
	json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		s += b.Text
	}
	return s
}

// What a client declares and can't be granted never reaches the model; the
// rest of the declaration stays as it was, cache marker and all.
func TestNarrowedOnTheWayUp(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		r := start(t)
		r.up.then(d.reply("Hello.", nil, 0))
		if _, err := d.open(r.url, d.streaming, 0).ask(t.Context()); err != nil {
			t.Fatal(err)
		}
		body := string(r.up.last().body)
		gone, stays := "dangerouslyDisableSandbox", []string{`"command"`, `"file_path"`, `"cache_control":{"type":"ephemeral"}`}
		if !d.messages() {
			gone, stays = "sandbox_permissions", []string{`"command"`, `"file_path"`}
		}
		if strings.Contains(body, gone) {
			t.Errorf("upstream sees %s:\n%s", gone, body)
		}
		mustContain(t, "upstream's request", body, stays...)
	})
}

func TestCountTokens(t *testing.T) {
	r := start(t)
	r.up.then(reply{header: jsonHeader, body: `{"input_tokens":42}`})
	client := anthropic.NewClient(aoption.WithBaseURL(r.url), aoption.WithAPIKey("test-key"), aoption.WithMaxRetries(0))
	var tools []anthropic.MessageCountTokensToolUnionParam
	for _, tool := range anthropicTools() {
		tools = append(tools, anthropic.MessageCountTokensToolUnionParam{OfTool: tool.OfTool})
	}
	n, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: "claude-test", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("go"))}, Tools: tools,
	})
	if err != nil || n.InputTokens != 42 {
		t.Fatalf("got %v, %v", n, err)
	}
	q := r.up.last()
	if q.path != "/v1/messages/count_tokens" {
		t.Errorf("upstream got %s", q.path)
	}
	if strings.Contains(string(q.body), "dangerouslyDisableSandbox") {
		t.Errorf("count_tokens counts what the model is never shown:\n%s", q.body)
	}
}
