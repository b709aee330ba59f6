package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// all reads a stream and writes down its events, one a line, and its end.
func all(r io.Reader, max int) string {
	var b strings.Builder
	for rd := NewReader(r, max); ; {
		ev, err := rd.Next()
		if err != nil {
			fmt.Fprintf(&b, "%v\n", err)
			return b.String()
		}
		fmt.Fprintf(&b, "raw=%q", ev.Raw)
		if ev.Name != nil {
			fmt.Fprintf(&b, " name=%q", ev.Name)
		}
		if ev.HasData {
			fmt.Fprintf(&b, " data=%q", ev.Data)
		}
		if ev.Cut {
			b.WriteString(" cut")
		}
		b.WriteByte('\n')
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"two events", "event: a\ndata: 1\n\ndata: 2\n\n", `raw="event: a\ndata: 1\n\n" name="a" data="1"` + "\n" + `raw="data: 2\n\n" data="2"` + "\nEOF\n"},
		{"CRLF", "data: 1\r\n\r\ndata: 2\r\n\r\n", `raw="data: 1\r\n\r\n" data="1"` + "\n" + `raw="data: 2\r\n\r\n" data="2"` + "\nEOF\n"},
		{"mixed endings", "event: x\r\ndata: 1\n\r\n", `raw="event: x\r\ndata: 1\n\r\n" name="x" data="1"` + "\nEOF\n"},
		{"comment alone", ": ping\n\ndata: 1\n\n", `raw=": ping\n\n"` + "\n" + `raw="data: 1\n\n" data="1"` + "\nEOF\n"},
		{"comment inside", "data: 1\n: c\n\n", `raw="data: 1\n: c\n\n" data="1"` + "\nEOF\n"},
		{"several data lines", "data: {\ndata: \"a\":1\ndata:}\n\n", `raw="data: {\ndata: \"a\":1\ndata:}\n\n" data="{\n\"a\":1\n}"` + "\nEOF\n"},
		{"no space after the colon", "data:x\n\n", `raw="data:x\n\n" data="x"` + "\nEOF\n"},
		{"two spaces keep one", "data:  x\n\n", `raw="data:  x\n\n" data=" x"` + "\nEOF\n"},
		{"data without a colon", "data\n\n", `raw="data\n\n" data=""` + "\nEOF\n"},
		{"id and retry", "id: 7\nretry: 10\ndata: 1\n\n", `raw="id: 7\nretry: 10\ndata: 1\n\n" data="1"` + "\nEOF\n"},
		{"no final newline", "data: 1\n\ndata: 2", `raw="data: 1\n\n" data="1"` + "\n" + `raw="data: 2" data="2" cut` + "\nEOF\n"},
		{"half a CRLF at the end", "data: 2\r", `raw="data: 2\r" data="2" cut` + "\nEOF\n"},
		{"one final newline", "data: 2\n", `raw="data: 2\n" data="2" cut` + "\nEOF\n"},
		{"blank lines between", "data: 1\n\n\n\ndata: 2\n\n", `raw="data: 1\n\n" data="1"` + "\n" + `raw="\n"` + "\n" + `raw="\n"` + "\n" + `raw="data: 2\n\n" data="2"` + "\nEOF\n"},
		{"same name twice", "event: a\nevent: a\ndata: 1\n\n", `raw="event: a\nevent: a\ndata: 1\n\n" name="a" data="1"` + "\nEOF\n"},
		{"empty name", "event:\ndata: 1\n\n", `raw="event:\ndata: 1\n\n" name="" data="1"` + "\nEOF\n"},
		{"empty", "", "EOF\n"},

		{"lone CR", "data: 1\rdata: 2\n\n", "event stream: a carriage return that is not part of CRLF\n"},
		{"byte order mark", "\ufeffdata: 1\n\n", "event stream: it starts with a byte order mark\n"},
		{"unknown field", "data: 1\n\nfoo: 1\n\n", `raw="data: 1\n\n" data="1"` + "\nevent stream: a line that is neither a comment nor data, event, id or retry\n"},
		{"field with a space before", " data: 1\n\n", "event stream: a line that is neither a comment nor data, event, id or retry\n"},
		{"upper case", "Data: 1\n\n", "event stream: a line that is neither a comment nor data, event, id or retry\n"},
		{"two names", "event: a\nevent: b\ndata: 1\n\n", "event stream: an event with two names\n"},
		{"an object on a later line", "data: {\"a\":\ndata: {\"b\":1}\ndata: }\n\n", "event stream: a second data line that is a JSON object by itself\n"},
		{"too large", "data: " + strings.Repeat("x", 40000) + "\n\n", "event stream: an event is larger than the limit\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := all(strings.NewReader(c.in), 20000); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			if got := all(iotest.OneByteReader(strings.NewReader(c.in)), 20000); got != c.want {
				t.Errorf("one byte a read: got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestSourceErrorLosesTheUnfinishedEvent(t *testing.T) {
	broken := errors.New("connection reset")
	r := NewReader(io.MultiReader(strings.NewReader("data: 1\n\ndata: {\"half"), iotest.ErrReader(broken)), 1000)
	if ev, err := r.Next(); err != nil || string(ev.Data) != "1" {
		t.Fatal(ev, err)
	}
	for range 2 {
		if _, err := r.Next(); err != broken {
			t.Fatalf("error %v, want the source's own", err)
		}
	}
}

// cuts reads b in pieces of the given sizes, again and again.
type cuts struct {
	b     []byte
	sizes []int
	i     int
}

func (c *cuts) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := min(c.sizes[c.i%len(c.sizes)], len(c.b), len(p))
	c.i++
	copy(p, c.b[:n])
	c.b = c.b[n:]
	return n, nil
}

func TestEveryCutGivesTheSameEvents(t *testing.T) {
	line := rapid.SampledFrom([]string{"data: {\"type\":\"x\"}", "data:", "data: [", "event: a", "event: b", ": c", "id: 1", "retry: 2", "", "", "", "odd", "data: \r", "data: " + strings.Repeat("long ", 900)})
	end := rapid.SampledFrom([]string{"\n", "\r\n"})
	rapid.Check(t, func(r *rapid.T) {
		var b bytes.Buffer
		for range rapid.IntRange(0, 30).Draw(r, "lines") {
			b.WriteString(line.Draw(r, "line") + end.Draw(r, "end"))
		}
		if rapid.Bool().Draw(r, "no final newline") && b.Len() > 0 {
			b.Truncate(b.Len() - 1)
		}
		whole := all(bytes.NewReader(b.Bytes()), 1<<20)
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 5).Draw(r, "sizes")
		if got := all(&cuts{b: b.Bytes(), sizes: sizes}, 1<<20); got != whole {
			r.Fatalf("cut %v:\n%s\nwhole:\n%s", sizes, got, whole)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("event: a\ndata: 1\n\ndata: 2"), 3)
	f.Add([]byte("data: 1\r\n\r\n: c\r\n\r\n"), 1)
	f.Add([]byte("data: {\ndata: }\n\n"), 7)
	f.Add([]byte("data: 1\rdata: 2\n\n"), 2)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		if size < 1 || size > 1<<16 {
			return
		}
		var joined []byte
		rd := NewReader(&cuts{b: in, sizes: []int{size}}, 1<<20)
		for {
			ev, err := rd.Next()
			if err == io.EOF {
				if !bytes.Equal(joined, in) {
					t.Fatalf("the raw bytes of the events are %q, the stream is %q", joined, in)
				}
				break
			}
			if err != nil {
				break
			}
			joined = append(joined, ev.Raw...)
		}
		if got, want := all(&cuts{b: in, sizes: []int{size}}, 1<<20), all(bytes.NewReader(in), 1<<20); got != want {
			t.Fatalf("cut at %d:\n%s\nwhole:\n%s", size, got, want)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	ev := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello there\"}}\n\n"
	src := strings.Repeat(ev, 200)
	rd := NewReader(nil, 1<<20)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		rd.Reset(strings.NewReader(src))
		for {
			if _, err := rd.Next(); err != nil {
				break
			}
		}
	}
}

// drip gives a long line in small reads.
type drip struct {
	n, size int
}

func (d *drip) Read(p []byte) (int, error) {
	if d.n <= 0 {
		return 0, io.EOF
	}
	n := min(d.size, len(p), d.n)
	copy(p, bytes.Repeat([]byte("a"), n))
	d.n -= n
	return n, nil
}

// BenchmarkLongLine is one long line in small reads, at two sizes: four times
// the line should cost about four times as much.
func BenchmarkLongLine(b *testing.B) {
	for _, n := range []int{1 << 20, 4 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				r := NewReader(io.MultiReader(strings.NewReader("data: "), &drip{n, 64}), 17<<20)
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLinesThatHideData: readers of decoded text end lines at more characters,
// or look for data anywhere.
func TestLinesThatHideData(t *testing.T) {
	for _, line := range []string{": a\u2028data: x", "id: a\vdata", "retry: \u0085", "event: a\x1cb", ": see data: x", ": \xff"} {
		if got := all(strings.NewReader(line+"\n\n"), 1000); got != "event stream: a line that is no data and that some readers take for some\n" {
			t.Errorf("%q: %s", line, got)
		}
	}
}
