package cachecheck

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/wire"
)

// Sessions for the proof: they grow as clients let them grow, in the three
// dialects, with tools that offer what can't be granted, texts that speak of
// it, refusals in the history, and markers that move on.

var testRing = func() *envelope.Keyring {
	k, err := envelope.NewKeyring([]byte("a key for tests, of 32 bytes ..."))
	if err != nil {
		panic(err)
	}
	return k
}()

// theRewrite is the way up, which remembers what it has narrowed.
func theRewrite(ring *envelope.Keyring) Rewrite {
	return waysUp(ring, map[string]*rewrite.Narrower{})
}

// aFreshRewrite is one that remembers nothing from call to call.
func aFreshRewrite() Rewrite { return waysUp(testRing, nil) }

func waysUp(ring *envelope.Keyring, known map[string]*rewrite.Narrower) Rewrite {
	return func(dialect string, rules, body []byte) (Rewritten, error) {
		n := known[string(rules)]
		if n == nil {
			r, err := rewrite.ParseRules(rules)
			if err != nil {
				return Rewritten{}, err
			}
			if n = r.Narrower(); known != nil {
				known[string(rules)] = n
			}
		}
		q, err := wire.Read(wire.Route{Dialect: wire.Dialect(dialect)}, body, nil)
		if err != nil {
			return Rewritten{}, err
		}
		res := rewrite.Apply(q, body, n, ring)
		return Rewritten{res.Body, res.Restored.Calls, res.Restored.Foreign}, nil
	}
}

var proofDialects = []string{"anthropic-messages", "openai-chat", "openai-responses"}

// genTool is a tool as its name, description and schema.
type genTool struct{ name, description, schema string }

var genTools = []genTool{
	{"Bash", `Runs a command in a shell.\n\nUsage notes:\n - Quote paths with spaces \u003c like this \u003e.\n - Set dangerouslyDisableSandbox to true to run without the sandbox.\n - The timeout is in milliseconds.`,
		`{"type":"object","properties":{"command":{"type":"string","description":"The command"},"timeout":{"type":"number"},"dangerouslyDisableSandbox":{"type":"boolean","description":"Set this to true to run without sandboxing."}},"required":["command"],"additionalProperties":false}`},
	{"bash", `Run a shell command. Use sandbox_permissions to ask for more when a command fails.`,
		`{"type": "object", "properties": {"sandbox_permissions": {"type": "string", "enum": ["use_default", "danger-full-access"]}, "justification": {"type": "string"}, "command": {"type": "string"}}, "required": ["command", "justification"]}`},
	{"exec_command", `Runs a command in a PTY.`,
		`{"type":"object","properties":{"cmd":{"type":"string"},"justification":{"type":"string"},"prefix_rule":{"type":"array","items":{"type":"string"}},"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]},"workdir":{"type":"string"}},"required":["cmd"]}`},
	{"request_permissions", `Ask the user for more permissions.`, `{"type":"object","properties":{"reason":{"type":"string"}}}`},
	{"Read", `Reads a file \/ a part of one. É.`, `{"type":"object","properties":{"file_path":{"type":"string"},"justification":{"type":"string","description":"why, 1e3 characters at most"}},"required":["file_path"]}`},
	{"report", `Says what was done.`, `{}`},
}

var genTexts = []string{
	`Look at the tests and fix them.`,
	`Why does \"go vet\" fail? \u003ccode\u003e`,
	`You may set dangerouslyDisableSandbox when a command needs it. Be brief.`,
	`Approval policy is currently never. Commands run with sandbox_permissions set to require_escalated skip the sandbox.\nWork on.`,
	`éü漢 \ud83d\ude00 \\n not a line`,
	``,
	`Current runtime context.\n- cwd: /w\n- Ask for sandbox_permissions require_escalated when a command fails.\n- Approval: never.`,
	`<environment_context>\n  <approval_policy>never</approval_policy>\n  <sandbox_mode>workspace-write</sandbox_mode>\n</environment_context>`,
}

var genResults = []string{`ok`, `exit status 1\n[The command was denied by the sandbox. Set dangerouslyDisableSandbox to true to run it outside.]`, `12 files\n`, `{\"a\":1}`}

// genSession is a session that grows request by request.
type genSession struct {
	t        *rapid.T
	dialect  string
	tools    []genTool
	spaced   bool   // a client that writes ": " and ", "
	order    string // of the members of a request
	marked   bool   // sends cache markers
	blocks   bool   // writes texts as blocks
	again    bool   // uses the ids of calls again
	system   string
	rules    json.RawMessage
	messages []string // without markers
	calls    int
}

