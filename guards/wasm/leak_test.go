package wasm_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// The ways in which a memory is put back.
var ways = []struct {
	name string
	set  func(testing.TB)
}{
	{"shared image", func(testing.TB) {}},
	{"copied image", wasm.WithCopies},
	{"memory on the heap", wasm.OnTheHeap},
}

// Each of the modules of testdata/leak leaves a trace of a call in another
// place, and denies when it finds one.
func TestNoTraceOfACall(t *testing.T) {
	files, err := filepath.Glob("testdata/leak/*.wasm")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d modules: %v", len(files), err)
	}
	// What the host offers holds nothing that a call could change; in all
	// other places a call does leave a trace, as an instance that is used
	// again without being put back shows.
	stateless := map[string]bool{"clock": true, "files": true, "descriptors": true, "stdin": true, "random": true}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			way.set(t)
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".wasm")
				t.Run(name, func(t *testing.T) {
					g := load(t, "leak/"+name, wasm.Options{Slots: 1})
					for i := range 4 {
						if v := g.Check(t.Context(), call); v.Decision != guards.Pass {
							t.Fatalf("call %d: %+v", i, v)
						}
					}
					if again := g.CheckTwiceWithoutReset(t.Context(), call); (again.Decision == guards.Pass) != stateless[name] {
						t.Errorf("an instance that is not put back: %+v", again)
					}
				})
			}
		})
	}
}

// What a reset can't put back makes the guard get new instances; the rest is
// reset, and not quietly made anew.
func TestWhoIsReset(t *testing.T) {
	fresh := map[string]bool{"global_v128": true, "global_funcref": true, "elem_drop": true, "data_drop": true,
		"table_set": true, "table_grow": true, "table_fill": true, "table_init": true, "table_copy": true}
	files, _ := filepath.Glob("testdata/leak/*.wasm")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		g := load(t, "leak/"+name, wasm.Options{Slots: 1})
		if g.Info().Resettable == fresh[name] {
			t.Errorf("%s: resettable is %v (%s)", name, g.Info().Resettable, g.Info().NotResettable)
		}
		for range 3 {
			g.Check(t.Context(), call)
		}
		st := g.Stats()
		switch {
		case strings.HasPrefix(name, "memory_grow"):
			if st.Instances != 3 || st.Discarded != 3 { // each call's memory grew
				t.Errorf("%s: %+v", name, st)
			}
		case !fresh[name]:
			if st.Instances != 1 || st.Discarded != 0 {
				t.Errorf("%s: %+v", name, st)
			}
		}
	}
}

// spyOps draws what a call does with the guard of testdata/spy.
func spyOps(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(0, 12).Draw(t, "ops") {
		// Mostly what leaves a trace and goes on.
		op := rapid.SampledFrom([]byte("wwwwffgggmmnzdtehl")).Draw(t, "op")
		fmt.Fprintf(&b, "%c%c%c", op, rapid.IntRange(32, 126).Draw(t, "x"), rapid.IntRange(32, 126).Draw(t, "y"))
	}
	return b.String()
}

func spyCall(ops string) *guards.Call {
	args, err := json.Marshal(map[string]string{"ops": ops})
	if err != nil {
		panic(err)
	}
	return &guards.Call{Name: "bash", Arguments: args}
}

// For all sequences of calls, whatever they do and however they end, every call
// finds the memory and the globals of a guard that was just started.
func TestEveryCallFindsTheSame(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			way.set(t)
			g := load(t, "spy/spy", wasm.Options{Fuel: 3_000_000, Slots: 2})
			empty := g.Check(t.Context(), spyCall(""))
			first := empty.Reason
			if len(first) != 16 || empty.Fuel == 0 {
				t.Fatalf("the sum is %q, and took %d units", first, empty.Fuel)
			}
			rapid.Check(t, func(rt *rapid.T) {
				ops := spyOps(rt)
				v := g.Check(t.Context(), spyCall(ops))
				if v.Decision != guards.Deny {
					rt.Fatalf("%q: %+v", ops, v)
				}
				if v.Cause == guards.CausePolicy && v.Reason != first {
					rt.Fatalf("before %q a call found %s, the first one found %s", ops, v.Reason, first)
				}
				// Equal calls burn equal fuel, or one near the limit would be
				// judged by the calls before it.
				if v := g.Check(t.Context(), spyCall("")); v.Reason != first || v.Fuel != empty.Fuel {
					rt.Fatalf("after %q a call found %+v, the first one found %s", ops, v, first)
				}
			})
		})
	}
}

// The same from many goroutines at once.
func TestEveryCallFindsTheSameAtOnce(t *testing.T) {
	g := load(t, "spy/spy", wasm.Options{Fuel: 2_000_000})
	first := g.Check(t.Context(), spyCall("")).Reason
	ops := []string{"", "w!!gABw~~", "mAAmBB", "fAAt  ", "gxxe  ", "h  ", "zZZ", "d~~wAA", "l  "}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 60 {
				op := ops[(i*7+j)%len(ops)]
				if v := g.Check(t.Context(), spyCall(op)); v.Cause == guards.CausePolicy && v.Reason != first {
					t.Errorf("%q: found %s, the first call found %s", op, v.Reason, first)
				}
			}
		})
	}
	wg.Wait()
}

// What one call told the host is not told again by the next: reasons, notes
// and stderr are a call's own.
func TestWordsAreACallsOwn(t *testing.T) {
	g := load(t, "spy/spy", wasm.Options{Slots: 1})
	if v := g.Check(t.Context(), spyCall("n A")); len(v.Notes) != 1 {
		t.Fatalf("%+v", v)
	}
	if v := g.Check(t.Context(), spyCall("")); len(v.Notes) != 0 {
		t.Errorf("notes of the call before: %q", v.Notes)
	}
	before := g.Check(t.Context(), spyCall("t  "))
	if before.Cause != guards.CauseTrap || before.Reason == "" || len(before.Reason) == 16 {
		t.Errorf("a guest that trapped is quoted: %+v", before)
	}
}
