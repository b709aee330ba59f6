package cachecheck

import (
	"bytes"
	"encoding/base64"
	"io"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// HAR 1.2: one JSON document, log.entries is the list. It is read entry by
// entry (splitter), since browsers and proxies write hundreds of megabytes.
// Source: the "HTTP Archive 1.2" specification; _webSocketMessages is what
// Chrome and mitmproxy add for WebSocket frames.

func isHAR(head []byte) bool {
	i := bytes.IndexByte(head, '"')
	return i > 0 && bytes.HasPrefix(head[i:], []byte(`"log"`))
}

type harSource struct {
	s       splitter
	entered bool
	end     bool
	t, u    tape.Tape
	frames  []Exchange // of a WebSocket, to be given out
}

func (s *harSource) next(x *Exchange) error {
	if len(s.frames) > 0 {
		entry, file := x.Entry, x.File
		*x = s.frames[0]
		x.Entry, x.File = entry, file
		s.frames = s.frames[1:]
		return nil
	}
	if s.end {
		return io.EOF
	}
	broken := func() error {
		s.end = true
		x.Odd, x.Note = OddCut, "the HAR document breaks off"
		return nil
	}
	if !s.entered {
		s.entered = true
		switch err := s.s.enter("log", "entries"); err {
		case nil:
		case io.EOF:
			return &UnreadableError{x.File, "a HAR document without entries"}
		case io.ErrUnexpectedEOF, errSyntax:
			return broken()
		default:
			return err
		}
	}
	v, at, err := s.s.next()
	x.Offset = at
	switch err {
	case nil:
	case errLarge:
		x.Odd, x.Note = OddTooLarge, "an entry is too large"
		return nil
	case io.ErrUnexpectedEOF, errSyntax:
		return broken()
	default:
		return err
	}
	if err := s.t.ParseRepeats(v); err != nil {
		x.Odd, x.Note = OddDamaged, err.Error()
		return nil
	}
	s.entry(x)
	return nil
}

func (s *harSource) entry(x *Exchange) {
	t := &s.t
	req, resp := t.Get(0, "request"), t.Get(0, "response")
	x.setURL(t.Str(t.Get(req, "url")))
	h := t.Get(req, "headers")
	x.headers(func(name string) string { return header(t, h, name) })
	x.Start = parseInstant(t.Str(t.Get(0, "startedDateTime")))
	if timings := t.Get(0, "timings"); x.Start > 0 && timings >= 0 {
		ms := 0.0
		for _, k := range []string{"blocked", "dns", "connect", "send", "wait"} {
			if i := t.Get(timings, k); t.Kind(i) == tape.Number {
				if f, err := strconv.ParseFloat(string(t.Raw(i)), 64); err == nil && f > 0 && f < 1e9 {
					ms += f
				}
			}
		}
		x.FirstByte = x.Start + int64(ms*1e6)
	}
	x.Status, _ = t.Int(t.Get(resp, "status"))
	if ws := first(t, 0, "_webSocketMessages"); t.Kind(ws) == tape.Array {
		for m := ws + 1; m < t.After(ws); m = t.After(m) {
			if typ := t.Str(t.Get(m, "type")); typ == "send" || typ == "request" {
				f := *x
				f.Status = 0
				f.Body = t.AppendStr(nil, t.Get(m, "data"))
				s.frames = append(s.frames, f)
			}
		}
		if len(s.frames) > 0 {
			entry, file := x.Entry, x.File
			*x, s.frames = s.frames[0], s.frames[1:]
			x.Entry, x.File = entry, file
			return
		}
	}
	post := t.Get(req, "postData")
	text := t.Get(post, "text")
	if m := t.Str(t.Get(req, "method")); !strings.EqualFold(m, "POST") || !isModelPath(x.Path) {
		x.Odd, x.Note = OddNotModel, strings.TrimSpace(m+" "+clip(x.Path, 60))
		return
	}
	if t.Kind(text) != tape.String || t.Empty(text) {
		x.Odd = OddNoBody
		return
	}
	body := t.AppendStr(nil, text)
	if strings.EqualFold(t.Str(t.Get(post, "encoding")), "base64") || strings.EqualFold(t.Str(t.Get(post, "_encoding")), "base64") {
		body = fromBase64(string(body))
	}
	// The text is decoded already, except by tools that only base64 it.
	if enc := header(t, h, "content-encoding"); enc != "" && !looksJSON(body) {
		body, x.Odd, x.Note = decode(enc, body, MaxBody)
	}
	x.Body = body
	content := t.Get(resp, "content")
	if reply := t.Get(content, "text"); t.Kind(reply) == tape.String {
		b := t.AppendStr(nil, reply)
		if strings.EqualFold(t.Str(t.Get(content, "encoding")), "base64") {
			b = fromBase64(string(b))
		}
		x.reply(&s.u, b)
	}
}

func fromBase64(s string) []byte {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' {
			return -1
		}
		return r
	}, s)
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}