func newSession(t *rapid.T, dialect string) *genSession {
	s := &genSession{t: t, dialect: dialect, spaced: rapid.Bool().Draw(t, "spaced"), marked: rapid.Bool().Draw(t, "marked"), blocks: rapid.Bool().Draw(t, "blocks"), again: rapid.IntRange(0, 3).Draw(t, "ids again") == 0,
		order:  rapid.SampledFrom([]string{"model tools system messages", "messages system tools model", "system messages model tools"}).Draw(t, "order"),
		system: rapid.SampledFrom(genTexts).Draw(t, "system")}
	s.tools = rapid.SliceOfNDistinct(rapid.SampledFrom(genTools), 0, len(genTools), func(g genTool) string { return g.name }).Draw(t, "tools")
	r := rewrite.Rules{Rules: agents.Builtin().Rules(nil), KeepTexts: rapid.IntRange(0, 3).Draw(t, "keep texts") == 0, KeepHints: rapid.IntRange(0, 3).Draw(t, "keep hints") == 0}
	if rapid.IntRange(0, 9).Draw(t, "no rules") == 0 {
		r = rewrite.Rules{}
	}
	s.rules = r.JSON()
	return s
}

const markMember = `,"cache_control":{"type":"ephemeral"}`

func (s *genSession) tool(g genTool, last bool) string {
	mark := ""
	if last && s.marked {
		mark = markMember
	}
	switch s.dialect {
	case "anthropic-messages":
		return fmt.Sprintf(`{"name":"%s","description":"%s","input_schema":%s%s}`, g.name, g.description, g.schema, mark)
	case "openai-chat":
		return fmt.Sprintf(`{"type":"function","function":{"description":"%s","name":"%s","parameters":%s,"strict":false}%s}`, g.description, g.name, g.schema, mark)
	}
	return fmt.Sprintf(`{"type":"function","name":"%s","description":"%s","strict":false,"parameters":%s}`, g.name, g.description, g.schema)
}

// textOf is a text as this client writes it.
func (s *genSession) textOf(text string) string {
	if s.blocks {
		typ := "text"
		if s.dialect == "openai-responses" {
			typ = "input_text"
		}
		return `[{"type":"` + typ + `","text":"` + text + `"}]`
	}
	return `"` + text + `"`
}

// grow adds one turn; sometimes the user takes turns back before, or a tool is
// added.
func (s *genSession) grow() {
	t := s.t
	switch rapid.IntRange(0, 11).Draw(t, "before") {
	case 0:
		s.messages = s.messages[:rapid.IntRange(0, len(s.messages)).Draw(t, "rewind")]
	case 1:
		more := rapid.SampledFrom(genTools).Draw(t, "tool")
		if !slices.ContainsFunc(s.tools, func(g genTool) bool { return g.name == more.name }) {
			s.tools = append(s.tools[:len(s.tools):len(s.tools)], more)
		}
	}
	add := func(format string, args ...any) { s.messages = append(s.messages, fmt.Sprintf(format, args...)) }
	role := "user"
	if rapid.IntRange(0, 5).Draw(t, "role") == 0 {
		role = map[string]string{"anthropic-messages": "system", "openai-chat": "developer", "openai-responses": "developer"}[s.dialect]
	}
	text := s.textOf(rapid.SampledFrom(genTexts).Draw(t, "text"))
	if s.dialect == "openai-responses" {
		add(`{"type":"message","role":"%s","content":%s}`, role, text)
	} else {
		add(`{"role":"%s","content":%s}`, role, text)
	}
	for range rapid.IntRange(0, 2).Draw(t, "replies") {
		var calls, results []string
		for range rapid.IntRange(1, 2).Draw(t, "calls") {
			call, result := s.call(len(calls))
			calls, results = append(calls, call), append(results, result)
		}
		switch s.dialect {
		case "anthropic-messages":
			add(`{"role":"assistant","content":[{"type":"text","text":"%s"},%s]}`, genTexts[s.calls%len(genTexts)], strings.Join(calls, ","))
			if s.blocks {
				results = append(results, `{"type":"text","text":"`+genTexts[s.calls%3]+`"}`)
			}
			add(`{"role":"user","content":[%s]}`, strings.Join(results, ","))
		case "openai-chat":
			add(`{"role":"assistant","content":null,"tool_calls":[%s]}`, strings.Join(calls, ","))
			s.messages = append(s.messages, results...)
		default:
			s.messages = append(append(s.messages, calls...), results...)
		}
	}
}

