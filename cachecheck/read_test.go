package cachecheck

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/guardproxy/guardproxy/internal/record"
)

// readAll yields what a reader finds: "ok", or the reason why not.
func readAll(r *Reader) (odds []string, err error) {
	for {
		x, err := r.Next()
		if err == io.EOF {
			return odds, nil
		}
		if err != nil {
			return odds, err
		}
		if x.Odd == "" {
			odds = append(odds, "ok")
		} else {
			odds = append(odds, string(x.Odd))
		}
	}
}

func bodyOf(d string) string { return string(baseTalk(d).body()) }

// TestOddInput: nothing is skipped in silence. What can't be compared comes out
// with its reason, and what is of no format at all is an error.
func TestOddInput(t *testing.T) {
	a, b := bodyOf(dialectMessages), bodyOf(dialectChat)
	rec := string(record.AppendHeader(nil, nil)) + string(record.AppendExchange(nil, &record.Exchange{Dialect: dialectChat, Path: "/v1/chat/completions", ClientBody: []byte(b), UpstreamBody: []byte(b)}))
	har := func(entries string) string { return `{"log":{"version":"1.2","entries":[` + entries + `]}}` }
	post := func(text, more string) string {
		return `{"request":{"method":"POST","url":"https://h/v1/responses","postData":{"text":` + q(text) + `}},"response":{"status":200}` + more + `}`
	}
	flows := string(asFlows(func() []turn {
		turns := rowTurns(&row{}, dialectMessages)
		finish(t, turns)
		return turns
	}()))
	vcr := "interactions:\n- request: {body: " + q(a) + ", method: POST, uri: 'https://h/v1/messages'}\n  response: {body: {string: '{}'}}\n"
	for _, c := range []struct {
		name, text string
		format     Format
		want       []string
		fails      string
	}{
		{"nothing", "", FormatEmpty, nil, ""},
		{"white space", " \n\t\n", FormatEmpty, nil, ""},
		{"prose", "Dear diary,\n", "", nil, "none of the formats"},
		{"a JSON number", "42", "", nil, "none of the formats"},
		{"one body", a, FormatBody, []string{"ok"}, ""},
		{"one body on several lines", strings.Replace(a, `,"system"`, ",\n\n\"system\"", 1), FormatBody, []string{"ok"}, ""},
		{"a byte order mark", "\xef\xbb\xbf" + a, FormatBody, []string{"ok"}, ""},
		{"a cut body", a[:len(a)/2], FormatLines, []string{"not_json"}, "no line of it is JSON"},
		{"lines of several dialects", a + "\n" + b + "\n\n" + bodyOf(dialectGemini), FormatLines, []string{"ok", "ok", "ok"}, ""},
		{"Windows line ends", a + "\r\n" + b + "\r\n", FormatLines, []string{"ok", "ok"}, ""},
		{"a broken line", a + "\nnot JSON\n" + b + "\n", FormatLines, []string{"ok", "not_json", "ok"}, ""},
		{"a broken first line", "{broken\n" + a + "\n" + b + "\n", FormatLines, []string{"not_json", "ok", "ok"}, ""},
		{"a cut last line", a + "\n" + b[:100], FormatLines, []string{"ok", "cut"}, ""},
		{"another JSON", a + "\n" + `{"hello":1}` + "\n[1]\n", FormatLines, []string{"ok", "shape", "shape"}, ""},
		{"wrapped bodies", `{"request":` + a + `}` + "\n" + `{"request":{"method":"GET","url":"https://h/v1/models"}}` + "\n" + `{"body":` + q(b) + `}`, FormatLines, []string{"ok", "not_model", "ok"}, ""},
		{"a wrapped body in an encoding that we can't undo", `{"request":{"method":"POST","url":"https://h/v1/messages","headers":{"Content-Encoding":"br"},"body":"\u000b\u0002"}}` + "\n" + a, FormatLines, []string{"encoding", "ok"}, ""},
		{"an array", "[" + a + ",\n " + b + "]", FormatArray, []string{"ok", "ok"}, ""},
		{"an empty array", "[]", FormatArray, nil, ""},
		{"a cut array", "[" + a + "," + b[:50], FormatArray, []string{"ok", "cut"}, ""},
		{"zstd", string(zstdOf([]byte(a + "\n" + b))), FormatLines, []string{"ok", "ok"}, ""},
		{"gzip", string(gzipOf([]byte(a))), FormatBody, []string{"ok"}, ""},
		{"gzip in gzip in gzip", string(gzipOf(gzipOf(gzipOf([]byte(a))))), "", nil, "compressed more than twice"},

		{"a recording", rec, FormatRecording, []string{"ok"}, ""},
		{"a recording of nothing", string(record.AppendHeader(nil, nil)), FormatRecording, nil, ""},
		{"a cut recording", rec + rec[len(rec)/2:len(rec)-9], FormatRecording, []string{"ok", "cut"}, ""},
		{"a recording that ends in a line", rec + `{"start":"2026-`, FormatRecording, []string{"ok", "cut"}, ""},
		{"a recording of another version", `{"v":9,"rules":{}}` + "\n" + `{"client_body":"x"}` + "\n", FormatRecording, []string{"damaged", "damaged"}, ""},
		{"a recording with two broken lines", rec + "x\ny\n", FormatRecording, []string{"ok", "damaged", "damaged"}, ""},

		{"HAR", har(post(b, "") + "," + post("", "") + `,{"request":{"method":"GET","url":"https://h/"}}`), FormatHAR, []string{"ok", "no_body", "not_model"}, ""},
		{"HAR without entries", `{"log":{"version":"1.2"}}`, FormatHAR, nil, "without entries"},
		{"a cut HAR", har(post(b, ""))[:200], FormatHAR, []string{"cut"}, ""},
		{"HAR of a WebSocket", har(`{"request":{"method":"GET","url":"wss://h/v1/responses"},"_webSocketMessages":[{"type":"send","data":` + q(bodyOf(dialectResponses)) + `},{"type":"receive","data":"{}"},{"type":"send","data":"{\"type\":\"response.create\",\"previous_response_id\":\"r1\",\"input\":[]}"}]}`), FormatHAR, []string{"ok", "ok"}, ""},

		{"mitmproxy flows", flows, FormatFlows, []string{"ok", "ok", "ok"}, ""},
		{"cut flows", flows[:len(flows)-100], FormatFlows, []string{"ok", "ok", "cut"}, ""},
		{"flows that lie about their length", flows + "99999999999:x", FormatFlows, []string{"ok", "ok", "ok", "cut"}, ""},
		{"something that begins like flows", "12:30 lunch", "", nil, "begins like"},
		{"a flow that is no request", tns('}', tns(';', "type")+tns(';', "tcp")), FormatFlows, []string{"not_model"}, ""},

		{"a cassette", vcr, FormatCassette, []string{"ok"}, ""},
		{"a cassette with a broken interaction", vcr + "- request: {body: [\n- request: {body: " + q(b) + "}\n", FormatCassette, []string{"ok", "damaged", "ok"}, ""},
		{"a cassette whose reply can't be read", "interactions:\n- request: {body: " + q(a) + ", method: POST, uri: 'https://h/v1/messages'}\n  response: {body: [\n", FormatCassette, []string{"ok"}, ""},
		{"a cassette of nothing", "interactions: []\nversion: 1\n", FormatCassette, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Open("x", iotest.HalfReader(strings.NewReader(c.text)))
			var odds []string
			if err == nil {
				if c.format != "" && r.Format != c.format {
					t.Errorf("format %s, want %s", r.Format, c.format)
				}
				odds, err = readAll(r)
			}
			if !slices.Equal(odds, c.want) {
				t.Errorf("%q, want %q", odds, c.want)
			}
			switch {
			case err == nil && c.fails != "":
				t.Errorf("no error, want %q", c.fails)
			case err != nil && (c.fails == "" || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("error %q, want %q", err, c.fails)
			case err != nil && !errors.As(err, new(*UnreadableError)):
				t.Errorf("%T is no UnreadableError", err)
			}
		})
	}
}

