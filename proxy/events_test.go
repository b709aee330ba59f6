package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guardproxy/guardproxy/guards"
)

// events collects what is told.
type events struct {
	mu        sync.Mutex
	began     int
	streaming []int
	ended     chan Traffic
}

func (e *events) listen(o *Options) {
	e.ended = make(chan Traffic, 100)
	o.Events = Events{
		Began:     func() { e.mu.Lock(); e.began++; e.mu.Unlock() },
		Streaming: func(d int) { e.mu.Lock(); e.streaming = append(e.streaming, d); e.mu.Unlock() },
		Ended:     func(x Traffic) { e.ended <- x },
	}
}

// Each request is told once, when it is over, as the client saw it.
func TestExchangesAreTold(t *testing.T) {
	stream, whole := messagesStream("Bash", `{"command":"ls"}`), `{"content":[]}`
	for _, c := range []struct {
		name       string
		answer     http.HandlerFunc
		path, body string
		header     []string
		want       Traffic
		streams    bool
	}{
		{"a stream", answering(stream), "/v1/messages", messagesAsk, []string{"User-Agent", "claude-cli/2"},
			Traffic{Dialect: "anthropic-messages", Upstream: "test", Client: "claude-code", Status: 200, Returned: int64(len(stream)), Delivered: int64(len(stream))}, true},
		{"a whole reply", answering(whole), "/v1/messages", messagesAsk, nil,
			Traffic{Dialect: "anthropic-messages", Upstream: "test", Status: 200, Returned: int64(len(whole)), Delivered: int64(len(whole))}, false},
		{"an error of the upstream", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "busy", 529) }, "/v1/messages", messagesAsk, nil,
			Traffic{Dialect: "anthropic-messages", Upstream: "test", Status: 529, Returned: 5, Delivered: 5}, false},
		{"a reply that can't be judged", answering(`{"content":7}`), "/v1/messages", messagesAsk, nil,
			Traffic{Dialect: "anthropic-messages", Upstream: "test", Status: 502, Refused: "reply_refused", Returned: 13}, false},
		{"a stream that can't be judged to its end", answering(stream[:strings.Index(stream, "event: content_block_stop")] + "event: nonsense\ndata: {}\n\n"), "/v1/messages", messagesAsk, nil,
			Traffic{Dialect: "anthropic-messages", Upstream: "test", Status: 200, Refused: "reply_refused"}, true},
		{"a body that is none", answering(whole), "/v1/messages", "no JSON", nil,
			Traffic{Dialect: "anthropic-messages", Status: 400, Refused: "bad_body"}, false},
		{"a web page", answering(whole), "/v1/messages", messagesAsk, []string{"Origin", "https://evil.example"},
			Traffic{Dialect: "anthropic-messages", Status: 403, Refused: "browser_request"}, false},
		{"an unknown path", answering(whole), "/v1/unknown", "{}", nil,
			Traffic{Status: 501, Refused: "unknown_path"}, false},
		{"a pass-through", answering(whole), "/v1/files", "{}", nil,
			Traffic{Upstream: "test", Status: 200, Sent: 2, Returned: int64(len(whole)), Delivered: int64(len(whole))}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e events
			r := newRig(t, c.answer, e.listen)
			_, _, body := r.send(c.path, c.body, c.header...)
			got := <-e.ended
			if got.Took <= 0 || got.FirstByte <= 0 || got.FirstByte > got.Took {
				t.Errorf("first byte after %v, end after %v", got.FirstByte, got.Took)
			}
			c.want.Took, c.want.FirstByte = got.Took, got.FirstByte
			if c.want.Refused != "" {
				c.want.Delivered, c.want.Returned = int64(len(body)), got.Returned
			}
			// A request that is refused at once may or may not be read.
			if c.want.Upstream != "" {
				c.want.Received = int64(len(c.body))
				if c.want.Sent == 0 {
					c.want.Sent = int64(len(r.seen()[0]))
				}
			} else {
				got.Received = 0
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if streams := fmt.Sprint(e.streaming); (streams == "[1 -1]") != c.streams || !c.streams && streams != "[]" {
				t.Errorf("streams: %s", streams)
			}
			if e.began != 1 || len(e.ended) != 0 {
				t.Errorf("began %d times, ended %d times more", e.began, len(e.ended))
			}
		})
	}
}

