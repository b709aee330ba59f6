package cachecheck

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// A request is laid out as a list of blocks in three layers, tools, system and
// messages: what a provider renders, in the order in which it does. Most
// providers render the layers in this order; those that don't say so in their
// Rule. Each dialect has its own function that finds the blocks in a body; all
// else works on blocks.
//
//	tools     one block a declared tool
//	system    one block a part of the system text; in Chat and Responses also
//	          the system and developer messages that the history begins with
//	messages  one block a part of a message, a call, a result
//
// Parameters outside of the layers that providers render, or key their cache
// by, are kept as hashes under their label.

type layer uint8

const (
	toolsLayer layer = iota
	systemLayer
	messagesLayer
)

func (l layer) String() string { return [...]string{"tools", "system", "messages"}[l] }

type kind uint8

const (
	otherBlock kind = iota
	textBlock
	callBlock
	resultBlock
	reasoningBlock
	imageBlock
	emptyBlock // stands for a message without content
)

type piece struct {
	layer    layer
	kind     kind
	first    bool // of its message
	blank    bool // text of white space alone
	billing  bool // Claude Code's billing line
	marked   bool
	msg      int32 // of the message in its layer, 0 for tools
	node     int32
	from, to int32 // in the body
	raw      uint64
	forms
	ttl  string // of the marker, "" for the provider's default
	name string // of a tool
	id   string // of a call or a result
}

type message struct {
	role     string
	from, to int // blocks
	strip    sum
	size     int
}

type param struct {
	label Label
	name  string
	sum   sum
	value string // for people, clipped; "" when it is not short
	node  int    // in the body, −1 when it is not there
}

// request is one body, laid out. Its memory is used again.
type request struct {
	n       int // of the exchange, from 1
	file    string
	body    []byte // nil when it was given up to save memory
	size    int    // of the body
	dialect string
	model   string
	stream  bool

	blocks   []piece
	system   int // index of the first system block
	messages int // and of the first message block
	msgs     []message
	params   []param
	deferred int // tools outside of the prefix
	auto     bool
	autoTTL  string
	markers  int
	lossy    bool
	order    []string // of the body's top-level keys
	mark     bool     // the body begins with a byte order mark

	clientTools map[string]sum // tools as the client sent them
	prevID      string         // the response that the request continues or compares with
	cacheKey    string
	session     string // that the body names
	stateful    string // why the prefix is not in the body

	// From the exchange.
	start, firstByte int64
	credential, host string
	scope            string
	upstream         string
	respID           string
	usage            Usage
	provider         string
	rule             *Rule
}

func (q *request) tools() []piece   { return q.blocks[:q.system] }
func (q *request) sys() []piece     { return q.blocks[q.system:q.messages] }
func (q *request) history() []piece { return q.blocks[q.messages:] }

// extent is the part of the body in which the blocks of l stand: in the order
// of rendering, the first is not always the first in the body.
func (q *request) extent(l []piece) []byte {
	lo, hi := len(q.body), 0
	for i := range l {
		lo, hi = min(lo, int(l[i].from)), max(hi, int(l[i].to))
	}
	if lo >= hi || hi > len(q.body) {
		return nil
	}
	return q.body[lo:hi]
}

// gather joins the texts of blocks up to most bytes.
func (q *request) gather(l []piece, most int) (out []byte) {
	for i := range l {
		if len(out) >= most || q.body == nil {
			break
		}
		out = append(out, q.body[l[i].from:l[i].to]...)
	}
	return out
}

// layouter lays bodies out.
type layouter struct {
	t tape.Tape
	h hasher
}

