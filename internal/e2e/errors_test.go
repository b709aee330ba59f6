package e2e

// What a user reads when something between the client and the model goes
// wrong: the SDK's own error, with a text that says what and where.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"github.com/guardproxy/guardproxy/proxy"
)

// status is the HTTP status of an SDK's error, the reply's header, and the
// body together with the message in it. (The OpenAI SDK leaves the message out
// of Error, and has it in a field.)
func status(t *testing.T, err error) (int, http.Header, string) {
	t.Helper()
	var a *anthropic.Error
	if errors.As(err, &a) {
		var body struct{ Error struct{ Message string } }
		json.Unmarshal([]byte(a.RawJSON()), &body)
		return a.StatusCode, a.Response.Header, body.Error.Message + "\n" + a.RawJSON()
	}
	var o *openai.Error
	if errors.As(err, &o) {
		return o.StatusCode, o.Response.Header, o.Message + "\n" + o.RawJSON()
	}
	t.Fatalf("no error of the SDK's: %v", err)
	return 0, nil, ""
}

func TestUpstreamDown(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		r := start(t)
		r.up.Close()
		_, err := d.open(r.url, d.streaming, 0).ask(t.Context())
		code, _, text := status(t, err)
		if code != http.StatusBadGateway {
			t.Errorf("status %d", code)
		}
		mustContain(t, "the error", text, "guardproxy: the upstream at http://127.0.0.1:", "can't be reached")
		shape := `"type":"api_error"`
		if !d.messages() {
			shape = "guardproxy_upstream_unreachable"
		}
		mustContain(t, "the error", text, shape)
	})
}

// Errors of the API pass as they are: clients decide by status, body and
// retry-after.
func TestErrorsPassUnchanged(t *testing.T) {
	for _, code := range []int{400, 401, 429, 500, 529} {
		every(t, func(t *testing.T, d dialect) {
			r := start(t)
			body := `{"type":"error","error":{"type":"rate_limit_error","message":"slow down","code":"x","param":null}, "request_id":"req_1"}`
			r.up.then(reply{status: code, header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"7"}, "X-Should-Retry": {"false"}, "Request-Id": {"req_1"}}, body: body})
			_, err := d.open(r.url, d.streaming, 0).ask(t.Context())
			got, header, text := status(t, err)
			if got != code || header.Get("Retry-After") != "7" || header.Get("X-Should-Retry") != "false" || header.Get("Request-Id") != "req_1" {
				t.Errorf("status %d, header %v", got, header)
			}
			mustContain(t, "the error", text, "slow down")

			r.up.then(reply{status: code, body: body})
			if _, _, raw, _ := post(t, r.url+d.path, `{"messages":[]}`); raw != body {
				t.Errorf("the body is %s", raw)
			}
		})
	}
}

// With its retries on, an SDK comes back after a 429 as it would without us.
func TestRetries(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		r := start(t)
		r.up.then(reply{status: 429, header: http.Header{"Retry-After-Ms": {"1"}}, body: `{"error":{"message":"later"}}`}, d.reply("Hello.", nil, 0))
		got, err := d.open(r.url, d.streaming, 1).ask(t.Context())
		if err != nil || got.text != "Hello." {
			t.Fatalf("got %+v, %v", got, err)
		}
		if n := len(r.up.requests()); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// before cuts a stream in front of the nth occurrence of a mark.
func before(s, mark string, n int) string {
	at := 0
	for ; n > 0; n-- {
		i := strings.Index(s[at:], mark)
		if i < 0 {
			panic("no " + mark)
		}
		at += i + len(mark)
	}
	return s[:at-len(mark)]
}

// A connection that breaks inside a call: the client sees it break, and has
// nothing of the call.
func TestCutInsideACall(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		if !d.streaming {
			t.Run("whole", func(t *testing.T) {
				r := start(t)
				whole := d.whole("", []call{{"c1", d.shell(), `{"command":"ls"}`}})
				r.up.then(reply{header: http.Header{"Content-Type": {"application/json"}, "Content-Length": {"4096"}}, body: whole[:len(whole)/2], cut: true})
				_, err := d.open(r.url, false, 0).ask(t.Context())
				code, _, text := status(t, err)
				if code != http.StatusBadGateway {
					t.Errorf("status %d", code)
				}
				mustContain(t, "the error", text, "failed in the middle of its reply")
			})
			return
		}
		s := d.stream("Some text.", []call{{"c1", d.shell(), `{"command":"echo one"}`}, {"c2", d.shell(), `{"command":"echo two"}`}}, 4)
		for name, cut := range map[string]string{
			"inside an event": before(s, `echo`, 1),
			"between events":  before(s, "c1", 1) + strings.SplitAfterN(s[len(before(s, "c1", 1)):], "\n\n", 2)[0],
		} {
			t.Run(name, func(t *testing.T) {
				r := start(t)
				r.up.then(reply{header: sseHeader, body: cut, cut: true})
				got, err := d.open(r.url, true, 0).ask(t.Context())
				if err == nil {
					t.Error("the client takes a broken reply for a whole one")
				}
				if len(got.calls) > 0 {
					t.Errorf("the client has %+v", got.calls)
				}
				if got.text != "" && got.text != "Some text." {
					t.Errorf("the text is %q", got.text)
				}
			})
			t.Run(name+", ended cleanly", func(t *testing.T) {
				r := start(t)
				r.up.then(reply{header: sseHeader, body: cut})
				got, _ := d.open(r.url, true, 0).ask(t.Context())
				if len(got.calls) > 0 {
					t.Errorf("the client has %+v", got.calls)
				}
			})
		}
	})
}

