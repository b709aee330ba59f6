package proxy

// What an attacker tries who writes the model's words, the upstream's bytes or
// the client's history. Each test is one way that must stay closed.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire"
)

func tool(name, schema string) string {
	return `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}],"tools":[{"name":"` + name + `","input_schema":` + schema + `}]}`
}

// A refusal keeps required arguments. One of them may be what the tool runs.
func TestRefusalKeepsWhatRuns(t *testing.T) {
	for _, c := range []struct{ tool, schema, args string }{
		{"bash", `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`, `{"input":"forbidden"}`},
		{"bash", `{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}}},"required":["commands"]}`, `{"commands":["forbidden"]}`},
		{"bash", `{"type":"object","properties":{"command":{"type":"string"},"environment":{"type":"object"}},"required":["command","environment"]}`, `{"command":"forbidden","environment":{"BASH_ENV":"/tmp/evil.sh"}}`},
		{"bash", `{"type":"object","properties":{"command":{"type":"string"},"working_dir":{"type":"string"}},"required":["command","working_dir"]}`, `{"command":"forbidden","working_dir":"/tmp/evil"}`},
	} {
		r := newRig(t, answering(messagesStream(c.tool, c.args)), func(o *Options) { o.Guards = denying("forbidden") })
		_, _, got := r.send("/v1/messages", tool(c.tool, c.schema))
		for _, bad := range []string{`forbidden\"`, "evil"} {
			if i := strings.Index(got, "partial_json"); strings.Contains(got, bad) {
				t.Errorf("%s: the refusal still holds %s: %.400s", c.args, bad, got[i:])
			}
		}
	}
}

// The refused form calls guardproxy_refused. If the request declares it, a
// refusal runs it.
func TestDeclaredRefusedTool(t *testing.T) {
	r := newRig(t, answering(messagesStream("Write", `{"file_path":"/x","content":"forbidden"}`)), func(o *Options) { o.Guards = denying("forbidden") })
	ask := strings.Replace(messagesAsk, `"tools":[`, `"tools":[{"name":"guardproxy_refused","input_schema":{"type":"object"}},`, 1)
	status, _, got := r.send("/v1/messages", ask)
	if status == 200 && strings.Contains(got, `"name":"guardproxy_refused"`) {
		t.Errorf("a refusal calls a tool that the client has")
	}
}

// Two refusals of the history with one id: both want the same result edited.
func TestTwoCallsOneID(t *testing.T) {
	k, _ := envelope.NewKeyring(bytes.Repeat([]byte{7}, 32))
	name, args := k.Refuse(envelope.Call{Name: "Write", Args: []byte(`{"file_path":"x","content":"y"}`), Text: "no"}, envelope.Target{Form: envelope.UnknownForm, Fallback: envelope.UnknownForm})
	call := `{"type":"tool_use","id":"a_b","name":"` + name + `","input":` + string(args) + `}`
	body := `{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[` + call + `,` + call + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_b","content":"unknown tool"}]}],` + messagesTools + `}`
	r := newRig(t, answering(`{"content":[]}`))
	req, _ := http.NewRequest("POST", r.url+"/v1/messages", strings.NewReader(body))
	resp, err := plain.Do(req)
	if err != nil {
		t.Fatalf("the handler died: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || !json.Valid([]byte(r.seen()[0])) {
		t.Errorf("status %d, upstream got %q", resp.StatusCode, r.seen())
	}
}

// One call of two with one id was refused: its result is not known.
func TestResultOfAnotherCall(t *testing.T) {
	k, _ := envelope.NewKeyring(bytes.Repeat([]byte{7}, 32))
	name, args := k.Refuse(envelope.Call{Name: "Write", Args: []byte(`{"file_path":"x","content":"y"}`), Text: "REFUSAL"}, envelope.Target{Form: envelope.UnknownForm, Fallback: envelope.UnknownForm})
	body := `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a_b","name":"` + name + `","input":` + string(args) + `},{"type":"tool_use","id":"a_b","name":"Bash","input":{"command":"ls"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_b","content":"LISTING"}]}],` + messagesTools + `}`
	r := newRig(t, answering(`{"content":[]}`))
	r.send("/v1/messages", body)
	if !strings.Contains(r.seen()[0], "LISTING") {
		t.Errorf("the result of another call was replaced: %s", r.seen()[0])
	}
}

// What is restored has to be a request that the API takes.
func TestRestoredLoneSurrogate(t *testing.T) {
	r := newRig(t, answering(messagesStream("Bash", `{"command":"echo \ud83d"}`)))
	_, _, got := r.send("/v1/messages", messagesAsk)
	var args string
	for line := range strings.SplitSeq(got, "\n") {
		if strings.Contains(line, "partial_json") {
			var ev struct{ Delta struct{ Partial_json string } }
			json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &ev)
			args = ev.Delta.Partial_json
		}
	}
	body := `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"guardproxy_refused","input":` + args + `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]}],` + messagesTools + `}`
	r.send("/v1/messages", body)
	last := r.seen()[len(r.seen())-1]
	if strings.Contains(last, `\ud83d`) {
		t.Errorf("the restored history holds half a surrogate pair, which the API answers with 400 for ever: %s", last[:300])
	}
}

