package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
)

// exchanges keeps what Recorded gets, without releasing it.
type exchanges struct {
	mu  sync.Mutex
	got []*Exchange
	ch  chan struct{}
}

func recordingOf(o *Options) *exchanges {
	r := &exchanges{ch: make(chan struct{}, 1000)}
	o.Recorded = func(x *Exchange) {
		r.mu.Lock()
		r.got = append(r.got, x)
		r.mu.Unlock()
		r.ch <- struct{}{}
	}
	return r
}

// wait returns the first n exchanges.
func (r *exchanges) wait(t *testing.T, n int) []*Exchange {
	t.Helper()
	for range n {
		select {
		case <-r.ch:
		case <-time.After(30 * time.Second):
			t.Fatal("nothing was recorded")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// What is recorded of a reply, whatever became of it.
func TestRecorded(t *testing.T) {
	const call = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Bash\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"command\\\":\\\"ls\\\"}\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":3},\"diagnostics\":{\"cache_miss_reason\":{\"type\":\"tools_changed\"}}}}\n\n"
	const end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":5}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	chat := `{"model":"m","messages":[{"role":"user","content":"go"}],` + chatTools + `}`
	for name, c := range map[string]struct {
		path, body string
		answer     func(w http.ResponseWriter)
		want       string // status, id, first, usage, diagnostics, first byte?, calls
		refuse     bool
	}{
		"a stream":                    {"/v1/messages", messagesAsk, say(200, start+call+end), `200 msg_1 {"input_tokens":3} {"output_tokens":5} {"cache_miss_reason":{"type":"tools_changed"}} true [t1 Bash shell {"command":"ls"} true ]`, false},
		"a refused call":              {"/v1/messages", messagesAsk, say(200, start+call+end), `200 msg_1 {"input_tokens":3} {"output_tokens":5} {"cache_miss_reason":{"type":"tools_changed"}} true [t1 Bash shell {"command":"ls"} false policy]`, true},
		"an undeclared tool":          {"/v1/messages", messagesAsk, say(200, strings.ReplaceAll(start+call+end, `"Bash"`, `"Nope"`)), `200 msg_1 {"input_tokens":3} {"output_tokens":5} {"cache_miss_reason":{"type":"tools_changed"}} true [t1 Nope  {"command":"ls"} false undeclared_tool]`, false},
		"a whole reply":               {"/v1/messages", messagesAsk, say(200, `{"id":"msg_2","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1},"diagnostics":null}`), `200 msg_2  {"input_tokens":1} null true []`, false},
		"a chat stream":               {"/v1/chat/completions", chat, say(200, "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"usage\":null}\n\ndata: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\ndata: [DONE]\n\n"), `200 c1  {"prompt_tokens":9}  true []`, false},
		"a whole chat reply":          {"/v1/chat/completions", chat, say(200, `{"id":"c2","choices":[],"usage":{"prompt_tokens":8},"prompt_cache_diagnostics":{"type":"cache_hit"}}`), `200 c2  {"prompt_tokens":8} {"type":"cache_hit"} true []`, false},
		"count_tokens":                {"/v1/messages/count_tokens", messagesAsk, say(200, `{"input_tokens":12}`), `200     true []`, false},
		"an error":                    {"/v1/messages", messagesAsk, say(529, `{"type":"error"}`), `529     false []`, false},
		"a redirect":                  {"/v1/messages", messagesAsk, func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(307) }, `307     false []`, false},
		"nothing":                     {"/v1/messages", messagesAsk, say(200, ``), `200     false []`, false},
		"no reply that can be judged": {"/v1/messages", messagesAsk, say(200, start+"event: odd\ndata: {\"type\":\"odd\"}\n\n"), `200 msg_1 {"input_tokens":3}  {"cache_miss_reason":{"type":"tools_changed"}} true []`, false},
		"an upstream that hangs up":   {"/v1/messages", messagesAsk, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, `0     false []`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var rec *exchanges
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }, func(o *Options) {
				rec = recordingOf(o)
				if c.refuse {
					o.Guards = denying("ls")
				}
			})
			r.send(c.path+"?beta=true", c.body, "X-Api-Key", "k")
			x := rec.wait(t, 1)[0]
			calls := []string{}
			for _, j := range x.Calls {
				calls = append(calls, fmt.Sprint(j.CallID, " ", j.Tool, " ", j.Kind, " ", string(j.Raw), " ", j.Allowed, " ", j.Cause))
				if judged := j.Given != nil; judged != (j.Cause == "" || j.Cause == string(guards.CausePolicy)) {
					t.Errorf("call %s: given to the guards: %v", j.CallID, judged)
				}
				if j.Facts.Mode != "workspace-write" || j.Facts.Workspace != "/work space" || j.Facts.Turn != 1 || j.Facts.Calls != 1 || j.Facts.ID != x.Session {
					t.Errorf("facts %+v", j.Facts)
				}
			}
			if got := fmt.Sprintf("%d %s %s %s %s %v %v", x.Status, x.ResponseID, x.First, x.Usage, x.Diagnostics, !x.FirstByte.IsZero(), calls); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if x.Method != "POST" || x.Path != c.path || x.Query != "beta=true" || x.RequestHeader.Get("X-Api-Key") != "k" || len(x.Session) != 32 || x.Start.IsZero() || x.End.Before(x.Start) ||
				string(x.ClientBody) != c.body || x.Count != strings.HasSuffix(c.path, "count_tokens") {
				t.Errorf("%+v", x)
			}
			if up := r.seen(); len(up) != 1 || up[0] != string(x.UpstreamBody) || len(x.Removed) == 0 || len(x.UpstreamBody) >= len(x.ClientBody) {
				t.Errorf("upstream got %q, recorded is %s", up, x.UpstreamBody)
			}
			if !strings.HasPrefix(string(x.Rules), `{"tools":{`) {
				t.Errorf("rules %s", x.Rules)
			}
			x.Release()
		})
	}
}

