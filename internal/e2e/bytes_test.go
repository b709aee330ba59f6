package e2e

// What the handler may and may not do to bytes: the bytes that a guard judged
// are those that the client gets, an allowed reply is upstream's to the byte,
// a restored history depends on nothing but the request and the key, and a
// further guard only ever refuses more.

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/proxy"
)

// wired is an upstream without a network: it answers with a text, read in
// pieces of the given sizes, and keeps the request's body.
type wired struct {
	mu    sync.Mutex
	body  []byte
	sizes []int
	got   []byte
}

func (w *wired) RoundTrip(r *http.Request) (*http.Response, error) {
	got, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = got
	return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(&drip{b: w.body, sizes: w.sizes}), ContentLength: -1, Request: r}, nil
}

// drip reads b in pieces.
type drip struct {
	b     []byte
	sizes []int
	n     int
}

func (d *drip) Read(p []byte) (int, error) {
	if len(d.b) == 0 {
		return 0, io.EOF
	}
	n := len(d.b)
	if len(d.sizes) > 0 {
		n = d.sizes[d.n%len(d.sizes)]
		d.n++
	}
	n = copy(p, d.b[:min(n, len(d.b))])
	d.b = d.b[n:]
	return n, nil
}

// bench is a handler on a wired upstream, with what it decided.
type bench struct {
	h     *proxy.Handler
	up    *wired
	guard *recorder

	mu   sync.Mutex
	made []proxy.Decision
}

// fatal is what tests and rapid's checks have in common.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func newBench(t fatal, more ...guards.Entry) *bench {
	b := &bench{up: &wired{}, guard: &recorder{deny: forbidden}}
	o := options("http://upstream.test", b.guard)
	o.Transport = b.up
	o.Guards = append(o.Guards, more...)
	o.Decided = func(d proxy.Decision) {
		b.mu.Lock()
		defer b.mu.Unlock()
		d.Arguments = bytes.Clone(d.Arguments)
		b.made = append(b.made, d)
	}
	var err error
	if b.h, err = proxy.New(o); err != nil {
		t.Fatal(err)
	}
	return b
}

func path(d wire.Dialect) string {
	switch d {
	case wire.Messages:
		return "/v1/messages"
	case wire.Responses:
		return "/v1/responses"
	}
	return "/v1/chat/completions"
}

// toolsOf is the tools member of a request that declares names.
func toolsOf(d wire.Dialect, names ...string) string {
	var list []string
	for _, n := range names {
		switch d {
		case wire.Messages:
			list = append(list, `{"name":`+quote(n)+`,"input_schema":{"type":"object","properties":{"command":{"type":"string"}}}}`)
		case wire.Responses:
			list = append(list, `{"type":"function","name":`+quote(n)+`,"parameters":{"type":"object","properties":{"command":{"type":"string"}}}}`)
		default:
			list = append(list, `{"type":"function","function":{"name":`+quote(n)+`,"parameters":{"type":"object","properties":{"command":{"type":"string"}}}}}`)
		}
	}
	return `"tools":[` + strings.Join(list, ",") + `]`
}

// serve sends one request through the handler. cut reports that the handler
// broke the connection off.
func (b *bench) serve(d wire.Dialect, request string, reply []byte, sizes ...int) (out []byte, status int, cut bool) {
	b.mu.Lock()
	b.made = nil
	b.mu.Unlock()
	b.guard.mu.Lock()
	b.guard.seen = nil
	b.guard.mu.Unlock()
	b.up.body, b.up.sizes = reply, sizes
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, path(d), strings.NewReader(request))
	req.Host = "127.0.0.1"
	func() {
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				cut = true
			}
		}()
		b.h.ServeHTTP(rec, req)
	}()
	return rec.Body.Bytes(), rec.Code, cut
}

func plainRequest(d wire.Dialect) string {
	if d == wire.Responses {
		// The names of functions are those of custom tools, too.
		tools := strings.TrimSuffix(toolsOf(d, "Bash", "Read", "lookup"), "]")
		return `{"model":"m","stream":true,"store":false,"input":[{"role":"user","content":"go"}],` + tools + `,{"type":"custom","name":"Bash"},{"type":"custom","name":"Read"},{"type":"custom","name":"lookup"},{"type":"local_shell"},{"type":"apply_patch"}]}`
	}
	return `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}],` + toolsOf(d, "Bash", "Read", "lookup") + `}`
}

