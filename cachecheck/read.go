package cachecheck

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/guardproxy/guardproxy/internal/record"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// Format is the kind of a file, found by its content.
type Format string

// The formats.
const (
	FormatEmpty     Format = "empty"
	FormatRecording Format = "recording" // guardproxy serve --record
	FormatBody      Format = "body"      // one request body
	FormatLines     Format = "lines"     // one body, or one pair of request and response, a line
	FormatArray     Format = "array"     // the same as a JSON array
	FormatHAR       Format = "har"
	FormatFlows     Format = "mitmproxy"
	FormatCassette  Format = "cassette" // VCR and httpmock
	FormatFolder    Format = "folder"
	FormatClaude    Format = "claude-bodies" // Claude Code's raw-body folder
)

// source is a format's own reader. next fills x, which is zero but for File
// and Entry. io.EOF ends it; any other error means that the rest can't be read.
type source interface{ next(x *Exchange) error }

// Reader yields the exchanges of one file or folder, one at a time. It is not
// safe for concurrent use.
type Reader struct {
	Format Format

	name  string
	src   source
	x     Exchange
	entry int
}

// Next returns the next exchange, valid until the following Next. What can't be
// compared comes as an exchange with Odd set. The error is io.EOF at the end,
// an *UnreadableError when the file turns out to be of no format that we read,
// or what the io.Reader returned.
func (r *Reader) Next() (*Exchange, error) {
	r.entry++
	r.x = Exchange{File: r.name, Scope: r.name, Entry: r.entry}
	if err := r.src.next(&r.x); err != nil {
		return nil, err
	}
	return &r.x, nil
}

// UnreadableError says that a file is of no format that we read.
type UnreadableError struct {
	File   string
	Reason string
}

func (e *UnreadableError) Error() string { return e.File + ": " + e.Reason }

// Hint says what is read.
func (e *UnreadableError) Hint() string {
	return "cachecheck reads guardproxy recordings, request bodies (*.json folders, JSON lines), HAR, mitmproxy flows, VCR cassettes and Claude Code's raw-body folder"
}

// ends is a source without exchanges.
type ends struct{}

func (ends) next(*Exchange) error { return io.EOF }

// Open decides by the content of src what it is. name is for messages, its
// suffix says nothing. The error is an *UnreadableError, or what src returned.
func Open(name string, src io.Reader) (*Reader, error) { return open(name, src, 0) }

func open(name string, src io.Reader, layers int) (*Reader, error) {
	in := bufio.NewReaderSize(src, 256<<10)
	r := &Reader{name: name}
	head, err := in.Peek(4 << 10)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		in.Discard(3)
		head = head[3:]
	}
	text := bytes.TrimLeft(head, " \t\r\n")
	unreadable := func(format string, a ...any) (*Reader, error) {
		return nil, &UnreadableError{name, fmt.Sprintf(format, a...)}
	}
	switch {
	case len(text) == 0:
		if len(head) > 1<<10 {
			return unreadable("it begins with white space alone")
		}
		r.Format, r.src = FormatEmpty, ends{}
	case len(head) > 3 && (bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")) || bytes.HasPrefix(head, []byte("\x1f\x8b"))):
		if layers == 2 {
			return unreadable("it is compressed more than twice")
		}
		dec, err := decompress(in, head[0] == 0x1f)
		if err != nil {
			return unreadable("it looks compressed and is not: %v", err)
		}
		return open(name, dec, layers+1)
	case record.IsRecording(text):
		r.Format, r.src = FormatRecording, &recordingSource{r: record.NewReader(in)}
	case isFlow(text):
		r.Format, r.src = FormatFlows, &flowSource{r: in}
	case text[0] == '[':
		s := &arraySource{s: splitter{r: in, max: MaxBody * 2}, item: itemReader{file: name}}
		if err := s.s.enter(); err != nil {
			return unreadable("a JSON array that breaks off")
		}
		r.Format, r.src = FormatArray, s
	case text[0] == '{' && isHAR(text):
		r.Format, r.src = FormatHAR, &harSource{s: splitter{r: in, max: MaxBody * 3}}
	case text[0] == '{':
		r.Format = FormatLines
		s := &lineSource{r: in, item: itemReader{file: name}}
		whole, err := s.peek()
		if err != nil {
			return nil, err
		}
		if whole {
			r.Format = FormatBody
		}
		r.src = s
	case isCassette(text):
		r.Format, r.src = FormatCassette, &cassetteSource{r: in, file: name}
	default:
		return unreadable("none of the formats that can be read")
	}
	return r, nil
}

