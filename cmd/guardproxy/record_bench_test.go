package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/proxy"
)

// BenchmarkRecord sends requests of 400 kB through the proxy, with and without
// a recording. The recorder's own work is beside the requests; on few cores it
// is in their way, and "lost" says how much of it the queue did not take.
func BenchmarkRecord(b *testing.B) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"id":"m","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1}}`)
	}))
	defer up.Close()
	var body strings.Builder
	body.WriteString(`{"model":"m","tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"},"dangerouslyDisableSandbox":{"type":"boolean"}}}}],"messages":[{"role":"user","content":"go"}`)
	for i := 0; body.Len() < 400_000; i++ {
		fmt.Fprintf(&body, `,{"role":"user","content":"%s"}`, strings.Repeat(`\tif err := f(); err != nil {\n\t\treturn fmt.Errorf(\"f: %w\", err)\n\t}\n`, 12))
	}
	body.WriteString(`]}`)
	secrets := [][]byte{make([]byte, 32)}
	ring, err := envelope.NewKeyring(secrets...)
	if err != nil {
		b.Fatal(err)
	}
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("recording=%v", on), func(b *testing.B) {
			o := proxy.Options{Upstreams: []proxy.Upstream{{URL: up.URL}}, Keys: secrets, Policy: proxy.Policy{Mode: "workspace-write", Approval: "never"}}
			var rec *record.Recorder
			if on {
				if rec, err = record.Open(filepath.Join(b.TempDir(), "rec"), record.Options{Key: secrets[0]}); err != nil {
					b.Fatal(err)
				}
				o.Recorded = recorded(rec, ring)
			}
			h, err := proxy.New(o)
			if err != nil {
				b.Fatal(err)
			}
			front := httptest.NewServer(h)
			defer front.Close()
			text := []byte(body.String())
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				resp, err := http.Post(front.URL+"/v1/messages", "application/json", bytes.NewReader(text))
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			b.StopTimer()
			rec.Close(context.Background())
			if lost := rec.Stats().Lost; on {
				b.ReportMetric(float64(lost[record.LostFull]+lost[record.LostWrite]), "lost")
			}
		})
	}
}