// TestOddBodies: what a checker can't compare it counts, with the reason.
func TestOddBodies(t *testing.T) {
	ok := bodyOf(dialectMessages)
	for _, c := range []struct {
		name string
		x    Exchange
		want Odd
	}{
		{"no body", Exchange{}, OddNoBody},
		{"no JSON", Exchange{Body: []byte("hello")}, OddNotJSON},
		{"invalid UTF-8", Exchange{Body: []byte("{\"messages\":[\"\xff\"]}")}, OddNotJSON},
		{"an array", Exchange{Body: []byte("[]")}, OddShape},
		{"no messages", Exchange{Body: []byte(`{"model":"claude","messages":[],"system":"x"}`)}, OddShape},
		{"another API", Exchange{Body: []byte(`{"prompt":"x"}`)}, OddShape},
		{"a delta", Exchange{Body: []byte(`{"model":"gpt-6","previous_response_id":"resp_1","input":[{"role":"user","content":"x"}]}`)}, OddStateful},
		{"a conversation", Exchange{Body: []byte(`{"model":"gpt-6","conversation":"conv_1","input":"x"}`)}, OddStateful},
		{"a WebSocket's delta", Exchange{Body: []byte(`{"type":"response.create","previous_response_id":"resp_1","input":[]}`)}, OddStateful},
		{"counted tokens", Exchange{Body: []byte(ok), Path: "/v1/messages/count_tokens?beta=true"}, OddCount},
		{"an error", Exchange{Body: []byte(ok), Status: 529}, OddFailed},
		{"a byte order mark", Exchange{Body: []byte("\xef\xbb\xbf" + ok)}, ""},
		{"a repeated key", Exchange{Body: []byte(strings.Replace(ok, `"model":`, `"model":"x","model":`, 1))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := New(Options{})
			if res := ch.Add(&c.x); res.Odd != c.want {
				t.Errorf("%q (%s), want %q", res.Odd, res.Note, c.want)
			}
			if s := ch.Summary(); c.want != "" && (s.Odd[c.want] != 1 || s.Requests != 1) {
				t.Errorf("not counted: %+v", s)
			}
		})
	}
}

