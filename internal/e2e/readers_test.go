package e2e

// Readers: everything here turns the bytes of a stream into the calls that a
// client would run. Two are the SDKs' own accumulators. The others are models
// of readers in use, written from what those readers do: how they split a
// stream into events, whether the event line or the data names the event, how
// a piece finds its call, when a call is complete, which of two equal keys
// counts. A reader that gives up says so; what it had until then still counts.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/anthropics/anthropic-sdk-go"
	assestream "github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	"github.com/openai/openai-go/v3"
	ossestream "github.com/openai/openai-go/v3/packages/ssestream"
)

// reader is one way of reading a stream.
type reader struct {
	name string
	// read returns the calls, in order, and why it gave up, if it did.
	read func(stream []byte) ([]call, error)
	// partial marks a reader that leaves calls out by design; why is said
	// where it is made.
	partial bool
	// joins marks a reader that appends the name of every piece to the call's
	// name, so that a server that repeats it makes BashBash.
	joins bool
}

// sseEvent is an event as a client's splitter sees it.
type sseEvent struct {
	name string
	data string
}

// splitter turns bytes into events.
type splitter func(stream []byte) []sseEvent

// splitWeb follows the HTML standard: CR, LF and CRLF end a line, a byte order
// mark at the start goes, an event without data is none, and what is not
// ended by a blank line is dropped, unless flush.
func splitWeb(flush bool) splitter {
	return func(stream []byte) []sseEvent {
		s := strings.ToValidUTF8(string(bytes.TrimPrefix(stream, []byte("\ufeff"))), "\ufffd")
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
		lines := strings.Split(s, "\n")
		var out []sseEvent
		var name string
		var data []string
		end := func() {
			if len(data) > 0 {
				out = append(out, sseEvent{name, strings.Join(data, "\n")})
			}
			name, data = "", nil
		}
		for i, line := range lines {
			if line == "" {
				if i < len(lines)-1 || flush {
					end()
				}
				continue
			}
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				name = value
			case "data":
				data = append(data, value)
			}
		}
		if flush {
			end()
		}
		return out
	}
}

// splitLines takes each data line for an event, as hand-written readers do.
func splitLines(stream []byte) []sseEvent {
	var out []sseEvent
	name := ""
	for line := range strings.Lines(string(stream)) {
		line = strings.TrimRight(line, "\r\n")
		if v, ok := strings.CutPrefix(line, "event:"); ok {
			name = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "data:"); ok {
			out = append(out, sseEvent{name, strings.TrimSpace(v)})
		}
		if line == "" {
			name = ""
		}
	}
	return out
}

// splitDecoded is splitLines of decoded text by Python's str.splitlines, as
// httpx's and requests' iter_lines give it: a line ends at more characters, some
// of which may stand in the strings of JSON as they are.
func splitDecoded(stream []byte) []sseEvent {
	text := strings.ToValidUTF8(string(stream), "\ufffd")
	for _, end := range []string{"\v", "\f", "\x1c", "\x1d", "\x1e", "\u0085", "\u2028", "\u2029"} {
		text = strings.ReplaceAll(text, end, "\n")
	}
	return splitLines([]byte(text))
}

// decoded is a reader of such lines that skips what is no JSON. It sees less
// than others, and may see nothing else.
func decoded(r reader) reader {
	r.name, r.partial = "lines of decoded text", true
	return r
}

// Which of several equal keys counts.
type keys uint8

const (
	lastKey  keys = iota // JSON.parse, encoding/json
	firstKey             // gjson
	foldKey              // encoding/json into a struct: case does not count, the last one wins
)

// obj is a JSON object; absent and null members are nil.
type obj = map[string]any

