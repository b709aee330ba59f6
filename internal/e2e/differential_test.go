package e2e

// The claim: whatever upstream sends, every reader ends up with calls that
// were judged and allowed, or with our refusals in their places, and nothing
// else. For a stream by the grammar every reader ends up with exactly these.

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// passage is a stream on its way through.
type passage struct {
	out     []byte
	want    []call // in order, as the client is to have them
	allowed []call // of these, the model's own
	refused error  // why the rest of the stream was refused
	// withheld says that a message took the place of an unknown item.
	withheld bool
}

// judge decides as the proxy's screen does, with a word for a guard.
func judge(c wire.Call) wire.Ruling {
	no := wire.Ruling{Replace: true, Name: "guardproxy_refused", Args: []byte(`{"reason":"no \"` + "\u2028" + `","sealed":"gp1:x"}`)}
	if c.Malformed != "" || !slices.Contains([]string{"Bash", "Read", "lookup", "local_shell", "apply_patch"}, c.Name) || bytes.Contains(c.Args, []byte(forbidden)) {
		return no
	}
	if len(c.Args) == 0 || c.Text {
		return wire.Ruling{}
	}
	var a tape.Tape
	if a.Parse(c.Args) != nil || a.Kind(0) != tape.Object || a.LoneSurrogate() || a.NUL() {
		return no
	}
	seen := map[string]bool{}
	for k := 1; k < a.After(0); k = a.After(k + 1) {
		l := strings.ToLower(a.Str(k))
		if seen[l] {
			return no
		}
		seen[l] = true
	}
	return wire.Ruling{}
}

// through sends a stream the way the proxy's reply loop does, with an error
// event where it refuses.
func through(d wire.Dialect, stream []byte) passage {
	var p passage
	rd := sse.NewReader(bytes.NewReader(stream), 17<<20)
	st := wire.NewStream(d, nil, wire.DefaultLimits)
	for {
		ev, err := rd.Next()
		if err == io.EOF {
			if err = st.End(); err == nil {
				return p
			}
		}
		var step wire.Step
		if err == nil {
			step, err = st.Feed(ev)
		}
		if err != nil {
			p.refused = err
			if len(p.out) > 0 {
				p.out = append(p.out, errorTail(d)...)
			}
			return p
		}
		p.withheld = p.withheld || len(step.Withheld) > 0
		out := step.Flow
		if step.Calls != nil {
			var rulings []wire.Ruling
			for _, c := range step.Calls {
				r := judge(c)
				rulings = append(rulings, r)
				p.want = append(p.want, seenAs(c, r))
				if !r.Replace {
					p.allowed = append(p.allowed, p.want[len(p.want)-1])
				}
			}
			out = st.Release(rulings)
		}
		p.out = append(p.out, out...)
	}
}

func errorTail(d wire.Dialect) string {
	switch d {
	case wire.Messages:
		return event("error", `{"type":"error","error":{"type":"api_error","message":"guardproxy: x"}}`)
	case wire.Responses:
		return event("error", `{"type":"error","code":"x","message":"guardproxy: x","param":null}`)
	}
	return "data: {\"error\":{\"message\":\"guardproxy: x\",\"type\":\"api_error\",\"param\":null,\"code\":\"x\"}}\n\n"
}

func readers(d wire.Dialect) []reader {
	switch d {
	case wire.Messages:
		return messagesReaders()
	case wire.Responses:
		return responsesReaders()
	}
	return chatReaders()
}

// runnable reports whether a client could run what a reader has: it has a name
// and its arguments are an object, or there are none. After a reader gave up,
// no arguments means that they did not come yet.
func runnable(c call, err error) bool {
	if strings.TrimSpace(c.args) == "" || strings.HasPrefix(c.name, "custom_tool_call ") && c.args == textArgs("") {
		return c.name != "" && err == nil
	}
	return c.name != "" && strings.HasPrefix(readings(c.args)[0], "{")
}

// mismatch checks all readers; "" is agreement. legal demands that every
// reader gets through and has everything.
func mismatch(d wire.Dialect, stream []byte, p passage, legal bool) string {
	want := make([]call, len(p.want))
	for i, c := range p.want {
		want[i] = canonical(c)
	}
	for _, c := range p.allowed {
		if r := readings(c.args); len(r) != 1 {
			return fmt.Sprintf("allowed arguments can be read in two ways: %q", r)
		}
	}
	if legal && p.refused != nil {
		return fmt.Sprintf("a legal stream is refused: %v", p.refused)
	}
	for _, r := range readers(d) {
		got, err := r.read(p.out)
		if legal && err != nil {
			return fmt.Sprintf("%s gives up on a legal stream: %v", r.name, err)
		}
		var have []call
		for _, c := range got {
			if runnable(c, err) {
				have = append(have, canonical(c))
			}
		}
		var odd string
		left := slices.Clone(want)
		for _, c := range have {
			i := slices.IndexFunc(left, func(w call) bool { return c == w || r.joins && joined(c, w) })
			if i < 0 {
				odd = fmt.Sprintf("%s has %q, which was never released", r.name, c)
				break
			}
			left = slices.Delete(left, i, i+1)
		}
		// Nothing at all may be missing where the reader had no reason to give
		// up.
		if odd == "" && legal && !r.partial && len(left) > 0 {
			odd = fmt.Sprintf("%s lacks %q", r.name, left)
		}
		if odd != "" {
			delivered := "the same"
			if !bytes.Equal(stream, p.out) {
				delivered = dump(p.out)
			}
			return fmt.Sprintf("%s\nreader's error: %v\nrefused: %v\nreleased: %q\nit has: %q\nstream: %q\ndelivered: %s", odd, err, p.refused, want, have, stream, delivered)
		}
	}
	return ""
}

// joined reports whether a reader that appends names has w's name several
// times: compatible servers repeat it with each piece.
func joined(c, w call) bool {
	return c.id == w.id && c.args == w.args && w.name != "" && strings.ReplaceAll(c.name, w.name, "") == ""
}

var allDialects = wire.Dialects

func drawStream(t *rapid.T, d wire.Dialect, odd bool) []byte {
	items, strange := drawMessages, strangeMessages
	switch d {
	case wire.Chat:
		items, strange = drawChat, strangeChat
	case wire.Responses:
		items, strange = drawResponses, strangeResponses
	}
	list := items(t, odd)
	if odd {
		list = makeOdd(t, list, strange)
		if d == wire.Responses && chance(t, "no index at all", 10) {
			for i := range list {
				list[i].data = noIndex.ReplaceAllString(list[i].data, "")
			}
		}
	}
	return drawBytes(t, list, odd)
}

func TestEveryReaderHasWhatWasJudged(t *testing.T) {
	for _, d := range allDialects {
		t.Run(string(d)+"/legal", func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawStream(t, d, false)
				p := through(d, s)
				if m := mismatch(d, s, p, true); m != "" {
					t.Fatal(m)
				}
				if len(p.allowed) == len(p.want) && !bytes.Equal(p.out, s) {
					t.Fatalf("an allowed reply is not upstream's:\n%q\n%q", s, p.out)
				}
			})
		})
		t.Run(string(d)+"/odd", func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawStream(t, d, true)
				if m := mismatch(d, s, through(d, s), false); m != "" {
					t.Fatal(m)
				}
			})
		})
	}
}
