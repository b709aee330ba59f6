package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Lines are written by hand: the order of members is part of the format, so
// that equal exchanges give equal lines, and a body of megabytes is quoted in
// one pass without another copy of it.

// AppendHeader appends a header line. rules is one JSON value on one line; nil
// means {}.
func AppendHeader(dst []byte, rules json.RawMessage) []byte {
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, Version, 10)
	dst = append(dst, `,"rules":`...)
	return append(appendRaw(dst, rules, "{}"), "}\n"...)
}

// AppendExchange appends the line of x.
func AppendExchange(dst []byte, x *Exchange) []byte {
	o := object{dst: append(dst, '{')}
	o.time("start", x.Start)
	o.time("first_byte", x.FirstByte)
	o.time("end", x.End)
	o.str("session", x.Session)
	o.str("agent", x.Agent)
	o.str("dialect", x.Dialect)
	o.str("method", x.Method)
	o.str("path", x.Path)
	o.some("credential", x.Credential)
	o.headers("request_headers", x.RequestHeaders)
	o.headers("response_headers", x.ResponseHeaders)
	o.bytes("client_body", x.ClientBody)
	if x.Rewritten() {
		o.bytes("upstream_body", x.UpstreamBody)
	}
	o.some("content_encoding", x.ContentEncoding)
	o.key("rewrite")
	r := object{dst: append(o.dst, '{')}
	r.strs("removed", x.Rewrite.Removed)
	r.num("restored", x.Rewrite.Restored)
	o.dst = append(r.dst, '}')
	if x.Status != 0 {
		o.num("status", x.Status)
	}
	o.some("response_id", x.ResponseID)
	o.raw("usage", x.Usage)
	o.raw("diagnostics", x.Diagnostics)
	o.key("calls")
	o.dst = append(o.dst, '[')
	for i := range x.Calls {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = x.Calls[i].append(o.dst)
	}
	o.dst = append(o.dst, ']')
	if len(x.Masked.ClientBody)+len(x.Masked.UpstreamBody) > 0 {
		o.key("masked")
		m := object{dst: append(o.dst, '{')}
		m.spans("client_body", x.Masked.ClientBody)
		if x.Rewritten() {
			m.spans("upstream_body", x.Masked.UpstreamBody)
		}
		o.dst = append(m.dst, '}')
	}
	o.raw("proof", x.Proof)
	return append(o.dst, "}\n"...)
}

func (c *Call) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.str("id", c.ID)
	o.str("tool", c.Tool)
	o.str("kind", c.Kind)
	o.bytes("arguments_raw", c.ArgumentsRaw)
	o.key("facts")
	f := object{dst: append(o.dst, '{')}
	f.flag("judged", c.Facts.Judged)
	f.str("model", c.Facts.Model)
	if c.Facts.ArgumentsRaw != nil {
		f.bytes("arguments_raw", c.Facts.ArgumentsRaw)
	}
	if c.Facts.Arguments != nil {
		f.bytes("arguments", c.Facts.Arguments)
	}
	if s := c.Facts.Shell; s != nil {
		f.key("shell")
		sh := object{dst: append(f.dst, '{')}
		sh.key("argv")
		sh.dst = append(sh.dst, '[')
		for i, argv := range s.Argv {
			if i > 0 {
				sh.dst = append(sh.dst, ',')
			}
			sh.dst = appendStrs(sh.dst, argv)
		}
		sh.dst = append(sh.dst, ']')
		sh.flag("opaque", s.Opaque)
		f.dst = append(sh.dst, '}')
	}
	if len(c.Facts.Paths) > 0 {
		f.key("paths")
		f.dst = append(f.dst, '[')
		for i, p := range c.Facts.Paths {
			if i > 0 {
				f.dst = append(f.dst, ',')
			}
			one := object{dst: append(f.dst, '{')}
			one.str("path", p.Path)
			one.str("op", p.Op)
			f.dst = append(one.dst, '}')
		}
		f.dst = append(f.dst, ']')
	}
	f.str("mode", c.Facts.Mode)
	f.str("approval", c.Facts.Approval)
	f.str("workspace", c.Facts.Workspace)
	f.num("turn", c.Facts.Turn)
	f.num("calls", c.Facts.Calls)
	f.num("index", c.Facts.Index)
	o.dst = append(f.dst, '}')
	o.str("verdict", c.Verdict)
	o.some("cause", c.Cause)
	o.some("guard", c.Guard)
	if c.Masked > 0 {
		o.num("masked", c.Masked)
	}
	return append(o.dst, '}')
}

