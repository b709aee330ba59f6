package fakemodel_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/fakemodel"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
	"github.com/guardproxy/guardproxy/proxy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// full is a round with everything that a well-behaved model sends.
var full = fakemodel.Round{Items: []fakemodel.Item{
	fakemodel.Thinking("The user wants a list.\nI have ls."),
	fakemodel.Text("I look <first> & then say: “done”."),
	fakemodel.Call{Tool: "bash", Args: `{"command": "ls -la /tmp && echo \"a  b\"", "note": "päth"}`},
	fakemodel.Call{Tool: "now", ID: "given"},
}}

// Requests in all dialects that declare the tools of full.
const (
	askMessages = `{"model":"m-1","max_tokens":1000,"stream":STREAM,"messages":[{"role":"user","content":"list /tmp"}],` +
		`"tools":[{"name":"bash","description":"Runs a command.","input_schema":{"type":"object","properties":{"command":{"type":"string"},"note":{"type":"string"}}}},{"name":"now","input_schema":{"type":"object"}}]}`
	askChat = `{"model":"m-1","stream":STREAM,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"list /tmp"}],` +
		`"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"},"note":{"type":"string"}}}}},{"type":"function","function":{"name":"now"}}]}`
	askResponses = `{"model":"m-1","stream":STREAM,"store":false,"input":[{"role":"user","content":"list /tmp"}],` +
		`"tools":[{"type":"function","name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"},"note":{"type":"string"}}}},{"type":"function","name":"now"},{"type":"custom","name":"exec"},{"type":"local_shell"}]}`
)

var dialects = []struct {
	wire wire.Dialect
	path string
	ask  string
}{
	{wire.Messages, "/v1/messages", askMessages},
	{wire.Chat, "/v1/chat/completions", askChat},
	{wire.Responses, "/v1/responses", askResponses},
}

func ask(text string, stream bool) string {
	return strings.ReplaceAll(text, "STREAM", fmt.Sprint(stream))
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// post sends a request to h over HTTP and reads the answer to its end.
func post(t testing.TB, h http.Handler, path, body string) answer {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	req, err := http.NewRequest(http.MethodPost, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity") // no decompression behind our back
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text), err}
}