// parse decodes one JSON text.
func (k keys) parse(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := k.value(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

func (k keys) value(d *json.Decoder) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		m := obj{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if k == foldKey {
				name = strings.ToLower(name)
			}
			v, err := k.value(d)
			if err != nil {
				return nil, err
			}
			if _, dup := m[name]; !dup || k != firstKey {
				m[name] = v
			}
		}
		_, err := d.Token()
		return m, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := k.value(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return tok, nil
}

func str(m obj, key string) string { s, _ := m[key].(string); return s }
func sub(m obj, key string) obj    { o, _ := m[key].(obj); return o }
func list(m obj, key string) []any { l, _ := m[key].([]any); return l }

// num is a member that is a number; ok is false otherwise.
func num(m obj, key string) (n int, ok bool) {
	v, isNumber := m[key].(json.Number)
	if !isNumber {
		return 0, false
	}
	f, err := v.Float64()
	return int(f), err == nil && f == float64(int(f))
}

func encode(v any) string {
	if v == nil {
		return ""
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// anthropicSDK is the official Go SDK, decoder, accumulator and all. lenient
// is a caller that goes on after Accumulate's errors.
func anthropicSDK(lenient bool) func([]byte) ([]call, error) {
	return func(stream []byte) ([]call, error) {
		resp := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(stream))}
		s := assestream.NewStream[anthropic.MessageStreamEventUnion](assestream.NewDecoder(resp), nil)
		var m anthropic.Message
		var err error
		for s.Next() {
			if e := m.Accumulate(s.Current()); e != nil {
				err = e
				if !lenient {
					break
				}
			}
		}
		if err == nil {
			err = s.Err()
		}
		return anthropicTurn(&m).calls, err
	}
}

// messagesModel is a reader of Messages streams.
type messagesModel struct {
	split splitter
	keys  keys
	// byLine drops events without a known event line, as pi and the SDKs do.
	byLine bool
	// The block of a delta is the newest with its index; or, with last, simply
	// the last; or, with place, the one at that place in the order of arrival.
	last, place bool
	// startInput: what an input in content_block_start counts for.
	start startInput
	// inMessage runs calls that stand in message_start.content.
	inMessage bool
	// skip drops an event whose members have other types than documented and
	// goes on with the next; otherwise that ends the reading.
	skip bool
	// atStop completes a call at its content_block_stop only.
	atStop bool
}

type startInput uint8

const (
	joinInput    startInput = iota // deltas are appended to it
	replaceInput                   // deltas, if any, replace it
	dropInput                      // it does not count at all
)

var messageEvents = map[string]bool{"message_start": true, "message_delta": true, "message_stop": true,
	"content_block_start": true, "content_block_delta": true, "content_block_stop": true}

type block struct {
	index       int
	tool        bool
	id, name    string
	start, args string
	deltas      bool
	done        bool
}

func (m messagesModel) read(stream []byte) (calls []call, err error) {
	var blocks []*block
	var out []call
	complete := func(b *block) call {
		args := b.args
		switch {
		case m.start == joinInput:
			args = b.start + b.args
		case m.start == replaceInput && !b.deltas:
			args = b.start
		}
		return call{b.id, b.name, args}
	}
	defer func() {
		calls = out
		for _, b := range blocks {
			if b.tool && (!m.atStop || b.done) {
				calls = append(calls, complete(b))
			}
		}
	}()
	find := func(o obj) *block {
		n, ok := num(o, "index")
		if m.last {
			if len(blocks) == 0 {
				return nil
			}
			return blocks[len(blocks)-1]
		}
		if !ok {
			return nil
		}
		if m.place {
			if n < 0 || n >= len(blocks) {
				return nil
			}
			return blocks[n]
		}
		// The newest with that index: a plain assignment replaces the older.
		for i := len(blocks) - 1; i >= 0; i-- {
			if blocks[i].index == n {
				return blocks[i]
			}
		}
		return nil
	}
	started := false
	for _, ev := range m.split(stream) {
		if ev.name == "error" {
			return nil, fmt.Errorf("an error event: %s", ev.data)
		}
		if m.byLine && !messageEvents[ev.name] || ev.data == "[DONE]" {
			continue
		}
		v, err := m.keys.parse(ev.data)
		o, ok := v.(obj)
		if err != nil || !ok {
			if m.skip {
				continue
			}
			return nil, fmt.Errorf("no JSON object: %s", ev.data)
		}
		switch str(o, "type") {
		case "error":
			return nil, fmt.Errorf("an error event: %s", ev.data)
		case "message_start":
			if started {
				return nil, fmt.Errorf("a second message_start")
			}
			started = true
			if !m.inMessage {
				continue
			}
			for _, e := range list(sub(o, "message"), "content") {
				if b, _ := e.(obj); str(b, "type") == "tool_use" {
					out = append(out, call{str(b, "id"), str(b, "name"), encode(b["input"])})
				}
			}
		case "content_block_start":
			cb := sub(o, "content_block")
			n, ok := num(o, "index")
			if cb == nil || !ok {
				if m.skip {
					continue
				}
				return nil, fmt.Errorf("a start without a block")
			}
			b := &block{index: n, tool: str(cb, "type") == "tool_use", id: str(cb, "id"), name: str(cb, "name")}
			if in, ok := cb["input"].(obj); ok && len(in) > 0 {
				b.start = encode(in)
			} else if !ok && cb["input"] != nil && b.tool && m.skip {
				continue // not of the documented type
			}
			if b.tool && m.skip && (cb["id"] == nil || cb["name"] == nil) {
				continue
			}
			blocks = append(blocks, b)
		case "content_block_delta":
			d := sub(o, "delta")
			b := find(o)
			if b == nil || d == nil || str(d, "type") != "input_json_delta" || !b.tool || b.done {
				continue
			}
			p, ok := d["partial_json"].(string)
			if !ok {
				if m.skip {
					continue
				}
				return nil, fmt.Errorf("partial_json is no string")
			}
			b.args += p
			b.deltas = b.deltas || p != ""
		case "content_block_stop":
			if b := find(o); b != nil {
				b.done = true
			}
		}
	}
	return nil, nil
}

func messagesReaders() []reader {
	m := func(name string, m messagesModel) reader { return reader{name: name, read: m.read} }
	return []reader{
		{name: "Anthropic's Go SDK", read: anthropicSDK(false)},
		{name: "Anthropic's Go SDK, errors ignored", read: anthropicSDK(true)},
		m("Anthropic's Node SDK", messagesModel{split: splitWeb(true), byLine: true, place: true, start: replaceInput, inMessage: true}),
		m("Vercel AI SDK", messagesModel{split: splitWeb(false), start: joinInput, inMessage: true, skip: true, atStop: true}),
		m("pi", messagesModel{split: splitWeb(true), byLine: true, start: dropInput, atStop: true}),
		m("input at the start ignored", messagesModel{split: splitWeb(false), start: dropInput, atStop: true}),
		m("deltas to the last block", messagesModel{split: splitWeb(false), start: joinInput, last: true, inMessage: true}),
		m("blocks by place", messagesModel{split: splitWeb(true), start: joinInput, place: true, inMessage: true, skip: true}),
		m("a data line is an event", messagesModel{split: splitLines, start: joinInput, inMessage: true, skip: true}),
		decoded(m("", messagesModel{split: splitDecoded, start: joinInput, inMessage: true, skip: true})),
		m("the first of equal keys", messagesModel{split: splitWeb(false), keys: firstKey, start: joinInput, inMessage: true}),
		m("keys without case", messagesModel{split: splitWeb(false), keys: foldKey, start: joinInput, inMessage: true}),
		m("event line, keys without case", messagesModel{split: splitWeb(true), keys: foldKey, byLine: true, start: replaceInput, inMessage: true}),
	}
}

// openaiSDK is the official Go SDK. lenient is a caller that does not look at
// what AddChunk returns.
func openaiSDK(lenient bool) func([]byte) ([]call, error) {
	return func(stream []byte) ([]call, error) {
		resp := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(stream))}
		s := ossestream.NewStream[openai.ChatCompletionChunk](ossestream.NewDecoder(resp), nil)
		defer s.Close()
		var acc openai.ChatCompletionAccumulator
		var err error
		for s.Next() {
			if !acc.AddChunk(s.Current()) {
				err = fmt.Errorf("AddChunk refused a chunk")
				if !lenient {
					break
				}
			}
		}
		if err == nil {
			err = s.Err()
		}
		return openaiTurn(&acc.ChatCompletion).calls, err
	}
}