// read lays body out into q, whose memory is used again. The error says why the
// body is not JSON; odd says why it is no request that we compare.
func (l *layouter) read(q *request, body []byte, dialect, path string) (odd Odd, note string) {
	*q = request{blocks: q.blocks[:0], msgs: q.msgs[:0], params: q.params[:0], order: q.order[:0]}
	body, q.mark = bytes.CutPrefix(body, []byte("\xef\xbb\xbf"))
	q.body, q.size = body, len(body)
	if len(body) == 0 {
		return OddNoBody, ""
	}
	if err := l.t.ParseRepeats(body); err != nil {
		return OddNotJSON, err.Error()
	}
	t := &l.t
	if t.Kind(0) != tape.Object {
		return OddShape, "the body is " + t.Kind(0).String()
	}
	switch dialect {
	case dialectMessages, dialectChat, dialectResponses, dialectGemini, dialectConverse:
	default:
		dialect = dialectOf(path, t)
	}
	q.dialect = dialect
	for k := 1; k < t.After(0); k = t.After(k + 1) {
		q.order = append(q.order, t.Str(k))
	}
	q.model = t.Str(first(t, 0, "model", "modelId"))
	if q.model == "" {
		q.model = modelInPath(path)
	}
	q.stream = t.Kind(t.Get(0, "stream")) == tape.True
	q.session = sessionOf(t)
	q.cacheKey = t.Str(t.Get(0, "prompt_cache_key"))
	switch dialect {
	case dialectMessages:
		l.messagesBody(q)
	case dialectChat:
		l.chatBody(q)
	case dialectResponses:
		l.responsesBody(q)
	case dialectGemini:
		l.geminiBody(q)
	case dialectConverse:
		l.converseBody(q)
	default:
		return OddShape, "no dialect has this shape"
	}
	if q.stateful != "" {
		return OddStateful, q.stateful
	}
	if len(q.msgs) == 0 {
		return OddShape, "the request has no messages"
	}
	return "", ""
}

// modelInPath finds the model where dialects put it in the path:
// models/NAME:generateContent, model/NAME/converse.
func modelInPath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if (s == "model" || s == "models") && i+1 < len(segments) {
			m, _, _ := strings.Cut(segments[i+1], ":generate")
			m, _, _ = strings.Cut(m, ":stream")
			m, _, _ = strings.Cut(m, ":raw")
			return strings.ReplaceAll(m, "%3A", ":")
		}
	}
	return ""
}

// sessionOf is the session that a body names: Claude Code's metadata.user_id is
// a JSON text that holds it, older ones end in _session_ID.
func sessionOf(t *tape.Tape) string {
	id := t.Str(t.Get(t.Get(0, "metadata"), "user_id"))
	if i := strings.Index(id, `"session_id":"`); i >= 0 {
		s, _, _ := strings.Cut(id[i+len(`"session_id":"`):], `"`)
		return s
	}
	if _, s, ok := strings.Cut(id, "_session_"); ok {
		return s
	}
	for _, k := range []string{"session_id", "session"} {
		if s := t.Str(t.Get(0, k)); s != "" {
			return s
		}
	}
	return ""
}

// marker reads the marker of object o, if it has one.
func marker(t *tape.Tape, o int) (ttl string, ok bool) {
	if t.Kind(o) != tape.Object {
		return "", false
	}
	for k := o + 1; k < t.After(o); k = t.After(k + 1) {
		if isCacheMark(t, k) && t.Kind(k+1) != tape.Null {
			return t.Str(t.Get(k+1, "ttl")), true
		}
	}
	return "", false
}

// add appends a block for node n.
func (l *layouter) add(q *request, ly layer, role string, n int, p place, k kind) *piece {
	t := &l.t
	prefix := ly.String() + "\x00" + role
	raw, f := l.h.forms(t, n, prefix, p)
	from, to := t.Span(n)
	q.blocks = append(q.blocks, piece{layer: ly, kind: k, node: int32(n), from: int32(from), to: int32(to), raw: raw, forms: f})
	b := &q.blocks[len(q.blocks)-1]
	b.ttl, b.marked = marker(t, n)
	if b.marked {
		q.markers++
	}
	return b
}

func (l *layouter) addTool(q *request, n int, name string) {
	t := &l.t
	if t.Kind(t.Get(n, "defer_loading")) == tape.True {
		q.deferred++
		return
	}
	b := l.add(q, toolsLayer, "", n, toolPlace, otherBlock)
	b.name = name
	if ttl, ok := marker(t, t.Get(n, "function")); ok && !b.marked {
		b.marked, b.ttl = true, ttl
		q.markers++
	}
}