// record serves a request without a network.
func record(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func TestGolden(t *testing.T) {
	script := fakemodel.Script{Rounds: []fakemodel.Round{full}}
	spelled := fakemodel.Options{Comments: true, Pings: true, Fragment: 15, NoFinalNewline: true}
	for _, d := range dialects {
		for _, c := range []struct {
			file   string
			stream bool
			opts   fakemodel.Options
		}{
			{string(d.wire) + ".sse", true, fakemodel.Options{}},
			{string(d.wire) + "-spelled.sse", true, spelled},
			{string(d.wire) + ".json", false, fakemodel.Options{}},
		} {
			t.Run(c.file, func(t *testing.T) {
				got := record(fakemodel.New(script, c.opts), "POST", d.path, ask(d.ask, c.stream)).Body.Bytes()
				golden(t, c.file, got)
			})
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// An allowed reply comes through the proxy as the bytes that were sent.
func TestThroughProxy(t *testing.T) {
	script := fakemodel.Script{Rounds: []fakemodel.Round{full}}
	for _, d := range dialects {
		for _, c := range []struct {
			name   string
			stream bool
			opts   fakemodel.Options
		}{
			{"stream", true, fakemodel.Options{}},
			{"whole", false, fakemodel.Options{}},
			{"stream spelled otherwise", true, fakemodel.Options{CRLF: true, Comments: true, Pings: true, Fragment: 1, NoFinalNewline: true}},
		} {
			t.Run(string(d.wire)+" "+c.name, func(t *testing.T) {
				body := ask(d.ask, c.stream)
				direct := record(fakemodel.New(script, c.opts), "POST", d.path, body).Body.String()
				for _, zip := range []bool{false, true} {
					c.opts.Gzip = zip
					up := httptest.NewServer(fakemodel.New(script, c.opts))
					defer up.Close()
					h, err := proxy.New(proxy.Options{
						Upstreams: []proxy.Upstream{{Name: "fake", URL: up.URL}}, Keys: [][]byte{make([]byte, 32)},
						Policy: proxy.Policy{Mode: "workspace-write", Approval: "never", Workspace: "/w"},
					})
					if err != nil {
						t.Fatal(err)
					}
					got := post(t, h, d.path, body)
					if diff := cmp.Diff(direct, got.body); got.status != 200 || diff != "" {
						t.Errorf("status %d, gzip %v (-direct +through the proxy):\n%s", got.status, zip, diff)
					}
				}
			})
		}
	}
}

// scan follows a stream as the proxy does and returns its calls.
func scan(d wire.Dialect, stream []byte) (calls []wire.Call, released []byte, err error) {
	st := wire.NewStream(d, nil, wire.DefaultLimits)
	rd := sse.NewReader(bytes.NewReader(stream), 1<<20)
	for {
		ev, err := rd.Next()
		if err == io.EOF {
			if st.Holding() {
				return calls, released, errors.New("the stream ends inside a call")
			}
			return calls, released, nil
		}
		if err != nil {
			return calls, released, err
		}
		step, err := st.Feed(ev)
		if err != nil {
			return calls, released, err
		}
		out := step.Flow
		if step.Calls != nil {
			calls = append(calls, step.Calls...)
			out = st.Release(make([]wire.Ruling, len(step.Calls)))
		}
		released = append(released, out...)
	}
}

// For all scripts and spellings, the proxy's reader finds the script's calls
// in the stream, and the same script whole has the same calls.
func TestCallsArriveProperty(t *testing.T) {
	item := rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) fakemodel.Item { return fakemodel.Text(s) }),
		rapid.Map(rapid.String(), func(s string) fakemodel.Item { return fakemodel.Thinking(s) }),
		rapid.Map(rapid.MapOf(rapid.String(), rapid.String()), func(m map[string]string) fakemodel.Item {
			b, _ := json.Marshal(m)
			return fakemodel.Call{Tool: "bash", Args: string(b)}
		}),
		// Other items in Responses, functions elsewhere.
		rapid.Map(rapid.String(), func(s string) fakemodel.Item {
			b, _ := json.Marshal(map[string]any{"type": "exec", "command": []string{s}, "env": map[string]string{}})
			return fakemodel.Call{Tool: "local_shell", Item: "local_shell_call", Args: string(b)}
		}),
		rapid.Map(rapid.String(), func(s string) fakemodel.Item {
			b, _ := json.Marshal(s)
			return fakemodel.Call{Tool: "exec", Namespace: "functions", Item: "custom_tool_call", Args: `{"program":` + string(b) + `}`}
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		r := fakemodel.Round{Items: rapid.SliceOfN(item, 1, 6).Draw(t, "items")}
		o := fakemodel.Options{
			CRLF: rapid.Bool().Draw(t, "crlf"), Comments: rapid.Bool().Draw(t, "comments"), Pings: rapid.Bool().Draw(t, "pings"),
			NoFinalNewline: rapid.Bool().Draw(t, "cut"), Fragment: rapid.IntRange(1, 40).Draw(t, "fragment"),
		}
		var want []string
		for _, i := range r.Items {
			if c, ok := i.(fakemodel.Call); ok {
				want = append(want, c.Args)
			}
		}
		d := rapid.SampledFrom(dialects).Draw(t, "dialect")
		m := fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{r}}, o)
		stream := record(m, "POST", d.path, ask(d.ask, true)).Body.Bytes()
		calls, released, err := scan(d.wire, stream)
		if err != nil {
			t.Fatalf("%v in\n%s", err, stream)
		}
		if !bytes.Equal(released, stream) {
			t.Fatalf("released other bytes than\n%s", stream)
		}
		whole := record(m, "POST", d.path, ask(d.ask, false)).Body.Bytes()
		rep, err := wire.ReadReply(wire.Route{Dialect: d.wire}, whole, nil, wire.DefaultLimits)
		if err != nil {
			t.Fatalf("%v in\n%s", err, whole)
		}
		for _, have := range [][]wire.Call{calls, rep.Calls} {
			var args []string
			for _, c := range have {
				args = append(args, string(c.Args))
			}
			if !slices.Equal(args, want) {
				t.Fatalf("calls %q, want %q", args, want)
			}
		}
	})
}