// What can't be judged is a 502 with a reason, and no reply.
func TestUnjudgeableReplies(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		custom := `data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"custom","custom":{"name":"bash","input":"ls"}}]}}]}` + "\n\n"
		wholeCustom := `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"bash","input":"ls"}}]},"finish_reason":"tool_calls"}]}`
		if d.messages() {
			custom = event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"new_use","id":"c1","name":"Bash","input":{}}}`)
			wholeCustom = `{"type":"message","content":[{"type":"new_use","id":"c1","name":"Bash","input":{"command":"ls"}}]}`
		}
		if d.responses() {
			custom = event("response.new_event", `{"type":"response.new_event","item":{"type":"function_call","call_id":"c1","name":"bash","arguments":"{}"}}`)
			wholeCustom = `{"object":"response","output":[{"type":"function_call","name":"bash","arguments":"{}"}]}`
		}
		rows := map[string]struct {
			reply reply
			text  string
		}{
			"HTML":              {reply{header: http.Header{"Content-Type": {"text/html"}}, body: "<!DOCTYPE html><html>Sign in</html>"}, "answered with text/html"},
			"text":              {reply{header: http.Header{"Content-Type": {"text/plain"}}, body: "upstream is asleep"}, "can be judged"},
			"broken JSON":       {reply{header: jsonHeader, body: `{"content":[`}, "can be judged"},
			"a list":            {reply{header: jsonHeader, body: `[]`}, "can be judged"},
			"redirect":          {reply{status: 307, header: http.Header{"Location": {"https://elsewhere.example/v1"}}}, "redirect (307), which is never followed"},
			"encoding":          {reply{header: http.Header{"Content-Encoding": {"br"}}, body: "xx"}, `Content-Encoding "br" is not supported`},
			"not gzip":          {reply{header: http.Header{"Content-Encoding": {"gzip"}}, body: `{"content":[]}`}, "not gzip"},
			"unknown call":      {reply{header: sseHeader, body: custom}, "can be judged"},
			"whole and unknown": {reply{header: jsonHeader, body: wholeCustom}, "can be judged"},
		}
		for name, row := range rows {
			t.Run(name, func(t *testing.T) {
				r := start(t)
				r.up.then(row.reply)
				got, err := d.open(r.url, d.streaming, 0).ask(t.Context())
				code, header, text := status(t, err)
				if code != http.StatusBadGateway {
					t.Errorf("status %d", code)
				}
				if header.Get("Location") != "" || header.Get("Content-Encoding") != "" {
					t.Errorf("header %v", header)
				}
				mustContain(t, "the error", text, "guardproxy: ", row.text)
				if len(got.calls) > 0 {
					t.Errorf("the client has %+v", got.calls)
				}
			})
		}
	})
}

// A stream that turns odd after it has begun ends with an error event that the
// SDK reports.
func TestOddInMidStream(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		if !d.streaming {
			return
		}
		s := d.stream("Some text.", []call{{"c1", d.shell(), `{"command":"echo one"}`}}, 0)
		for name, tail := range map[string]string{
			"unknown event":      event("new_event", `{"type":"new_event","choices":[{"index":0,"new":{"name":"bash"}}]}`),
			"not JSON":           "event: x\ndata: {\n\n",
			"a line of no field": "hello\n\n",
			"a lone return":      "data: {}\r\r\n\n",
		} {
			t.Run(name, func(t *testing.T) {
				r := start(t)
				// In front of the first call, and inside of it.
				for i, at := range []string{before(s, "c1", 1), before(s, "echo one", 1)} {
					at = at[:strings.LastIndex(at, "\n\n")+2]
					r.up.then(reply{header: sseHeader, body: at + tail})
					got, err := d.open(r.url, true, 0).ask(t.Context())
					if err == nil {
						t.Fatalf("place %d: no error", i)
					}
					mustContain(t, "the error", err.Error(), "guardproxy: the upstream's reply is not one that can be judged")
					if len(got.calls) > 0 || got.text != "Some text." {
						t.Errorf("place %d: the client has %+v", i, got)
					}
				}
			})
		}
	})
}

// An error that upstream itself sends in a stream arrives, and a call that was
// not whole does not.
func TestErrorEventInMidStream(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		if !d.streaming {
			return
		}
		fault := "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\"}}\n\n"
		if d.messages() {
			fault = event("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		}
		if d.responses() {
			fault = event("error", `{"type":"error","code":"server_error","message":"Overloaded","param":null,"sequence_number":900}`)
		}
		s := d.stream("Some text.", []call{{"c1", d.shell(), `{"command":"echo one"}`}}, 4)
		for _, mark := range []string{"c1", "echo"} {
			r := start(t)
			at := before(s, mark, 1)
			r.up.then(reply{header: sseHeader, body: at[:strings.LastIndex(at, "\n\n")+2] + fault})
			got, err := d.open(r.url, true, 0).ask(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			mustContain(t, "the error", err.Error(), "Overloaded")
			if len(got.calls) > 0 || got.text != "Some text." {
				t.Errorf("the client has %+v", got)
			}
		}
	})
}

// A client that goes away takes its upstream request with it.
func TestClientGone(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		gone := make(chan struct{})
		arrived := make(chan struct{})
		hang := http.NewServeMux()
		hang.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			buf := make([]byte, 1<<16)
			for {
				if _, err := r.Body.Read(buf); err != nil {
					break
				}
			}
			close(arrived)
			<-r.Context().Done()
			close(gone)
		})
		slow := quiet(hang, &lockedBuffer{})
		defer slow.Close()
		r := start(t, func(o *proxy.Options) { o.Upstreams[0].URL = slow.URL })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := d.open(r.url, d.streaming, 0).ask(ctx)
			done <- err
		}()
		<-arrived
		cancel()
		if err := <-done; err == nil {
			t.Error("no error")
		}
		<-gone
	})
}
