package wasm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// Guards are replaced again and again while calls run: every call is judged by
// one of them, and the replaced ones leave nothing.
func TestReplaceDisturbsNoCall(t *testing.T) {
	held := wasm.Reserved()
	// Two versions that can be told apart, and that take different times.
	open := func(name string) *wasm.Guard {
		b, err := os.ReadFile("testdata/" + name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		g, err := wasm.Load(context.Background(), b, wasm.Options{Name: name, Deadline: time.Minute, CacheDir: wasm.CodeDir})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	l := wasm.NewLive(open("name"))
	var judged, stop atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("tool-%d", i)
		wg.Go(func() {
			for stop.Load() == 0 {
				v := l.Check(context.Background(), &guards.Call{Name: name, Arguments: json.RawMessage(`{}`)})
				if v.Cause != guards.CausePolicy || v.Reason != name && v.Reason != "not today" {
					t.Errorf("got %+v", v)
					return
				}
				judged.Add(1)
			}
		})
	}
	for i := range 12 {
		before := judged.Load()
		settle(t, "no call is judged", func() bool { return judged.Load() > before+20 })
		if i%2 == 0 {
			l.Replace(open("deny"))
		} else {
			l.Replace(open("name"))
		}
	}
	stop.Store(1)
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if v := l.Check(context.Background(), call); v.Cause != guards.CauseLoad {
		t.Errorf("after Close: %+v", v)
	}
	settle(t, "replaced guards hold memory", func() bool { return wasm.Reserved() == held })
}

// A stuck call is not cut off when its guard is replaced: it ends by its own
// deadline, in its own memory, and the new guard judges meanwhile.
func TestReplaceBesideAStuckCall(t *testing.T) {
	m := module(t, "loop")
	stuck, err := wasm.Load(t.Context(), m, wasm.Options{Deadline: 300 * time.Millisecond, Fuel: endless, CacheDir: wasm.CodeDir})
	if err != nil {
		t.Fatal(err)
	}
	l := wasm.NewLive(stuck)
	got := make(chan guards.Verdict, 1)
	go func() { got <- l.Check(context.Background(), call) }()
	settle(t, "the call does not begin", func() bool { return stuck.Stats().Calls == 1 })
	l.Replace(load(t, "pass", wasm.Options{}))
	if v := l.Check(t.Context(), call); v.Decision != guards.Pass {
		t.Errorf("the new guard: %+v", v)
	}
	if v := <-got; v.Cause != guards.CauseDeadline {
		t.Errorf("the stuck call: %+v", v)
	}
}

// A guard that was dropped without Close gives its memory back.
func TestDroppedGuardIsClosed(t *testing.T) {
	held := wasm.Reserved()
	func() {
		g, err := wasm.Load(context.Background(), module(t, "pass"), wasm.Options{CacheDir: wasm.CodeDir})
		if err != nil {
			t.Fatal(err)
		}
		g.Check(context.Background(), call)
		if wasm.Reserved() <= held {
			t.Fatal("it holds no memory: nothing can be seen here")
		}
	}()
	settle(t, "it holds memory", func() bool {
		runtime.GC()
		return wasm.Reserved() <= held
	})
}

// Two callers of a guard, and two of another one, are stuck: a third guard is
// asked at once, and so is a guard with one more caller.
func TestStuckCallersLeaveSlots(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	stuck, err := wasm.Load(t.Context(), module(t, "loop"), wasm.Options{Deadline: time.Hour, Fuel: endless, CacheDir: wasm.CodeDir})
	if err != nil {
		t.Fatal(err)
	}
	for range wasm.ProcessSlots() { // more than a guard's share
		wg.Go(func() { stuck.Check(ctx, call) })
	}
	share := int64(wasm.ProcessSlots() * 3 / 4)
	settle(t, "the calls do not begin", func() bool { return stuck.Stats().Calls == share })
	g := load(t, "pass", wasm.Options{Deadline: time.Minute})
	for range 5 {
		if v := g.Check(t.Context(), call); v.Decision != guards.Pass {
			t.Errorf("got %+v", v)
		}
	}
	if n := stuck.Stats().Calls; n != share {
		t.Errorf("%d calls of one guard run, its share is %d", n, share)
	}
	// Who waits for a slot and goes away is no burden.
	gone, leave := context.WithCancel(t.Context())
	leave()
	if v := stuck.Check(gone, call); v.Cause != guards.CauseCanceled || !strings.Contains(v.Detail, "slot") {
		t.Errorf("got %+v", v)
	}
}

// Eight guards in a chain: all are asked, the order of their reasons is theirs,
// and one that only observes changes nothing.
func TestChainOfEight(t *testing.T) {
	var chain guards.Chain
	for i, name := range []string{"pass", "name", "ask", "deny", "trap", "seven", "exit0", "pass"} {
		chain = append(chain, guards.Entry{Name: fmt.Sprintf("%d-%s", i, name), Guard: load(t, name, wasm.Options{CacheDir: wasm.CodeDir})})
	}
	o := chain.Check(t.Context(), call)
	var got []string
	for _, v := range o.Verdicts {
		got = append(got, fmt.Sprintf("%s %v %s", v.Guard, v.Decision, v.Cause))
	}
	want := "0-pass pass |1-name deny policy|2-ask ask policy|3-deny deny policy|4-trap deny trap|5-seven deny unknown_verdict|6-exit0 deny exit|7-pass pass "
	if s := strings.Join(got, "|"); s != want || o.Decision != guards.Deny || o.Cause != guards.CausePolicy {
		t.Errorf("got %v %v\n%s, want\n%s", o.Decision, o.Cause, s, want)
	}
	for i := range chain {
		chain[i].Observe = true
	}
	if o := chain.Check(t.Context(), call); o.Decision != guards.Pass || len(o.Verdicts) != 8 || !o.Verdicts[3].Observed {
		t.Errorf("all observe: %+v", o)
	}
}

// Each cause has words of its own for the model, and they are short.
func TestCausesAreDistinct(t *testing.T) {
	for _, c := range []guards.Cause{guards.CauseTrap, guards.CauseUnknownVerdict, guards.CauseExit, guards.CauseFuel, guards.CauseDeadline, guards.CauseMemory,
		guards.CauseHostMisuse, guards.CauseLoad, guards.CausePanic, guards.CauseCanceled, guards.CauseInputTooLarge, guards.CauseInputInvalid} {
		v := guards.Fault(c, "detail")
		if v.Decision != guards.Deny || v.Reason == "" || len(v.Reason) > 100 || strings.Contains(v.Reason, "detail") {
			t.Errorf("%s: %+v", c, v)
		}
	}
}
