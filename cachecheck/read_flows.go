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

// mitmproxy's flow files: one tnetstring a flow, LENGTH ':' DATA TYPE, where a
// dictionary's data are keys and values in turn. Bodies are as on the wire,
// content encoding and all. Sources: tnetstrings.org; mitmproxy's io module
// (types ',' bytes, ';' text, '#' integer, '^' float, '!' boolean, '~' null,
// ']' list, '}' dictionary).

const maxFlow = 4 * MaxBody

func isFlow(head []byte) bool {
	n := 0
	for n < len(head) && n < 12 && head[n] >= '0' && head[n] <= '9' {
		n++
	}
	return n > 0 && n < len(head) && head[n] == ':'
}

// tnet is one value; data is without the length and the type.
type tnet struct {
	kind byte
	data []byte
}

// cutTnet takes the value that b begins with.
func cutTnet(b []byte) (v tnet, rest []byte, ok bool) {
	colon := bytes.IndexByte(b[:min(len(b), 12)], ':')
	if colon < 1 {
		return tnet{}, nil, false
	}
	n, err := strconv.Atoi(string(b[:colon]))
	if err != nil || n < 0 || n > len(b)-colon-2 {
		return tnet{}, nil, false
	}
	return tnet{b[colon+1+n], b[colon+1 : colon+1+n]}, b[colon+2+n:], true
}

// get is the member of a dictionary; the zero tnet when there is none.
func (v tnet) get(key string) tnet {
	if v.kind != '}' {
		return tnet{}
	}
	for b := v.data; len(b) > 0; {
		k, rest, ok := cutTnet(b)
		if !ok {
			return tnet{}
		}
		m, rest, ok := cutTnet(rest)
		if !ok {
			return tnet{}
		}
		if string(k.data) == key {
			return m
		}
		b = rest
	}
	return tnet{}
}

// each calls f with the elements of a list until it returns false.
func (v tnet) each(f func(tnet) bool) {
	if v.kind != ']' {
		return
	}
	for b := v.data; len(b) > 0; {
		e, rest, ok := cutTnet(b)
		if !ok || !f(e) {
			return
		}
		b = rest
	}
}

func (v tnet) at(i int) (out tnet) {
	v.each(func(e tnet) bool {
		out = e
		i--
		return i >= 0
	})
	if i >= 0 {
		return tnet{}
	}
	return out
}

func (v tnet) text() string {
	if v.kind != ',' && v.kind != ';' {
		return ""
	}
	return string(v.data)
}

func (v tnet) instant() int64 {
	f, err := strconv.ParseFloat(string(v.data), 64)
	if err != nil || f < 1e8 || f > 1e10 {
		return 0
	}
	return int64(f * 1e9)
}

func (v tnet) header(name string) (out string) {
	v.each(func(h tnet) bool {
		if strings.EqualFold(h.at(0).text(), name) {
			out = h.at(1).text()
		}
		return out == ""
	})
	return out
}

type flowSource struct {
	r      *bufio.Reader
	off    int64
	buf    []byte
	frames []Exchange
	end    bool
	any    bool
	t      tape.Tape
}

func (s *flowSource) next(x *Exchange) error {
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
	x.Offset = s.off
	broken := func(why string) error {
		s.end = true
		if !s.any {
			return &UnreadableError{x.File, "it begins like a file of mitmproxy flows: " + why}
		}
		x.Odd, x.Note = OddCut, why
		return nil
	}
	n := 0
	for digits := 0; ; digits++ {
		c, err := s.r.ReadByte()
		if err == io.EOF && digits == 0 {
			return io.EOF
		}
		if err == io.EOF {
			return broken("the last flow breaks off")
		}
		if err != nil {
			return err
		}
		s.off++
		if c == ':' && digits > 0 {
			break
		}
		if digits == 0 && (c == '\n' || c == '\r') {
			digits--
			continue
		}
		if c < '0' || c > '9' || digits > 11 {
			return broken("no length where a flow should start")
		}
		n = n*10 + int(c-'0')
	}
	if n > maxFlow {
		m, err := s.r.Discard(n + 1)
		s.off += int64(m)
		if err != nil {
			return broken("the last flow breaks off")
		}
		x.Odd, x.Note = OddTooLarge, fmt.Sprintf("a flow of %d MiB", n>>20)
		s.any = true
		return nil
	}
	// The length is what the file says: memory grows with what is really there.
	b := bytes.NewBuffer(s.buf[:0])
	m, err := io.CopyN(b, s.r, int64(n)+1)
	s.off += m
	s.buf = b.Bytes()
	if err == io.EOF {
		return broken("the last flow breaks off")
	}
	if err != nil {
		return err
	}
	flow := tnet{s.buf[n], s.buf[:n]}
	if flow.kind != '}' {
		return broken("a flow is no dictionary")
	}
	s.any = true
	s.flow(x, flow)
	return nil
}

func (s *flowSource) flow(x *Exchange, f tnet) {
	req, resp := f.get("request"), f.get("response")
	if typ := f.get("type").text(); req.kind != '}' || typ != "" && typ != "http" && typ != "websocket" {
		x.Odd, x.Note = OddNotModel, clip(typ, 20)+" flow"
		return
	}
	h := req.get("headers")
	x.Host, x.Path = req.get("host").text(), req.get("path").text()
	if v := h.header("host"); v != "" {
		x.Host = v
	} else if v := req.get("authority").text(); v != "" {
		x.Host = v
	}
	x.headers(h.header)
	x.Start, x.FirstByte = req.get("timestamp_start").instant(), resp.get("timestamp_start").instant()
	x.Status, _ = strconv.Atoi(string(resp.get("status_code").data))
	if ws := f.get("websocket").get("messages"); ws.kind == ']' {
		ws.each(func(m tnet) bool {
			if string(m.at(1).data) == "true" {
				e := *x
				e.Status = 0
				e.Body = bytes.Clone(m.at(2).data)
				if at := m.at(3).instant(); at != 0 {
					e.Start, e.FirstByte = at, 0
				}
				s.frames = append(s.frames, e)
			}
			return true
		})
		if len(s.frames) > 0 {
			entry, file := x.Entry, x.File
			*x, s.frames = s.frames[0], s.frames[1:]
			x.Entry, x.File = entry, file
			return
		}
	}
	if m := req.get("method").text(); !strings.EqualFold(m, "POST") || !isModelPath(x.Path) {
		x.Odd, x.Note = OddNotModel, strings.TrimSpace(m+" "+clip(x.Path, 60))
		return
	}
	body := req.get("content")
	if body.kind != ',' && body.kind != ';' || len(body.data) == 0 {
		x.Odd = OddNoBody
		return
	}
	x.Body, x.Odd, x.Note = decode(h.header("content-encoding"), body.data, MaxBody)
	if reply, odd, _ := decode(resp.get("headers").header("content-encoding"), resp.get("content").data, MaxBody); odd == "" {
		x.reply(&s.t, reply)
	}
}