// A client that is gone ends its exchange, too.
func TestGoneClientIsTold(t *testing.T) {
	var e events
	there := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		close(there)
		<-r.Context().Done()
	}, e.listen)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/messages", strings.NewReader(messagesAsk))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-there
		leave()
	}()
	if _, err := plain.Do(req); err == nil {
		t.Fatal("there was an answer")
	}
	if x := <-e.ended; x.Status != 0 || x.Upstream != "test" {
		t.Errorf("got %+v", x)
	}
}

// That somebody listens changes nothing of what upstream gets.
func TestListeningChangesNoRequest(t *testing.T) {
	seen := func(change ...func(*Options)) (out []string) {
		r := newRig(t, answering(`{"data":[]}`), change...)
		for _, method := range []string{"GET", "DELETE", "POST"} {
			req, err := http.NewRequest(method, r.url+"/v1/files", nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := plain.Do(req); err == nil {
				resp.Body.Close()
			}
		}
		r.send("/v1/files", "x")
		r.send("/v1/messages", messagesAsk)
		for _, q := range r.reqs {
			q.Header.Del("Date")
			out = append(out, fmt.Sprint(q.Method, q.URL, q.ContentLength, q.TransferEncoding, q.Header))
		}
		return out
	}
	var e events
	if d := cmp.Diff(seen(), seen(e.listen)); d != "" {
		t.Errorf("(-without +with)\n%s", d)
	}
}

// What guards said is told with the decision, whether it counted or not; a
// guard that observes changes no byte.
func TestVerdictsAreReported(t *testing.T) {
	stream := messagesStream("Bash", `{"command":"ls"}`)
	says := func(v guards.Verdict) guards.Guard {
		return guardFunc(func(*guards.Call) guards.Verdict { return v })
	}
	deny := guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: "no"}
	for _, c := range []struct {
		name    string
		chain   guards.Chain
		passes  bool
		cause   string
		told    string // of each guard
		log     string
		refused string // in what the model reads
	}{
		{"observed", guards.Chain{{Name: "new", Guard: says(deny), Observe: true}, {Name: "ok", Guard: says(guards.Verdict{})}}, true, "",
			"new deny policy true|ok pass  false", `msg="guard observed: deny"`, ""},
		{"observed, and asks", guards.Chain{{Name: "new", Guard: says(guards.Verdict{Decision: guards.Ask}), Observe: true}}, true, "",
			"new ask policy true", `msg="guard observed: ask"`, ""},
		{"observed, and broken", guards.Chain{{Name: "new", Guard: says(guards.Fault(guards.CauseTrap, "unreachable")), Observe: true}}, true, "",
			"new deny trap true", `msg="guard broke: trap"`, ""},
		{"broken", guards.Chain{{Name: "g", Guard: says(guards.Fault(guards.CauseFuel, "its fuel is used up"))}, {Name: "ok", Guard: says(guards.Verdict{})}}, false, "fuel",
			"g deny fuel false|ok pass  false", `detail="its fuel is used up"`, "guard g could not judge the call (fuel)"},
		{"both", guards.Chain{{Name: "new", Guard: says(deny), Observe: true}, {Name: "g", Guard: says(deny)}}, false, "policy",
			"new deny policy true|g deny policy false", `msg="guard observed: deny"`, "guard g says: no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			var d Decision
			r := newRig(t, answering(stream), func(o *Options) {
				o.Guards = c.chain
				o.Decided = func(x Decision) { d = x }
			})
			_, _, body := r.send("/v1/messages", messagesAsk)
			if (body == stream) != c.passes || !strings.Contains(body, c.refused) {
				t.Errorf("the client got\n%s", body)
			}
			for _, v := range d.Verdicts {
				got = append(got, fmt.Sprintf("%s %v %s %v", v.Guard, v.Decision, v.Cause, v.Observed))
			}
			if s := strings.Join(got, "|"); s != c.told || d.Cause != c.cause || d.Took <= 0 {
				t.Errorf("told %q, cause %q after %v; want %q, %q", s, d.Cause, d.Took, c.told, c.cause)
			}
			if !strings.Contains(r.log.String(), c.log) {
				t.Errorf("the log does not have %s:\n%s", c.log, r.log)
			}
		})
	}
}

