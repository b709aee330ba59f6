//go:build !race

package rewrite

import (
	"testing"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// A request whose tools are known and that has nothing to narrow and nothing to
// restore costs no memory.
func TestNothingToDoAllocatesNothing(t *testing.T) {
	body := conversation(60_000, false)
	n, k := NewNarrower(rules, Options{}), keys(t)
	var q *wire.Request
	step := func() {
		var err error
		if q, err = wire.Read(wire.Route{Dialect: wire.Messages}, body, q); err != nil {
			t.Fatal(err)
		}
		if res := Apply(q, body, n, k); &res.Body[0] != &body[0] || len(res.Tools) != 25 {
			t.Fatal("something was done")
		}
	}
	if got := testing.AllocsPerRun(20, step); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