// The round follows from the history alone.
func TestRoundFromHistory(t *testing.T) {
	script := fakemodel.Script{Choose: func(h fakemodel.History) fakemodel.Round {
		b, _ := json.Marshal(h)
		return fakemodel.Say(string(b))
	}}
	const (
		messages  = "/v1/messages"
		chat      = "/v1/chat/completions"
		responses = "/v1/responses"
	)
	for _, c := range []struct{ name, path, history, want string }{
		{"a first message", messages, `{"role":"user","content":"hi"}`,
			`"Round":0,"Replies":0,"Results":null`},
		{"a result is no message of a user", messages,
			`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"n"},{"type":"text","text":"o"}]},{"type":"text","text":"note"}]}`,
			`"Round":1,"Replies":1,"Results":[{"ID":"a","Text":"no","Error":true}]`},
		{"results of the last reply only", messages,
			`{"role":"user","content":"hi"},{"role":"assistant","content":"1"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]},{"role":"assistant","content":"2"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"b"}]}`,
			`"Round":2,"Replies":2,"Results":[{"ID":"b","Text":"","Error":false}]`},
		{"a new message begins anew", messages,
			`{"role":"user","content":"hi"},{"role":"assistant","content":"1"},{"role":"user","content":[{"type":"text","text":"again"}]}`,
			`"Round":0,"Replies":1,"Results":null`},
		{"a run of assistant messages is one reply", messages,
			`{"role":"user","content":"hi"},{"role":"assistant","content":"1"},{"role":"assistant","content":"2"}`,
			`"Round":1,"Replies":1,"Results":null`},
		{"a system message in the list says nothing", messages,
			`{"role":"user","content":"hi"},{"role":"system","content":"x"},{"role":"assistant","content":"1"},{"role":"system","content":"y"}`,
			`"Round":1,"Replies":1,"Results":null`},
		{"chat: tool messages", chat,
			`{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[]},{"role":"tool","tool_call_id":"a","content":"x"},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"y"}]}`,
			`"Round":1,"Replies":1,"Results":[{"ID":"a","Text":"x","Error":false},{"ID":"b","Text":"y","Error":false}]`},
		{"responses: items", responses,
			`{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"exec"}]}]},{"role":"user","content":"hi"},{"type":"reasoning"},{"type":"message","role":"assistant","content":[]},{"type":"custom_tool_call","call_id":"a"},{"type":"local_shell_call","call_id":"b"},{"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_text","text":"x"}]},{"type":"local_shell_call_output","id":"b","output":"y"}`,
			`"Tools":["exec"],"Round":1,"Replies":1,"Results":[{"ID":"a","Text":"x","Error":false},{"ID":"b","Text":"y","Error":false}]`},
		{"responses: a new message begins anew", responses,
			`{"role":"user","content":"hi"},{"type":"function_call","call_id":"a"},{"type":"function_call_output","call_id":"a"},{"type":"message","role":"user","content":"go on"}`,
			`"Round":0,"Replies":1,"Results":null`},
		{"chat: a new message begins anew", chat,
			`{"role":"user","content":"hi"},{"role":"assistant","content":"1"},{"role":"tool","tool_call_id":"a","content":"x"},{"role":"user","content":"go on"}`,
			`"Round":0,"Replies":1,"Results":null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := "messages"
			if c.path == responses {
				list = "input"
			}
			body := `{"model":"m","` + list + `":[` + c.history + `]}`
			m := fakemodel.New(script, fakemodel.Options{})
			first := record(m, "POST", c.path, body).Body.String()
			if second := record(m, "POST", c.path, body).Body.String(); second != first {
				t.Errorf("the same request got other bytes:\n%s\n%s", first, second)
			}
			if got := strings.ReplaceAll(first, `\"`, `"`); !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	overloaded := fakemodel.Error{Status: 529, Type: "overloaded_error", Message: "Overloaded", RetryAfter: "2"}
	text := fakemodel.Text("wait")
	for _, c := range []struct {
		name, path, body string
		items            []fakemodel.Item
		status           int
		want             string
	}{
		{"first item: an HTTP error", "/v1/messages", ask(askMessages, true), []fakemodel.Item{overloaded}, 529,
			`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_fake"}`},
		{"first item, chat", "/v1/chat/completions", ask(askChat, true), []fakemodel.Item{overloaded}, 529,
			`{"error":{"message":"Overloaded","type":"overloaded_error","param":null,"code":null}}`},
		{"later in a stream: an event", "/v1/messages", ask(askMessages, true), []fakemodel.Item{text, overloaded}, 200,
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"},\"request_id\":\"req_fake\"}\n\n"},
		{"later in a stream, chat", "/v1/chat/completions", ask(askChat, true), []fakemodel.Item{text, overloaded}, 200,
			"data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\",\"param\":null,\"code\":null}}\n\n"},
		{"a whole reply", "/v1/messages", ask(askMessages, false), []fakemodel.Item{text, overloaded}, 529, `"type":"overloaded_error"`},
		{"after the script's end", "/v1/messages", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, []fakemodel.Item{text}, 400,
			"the script has 1 rounds, and this request asks for number 2"},
		{"no JSON", "/v1/messages", `{`, []fakemodel.Item{text}, 400, "the request is no JSON"},
		{"no messages", "/v1/chat/completions", `{}`, []fakemodel.Item{text}, 400, "the request has no messages"},
		{"another path", "/v1/embeddings", `{}`, nil, 404, "no POST /v1/embeddings here"},
		{"responses: an event", "/v1/responses", ask(askResponses, true), []fakemodel.Item{text, overloaded}, 200,
			"event: error\ndata: {\"type\":\"error\",\"sequence_number\":8,\"code\":\"overloaded_error\",\"message\":\"Overloaded\",\"param\":null}\n\n"},
		{"responses: no input", "/v1/responses", `{}`, nil, 400, "the request has no input"},
		{"responses: history that is not there", "/v1/responses", `{"previous_response_id":"x","input":"y"}`, nil, 400, "previous_response_id is not supported"},
		{"an action that is no JSON", "/v1/responses", ask(askResponses, false), []fakemodel.Item{fakemodel.Call{Tool: "local_shell", Item: "local_shell_call", Args: "{"}}, 500, "an action that is no JSON"},
		{"arguments that a whole reply can't hold", "/v1/messages", ask(askMessages, false), []fakemodel.Item{fakemodel.Call{Tool: "bash", Args: "{"}}, 500, "arguments that are no JSON"},
		{"raw events that a whole reply can't hold", "/v1/chat/completions", ask(askChat, false), []fakemodel.Item{fakemodel.Raw("data: x\n\n")}, 500, "raw events"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := record(fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{{Items: c.items}}}, fakemodel.Options{}), "POST", c.path, c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("got %d %s\nwant %d %s", w.Code, w.Body, c.status, c.want)
			}
			if want := map[bool]string{true: "2"}[c.status == 529]; w.Header().Get("Retry-After") != want {
				t.Errorf("Retry-After %q, want %q", w.Header().Get("Retry-After"), want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, d := range dialects {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint(d.wire, " stream ", stream), func(t *testing.T) {
				m := fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{{Items: []fakemodel.Item{
					fakemodel.Text("so"), fakemodel.Call{Tool: "bash", Args: `{}`, Unfinished: true}, fakemodel.Cut{}}}}}, fakemodel.Options{})
				got := post(t, m, d.path, ask(d.ask, stream))
				if !errors.Is(got.err, io.ErrUnexpectedEOF) {
					t.Errorf("reading the reply gave %v, want an unexpected end", got.err)
				}
				if !strings.Contains(got.body, "bash") || strings.Contains(got.body, "stop_reason\":\"tool_use\"}") || strings.Contains(got.body, "[DONE]") {
					t.Errorf("the reply is not cut after its call:\n%s", got.body)
				}
				if stream {
					if _, _, err := scan(d.wire, []byte(got.body)); err == nil {
						t.Error("the call was finished")
					}
				}
			})
		}
	}
}

