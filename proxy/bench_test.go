package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/fakemodel"
)

// agentRequest is a body of about size bytes with 25 tools, shaped as coding
// agents send it: the tools behind the messages, one of them with a field
// that is narrowed.
func agentRequest(size int) []byte {
	var tools, b strings.Builder
	words := strings.Repeat("returns the matching lines of a file, with their numbers, in the order of the file. ", 12)
	for i := range 25 {
		name, extra := fmt.Sprintf("tool_%d", i), ""
		if i == 0 {
			name, extra = "Bash", `,"dangerouslyDisableSandbox":{"type":"boolean","description":"Runs outside of the sandbox."}`
		}
		fmt.Fprintf(&tools, `,{"name":%q,"description":%q,"input_schema":{"type":"object","properties":{"command":{"type":"string","description":%q}%s},"required":["command"],"additionalProperties":false}}`, name, words, words[:90], extra)
	}
	b.WriteString(`{"model":"m","messages":[{"role":"user","content":"go"}`)
	line := strings.Repeat("\\tif err := f(); err != nil {\\n\\t\\treturn fmt.Errorf(\\\"f: %w\\\", err)\\n\\t}\\n", 12)
	for i := 0; b.Len()+tools.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Bash","input":{"command":"sed -n 1,40p f%d.go"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"}]}`, i, i, i, line)
	}
	fmt.Fprintf(&b, `],"tools":[%s],"stream":true}`, tools.String()[1:])
	return []byte(b.String())
}

// agentStream is a reply of about 200 events that ends with one call.
func agentStream() []byte {
	var b strings.Builder
	ev := func(typ, rest string) { fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q%s}\n\n", typ, typ, rest) }
	ev("message_start", `,"message":{"id":"m","content":[]}`)
	ev("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for range 180 {
		ev("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":" and a few more words"}`)
	}
	ev("content_block_stop", `,"index":0`)
	ev("content_block_start", `,"index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}`)
	for _, p := range []string{`{\"comm`, `and\":`, `\"go te`, `st ./.`, `..\"}`} {
		ev("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"`+p+`"}`)
	}
	ev("content_block_stop", `,"index":1`)
	ev("message_delta", `,"delta":{"stop_reason":"tool_use"}`)
	ev("message_stop", "")
	return []byte(b.String())
}

// responsesRequest is agentRequest in the Responses dialect.
func responsesRequest(size int) []byte {
	var tools, b strings.Builder
	words := strings.Repeat("returns the matching lines of a file, with their numbers, in the order of the file. ", 12)
	for i := range 25 {
		name, extra := fmt.Sprintf("tool_%d", i), ""
		if i == 0 {
			name, extra = "exec_command", `,"sandbox_permissions":{"type":"string","enum":["use_default","require_escalated"]}`
		}
		fmt.Fprintf(&tools, `,{"type":"function","name":%q,"description":%q,"parameters":{"type":"object","properties":{"cmd":{"type":"string","description":%q}%s},"required":["cmd"],"additionalProperties":false}}`, name, words, words[:90], extra)
	}
	b.WriteString(`{"model":"m","stream":true,"store":false,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}`)
	line := strings.Repeat("\\tif err := f(); err != nil {\\n\\t\\treturn fmt.Errorf(\\\"f: %w\\\", err)\\n\\t}\\n", 12)
	for i := 0; b.Len()+tools.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"type":"function_call","call_id":"call_%d","name":"exec_command","arguments":"{\"cmd\":\"sed -n 1,40p f%d.go\"}"},{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, i, i, i, line)
	}
	fmt.Fprintf(&b, `],"tools":[%s]}`, tools.String()[1:])
	return []byte(b.String())
}

type passGuard struct{}

func (passGuard) Check(context.Context, *guards.Call) guards.Verdict { return guards.Verdict{} }

