package cachecheck

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/internal/record"
)

// longRecording writes a recording of many sessions on the fly: size bytes of
// bodies, in requests that grow to a megabyte, every tenth with a change. It is
// never held as a whole.
type longRecording struct {
	size     int64 // of bodies, to be written
	bodies   int64 // written
	requests int
	buf      bytes.Buffer
	talk     *talk
	session  int
	turn     int
	at       time.Time
}

func (l *longRecording) Read(p []byte) (int, error) {
	for l.buf.Len() == 0 {
		if l.bodies >= l.size {
			return 0, io.EOF
		}
		l.exchange()
	}
	return l.buf.Read(p)
}

func (l *longRecording) exchange() {
	if l.talk == nil || l.turn == 40 {
		if l.talk == nil {
			l.buf.Write(record.AppendHeader(nil, nil))
			l.at = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
		}
		l.talk, l.turn = baseTalk(dialectMessages), 0
		l.session++
	}
	result2 := strings.Repeat("07:10 valley \"dry\"; 07:20 valley dry;\t07:30 valley dew\n", 400)
	id := "call_" + itoa(l.turn)
	l.talk = l.talk.say(assistant(txt("I will read on, part "+itoa(l.turn)+"."), call(id, "Read", `{"path":"/srv/ledger/valley.log"}`)), toolMsg(result(id, result2)))
	if l.turn%10 == 9 {
		l.talk.system[1] = "The ledger was last read in turn " + itoa(l.turn) + " of the session."
	}
	l.turn++
	body := l.talk.body()
	l.bodies += int64(len(body))
	l.requests++
	l.at = l.at.Add(20 * time.Second)
	x := &record.Exchange{Start: l.at, FirstByte: l.at.Add(time.Second), End: l.at.Add(3 * time.Second), Session: "s" + itoa(l.session), Agent: "claude-code", Dialect: dialectMessages, Method: "POST", Path: "/v1/messages", ClientBody: body, UpstreamBody: body, Status: 200}
	l.buf.Write(record.AppendExchange(nil, x))
}

func checkAll(tb testing.TB, r io.Reader) Summary {
	src, err := Open("long.jsonl", r)
	if err != nil {
		tb.Fatal(err)
	}
	c := New(Options{})
	for {
		x, err := src.Next()
		if err == io.EOF {
			return c.Summary()
		}
		if err != nil {
			tb.Fatal(err)
		}
		c.Add(x)
	}
}

// TestMemoryIsBounded: what is held does not grow with the recording. The
// bound is that of the checker's budget and of a few bodies in flight, and a
// recording of a multiple of it goes through.
func TestMemoryIsBounded(t *testing.T) {
	const budget = 4 << 20
	src := &longRecording{size: 48 << 20}
	r, err := Open("long.jsonl", src)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Retain: budget})
	var most uint64
	for n := 0; ; n++ {
		x, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Add(x)
		if n%20 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	s := c.Summary()
	if s.Requests < 80 || s.Bytes < 48<<20 || s.Labels[SystemDynamic] == 0 {
		t.Fatalf("only %d requests and %d bytes were checked: %v", s.Requests, s.Bytes, s.Labels)
	}
	// The vocabulary for estimates takes some 20 MiB of it, whatever is read.
	if limit := uint64(40 << 20); most > limit {
		t.Errorf("%d MiB were held, over %d", most>>20, limit>>20)
	}
}

// BenchmarkCheck is a recording of 200 MB of bodies, read and compared; its
// peers read the same bytes: one counts lines, the other decodes the JSON. On a
// busy machine the clock says little, so that bodies a second of processor time
// are reported too.
func BenchmarkCheck(b *testing.B) {
	const size = 200 << 20
	run := func(name string, f func(r io.Reader)) {
		b.Run(name, func(b *testing.B) {
			var bodies int64
			var spent time.Duration
			for b.Loop() {
				b.StopTimer()
				l := &longRecording{size: size}
				var whole bytes.Buffer
				io.Copy(&whole, l)
				bodies += l.bodies
				b.SetBytes(l.bodies)
				runtime.GC()
				from := processorTime(b)
				b.StartTimer()
				f(&whole)
				b.StopTimer()
				spent += processorTime(b) - from
				b.StartTimer()
			}
			b.ReportMetric(float64(bodies)/1e6/spent.Seconds(), "MB/cpu-s")
		})
	}
	run("cachecheck", func(r io.Reader) { checkAll(b, r) })
	run("count-lines", func(r io.Reader) {
		buf, n := make([]byte, 256<<10), 0
		for {
			k, err := r.Read(buf)
			n += bytes.Count(buf[:k], []byte{'\n'})
			if err != nil {
				return
			}
		}
	})
	run("encoding-json", func(r io.Reader) {
		dec := json.NewDecoder(r)
		for {
			var line struct {
				ClientBody string `json:"client_body"`
			}
			if err := dec.Decode(&line); err != nil {
				return
			}
			var body map[string]any
			json.Unmarshal([]byte(line.ClientBody), &body)
		}
	})
}

// processorTime is what all threads of this process have used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
