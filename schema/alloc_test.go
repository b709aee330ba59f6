//go:build !race

package schema

import (
	"strings"
	"testing"
)

// The race detector allocates for itself.

// A tool that no rule names costs no memory beyond its name in the report.
func TestStrangersAllocateNothing(t *testing.T) {
	in := plainTool(t)
	Narrow(in, rules)
	if n := testing.AllocsPerRun(100, func() {
		if out, _ := Narrow(in, rules); !same(out, in) {
			t.Fatal("something removed")
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
	text := token(strings.Repeat("The user works here. ", 500))
	NarrowText(text, rules)
	if n := testing.AllocsPerRun(100, func() { NarrowText(text, rules) }); n > 0 {
		t.Errorf("%v allocations for a text", n)
	}
}