// A seal with a line break in it: base64 ignores it, Holds does not see it.
func TestSealWithLineBreak(t *testing.T) {
	k, _ := envelope.NewKeyring(bytes.Repeat([]byte{7}, 32))
	_, args := k.Refuse(envelope.Call{Name: "Bash", Args: []byte(`{"command":"forbidden"}`), Text: "no"}, envelope.Target{Form: envelope.ShellForm, Argument: "command", Fallback: envelope.UnknownForm})
	i := bytes.Index(args, []byte("gp1:")) + 20
	broken := string(args[:i]) + `\n` + string(args[i:])
	r := newRig(t, answering(messagesStream("Bash", broken)))
	_, _, got := r.send("/v1/messages", messagesAsk)
	body := `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":` + broken + `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"RAN"}]}],` + messagesTools + `}`
	ranUntouched := strings.Contains(got, quote(broken))
	r.send("/v1/messages", body)
	last := r.seen()[len(r.seen())-1]
	if ranUntouched && strings.Contains(last, `"input":{"command":"forbidden"}`) {
		t.Errorf("a call that ran became a refused one in the history: %s", last[:200])
	}
}

// A tool without declared parameters gets a command all the same.
func TestUndeclaredCommand(t *testing.T) {
	var kind string
	r := newRig(t, answering(messagesStream("runner", `{"command":"rm -rf ~"}`)), func(o *Options) {
		o.Guards = guards.Chain{{Name: "g", Match: guards.Match{Kinds: []string{"shell"}}, Guard: guardFunc(func(c *guards.Call) guards.Verdict {
			kind = c.Kind
			return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy}
		})}}
	})
	_, _, got := r.send("/v1/messages", tool("runner", `{"type":"object"}`))
	if strings.Contains(got, `"name":"runner"`) {
		t.Errorf("the shell guard did not see it (kind %q): a command in a tool that declares no parameters", kind)
	}
}

// Declared twice: which one the client runs is not known.
func TestDeclaredTwice(t *testing.T) {
	r := newRig(t, answering(messagesStream("runner", `{"command":"rm -rf ~"}`)), func(o *Options) {
		o.Guards = guards.Chain{{Name: "g", Match: guards.Match{Kinds: []string{"shell"}}, Guard: guardFunc(func(c *guards.Call) guards.Verdict {
			return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy}
		})}}
	})
	_, _, got := r.send("/v1/messages", `{"model":"m","stream":true,"messages":[],"tools":[{"name":"runner","input_schema":{"type":"object","properties":{"command":{"enum":["a"]}}}},{"name":"runner","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}}]}`)
	if strings.Contains(got, `"name":"runner"`) {
		t.Errorf("judged by the first of two declarations")
	}
}

// Own files by dot segments, in a tool that no catalogue knows.
func TestOwnFilesUncatalogued(t *testing.T) {
	own := filepath.Join(t.TempDir(), "guardproxy")
	for _, p := range []string{filepath.Dir(own) + "/x/../guardproxy/key", filepath.Dir(own) + "/./x/../guardproxy/key"} {
		r := newRig(t, answering(messagesStream("fs_read", `{"path":`+quote(p)+`}`)), func(o *Options) { o.OwnFiles = []string{own} })
		_, _, got := r.send("/v1/messages", tool("fs_read", `{"type":"object","properties":{"path":{"type":"string"}}}`))
		if strings.Contains(got, `"name":"fs_read"`) {
			t.Errorf("%s was let through", p)
		}
	}
}