// delivered checks what a client has against what was judged; "" is agreement.
func (b *bench) delivered(got []call) string {
	judged := b.guard.calls()
	for _, c := range got {
		// In Responses the type of the item stands before the name.
		if _, name, ok := strings.Cut(c.name, "_call "); ok {
			c.name = name
		}
		i := slices.IndexFunc(b.made, func(d proxy.Decision) bool { return d.CallID == c.id })
		if i < 0 {
			return fmt.Sprintf("%q was never decided", c)
		}
		d := b.made[i]
		if !d.Allowed {
			if !strings.Contains(c.args, "gp1:") || c.name != d.Tool && c.name != "guardproxy_refused" {
				return fmt.Sprintf("%q is refused and is no refusal", c)
			}
			continue
		}
		k := slices.IndexFunc(judged, func(g guards.Call) bool { return g.ID == c.id })
		if k < 0 {
			return fmt.Sprintf("%q was allowed without its guard", c)
		}
		if g := judged[k]; canonical(call{g.ID, g.Name, string(g.Arguments)}) != canonical(c) || g.ArgumentsRaw != string(d.Arguments) {
			return fmt.Sprintf("the guard judged %q(%s), and the client has %q", g.Name, g.Arguments, c)
		}
	}
	return ""
}

func TestBytesJudgedAreBytesDelivered(t *testing.T) {
	for _, d := range allDialects {
		for _, odd := range []bool{false, true} {
			name := string(d) + "/legal"
			if odd {
				name = string(d) + "/odd"
			}
			t.Run(name, func(t *testing.T) {
				b := newBench(t)
				rapid.Check(t, func(t *rapid.T) {
					s := drawStream(t, d, odd)
					sizes := rapid.SliceOfN(rapid.IntRange(1, 300), 0, 5).Draw(t, "reads")
					out, status, cut := b.serve(d, plainRequest(d), s, sizes...)
					if cut {
						t.Fatal("cut")
					}
					if !odd && status != 200 {
						t.Fatalf("status %d: %s", status, out)
					}
					refused := slices.ContainsFunc(b.made, func(d proxy.Decision) bool { return !d.Allowed })
					if !odd && !refused && !bytes.Equal(out, s) {
						t.Fatalf("an allowed reply changed:\n%q\n%q", s, out)
					}
					if status != 200 {
						return
					}
					for _, r := range readers(d) {
						got, err := r.read(out)
						have := slices.DeleteFunc(got, func(c call) bool { return !runnable(c, err) })
						if r.joins {
							for i := range have {
								k := slices.IndexFunc(b.made, func(d proxy.Decision) bool { return d.CallID == have[i].id })
								for _, n := range []string{"guardproxy_refused", b.madeTool(k)} {
									if n != "" && strings.ReplaceAll(have[i].name, n, "") == "" {
										have[i].name = n
									}
								}
							}
						}
						if m := b.delivered(have); m != "" {
							t.Fatalf("%s: %s\nupstream: %q\ndelivered: %q", r.name, m, s, out)
						}
						if !odd && !r.partial && (err != nil || len(have) != len(b.made)) {
							t.Fatalf("%s has %d of %d calls (%v)", r.name, len(have), len(b.made), err)
						}
					}
				})
			})
		}
	}
}

func (b *bench) madeTool(i int) string {
	if i < 0 {
		return ""
	}
	return b.made[i].Tool
}

// Over real connections, whatever pieces upstream writes, with pings, comments
// and both line endings inside of calls.
func TestAllowedRepliesAreUntouched(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		calls := []call{{"c1", d.shell(), `{ "command": "echo \u00e9 é 😀 \"x\"" }`}, {"c2", "lookup", `{"q":"y"}`}}
		s := d.stream("Text.", calls, 5)
		if !d.streaming {
			s = d.whole("Text.", calls)
		}
		bodies := map[string]string{"plain": s}
		if d.streaming {
			commented := strings.ReplaceAll(s, "\n\n", "\n\n: comment\n\nid: 3\nretry: 7\n")
			bodies["CRLF"] = strings.ReplaceAll(s, "\n", "\r\n")
			bodies["comments"] = strings.TrimSuffix(commented, "id: 3\nretry: 7\n")
			bodies["no spaces"] = strings.NewReplacer("data: {", "data:{", "event: ", "event:").Replace(s)
			bodies["no final blank line"] = strings.TrimSuffix(s, "\n\n")
		} else {
			bodies["spaces around"] = " \n" + s + "\n\n"
		}
		r := start(t)
		body := d.bare() + toolsOf(d.wire(), d.shell(), "lookup") + `}`
		for name, b := range bodies {
			for _, chunk := range []int{0, 1, 7, 100} {
				header := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}, "Request-Id": {"req_1"}, "Anthropic-Ratelimit-Requests-Remaining": {"9"}}
				r.up.then(reply{header: header, body: b, chunk: chunk})
				status, h, got, err := post(t, r.url+d.path, body)
				if err != nil || status != 200 || got != b {
					t.Errorf("%s, chunks of %d: %d %v\n%q\n%q", name, chunk, status, err, b, got)
				}
				for k := range header {
					if h.Get(k) != header.Get(k) {
						t.Errorf("%s, chunks of %d: header %s is %q", name, chunk, k, h.Get(k))
					}
				}
			}
		}
		if n := len(r.guard.calls()); n != 2*4*len(bodies) {
			t.Errorf("the guard saw %d calls", n)
		}
	})
}

