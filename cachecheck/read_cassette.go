package cachecheck

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Cassettes are YAML: a list of interactions (vcrpy, VCR for Ruby, go-vcr), or
// one document an interaction, with `when` and `then` (httpmock). Either is cut
// into interactions by its lines, since a whole cassette as a syntax tree takes
// twenty times its size, and each is turned into the JSON that an item is.
//
// A body that a cassette holds parsed (parsed_body) keeps its key order and
// loses its white space.

func isCassette(head []byte) bool {
	for line := range bytes.Lines(head) {
		l := strings.TrimRight(string(line), "\r\n ")
		switch {
		case strings.HasPrefix(l, "interactions:"), strings.HasPrefix(l, "http_interactions:"), strings.HasPrefix(l, "when:"), strings.HasPrefix(l, "- request:"):
			return true
		case l == "", l == "---", strings.HasPrefix(l, "#"), strings.HasPrefix(l, "version:"), strings.HasPrefix(l, "recorded_with:"), strings.HasPrefix(l, "%YAML"):
		default:
			return false
		}
	}
	return false
}

// maxInteraction is the largest interaction that is read, in bytes of YAML.
const maxInteraction = 64 << 20

type cassetteSource struct {
	r    *bufio.Reader
	file string
	line int // lines read
	from int // the line at which buf starts

	list   bool // within a list of interactions; otherwise documents
	indent int  // of the list's dashes, −1 before the first
	buf    []byte
	large  bool
	end    bool
	item   itemReader
}

func (s *cassetteSource) next(x *Exchange) error {
	for !s.end {
		line, err := s.r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF {
			s.end = true
			if len(line) == 0 {
				break
			}
		}
		s.line++
		text := strings.TrimRight(string(line[:min(len(line), 64)]), "\r\n ")
		indent := len(text) - len(strings.TrimLeft(text, " "))
		switch {
		case !s.list && (strings.HasPrefix(text, "interactions:") || strings.HasPrefix(text, "http_interactions:")):
			s.list, s.indent, s.buf = true, -1, s.buf[:0]
			continue
		case !s.list && strings.HasPrefix(text, "- request:"):
			s.list, s.indent, s.buf = true, 0, s.buf[:0]
			s.add(line)
			continue
		case !s.list && text == "---", !s.list && text == "...":
			if s.take(x) {
				return nil
			}
			continue
		case s.list && strings.HasPrefix(text[indent:], "- ") && (s.indent < 0 || indent == s.indent):
			s.indent = indent
			ready := s.take(x)
			s.add(line)
			if ready {
				return nil
			}
			continue
		case s.list && text != "" && text[0] != ' ' && text[0] != '-' && text[0] != '#':
			// Back at the top: `version: 1` after the list.
			ready := s.take(x)
			s.list = false
			if ready {
				return nil
			}
			continue
		}
		s.add(line)
	}
	if s.take(x) {
		return nil
	}
	return io.EOF
}

func (s *cassetteSource) add(line []byte) {
	if len(s.buf) == 0 {
		s.from = s.line
	}
	if len(s.buf)+len(line) > maxInteraction {
		s.large = true
		return
	}
	s.buf = append(s.buf, line...)
}

// take turns what was collected into an exchange; false when there is nothing.
func (s *cassetteSource) take(x *Exchange) bool {
	defer func() { s.buf, s.large = s.buf[:0], false }()
	if len(bytes.TrimSpace(s.buf)) == 0 {
		return false
	}
	x.Line = s.from
	if s.large {
		x.Odd, x.Note = OddTooLarge, fmt.Sprintf("an interaction of more than %d MiB", maxInteraction>>20)
		return true
	}
	text, err := yamlJSON(s.buf)
	if err != nil {
		// The request may be sound where the reply is not.
		if i := replyAt(s.buf); i > 0 {
			if request, err2 := yamlJSON(s.buf[:i]); err2 == nil && request != nil {
				s.item.read(x, request)
				x.Note = strings.TrimPrefix(x.Note+"; the reply can't be read: "+err.Error(), "; ")
				return true
			}
		}
		x.Odd, x.Note = OddDamaged, fmt.Sprintf("line %d: %v", s.from, err)
		if s.end {
			x.Odd = OddCut
		}
		return true
	}
	if text == nil { // a document of settings
		return false
	}
	s.item.read(x, text)
	return true
}

// replyAt is where the reply of an interaction begins, −1 when it has none.
func replyAt(b []byte) int {
	at := 0
	for line := range bytes.Lines(b) {
		text := strings.TrimLeft(string(line[:min(len(line), 40)]), " ")
		if at > 0 && len(line)-len(text) <= 6 && (strings.HasPrefix(text, "response:") || strings.HasPrefix(text, "then:")) {
			return at
		}
		at += len(line)
	}
	return -1
}

// yamlJSON decodes one interaction and writes it as the JSON of an item. nil
// for a document that is none.
func yamlJSON(src []byte) (out []byte, err error) {
	defer func() {
		// The YAML library must not take the program down over a broken file.
		if r := recover(); r != nil {
			out, err = nil, errors.New("the YAML can't be read")
		}
	}()
	var v any
	if err := yaml.UnmarshalWithOptions(src, &v, yaml.UseOrderedMap()); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return nil, errors.New(clip(text, 120))
	}
	if l, ok := v.([]any); ok && len(l) == 1 {
		v = l[0]
	}
	m, ok := v.(yaml.MapSlice)
	if !ok {
		return nil, errors.New("an interaction is no mapping")
	}
	when, then := member(m, "when"), member(m, "then")
	if when != nil {
		m = yaml.MapSlice{{Key: "request", Value: when}, {Key: "response", Value: then}}
	}
	if member(m, "request") == nil {
		return nil, nil
	}
	return appendJSON(nil, m, 0)
}

func member(m yaml.MapSlice, key string) any {
	for _, i := range m {
		if k, ok := i.Key.(string); ok && k == key {
			return i.Value
		}
	}
	return nil
}

func appendJSON(dst []byte, v any, depth int) ([]byte, error) {
	if depth > 200 {
		return nil, errors.New("nested too deeply")
	}
	var err error
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return tape.Quote(dst, v), nil
	case []byte:
		return tape.Quote(dst, string(v)), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case float64:
		if v != v || v > 1e308 || v < -1e308 {
			return append(dst, "null"...), nil
		}
		return strconv.AppendFloat(dst, v, 'g', -1, 64), nil
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, e, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case yaml.MapSlice:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = tape.Quote(dst, fmt.Sprint(m.Key))
			if dst, err = appendJSON(append(dst, ':'), m.Value, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return tape.Quote(dst, fmt.Sprint(v)), nil
}