// Case folding of escalation fields.
func TestFoldedResidue(t *testing.T) {
	r := newRig(t, answering(messagesStream("Bash", `{"command":"ls","DangerouslyDisableSandbox":true}`)))
	_, _, got := r.send("/v1/messages", messagesAsk)
	if strings.Contains(got, `DangerouslyDisableSandbox`) {
		t.Errorf("an escalation in another case stayed")
	}
}

// A status that is neither an error nor a success for every client.
func TestOddStatus(t *testing.T) {
	for _, status := range []int{600, 799, 999} {
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, messagesStream("Bash", `{"command":"forbidden"}`))
		}, func(o *Options) { o.Guards = denying("forbidden") })
		_, _, got := r.send("/v1/messages", messagesAsk)
		if strings.Contains(got, `{\"command\":\"forbidden\"}`) {
			t.Errorf("status %d: a call passed unjudged", status)
		}
	}
}

// Replies in the shape of another dialect.
func TestOtherShape(t *testing.T) {
	calls := `[{"id":"c","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"forbidden\"}"}}]`
	for _, c := range []struct{ path, reply string }{
		{"/v1/messages", `{"choices":[{"index":0,"message":{"tool_calls":` + calls + `}}]}`},
		{"/v1/messages", `{"content":[],"message":{"tool_calls":` + calls + `}}`},
		{"/v1/messages", `{"output":[{"type":"function_call","call_id":"c","name":"Bash","arguments":"{\"command\":\"forbidden\"}"}]}`},
		{"/chat/completions", `{"content":[{"type":"tool_use","id":"c","name":"Bash","input":{"command":"forbidden"}}]}`},
		{"/chat/completions", `{"choices":[],"message":{"tool_calls":` + calls + `}}`},
		{"/chat/completions", "data: {\"choices\":[],\"message\":{\"tool_calls\":" + calls + "}}\n\ndata: [DONE]\n\n"},
	} {
		r := newRig(t, answering(c.reply), func(o *Options) { o.Guards = denying("forbidden") })
		_, _, got := r.send(c.path, messagesAsk)
		if strings.Contains(got, "forbidden") {
			t.Errorf("%s: %s passed unjudged", c.path, c.reply)
		}
	}
}

// Provider calls in the name of a client's tool: some clients run them.
func TestServerToolUseOfClientTool(t *testing.T) {
	s := strings.Replace(messagesStream("Bash", `{"command":"forbidden"}`), `"type":"tool_use"`, `"type":"server_tool_use"`, 1)
	r := newRig(t, answering(s), func(o *Options) { o.Guards = denying("forbidden") })
	_, _, got := r.send("/v1/messages", messagesAsk)
	if strings.Contains(got, "forbidden") {
		t.Errorf("server_tool_use in the name of the client's own Bash passed unjudged")
	}
}