// TestAFailedRequestIsNoBase: an error stores nothing, so the next request is
// compared with the one before it.
func TestAFailedRequestIsNoBase(t *testing.T) {
	s := baseTalk(dialectMessages)
	bad := s.say(more(1)...)
	bad.tools = bad.tools[:1]
	c := New(Options{})
	c.Add(exchangeOf(s.body()))
	c.Add(&Exchange{Body: bad.body(), Status: 529})
	if res := c.Add(exchangeOf(s.say(more(1)...).body())); res.Label != Append || res.Previous != 1 {
		t.Errorf("%s after %d", res.Label, res.Previous)
	}
}

// TestFolders: files in the order of their names, numbers as numbers, and each
// file that is no body counted.
func TestFolders(t *testing.T) {
	s := baseTalk(dialectChat)
	fsys := fstest.MapFS{}
	for i := range 12 {
		s = s.say(more(i)...)
		fsys[fmt.Sprintf("%d.json", i)] = &fstest.MapFile{Data: s.body()}
	}
	fsys["3.response.json"] = &fstest.MapFile{Data: []byte(`{"id":"r3","usage":{"prompt_tokens":5000,"prompt_tokens_details":{"cached_tokens":4992}}}`)}
	fsys["notes.md"] = &fstest.MapFile{Data: []byte("# Notes")}
	fsys["empty.json"] = &fstest.MapFile{}
	fsys["broken.json"] = &fstest.MapFile{Data: []byte(`{"messages":[`)}
	fsys["sub/1.json"] = &fstest.MapFile{Data: s.body()}
	r, err := OpenFolder("dir/", fsys)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{})
	grown, files := 0, []string{}
	for {
		x, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, x.File)
		res := c.Add(x)
		if res.Label == Append {
			grown++
		}
		if x.File == "dir/3.json" && x.Usage.Read != 4992 {
			t.Errorf("the reply of 3.json was not read: %+v", x.Usage)
		}
	}
	if grown != 11 {
		t.Errorf("%d requests grew, want 11: %q", grown, files)
	}
	odd := c.Summary().Odd
	if odd[OddShape] != 2 || odd[OddNoBody] != 1 || odd[OddNotJSON] != 1 || len(odd) != 3 {
		t.Errorf("%v %q", odd, c.Summary().Notes)
	}
}

// TestClaudeFolder: the raw-body folder of Claude Code is read in the order of
// the files' times, and replies find their requests.
func TestClaudeFolder(t *testing.T) {
	fsys := fstest.MapFS{}
	at := time.Unix(1_790_000_000, 0)
	files := asClaudeFolder(t)
	for _, f := range files { // times against the order of names
		at = at.Add(20 * time.Second)
		fsys[f.name] = &fstest.MapFile{Data: f.text, ModTime: at}
	}
	fsys["zz.response.json"] = &fstest.MapFile{Data: files[1].text, ModTime: at.Add(time.Second)}
	r, err := OpenFolder("raw", fsys)
	if err != nil {
		t.Fatal(err)
	}
	if r.Format != FormatClaude {
		t.Errorf("format %s", r.Format)
	}
	c := New(Options{})
	var labels []Label
	for {
		x, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, c.Add(x).Label)
	}
	if !slices.Equal(labels, []Label{First, Append, ToolsOrder}) {
		t.Errorf("%v", labels)
	}
	if s := c.Summary(); s.Total.Total == 0 || s.Labels[Unreported] != 0 {
		t.Errorf("replies were not joined: %+v", s)
	}
}

