package cachecheck

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Items are JSON objects that hold one request each: the body itself, or a
// wrapper around it. Wrappers are known by their members, since every logger
// has its own:
//
//	{"request":{"url":…,"headers":{…},"body":{…}},"response":{"body":…}}
//	{"request":{body},"response":{body}}
//	{"body":{…}}  {"request_body":"…","response_body":"…"}

// itemReader turns one object into an exchange.
type itemReader struct {
	file string
	t    tape.Tape
	u    tape.Tape
}

// isBody reports whether object o is a request body.
func isBody(t *tape.Tape, o int) bool {
	if t.Kind(o) != tape.Object {
		return false
	}
	for _, k := range []string{"messages", "contents", "input", "previous_response_id"} {
		if t.Get(o, k) >= 0 {
			return true
		}
	}
	return false
}

// read takes text, one JSON value. The exchange keeps slices of it.
func (r *itemReader) read(x *Exchange, text []byte) {
	t := &r.t
	if err := t.ParseRepeats(text); err != nil {
		x.Odd, x.Note = OddNotJSON, err.Error()
		return
	}
	if t.Kind(0) != tape.Object {
		x.Odd, x.Note = OddShape, "it is "+t.Kind(0).String()
		return
	}
	request := t.Get(0, "request")
	switch {
	case isBody(t, 0):
		x.Body = text
		return
	case t.Kind(request) == tape.Object && isBody(t, request):
		x.Body = t.Raw(request)
	case t.Kind(request) == tape.Object:
		r.request(x, request)
	default:
		if !r.body(x, 0, "request_body", "requestBody", "body") {
			x.Odd, x.Note = OddShape, "no member of it is a request"
			return
		}
		r.meta(x, 0)
	}
	if x.Start == 0 {
		x.Start = r.time(0, "timestamp", "start", "started_at", "logged_at")
	}
	if x.Odd != "" {
		return
	}
	response := t.Get(0, "response")
	if t.Kind(response) == tape.Object {
		r.response(x, response)
	} else if b := first(t, 0, "response_body", "responseBody", "response"); b >= 0 {
		r.replyOf(x, b)
	}
}

func first(t *tape.Tape, o int, names ...string) int {
	for _, n := range names {
		if i := t.Get(o, n); i >= 0 && t.Kind(i) != tape.Null {
			return i
		}
	}
	return -1
}

// request reads a wrapper's request: HAR-like objects, VCR's, claude-trace's.
func (r *itemReader) request(x *Exchange, o int) {
	r.meta(x, o)
	if r.body(x, o, "body", "parsed_body", "json", "data", "content") {
		if !isModelPath(x.Path) {
			x.Body, x.Odd, x.Note = nil, OddNotModel, clip(x.Path, 60)
		}
		return
	}
	if x.Odd == "" {
		x.Odd = OddNoBody
	}
	if m := r.t.Str(r.t.Get(o, "method")); m != "" && !strings.EqualFold(m, "POST") || !isModelPath(x.Path) {
		x.Odd, x.Note = OddNotModel, strings.TrimSpace(m+" "+clip(x.Path, 60))
	}
}

// meta reads url and headers of object o.
func (r *itemReader) meta(x *Exchange, o int) {
	t := &r.t
	x.setURL(t.Str(first(t, o, "url", "uri", "path")))
	h := t.Get(o, "headers")
	if h < 0 {
		h = t.Get(o, "header")
	}
	x.headers(func(name string) string { return header(t, h, name) })
	if x.Start == 0 {
		x.Start = r.time(o, "timestamp", "start", "startedDateTime", "recorded_at")
	}
}

// setURL takes host and path out of a URL, without trusting it to be one.
func (x *Exchange) setURL(url string) {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		x.Host, x.Path, _ = strings.Cut(rest, "/")
		if i := strings.LastIndexByte(x.Host, '@'); i >= 0 {
			x.Host = x.Host[i+1:]
		}
		x.Path = "/" + x.Path
		return
	}
	x.Path = url
}