// What stands before a Wait, or before the next tick of the gate, has reached
// the client.
func TestWaitAndGate(t *testing.T) {
	for _, d := range dialects {
		t.Run(string(d.wire), func(t *testing.T) {
			gate, wait := make(chan struct{}), make(chan struct{})
			m := fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{{Items: []fakemodel.Item{
				fakemodel.Text("before"), fakemodel.Wait{For: wait}, fakemodel.Text("after")}}}}, fakemodel.Options{Gate: gate, Gzip: true})
			srv := httptest.NewServer(m)
			defer srv.Close()
			done := make(chan struct{})
			go func() { // opens the gate for each event until the client is done
				for {
					select {
					case gate <- struct{}{}:
					case <-done:
						return
					}
				}
			}()
			defer close(done)
			resp, err := http.Post(srv.URL+d.path, "application/json", strings.NewReader(ask(d.ask, true)))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			var got []string
			for lines.Scan() {
				for _, word := range []string{"before", "after"} {
					if strings.Contains(lines.Text(), `"`+word+`"`) {
						if slices.Contains(got, word) {
							continue // an item is there again when it is done
						}
						got = append(got, word)
						if word == "before" {
							close(wait) // only now: the reader of "before" proves that it came alone
						}
					}
				}
			}
			if !slices.Equal(got, []string{"before", "after"}) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestBeside(t *testing.T) {
	m := fakemodel.New(fakemodel.Script{}, fakemodel.Options{})
	for _, c := range []struct {
		method, path, version, want string
	}{
		{"HEAD", "/", "", ""},
		{"POST", "/v1/messages/count_tokens", "", `{"input_tokens":3}`},
		{"GET", "/v1/models", "2023-06-01", `"has_more":false`},
		{"GET", "/models", "", `"object":"list"`},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, strings.NewReader("12345678"))
			r.Header.Set("Anthropic-Version", c.version)
			w := httptest.NewRecorder()
			m.ServeHTTP(w, r)
			if w.Code != 200 || !strings.Contains(w.Body.String(), c.want) || (c.want == "") != (w.Body.Len() == 0) {
				t.Errorf("got %d %q, want %q", w.Code, w.Body, c.want)
			}
		})
	}
}

