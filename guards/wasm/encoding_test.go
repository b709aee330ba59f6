package wasm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// encode writes a string as JSON in one of the many ways there are.
func encode(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	unit := func(u uint16) {
		f := "\\u%04x"
		if rapid.Bool().Draw(t, "upper") {
			f = "\\u%04X"
		}
		fmt.Fprintf(&b, f, u)
	}
	short := map[rune]byte{'"': '"', '\\': '\\', '/': '/', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	for _, r := range s {
		plain := r >= 0x20 && r != '"' && r != '\\'
		switch c, ok := short[r]; {
		case plain && rapid.IntRange(0, 2).Draw(t, "plain") > 0:
			b.WriteRune(r)
		case ok && rapid.Bool().Draw(t, "short"):
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				unit(u)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

// arguments writes the object of some members, in a drawn order, with drawn
// white space.
func arguments(t *rapid.T, members map[string]string) json.RawMessage {
	space := func() string {
		return rapid.SampledFrom([]string{"", "", " ", "\n", "\t", "\r\n  "}).Draw(t, "space")
	}
	var names []string
	for _, n := range []string{"command", "description", "extra"} {
		if _, ok := members[n]; ok {
			names = append(names, n)
		}
	}
	names = rapid.Permutation(names).Draw(t, "order")
	var b strings.Builder
	b.WriteString(space() + "{")
	for i, n := range names {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(space() + encode(t, n) + space() + ":" + space() + encode(t, members[n]) + space())
	}
	b.WriteString("}" + space())
	return json.RawMessage(b.String())
}

// For all calls, in whatever way their arguments are written down, the verdict
// and its reason are the same.
func TestEquivalentEncodings(t *testing.T) {
	g := load(t, "echo", wasm.Options{Deadline: time.Minute})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(0, 40, -1), rapid.SampledFrom([]string{"nrm -rf /", "n\\u0041", "n\"\\/", "n\u2028😀", "ls"}))
		members := map[string]string{"command": text.Draw(t, "command")}
		for _, n := range []string{"description", "extra"} {
			if rapid.Bool().Draw(t, n) {
				members[n] = text.Draw(t, "text")
			}
		}
		plain, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		judge := func(args json.RawMessage) guards.Verdict {
			v := g.Check(context.Background(), &guards.Call{Name: "bash", Kind: "shell", Arguments: args, ArgumentsRaw: string(args)})
			v.Fuel = 0 // white space is work, too
			return v
		}
		want := judge(plain)
		if want.Decision == guards.Deny != strings.HasPrefix(members["command"], "n") || want.Decision == guards.Deny && want.Reason != guards.ClipReason(members["command"]) {
			t.Fatalf("%q: %+v", members["command"], want)
		}
		for range 3 {
			args := arguments(t, members)
			if got := judge(args); got.Decision != want.Decision || got.Cause != want.Cause || got.Reason != want.Reason {
				t.Fatalf("%s\ngot %+v\nwant %+v", args, got, want)
			}
		}
	})
}