// begin and end enclose the blocks of a message.
func (q *request) begin(role string) {
	q.msgs = append(q.msgs, message{role: role, from: len(q.blocks)})
}

func (l *layouter) end(q *request, n int) {
	m := &q.msgs[len(q.msgs)-1]
	if m.from == len(q.blocks) {
		b := l.add(q, messagesLayer, m.role, n, protocolPlace, emptyBlock)
		b.blank = true
	}
	m.to = len(q.blocks)
	sums := make([]sum, 0, 8)
	for i := m.from; i < m.to; i++ {
		b := &q.blocks[i]
		b.msg, b.first = int32(len(q.msgs)-1), i == m.from
		sums = append(sums, b.strip)
		m.size += int(b.to - b.from)
	}
	m.strip = sums[0]
	if len(sums) > 1 {
		m.strip = fold(sums...)
	}
}

// part adds one part of a message's content.
func (l *layouter) part(q *request, ly layer, role string, n int) *piece {
	t := &l.t
	k := partKind(t, n)
	b := l.add(q, ly, role, n, protocolPlace, k)
	switch k {
	case textBlock:
		text := n
		if t.Kind(n) == tape.Object {
			text = t.Get(n, "text")
		}
		b.blank = isBlank(t, text)
		b.billing = ly == systemLayer && text >= 0 && bytes.HasPrefix(t.Raw(text), []byte(`"x-anthropic-billing-header`))
	case callBlock:
		b.id = t.Str(first(t, n, "id", "call_id", "toolUseId"))
		if in := first(t, n, "toolUse", "functionCall"); in >= 0 {
			b.id = t.Str(first(t, in, "toolUseId", "id"))
		}
		if c := t.Get(n, "call_id"); c >= 0 {
			b.id = t.Str(c)
		}
	case resultBlock:
		b.id = t.Str(first(t, n, "tool_use_id", "call_id", "tool_call_id"))
		if in := first(t, n, "toolResult", "functionResponse"); in >= 0 {
			b.id = t.Str(first(t, in, "toolUseId", "id"))
		}
		// A result's own parts carry markers too.
		if c := t.Get(n, "content"); t.Kind(c) == tape.Array {
			for e := c + 1; e < t.After(c); e = t.After(e) {
				if ttl, ok := marker(t, e); ok {
					if !b.marked {
						b.marked, b.ttl = true, ttl
					}
					q.markers++
				}
			}
		}
	}
	return b
}

func isBlank(t *tape.Tape, n int) bool {
	return t.Kind(n) == tape.String && len(strings.TrimSpace(t.Str(n))) == 0
}

func partKind(t *tape.Tape, n int) kind {
	if t.Kind(n) == tape.String {
		return textBlock
	}
	switch typ := t.Str(t.Get(n, "type")); typ {
	case "text", "input_text", "output_text":
		return textBlock
	case "tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call", "local_shell_call", "function":
		return callBlock
	case "tool_result", "web_search_tool_result", "mcp_tool_result", "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		return resultBlock
	case "thinking", "redacted_thinking", "reasoning":
		return reasoningBlock
	case "image", "image_url", "input_image":
		return imageBlock
	case "":
	default:
		return otherBlock
	}
	switch {
	case t.Kind(t.Get(n, "thought")) == tape.True, t.Get(n, "reasoningContent") >= 0:
		return reasoningBlock
	case t.Get(n, "functionCall") >= 0, t.Get(n, "toolUse") >= 0:
		return callBlock
	case t.Get(n, "functionResponse") >= 0, t.Get(n, "toolResult") >= 0:
		return resultBlock
	case t.Get(n, "inlineData") >= 0, t.Get(n, "fileData") >= 0, t.Get(n, "image") >= 0:
		return imageBlock
	case t.Kind(t.Get(n, "text")) == tape.String:
		return textBlock
	}
	return otherBlock
}

// each calls f with the elements of array n.
func each(t *tape.Tape, n int, f func(e int)) {
	if t.Kind(n) != tape.Array {
		return
	}
	for e := n + 1; e < t.After(n); e = t.After(e) {
		f(e)
	}
}

