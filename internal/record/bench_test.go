package record

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// agentTurn is an exchange of 400 kB that was rewritten, as a coding agent has
// them by the hundred.
func agentTurn() *Exchange {
	text := strings.Repeat("func main() {\n\tfmt.Println(\"what a \\\"body\\\" looks like\", 42)\n}\n", 80)
	message, _ := json.Marshal(text)
	body := []byte(`{"model":"m","messages":[`)
	for len(body) < 400<<10 {
		body = append(append(append(body, `{"role":"user","content":`...), message...), `},`...)
	}
	body = append(body[:len(body)-1], `]}`...)
	return &Exchange{Session: "aa", Dialect: "anthropic-messages", ClientBody: body, UpstreamBody: append([]byte(" "), body...), Usage: json.RawMessage(`{"input_tokens":1}`)}
}

// BenchmarkReader reads recordings; its peers count the lines of the same bytes
// and decode them with encoding/json.
func BenchmarkReader(b *testing.B) {
	x := agentTurn()
	file := AppendHeader(nil, nil)
	for range 8 {
		file = AppendExchange(file, x)
	}
	b.Run("record", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		b.ReportAllocs()
		for b.Loop() {
			r := NewReader(bytes.NewReader(file))
			for {
				if _, err := r.Next(); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("count-lines", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			bytes.Count(file, []byte("\n"))
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		b.ReportAllocs()
		for b.Loop() {
			dec := json.NewDecoder(bytes.NewReader(file))
			for {
				var v struct {
					Client   string `json:"client_body"`
					Upstream string `json:"upstream_body"`
				}
				if err := dec.Decode(&v); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkWrite is what the recorder does with an exchange before the disk.
func BenchmarkWrite(b *testing.B) {
	x := agentTurn()
	size := int64(len(x.ClientBody) + len(x.UpstreamBody))
	var line []byte
	b.Run("mask", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			testMasker.Mask(x.ClientBody)
			testMasker.Mask(x.UpstreamBody)
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			line = AppendExchange(line[:0], x)
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			json.Marshal(map[string]string{"client_body": string(x.ClientBody), "upstream_body": string(x.UpstreamBody)})
		}
	})
}
