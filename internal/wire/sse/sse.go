// Package sse reads a stream of server-sent events and keeps every byte.
//
// An event is the run of lines up to and including a blank line. Its raw bytes
// (comments, `id:` lines, CRLF and all) are what a proxy forwards; its name and
// data are what a proxy judges. Concatenating the raw bytes of all events gives
// back the stream.
//
// The grammar is that of the WHATWG HTML standard, "Server-sent events",
// narrowed where readers in use differ and could therefore see another event
// than we judged: a carriage return ends a line only as part of CRLF, a stream
// does not start with a byte order mark, a line is a comment or one of the
// fields data, event, id and retry, and when the data has several lines none of
// the later ones is a JSON object by itself (readers that take each data line
// as an event would run it).
package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Event is one event. Its slices belong to the Reader and are valid until the
// next call of Next.
type Event struct {
	Raw  []byte // every byte, the blank line included
	Name []byte // the value of the event field; nil when there is none
	Data []byte // the data lines, joined by a line feed
	// HasData tells an event from a run of comments and other fields, which no
	// reader dispatches.
	HasData bool
	// Cut marks the last event of a stream that ended without a blank line.
	// Some readers dispatch it, others drop it.
	Cut bool
}

// Error says why a stream is not in the grammar.
type Error struct{ Reason string }

func (e *Error) Error() string { return "event stream: " + e.Reason }

// ErrTooLarge means that one event is over the reader's limit.
var ErrTooLarge = errors.New("event stream: an event is larger than the limit")

// Reader splits a stream into events. It is not safe for concurrent use.
type Reader struct {
	src    io.Reader
	max    int
	buf    []byte
	start  int   // the current event's first byte in buf
	scan   int   // start of the first line not looked at yet
	end    int   // end of the bytes read
	none   int   // bytes after scan that were searched for a line's end
	err    error // what ended the source
	broken error // what ended the stream before that
	first  bool  // no line was looked at yet

	ev    Event
	name  span // of the current event, relative to start: the buffer moves
	data  span
	multi []byte // joined data of an event with several data lines
	lines int    // data lines so far
}

// span is a place in the current event; at is −1 when there is none.
type span struct{ at, end int }

const chunk = 16 << 10

// NewReader reads src. An event of more than max bytes ends the stream with
// ErrTooLarge; memory is bounded by max and one read.
func NewReader(src io.Reader, max int) *Reader {
	return &Reader{src: src, max: max, first: true}
}

// Reset makes r read another stream, keeping its memory.
func (r *Reader) Reset(src io.Reader) {
	buf, multi := r.buf, r.multi
	*r = Reader{src: src, max: r.max, buf: buf, multi: multi, first: true}
}

// Next returns the next event. At the end of the stream the error is io.EOF;
// an error of the source is returned as it is, and the unfinished event before
// it is lost, since it was not read whole; a stream outside the grammar gives
// an *Error. The event is valid until the next call.
func (r *Reader) Next() (*Event, error) {
	r.ev, r.name, r.lines = Event{}, span{at: -1}, 0
	r.start = r.scan
	if r.broken != nil {
		return nil, r.broken
	}
	for {
		// Look at every whole line in the buffer.
		for {
			nl := bytes.IndexByte(r.buf[r.scan+r.none:r.end], '\n')
			if nl < 0 {
				r.none = r.end - r.scan
				break
			}
			nl, r.none = nl+r.none, 0
			line := r.buf[r.scan : r.scan+nl]
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			from := r.scan
			r.scan += nl + 1
			if len(line) == 0 {
				r.ev.Raw = r.buf[r.start:r.scan]
				return r.finish()
			}
			if err := r.line(line, from); err != nil {
				r.broken = err
				return nil, err
			}
		}
		if r.err != nil {
			return r.last()
		}
		r.fill()
		if r.broken != nil {
			return nil, r.broken
		}
	}
}

// last handles the end of the source.
func (r *Reader) last() (*Event, error) {
	if r.err != io.EOF || r.start == r.end {
		return nil, r.err
	}
	rest := r.buf[r.scan:r.end]
	from := r.scan
	r.scan, r.none = r.end, 0
	if n := len(rest); n > 0 && rest[n-1] == '\r' {
		// Half of a CRLF: the line is whole, its ending is not.
		rest = rest[:n-1]
	}
	if len(rest) > 0 {
		if err := r.line(rest, from); err != nil {
			r.broken = err
			return nil, err
		}
	}
	r.ev.Raw, r.ev.Cut = r.buf[r.start:r.end], true
	return r.finish()
}

func (r *Reader) finish() (*Event, error) {
	if r.name.at >= 0 {
		r.ev.Name = r.ev.Raw[r.name.at:r.name.end]
	}
	switch {
	case r.lines == 1:
		r.ev.Data = r.ev.Raw[r.data.at:r.data.end]
	case r.lines > 1:
		r.ev.Data = r.multi
	}
	r.ev.HasData = r.lines > 0
	return &r.ev, nil
}

// line takes one line without its ending; from is where it stands in buf.
func (r *Reader) line(line []byte, from int) error {
	if r.first {
		r.first = false
		if bytes.HasPrefix(line, []byte("\ufeff")) {
			return &Error{"it starts with a byte order mark"}
		}
	}
	if bytes.IndexByte(line, '\r') >= 0 {
		return &Error{"a carriage return that is not part of CRLF"}
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	switch string(field) {
	case "", "event", "id", "retry":
		if hides(line) {
			return &Error{"a line that is no data and that some readers take for some"}
		}
	}
	if line[0] == ':' {
		return nil
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	end := from + len(line) - r.start
	at := span{end - len(value), end}
	switch string(field) {
	case "data":
		r.lines++
		switch r.lines {
		case 1:
			r.data = at
			return nil
		case 2:
			r.multi = append(r.multi[:0], r.buf[r.start+r.data.at:r.start+r.data.end]...)
		}
		if v := bytes.TrimSpace(value); len(v) > 0 && v[0] == '{' && json.Valid(v) {
			return &Error{"a second data line that is a JSON object by itself"}
		}
		r.multi = append(append(r.multi, '\n'), value...)
	case "event":
		if r.name.at >= 0 && !bytes.Equal(r.buf[r.start+r.name.at:r.start+r.name.end], value) {
			return &Error{"an event with two names"}
		}
		r.name = at
	case "id", "retry":
	default:
		return &Error{"a line that is neither a comment nor data, event, id or retry"}
	}
	return nil
}

// hides reports whether a reader could find data in a line that has none:
// readers of decoded text end lines at more characters (Python's splitlines),
// or look for the word anywhere.
func hides(line []byte) bool {
	return bytes.ContainsAny(line, "\v\f\x1c\x1d\x1e\u0085\u2028\u2029") || bytes.Contains(line, []byte("data:")) || !utf8.Valid(line)
}

// fill reads more bytes, making room first: in place when the current event is
// small, into a buffer of twice the size when it is not.
func (r *Reader) fill() {
	if r.end-r.start > r.max {
		r.broken = ErrTooLarge
		return
	}
	if len(r.buf)-r.end < chunk/4 {
		to := r.buf
		if r.end-r.start > len(r.buf)/2 || len(r.buf) == 0 {
			to = make([]byte, max(chunk, 2*len(r.buf)))
		}
		copy(to, r.buf[r.start:r.end])
		r.buf, r.scan, r.end, r.start = to, r.scan-r.start, r.end-r.start, 0
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if err != nil {
		r.err = err
	}
}