// Anthropic Messages: https://platform.claude.com/docs/en/api/messages.
func (l *layouter) messagesBody(q *request) {
	t := &l.t
	each(t, t.Get(0, "tools"), func(n int) { l.addTool(q, n, toolName(t, n)) })
	q.system = len(q.blocks)
	switch s := t.Get(0, "system"); t.Kind(s) {
	case tape.String:
		if !t.Empty(s) {
			l.part(q, systemLayer, "system", s)
		}
	case tape.Array:
		each(t, s, func(n int) { l.part(q, systemLayer, "system", n) })
	}
	q.messages = len(q.blocks)
	each(t, t.Get(0, "messages"), func(m int) {
		q.begin(t.Str(t.Get(m, "role")))
		role := q.msgs[len(q.msgs)-1].role
		switch c := t.Get(m, "content"); t.Kind(c) {
		case tape.String:
			l.part(q, messagesLayer, role, c)
		case tape.Array:
			each(t, c, func(n int) { l.part(q, messagesLayer, role, n) })
		}
		l.end(q, m)
	})
	if ttl, ok := marker(t, 0); ok {
		q.auto, q.autoTTL = true, ttl
	}
	q.prevID = t.Str(t.Get(t.Get(0, "diagnostics"), "previous_message_id"))
	l.param(q, ParamSpeed, "speed", t.Get(0, "speed"))
	choice := t.Get(0, "tool_choice")
	l.param(q, ParamParallel, "tool_choice.disable_parallel_tool_use", t.Get(choice, "disable_parallel_tool_use"))
	l.param(q, ParamToolChoice, "tool_choice", t.Get(choice, "type"), t.Get(choice, "name"))
	config := t.Get(0, "output_config")
	if effort := t.Get(config, "effort"); !t.Is(effort, "high") { // the default, and the same as none
		l.param(q, ParamEffort, "output_config.effort", effort)
	}
	l.param(q, ParamThinking, "thinking", t.Get(0, "thinking"))
	l.param(q, ParamFormat, "output_format", first(t, 0, "output_format"), t.Get(config, "format"))
	l.param(q, ParamTier, "service_tier", t.Get(0, "service_tier"))
	l.param(q, ParamToggles, "context_management", t.Get(0, "context_management"))
	l.param(q, ParamToggles, "mcp_servers", t.Get(0, "mcp_servers"))
	l.param(q, ParamBetas, "betas", t.Get(0, "betas"))
}

// toolName is the name of a tool, or its type when it is a hosted one.
func toolName(t *tape.Tape, n int) string {
	if s := t.Str(t.Get(n, "name")); s != "" {
		return s
	}
	if s := t.Str(t.Get(t.Get(n, "function"), "name")); s != "" {
		return s
	}
	if s := t.Str(t.Get(t.Get(n, "toolSpec"), "name")); s != "" {
		return s
	}
	if s := t.Str(t.Get(n, "server_label")); s != "" {
		return "mcp:" + s
	}
	if s := t.Str(t.Get(n, "type")); s != "" {
		return s
	}
	if t.Kind(n) == tape.Object && t.After(n) > n+1 { // Gemini: {"googleSearch":{}}
		return t.Str(n + 1)
	}
	return ""
}

