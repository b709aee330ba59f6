package cachecheck

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// A talk is a session that tests write: one description, and a body in each
// dialect. Tests change the description (or the text of the body) in a way that
// they can name, and the checker has to name it too.

type talk struct {
	dialect, model string
	tools          []talkTool
	system         []string
	marks          bool // cache_control on the last tool, the last system block and the last message
	markSystem     int  // where the system's marker stands instead, from 1; 0: the last block
	ttl            string
	msgs           []talkMsg
	params         []string // "key":value, at the top
	history        bool     // messages before tools and system
	noTools        bool
}

type talkTool struct{ name, text, schema string }

type talkMsg struct {
	role  string // user, assistant, tool
	parts []talkPart
	asStr bool // content as one string
}

type talkPart struct {
	kind           string // text, call, result, think, image, raw
	text, id, name string
	args           string // JSON
	mark           bool
}

func txt(s string) talkPart   { return talkPart{kind: "text", text: s} }
func think(s string) talkPart { return talkPart{kind: "think", text: s} }
func call(id, name, args string) talkPart {
	return talkPart{kind: "call", id: id, name: name, args: args}
}
func result(id, s string) talkPart { return talkPart{kind: "result", id: id, text: s} }
func image(data string) talkPart   { return talkPart{kind: "image", text: data} }

func user(p ...talkPart) talkMsg      { return talkMsg{role: "user", parts: p} }
func assistant(p ...talkPart) talkMsg { return talkMsg{role: "assistant", parts: p} }
func toolMsg(p ...talkPart) talkMsg   { return talkMsg{role: "tool", parts: p} }

// clone is a copy that shares nothing.
func (s *talk) clone() *talk {
	c := *s
	c.tools = append([]talkTool(nil), s.tools...)
	c.system = append([]string(nil), s.system...)
	c.params = append([]string(nil), s.params...)
	c.msgs = nil
	for _, m := range s.msgs {
		m.parts = append([]talkPart(nil), m.parts...)
		c.msgs = append(c.msgs, m)
	}
	return &c
}

// with is a changed copy.
func (s *talk) with(f func(*talk)) *talk {
	c := s.clone()
	f(c)
	return c
}

// say is a copy with more messages.
func (s *talk) say(m ...talkMsg) *talk {
	return s.with(func(c *talk) { c.msgs = append(c.msgs, m...) })
}

func q(s string) string { return string(tape.Quote(nil, s)) }

// body writes the request in the order in which clients do: model, system,
// messages, tools, and what else there is.
func (s *talk) body() []byte {
	var members []string
	add := func(key, value string) {
		if value != "" {
			members = append(members, q(key)+":"+value)
		}
	}
	var tools, system, msgs string
	if len(s.tools) > 0 && !s.noTools {
		tools = s.renderTools()
	}
	switch s.dialect {
	case dialectMessages:
		system, msgs = s.renderSystem(), s.renderMessages()
		add("model", q(s.model))
		add("max_tokens", "32000")
		if s.history {
			add("messages", msgs)
			add("system", system)
			add("tools", tools)
		} else {
			add("system", system)
			add("tools", tools)
			add("messages", msgs)
		}
	case dialectChat:
		add("model", q(s.model))
		if !s.history {
			add("tools", tools)
		}
		add("messages", s.renderChat())
		if s.history {
			add("tools", tools)
		}
		add("stream", "true")
	case dialectResponses:
		add("model", q(s.model))
		if len(s.system) > 0 {
			add("instructions", q(strings.Join(s.system, "\n\n")))
		}
		if s.history {
			add("input", s.renderInput())
		}
		add("tools", tools)
		if !s.history {
			add("input", s.renderInput())
		}
		add("store", "false")
	case dialectGemini:
		if len(s.system) > 0 {
			var parts []string
			for _, t := range s.system {
				parts = append(parts, `{"text":`+q(t)+`}`)
			}
			add("systemInstruction", `{"parts":[`+strings.Join(parts, ",")+`]}`)
		}
		add("tools", tools)
		add("contents", s.renderContents())
	case dialectConverse:
		var parts []string
		for _, t := range s.system {
			parts = append(parts, `{"text":`+q(t)+`}`)
		}
		if s.marks && len(parts) > 0 {
			parts = append(parts, `{"cachePoint":{"type":"default"}}`)
		}
		add("system", "["+strings.Join(parts, ",")+"]")
		add("messages", s.renderConverse())
		if tools != "" {
			add("toolConfig", `{"tools":`+tools+`}`)
		}
		add("inferenceConfig", `{"maxTokens":4096}`)
	}
	members = append(members, s.params...)
	return []byte("{" + strings.Join(members, ",") + "}")
}

