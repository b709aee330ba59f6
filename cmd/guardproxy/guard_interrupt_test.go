package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuardVerbsEndOnCtrlC: an interrupted verb has found nothing, and says
// nothing of the module that it was loading.
func TestGuardVerbsEndOnCtrlC(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	cases, recording := filepath.Join(dir, "cases.jsonl"), filepath.Join(dir, "s.jsonl")
	for path, text := range map[string]string{
		cases:     `{"name":"a","call":{"name":"bash","arguments":{"command":"ls"}},"want":"pass"}` + "\n",
		recording: `{"v":1,"rules":{}}` + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"guard", "test", "call-budget", cases},
		{"guard", "bench", "call-budget", cases},
		{"guard", "replay", recording, "call-budget"},
	} {
		t.Run(args[1], func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(ctx, args, stdio{strings.NewReader(""), &out, &errs})
			if code != exitInput || out.Len() > 0 || errs.String() != "guardproxy: error: interrupted\n" {
				t.Errorf("code %d\n%s%s", code, out.String(), errs.String())
			}
		})
	}
}