// router says where a piece of a call goes.
type router uint8

const (
	byIndex  router = iota
	byID            // an id that is known counts more than the index
	byLastID        // a piece without an id goes to the last call
	byQwen          // by index until the call there is complete, see qwen
)

// chatModel is a reader of Chat Completions streams.
type chatModel struct {
	split splitter
	keys  keys
	route router
	// first reads choices[0], whatever its index says; otherwise every choice
	// is read, by index.
	first bool
	// eager completes a call as soon as its arguments are JSON.
	eager bool
	// skip drops a chunk whose members have other types than documented.
	skip bool
	// elsewhere also runs calls in function_call and in message.
	elsewhere bool
	// atFinish has calls only once a finish reason came.
	atFinish bool
	// untilDone stops at [DONE]; others skip it.
	untilDone bool
}

type chatCall struct {
	choice, index int
	call
	done bool
}

func (m chatModel) read(stream []byte) (out []call, err error) {
	var all []*chatCall
	finished := false
	defer func() {
		if m.atFinish && !finished {
			return
		}
		for _, c := range all {
			if m.route == byQwen && (c.name == "" || strings.TrimSpace(c.args) == "") {
				continue // qwen-code runs no call without arguments
			}
			out = append(out, c.call)
		}
	}()
	for _, ev := range m.split(stream) {
		if ev.data == "[DONE]" {
			if m.untilDone {
				break
			}
			continue
		}
		v, err := m.keys.parse(ev.data)
		o, ok := v.(obj)
		if err != nil || !ok {
			if m.skip {
				continue
			}
			return nil, fmt.Errorf("no JSON object: %s", ev.data)
		}
		if o["error"] != nil && (!m.skip || o["choices"] == nil) {
			if m.skip {
				continue
			}
			return nil, fmt.Errorf("an error: %s", ev.data)
		}
		if m.skip && !documented(o) {
			continue
		}
		choices := list(o, "choices")
		if m.first && len(choices) > 1 {
			choices = choices[:1]
		}
		for _, e := range choices {
			c, _ := e.(obj)
			n := 0
			if !m.first {
				n, _ = num(c, "index")
			}
			if f := str(c, "finish_reason"); f != "" {
				finished = true
			}
			delta := sub(c, "delta")
			if m.elsewhere {
				if f := sub(delta, "function_call"); f != nil {
					all = append(all, &chatCall{choice: n, index: -1, call: call{"", str(f, "name"), str(f, "arguments")}})
				}
				for _, t := range list(sub(c, "message"), "tool_calls") {
					p, _ := t.(obj)
					all = append(all, &chatCall{choice: n, index: -1, call: call{str(p, "id"), str(sub(p, "function"), "name"), str(sub(p, "function"), "arguments")}})
				}
			}
			for _, t := range list(delta, "tool_calls") {
				p, _ := t.(obj)
				all = m.piece(all, n, p)
			}
		}
	}
	return nil, nil
}