func decompress(r io.Reader, gz bool) (io.Reader, error) {
	if gz {
		return gzip.NewReader(r)
	}
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(512<<20), zstd.WithDecoderLowmem(true))
}

// decode undoes a content encoding. ok is false when it can't; the reason is
// for people then.
func decode(encoding string, body []byte, limit int) (out []byte, odd Odd, note string) {
	for _, e := range reversed(encoding) {
		var r io.Reader
		var err error
		switch e {
		case "", "identity":
			continue
		case "gzip", "x-gzip":
			r, err = gzip.NewReader(bytes.NewReader(body))
		case "zstd":
			r, err = decompress(bytes.NewReader(body), false)
		default:
			return nil, OddEncoding, "content encoding " + clip(e, 32) + " is not supported"
		}
		if err != nil {
			return nil, OddEncoding, "the body is not " + e + ": " + err.Error()
		}
		if body, err = io.ReadAll(io.LimitReader(r, int64(limit)+1)); err != nil && len(body) <= limit {
			return nil, OddEncoding, "the " + e + " body breaks off: " + err.Error()
		}
		if d, ok := r.(*zstd.Decoder); ok {
			d.Close()
		}
		if len(body) > limit {
			return nil, OddTooLarge, fmt.Sprintf("the decoded body is larger than %d MiB", limit>>20)
		}
	}
	return body, "", ""
}

// reversed are the encodings of a header in the order in which they are undone.
func reversed(encoding string) []string {
	var out []string
	for e := range strings.SplitSeq(encoding, ",") {
		out = append([]string{strings.ToLower(strings.TrimSpace(e))}, out...)
	}
	return out
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// recordingSource reads our own recordings. Damaged lines come out as odd
// exchanges, so that they are counted with everything else.
type recordingSource struct {
	r     *record.Reader
	skips int // lines that were reported as skipped
	odd   []record.Skip
	done  bool
	t     tape.Tape
}

func (s *recordingSource) next(x *Exchange) error {
	if len(s.odd) == 0 && !s.done {
		e, err := s.r.Next()
		var version *record.VersionError
		switch {
		case err == io.EOF:
			s.done = true
			// What was skipped is known in full at the end alone: reasons are
			// counted, and only their first line is named.
			s.odd = s.r.Skipped()
		case errors.As(err, &version):
			x.Odd, x.Note, x.Line = OddDamaged, err.Error()+": "+version.Hint(), version.Line
			return nil
		case errors.Is(err, record.ErrNotRecording):
			return &UnreadableError{x.File, "it begins like a recording and has no whole header"}
		case err != nil:
			return err
		default:
			s.exchange(x, e)
			return nil
		}
	}
	if len(s.odd) > 0 {
		skip := &s.odd[0]
		x.Line, x.Odd, x.Note = skip.First, OddDamaged, fmt.Sprintf("line %d: %s", skip.First, skip.Reason)
		if strings.Contains(skip.Reason, "cut") {
			x.Odd = OddCut
		}
		if s.skips++; s.skips > 1 {
			x.Line, x.Note = 0, "a later line: "+skip.Reason
		}
		if s.skips == skip.Lines {
			s.odd, s.skips = s.odd[1:], 0
		}
		return nil
	}
	return io.EOF
}

func (s *recordingSource) exchange(x *Exchange, e *record.Exchange) {
	x.Line, x.Offset = e.Line, e.Offset
	if !e.Start.IsZero() {
		x.Start = e.Start.UnixNano()
	}
	if !e.FirstByte.IsZero() {
		x.FirstByte = e.FirstByte.UnixNano()
	}
	get := func(name string) string { return e.RequestHeaders[strings.ToLower(name)] }
	x.headers(get)
	x.Session, x.Credential = e.Session, e.Credential
	x.Scope = "" // every exchange has a session here
	x.Host = get("host")
	x.Path, x.Dialect, x.Status, x.ResponseID = e.Path, e.Dialect, e.Status, e.ResponseID
	x.Body, x.Client = e.UpstreamBody, nil
	if e.Rewritten() {
		x.Client = e.ClientBody
	}
	if len(e.Usage) > 0 && s.t.ParseRepeats(e.Usage) == nil {
		x.Usage.merge(&s.t, 0)
	}
	if len(e.Diagnostics) > 0 && string(e.Diagnostics) != "null" {
		x.Diagnostics = e.Diagnostics
	}
	if len(x.Body) == 0 {
		x.Odd = OddNoBody
	}
}
