package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T, dir string, o Options) *Recorder {
	t.Helper()
	o.Key = []byte("a key")
	r, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func exchange(session string, n int) *Exchange {
	x := &Exchange{Session: session, Status: n, ClientBody: []byte(`{}`), Rules: json.RawMessage(`{"drop":["x"]}`)}
	x.UpstreamBody = x.ClientBody
	return x
}

// statuses are those of the exchanges in a session's file, and how many header
// lines it has; nothing may be damaged in it but what skip names.
func statuses(t *testing.T, dir, session, skip string) (got []int, headers int) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, Name(session)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader(f)
	for {
		x, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got, headers = append(got, x.Status), x.Header
	}
	reasons := ""
	for _, s := range r.Skipped() {
		reasons += fmt.Sprintf("%s %d", s.Reason, s.Lines)
	}
	if reasons != skip {
		t.Errorf("skipped %q, want %q", reasons, skip)
	}
	return got, headers
}

// Many sessions, more than files stay open, added from many goroutines: each
// file has its own session's exchanges, in the order in which they were added,
// under one header.
func TestRecorderKeepsSessionsApart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	r := open(t, dir, Options{Files: 3})
	var wg sync.WaitGroup
	var prepared, done atomic.Int64
	const sessions, each = 12, 25
	for s := range sessions {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range each {
				r.Add(exchange(fmt.Sprintf("%032x", s), n+1), func(*Exchange) { prepared.Add(1) }, func() { done.Add(1) })
			}
		}()
	}
	wg.Wait()
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); s.Recorded != sessions*each || len(s.Lost) > 0 || prepared.Load() != sessions*each || done.Load() != sessions*each {
		t.Fatalf("%+v, prepared %d, done %d", s, prepared.Load(), done.Load())
	}
	for s := range sessions {
		got, _ := statuses(t, dir, fmt.Sprintf("%032x", s), "")
		if len(got) != each {
			t.Fatalf("session %d has %d exchanges", s, len(got))
		}
		for n, status := range got {
			if status != n+1 {
				t.Fatalf("session %d: %v", s, got)
			}
		}
	}
}

// What a killed process left is gone on with: below a header of its own, and
// beginning on a line of its own.
func TestRecorderGoesOnInAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	for n := range 3 {
		r := open(t, dir, Options{})
		r.Add(exchange("aa", n+1), nil, nil)
		if err := r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			f, err := os.OpenFile(filepath.Join(dir, Name("aa")), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(f, `{"start":"2026-`)
			f.Close()
		}
	}
	got, headers := statuses(t, dir, "aa", "not valid JSON 1")
	if fmt.Sprint(got) != "[1 2 3]" || headers != 3 {
		t.Errorf("%v under %d headers", got, headers)
	}
}

func TestChangedRulesGetAHeader(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	r := open(t, dir, Options{})
	for n, rules := range []string{"{}", "{}", `{"drop":["y"]}`, "{}", ""} {
		x := exchange("aa", n+1)
		x.Rules = json.RawMessage(rules)
		r.Add(x, nil, nil)
	}
	r.Close(context.Background())
	if got, headers := statuses(t, dir, "aa", ""); fmt.Sprint(got) != "[1 2 3 4 5]" || headers != 4 {
		t.Errorf("%v under %d headers", got, headers)
	}
}

// A disk that is full stops nothing: it is said once and counted, what was
// written before is whole, and recording goes on when there is room again.
func TestAFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	var said []string
	r := open(t, dir, Options{Failed: func(why Loss, err error) { said = append(said, fmt.Sprint(why, ": ", err)) }})
	add := func(n, size int) {
		x := exchange("aa", n)
		x.ClientBody = bytes.Repeat([]byte("x"), size)
		x.UpstreamBody = x.ClientBody
		wait := make(chan struct{})
		r.Add(x, nil, func() { close(wait) })
		<-wait
	}
	add(1, 100)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := limit
	full.Cur = 4096
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	add(2, 1<<20)
	add(3, 1<<20)
	add(4, 10) // there is room for this one
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	add(5, 1<<20)
	r.Close(context.Background())
	if got, headers := statuses(t, dir, "aa", ""); fmt.Sprint(got) != "[1 4 5]" || headers != 1 {
		t.Errorf("%v under %d headers", got, headers)
	}
	if s := r.Stats(); s.Recorded != 3 || s.Lost[LostWrite] != 2 {
		t.Errorf("%+v", s)
	}
	if len(said) != 1 || !strings.Contains(said[0], "file too large") || !strings.Contains(said[0], Name("aa")) {
		t.Errorf("said %q", said)
	}
}

