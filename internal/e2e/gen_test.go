package e2e

// Streams for the differential tests. A stream is made as a list of events
// that follow the API's grammar; then, for an odd stream, a few of the things
// that imitations, proxies, bugs and attackers do are done to it. Both halves
// draw from rapid, so that a failure shrinks.

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// item is one event before it is written.
type item struct {
	name  string // of the event line; "" is none
	data  string
	lead  string // lines in front of it: comments, ids
	split bool   // the data on two lines, at the first comma
	raw   string // in the place of all that
}

func write(items []item, crlf, spaced, finalBlank bool) []byte {
	var b strings.Builder
	space := ""
	if spaced {
		space = " "
	}
	for i, it := range items {
		end := "\n\n"
		if i == len(items)-1 && !finalBlank {
			end = ""
		}
		if it.raw != "" {
			b.WriteString(it.raw)
			continue
		}
		b.WriteString(it.lead)
		if it.name != "" {
			b.WriteString("event:" + space + it.name + "\n")
		}
		data := it.data
		if it.split {
			data = strings.Replace(data, ",", ",\ndata:"+space, 1)
		}
		b.WriteString("data:" + space + data + end)
	}
	s := b.String()
	if crlf {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	return []byte(s)
}

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func chance(t *rapid.T, label string, percent int) bool {
	return rapid.IntRange(0, 99).Draw(t, label) >= 100-percent
}

var legalArgs = []string{
	`{"command":"ls"}`, `{"command":"echo forbidden"}`, `{}`, ``, `{"q":"x"}`,
	`{"command":"a\nb \"quoted\" \\ \u0041 \ud83d\ude00 😀 é"}`,
	` { "command" : "ls -la" , "n" : 12345678901234567890, "f": 1.50e+3, "o":{"a":[1,{"b":null}]} } `,
	`{"file_path":"/tmp/forbidden"}`, `{"command":"}{\"]["}`, "{\"command\":\"\u2028\"}\n",
	`{"command":"` + "long " + `long long long long long long long"}`,
}

var oddArgs = []string{
	`null`, `[]`, `"x"`, `1`, `{"command":"l`, `{"command":"ls"}{"command":"rm"}`, `{"command":"ls"} x`,
	`{"command":"ls","command":"rm"}`, `{"command":"ls","comm\u0061nd":"rm"}`, `{"command":"ls","Command":"rm"}`,
	`{"command":"\ud800"}`, `{"command":"\u0000"}`, `{"a":{"b":1,"b":2}}`, "{\"command\":\"raw\ttab\"}", `{"command":"ls",}`, ` `, `{"\ud83d":1}`,
}

func drawArgs(t *rapid.T, odd bool) string {
	if odd && chance(t, "odd arguments", 30) {
		return pick(t, "arguments", oddArgs...)
	}
	return pick(t, "arguments", legalArgs...)
}

func drawName(t *rapid.T, odd bool) string {
	if odd && chance(t, "odd name", 15) {
		return pick(t, "name", "bash", "BASH", "", "Bash ", "a", "aa", "no\"quote", "no\u2028line")
	}
	return pick(t, "name", "Bash", "Bash", "Read", "lookup", "undeclared")
}

func drawCalls(t *rapid.T, odd bool) []call {
	n := rapid.IntRange(0, 4).Draw(t, "calls")
	var calls []call
	for i := range n {
		calls = append(calls, call{fmt.Sprintf("call_%d", i), drawName(t, odd), drawArgs(t, odd)})
	}
	return calls
}

// fragments cuts s and spells each piece as a JSON string. Legal pieces end at
// characters; odd ones may cut a character into its surrogates.
func fragments(t *rapid.T, s string, odd bool) []string {
	var out []string
	escape := chance(t, "escaped", 20)
	spell := func(p string) string {
		if !escape {
			return quote(p)
		}
		var b strings.Builder
		b.WriteByte('"')
		for _, u := range utf16.Encode([]rune(p)) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
		b.WriteByte('"')
		return b.String()
	}
	for cuts := rapid.IntRange(0, 3).Draw(t, "cuts"); cuts > 0 && s != ""; cuts-- {
		n := rapid.IntRange(0, len(s)).Draw(t, "cut")
		for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		if odd && n < len(s) {
			if r, size := utf8.DecodeRuneInString(s[n:]); r > 0xffff {
				hi, lo := utf16.EncodeRune(r)
				out = append(out, fmt.Sprintf(`%s\u%04x"`, strings.TrimSuffix(quote(s[:n]), `"`), hi), fmt.Sprintf(`"\u%04x"`, lo))
				s = s[n+size:]
				continue
			}
		}
		out = append(out, spell(s[:n]))
		s = s[n:]
	}
	return append(out, spell(s))
}

// leads are lines that mean nothing.
func drawLead(t *rapid.T) string {
	return pick(t, "lead", "", "", "", "", ": comment\n", "id: 7\n", "retry: 10\n", ": keep-alive\n\n", "\n")
}

// drawMessages is a Messages stream by the grammar; odd lets odd arguments,
// names and fragments into it.
func drawMessages(t *rapid.T, odd bool) []item {
	named := func(name, data string) item { return item{name: name, data: data, lead: drawLead(t)} }
	ping := item{name: "ping", data: `{"type": "ping"}`}
	items := []item{named("message_start", messageStart)}
	i := 0
	textBlock := func() {
		items = append(items,
			named("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)),
			named("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":"data: {\"type\":\"tool_use\"}"}}`, i)),
			named("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i)))
		i++
	}
	for _, c := range drawCalls(t, odd) {
		if chance(t, "text", 30) {
			textBlock()
		}
		input := pick(t, "input", `,"input":{}`, `,"input":{}`, `,"input":{}`, ``)
		if odd && chance(t, "odd input", 15) {
			input = pick(t, "input", `,"input":{ }`, `,"input":null`, `,"input":""`, `,"input":[]`, `,"input":{"command":"ls"}`, `,"input":{"command":"echo forbidden"}`, `,"input":{"command":"ls","command":"rm"}`, `,"input":5`)
		}
		format := `{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s%s}}`
		if chance(t, "order", 20) {
			format = `{"index":%d,"content_block":{"id":%s,"name":%s%s,"type":"tool_use"},"type":"content_block_start"}`
		}
		items = append(items, named("content_block_start", fmt.Sprintf(format, i, quote(c.id), quote(c.name), input)))
		if !strings.Contains(input, `{"command"`) || chance(t, "input and deltas", 50) {
			for _, f := range fragments(t, c.args, odd) {
				items = append(items, named("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, f)))
				if chance(t, "ping", 10) {
					items = append(items, ping)
				}
			}
		}
		items = append(items, named("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i)))
		i++
	}
	return append(items,
		named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}`),
		named("message_stop", `{"type":"message_stop"}`))
}

// drawChat is the same for Chat Completions.
func drawChat(t *rapid.T, odd bool) []item {
	chunk := func(choice string) item {
		return item{data: `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-test","choices":[` + choice + `]}`, lead: drawLead(t)}
	}
	delta := func(d string) item { return chunk(`{"index":0,"delta":` + d + `,"finish_reason":null}`) }
	items := []item{delta(`{"role":"assistant","content":null}`)}
	if chance(t, "text", 50) {
		items = append(items, delta(`{"content":"data: [DONE]"}`))
	}
	repeat := chance(t, "repeated names", 15)
	for i, c := range drawCalls(t, odd) {
		fs := fragments(t, c.args, odd)
		first := fmt.Sprintf(`"arguments":%s`, fs[0])
		if chance(t, "no arguments at first", 30) {
			first = pick(t, "first", `"arguments":""`, `"arguments":null`, ``)
		} else {
			fs = fs[1:]
		}
		fn := `{"name":` + quote(c.name) + `,` + first + `}`
		if first == "" {
			fn = `{"name":` + quote(c.name) + `}`
		}
		parts := []string{fmt.Sprintf(`{"index":%d,"id":%s,"type":"function","function":%s}`, i, quote(c.id), fn)}
		for _, f := range fs {
			p := fmt.Sprintf(`{"index":%d,"function":{"arguments":%s}}`, i, f)
			if repeat {
				p = pick(t, "repeated",
					fmt.Sprintf(`{"index":%d,"id":%s,"function":{"name":%s,"arguments":%s}}`, i, quote(c.id), quote(c.name), f),
					fmt.Sprintf(`{"index":%d,"id":"","type":"function","function":{"name":"","arguments":%s}}`, i, f),
					fmt.Sprintf(`{"index":%d,"id":null,"function":{"name":null,"arguments":%s}}`, i, f))
			}
			parts = append(parts, p)
		}
		if chance(t, "one chunk", 20) {
			items = append(items, delta(`{"tool_calls":[`+strings.Join(parts, ",")+`]}`))
		} else {
			for _, p := range parts {
				items = append(items, delta(`{"tool_calls":[`+p+`]}`))
			}
		}
		if chance(t, "text after a call", 10) {
			items = append(items, delta(`{"content":"and"}`))
		}
	}
	finish := `"finish_reason":"` + pick(t, "finish", "tool_calls", "stop") + `"`
	if last := &items[len(items)-1]; chance(t, "finish with the last piece", 20) {
		last.data = strings.Replace(last.data, `"finish_reason":null`, finish, 1)
	} else {
		items = append(items, chunk(`{"index":0,"delta":{},`+finish+`}`))
	}
	if chance(t, "usage", 50) {
		items = append(items, item{data: `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-test","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`})
	}
	return append(items, item{data: "[DONE]"})
}

// Events that no grammar has, for each dialect.
var strangeMessages = []item{
	{name: "new_event", data: `{"type":"new_event","index":0}`},
	{name: "content_block_start", data: `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"odd_1","name":"Bash","input":{"command":"rm"}}}`},
	{name: "content_block_start", data: `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"odd_2","name":"Bash","input":{}}}`},
	{name: "content_block_start", data: `{"type":"content_block_start","index":0,"content_block":{"type":"new_tool_use","id":"odd_3","name":"Bash","input":{"command":"rm"}}}`},
	{name: "content_block_start", data: `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"odd_4","name":"web_search","input":{}}}`},
	{name: "content_block_delta", data: `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"rm\"}"}}`},
	{name: "content_block_delta", data: `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":" #"}}`},
	{data: `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":" "}}`},
	{name: "content_block_delta", data: `{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","partial_json":"x"}}`},
	{name: "content_block_delta", data: `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x"}}`},
	{name: "content_block_stop", data: `{"type":"content_block_stop","index":0}`},
	{data: `{"type":"content_block_stop","index":0}`},
	{name: "message_start", data: messageStart},
	{name: "message_start", data: `{"type":"message_start","message":{"id":"msg_2","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"odd_5","name":"Bash","input":{"command":"rm"}}],"usage":{"input_tokens":1,"output_tokens":1}}}`},
	{name: "message_start", data: `{"type":"message_start","message":[{"content":[{"type":"tool_use","id":"odd_6","name":"Bash","input":{"command":"rm"}}]}]}`},
	{name: "message_start", data: `{"type":"message_start","Message":{"content":[{"type":"tool_use","id":"odd_7","name":"Bash","input":{"command":"rm"}}]}}`},
	{name: "message_stop", data: `{"type":"message_stop"}`},
	{name: "message_delta", data: `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`},
	{name: "error", data: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
	{data: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
	{name: "ping", data: `{"type":"ping","content_block":{"type":"tool_use","id":"odd_8","name":"Bash","input":{}}}`},
	{data: `{"type":"ping"}`},
	{data: "[DONE]"},
	{data: ""}, {data: "{}"}, {data: "null"}, {data: "[]"},
	{raw: "event: message_stop\n\n"}, {raw: "event: content_block_stop\n\n"},
	{raw: "data\n\n"}, {raw: "what\n\n"}, {raw: ":\n\n"}, {raw: "\ufeff"}, {raw: "\r"}, {raw: "\n"}, {raw: "id\n\n"},
}

func oddChunk(choice string) item {
	return item{data: `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-test","choices":[` + choice + `]}`}
}

var strangeChat = []item{
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"odd_1","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"rm\"}"}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"odd_2","type":"function","function":{"name":"Bash","arguments":""}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"rm\"}"}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":" #"}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"id":"odd_3","function":{"name":"Bash","arguments":"{}"}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"arguments":"x"}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"x","arguments":""}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":-1,"id":"odd_4","function":{"name":"Bash","arguments":"{}"}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"odd_5","type":"custom","custom":{"name":"Bash","input":"rm"}}]}}`),
	oddChunk(`{"index":0,"delta":{"tool_calls":{"index":0,"id":"odd_6","function":{"name":"Bash","arguments":"{}"}}}}`),
	oddChunk(`{"index":0,"delta":{"function_call":{"name":"Bash","arguments":"{\"command\":\"rm\"}"}}}`),
	oddChunk(`{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"odd_7","type":"function","function":{"name":"Bash","arguments":"{}"}}]}}`),
	oddChunk(`{"index":1,"delta":{"tool_calls":[{"index":0,"id":"odd_8","type":"function","function":{"name":"Bash","arguments":"{}"}}]}}`),
	oddChunk(`{"index":1,"delta":{"content":"x"}}`),
	oddChunk(`{"index":0,"delta":{}},{"index":0,"delta":{"tool_calls":[{"index":0,"id":"odd_9","function":{"name":"Bash","arguments":"{}"}}]}}`),
	oddChunk(`{"delta":{"tool_calls":[{"index":0,"id":"odd_10","function":{"name":"Bash","arguments":"{}"}}]}}`),
	oddChunk(`{"index":0,"delta":{"content":"text"}}`),
	oddChunk(`{"index":0,"delta":{"content":"text","tool_calls":[{"index":0,"function":{"arguments":" "}}]}}`),
	oddChunk(`{"index":0,"delta":{"role":"tool"}}`),
	oddChunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`),
	oddChunk(`{"index":0,"delta":{},"finish_reason":""}`),
	oddChunk(`{"index":1,"delta":{},"finish_reason":"stop"}`),
	oddChunk(`{"index":0,"delta":null,"finish_reason":null}`),
	oddChunk(`{"index":0,"delta":{"audio":{"id":"x"},"annotations":[{"type":"url_citation"}],"new":1}}`),
	oddChunk(`{"index":0,"delta":{"new":{"name":"Bash"}}}`),
	oddChunk(``),
	{data: `{"id":"other","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}`},
	{data: `{"choices":[]}`}, {data: `{"choices":null}`}, {data: `{}`}, {data: `null`}, {data: ""}, {data: "[DONE] "}, {data: "[DONE]"},
	{data: `{"error":{"message":"Overloaded","type":"server_error"}}`},
	{data: `{"error":null,"choices":[]}`},
	{name: "error", data: `{"error":{"message":"Overloaded"}}`},
	{name: "ping", data: `{"type":"ping"}`}, {name: "message", data: `{"choices":[]}`},
	{raw: "event: message\n\n"}, {raw: "what\n\n"}, {raw: "\ufeff"}, {raw: "\r"}, {raw: "\n"}, {raw: ": x\n\n"},
}

var (
	indexMember = regexp.MustCompile(`"(output_)?index":\d+`)
	idMember    = regexp.MustCompile(`"(call_|item_)?id":"(call|chatcmpl|item|resp)[^"]*"`)
	noIndex     = regexp.MustCompile(`"output_index":\d+,`)
	nameMember  = regexp.MustCompile(`"name":"[^"]*"`)
	someKey     = regexp.MustCompile(`"(type|index|content_block|delta|partial_json|name|id|input|choices|tool_calls|function|arguments|finish_reason|message|content|output_index|item|item_id|call_id|response|output|sequence_number|action|operation)":`)
)

// replaceOne replaces the nth match.
func replaceOne(t *rapid.T, re *regexp.Regexp, s string, with func(match string) string) string {
	at := re.FindAllStringIndex(s, -1)
	if len(at) == 0 {
		return s
	}
	m := at[rapid.IntRange(0, len(at)-1).Draw(t, "match")]
	return s[:m[0]] + with(s[m[0]:m[1]]) + s[m[1]:]
}

// makeOdd does a few odd things to a stream.
func makeOdd(t *rapid.T, items []item, strange []item) []item {
	for n := rapid.IntRange(0, 3).Draw(t, "oddities"); n > 0; n-- {
		i := rapid.IntRange(0, max(0, len(items)-1)).Draw(t, "place")
		what := pick(t, "oddity", "insert", "insert", "drop", "double", "swap", "end", "index", "id", "name", "event line", "no event line",
			"key twice", "key folded", "key escaped", "split", "bytes", "merge", "types", "wrap")
		if len(items) == 0 {
			what = "insert"
		}
		switch what {
		case "insert":
			it := pick(t, "strange", strange...)
			items = append(items[:i:i], append([]item{it}, items[i:]...)...)
		case "drop":
			items = append(items[:i:i], items[i+1:]...)
		case "double":
			items = append(items[:i+1:i+1], items[i:]...)
		case "swap":
			j := rapid.IntRange(0, len(items)-1).Draw(t, "with")
			items[i], items[j] = items[j], items[i]
		case "end":
			items = items[:i]
		case "index":
			items[i].data = replaceOne(t, indexMember, items[i].data, func(m string) string {
				return m[:strings.Index(m, ":")+1] + pick(t, "index", "0", "1", "2", "7", "-1", "null", `"0"`, "0.0", "1e0", "true", "99999999999")
			})
		case "id":
			items[i].data = replaceOne(t, idMember, items[i].data, func(m string) string {
				return m[:strings.Index(m, ":")+1] + pick(t, "id", `""`, `null`, `"call_0"`, `"call_1"`, `"item_call_0"`, `"other"`, `7`, `"\ud800"`, `"call_\u0030"`)
			})
		case "name":
			items[i].data = replaceOne(t, nameMember, items[i].data, func(string) string {
				return `"name":` + pick(t, "name", `""`, `null`, `"Ba"`, `"Read"`, `7`, `"B\u0061sh"`, `"Bash"`)
			})
		case "event line":
			items[i].name = pick(t, "event", "message_stop", "content_block_delta", "content_block_stop", "ping", "error", "message", "thread.x", "x")
		case "no event line":
			items[i].name = ""
		case "key twice":
			items[i].data = replaceOne(t, someKey, items[i].data, func(k string) string {
				return k + pick(t, "value", `null`, `"x"`, `{}`, `0`, `[]`, `"tool_use"`, `"{\"command\":\"rm\"}"`) + `,` + k
			})
		case "key folded":
			items[i].data = replaceOne(t, someKey, items[i].data, func(k string) string {
				return pick(t, "case", strings.ToUpper(k), strings.ToUpper(k[:2])+k[2:]) + pick(t, "value", `null`, `"x"`, `{}`, `"{\"command\":\"rm\"}"`) + `,` + k
			})
		case "key escaped":
			items[i].data = replaceOne(t, someKey, items[i].data, func(k string) string {
				e := `"\u` + fmt.Sprintf("%04x", k[1]) + k[2:]
				if chance(t, "twice", 50) {
					e += pick(t, "value", `null`, `"x"`, `"Bash"`, `{}`) + `,` + k
				}
				return e
			})
		case "split":
			items[i].split = true
		case "bytes":
			it := &items[i]
			if it.data != "" {
				at := rapid.IntRange(0, len(it.data)-1).Draw(t, "byte")
				it.data = it.data[:at] + pick(t, "put", "\xff", "\x00", "\u2028", " ", "\t", "\r", "\n", "\ndata: ", "\n\ndata: {}\n\n", `\`, `"`, "}", ",", "0") + it.data[at+rapid.IntRange(0, 1).Draw(t, "over"):]
			}
		case "merge":
			if i+1 < len(items) {
				items[i].data += "\ndata: " + items[i+1].data
				items = append(items[:i+1:i+1], items[i+2:]...)
			}
		case "types":
			from, to := pick(t, "from", `"type":"tool_use"`, `"type":"input_json_delta"`, `"type":"function"`, `"arguments":"`, `"partial_json":"`, `"created":1700000000`, `"role":"assistant"`, `"model":"gpt-test"`, `"id":"chatcmpl-1"`, `"function":{`, `"type":"function_call"`, `"type":"custom_tool_call"`, `"type":"message"`, `"output":[`, `"input":"`, `"delta":"`, `"response":{`),
				pick(t, "to", `"type":"text"`, `"type":"text_delta"`, `"type":"custom"`, `"type":null`, `"created":"x"`, `"role":"tool"`, `"role":7`, `"content":7,"model":null`, `"id":"chatcmpl-2"`, `"custom":{`, `"arguments":null,"x":"`, `"usage":7,"id":"chatcmpl-1"`, `"type":"function_call"`, `"type":"message"`, `"type":"new_call"`, `"output":[`+respItem(oddCall, "", "completed", oddCall.args)+`,`, `"arguments":"{}","x":"`, `"input":"x","delta":"`, `"response":{"output":[],"x":{`)
			items[i].data = strings.Replace(items[i].data, from, to, 1)
		case "wrap":
			items[i].data = pick(t, "wrapped", `[`+items[i].data+`]`, `{"data":`+items[i].data+`}`, quote(items[i].data), items[i].data+items[i].data)
		}
	}
	return items
}

// drawBytes writes items and, for odd streams, cuts or changes the bytes.
func drawBytes(t *rapid.T, items []item, odd bool) []byte {
	b := write(items, chance(t, "CRLF", 15), !chance(t, "no space", 15), !odd || !chance(t, "no final blank line", 10))
	if odd && len(b) > 0 && chance(t, "cut", 15) {
		b = b[:rapid.IntRange(0, len(b)).Draw(t, "at")]
	}
	return b
}