// Readers that split decoded text by str.splitlines (Python's httpx) see more
// lines than there are.
func TestOtherLineBreaks(t *testing.T) {
	call := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"forbidden\"}"}}]}}]}`
	for _, sep := range []string{"\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e"} {
		for _, field := range []string{": x", "id: x", "retry: 1"} {
			r := newRig(t, answering("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"+field+sep+call+"\n\ndata: [DONE]\n\n"), func(o *Options) { o.Guards = denying("forbidden") })
			_, _, got := r.send("/chat/completions", chatAsk)
			if strings.Contains(got, "forbidden") {
				t.Errorf("%q after %q: a line that some readers take for an event passed", sep, field)
			}
		}
	}
}

// Some of those characters may stand in the strings of JSON as they are. Such
// readers skip a fragment that has one, and run what is left: so the call is
// refused, in a form without them, and the agent goes on.
func TestLineBreaksInArguments(t *testing.T) {
	for _, sep := range []string{"\u2028", "\u2029", "\u0085"} {
		args := []string{`{"command":"true `, `'` + sep + `'`, `"}`}
		var messages, chat, responses strings.Builder
		part := func(b *strings.Builder, format string) {
			for _, a := range args {
				fmt.Fprintf(b, format, strings.ReplaceAll(a, `"`, `\"`))
			}
		}
		messages.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"Bash\",\"input\":{}}}\n\n")
		part(&messages, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"%s\"}}\n\n")
		messages.WriteString("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
		chat.WriteString(`data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"bash","arguments":""}}]}}]}` + "\n\n")
		part(&chat, `data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]}}]}`+"\n\n")
		chat.WriteString(`data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n")
		item := `{"id":"fc_1","type":"function_call","call_id":"c","name":"bash","arguments":"` + strings.ReplaceAll(strings.Join(args, ""), `"`, `\"`) + `"}`
		responses.WriteString(`data: {"type":"response.created","response":{"id":"r","output":[]}}` + "\n\n" +
			`data: {"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","call_id":"c","name":"bash","arguments":""}}` + "\n\n")
		part(&responses, `data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"%s"}`+"\n\n")
		responses.WriteString(`data: {"type":"response.output_item.done","output_index":0,"item":` + item + "}\n\n" +
			`data: {"type":"response.completed","response":{"id":"r","output":[` + item + "]}}\n\n")
		for _, c := range []struct{ path, ask, reply string }{
			{"/v1/messages", messagesAsk, messages.String()},
			{"/chat/completions", chatAsk, chat.String()},
			{"/v1/responses", `{"model":"m","stream":true,"input":"go","tools":[{"type":"function","name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}`, responses.String()},
		} {
			r := newRig(t, answering(c.reply))
			status, _, got := r.send(c.path, c.ask)
			if status != 200 || strings.Contains(got, sep) || !strings.Contains(got, "write it as an escape") {
				t.Errorf("%s, %q: status %d\n%s", c.path, sep, status, got)
			}
		}
	}
}

// Required listed twice: the refusal has a key twice.
func TestRequiredTwice(t *testing.T) {
	r := newRig(t, answering(messagesStream("Bash", `{"command":"forbidden","description":"d"}`)), func(o *Options) { o.Guards = denying("forbidden") })
	_, _, got := r.send("/v1/messages", tool("Bash", `{"type":"object","properties":{},"required":["command","description","description"]}`))
	if strings.Count(got, `\"description\"`) > 1 {
		t.Errorf("a key twice: %s", got)
	}
}

// inName recurses once for each dot: a stack overflow ends the process.
func TestOwnFileAndManyDots(t *testing.T) {
	own := "/home/u/.local/state/guardproxy"
	head := `{"command":"` + own
	args := head + strings.Repeat(".", 16<<20-len(head)-2) + `"}`
	r := newRig(t, answering(`{"type":"message","content":[{"type":"tool_use","id":"t","name":"Bash","input":`+args+`}]}`), func(o *Options) { o.OwnFiles = []string{own} })
	if status, _, got := r.send("/v1/messages", messagesAsk); status != 200 || !strings.Contains(got, "files of guardproxy itself") {
		t.Errorf("status %d, %.200s", status, got)
	}
}

// raw is an upstream that answers with exactly these bytes.
func rawUpstream(t *testing.T, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				br := bufio.NewReader(c)
				req, err := http.ReadRequest(br)
				if err == nil {
					io.Copy(io.Discard, req.Body)
				}
				io.WriteString(c, answer)
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, br) // until the proxy has read it all
				c.Close()
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestRawReplies: whatever the bytes around a reply are, the call in it comes to
// the client refused, or not at all.
func TestRawReplies(t *testing.T) {
	const args = `{"command":"forbidden"}`
	item := `{"id":"fc_1","type":"function_call","call_id":"c","name":"bash","arguments":` + quote(args) + `}`
	for _, d := range []struct{ path, ask, sse, js, key string }{
		{"/v1/messages", messagesAsk, messagesStream("Bash", args), `{"type":"message","content":[{"type":"tool_use","id":"t","name":"Bash","input":` + args + `}]}`, "content"},
		{"/chat/completions", chatAsk, chatStream("bash", args), `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":` + quote(args) + `}}]}}]}`, "choices"},
		{"/v1/responses", responsesAsk, `data: {"type":"response.output_item.done","output_index":0,"item":` + item + "}\n\n" + `data: {"type":"response.completed","response":{"output":[` + item + "]}}\n\n", `{"object":"response","output":[` + item + `]}`, "output"},
	} {
		t.Run(strings.TrimPrefix(d.path, "/"), func(t *testing.T) { rawReplies(t, d.path, d.ask, d.sse, d.js, d.key) })
	}
}

func rawReplies(t *testing.T, path, ask, sse, js, key string) {
	wide := func(text string, before, after int) string {
		var b strings.Builder
		for _, c := range []byte(text) {
			b.WriteString(strings.Repeat("\x00", before) + string(rune(c)) + strings.Repeat("\x00", after))
		}
		return b.String()
	}
	const ok = "HTTP/1.1 200 OK\r\n\r\n"
	for name, a := range map[string]string{
		// Python's json.loads finds these out by their zeros.
		"UTF-16 that says nothing":            ok + wide(js, 0, 1),
		"UTF-16, most significant first":      ok + wide(js, 1, 0),
		"UTF-32 that says nothing":            ok + wide(js, 0, 3),
		"UTF-32, most significant first":      ok + wide(js, 3, 0),
		"UTF-16 with its mark":                ok + "\xff\xfe" + wide(js, 0, 1),
		"UTF-16 with its mark, the other way": ok + "\xfe\xff" + wide(js, 1, 0),
		"UTF-7":                               ok + "+/v8-" + js,
		"NUL before":                          ok + "\x00" + js,
		"other white space before":            ok + "\u00a0" + js,
		"vertical tab before":                 ok + "\v" + js,
		"a prefix against inclusion":          ok + ")]}',\n" + js,
		"JSONP":                               ok + "cb(" + js + ")",
		"a comment before":                    ok + "/* */" + js,
		"a record separator before":           ok + "\x1e" + js,
		"a key twice":                         ok + strings.Replace(js, `{"`, `{"`+key+`":[],"`, 1),
		"a key twice, escaped":                ok + strings.Replace(js, `{"`, `{"\u00`+fmt.Sprintf("%x", key[0])+key[1:]+`":[],"`, 1),
		"two data lines":                      ok + strings.ReplaceAll(sse, "data: {", "data: {\ndata: "),
		"a chunk extension":                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x;x=\"y\"\r\n%s\r\n0\r\n\r\n", len(sse), sse),
		"JSON as events":                      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + js,
		"events as JSON":                      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + sse,
		"one type of several":                 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Type: text/event-stream; charset=utf-16\r\n\r\n" + sse,
		"201":                                 "HTTP/1.1 201 Created\r\n\r\n" + sse,
		"299":                                 "HTTP/1.1 299 X\r\n\r\n" + js,
		"HTTP/1.0 events":                     "HTTP/1.0 200 OK\r\n\r\n" + sse,
		"a redirect with a body":              "HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\n\r\n" + js,
		"101":                                 "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n" + sse,
		"103 then 200":                        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + sse,
		"204 with body":                       "HTTP/1.1 204 No Content\r\n\r\n" + sse,
		"206":                                 "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\n\r\n" + sse,
		"304":                                 "HTTP/1.1 304 Not Modified\r\n\r\n" + sse,
		"HTTP/1.0":                            "HTTP/1.0 200 OK\r\n\r\n" + js,
		"two encodings":                       "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n\r\n" + js,
		"list":                                "HTTP/1.1 200 OK\r\nContent-Encoding: identity, gzip\r\n\r\n" + js,
		"empty encoding":                      "HTTP/1.1 200 OK\r\nContent-Encoding: \r\nContent-Encoding: br\r\n\r\n" + js,
		"connection":                          "HTTP/1.1 200 OK\r\nConnection: content-encoding, content-type\r\nContent-Encoding: gzip\r\n\r\n" + js,
		"BOM JSON":                            "HTTP/1.1 200 OK\r\n\r\n\ufeff" + js,
		"BOM SSE":                             "HTTP/1.1 200 OK\r\n\r\n\ufeff" + sse,
		"space BOM":                           "HTTP/1.1 200 OK\r\n\r\n \ufeff" + js,
		"NDJSON":                              "HTTP/1.1 200 OK\r\n\r\n{\"type\":\"message\"}\n" + js,
		"array":                               "HTTP/1.1 200 OK\r\n\r\n[" + js + "]",
		"string":                              "HTTP/1.1 200 OK\r\n\r\n" + quote(js),
		"JSON then SSE":                       "HTTP/1.1 200 OK\r\n\r\n{}\n\n" + sse,
		"SSE then JSON":                       "HTTP/1.1 200 OK\r\n\r\n: x\n\n" + js,
		"lone CR":                             "HTTP/1.1 200 OK\r\n\r\n" + strings.ReplaceAll(sse, "\n", "\r"),
		"16K blanks + JSON":                   "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", 20000) + js,
		"16K lines + JSON":                    "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("\n", 20000) + js,
		"trailer":                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\n{}\r\n0\r\nX: forbidden\r\n\r\n",
		"UTF-16":                              "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-16le\r\n\r\n" + strings.Join(strings.Split(js, ""), "\x00") + "\x00",
		"html":                                "HTTP/1.1 200 OK\r\n\r\n<" + js,
		"multipart":                           "HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n" + js + "\r\n--x--\r\n",
		"data upper":                          "HTTP/1.1 200 OK\r\n\r\n" + strings.ReplaceAll(sse, "data:", "DATA:"),
		"escapes":                             "HTTP/1.1 200 OK\r\n\r\n" + strings.NewReplacer(`"tool_use"`, `"\u0074ool_use"`, `"tool_calls"`, `"\u0074ool_calls"`, `"function_call"`, `"\u0066unction_call"`).Replace(js),
		"fold":                                "HTTP/1.1 200 OK\r\n\r\n" + strings.Replace(js, `"`+key+`"`, `"`+strings.ToUpper(key[:1])+key[1:]+`"`, 1),
	} {
		u := rawUpstream(t, a)
		r := newRig(t, answering(""), func(o *Options) {
			o.Guards = denying("forbidden")
			o.Upstreams = []Upstream{{Name: "x", URL: u}}
		})
		status, h, got := r.send(path, ask)
		got = strings.ReplaceAll(got, "\x00", "")
		if strings.Contains(got, `forbidden\"`) || strings.Contains(got, `"forbidden`) || strings.Contains(fmt.Sprint(h), "forbidden") {
			t.Errorf("%s: passed: %d %.200s", name, status, got)
		}
	}
}

// TestRawRequests: however a request for a reply is spelled, an upstream that
// takes it for one and answers with a call is judged, or never asked. The
// operator lets much pass here.
func TestRawRequests(t *testing.T) {
	body := "Content-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(messagesAsk)) + "\r\n\r\n" + messagesAsk
	for _, c := range []struct{ name, line, rest string }{
		{"plain", "POST /v1/messages HTTP/1.1", body},
		{"HTTP/1.0", "POST /v1/messages HTTP/1.0", body},
		{"HEAD with a body", "HEAD /v1/messages HTTP/1.1", body},
		{"GET", "GET /v1/messages HTTP/1.1", "\r\n"},
		{"OPTIONS", "OPTIONS /v1/messages HTTP/1.1", "\r\n"},
		{"PUT", "PUT /v1/messages HTTP/1.1", body},
		{"a method in lower case", "post /v1/messages HTTP/1.1", body},
		{"a method of nobody's", "QUERY /v1/messages HTTP/1.1", body},
		{"another method in a header", "POST /v1/messages HTTP/1.1", "X-HTTP-Method-Override: PUT\r\n" + body},
		{"escapes", "POST /v1/%6dessages HTTP/1.1", body},
		{"an escaped slash", "POST /v1%2Fmessages HTTP/1.1", body},
		{"capital letters", "POST /v1/Messages HTTP/1.1", body},
		{"a parameter of the path", "POST /v1/messages;x=1 HTTP/1.1", body},
		{"an escaped parameter of the path", "POST /v1/messages%3Bx=1 HTTP/1.1", body},
		{"a space behind", "POST /v1/messages%20 HTTP/1.1", body},
		{"a tab behind", "POST /v1/messages%09 HTTP/1.1", body},
		{"a NUL behind", "POST /v1/messages%00 HTTP/1.1", body},
		{"a dot behind", "POST /v1/messages. HTTP/1.1", body},
		{"a backslash", "POST /v1\\messages HTTP/1.1", body},
		{"slashes", "POST //v1//messages/ HTTP/1.1", body},
		{"dot segments", "POST /v1/x/../messages HTTP/1.1", body},
		{"escaped dot segments", "POST /v1/x/%2e%2e/messages HTTP/1.1", body},
		{"a query", "POST /v1/messages?beta=true HTTP/1.1", body},
		{"a fragment", "POST /v1/messages%23x HTTP/1.1", body},
		{"an escaped query", "POST /v1/messages%3Fx HTTP/1.1", body},
		{"an absolute form", "POST http://127.0.0.1/v1/messages HTTP/1.1", body},
		{"a web socket", "GET /v1/responses HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"},
		{"an upgrade beside keep-alive", "POST /v1/messages HTTP/1.1", "Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n" + body},
		{"an upgrade that the connection does not name", "POST /v1/messages HTTP/1.1", "Upgrade: websocket\r\n" + body},
		{"a chunk extension and trailers", "POST /v1/messages HTTP/1.1", "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n" + fmt.Sprintf("%x;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n", len(messagesAsk), messagesAsk)},
		{"two lengths", "POST /v1/messages HTTP/1.1", "Content-Length: 3\r\n" + body},
		{"a length and chunks", "POST /v1/messages HTTP/1.1", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(messagesAsk), messagesAsk)},
		{"parts of the reply", "POST /v1/messages HTTP/1.1", "Range: bytes=0-99\r\n" + body},
		{"trailers of the reply", "POST /v1/messages HTTP/1.1", "TE: trailers, gzip\r\nAccept-Encoding: br\r\n" + body},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, answering(messagesStream("Bash", `{"command":"forbidden"}`)), func(o *Options) {
				o.Guards = denying("forbidden")
				o.Passthrough = []string{"POST /v1/*", "PUT /v1/*", "GET /v1/*", "OPTIONS /v1/*", "QUERY /v1/*", "POST //*"}
			})
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%s\r\nHost: %s\r\nConnection: close\r\n%s", c.line, strings.TrimPrefix(r.url, "http://"), c.rest)
			conn.SetReadDeadline(time.Now().Add(30 * time.Second)) // a test that hangs
			got, err := io.ReadAll(conn)
			if err != nil && len(got) == 0 {
				t.Fatal(err)
			}
			if strings.Contains(string(got), `forbidden\"`) {
				t.Errorf("passed: %.300s", got)
			}
			if c.name == "plain" && !strings.Contains(string(got), "no forbidden here") {
				t.Errorf("it was not judged: %.300s", got)
			}
		})
	}
}