// What can't be written is not followed and not waited for.
func TestFilesThatCantBeWritten(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"a directory": {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, "is a directory"},
		"a symlink": {func(t *testing.T, path string) {
			must(t, os.Symlink(filepath.Join(filepath.Dir(filepath.Dir(path)), "elsewhere"), path))
		}, "too many levels of symbolic links"},
		"a pipe": {func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) }, "not a regular file"},
		"a hard link": {func(t *testing.T, path string) {
			other := filepath.Join(filepath.Dir(filepath.Dir(path)), "elsewhere")
			must(t, os.WriteFile(other, nil, 0o600))
			must(t, os.Link(other, path))
		}, "second name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rec")
			var said []error
			r := open(t, dir, Options{Failed: func(_ Loss, err error) { said = append(said, err) }})
			c.make(t, filepath.Join(dir, Name("aa")))
			r.Add(exchange("aa", 1), nil, nil)
			r.Add(exchange("bb", 2), nil, nil)
			r.Close(context.Background())
			if len(said) != 1 || !strings.Contains(said[0].Error(), c.want) {
				t.Errorf("said %v, want %q", said, c.want)
			}
			if s := r.Stats(); s.Recorded != 1 || s.Lost[LostWrite] != 1 {
				t.Errorf("%+v", s)
			}
			if fi, err := os.Stat(filepath.Join(filepath.Dir(dir), "elsewhere")); err == nil && fi.Size() > 0 {
				t.Error("it was followed")
			}
			if got, _ := statuses(t, dir, "bb", ""); len(got) != 1 {
				t.Errorf("the other session has %v", got)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A session's id that is no name, a panic on the way, and a file that went
// away lose one exchange at most.
func TestOddExchanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	r := open(t, dir, Options{})
	flush := func() {
		wait := make(chan struct{})
		r.Add(exchange("ff", 1), nil, func() { close(wait) })
		<-wait
	}
	for _, session := range []string{"", "../aa", "a/b", "AA", strings.Repeat("a", 65), "a\x00"} {
		r.Add(exchange(session, 1), nil, nil)
	}
	r.Add(exchange("aa", 1), func(*Exchange) { panic("on the way") }, nil)
	r.Add(exchange("aa", 2), nil, nil)
	flush()
	must(t, os.Remove(filepath.Join(dir, Name("aa"))))
	r.Add(exchange("aa", 3), nil, nil)
	flush()
	must(t, os.Rename(filepath.Join(dir, Name("aa")), filepath.Join(dir, "kept")))
	r.Add(exchange("aa", 4), nil, nil)
	r.Close(context.Background())
	if got, headers := statuses(t, dir, "aa", ""); fmt.Sprint(got) != "[4]" || headers != 1 {
		t.Errorf("%v under %d headers", got, headers)
	}
	if s := r.Stats(); s.Recorded != 5 || s.Lost[LostWrite] != 7 {
		t.Errorf("%+v", s)
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Errorf("something was written beside the directory: %v", entries)
	}
}

