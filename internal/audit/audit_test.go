package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func record() Record {
	return Record{
		Time:    time.Date(2026, 11, 1, 12, 30, 0, 123456789, time.UTC),
		Session: "0123456789abcdef0123456789abcdef", Client: "claude-code",
		Dialect: "anthropic-messages", Model: "m-1", CallID: "toolu_1", Tool: "Bash", Kind: "shell",
		Decision: Refuse, Cause: "policy", Guard: "no-force-push",
		Reason:      "a guard denied the call",
		Arguments:   []byte(`{"command":"git push --force <branch>"}`),
		GuardReason: "git push --force is not allowed",
		Notes:       []string{"matched argv 0"},
	}
}

func verdicts(r *Record) {
	r.Verdicts = []Verdict{
		{Guard: "no-force-push", Verdict: "deny", Cause: "policy", Reason: "git push --force is not allowed"},
		{Guard: "new", Verdict: "deny", Cause: "trap", Observed: true, Detail: "wasm error: unreachable", Stderr: "panic: index out of range"},
	}
}

func open(t *testing.T, path string, o Options) *Log {
	t.Helper()
	if o.Key == nil {
		o.Key = []byte("test key")
	}
	l, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLine(t *testing.T) {
	const head = `{"time":"2026-11-01T12:30:00.123456789Z","session":"0123456789abcdef0123456789abcdef","client":"claude-code","dialect":"anthropic-messages","model":"m-1","call_id":"toolu_1","tool":"Bash","kind":"shell","decision":"refuse","cause":"policy","guard":"no-force-push","reason":"a guard denied the call","arguments_hmac":"HMAC"`
	mac := func(line string) string {
		var v struct {
			HMAC string `json:"arguments_hmac"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || len(v.HMAC) != 64 {
			t.Fatalf("hmac %q, %v in %s", v.HMAC, err, line)
		}
		return v.HMAC
	}
	for _, c := range []struct {
		name string
		o    Options
		edit func(*Record)
		want string
	}{
		{"arguments off", Options{}, nil, head + "}\n"},
		{"arguments on", Options{Arguments: true}, nil,
			head + `,"arguments":"{\"command\":\"git push --force <branch>\"}","guard_reason":"git push --force is not allowed","notes":["matched argv 0"]}` + "\n"},
		{"what guards said, without their words", Options{}, verdicts,
			head + `,"verdicts":[{"guard":"no-force-push","verdict":"deny","cause":"policy"},{"guard":"new","verdict":"deny","cause":"trap","observed":true,"detail":"wasm error: unreachable"}]}` + "\n"},
		{"what guards said, with their words", Options{Arguments: true}, func(r *Record) { verdicts(r); r.Notes = nil },
			head + `,"arguments":"{\"command\":\"git push --force <branch>\"}","guard_reason":"git push --force is not allowed","verdicts":[{"guard":"no-force-push","verdict":"deny","cause":"policy","reason":"git push --force is not allowed"},{"guard":"new","verdict":"deny","cause":"trap","observed":true,"detail":"wasm error: unreachable","stderr":"panic: index out of range"}]}` + "\n"},
		{"bytes that are no text", Options{Arguments: true}, func(r *Record) { r.Arguments, r.GuardReason, r.Notes = []byte("\xff"), "", nil },
			head + `,"arguments":{"base64":"/w=="}}` + "\n"},
		{"an allowed call of an unknown client", Options{}, func(r *Record) {
			*r = Record{Time: r.Time, Session: "s", Dialect: "openai-chat", CallID: "c", Tool: "t", Decision: Allow}
		}, `{"time":"2026-11-01T12:30:00.123456789Z","session":"s","dialect":"openai-chat","call_id":"c","tool":"t","decision":"allow","arguments_hmac":"HMAC"}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			l := open(t, path, c.o)
			r := record()
			if c.edit != nil {
				c.edit(&r)
			}
			l.Write(r)
			got := read(t, path)
			if d := cmp.Diff(c.want, strings.Replace(got, mac(got), "HMAC", 1)); d != "" {
				t.Error(d)
			}
		})
	}
}