func say(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(status); io.WriteString(w, body) }
}

// What was not sent is not recorded.
func TestUnsentIsNotRecorded(t *testing.T) {
	var rec *exchanges
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { say(200, `{"content":[]}`)(w) }, func(o *Options) { rec = recordingOf(o) })
	r.send("/v1/messages", `{"messages":`)
	r.send("/v1/messages", `{"tools":[{"name":"guardproxy_refused"}]}`)
	r.send("/v1/other", `{}`)
	r.send("/v1/messages", `{"messages":[]}`)
	if got := rec.wait(t, 1); len(got) != 1 || string(got[0].ClientBody) != `{"messages":[]}` || &got[0].ClientBody[0] != &got[0].UpstreamBody[0] {
		t.Fatalf("%d exchanges", len(got))
	}
}

// The memory of a recorded exchange is not used for another one until it is
// released, though bodies live in a pool.
func TestRecordedBodiesStay(t *testing.T) {
	var rec *exchanges
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { say(200, `{"content":[]}`)(w) }, func(o *Options) { rec = recordingOf(o) })
	const senders, each = 4, 25
	var wg sync.WaitGroup
	for s := range senders {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range each {
				body := strings.Replace(messagesAsk, `"go"`, fmt.Sprintf(`"%d %d %s"`, s, n, strings.Repeat(string(rune('a'+n)), 5000)), 1)
				r.send("/v1/messages", body)
			}
		}()
	}
	wg.Wait()
	got := rec.wait(t, senders*each)
	for _, x := range got {
		var s, n int
		if _, err := fmt.Sscanf(string(x.ClientBody[bytes.Index(x.ClientBody, []byte(`"content":"`))+11:]), "%d %d", &s, &n); err != nil {
			t.Fatal(err)
		}
		want := []byte(fmt.Sprintf(`"%d %d %s"`, s, n, strings.Repeat(string(rune('a'+n)), 5000)))
		if !bytes.Contains(x.ClientBody, want) || !bytes.Contains(x.UpstreamBody, want) || bytes.Contains(x.UpstreamBody, []byte("dangerously")) {
			t.Fatalf("exchange %d %d has another's body", s, n)
		}
	}
	for _, x := range got {
		x.Release()
		x.Release() // once more does no harm
	}
}