// Whoever rotates the files needs no signal and no pause: whatever was done to
// the file of a session, the next exchange stands in its file under a header,
// and what was kept elsewhere is a whole recording.
func TestRotation(t *testing.T) {
	file := func(dir string) string { return filepath.Join(dir, Name("aa")) }
	for _, c := range []struct {
		name   string
		rotate func(dir string) error
		want   string // the statuses in the session's file, of exchanges 1 to 3
		kept   string // those in the file that was kept
		header int    // in force for the last exchange
	}{
		{"nothing", func(string) error { return nil }, "[1 2 3]", "", 1},
		{"deleted", func(d string) error { return os.Remove(file(d)) }, "[2 3]", "", 1},
		{"moved within the directory", func(d string) error { return os.Rename(file(d), filepath.Join(d, Name("aa.kept"))) }, "[2 3]", "[1]", 1},
		{"moved, and a new one made", func(d string) error {
			return errors.Join(os.Rename(file(d), filepath.Join(d, Name("aa.kept"))), os.WriteFile(file(d), nil, 0o600))
		}, "[2 3]", "[1]", 1},
		{"copied and truncated", func(d string) error {
			old, err := os.ReadFile(file(d))
			return errors.Join(err, os.WriteFile(filepath.Join(d, Name("aa.kept")), old, 0o600), os.Truncate(file(d), 0))
		}, "[2 3]", "[1]", 1},
		{"written to by another hand", func(d string) error {
			f, err := os.OpenFile(file(d), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("\n")
				f.Close()
			}
			return err
		}, "[1 2 3]", "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rec")
			r := open(t, dir, Options{})
			add := func(n int) {
				wait := make(chan struct{})
				r.Add(exchange("aa", n), nil, func() { close(wait) })
				<-wait
			}
			add(1)
			must(t, c.rotate(dir))
			add(2)
			add(3)
			r.Close(context.Background())
			if got, headers := statuses(t, dir, "aa", ""); fmt.Sprint(got) != c.want || headers != c.header {
				t.Errorf("%v under header %d, want %s under %d", got, headers, c.want, c.header)
			}
			if c.kept != "" {
				if got, headers := statuses(t, dir, "aa.kept", ""); fmt.Sprint(got) != c.kept || headers != 1 {
					t.Errorf("kept %v under header %d, want %s", got, headers, c.kept)
				}
			}
			if s := r.Stats(); s.Recorded != 3 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The queue is bounded: what does not fit is counted and let go at once, and
// one exchange always fits, however large.
func TestTheQueueIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	var said []Loss
	r := open(t, dir, Options{Queue: 20 << 10, Failed: func(why Loss, _ error) { said = append(said, why) }})
	hold, held := make(chan struct{}), make(chan struct{})
	var done atomic.Int64
	big := exchange("aa", 1)
	big.ClientBody = bytes.Repeat([]byte("x"), 1<<20)
	big.UpstreamBody = big.ClientBody
	r.Add(big, func(*Exchange) { close(held); <-hold }, func() { done.Add(1) })
	<-held
	r.Add(exchange("aa", 2), nil, func() { done.Add(1) })
	r.Add(exchange("aa", 3), nil, func() { done.Add(1) })
	if done.Load() != 2 {
		t.Errorf("%d were let go while the first is written", done.Load())
	}
	close(hold)
	must(t, r.Close(context.Background()))
	r.Add(exchange("aa", 4), nil, func() { done.Add(1) })
	if s := r.Stats(); s.Recorded != 1 || s.Lost[LostFull] != 2 || s.Lost[LostStopped] != 1 || done.Load() != 4 {
		t.Errorf("%+v, %d let go", s, done.Load())
	}
	if fmt.Sprint(said) != fmt.Sprint([]Loss{LostFull, LostStopped}) {
		t.Errorf("said %v", said)
	}
}

// Close ends in time, whatever the disk does.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "rec"), Options{})
	hold, held := make(chan struct{}), make(chan struct{})
	r.Add(exchange("aa", 1), func(*Exchange) { close(held); <-hold }, nil)
	<-held
	r.Add(exchange("aa", 2), nil, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Close(ctx); err == nil {
		t.Error("no error")
	}
	if s := r.Stats(); s.Lost[LostStopped] != 1 {
		t.Errorf("%+v", s)
	}
	close(hold)
	must(t, r.Close(context.Background()))
}

func TestDirectories(t *testing.T) {
	base := t.TempDir()
	must(t, os.Mkdir(filepath.Join(base, "open"), 0o755))
	must(t, os.Chmod(filepath.Join(base, "open"), 0o755))
	must(t, os.Mkdir(filepath.Join(base, "mine"), 0o700))
	must(t, os.Symlink("mine", filepath.Join(base, "link")))
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	open(t, filepath.Join(base, "taken"), Options{})
	for name, want := range map[string]string{"open": "others may use it", "link": "", "file": "not a directory", "missing/dir": "no such file", "taken": "another guardproxy"} {
		_, err := Open(filepath.Join(base, name), Options{Key: []byte("k")})
		var oe *OpenError
		if !errors.As(err, &oe) || oe.Hint() == "" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(base, "mine")); len(entries) > 0 {
		t.Error("the symlink was followed")
	}
	open(t, filepath.Join(base, "mine"), Options{})
	if _, err := Open(filepath.Join(base, "new"), Options{}); err == nil {
		t.Error("opened without a key")
	}
	var none *Recorder
	let := false
	none.Add(exchange("aa", 1), nil, func() { let = true })
	if !let || none.Close(context.Background()) != nil || none.Stats().Recorded != 0 || none.Masker() != nil {
		t.Error("no recorder is not the same as none")
	}
}