// documented reports whether a chunk has the types that the API reference
// gives, for the members that checking readers look at.
func documented(o obj) bool {
	is := func(m obj, key string, want string) bool {
		switch m[key].(type) {
		case nil:
			return true
		case string:
			return want == "string"
		case json.Number:
			return want == "number"
		case obj:
			return want == "object"
		case []any:
			return want == "array"
		}
		return false
	}
	if !is(o, "id", "string") || !is(o, "created", "number") || !is(o, "model", "string") || !is(o, "choices", "array") || !is(o, "usage", "object") {
		return false
	}
	for _, e := range list(o, "choices") {
		c, ok := e.(obj)
		if !ok || !is(c, "delta", "object") || !is(c, "finish_reason", "string") {
			return false
		}
		d := sub(c, "delta")
		if !is(d, "content", "string") || !is(d, "role", "string") || !is(d, "reasoning", "string") || !is(d, "reasoning_content", "string") || !is(d, "tool_calls", "array") {
			return false
		}
		if r := str(d, "role"); d["role"] != nil && r != "assistant" {
			return false
		}
		for _, t := range list(d, "tool_calls") {
			p, ok := t.(obj)
			if !ok || !is(p, "index", "number") || !is(p, "id", "string") || sub(p, "function") == nil {
				return false
			}
			if f := sub(p, "function"); !is(f, "name", "string") || !is(f, "arguments", "string") {
				return false
			}
		}
	}
	return true
}

func (m chatModel) piece(all []*chatCall, choice int, p obj) []*chatCall {
	id, f := str(p, "id"), sub(p, "function")
	name, args := str(f, "name"), str(f, "arguments")
	index, hasIndex := num(p, "index")
	if !hasIndex {
		index = len(all)
	}
	var c *chatCall
	at := func(i int) *chatCall {
		for _, o := range all {
			if o.choice == choice && o.index == i {
				return o
			}
		}
		return nil
	}
	withID := func() *chatCall {
		for _, o := range all {
			if id != "" && o.id == id {
				return o
			}
		}
		return nil
	}
	switch m.route {
	case byIndex:
		c = at(index)
	case byID:
		if c = withID(); c == nil && (id == "" || at(index) != nil && at(index).id == "") {
			c = at(index)
		}
	case byLastID:
		if c = withID(); c == nil && id == "" && len(all) > 0 {
			c = all[len(all)-1]
		}
	case byQwen:
		c, index = qwen(all, index, id)
	}
	if c == nil {
		c = &chatCall{choice: choice, index: index}
		all = append(all, c)
	}
	if c.done {
		return all
	}
	if id != "" {
		c.id = id
	}
	if name != "" {
		c.name = name
	}
	c.args += args
	if m.eager && json.Valid([]byte(c.args)) {
		c.done = true
	}
	return all
}

