package wasm_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// Programs: the verdict is what they wrote, if they ended well, and nothing
// that they did is there when they run again.
func TestCommand(t *testing.T) {
	for _, tc := range []struct {
		name   string
		want   guards.Decision
		cause  guards.Cause
		reason string
	}{
		{"pass", guards.Pass, "", ""},
		{"deny_exit0", guards.Deny, guards.CausePolicy, "not by me"},
		{"ask", guards.Ask, guards.CausePolicy, "sure?"},
		{"counter", guards.Pass, "", ""},
		{"search", guards.Pass, "", ""},
		{"pass_exit3", guards.Deny, guards.CauseExit, ""},
		{"pass_trap", guards.Deny, guards.CauseTrap, ""},
		{"silent", guards.Deny, guards.CauseUnknownVerdict, ""},
		{"twice", guards.Deny, guards.CauseUnknownVerdict, ""},
		{"flood", guards.Deny, guards.CauseFuel, ""},
		{"spin", guards.Deny, guards.CauseFuel, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			judges(t, load(t, "command/"+tc.name, wasm.Options{Slots: 1}), 4, tc.want, tc.cause, tc.reason)
		})
	}
}

// A program gets all of the document on its standard input, in pieces if it
// likes.
func TestCommandReadsItsInput(t *testing.T) {
	g := load(t, "command/search", wasm.Options{})
	for _, tc := range []struct {
		args  string
		cause guards.Cause
	}{
		{`{"a":"` + strings.Repeat("x", 500_000) + `"}`, ""},
		{`{"a":"` + strings.Repeat("x", 500_000) + `~"}`, guards.CauseExit},
	} {
		if v := g.Check(t.Context(), &guards.Call{Name: "b", Arguments: json.RawMessage(tc.args)}); v.Cause != tc.cause {
			t.Errorf("%d bytes: %+v", len(tc.args), v)
		}
	}
}

func TestCommandDeadline(t *testing.T) {
	g := load(t, "command/spin", wasm.Options{Deadline: 20 * time.Millisecond, Fuel: endless})
	if v := g.Check(t.Context(), call); v.Cause != guards.CauseDeadline {
		t.Errorf("got %+v", v)
	}
}