// A compressed reply is judged like any other, and arrives as plain bytes.
func TestCompressedReplies(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		rep := d.reply("Text.", []call{{"c1", d.shell(), `{"command":"echo one"}`}, {"c2", d.shell(), `{"command":"echo forbidden"}`}}, 5)
		var gz bytes.Buffer
		w := gzip.NewWriter(&gz)
		io.WriteString(w, rep.body)
		w.Close()
		zw, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		for encoding, body := range map[string]string{"gzip": gz.String(), "zstd": string(zw.EncodeAll([]byte(rep.body), nil))} {
			r := start(t)
			packed := rep
			packed.header = rep.header.Clone()
			packed.header.Set("Content-Encoding", encoding)
			packed.body = body
			r.up.then(packed)
			got, err := d.open(r.url, d.streaming, 0).ask(t.Context())
			if err != nil || len(got.calls) != 2 || got.calls[0].args != `{"command":"echo one"}` || !strings.Contains(got.calls[1].args, "gp1:") {
				t.Errorf("%s: %+v, %v", encoding, got, err)
			}
			if e := r.up.last().header.Get("Accept-Encoding"); e != "" {
				t.Errorf("upstream was asked for %q", e)
			}
		}
		zw.Close()
	})
}

// historyBody is a history in which some calls are refusals of ours, as a
// client would send it, in its own spelling.
func historyBody(t *rapid.T, d wire.Dialect, calls []call) string {
	spell := pick(t, "spelling", "compact", "indented", "escaped", "sorted")
	respell := func(args string) string {
		var v any
		dec := json.NewDecoder(strings.NewReader(args))
		dec.UseNumber()
		if dec.Decode(&v) != nil {
			return args
		}
		switch spell {
		case "indented":
			b, _ := json.MarshalIndent(v, "", "  ")
			return string(b)
		case "escaped", "sorted":
			b, _ := json.Marshal(v) // escapes <, > and & and sorts the keys
			return string(b)
		}
		return args
	}
	var b strings.Builder
	if d == wire.Responses {
		b.WriteString(`{"model":"m", "store":false, "input":[{"role":"user","content":"go"}, {"type":"reasoning","summary":[],"encrypted_content":"` + secret + `"}`)
		for _, c := range calls {
			fmt.Fprintf(&b, `, {"type":"function_call","call_id":%s,"name":%s,"arguments":%s}`, quote(c.id), quote(c.name), quote(respell(c.args)))
		}
		for _, c := range slices.Backward(calls) {
			fmt.Fprintf(&b, `, {"type":"function_call_output","call_id":%s,"output":"ran"}`, quote(c.id))
		}
		b.WriteString(`],` + toolsOf(d, "Bash", "Read", "lookup") + "}\n")
		return b.String()
	}
	b.WriteString(`{"model":"m", "messages":[{"role":"user","content":"go"},{"role":"assistant","content":`)
	if d == wire.Messages {
		b.WriteString(`[`)
		for i, c := range calls {
			if i > 0 {
				b.WriteString(" ,")
			}
			args := respell(c.args)
			if args == "" {
				args = "{}"
			}
			fmt.Fprintf(&b, `{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.id), quote(c.name), args)
		}
		b.WriteString(`]},{"role":"user","content":[`)
		for i, c := range calls {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, `{"type":"tool_result","tool_use_id":%s,"content":"ran","cache_control":{"type":"ephemeral"}}`, quote(c.id))
		}
		b.WriteString(`]}`)
	} else {
		b.WriteString(`null,"tool_calls":[`)
		for i, c := range calls {
			if i > 0 {
				b.WriteString(" ,")
			}
			fmt.Fprintf(&b, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.id), quote(c.name), quote(respell(c.args)))
		}
		b.WriteString(`]}`)
		for _, c := range calls {
			fmt.Fprintf(&b, `, {"role":"tool","tool_call_id":%s,"content":"ran"}`, quote(c.id))
		}
	}
	b.WriteString(`],` + toolsOf(d, "Bash", "Read", "lookup") + "}\n")
	return b.String()
}

func TestRestorationHasNoState(t *testing.T) {
	for _, d := range allDialects {
		t.Run(string(d), func(t *testing.T) {
			first := newBench(t)
			rapid.Check(t, func(t *rapid.T) {
				var calls []call
				for i, c := range drawCalls(t, false) {
					c.id = fmt.Sprintf("call_%d", i)
					calls = append(calls, c)
				}
				stream := ""
				switch d {
				case wire.Messages:
					stream = messagesStream("", calls, 9)
				case wire.Chat:
					stream = chatStream("", calls, 9)
				case wire.Responses:
					stream = responded("", calls, 9, true)
				}
				out, status, _ := first.serve(d, plainRequest(d), []byte(stream))
				if status != 200 {
					t.Fatalf("status %d: %s", status, out)
				}
				var decided = map[string]bool{}
				for _, m := range first.made {
					decided[m.CallID] = m.Allowed
				}
				got, err := readers(d)[0].read(out)
				if err != nil || len(got) != len(calls) {
					t.Fatalf("%v, %d of %d calls", err, len(got), len(calls))
				}
				for i := range got {
					got[i].name = strings.TrimPrefix(got[i].name, "function_call ")
				}
				body := historyBody(t, d, got)
				up := func(b *bench) []byte {
					if out, status, _ := b.serve(d, body, []byte(`{}`)); status != 200 {
						t.Fatalf("status %d: %s", status, out)
					}
					return b.up.got
				}
				// The handler that refused, another with the same key, which is
				// also one after a restart, and the first once more.
				one, two, again := up(first), up(newBench(t)), up(first)
				if !bytes.Equal(one, two) || !bytes.Equal(one, again) {
					t.Fatalf("the same request went up as\n%q\n%q\n%q", one, two, again)
				}
				if bytes.Contains(one, []byte("gp1:")) {
					t.Fatalf("a seal went up: %q", one)
				}
				all := true
				var dd dialect
				dd.path = path(d)
				for i, p := range dd.history(t, one) {
					if decided[p.id] {
						continue
					}
					all = false
					want := calls[i]
					if d == wire.Messages {
						// Nothing can't stand there, and json.RawMessage has no
						// white space around it.
						if want.args = strings.TrimSpace(want.args); want.args == "" {
							want.args = "{}"
						}
					}
					if p.call != want {
						t.Fatalf("restored %q, want %q", p.call, want)
					}
					if !strings.HasPrefix(p.result.text, "guardproxy: not executed.") {
						t.Fatalf("the result is %q", p.result.text)
					}
				}
				if all && string(one) != body {
					t.Fatalf("nothing was to be restored, and the body changed:\n%q\n%q", body, one)
				}
				// What is restored stays: going up again changes nothing more.
				body = string(one)
				if twice := up(first); string(twice) != body {
					t.Fatalf("a restored body changed again:\n%q\n%q", body, twice)
				}
			})
		})
	}
}

// verdicts is a guard that decides by a hash of what it sees, so that guards
// of different seeds disagree.
type verdicts uint32

func (v verdicts) Check(_ context.Context, c *guards.Call) guards.Verdict {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d %s %s", v, c.Name, c.Arguments)
	switch h.Sum32() % 4 {
	case 0:
		return guards.Verdict{Decision: guards.Deny, Reason: "no"}
	case 1:
		return guards.Verdict{Decision: guards.Ask, Reason: "maybe"}
	case 2:
		if h.Sum32()%8 == 2 {
			panic("a broken guard")
		}
	}
	return guards.Verdict{}
}

func TestAnotherGuardOnlyRefusesMore(t *testing.T) {
	for _, d := range allDialects {
		t.Run(string(d), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var chain []guards.Entry
				for range rapid.IntRange(0, 2).Draw(t, "guards") {
					chain = append(chain, guards.Entry{Name: fmt.Sprintf("g%d", len(chain)), Guard: verdicts(rapid.Uint32Range(0, 50).Draw(t, "seed"))})
				}
				one := guards.Entry{Name: "more", Guard: verdicts(rapid.Uint32Range(0, 50).Draw(t, "seed of one more"))}
				at := rapid.IntRange(0, len(chain)).Draw(t, "place")
				longer := slices.Insert(slices.Clone(chain), at, one)
				s := drawStream(t, d, false)
				few, many := newBench(t, chain...), newBench(t, longer...)
				few.serve(d, plainRequest(d), s)
				many.serve(d, plainRequest(d), s)
				if len(few.made) != len(many.made) {
					t.Fatalf("%d and %d decisions", len(few.made), len(many.made))
				}
				for i := range few.made {
					if !few.made[i].Allowed && many.made[i].Allowed {
						t.Fatalf("one more guard allows %q", few.made[i].Arguments)
					}
				}
			})
		})
	}
}