// OpenAI Chat Completions and the many servers that imitate it.
func (l *layouter) chatBody(q *request) {
	t := &l.t
	each(t, t.Get(0, "tools"), func(n int) { l.addTool(q, n, toolName(t, n)) })
	each(t, t.Get(0, "functions"), func(n int) { l.addTool(q, n, toolName(t, n)) })
	q.system = len(q.blocks)
	ms := t.Get(0, "messages")
	leading := true
	each(t, ms, func(m int) {
		role := t.Str(t.Get(m, "role"))
		if leading = leading && (role == "system" || role == "developer"); leading {
			l.contents(q, systemLayer, role, m)
		}
	})
	q.messages = len(q.blocks)
	leading = true
	each(t, ms, func(m int) {
		role := t.Str(t.Get(m, "role"))
		if leading = leading && (role == "system" || role == "developer"); leading {
			return
		}
		q.begin(role)
		for _, k := range []string{"reasoning_content", "reasoning", "reasoning_details"} {
			if n := t.Get(m, k); n >= 0 && t.Kind(n) != tape.Null {
				l.add(q, messagesLayer, role, n, protocolPlace, reasoningBlock)
			}
		}
		l.contents(q, messagesLayer, role, m)
		each(t, t.Get(m, "tool_calls"), func(n int) { l.part(q, messagesLayer, role, n).kind = callBlock })
		for k := m + 1; k < t.After(m); k = t.After(k + 1) {
			switch key := t.Str(k); key {
			case "role", "content", "tool_calls", "reasoning_content", "reasoning", "reasoning_details", "tool_call_id", "cache_control", "id":
			case "refusal", "annotations", "audio", "function_call", "name", "prefix", "partial":
				if t.Kind(k+1) != tape.Null {
					l.add(q, messagesLayer, role+"\x00"+key, k+1, protocolPlace, otherBlock)
				}
			}
		}
		if ttl, ok := marker(t, m); ok && q.msgs[len(q.msgs)-1].from < len(q.blocks) {
			b := &q.blocks[len(q.blocks)-1]
			b.marked, b.ttl = true, ttl
			q.markers++
		}
		l.end(q, m)
	})
	reasoning := t.Get(0, "reasoning")
	l.param(q, ParamEffort, "reasoning_effort", t.Get(0, "reasoning_effort"), t.Get(reasoning, "effort"))
	l.param(q, ParamThinking, "thinking", t.Get(0, "thinking"), t.Get(0, "enable_thinking"), t.Get(0, "thinking_budget"), t.Get(0, "chat_template_kwargs"), t.Get(reasoning, "max_tokens"))
	l.param(q, ParamVerbosity, "verbosity", t.Get(0, "verbosity"))
	l.param(q, ParamToolChoice, "tool_choice", t.Get(0, "tool_choice"))
	l.param(q, ParamParallel, "parallel_tool_calls", t.Get(0, "parallel_tool_calls"))
	l.param(q, ParamFormat, "response_format", t.Get(0, "response_format"))
	l.param(q, ParamTier, "service_tier", t.Get(0, "service_tier"))
	l.param(q, ParamCacheKey, "prompt_cache_key", t.Get(0, "prompt_cache_key"))
	l.param(q, ParamToggles, "web_search_options", t.Get(0, "web_search_options"), t.Get(0, "plugins"))
}

// contents adds the content of a Chat message, and the id of the call that it
// answers.
func (l *layouter) contents(q *request, ly layer, role string, m int) {
	t := &l.t
	from := len(q.blocks)
	switch c := t.Get(m, "content"); t.Kind(c) {
	case tape.String:
		l.part(q, ly, role, c)
	case tape.Array:
		each(t, c, func(n int) { l.part(q, ly, role, n) })
	}
	id := t.Get(m, "tool_call_id")
	for i := from; i < len(q.blocks); i++ {
		b := &q.blocks[i]
		b.first = ly == systemLayer && i == from
		if id >= 0 {
			// The id stands beside the content and is rendered with it; the
			// strip form leaves it out.
			b.kind, b.id = resultBlock, t.Str(id)
			b.token, b.canon = fold(b.token, idSum(b.id)), fold(b.canon, idSum(b.id))
		}
	}
}

func idSum(id string) sum {
	var s sum
	copy(s[:], fingerprint(id))
	return s
}