func TestFoldedIsEqualFold(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	letters := []rune("kKKsSſiIİıßẞσςΣaAåÅÅµμΜǅǆǄzZ_-0")
	for range 50000 {
		a, b := string(letters[rnd.Intn(len(letters))]), string(letters[rnd.Intn(len(letters))])
		if strings.EqualFold(a, b) != (folded(a) == folded(b)) {
			t.Fatalf("%q %q", a, b)
		}
	}
}

// What the catalogue reads out of arguments is what JSON.parse gives.
func TestDecodersAgree(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	pieces := []string{`\n`, `\u0041`, `\ud83d\ude00`, `\\`, `\"`, `\/`, `a`, `é`, "\u2028", `\u2028`, `\u00e9`, `\b`, `\uD83D\uDE00`, `\ufeff`, `{`, `}`, `]`, `:`, `,`, "\x7f", `\t`, `\r`}
	keys := []string{`"command"`, `"comm\u0061nd"`, `"COMMAND"`, `"\u0063ommand"`, `"command\u0020"`, `"x"`, `"\u212aey"`}
	spec := agents.Tool{Kind: agents.Shell, Command: []agents.Arg{{Path: "command", Form: agents.String | agents.List}}}
	var tp tape.Tape
	for range 50000 {
		str := func() string {
			var b strings.Builder
			b.WriteByte('"')
			for range rnd.Intn(6) {
				b.WriteString(pieces[rnd.Intn(len(pieces))])
			}
			b.WriteByte('"')
			return b.String()
		}
		var b strings.Builder
		b.WriteString(" { ")
		for i := range 1 + rnd.Intn(3) {
			if i > 0 {
				b.WriteString(" , ")
			}
			b.WriteString(keys[rnd.Intn(len(keys))] + " : ")
			if rnd.Intn(3) == 0 {
				b.WriteString("[" + str() + "," + str() + "]")
			} else {
				b.WriteString(str())
			}
		}
		b.WriteString("\n}\t")
		text := b.String()
		if tp.Parse([]byte(text)) != nil || tp.LoneSurrogate() {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := spec.Commands([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := 0
		for k, v := range m {
			if !strings.EqualFold(k, "command") {
				continue
			}
			want++
			found := false
			for _, g := range got {
				switch v := v.(type) {
				case string:
					found = found || g.List == nil && g.Text == v
				case []any:
					found = found || len(g.List) == 2 && g.List[0] == v[0] && g.List[1] == v[1]
				}
			}
			if !found {
				t.Fatalf("%s: the client reads %q, the catalogue %q", text, v, got)
			}
		}
		if want != len(got) {
			t.Fatalf("%s: %d, want %d", text, len(got), want)
		}
	}
}

// The bytes of the tools do not depend on what was narrowed before, nor on the
// order of maps.
func TestDeterministic(t *testing.T) {
	over := map[string]Fields{"Write": {Add: []string{"b_b", "a_a"}}, "bash": {Add: []string{"x_x", "y_y"}}, "edit": {Remove: []string{"justification"}}}
	body := []byte(strings.Replace(chatAsk, `"description":"Runs a command."`, `"description":"Runs a command. Use sandbox_permissions to ask. It needs justification. Pass x_x. Or y_y.\n\n# sandbox_permissions\nfoo\n# b\n- danger-full-access"`, 1))
	var first string
	for i := range 200 {
		n := rewrite.NewNarrower(Rules(over), rewrite.Options{})
		for range i % 3 { // warm memory in different ways
			q, _ := wire.Read(wire.Route{Dialect: wire.Messages}, []byte(messagesAsk), nil)
			rewrite.Apply(q, []byte(messagesAsk), n, nil)
		}
		for range 2 {
			q, err := wire.Read(wire.Route{Dialect: wire.Chat}, body, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := string(rewrite.Apply(q, body, n, nil).Body)
			if first == "" {
				first = got
			}
			if got != first {
				t.Fatalf("the bytes moved:\n%s\n%s", first, got)
			}
		}
	}
}

// Flat spellings of a call in a Chat piece.
func TestFlatPiece(t *testing.T) {
	for _, piece := range []string{
		`{"index":0,"id":"c","type":"function","name":"bash","arguments":"{\"command\":\"forbidden\"}","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}`,
		`{"index":0,"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}","parameters":{"command":"forbidden"}}}`,
		`{"index":0,"id":"c","type":"function","input":{"command":"forbidden"},"function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}`,
	} {
		r := newRig(t, answering("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":["+piece+"]}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"), func(o *Options) { o.Guards = denying("forbidden") })
		_, _, got := r.send("/chat/completions", chatAsk)
		if strings.Contains(got, "forbidden") {
			t.Errorf("%s passed unjudged", piece)
		}
	}
}

// TestLargeCallsAreJudged: what a model can write into one call at no cost is
// judged without a step that grows with its square. Each of these took minutes,
// or all of the memory, with such a step.
func TestLargeCallsAreJudged(t *testing.T) {
	own := t.TempDir()
	var keys strings.Builder
	keys.WriteString(`{"command":"ls"`)
	for i := range 20_000 {
		fmt.Fprintf(&keys, `,"k%06d":1`, i)
	}
	keys.WriteString("}")
	for name, args := range map[string]string{
		"many keys":          keys.String(),
		"a long path":        `{"command":"cat ` + strings.Repeat("/a", 100_000) + `"}`,
		"many paths":         `{"command":` + quote(strings.Repeat("ls"+strings.Repeat(" /a/b", 20)+"\n", 2000)) + `}`,
		"braces":             `{"command":` + quote(strings.Repeat("{", 100_000)) + `}`,
		"brace lists":        `{"command":` + quote(strings.Repeat("{a,b}", 20_000)) + `}`,
		"a brace sequence":   `{"command":"echo {1..100000000}"}`,
		"substitutions":      `{"command":` + quote(strings.Repeat("$(", 50_000)) + `}`,
		"scripts in scripts": `{"command":` + quote(strings.Repeat("bash -c ", 20_000)) + `}`,
	} {
		judged := 0
		r := newRig(t, answering(messagesStream("Bash", args)), func(o *Options) {
			o.OwnFiles = []string{own}
			o.Guards = guards.Chain{{Name: "g", Guard: guardFunc(func(*guards.Call) guards.Verdict { judged++; return guards.Verdict{} })}}
		})
		if status, _, _ := r.send("/v1/messages", messagesAsk); status != 200 || judged != 1 {
			t.Errorf("%s: status %d, judged %d times", name, status, judged)
		}
	}
}

// TestKeepAliveEndsBeforeARefusal: the keep-alive does not write while the
// refusal of the whole reply does (the race detector looks on).
func TestKeepAliveEndsBeforeARefusal(t *testing.T) {
	for range 10 {
		more := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, `data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"bash","arguments":"{"}}]}}]}`+"\n\n")
			w.(http.Flusher).Flush()
			<-more
			io.WriteString(w, "data: nonsense\n\n")
		}, func(o *Options) { o.KeepAlive = time.Millisecond })
		resp, err := plain.Post(r.url+"/chat/completions", "application/json", strings.NewReader(chatAsk))
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(resp.Body)
		if line, err := in.ReadString('\n'); err != nil || line != ": keep-alive\n" {
			t.Fatalf("%q %v", line, err)
		}
		close(more)
		rest, err := io.ReadAll(in)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(rest), "can be judged") || strings.Contains(string(rest), "tool_calls") {
			t.Errorf("%v %s", err, rest)
		}
	}
}
