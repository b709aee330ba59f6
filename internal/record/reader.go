package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// A Reader holds one line at a time, in a buffer that grows to the longest one
// and is used again. A line is indexed once (package tape) and its texts are
// slices of the buffer: a body is unescaped in the place where it stands,
// since an escape is never shorter than what it stands for.

// MaxLine is the longest line that a Reader takes, in bytes: two bodies of the
// proxy's limit with every other byte escaped, and room for the rest.
const MaxLine = 320 << 20

// ErrNotRecording is returned for input that has no header line.
var ErrNotRecording error = hinted{errors.New("not a recording: no line is a header like {\"v\":1,\"rules\":{}}"), "recordings are the files that guardproxy serve --record DIR writes"}

// VersionError is returned once for a header of a version that this package
// does not read. The lines up to the next header are skipped.
type VersionError struct {
	Version string // as it stands in the header
	Line    int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("line %d: version %s of the recording format is not supported", e.Line, e.Version)
}

// Hint says what to do about it.
func (e *VersionError) Hint() string {
	return "read it with the guardproxy that wrote it, or a newer one"
}

type hinted struct {
	error
	hint string
}

func (h hinted) Hint() string { return h.hint }

// Skip is one reason for which lines were skipped.
type Skip struct {
	Reason string
	Lines  int
	First  int // the first such line, from 1
}

// Reader reads the exchanges of one recording. It is not safe for concurrent
// use.
type Reader struct {
	src    io.Reader
	max    int
	buf    []byte
	start  int // of the current line in buf
	end    int // of the bytes read
	offset int64
	err    error

	line    int
	headers int
	usable  bool // the header in force is of a version that we read
	rules   json.RawMessage
	skips   []Skip
	t       tape.Tape
	x       Exchange
}

// NewReader reads src, from where it stands.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, max: MaxLine} }

// IsRecording reports whether a file that begins with first looks like a
// recording. Some 16 bytes are enough.
func IsRecording(first []byte) bool { return bytes.HasPrefix(first, []byte(`{"v":`)) }