// BenchmarkExchange is the cost of one exchange, with the peers in the same
// run: no proxy at all, and httputil.ReverseProxy that reads the body first
// (without that it cuts streams whose upstream answers early).
func BenchmarkExchange(b *testing.B) {
	stream := agentStream()
	whole := []byte(`{"type":"message","content":[{"type":"text","text":"` + strings.Repeat("a few words ", 80) + `"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]}`)
	// The Responses dialect: text and one call as well, each in three copies.
	model := fakemodel.New(fakemodel.Script{Choose: func(fakemodel.History) fakemodel.Round {
		return fakemodel.Round{Items: []fakemodel.Item{fakemodel.Text(strings.Repeat(" and a few more words", 180)), fakemodel.Call{Tool: "exec_command", Args: `{"cmd":"go test ./..."}`}}}
	}}, fakemodel.Options{Fragment: 21})
	say := func(stream string) []byte {
		w := httptest.NewRecorder()
		model.ServeHTTP(w, httptest.NewRequest("POST", "/v1/responses", strings.NewReader(`{"model":"m","stream":`+stream+`,"input":"go"}`)))
		return w.Body.Bytes()
	}
	responsesStream, responsesWhole := say("true"), say("false")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		whole, stream := whole, stream
		if strings.HasSuffix(r.URL.Path, "/responses") {
			whole, stream = responsesWhole, responsesStream
		}
		if r.Header.Get("X-Whole") != "" {
			w.Write(whole)
			return
		}
		f := w.(http.Flusher)
		for at := 0; at < len(stream); {
			n := bytes.Index(stream[at:], []byte("\n\n")) + 2
			w.Write(stream[at : at+n])
			f.Flush()
			at += n
		}
	}))
	defer up.Close()
	target, _ := url.Parse(up.URL)
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.FlushInterval = -1
	reverse.Transport = newTransport()
	buffered := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		reverse.ServeHTTP(w, r)
	})
	h, err := New(Options{
		Upstreams: []Upstream{{URL: up.URL}}, Keys: [][]byte{make([]byte, 32)},
		Policy: Policy{Mode: "workspace-write", Approval: "never", Workspace: "/w"},
		Guards: guards.Chain{{Name: "g", Guard: passGuard{}}}, OwnFiles: []string{"/home/someone/.local/state/guardproxy"},
	})
	if err != nil {
		b.Fatal(err)
	}
	cl := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for _, cell := range []struct {
		name  string
		size  int
		whole string
		path  string
	}{
		{"json60k", 60_000, "1", "/v1/messages"}, {"json400k", 400_000, "1", "/v1/messages"}, {"sse60k", 60_000, "", "/v1/messages"}, {"sse400k", 400_000, "", "/v1/messages"},
		{"responses_json60k", 60_000, "1", "/v1/responses"}, {"responses_json400k", 400_000, "1", "/v1/responses"}, {"responses_sse60k", 60_000, "", "/v1/responses"}, {"responses_sse400k", 400_000, "", "/v1/responses"},
	} {
		body := agentRequest(cell.size)
		if cell.path == "/v1/responses" {
			body = responsesRequest(cell.size)
		}
		for _, peer := range []struct {
			name string
			h    http.Handler
		}{{"direct", nil}, {"reverseproxy", buffered}, {"guardproxy", h}} {
			b.Run(cell.name+"/"+peer.name, func(b *testing.B) {
				at := up.URL
				if peer.h != nil {
					front := httptest.NewServer(peer.h)
					defer front.Close()
					at = front.URL
				}
				b.ReportAllocs()
				for b.Loop() {
					req, _ := http.NewRequest("POST", at+cell.path, bytes.NewReader(body))
					req.Header.Set("User-Agent", "claude-cli/2")
					req.Header.Set("X-Whole", cell.whole)
					resp, err := cl.Do(req)
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 500 {
						b.Fatal(n, err)
					}
					resp.Body.Close()
				}
			})
		}
	}
}

// BenchmarkHeldMemory is the heap that one open stream costs, with a request
// of 400 KB behind it, while a call is held.
func BenchmarkHeldMemory(b *testing.B) {
	stream := agentStream()
	at := bytes.LastIndex(stream, []byte(`and\"`))
	at = bytes.LastIndex(stream[:at], []byte("event:"))
	for b.Loop() {
		release := make(chan struct{})
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Write(stream[:at])
			w.(http.Flusher).Flush()
			<-release
			w.Write(stream[at:])
		}))
		h, err := New(Options{Upstreams: []Upstream{{URL: up.URL}}, Keys: [][]byte{make([]byte, 32)}, Policy: Policy{Mode: "workspace-write", Approval: "never"}})
		if err != nil {
			b.Fatal(err)
		}
		front := httptest.NewServer(h)
		body := agentRequest(400_000)
		heap := func() uint64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapInuse
		}
		before := heap()
		const streams = 32
		var open []*http.Response
		for range streams {
			resp, err := http.Post(front.URL+"/v1/messages", "", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, at/2)); err != nil {
				b.Fatal(err)
			}
			open = append(open, resp)
		}
		b.ReportMetric(float64(int64(heap()-before))/streams/1024, "KiB/stream")
		close(release)
		for _, r := range open {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		front.Close()
		up.Close()
	}
}