func TestGzip(t *testing.T) {
	for _, d := range dialects {
		s := fakemodel.Script{Rounds: []fakemodel.Round{full}}
		plain := record(fakemodel.New(s, fakemodel.Options{}), "POST", d.path, ask(d.ask, true))
		zipped := record(fakemodel.New(s, fakemodel.Options{Gzip: true}), "POST", d.path, ask(d.ask, true))
		z, err := gzip.NewReader(zipped.Body)
		if err != nil || zipped.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %v, headers %v", d.wire, err, zipped.Header())
		}
		if got, err := io.ReadAll(z); err != nil || string(got) != plain.Body.String() {
			t.Errorf("%s: %v\ngot  %s\nwant %s", d.wire, err, got, plain.Body)
		}
	}
}

// Many requests at a time are all recorded, with their own bodies.
func TestRecords(t *testing.T) {
	m := fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{fakemodel.Say("hi")}}, fakemodel.Options{})
	var wg sync.WaitGroup
	want := map[string]bool{}
	for i := range 40 {
		body := fmt.Sprintf(`{"model":"m%d","messages":[{"role":"user","content":"x"}]}`, i)
		want[body] = true
		wg.Go(func() {
			w := record(m, "POST", "/v1/messages?beta=true", body)
			if !strings.Contains(w.Body.String(), fmt.Sprintf(`"model":"m%d"`, i)) {
				t.Errorf("request %d got %s", i, w.Body)
			}
		})
	}
	wg.Wait()
	record(m, "POST", "/v1/messages/count_tokens", "{}")
	if n := len(m.Requests()); n != 41 {
		t.Errorf("%d requests recorded, want 41", n)
	}
	if r := m.Requests()[0]; r.Method != "POST" || r.Path != "/v1/messages" || r.RawQuery != "beta=true" {
		t.Errorf("recorded %+v", r)
	}
	sent := m.Sent()
	for _, b := range sent {
		delete(want, string(b))
	}
	if len(sent) != 40 || len(want) > 0 {
		t.Errorf("Sent has %d bodies; missing: %v", len(sent), want)
	}
}
