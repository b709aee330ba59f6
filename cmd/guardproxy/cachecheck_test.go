package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// endlessLines is an endless file of request bodies; after says what happens when some
// have been read.
type endlessLines struct {
	n     int
	after func()
}

func (l *endlessLines) Read(p []byte) (int, error) {
	l.n++
	if l.n == 3 {
		l.after()
	}
	return copy(p, fmt.Sprintf(`{"model":"gpt-5","messages":[{"role":"user","content":"question %d"}]}`+"\n", l.n)), nil
}

// TestCachecheckEndsOnCtrlC: what was found is written, and it is said that it
// is not all.
func TestCachecheckEndsOnCtrlC(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	code := run(ctx, []string{"cachecheck", "-"}, stdio{&endlessLines{after: cancel}, &out, &errs})
	if code != exitInput || !strings.Contains(errs.String(), "error: interrupted after ") || !strings.Contains(out.String(), " compared in ") {
		t.Errorf("code %d\n%s%s", code, out.String(), errs.String())
	}
}

// endlessRecording is a recording without an end; after says what happens when
// some of it has been read.
type endlessRecording struct {
	n     int
	after func()
}

func (l *endlessRecording) Read(p []byte) (int, error) {
	l.n++
	switch l.n {
	case 1:
		return copy(p, `{"v":1,"rules":{}}`+"\n"), nil
	case 20:
		l.after()
	}
	return copy(p, `{"session":"s","dialect":"anthropic-messages","method":"POST","path":"/v1/messages","client_body":"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"}`+"\n"), nil
}

// TestProofEndsOnCtrlC: half of a proof is none, and what the ended processes
// did not answer is no finding.
func TestProofEndsOnCtrlC(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	code := run(ctx, []string{"cachecheck", "--prove", "--processes", "1", "-"}, stdio{&endlessRecording{after: cancel}, &out, &errs})
	if code != exitInput || out.Len() > 0 || !strings.Contains(errs.String(), "error: interrupted: nothing is proved\n") {
		t.Errorf("code %d\n%s%s", code, out.String(), errs.String())
	}
}

// TestProofWithoutItsProcess: the same for a process that something else ended.
func TestProofWithoutItsProcess(t *testing.T) {
	p, err := startRewriter(t.Context(), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	got, err := p.rewrite("anthropic-messages", []byte("{}"), body)
	if err != nil || !bytes.Equal(got.Body, body) || unanswered([]*rewriterProcess{p}) != nil {
		t.Fatalf("%q %v", got.Body, err)
	}
	p.cmd.Process.Kill()
	p.cmd.Process.Wait()
	_, err = p.rewrite("anthropic-messages", []byte("{}"), body)
	lost := unanswered([]*rewriterProcess{{}, p})
	if err == nil || lost == nil || !strings.Contains(lost.Error(), "fresh process 2 ended before its work was done") || hintOf(lost) == "" {
		t.Errorf("%v, %v", err, lost)
	}
}

// fails is a writer to which nothing can be written.
type fails struct{}

func (fails) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestCachecheckCantWrite: a report that nobody got is no success.
func TestCachecheckCantWrite(t *testing.T) {
	for _, flag := range []string{"--json", "--sarif", "--all"} {
		var errs bytes.Buffer
		code := run(t.Context(), []string{"cachecheck", flag, "../../testdata/transcripts/append_openai_chat.jsonl"}, stdio{strings.NewReader(""), fails{}, &errs})
		if code != exitInput || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%s: code %d %s", flag, code, errs.String())
		}
	}
}

// brokenDisk gives half of a file and then an error.
type brokenDisk struct{ r io.Reader }

func (b brokenDisk) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = errors.New("input/output error")
	}
	return n, err
}

// TestCachecheckCantRead: a file that can't be read to its end is an error,
// whatever the part before says.
func TestCachecheckCantRead(t *testing.T) {
	body := `{"model":"gpt-5","messages":[{"role":"user","content":"x"}]}` + "\n"
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"cachecheck", "-"}, stdio{brokenDisk{strings.NewReader(body + body)}, &out, &errs})
	if code != exitInput || !strings.Contains(errs.String(), "input/output error") {
		t.Errorf("code %d\n%s%s", code, out.String(), errs.String())
	}
}

// TestProgress: how far a long input is, on a line of its own that goes away.
func TestProgress(t *testing.T) {
	var w bytes.Buffer
	p := &progress{on: true, w: &w, next: time.Now().Add(-time.Second)}
	p.start("/tmp/a\x1b.jsonl", 4<<20)
	p.add(1 << 20)
	p.add(1 << 20) // too soon for another line
	p.next, p.requests = time.Now().Add(-time.Second), 7
	p.add(1 << 20)
	p.clear()
	if got := w.String(); got != "\r\x1b[Kguardproxy: a?.jsonl: 25% of 4 MB\r\x1b[Kguardproxy: a?.jsonl: 75% of 4 MB, 7 requests\r\x1b[K" {
		t.Errorf("%q", got)
	}
}
