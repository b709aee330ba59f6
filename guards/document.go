package guards

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// The document is written by hand rather than by reflection: its member order
// is part of the contract (equal calls give equal bytes, which a replay
// compares), and the arguments must pass through without their numbers being
// read.

// Call is one tool call as the guards judge it. The host fills it; guards only
// read it.
type Call struct {
	ID   string
	Name string

	// Arguments is one JSON object, as judged: valid, without duplicate keys.
	// Empty means {}. For a call whose arguments are text (a custom tool of the
	// Responses API) it is {"input": text}, and ArgumentsRaw the text.
	Arguments json.RawMessage
	// ArgumentsRaw is the bytes that the model wrote, "" for none. They are
	// what the client will run if the call passes.
	ArgumentsRaw string

	Kind  string // shell, write, read, code or other; "" if unknown
	Shell *Shell // the parsed command of a shell or code call, else nil
	Paths []Path // what a write or read tool names, and what patches touch

	Client  string // claude-code, codex, …; "" if unknown. Only for Match, not in the document
	Dialect string // anthropic-messages, openai-chat, openai-responses
	Model   string
	Session Session
}

// Shell is the host's parse of a shell call's command, or of the commands in a
// program that consists of literal ones; every other program is opaque.
type Shell struct {
	Argv   [][]string // one list of words for each simple command
	Opaque bool       // the words are not the whole truth
}

// Path is a path that a tool call names.
type Path struct {
	Path string
	Op   string // "read" or "write"
}

// Session is what guards may know about the session of a call.
type Session struct {
	ID        string
	Mode      string // read-only, workspace-write, danger-full-access
	Approval  string // never, ask
	Workspace string // absolute
	Turn      int    // messages written by the user so far
	Calls     int    // calls since the last of them, this reply's included
	Index     int    // of this call among the reply's, from 0
}

// Document returns the guard/1 input document with a guard's own
// configuration in it ({} if config is empty). It is compact JSON, fresh
// memory, and the same bytes for the same call. Numbers, strings and the
// order of keys in Arguments and config stay as they are; only white space
// between tokens goes. Strings that are not UTF-8 get U+FFFD.
//
// It returns nil if Arguments or config is not valid JSON; a host denies
// then.
func (c *Call) Document(config json.RawMessage) []byte {
	var b bytes.Buffer
	b.Grow(c.atLeast() + len(config) + 512)
	raw := func(key string, v json.RawMessage) bool {
		b.WriteString(key)
		if len(v) == 0 {
			b.WriteString("{}")
			return true
		}
		return json.Compact(&b, v) == nil
	}
	str := func(key, v string) {
		b.WriteString(key)
		quote(&b, v)
	}
	num := func(key string, v int) {
		b.WriteString(key)
		b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(v), 10))
	}

	str(`{"abi":"guard/1","call":{"id":`, c.ID)
	str(`,"name":`, c.Name)
	if !raw(`,"arguments":`, c.Arguments) {
		return nil
	}
	str(`,"arguments_raw":`, c.ArgumentsRaw)
	str(`,"kind":`, c.Kind)
	if c.Shell != nil {
		b.WriteString(`,"shell":{"argv":[`)
		for i, argv := range c.Shell.Argv {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('[')
			for j, word := range argv {
				if j > 0 {
					b.WriteByte(',')
				}
				quote(&b, word)
			}
			b.WriteByte(']')
		}
		b.WriteString(`],"opaque":`)
		b.WriteString(strconv.FormatBool(c.Shell.Opaque))
		b.WriteByte('}')
	}
	b.WriteString(`,"paths":[`)
	for i, p := range c.Paths {
		if i > 0 {
			b.WriteByte(',')
		}
		str(`{"path":`, p.Path)
		str(`,"op":`, p.Op)
		b.WriteByte('}')
	}
	str(`]},"dialect":`, c.Dialect)
	str(`,"model":`, c.Model)
	str(`,"session":{"id":`, c.Session.ID)
	str(`,"mode":`, c.Session.Mode)
	str(`,"approval":`, c.Session.Approval)
	str(`,"workspace":`, c.Session.Workspace)
	num(`,"turn":`, c.Session.Turn)
	num(`,"calls":`, c.Session.Calls)
	num(`,"index":`, c.Session.Index)
	if !raw(`},"config":`, config) {
		return nil
	}
	b.WriteByte('}')
	return b.Bytes()
}

// atLeast is the size of the text in the document, without its punctuation:
// what is larger than the limit here need not be written down to know it.
func (c *Call) atLeast() int {
	n := len(c.ID) + len(c.Name) + len(c.ArgumentsRaw)
	if c.ArgumentsRaw == "" {
		n += len(c.Arguments)
	}
	if c.Shell != nil {
		for _, argv := range c.Shell.Argv {
			for _, w := range argv {
				n += len(w)
			}
		}
	}
	for _, p := range c.Paths {
		n += len(p.Path)
	}
	return n
}

// quote writes s as a JSON string with the fewest escapes.
func quote(b *bytes.Buffer, s string) {
	const hex = "0123456789abcdef"
	b.WriteByte('"')
	from := 0
	for i := 0; i < len(s); {
		ch := s[i]
		if ch < utf8.RuneSelf {
			if ch >= 0x20 && ch != '"' && ch != '\\' {
				i++
				continue
			}
			b.WriteString(s[from:i])
			switch ch {
			case '"', '\\':
				b.WriteByte('\\')
				b.WriteByte(ch)
			case '\n':
				b.WriteString(`\n`)
			case '\r':
				b.WriteString(`\r`)
			case '\t':
				b.WriteString(`\t`)
			default:
				b.WriteString(`\u00`)
				b.WriteByte(hex[ch>>4])
				b.WriteByte(hex[ch&15])
			}
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteString(s[from:i])
			b.WriteString("\uFFFD")
			from = i + 1
		}
		i += n
	}
	b.WriteString(s[from:])
	b.WriteByte('"')
}
