package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
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