// The hash tells equal arguments from different ones, and only to the key's
// owner.
func TestArgumentsHMAC(t *testing.T) {
	hash := func(arguments, key string) string {
		var v struct {
			HMAC string `json:"arguments_hmac"`
		}
		if err := json.Unmarshal(encode(Record{Arguments: []byte(arguments)}, Options{Key: []byte(key)}), &v); err != nil {
			t.Fatal(err)
		}
		return v.HMAC
	}
	// RFC 4231, test case 2.
	if got, want := hash("what do ya want for nothing?", "Jefe"), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"; got != want {
		t.Errorf("hmac %s, want %s", got, want)
	}
	if hash(`{"a":1}`, "k") == hash(`{"a": 1}`, "k") || hash(`{"a":1}`, "k") == hash(`{"a":1}`, "l") {
		t.Error("different bytes or keys give the same hash")
	}
}

func TestNoKeyNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if _, err := Open(path, Options{}); err == nil {
		t.Error("a log without a key was opened")
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, hint string }{
		{"a symlink", link, "symlinks"},
		{"a missing directory", filepath.Join(dir, "none", "audit.jsonl"), "create the directory"},
		{"a directory", dir, "audit.file"},
		{"a pipe without a reader", pipe, "audit.file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(c.path, Options{Key: []byte("k")})
			var oe *OpenError
			if !errors.As(err, &oe) {
				t.Fatalf("error %v, want an OpenError", err)
			}
			if !strings.Contains(oe.Hint(), c.hint) {
				t.Errorf("hint %q does not mention %q", oe.Hint(), c.hint)
			}
			if strings.Count(err.Error(), c.path) != 1 {
				t.Errorf("error %q does not name the path once", err)
			}
		})
	}
	// A pipe somebody reads can be opened, and is refused for what it is.
	r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := Open(pipe, Options{Key: []byte("k")}); !errors.Is(err, errNotRegular) {
		t.Errorf("a pipe with a reader: error %v", err)
	}
}

func TestModeIs0600(t *testing.T) {
	dir := t.TempDir()
	wide := filepath.Join(dir, "wide")
	if err := os.WriteFile(wide, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "new"), wide} {
		l := open(t, path, Options{})
		l.Write(record())
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode().Perm())
		}
	}
	if !strings.HasPrefix(read(t, wide), "before\n{") {
		t.Error("what was in the log is gone")
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "audit.jsonl.1")
	l := open(t, path, Options{})
	l.Write(record())
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	l.Write(record())
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Write(record())
	if a, b := strings.Count(read(t, moved), "\n"), strings.Count(read(t, path), "\n"); a != 2 || b != 1 {
		t.Errorf("%d lines before and %d after, want 2 and 1", a, b)
	}
	// Something in the way: the log goes on in the file it has.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(moved, path); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a symlink was followed")
	}
	l.Write(record())
	if n := l.Dropped(); n != 0 {
		t.Errorf("%d lines dropped after a failed reopen", n)
	}
	if n := strings.Count(read(t, moved), "\n"); n != 2 {
		t.Errorf("the symlink's target has %d lines", n)
	}
}

// disk is a file on a disk that can fill up.
type disk struct {
	bytes.Buffer
	room int // -1: no limit
}

func (d *disk) Write(p []byte) (int, error) {
	if d.room >= 0 && len(p) > d.room {
		n, _ := d.Buffer.Write(p[:d.room])
		d.room = 0
		return n, syscall.ENOSPC
	}
	if d.room >= 0 {
		d.room -= len(p)
	}
	return d.Buffer.Write(p)
}
func (d *disk) Close() error { return nil }