// object writes the members of one object; dst ends with its opening brace.
type object struct {
	dst  []byte
	more bool
}

// key writes a member's key, which needs no escapes.
func (o *object) key(name string) {
	if o.more {
		o.dst = append(o.dst, ',')
	}
	o.more = true
	o.dst = append(o.dst, '"')
	o.dst = append(o.dst, name...)
	o.dst = append(o.dst, '"', ':')
}

func (o *object) str(name, v string) {
	o.key(name)
	o.dst = appendString(o.dst, v)
}

func (o *object) some(name, v string) {
	if v != "" {
		o.str(name, v)
	}
}

func (o *object) num(name string, v int) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, int64(v), 10)
}

func (o *object) flag(name string, v bool) {
	o.key(name)
	o.dst = strconv.AppendBool(o.dst, v)
}

func (o *object) time(name string, t time.Time) {
	if !t.IsZero() {
		o.key(name)
		o.dst = append(o.dst, '"')
		o.dst = t.UTC().AppendFormat(o.dst, time.RFC3339Nano)
		o.dst = append(o.dst, '"')
	}
}

// bytes writes text as a string, and what no string can hold in base64.
func (o *object) bytes(name string, v []byte) {
	o.key(name)
	if utf8.Valid(v) {
		o.dst = appendQuoted(o.dst, v)
		return
	}
	o.dst = append(o.dst, `{"base64":"`...)
	o.dst = base64.StdEncoding.AppendEncode(o.dst, v)
	o.dst = append(o.dst, `"}`...)
}

func (o *object) raw(name string, v json.RawMessage) {
	if len(v) > 0 {
		o.key(name)
		o.dst = appendRaw(o.dst, v, "null")
	}
}

func (o *object) strs(name string, v []string) {
	o.key(name)
	o.dst = appendStrs(o.dst, v)
}

func (o *object) headers(name string, h map[string]string) {
	o.key(name)
	one := object{dst: append(o.dst, '{')}
	for _, k := range slices.Sorted(maps.Keys(h)) {
		if one.more {
			one.dst = append(one.dst, ',')
		}
		one.more = true
		one.dst = append(appendString(one.dst, k), ':')
		one.dst = appendString(one.dst, h[k])
	}
	o.dst = append(one.dst, '}')
}

func (o *object) spans(name string, v []Span) {
	o.key(name)
	o.dst = append(o.dst, '[')
	for i, s := range v {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = append(o.dst, '[')
		o.dst = strconv.AppendInt(o.dst, int64(s.Start), 10)
		o.dst = append(o.dst, ',')
		o.dst = strconv.AppendInt(o.dst, int64(s.End), 10)
		o.dst = append(o.dst, ']')
	}
	o.dst = append(o.dst, ']')
}

func appendStrs(dst []byte, v []string) []byte {
	dst = append(dst, '[')
	for i, s := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// appendRaw appends JSON that a provider wrote, on one line: where it has line
// breaks, the white space between its tokens goes. What a Reader would not
// read is replaced.
func appendRaw(dst []byte, v json.RawMessage, otherwise string) []byte {
	var t tape.Tape
	if t.Parse(v) != nil || t.Depth() > tape.MaxDepth-8 {
		return append(dst, otherwise...)
	}
	if bytes.ContainsAny(v, "\n\r") { // between tokens: in strings they are escaped
		var b bytes.Buffer
		json.Compact(&b, v)
		v = b.Bytes()
	}
	return append(dst, bytes.TrimSpace(v)...)
}

// appendString appends s as a JSON string; what is not UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	return appendQuoted(dst, strings.ToValidUTF8(s, "\uFFFD"))
}

// plain are the bytes that stand in a JSON string as they are.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

// appendQuoted appends valid UTF-8 as a JSON string with the fewest escapes.
func appendQuoted[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = slices.Grow(dst, len(s)+len(s)/8+2)
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plain[c] {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