// That one guard refused does not hide from the log that another did, too; what
// the same one refuses after that is counted.
func TestFirstRefusalOfEachGuardIsLogged(t *testing.T) {
	by := "first"
	named := func(name string) guards.Entry {
		return guards.Entry{Name: name, Guard: guardFunc(func(*guards.Call) guards.Verdict {
			if by != name {
				return guards.Verdict{}
			}
			return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: "no"}
		})}
	}
	r := newRig(t, answering(messagesStream("Bash", `{"command":"ls"}`)), func(o *Options) { o.Guards = guards.Chain{named("first"), named("second")} })
	for _, by = range []string{"first", "second", "first"} {
		r.send("/v1/messages", messagesAsk)
	}
	for guard, lines := range map[string]int{"first": 1, "second": 1} {
		if got := len(regexp.MustCompile(`level=INFO msg="call refused: policy" .*guard=`+guard).FindAllString(r.log.String(), -1)); got != lines {
			t.Errorf("guard %s: %d lines, want %d\n%s", guard, got, lines, r.log)
		}
	}
}

// Each way in which a guard breaks has a name of its own, and that is in the
// refusal, in the decision and in the log.
func TestEveryCauseIsNamed(t *testing.T) {
	large := messagesStream("Bash", `{"command":"`+strings.Repeat("x", guards.MaxInput+1)+`"}`)
	for _, cause := range []guards.Cause{guards.CauseTrap, guards.CauseUnknownVerdict, guards.CauseExit, guards.CauseFuel, guards.CauseDeadline, guards.CauseMemory,
		guards.CauseHostMisuse, guards.CauseLoad, guards.CausePanic, guards.CauseInputTooLarge} {
		t.Run(string(cause), func(t *testing.T) {
			answer := messagesStream("Bash", `{"command":"ls"}`)
			if cause == guards.CauseInputTooLarge {
				answer = large // the chain says it, whatever the guard would
			}
			var d Decision
			r := newRig(t, answering(answer), func(o *Options) {
				o.Guards = guards.Chain{{Name: "g", Guard: guardFunc(func(*guards.Call) guards.Verdict {
					if cause == guards.CausePanic {
						panic("a fault of the host")
					}
					return guards.Fault(cause, "what the host knows")
				})}}
				o.Decided = func(x Decision) { d = x }
			})
			_, _, body := r.send("/v1/messages", messagesAsk)
			if !strings.Contains(body, "guard g could not judge the call ("+string(cause)+")") || strings.Contains(body, "what the host knows") || strings.Contains(body, "a fault of the host") {
				t.Errorf("the client got\n%.600s", body)
			}
			if d.Cause != string(cause) || d.Guard != "g" || len(d.Verdicts) != 1 || d.Verdicts[0].Cause != cause {
				t.Errorf("decision: %+v", d)
			}
			if !strings.Contains(r.log.String(), `msg="guard broke: `+string(cause)+`"`) {
				t.Errorf("log:\n%s", r.log)
			}
		})
	}
}

// The listener beside the proxy's own has its rules.
func TestShield(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
	for _, c := range []struct {
		name   string
		token  string
		header []string
		status int
	}{
		{"loopback", "", nil, 200},
		{"a configured name", "", []string{"Host", "metrics.internal"}, 200},
		{"another name", "", []string{"Host", "evil.example"}, 403},
		{"an origin", "", []string{"Origin", "https://evil.example"}, 403},
		{"cross-site", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"no token", "s3cret-s3cret-s3cret", nil, 401},
		{"another token", "s3cret-s3cret-s3cret", []string{"Authorization", "Bearer s3cret"}, 401},
		{"a token of another scheme", "s3cret-s3cret-s3cret", []string{"Authorization", "Basic s3cret-s3cret-s3cret"}, 401},
		{"the token", "s3cret-s3cret-s3cret", []string{"Authorization", "Bearer s3cret-s3cret-s3cret"}, 200},
		{"the token in the proxy's own header", "s3cret-s3cret-s3cret", []string{"X-Guardproxy-Token", "s3cret-s3cret-s3cret"}, 200},
		{"the token from a web page", "s3cret-s3cret-s3cret", []string{"Authorization", "Bearer s3cret-s3cret-s3cret", "Origin", "null"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(Shield(ok, []string{"metrics.internal"}, c.token))
			defer s.Close()
			req, _ := http.NewRequest("GET", s.URL, nil)
			for i := 0; i+1 < len(c.header); i += 2 {
				req.Header.Set(c.header[i], c.header[i+1])
				if c.header[i] == "Host" {
					req.Host = c.header[i+1]
				}
			}
			resp, err := plain.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || (string(b) == "ok") != (c.status == 200) {
				t.Errorf("%d %s, want %d", resp.StatusCode, b, c.status)
			}
		})
	}
}