func TestFailureIsReportedOnceAndCounted(t *testing.T) {
	var failures []error
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, Options{Failed: func(err error) { failures = append(failures, err) }})
	d := &disk{room: 100}
	l.w.Close()
	l.w = d
	for range 3 {
		l.Write(record())
	}
	if len(failures) != 1 || !errors.Is(failures[0], syscall.ENOSPC) || !strings.Contains(failures[0].Error(), path) {
		t.Fatalf("reported: %v", failures)
	}
	if l.Dropped() != 3 {
		t.Errorf("%d dropped, want 3", l.Dropped())
	}
	d.room = -1
	l.Write(record())
	l.Write(record())
	lines := strings.Split(strings.TrimSuffix(d.String(), "\n"), "\n")
	if len(lines) != 3 || json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) || !json.Valid([]byte(lines[2])) {
		t.Errorf("one torn line and two whole ones expected:\n%s", d)
	}
	if l.Dropped() != 3 {
		t.Errorf("%d dropped after the disk had room again, want 3", l.Dropped())
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Write(record())
	l.Write(record())
	if len(failures) != 2 || !errors.Is(failures[1], os.ErrClosed) || l.Dropped() != 5 {
		t.Errorf("after Reopen and Close: %d reports, %d dropped; want 2 and 5", len(failures), l.Dropped())
	}
}

func TestNilLogDiscards(t *testing.T) {
	var l *Log
	l.Write(record())
	if l.Dropped() != 0 || l.Reopen() != nil || l.Close() != nil {
		t.Error("a nil log does something")
	}
}

func TestConcurrentWritersKeepLinesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, Options{Arguments: true})
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				r := record()
				r.CallID = fmt.Sprint(w, "-", i)
				r.Arguments = bytes.Repeat([]byte{'a' + byte(w)}, 5000)
				l.Write(r)
				if i%10 == 0 {
					if err := l.Reopen(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	scan := bufio.NewScanner(strings.NewReader(read(t, path)))
	for scan.Scan() {
		var v struct {
			CallID string `json:"call_id"`
		}
		if err := json.Unmarshal(scan.Bytes(), &v); err != nil {
			t.Fatalf("a line that is no JSON: %v", err)
		}
		seen[v.CallID] = true
	}
	if err := scan.Err(); err != nil || len(seen) != writers*each {
		t.Errorf("%d calls in the log, want %d (%v)", len(seen), writers*each, err)
	}
}

// For all records, whatever a model put into them: one line, valid JSON, of a
// bounded length; and without arguments: true no free text of model or guard.
func TestLineProperties(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`(?s).{0,400}`), rapid.SampledFrom([]string{"\n", "\xff\xfe", " ", "\x00", `"}`}))
	rapid.Check(t, func(t *rapid.T) {
		const secret = "hunter2-in-the-arguments"
		r := Record{
			Session: text.Draw(t, "session"), Client: text.Draw(t, "client"), Dialect: text.Draw(t, "dialect"),
			Model: text.Draw(t, "model"), CallID: text.Draw(t, "call"), Tool: text.Draw(t, "tool"), Kind: text.Draw(t, "kind"),
			Decision: Refuse, Cause: text.Draw(t, "cause"), Guard: text.Draw(t, "guard"),
			Arguments:   []byte(text.Draw(t, "arguments") + secret),
			GuardReason: secret, Notes: []string{secret},
		}
		o := Options{Key: []byte("k"), Arguments: rapid.Bool().Draw(t, "with arguments")}
		b := encode(r, o)
		if !json.Valid(b) || bytes.IndexByte(b, '\n') != len(b)-1 {
			t.Fatalf("not one line of JSON: %q", b)
		}
		if !o.Arguments {
			if bytes.Contains(b, []byte(secret)) {
				t.Fatalf("free text in %s", b)
			}
			if len(b) > 9*(maxText+3)*6+512 {
				t.Fatalf("a line of %d bytes", len(b))
			}
		}
	})
}