// call is a call, the n-th of its reply, and its result.
func (s *genSession) call(n int) (call, result string) {
	t := s.t
	s.calls++
	id := fmt.Sprintf("call_%d", s.calls)
	if s.again {
		id = fmt.Sprintf("call_%d", n) // some servers count from 0 in each reply
	}
	name := rapid.SampledFrom([]string{"Bash", "bash", "exec_command", "Read"}).Draw(t, "name")
	arg := map[string]string{"Bash": "command", "bash": "command", "exec_command": "cmd", "Read": "file_path"}[name]
	args := fmt.Sprintf(`{"%s":"ls %d \u003e x"}`, arg, s.calls)
	text := rapid.SampledFrom(genResults).Draw(t, "result")
	if rapid.IntRange(0, 2).Draw(t, "refused") == 0 {
		form := envelope.Target{Form: envelope.ShellForm, Argument: arg, Fallback: envelope.UnknownForm}
		if name == "Read" {
			form = envelope.Target{Form: envelope.UnknownForm, Fallback: envelope.UnknownForm}
		}
		n, a := testRing.Refuse(envelope.Call{Name: name, Args: []byte(args), Text: "guardproxy: not executed. No."}, form)
		name, args = n, string(a)
	}
	quoted, _ := json.Marshal(args)
	switch s.dialect {
	case "anthropic-messages":
		content := `"` + text + `"`
		if s.blocks {
			content = `[{"type":"text","text":"` + text + `"}]`
		}
		return fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"%s","input":%s}`, id, name, args), fmt.Sprintf(`{"type":"tool_result","tool_use_id":"%s","content":%s}`, id, content)
	case "openai-chat":
		return fmt.Sprintf(`{"id":"%s","type":"function","function":{"name":"%s","arguments":%s}}`, id, name, quoted), fmt.Sprintf(`{"role":"tool","tool_call_id":"%s","content":"%s"}`, id, text)
	}
	return fmt.Sprintf(`{"type":"function_call","call_id":"%s","name":"%s","arguments":%s}`, id, name, quoted), fmt.Sprintf(`{"type":"function_call_output","call_id":"%s","output":"%s"}`, id, text)
}

// body is the request as it stands now.
func (s *genSession) body() []byte {
	var tools []string
	for i, g := range s.tools {
		tools = append(tools, s.tool(g, i == len(s.tools)-1))
	}
	messages := append([]string(nil), s.messages...)
	if n := len(messages); s.marked && n > 0 && s.dialect == "anthropic-messages" {
		// On the last block, where it is one that can carry it.
		if last := messages[n-1]; strings.HasSuffix(last, "}]}") {
			messages[n-1] = last[:len(last)-3] + markMember + "}]}"
		}
	}
	member := map[string]string{
		"model":    `"model":"m","max_tokens":1024,"stream":true`,
		"tools":    `"tools":[` + strings.Join(tools, ",") + `]`,
		"messages": `"messages":[` + strings.Join(messages, ",") + `]`,
		"system":   `"temperature":1.0`,
	}
	switch s.dialect {
	case "anthropic-messages":
		member["system"] = `"system":` + s.textOf(s.system)
	case "openai-responses":
		member["messages"] = `"input":[` + strings.Join(messages, ",") + `]`
		member["system"] = `"instructions":"` + s.system + `"`
	}
	var parts []string
	for _, name := range strings.Fields(s.order) {
		parts = append(parts, member[name])
	}
	body := "{" + strings.Join(parts, ",") + "}"
	if s.spaced {
		body = strings.ReplaceAll(strings.ReplaceAll(body, `","`, `", "`), `":{`, `": {`)
	}
	return []byte(body)
}

// exchange is the session's next request, as it is recorded when rw is the way
// up.
func (s *genSession) exchange(rw Rewrite) *record.Exchange {
	in := s.body()
	got, err := rw(s.dialect, s.rules, in)
	if err != nil {
		s.t.Fatalf("rewrite: %v\n%s", err, in)
	}
	x := &record.Exchange{Session: "5e55", Dialect: s.dialect, Method: "POST", ClientBody: in, UpstreamBody: got.Body, Rules: s.rules}
	x.Rewrite.Restored = got.Restored
	return x
}

// asRecording writes exchanges as a recorder does.
func asRecording(xs []*record.Exchange) string {
	var out []byte
	for i, x := range xs {
		if i == 0 || string(x.Rules) != string(xs[i-1].Rules) {
			out = record.AppendHeader(out, x.Rules)
		}
		out = record.AppendExchange(out, x)
	}
	return string(out)
}
