package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
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

// TestWaitingVerbsEndOnCtrlC: so do those that wait for what stands on a pipe,
// where a read never returns.
func TestWaitingVerbsEndOnCtrlC(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	fifo := filepath.Join(t.TempDir(), "pipe.jsonl")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, args, want string }{
		{"schema narrow", "schema narrow", "guardproxy: error: interrupted\n"},
		{"schema diff", "schema diff", "guardproxy: error: interrupted\n"},
		{"cachecheck", "cachecheck -", "guardproxy: error: interrupted after 0 requests\n"},
		{"cachecheck of a pipe", "cachecheck " + fifo, "guardproxy: error: interrupted after 0 requests\n"},
		{"proof", "cachecheck --prove --processes 1 -", "guardproxy: error: interrupted: nothing is proved\n"},
		{"replay", "guard replay " + fifo + " call-budget", "guardproxy: error: interrupted\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Open for reading and writing: neither a reader nor a writer waits.
			held, err := os.OpenFile(fifo, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			ctx, cancel := context.WithCancel(t.Context())
			in := &waiting{reached: cancel, never: make(chan struct{})}
			if strings.Contains(c.args, fifo) {
				// More than a pipe holds: when all is written, it is being read.
				go func() {
					fmt.Fprint(held, `{"v":1,"rules":{}}`, strings.Repeat("\n", 1<<20))
					cancel()
				}()
			}
			var out, errs bytes.Buffer
			code := run(ctx, strings.Fields(c.args), stdio{in, &out, &errs})
			if code != exitInput || !strings.HasPrefix(errs.String(), c.want) {
				t.Errorf("code %d\n%s%s", code, out.String(), errs.String())
			}
		})
	}
}

// waiting is a terminal at which nobody types.
type waiting struct {
	reached func()
	never   chan struct{}
}

func (w *waiting) Read([]byte) (int, error) {
	w.reached()
	<-w.never
	return 0, io.EOF
}

// TestInterruptible: what is read is what the source gives, in whatever pieces.
func TestInterruptible(t *testing.T) {
	want := strings.Repeat("0123456789", 10_000)
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(want), "bytes": iotest.OneByteReader(strings.NewReader(want)), "end with data": iotest.DataErrReader(strings.NewReader(want)),
	} {
		got, err := io.ReadAll(untilDone(t.Context(), r))
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := io.ReadAll(untilDone(t.Context(), iotest.ErrReader(io.ErrUnexpectedEOF))); err != io.ErrUnexpectedEOF {
		t.Errorf("an error of the source: %v", err)
	}
}