// OpenAI Responses.
func (l *layouter) responsesBody(q *request) {
	t := &l.t
	if s := t.Get(0, "previous_response_id"); t.Kind(s) == tape.String && !t.Empty(s) {
		q.stateful = "it continues a response by id (previous_response_id)"
	}
	if s := t.Get(0, "conversation"); s >= 0 && t.Kind(s) != tape.Null {
		q.stateful = "its history is a conversation kept by the provider"
	}
	if s := t.Get(0, "prompt"); t.Kind(s) == tape.Object {
		q.stateful = "its instructions are a prompt kept by the provider"
	}
	input := t.Get(0, "input")
	system := func(i int) bool {
		role := t.Get(i, "role")
		return (t.Is(role, "developer") || t.Is(role, "system")) && !t.Is(t.Get(i, "type"), "additional_tools")
	}
	each(t, t.Get(0, "tools"), func(n int) { l.addTool(q, n, toolName(t, n)) })
	leading := true
	each(t, input, func(i int) {
		extra := t.Is(t.Get(i, "type"), "additional_tools")
		if leading = leading && (extra || system(i)); leading && extra {
			each(t, t.Get(i, "tools"), func(n int) { l.addTool(q, n, toolName(t, n)) })
		}
	})
	q.system = len(q.blocks)
	if s := t.Get(0, "instructions"); t.Kind(s) == tape.String && !t.Empty(s) {
		l.part(q, systemLayer, "instructions", s)
	}
	leading = true
	each(t, input, func(i int) {
		extra := t.Is(t.Get(i, "type"), "additional_tools")
		if leading = leading && (extra || system(i)); leading && !extra {
			l.contents(q, systemLayer, t.Str(t.Get(i, "role")), i)
		}
	})
	q.messages = len(q.blocks)
	if t.Kind(input) == tape.String {
		q.begin("user")
		l.part(q, messagesLayer, "user", input)
		l.end(q, input)
	}
	leading = true
	each(t, input, func(i int) {
		if leading = leading && (t.Is(t.Get(i, "type"), "additional_tools") || system(i)); leading {
			return
		}
		role := t.Str(t.Get(i, "role"))
		if c := t.Get(i, "content"); role != "" && (t.Is(t.Get(i, "type"), "message") || t.Get(i, "type") < 0) {
			q.begin(role)
			switch t.Kind(c) {
			case tape.String:
				l.part(q, messagesLayer, role, c)
			case tape.Array:
				each(t, c, func(n int) { l.part(q, messagesLayer, role, n) })
			}
			l.end(q, i)
			return
		}
		switch k := partKind(t, i); k {
		case callBlock, reasoningBlock:
			role = "assistant"
		case resultBlock:
			role = "tool"
		default:
			role = t.Str(t.Get(i, "type"))
		}
		q.begin(role)
		l.part(q, messagesLayer, role, i)
		l.end(q, i)
	})
	text, reasoning := t.Get(0, "text"), t.Get(0, "reasoning")
	q.prevID = t.Str(t.Get(t.Get(0, "prompt_cache_options"), "comparison_response_id"))
	l.param(q, ParamEffort, "reasoning.effort", t.Get(reasoning, "effort"))
	l.param(q, ParamVerbosity, "text.verbosity", t.Get(text, "verbosity"))
	l.param(q, ParamToolChoice, "tool_choice", t.Get(0, "tool_choice"))
	l.param(q, ParamParallel, "parallel_tool_calls", t.Get(0, "parallel_tool_calls"))
	l.param(q, ParamFormat, "text.format", t.Get(text, "format"))
	l.param(q, ParamTier, "service_tier", t.Get(0, "service_tier"))
	l.param(q, ParamCacheKey, "prompt_cache_key", t.Get(0, "prompt_cache_key"))
	l.param(q, ParamToggles, "context_management", t.Get(0, "context_management"))
}

// Google Gemini's generateContent.
func (l *layouter) geminiBody(q *request) {
	t := &l.t
	either := func(a, b string) int { return first(t, 0, a, b) }
	each(t, t.Get(0, "tools"), func(n int) {
		if d := first(t, n, "functionDeclarations", "function_declarations"); d >= 0 {
			each(t, d, func(n int) { l.addTool(q, n, toolName(t, n)) })
			return
		}
		l.addTool(q, n, toolName(t, n))
	})
	q.system = len(q.blocks)
	s := either("systemInstruction", "system_instruction")
	if t.Kind(s) == tape.String {
		l.part(q, systemLayer, "system", s)
	} else {
		each(t, t.Get(s, "parts"), func(n int) { l.part(q, systemLayer, "system", n) })
	}
	q.messages = len(q.blocks)
	each(t, t.Get(0, "contents"), func(m int) {
		role := t.Str(t.Get(m, "role"))
		if role == "model" {
			role = "assistant"
		}
		q.begin(role)
		each(t, t.Get(m, "parts"), func(n int) { l.part(q, messagesLayer, role, n) })
		l.end(q, m)
	})
	if c := either("cachedContent", "cached_content"); c >= 0 {
		l.param(q, ParamCacheKey, "cachedContent", c)
	}
	g := either("generationConfig", "generation_config")
	l.param(q, ParamThinking, "generationConfig.thinkingConfig", t.Get(g, "thinkingConfig"))
	l.param(q, ParamFormat, "generationConfig.responseSchema", first(t, g, "responseSchema", "responseJsonSchema"), t.Get(g, "responseMimeType"))
	l.param(q, ParamToolChoice, "toolConfig", either("toolConfig", "tool_config"))
}