// Next returns the next exchange; it and its slices are valid until the
// following Next, but for Rules, which stay. The error is io.EOF at the end,
// ErrNotRecording there if no header was seen, a *VersionError, or what src
// returned. A damaged line is no error: it is skipped, and Skipped tells.
func (r *Reader) Next() (*Exchange, error) {
	for {
		line, at, whole, err := r.next()
		if err == io.EOF && r.headers == 0 {
			return nil, ErrNotRecording
		}
		if err != nil {
			return nil, err
		}
		if line == nil {
			r.skip(fmt.Sprintf("longer than %d MiB", r.max>>20))
			continue
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := r.t.Parse(line); err != nil {
			if !whole {
				r.skip("cut off")
			} else {
				r.skip("not valid JSON")
			}
			continue
		}
		if r.t.Kind(0) != tape.Object {
			r.skip("not an object")
			continue
		}
		if v := r.t.Get(0, "v"); v >= 0 {
			if err := r.header(v); err != nil {
				return nil, err
			}
			continue
		}
		if !r.usable {
			if r.headers == 0 {
				r.skip("before the first header")
			} else {
				r.skip("under a header of another version")
			}
			continue
		}
		d := decoder{t: &r.t}
		d.exchange(&r.x)
		if d.bad != "" {
			r.skip("no exchange: " + d.bad)
			continue
		}
		r.x.Rules, r.x.Header, r.x.Line, r.x.Offset = r.rules, r.headers, r.line, at
		return &r.x, nil
	}
}

// Skipped lists why lines were skipped so far, in the order in which the
// reasons came up. The slice is the caller's.
func (r *Reader) Skipped() []Skip { return append([]Skip(nil), r.skips...) }

func (r *Reader) skip(reason string) {
	for i := range r.skips {
		if r.skips[i].Reason == reason {
			r.skips[i].Lines++
			return
		}
	}
	r.skips = append(r.skips, Skip{reason, 1, r.line})
}

func (r *Reader) header(v int) error {
	r.headers++
	r.usable = string(r.t.Raw(v)) == strconv.Itoa(Version)
	r.rules = nil
	if !r.usable {
		version := r.t.Raw(v)
		return &VersionError{string(version[:min(len(version), 16)]), r.line}
	}
	if rules := r.t.Get(0, "rules"); rules >= 0 {
		r.rules = bytes.Clone(r.t.Raw(rules))
	}
	return nil
}

const readChunk = 256 << 10

// next returns the next line without its end, and where it starts; nil for
// one that is too long. whole is false when the input ended in it.
func (r *Reader) next() (line []byte, at int64, whole bool, err error) {
	r.line++
	searched, long := 0, false
	for {
		if i := bytes.IndexByte(r.buf[r.start+searched:r.end], '\n'); i >= 0 {
			n := searched + i
			line, at = r.buf[r.start:r.start+n], r.offset
			r.start, r.offset = r.start+n+1, r.offset+int64(n)+1
			if long || n > r.max {
				line = nil
			}
			return line, at, true, nil
		}
		searched = r.end - r.start
		if searched > r.max {
			// The rest of it is read and thrown away.
			long = true
			r.offset += int64(searched)
			r.start, r.end, searched = 0, 0, 0
		}
		if r.err != nil {
			if searched == 0 && !long || r.err != io.EOF {
				return nil, 0, false, r.err
			}
			line, at = r.buf[r.start:r.end], r.offset
			r.offset += int64(searched)
			r.start = r.end
			if long {
				line = nil
			}
			return line, at, false, nil
		}
		r.fill()
	}
}

// fill reads more, making room first.
func (r *Reader) fill() {
	if len(r.buf)-r.end < readChunk {
		used := r.end - r.start
		to := r.buf
		switch {
		case used+readChunk > len(r.buf):
			// A long line doubles the buffer as long as that is cheap, and
			// then takes a quarter more: the old and the new one are held
			// together for a moment.
			to = make([]byte, max(2*readChunk, used+readChunk, len(r.buf)+min(len(r.buf), 16<<20+len(r.buf)/4)))
		case len(r.buf) > 64<<20 && used < len(r.buf)/64:
			// One giant must not be paid for to the end.
			to = make([]byte, 4<<20+used)
		}
		copy(to, r.buf[r.start:r.end])
		r.buf, r.start, r.end = to, 0, used
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	r.err = err
}

// decoder takes an exchange out of an indexed line. The first member that is
// not what it should be is remembered in bad; one that is not there is empty.
type decoder struct {
	t   *tape.Tape
	bad string
}

func (d *decoder) fail(name, want string) {
	if d.bad == "" {
		d.bad = name + " is not " + want
	}
}

// member is the value of a member of o when it has kind k; −1 when there is
// none, or null.
func (d *decoder) member(o int, name string, k tape.Kind, want string) int {
	i := d.t.Get(o, name)
	if i < 0 || d.t.Kind(i) == tape.Null {
		return -1
	}
	if d.t.Kind(i) != k {
		d.fail(name, want)
		return -1
	}
	return i
}

func (d *decoder) str(o int, name string) string {
	return d.t.Str(d.member(o, name, tape.String, "a string"))
}

func (d *decoder) num(o int, name string) int {
	i := d.member(o, name, tape.Number, "a number")
	if i < 0 {
		return 0
	}
	n, err := strconv.Atoi(string(d.t.Raw(i)))
	if err != nil {
		d.fail(name, "a whole number")
	}
	return n
}

func (d *decoder) flag(o int, name string) bool {
	switch i := d.t.Get(o, name); d.t.Kind(i) {
	case tape.True:
		return true
	case tape.None, tape.Null, tape.False:
		return false
	}
	d.fail(name, "true or false")
	return false
}

func (d *decoder) time(o int, name string) time.Time {
	i := d.member(o, name, tape.String, "a time")
	if i < 0 {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, d.t.Str(i))
	if err != nil {
		d.fail(name, "a time")
	}
	return at
}

// bytes decodes a text in its place: the member must not be looked at again.
func (d *decoder) bytes(o int, name string) []byte {
	i := d.t.Get(o, name)
	switch d.t.Kind(i) {
	case tape.None, tape.Null:
		return nil
	case tape.String:
		raw := d.t.Raw(i)
		raw = raw[1 : len(raw)-1]
		return tape.Unescape(raw[:0:len(raw)], raw)
	case tape.Object:
		if b := d.t.Get(i, "base64"); d.t.Kind(b) == tape.String {
			raw := d.t.Raw(b)
			raw = raw[1 : len(raw)-1]
			n, err := base64.StdEncoding.Decode(raw, raw)
			if err != nil {
				d.fail(name, "base64")
			}
			return raw[:n:n]
		}
	}
	d.fail(name, "a text or {\"base64\":…}")
	return nil
}

func (d *decoder) raw(o int, name string) json.RawMessage {
	if i := d.t.Get(o, name); i >= 0 {
		return json.RawMessage(d.t.Raw(i))
	}
	return nil
}

// each calls f with the elements of an array.
func (d *decoder) each(i int, f func(i int)) {
	if i < 0 {
		return
	}
	for e, end := i+1, d.t.After(i); e < end; e = d.t.After(e) {
		f(e)
	}
}

func (d *decoder) strs(o int, name string) (out []string) {
	d.each(d.member(o, name, tape.Array, "an array"), func(i int) {
		if d.t.Kind(i) != tape.String {
			d.fail(name, "an array of strings")
		}
		out = append(out, d.t.Str(i))
	})
	return out
}

func (d *decoder) headers(o int, name string) map[string]string {
	i := d.member(o, name, tape.Object, "an object")
	if i < 0 {
		return nil
	}
	out := map[string]string{}
	for k, end := i+1, d.t.After(i); k < end; k = d.t.After(k + 1) {
		if d.t.Kind(k+1) != tape.String {
			d.fail(name, "an object of strings")
		}
		out[d.t.Str(k)] = d.t.Str(k + 1)
	}
	return out
}

func (d *decoder) spans(o int, name string, in []byte) (out []Span) {
	last := 0
	d.each(d.member(o, name, tape.Array, "an array"), func(i int) {
		if d.t.Kind(i) != tape.Array || d.t.Count(i) != 2 {
			d.fail(name, "an array of pairs")
			return
		}
		from, ok := d.t.Int(i + 1)
		to, ok2 := d.t.Int(i + 2)
		if !ok || !ok2 || from < last || to < from || to > len(in) {
			d.fail(name, "an array of places in the body, in order")
			return
		}
		last = to
		out = append(out, Span{from, to})
	})
	return out
}

func (d *decoder) exchange(x *Exchange) {
	*x = Exchange{Calls: x.Calls[:0]}
	x.Start, x.FirstByte, x.End = d.time(0, "start"), d.time(0, "first_byte"), d.time(0, "end")
	x.Session, x.Agent, x.Dialect = d.str(0, "session"), d.str(0, "agent"), d.str(0, "dialect")
	x.Method, x.Path, x.Credential = d.str(0, "method"), d.str(0, "path"), d.str(0, "credential")
	x.RequestHeaders, x.ResponseHeaders = d.headers(0, "request_headers"), d.headers(0, "response_headers")
	x.ContentEncoding = d.str(0, "content_encoding")
	if i := d.member(0, "rewrite", tape.Object, "an object"); i >= 0 {
		x.Rewrite = Rewrite{d.strs(i, "removed"), d.num(i, "restored")}
	}
	x.Status, x.ResponseID = d.num(0, "status"), d.str(0, "response_id")
	x.Usage, x.Diagnostics, x.Proof = d.raw(0, "usage"), d.raw(0, "diagnostics"), d.raw(0, "proof")
	if d.t.Get(0, "client_body") < 0 {
		d.fail("client_body", "there")
	}
	x.ClientBody = d.bytes(0, "client_body")
	x.UpstreamBody = x.ClientBody
	if d.t.Get(0, "upstream_body") >= 0 {
		x.UpstreamBody = d.bytes(0, "upstream_body")
	}
	if i := d.member(0, "masked", tape.Object, "an object"); i >= 0 {
		x.Masked.ClientBody = d.spans(i, "client_body", x.ClientBody)
		x.Masked.UpstreamBody = x.Masked.ClientBody
		if x.Rewritten() {
			x.Masked.UpstreamBody = d.spans(i, "upstream_body", x.UpstreamBody)
		}
	}
	d.each(d.member(0, "calls", tape.Array, "an array"), func(i int) {
		if d.t.Kind(i) != tape.Object {
			d.fail("calls", "an array of objects")
			return
		}
		x.Calls = append(x.Calls, d.call(i))
	})
}

func (d *decoder) call(o int) Call {
	c := Call{ID: d.str(o, "id"), Tool: d.str(o, "tool"), Kind: d.str(o, "kind"), ArgumentsRaw: d.bytes(o, "arguments_raw"),
		Verdict: d.str(o, "verdict"), Cause: d.str(o, "cause"), Guard: d.str(o, "guard"), Masked: d.num(o, "masked")}
	f := d.member(o, "facts", tape.Object, "an object")
	if f < 0 {
		return c
	}
	c.Facts = Facts{Judged: d.flag(f, "judged"), Model: d.str(f, "model"), ArgumentsRaw: d.bytes(f, "arguments_raw"), Arguments: d.bytes(f, "arguments"),
		Mode: d.str(f, "mode"), Approval: d.str(f, "approval"), Workspace: d.str(f, "workspace"),
		Turn: d.num(f, "turn"), Calls: d.num(f, "calls"), Index: d.num(f, "index")}
	if s := d.member(f, "shell", tape.Object, "an object"); s >= 0 {
		c.Facts.Shell = &Shell{Opaque: d.flag(s, "opaque")}
		d.each(d.member(s, "argv", tape.Array, "an array"), func(i int) {
			if d.t.Kind(i) != tape.Array {
				d.fail("argv", "an array of arrays")
				return
			}
			argv := []string{}
			d.each(i, func(w int) {
				if d.t.Kind(w) != tape.String {
					d.fail("argv", "an array of arrays of strings")
				}
				argv = append(argv, d.t.Str(w))
			})
			c.Facts.Shell.Argv = append(c.Facts.Shell.Argv, argv)
		})
	}
	d.each(d.member(f, "paths", tape.Array, "an array"), func(i int) {
		c.Facts.Paths = append(c.Facts.Paths, Path{d.str(i, "path"), d.str(i, "op")})
	})
	return c
}