// TestInstants: the times of each format.
func TestInstants(t *testing.T) {
	for _, s := range []string{"2026-11-30T09:00:00Z", "1970-01-01T00:00:00Z", "2000-02-29T23:59:59.123456789Z", "2026-03-01T00:00:00+05:30", "2026-11-30T09:00:00.5-08:00", "2100-03-01T00:00:00Z"} {
		want, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := parseInstant(s); got != want.UnixNano() {
			t.Errorf("%s: %d, want %d", s, got, want.UnixNano())
		}
	}
	for _, s := range []string{"", "2026", "2026-11-30", "2026-13-01T00:00:00Z", "2026-11-30T09:00:00 CET", "2026-11-30T09:00:00+1", "9999-11-30T09:00:00Z", "2026-11-30X09:00:00Z"} {
		if got := parseInstant(s); got != 0 {
			t.Errorf("%q: %d, want none", s, got)
		}
	}
}

// TestUsage: the counters of each provider.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		want        Usage
		id          string
	}{
		{"Messages", `{"id":"msg_1","type":"message","usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":400}}`, used(400, 20, 3), "msg_1"},
		{"a Messages stream", "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":20,\"cache_read_input_tokens\":400,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n", used(400, 20, 3), "msg_1"},
		{"Chat", `{"id":"c1","object":"chat.completion","usage":{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":896}}}`, used(896, 0, 104), "c1"},
		{"Chat without details", `{"id":"c1","object":"chat.completion","usage":{"prompt_tokens":1000}}`, Usage{Counted: true, Uncached: 1000, Total: 1000}, "c1"},
		{"DeepSeek", `{"id":"c1","object":"chat.completion","usage":{"prompt_tokens":1000,"prompt_cache_hit_tokens":640,"prompt_cache_miss_tokens":360}}`, used(640, 0, 360), "c1"},
		{"Responses", `{"id":"resp_1","object":"response","usage":{"input_tokens":2000,"input_tokens_details":{"cached_tokens":1500,"cache_write_tokens":400},"total_tokens":2100}}`, used(1500, 400, 100), "resp_1"},
		{"a Responses stream", "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"usage\":{\"input_tokens\":2000,\"input_tokens_details\":{\"cached_tokens\":0},\"total_tokens\":2100}}}\n\n", Usage{Counted: true, Reported: true, Uncached: 2000, Total: 2000}, "resp_1"},
		{"Gemini", `{"responseId":"g1","usageMetadata":{"promptTokenCount":5000,"cachedContentTokenCount":4096}}`, used(4096, 0, 904), "g1"},
		{"Gemini says nothing of a cache", `{"usageMetadata":{"promptTokenCount":5000}}`, Usage{Counted: true, Uncached: 5000, Total: 5000}, ""},
		{"Converse", `{"usage":{"inputTokens":7,"cacheReadInputTokens":900,"cacheWriteInputTokens":50}}`, used(900, 50, 7), ""},
		{"nonsense", `{"usage":{"input_tokens":-4,"cache_read_input_tokens":"x"}}`, Usage{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var x Exchange
			var r itemReader
			x.reply(&r.t, []byte(c.reply))
			if x.Usage != c.want || x.ResponseID != c.id {
				t.Errorf("%+v %q, want %+v %q", x.Usage, x.ResponseID, c.want, c.id)
			}
		})
	}
}

// small takes the long texts out of a body: what is fuzzed is the shape.
func small(b []byte) []byte {
	long := q(house)
	b = bytes.ReplaceAll(b, []byte(long[1:len(long)-1]), []byte("House rules."))
	for _, line := range []string{`07:10 ridge snow 0.4 mm; 07:20 ridge snow 0.5 mm; 07:30 ridge dry\n`, `07:10 valley dry; 07:20 valley dry; 07:30 valley dew\n`} {
		b = bytes.ReplaceAll(b, []byte(line), nil)
	}
	return b
}