// header finds a header in {"name":"v"}, {"name":["v"]} or
// [{"name":…,"value":…}]; "" when it is not there.
func header(t *tape.Tape, h int, name string) string {
	switch t.Kind(h) {
	case tape.Object:
		for k := h + 1; k < t.After(h); k = t.After(k + 1) {
			if strings.EqualFold(t.Str(k), name) {
				if t.Kind(k+1) == tape.Array {
					return t.Str(k + 2)
				}
				return t.Str(k + 1)
			}
		}
	case tape.Array:
		for i := h + 1; i < t.After(h); i = t.After(i) {
			if strings.EqualFold(t.Str(t.Get(i, "name")), name) {
				return t.Str(t.Get(i, "value"))
			}
			if t.Kind(i) == tape.Array && strings.EqualFold(t.Str(i+1), name) {
				return t.Str(i + 2)
			}
		}
	}
	return ""
}

func (r *itemReader) time(o int, names ...string) int64 {
	i := first(&r.t, o, names...)
	switch r.t.Kind(i) {
	case tape.String:
		return parseInstant(r.t.Str(i))
	case tape.Number:
		f, err := strconv.ParseFloat(string(r.t.Raw(i)), 64)
		switch {
		case err != nil || f < 1e8:
		case f < 1e11:
			return int64(f * 1e9) // seconds
		case f < 1e14:
			return int64(f * 1e6) // milliseconds
		case f < 1e19:
			return int64(f)
		}
	}
	return 0
}

// body takes the request's body from the first member that is there: an
// object, or text, also in VCR's {"string":…} and {"base64_string":…} forms.
func (r *itemReader) body(x *Exchange, o int, names ...string) bool {
	t := &r.t
	for _, n := range names {
		i := t.Get(o, n)
		switch t.Kind(i) {
		case tape.Object:
			if s := first(t, i, "string", "base64_string", "text"); t.Kind(s) == tape.String && !isBody(t, i) {
				x.Body = unwrap(t, i, s)
			} else {
				x.Body, x.Lossy = t.Raw(i), true
			}
		case tape.String:
			x.Body = t.AppendStr(nil, i)
		default:
			continue
		}
		if len(x.Body) == 0 {
			x.Body = nil
			continue
		}
		h := t.Get(o, "headers")
		if h < 0 {
			h = t.Get(o, "header")
		}
		if enc := header(t, h, "content-encoding"); enc != "" && !looksJSON(x.Body) {
			x.Body, x.Odd, x.Note = decode(enc, x.Body, MaxBody)
		}
		return x.Odd == ""
	}
	return false
}

func looksJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \r\n\t")
	return len(b) > 0 && b[0] == '{'
}

// unwrap decodes VCR's forms of a body: i holds the string s.
func unwrap(t *tape.Tape, i, s int) []byte {
	if t.Get(i, "base64_string") == s || strings.EqualFold(t.Str(t.Get(i, "encoding")), "base64") {
		return fromBase64(t.Str(s))
	}
	return t.AppendStr(nil, s)
}

func (r *itemReader) response(x *Exchange, o int) {
	t := &r.t
	for _, k := range []string{"status_code", "status", "code"} {
		i := t.Get(o, k)
		if t.Kind(i) == tape.Object {
			i = t.Get(i, "code")
		}
		if n, ok := t.Int(i); ok && n >= 100 && n < 600 {
			x.Status = n
			break
		}
	}
	if b := first(t, o, "body", "parsed_body", "body_raw", "content", "events"); b >= 0 && t.Get(o, "usage") < 0 {
		h := t.Get(o, "headers")
		if h < 0 {
			h = t.Get(o, "header")
		}
		r.encodedReply(x, b, header(t, h, "content-encoding"))
		return
	}
	x.event(t, o)
}

func (r *itemReader) replyOf(x *Exchange, i int) { r.encodedReply(x, i, "") }

func (r *itemReader) encodedReply(x *Exchange, i int, encoding string) {
	t := &r.t
	switch t.Kind(i) {
	case tape.Object:
		if s := first(t, i, "string", "base64_string", "text"); t.Kind(s) == tape.String && t.Get(i, "usage") < 0 {
			text := unwrap(t, i, s)
			if !looksJSON(text) && encoding != "" {
				text, _, _ = decode(encoding, text, MaxBody)
			}
			x.reply(&r.u, text)
			return
		}
		x.event(t, i)
	case tape.Array:
		for e := i + 1; e < t.After(i); e = t.After(e) {
			if t.Kind(e) == tape.String {
				x.reply(&r.u, t.AppendStr(nil, e))
			} else {
				x.event(t, e)
			}
		}
	case tape.String:
		x.reply(&r.u, t.AppendStr(nil, i))
	}
}