func (s *talk) mark() string {
	if s.ttl != "" {
		return `,"cache_control":{"type":"ephemeral","ttl":` + q(s.ttl) + `}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

func (s *talk) renderTools() string {
	var out []string
	for i, t := range s.tools {
		switch s.dialect {
		case dialectMessages:
			m := ""
			if s.marks && i == len(s.tools)-1 {
				m = s.mark()
			}
			if strings.HasPrefix(t.schema, `"type"`) { // a hosted tool
				out = append(out, "{"+t.schema+`,"name":`+q(t.name)+m+"}")
				continue
			}
			out = append(out, `{"name":`+q(t.name)+`,"description":`+q(t.text)+`,"input_schema":`+t.schema+m+"}")
		case dialectChat:
			out = append(out, `{"type":"function","function":{"name":`+q(t.name)+`,"description":`+q(t.text)+`,"parameters":`+t.schema+`}}`)
		case dialectResponses:
			out = append(out, `{"type":"function","name":`+q(t.name)+`,"description":`+q(t.text)+`,"strict":false,"parameters":`+t.schema+`}`)
		case dialectGemini:
			out = append(out, `{"name":`+q(t.name)+`,"description":`+q(t.text)+`,"parameters":`+t.schema+`}`)
		case dialectConverse:
			out = append(out, `{"toolSpec":{"name":`+q(t.name)+`,"description":`+q(t.text)+`,"inputSchema":{"json":`+t.schema+`}}}`)
		}
	}
	if s.dialect == dialectConverse && s.marks {
		out = append(out, `{"cachePoint":{"type":"default"}}`)
	}
	if s.dialect == dialectGemini {
		return `[{"functionDeclarations":[` + strings.Join(out, ",") + `]}]`
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (s *talk) renderSystem() string {
	var out []string
	for i, t := range s.system {
		m := ""
		if s.marks && (s.markSystem == i+1 || s.markSystem == 0 && i == len(s.system)-1) {
			m = s.mark()
		}
		out = append(out, `{"type":"text","text":`+q(t)+m+`}`)
	}
	if len(out) == 0 {
		return ""
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (s *talk) renderMessages() string {
	var out []string
	for i, m := range s.msgs {
		role := m.role
		if role == "tool" {
			role = "user"
		}
		if m.asStr {
			out = append(out, `{"role":`+q(role)+`,"content":`+q(m.parts[0].text)+`}`)
			continue
		}
		var parts []string
		for k, p := range m.parts {
			mark := ""
			if p.mark || s.marks && s.markSystem == 0 && i == len(s.msgs)-1 && k == len(m.parts)-1 {
				mark = s.mark()
			}
			switch p.kind {
			case "text":
				parts = append(parts, `{"type":"text","text":`+q(p.text)+mark+`}`)
			case "call":
				parts = append(parts, `{"type":"tool_use","id":`+q(p.id)+`,"name":`+q(p.name)+`,"input":`+p.args+mark+`}`)
			case "result":
				parts = append(parts, `{"type":"tool_result","tool_use_id":`+q(p.id)+`,"content":`+q(p.text)+mark+`}`)
			case "think":
				parts = append(parts, `{"type":"thinking","thinking":`+q(p.text)+`,"signature":`+q("sig"+p.id)+`}`)
			case "image":
				parts = append(parts, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":`+q(p.text)+`}`+mark+`}`)
			case "raw":
				parts = append(parts, p.text)
			}
		}
		out = append(out, `{"role":`+q(role)+`,"content":[`+strings.Join(parts, ",")+`]}`)
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (s *talk) renderChat() string {
	var out []string
	for _, t := range s.system {
		out = append(out, `{"role":"system","content":`+q(t)+`}`)
	}
	for _, m := range s.msgs {
		if m.role == "tool" {
			for _, p := range m.parts {
				out = append(out, `{"role":"tool","tool_call_id":`+q(p.id)+`,"content":`+q(p.text)+`}`)
			}
			continue
		}
		var content, calls []string
		extra := ""
		for _, p := range m.parts {
			switch p.kind {
			case "text":
				content = append(content, `{"type":"text","text":`+q(p.text)+`}`)
			case "image":
				content = append(content, `{"type":"image_url","image_url":{"url":`+q("data:image/png;base64,"+p.text)+`}}`)
			case "call":
				calls = append(calls, `{"id":`+q(p.id)+`,"type":"function","function":{"name":`+q(p.name)+`,"arguments":`+q(p.args)+`}}`)
			case "think":
				extra += `,"reasoning_content":` + q(p.text)
			case "raw":
				content = append(content, p.text)
			}
		}
		o := `{"role":` + q(m.role)
		switch {
		case m.asStr || m.role == "assistant" && len(content) == 1 && m.parts[0].kind != "raw":
			for _, p := range m.parts {
				if p.kind == "text" {
					o += `,"content":` + q(p.text)
				}
			}
		case len(content) > 0:
			o += `,"content":[` + strings.Join(content, ",") + "]"
		default:
			o += `,"content":null`
		}
		o += extra
		if len(calls) > 0 {
			o += `,"tool_calls":[` + strings.Join(calls, ",") + "]"
		}
		out = append(out, o+"}")
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (s *talk) renderInput() string {
	var out []string
	for _, m := range s.msgs {
		var content []string
		kind := "input_text"
		if m.role == "assistant" {
			kind = "output_text"
		}
		flush := func() {
			if len(content) > 0 {
				out = append(out, `{"type":"message","role":`+q(m.role)+`,"content":[`+strings.Join(content, ",")+`]}`)
			}
			content = nil
		}
		if m.asStr {
			out = append(out, `{"type":"message","role":`+q(m.role)+`,"content":`+q(m.parts[0].text)+`}`)
			continue
		}
		for _, p := range m.parts {
			switch p.kind {
			case "text":
				content = append(content, `{"type":`+q(kind)+`,"text":`+q(p.text)+`}`)
			case "image":
				content = append(content, `{"type":"input_image","image_url":`+q("data:image/png;base64,"+p.text)+`}`)
			case "call":
				flush()
				out = append(out, `{"type":"function_call","call_id":`+q(p.id)+`,"name":`+q(p.name)+`,"arguments":`+q(p.args)+`}`)
			case "result":
				flush()
				out = append(out, `{"type":"function_call_output","call_id":`+q(p.id)+`,"output":`+q(p.text)+`}`)
			case "think":
				flush()
				out = append(out, `{"type":"reasoning","id":`+q("rs_"+p.id)+`,"summary":[],"encrypted_content":`+q(p.text)+`}`)
			case "raw":
				content = append(content, p.text)
			}
		}
		flush()
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (s *talk) renderContents() string {
	var out []string
	for _, m := range s.msgs {
		role := map[string]string{"user": "user", "tool": "user", "assistant": "model"}[m.role]
		var parts []string
		for _, p := range m.parts {
			switch p.kind {
			case "text":
				parts = append(parts, `{"text":`+q(p.text)+`}`)
			case "think":
				parts = append(parts, `{"text":`+q(p.text)+`,"thought":true}`)
			case "image":
				parts = append(parts, `{"inlineData":{"mimeType":"image/png","data":`+q(p.text)+`}}`)
			case "call":
				parts = append(parts, `{"functionCall":{"id":`+q(p.id)+`,"name":`+q(p.name)+`,"args":`+p.args+`}}`)
			case "result":
				parts = append(parts, `{"functionResponse":{"id":`+q(p.id)+`,"name":"tool","response":{"output":`+q(p.text)+`}}}`)
			case "raw":
				parts = append(parts, p.text)
			}
		}
		out = append(out, `{"role":`+q(role)+`,"parts":[`+strings.Join(parts, ",")+`]}`)
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (s *talk) renderConverse() string {
	var out []string
	for i, m := range s.msgs {
		role := m.role
		if role == "tool" {
			role = "user"
		}
		var parts []string
		for _, p := range m.parts {
			switch p.kind {
			case "text":
				parts = append(parts, `{"text":`+q(p.text)+`}`)
			case "think":
				parts = append(parts, `{"reasoningContent":{"reasoningText":{"text":`+q(p.text)+`,"signature":"s"}}}`)
			case "image":
				parts = append(parts, `{"image":{"format":"png","source":{"bytes":`+q(p.text)+`}}}`)
			case "call":
				parts = append(parts, `{"toolUse":{"toolUseId":`+q(p.id)+`,"name":`+q(p.name)+`,"input":`+p.args+`}}`)
			case "result":
				parts = append(parts, `{"toolResult":{"toolUseId":`+q(p.id)+`,"content":[{"text":`+q(p.text)+`}]}}`)
			case "raw":
				parts = append(parts, p.text)
			}
		}
		if s.marks && i == len(s.msgs)-1 {
			parts = append(parts, `{"cachePoint":{"type":"default"}}`)
		}
		out = append(out, `{"role":`+q(role)+`,"content":[`+strings.Join(parts, ",")+`]}`)
	}
	return "[" + strings.Join(out, ",") + "]"
}

var talkDialects = []string{dialectMessages, dialectChat, dialectResponses, dialectGemini, dialectConverse}

var talkModels = map[string]string{
	dialectMessages: "claude-sonnet-4-6", dialectChat: "gpt-5", dialectResponses: "gpt-5.6-sol", dialectGemini: "gemini-3.6-flash", dialectConverse: "anthropic.claude-sonnet-4-6-v1:0",
}

// house is a system text of the length that real ones have, so that minimums
// are reached.
var house = func() string {
	var b strings.Builder
	b.WriteString("You look after a small library of weather stations. Work in steps, and say what you found before you change anything.\n")
	for i := range 60 {
		fmt.Fprintf(&b, "Rule %d: a station that stays silent for %d hours is visited by the warden of its valley; note the visit in the ledger, with who went and what the instruments showed.\n", i+1, i+3)
	}
	return b.String()
}()

// baseTalk is a conversation of three turns that a client has just sent.
func baseTalk(dialect string) *talk {
	return &talk{
		dialect: dialect, model: talkModels[dialect], marks: dialect == dialectMessages || dialect == dialectConverse,
		tools: []talkTool{
			{"Bash", "Runs a command in the station's shell.", `{"type":"object","properties":{"command":{"type":"string","description":"What to run."},"timeout":{"type":"number"}},"required":["command"]}`},
			{"Read", "Reads one file of the ledger.", `{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}`},
			{"mcp__wind__gusts", "Lists the gusts of a day.", `{"type":"object","properties":{"day":{"type":"string"}}}`},
			{"mcp__wind__calm", "Lists the hours without wind.", `{"type":"object","properties":{"day":{"type":"string"}}}`},
		},
		system: []string{house, "The ledger lies in /srv/ledger. Its keeper is the station's owner."},
		msgs: []talkMsg{
			user(txt("Why does the station on the ridge report snow in July?")),
			assistant(think("The sensor may be frosted."), txt("I will look at what the sensor wrote last week."), call("call_a1", "Bash", `{"command":"tail -n 40 /srv/ledger/ridge.log","timeout":20}`)),
			toolMsg(result("call_a1", strings.Repeat("07:10 ridge snow 0.4 mm; 07:20 ridge snow 0.5 mm; 07:30 ridge dry\n", 12))),
			assistant(txt("The readings come in pairs, ten minutes apart, and only in the morning.")),
			user(txt("Look at the valley's station too.")),
			assistant(txt("I will compare both."), call("call_a2", "Read", `{"path":"/srv/ledger/valley.log","limit":40}`)),
			toolMsg(result("call_a2", strings.Repeat("07:10 valley dry; 07:20 valley dry; 07:30 valley dew\n", 10))),
		},
	}
}

// more is what a turn adds.
func more(n int) []talkMsg {
	return []talkMsg{
		assistant(txt("Turn " + strconv.Itoa(n) + ": the valley is dry while the ridge reports snow, so the ridge's sensor is at fault.")),
		user(txt("Then write a note for the warden, number " + strconv.Itoa(n) + ".")),
	}
}

// exchangeOf wraps a body.
func exchangeOf(body []byte) *Exchange { return &Exchange{Body: body} }

// compareBodies checks two bodies in order and returns what was found for the
// second one.
func compareBodies(a, b []byte) Result {
	c := New(Options{})
	c.Add(exchangeOf(a))
	return c.Add(exchangeOf(b))
}

// swap replaces text in a body; it must be there.
func swap(body []byte, old, new string) []byte {
	if !bytes.Contains(body, []byte(old)) {
		panic("the body has no " + old)
	}
	return bytes.Replace(body, []byte(old), []byte(new), 1)
}
