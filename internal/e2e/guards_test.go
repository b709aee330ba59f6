package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/proxy"
)

// 400 streams at once through eight guards: every call is judged as itself,
// the refusal of one is never another's, and afterwards all is as it was.
func TestManyStreamsThroughManyGuards(t *testing.T) {
	const streams = 400
	module, err := os.ReadFile("../../guards/wasm/testdata/echo.wasm")
	if err != nil {
		t.Fatal(err)
	}
	code := t.TempDir()
	if err := os.Chmod(code, 0o700); err != nil {
		t.Fatal(err)
	}
	var chain guards.Chain
	for i := range 8 {
		g, err := wasm.Load(t.Context(), module, wasm.Options{Name: fmt.Sprint("g", i), Deadline: time.Minute, CacheDir: code})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		chain = append(chain, guards.Entry{Name: fmt.Sprint("g", i), Guard: g, Observe: i == 0})
	}
	// No stream ends before all of them have begun.
	var begun atomic.Int64
	all := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) != 1 {
			t.Errorf("upstream got %v %v", q, err)
			return
		}
		name := q.Messages[0].Content
		ev := func(typ, rest string) {
			fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", typ, typ, rest)
			w.(http.Flusher).Flush()
		}
		ev("message_start", `,"message":{"id":"m","content":[]}`)
		ev("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"toolu_`+name+`","name":"Bash","input":{}}`)
		if begun.Add(1) == streams {
			close(all)
		}
		<-all
		ev("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\":"}`)
		ev("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"\"`+name+`\"}"}`)
		ev("content_block_stop", `,"index":0`)
		ev("message_delta", `,"delta":{"stop_reason":"tool_use"}`)
		ev("message_stop", "")
	}))
	defer up.Close()
	var allowed, refused atomic.Int64
	h, err := proxy.New(proxy.Options{
		Upstreams: []proxy.Upstream{{Name: "test", URL: up.URL}}, Keys: [][]byte{testKey},
		Policy: proxy.Policy{Mode: "workspace-write", Approval: "never"}, Guards: chain,
		Decided: func(d proxy.Decision) {
			if len(d.Verdicts) != 8 {
				t.Errorf("%d guards judged %s", len(d.Verdicts), d.Arguments)
			}
			if d.Allowed {
				allowed.Add(1)
			} else {
				refused.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(h)
	defer front.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	goroutines := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			name := fmt.Sprintf("%c-%d-", "pn"[i%2], i)
			ask, err := json.Marshal(map[string]any{"model": "m", "stream": true, "messages": []any{map[string]string{"role": "user", "content": name}},
				"tools": []any{map[string]any{"name": "Bash", "input_schema": map[string]any{"type": "object", "properties": map[string]any{"command": map[string]string{"type": "string"}}, "required": []string{"command"}}}}})
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Post(front.URL+"/s/"+strings.Trim(name, "-")+"/v1/messages", "application/json", bytes.NewReader(ask))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body := string(b)
			says := strings.Contains(body, "guard g1 says: "+name)
			runs := strings.Contains(body, `"partial_json":"\"`+name+`\"}"`)
			if says == (i%2 == 0) || runs == (i%2 == 1) || !strings.Contains(body, "message_stop") || strings.Count(body, "toolu_"+name) == 0 {
				t.Errorf("%s got\n%s", name, body)
			}
		})
	}
	wg.Wait()
	if allowed.Load() != streams/2 || refused.Load() != streams/2 {
		t.Errorf("%d allowed, %d refused", allowed.Load(), refused.Load())
	}
	transport.CloseIdleConnections()
	front.CloseClientConnections()
	up.CloseClientConnections()
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines+8; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines before, %d after", goroutines, runtime.NumGoroutine())
		}
	}
}

// A request beside two stuck guests of each kind, and without them: 1 would be
// no slower. Their guards are not the request's.
func BenchmarkRequestBesideStuckGuests(b *testing.B) {
	const dir = "../../guards/wasm/testdata/"
	code := b.TempDir()
	if err := os.Chmod(code, 0o700); err != nil {
		b.Fatal(err)
	}
	open := func(name string, o wasm.Options) *wasm.Guard {
		module, err := os.ReadFile(dir + name + ".wasm")
		if err != nil {
			b.Fatal(err)
		}
		o.CacheDir = code
		g, err := wasm.Load(b.Context(), module, o)
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	const reply = `{"content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]}`
	const ask = `{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}`
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, reply) }))
	defer up.Close()
	good := open("echo", wasm.Options{Deadline: time.Minute})
	defer good.Close()
	h, err := proxy.New(proxy.Options{Upstreams: []proxy.Upstream{{Name: "test", URL: up.URL}}, Keys: [][]byte{testKey},
		Policy: proxy.Policy{Mode: "workspace-write", Approval: "never"}, Guards: guards.Chain{{Name: "echo", Guard: good}}})
	if err != nil {
		b.Fatal(err)
	}
	front := httptest.NewServer(h)
	defer front.Close()
	measure := func() time.Duration {
		var took []time.Duration
		for range 60 {
			start := time.Now()
			resp, err := http.Post(front.URL+"/v1/messages", "application/json", strings.NewReader(ask))
			if err != nil {
				b.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(got) != reply {
				b.Fatalf("got %s", got)
			}
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	for _, kind := range []string{"loop", "hostile/exponential", "hostile/fill_loop", "hostile/copy_loop", "hostile/touch_loop", "hostile/get_loop", "hostile/random_loop"} {
		b.Run(strings.TrimPrefix(kind, "hostile/"), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + wasm.ProcessSlots())) // as serve does; testing sets it for each b.Run
			var alone, beside []time.Duration
			stuck := []*wasm.Guard{open(kind, wasm.Options{Deadline: time.Hour, Fuel: 1 << 60}), open(kind, wasm.Options{Deadline: time.Hour, Fuel: 1 << 60})}
			var calls int64
			for b.Loop() {
				alone = append(alone, measure())
				ctx, cancel := context.WithCancel(b.Context())
				var wg sync.WaitGroup
				for _, g := range stuck {
					wg.Go(func() { g.Check(ctx, &guards.Call{Name: "bash"}) })
				}
				for calls += 2; stuck[0].Stats().Calls+stuck[1].Stats().Calls < calls; {
					runtime.Gosched()
				}
				beside = append(beside, measure())
				cancel()
				wg.Wait()
			}
			for _, g := range stuck {
				g.Close()
			}
			slices.Sort(alone)
			slices.Sort(beside)
			a, s := alone[len(alone)/2], beside[len(beside)/2]
			b.ReportMetric(float64(a.Microseconds()), "alone-us")
			b.ReportMetric(float64(s.Microseconds()), "beside-us")
			b.ReportMetric(float64(s)/float64(a), "beside/alone")
		})
	}
}