// maxLine is the longest line of JSON that is read, in bytes.
const maxLine = 2*MaxBody + 1<<20

// lineSource reads items line by line. A file that is one value on several
// lines is one item.
type lineSource struct {
	r    *bufio.Reader
	item itemReader

	line  int
	off   int64
	buf   []byte
	held  bool // buf holds a line that was not given out yet
	cut   bool // it ended without a line break
	large bool
	any   bool // a line was JSON
	end   bool
}

// peek reads the first line, or the whole value when it is on several; then
// whole is true.
func (s *lineSource) peek() (whole bool, err error) {
	if err := s.fill(); err != nil {
		return false, err
	}
	if s.large || s.item.t.ParseRepeats(s.buf) == nil {
		_, err := s.r.Peek(1)
		return err != nil, nil
	}
	first := len(s.buf)
	rest, err := io.ReadAll(io.LimitReader(s.r, int64(maxLine-len(s.buf))))
	if err != nil {
		return false, err
	}
	text := append(append(s.buf[:first:first], '\n'), rest...)
	if s.item.t.ParseRepeats(text) == nil {
		s.buf, s.cut = text, false
		return true, nil
	}
	// Its first line is damaged, or the whole of it is: line by line then.
	s.r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), s.r), 256<<10)
	return false, nil
}

// fill reads the next line that is not empty into buf. io.EOF at the end.
func (s *lineSource) fill() error {
	for {
		s.off += int64(len(s.buf))
		if s.line > 0 && !s.large {
			s.off++ // the line break
		}
		s.buf, s.large, s.cut = s.buf[:0], false, false
		s.line++
		for {
			chunk, err := s.r.ReadSlice('\n')
			if len(s.buf)+len(chunk) > maxLine {
				s.large = true
				s.off += int64(len(s.buf) + len(chunk))
				s.buf = s.buf[:0]
			} else {
				s.buf = append(s.buf, chunk...)
			}
			if err == nil {
				break
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != io.EOF {
				return err
			}
			if len(s.buf) == 0 && !s.large {
				return io.EOF
			}
			s.cut = true
			break
		}
		s.buf = bytes.TrimSuffix(s.buf, []byte{'\n'})
		if s.large || len(bytes.TrimSpace(s.buf)) > 0 {
			s.held = true
			return nil
		}
	}
}

func (s *lineSource) next(x *Exchange) error {
	if !s.held {
		if err := s.fill(); err != nil {
			if err == io.EOF && !s.any && !s.end {
				s.end = true
				return &UnreadableError{s.item.file, "no line of it is JSON"}
			}
			return err
		}
	}
	s.held = false
	x.Line, x.Offset = s.line, s.off
	if s.large {
		x.Odd, x.Note = OddTooLarge, fmt.Sprintf("line %d is longer than %d MiB", s.line, maxLine>>20)
		return nil
	}
	s.item.read(x, s.buf)
	if x.Odd == OddNotJSON {
		x.Note = fmt.Sprintf("line %d: %s", s.line, x.Note)
		if s.cut && s.any {
			x.Odd = OddCut
		}
	} else {
		s.any = true
	}
	return nil
}

// arraySource reads the items of a JSON array.
type arraySource struct {
	s    splitter
	item itemReader
	end  bool
}

func (s *arraySource) next(x *Exchange) error {
	if s.end {
		return io.EOF
	}
	v, at, err := s.s.next()
	x.Offset = at
	switch err {
	case nil:
		s.item.read(x, v)
		return nil
	case errLarge:
		x.Odd, x.Note = OddTooLarge, "an element is too large"
		return nil
	case io.ErrUnexpectedEOF, errSyntax:
		s.end = true
		x.Odd, x.Note = OddCut, "the array breaks off"
		return nil
	}
	return err
}