// Amazon Bedrock Converse: cachePoint is a block of its own, and marks what
// stands before it.
func (l *layouter) converseBody(q *request) {
	t := &l.t
	point := func(n int) bool {
		if t.Get(n, "cachePoint") < 0 {
			return false
		}
		if len(q.blocks) > 0 {
			b := &q.blocks[len(q.blocks)-1]
			b.marked, b.ttl = true, t.Str(t.Get(t.Get(n, "cachePoint"), "ttl"))
			q.markers++
		}
		return true
	}
	config := t.Get(0, "toolConfig")
	each(t, t.Get(config, "tools"), func(n int) {
		if !point(n) {
			l.addTool(q, n, toolName(t, n))
		}
	})
	q.system = len(q.blocks)
	each(t, t.Get(0, "system"), func(n int) {
		if !point(n) {
			l.part(q, systemLayer, "system", n)
		}
	})
	q.messages = len(q.blocks)
	each(t, t.Get(0, "messages"), func(m int) {
		q.begin(t.Str(t.Get(m, "role")))
		role := q.msgs[len(q.msgs)-1].role
		each(t, t.Get(m, "content"), func(n int) {
			if !point(n) {
				l.part(q, messagesLayer, role, n)
			}
		})
		l.end(q, m)
	})
	extra := t.Get(0, "additionalModelRequestFields")
	l.param(q, ParamThinking, "additionalModelRequestFields.thinking", first(t, extra, "thinking", "reasoning_config"))
	l.param(q, ParamToolChoice, "toolConfig.toolChoice", t.Get(config, "toolChoice"))
	l.param(q, ParamBetas, "additionalModelRequestFields.anthropic_beta", t.Get(extra, "anthropic_beta"))
}

// param remembers a parameter; what is absent or null has none.
func (l *layouter) param(q *request, label Label, name string, nodes ...int) {
	t := &l.t
	var sums []sum
	value, at := "", -1
	for i, n := range nodes {
		if n < 0 || t.Kind(n) == tape.Null {
			continue
		}
		if at < 0 {
			at = n
		}
		sums = append(sums, l.h.sum(t, n, strconv.Itoa(i), plainPlace, canonForm))
		if raw := t.Raw(n); len(raw) <= 24 && t.Kind(n) != tape.Object && label != ParamCacheKey {
			value += string(raw)
		}
	}
	if len(sums) > 0 {
		q.params = append(q.params, param{label, name, fold(sums...), value, at})
	}
}

// setParam adds one that is not in the body.
func (q *request) setParam(label Label, name, value string) {
	if value != "" {
		q.params = append(q.params, param{label, name, idSum(value), clip(value, 40), -1})
	}
}

// pointer is where node n stands in the body, as a JSON pointer.
func pointer(t *tape.Tape, n int) string {
	var b strings.Builder
	at := 0
	for at != n {
		switch t.Kind(at) {
		case tape.Object:
			k := at + 1
			for k < t.After(at) && t.After(k+1) <= n {
				k = t.After(k + 1)
			}
			if k >= t.After(at) {
				return b.String()
			}
			b.WriteByte('/')
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(clip(t.Str(k), 80)))
			if k == n {
				return b.String()
			}
			at = k + 1
		case tape.Array:
			e, i := at+1, 0
			for e < t.After(at) && t.After(e) <= n {
				e, i = t.After(e), i+1
			}
			if e >= t.After(at) {
				return b.String()
			}
			fmt.Fprintf(&b, "/%d", i)
			at = e
		default:
			return b.String()
		}
	}
	return b.String()
}