// qwen finds the call of a piece the way qwen-code does. With an id: the call
// of that id, else the slot of the index, unless a complete call of another id
// is there. Without one: the slot of the index until the arguments there are
// complete; after that the last call that is not, or a slot that is free.
func qwen(all []*chatCall, index int, id string) (*chatCall, int) {
	at := func(i int) *chatCall {
		for _, o := range all {
			if o.index == i {
				return o
			}
		}
		return nil
	}
	full := func(c *chatCall) bool { return json.Valid([]byte(c.args)) }
	free := func() int {
		for i := 0; ; i++ {
			if c := at(i); c == nil || !full(c) || c.id == "" {
				return i
			}
		}
	}
	if id != "" {
		for _, o := range all {
			if o.id == id {
				return o, o.index
			}
		}
		if c := at(index); c != nil && full(c) && c.id != "" {
			index = free()
		}
		return at(index), index
	}
	c := at(index)
	if c == nil || !full(c) {
		return c, index
	}
	for i := len(all) - 1; i >= 0; i-- {
		if !full(all[i]) {
			return all[i], all[i].index
		}
	}
	index = free()
	return at(index), index
}

func chatReaders() []reader {
	m := func(name string, m chatModel) reader { return reader{name: name, read: m.read} }
	q := m("qwen-code", chatModel{split: splitWeb(true), first: true, route: byQwen, atFinish: true, untilDone: true})
	q.partial = true // it drops calls without arguments, and all of them without a finish reason
	finish := m("at the finish reason", chatModel{split: splitWeb(true), atFinish: true, untilDone: true})
	finish.partial = true // [DONE] alone is not enough for it
	return []reader{
		{name: "OpenAI's Go SDK", read: openaiSDK(false), joins: true},
		{name: "OpenAI's Go SDK, results ignored", read: openaiSDK(true), joins: true},
		m("OpenAI's Node SDK", chatModel{split: splitWeb(true), untilDone: true, elsewhere: true}),
		m("Vercel AI SDK", chatModel{split: splitWeb(false), first: true, eager: true, skip: true}),
		m("pi", chatModel{split: splitWeb(true), first: true, untilDone: true}),
		q, finish,
		m("by id over index", chatModel{split: splitWeb(false), route: byID, elsewhere: true}),
		m("to the last call", chatModel{split: splitWeb(false), route: byLastID, elsewhere: true}),
		m("a data line is an event", chatModel{split: splitLines, skip: true, elsewhere: true}),
		decoded(m("", chatModel{split: splitDecoded, skip: true, elsewhere: true})),
		m("the first of equal keys", chatModel{split: splitWeb(false), keys: firstKey, elsewhere: true}),
		m("keys without case", chatModel{split: splitWeb(false), keys: foldKey, elsewhere: true}),
	}
}

// readings are the values that arguments have for readers that differ in
// which of equal keys counts. One value means that they agree.
func readings(args string) []string {
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	seen := map[string]bool{}
	var out []string
	for _, k := range []keys{lastKey, firstKey} {
		v, err := k.parse(args)
		s := "unreadable: " + args
		if err == nil {
			s = encode(v)
		}
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	// Case: only the keys of the top level are arguments.
	if v, err := lastKey.parse(args); err == nil {
		if o, ok := v.(obj); ok {
			folded := map[string]bool{}
			for k := range o {
				l := strings.ToLower(k)
				if folded[l] {
					out = append(out, "two keys that differ in case: "+k)
				}
				folded[l] = true
			}
		}
	}
	sort.Strings(out)
	return out
}

// canonical is one value for comparing, whatever the spelling.
func canonical(c call) call {
	c.args = readings(c.args)[0]
	if !utf8.ValidString(c.args) {
		c.args = strings.ToValidUTF8(c.args, "\ufffd")
	}
	return c
}