func smallTurns(d string) []turn {
	turns := rowTurns(&row{}, d)[:2]
	for i := range turns {
		turns[i].body = small(turns[i].talk.with(func(s *talk) { s.system = s.system[1:] }).body())
		turns[i].x.Start, turns[i].x.Usage = int64(i+1)*1e18, used(1, 2, 3)
		turns[i].id, turns[i].path = "msg_1", dialectPaths[d]
	}
	return turns
}

// FuzzOpen: whatever a file holds, reading and checking it ends, and each
// exchange is compared or has a reason.
func FuzzOpen(f *testing.F) {
	add := func(b []byte) { f.Add(b) }
	turns := smallTurns(dialectMessages)
	chat := smallTurns(dialectChat)
	for _, b := range [][]byte{asOurs(turns), asHAR(chat), asFlows(turns), asVCR(turns), asHTTPMock(chat), asWrapped(turns), []byte(string(turns[0].body) + "\n" + string(chat[0].body)), []byte("[" + string(turns[0].body) + "]")} {
		add(b)
	}
	for _, s := range []string{"", "[", "{", "1:", "0:}", "12:", "interactions:\n- ", "---\nwhen:\n  body: x\n", `{"v":1}`, `{"log":{"entries":[`, "[1,2", "\x28\xb5\x2f\xfd", "\x1f\x8b"} {
		add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Open("x", bytes.NewReader(b))
		if err != nil {
			return
		}
		c := New(Options{Retain: 1 << 16})
		var table bytes.Buffer
		tab := NewTable(&table)
		for n := 0; n < 200; n++ {
			x, err := r.Next()
			if err != nil {
				break
			}
			res := c.Add(x)
			if len(res.Labels) == 0 || res.Labels[0] != res.Label || res.Odd != "" && res.Previous != 0 {
				t.Fatalf("%+v", res)
			}
			if err := WriteJSON(io.Discard, &res); err != nil {
				t.Fatal(err)
			}
			tab.Add(&res)
		}
		tab.Close(c)
		if bytes.ContainsAny(table.Bytes(), "\x1b\x00\r") {
			t.Fatalf("control characters in the table: %q", table.String())
		}
	})
}

// FuzzPair: two bodies of any shape are compared without failing, and a body
// compared with itself has not moved.
func FuzzPair(f *testing.F) {
	for i := range causes {
		r := &causes[i]
		d := dialectMessages
		if r.dialects != nil {
			d = r.dialects[0]
		}
		a, b := r.bodies(d)
		if i%4 == 0 {
			f.Add(small(a), small(b))
		}
	}
	for _, d := range talkDialects {
		f.Add(small([]byte(bodyOf(d))), small([]byte(bodyOf(dialectChat))))
	}
	f.Add([]byte(`{"model":"claude","system":[{"type":"text"},{"type":"text","text":1}],"tools":[{},1,null],"messages":[{},{"content":[{"type":"text"},{},1,null,{"type":"tool_result"},{"type":"tool_use"}]}]}`), []byte(`{"model":"gpt-6","instructions":1,"tools":{},"input":[{},1,{"type":"message"},{"role":"user"},{"type":"reasoning"},{"type":"additional_tools"}]}`))
	f.Add([]byte(`{"contents":[{},{"parts":[{},1]},{"role":"model"}],"systemInstruction":1,"tools":[{},{"functionDeclarations":1}]}`), []byte(`{"toolConfig":{"tools":[{"cachePoint":{}},{}]},"system":[{"cachePoint":{}}],"messages":[{"content":[{"cachePoint":{}}]}]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		c := New(Options{})
		first := c.Add(&Exchange{Body: a, Session: "s"})
		res := c.Add(&Exchange{Body: b, Session: "s"})
		if s := res.Spot; s != nil && (s.A > len(a) || s.B > len(b)) {
			t.Fatalf("%+v is outside of the bodies", s)
		}
		if first.Odd != "" {
			return
		}
		same := New(Options{})
		same.Add(&Exchange{Body: a, Session: "s"})
		if res := same.Add(&Exchange{Body: a, Session: "s"}); res.Label != Retry && res.Label != BreakpointNone && res.Label != MinTokens && res.Label != BreakpointBudget && res.Label != BreakpointOrder {
			t.Fatalf("a body compared with itself: %s (%s)", res.Label, res.Detail)
		}
	})
}
