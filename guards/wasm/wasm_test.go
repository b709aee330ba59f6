package wasm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// The modules in testdata and its directories are tiny; each .wasm is made from
// the .wat beside it: wat2wasm NAME.wat -o NAME.wasm, with the options that its
// first line names.
func module(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// load loads one of them until the test ends. Its name is the guard's, too.
func load(t testing.TB, name string, o wasm.Options) *wasm.Guard {
	t.Helper()
	if o.Name == "" {
		o.Name = name
	}
	if o.Deadline == 0 {
		o.Deadline = time.Minute // a busy machine must not fail what is not about time
	}
	if o.CacheDir == "" {
		o.CacheDir = wasm.CodeDir
	}
	g, err := wasm.Load(t.Context(), module(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// endless is fuel for a guest that only its deadline stops.
const endless = 1 << 60

var call = &guards.Call{Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}

// judges holds a guard to a verdict, some times in a row, since a call leaves
// nothing behind, a failure neither. The reason of a failure is the host's.
func judges(t *testing.T, g *wasm.Guard, times int, want guards.Decision, cause guards.Cause, reason string) {
	t.Helper()
	if cause != "" && cause != guards.CausePolicy {
		reason = guards.Fault(cause, "").Reason
	}
	for range times {
		if v := g.Check(t.Context(), call); v.Decision != want || v.Cause != cause || v.Reason != reason {
			t.Errorf("got %v, cause %q (%s), reason %q; want %v, %q, %q", v.Decision, v.Cause, v.Detail, v.Reason, want, cause, reason)
		}
	}
}

func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		module string
		want   guards.Decision
		cause  guards.Cause
		reason string
	}{
		{"pass", guards.Pass, "", ""},
		{"deny", guards.Deny, guards.CausePolicy, "not today"},
		{"ask", guards.Ask, guards.CausePolicy, "really?"},
		{"name", guards.Deny, guards.CausePolicy, "bash"},
		{"grow_polite", guards.Pass, "", ""},
		{"zero", guards.Deny, guards.CauseUnknownVerdict, ""},
		{"seven", guards.Deny, guards.CauseUnknownVerdict, ""},
		{"negative", guards.Deny, guards.CauseUnknownVerdict, ""},
		{"trap", guards.Deny, guards.CauseTrap, ""},
		{"recurse", guards.Deny, guards.CauseTrap, ""},
		{"exit0", guards.Deny, guards.CauseExit, ""},
		{"exit1", guards.Deny, guards.CauseExit, ""},
		{"grow", guards.Deny, guards.CauseMemory, ""},
		{"get_bad_path", guards.Deny, guards.CauseHostMisuse, ""},
		{"get_bad_dst", guards.Deny, guards.CauseHostMisuse, ""},
		{"get_malformed", guards.Deny, guards.CauseHostMisuse, ""},
		{"reason_bad", guards.Deny, guards.CauseHostMisuse, ""},
		{"note_bad", guards.Deny, guards.CauseHostMisuse, ""},
	} {
		t.Run(tc.module, func(t *testing.T) {
			judges(t, load(t, tc.module, wasm.Options{}), 2, tc.want, tc.cause, tc.reason)
		})
	}
}

func TestDeadline(t *testing.T) {
	for _, name := range []string{"loop", "hostloop"} {
		t.Run(name, func(t *testing.T) {
			g := load(t, name, wasm.Options{Deadline: 50 * time.Millisecond, Fuel: endless})
			start := time.Now()
			v := g.Check(t.Context(), call)
			if v.Decision != guards.Deny || v.Cause != guards.CauseDeadline {
				t.Errorf("got %+v", v)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		g := load(t, "loop", wasm.Options{Deadline: time.Minute, Fuel: endless})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if v := g.Check(ctx, call); v.Decision != guards.Deny || v.Cause != guards.CauseCanceled {
			t.Errorf("got %+v", v)
		}
	})
}

// Who reads why a guard was stopped is told what it had, and which key gives
// more; what a start may use is nobody's to change.
func TestLimitsAreNamed(t *testing.T) {
	for _, tc := range []struct{ module, want string }{
		{"loop", " units of fuel (wasm.fuel)"},
		{"hostloop", "it took longer than 30ms (wasm.deadline)"},
		{"grow", "more than 1048576 bytes of memory (wasm.memory)"},
	} {
		o := wasm.Options{Fuel: endless, Memory: 1 << 20}
		switch tc.module {
		case "loop":
			o.Fuel = 1_000_000
		case "hostloop":
			o.Deadline = 30 * time.Millisecond
		}
		if v := load(t, tc.module, o).Check(t.Context(), call); !strings.Contains(v.Detail, tc.want) {
			t.Errorf("%s: the detail %q does not say %q", tc.module, v.Detail, tc.want)
		}
	}
	_, err := wasm.Load(t.Context(), module(t, "loop_start"), wasm.Options{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("it used up its %d units of fuel", wasm.StartFuel)) || strings.Contains(err.Error(), "wasm.fuel") {
		t.Errorf("got %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	o := wasm.Options{Name: "g", Deadline: 10 * time.Second}
	for _, tc := range []struct {
		name   string
		module []byte
		opts   wasm.Options
		want   string // in the error
		hint   string // in the hint
	}{
		{"empty", nil, o, "not a WebAssembly module", "core"},
		{"text", []byte("(module)"), o, "not a WebAssembly module", "wat2wasm"},
		{"garbage", []byte("\x00asm\x01\x00\x00\x00garbage"), o, "", ""},
		{"too large", append([]byte("\x00asm"), make([]byte, wasm.MaxModule)...), o, "at most 16777216", "strip"},
		{"bad configuration", module(t, "pass"), wasm.Options{Name: "g", Config: json.RawMessage("{")}, "not valid JSON", ""},
		{"configuration with a key twice", module(t, "pass"), wasm.Options{Name: "g", Config: json.RawMessage(`{"a":1,"a":2}`)}, "a key that the object has already", ""},
		{"wrong_result", nil, o, "guard_check_v1 has the type () -> (i64), it must be () -> (i32)", ""},
		{"wrong_param", nil, o, "guard_check_v1 has the type (i32) -> (i32)", ""},
		{"wrong_init", nil, o, "_initialize has the type () -> (i32)", ""},
		{"wrong_config", nil, o, "guard_config_v1 has the type", ""},
		{"wrong_get", nil, o, "guardproxy.get with the type (i32, i32) -> (i32), it is (i32, i32, i32, i32) -> (i32)", ""},
		{"unknown_import", nil, o, "imports env.evil", "get, reason and note"},
		{"unknown_host", nil, o, "imports guardproxy.exec", ""},
		{"unknown_wasi", nil, o, "imports wasi_snapshot_preview1.fd_frob", ""},
		{"import_memory", nil, o, "imports a memory", "export it"},
		{"import_global", nil, o, "imports the global", ""},
		{"no_memory", nil, o, "one memory, named memory", ""},
		{"hidden_memory", nil, o, "one memory, named memory", ""},
		{"renamed_memory", nil, o, `"mem"`, ""},
		{"two_names", nil, o, "exports 2", ""},
		{"memory_min", nil, o, "67108864 bytes", "wasm.memory"},
		{"no_check", nil, o, "does not export guard_check_v1", "c-shared"},
		{"no_version", nil, o, "version is part of the name", ""},
		{"two_memories", nil, o, "memor", ""},
		{"threads", nil, o, "", ""},
		{"tail_call", nil, o, "", ""},
		{"memory64", nil, o, "", ""},
		{"exceptions", nil, o, "", ""},
		{"loop_start", nil, o, "does not start: ", ""},
		{"loop_init", nil, o, "does not start: ", ""},
		{"trap_init", nil, o, "does not start: trap", ""},
		{"exit_init", nil, o, "does not start: exit", ""},
		{"config", nil, o, "refuses its configuration: set ok to true", "config"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.module
			if m == nil && tc.name != "empty" {
				m = module(t, tc.name)
			}
			g, err := wasm.Load(t.Context(), m, tc.opts)
			if err == nil {
				g.Close()
				t.Fatal("it was loaded")
			}
			var le *wasm.LoadError
			if !errors.As(err, &le) {
				t.Fatalf("%T is no *LoadError", err)
			}
			if !strings.HasPrefix(err.Error(), "guard g: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
			if !strings.Contains(le.Hint(), tc.hint) {
				t.Errorf("hint %q does not say %q", le.Hint(), tc.hint)
			}
		})
	}
}

// For all truncations and single-byte changes of a module, Load returns.
func TestLoadDamagedModules(t *testing.T) {
	good := module(t, "deny")
	for i := range good {
		for _, m := range [][]byte{good[:i], append(append(bytes.Clone(good[:i]), good[i]^0x41), good[i+1:]...)} {
			if g, err := wasm.Load(t.Context(), m, wasm.Options{Deadline: time.Second}); err == nil {
				g.Check(t.Context(), call)
				g.Close()
			}
		}
	}
}

func TestConfig(t *testing.T) {
	g := load(t, "config", wasm.Options{Config: json.RawMessage(` {"ok": true} `)})
	if v := g.Check(t.Context(), call); v.Decision != guards.Pass {
		t.Errorf("got %+v", v)
	}
}

func TestNothingSurvivesACall(t *testing.T) {
	g := load(t, "counter", wasm.Options{})
	for range 3 {
		if v := g.Check(t.Context(), call); v.Decision != guards.Pass {
			t.Fatalf("got %+v", v)
		}
	}
}

func TestWorldStandsStill(t *testing.T) {
	g := load(t, "world", wasm.Options{})
	first := g.Check(t.Context(), call)
	if d := cmp.Diff(first, g.Check(t.Context(), call)); d != "" {
		t.Errorf("a second call sees another world:\n%s", d)
	}
	if first.Decision != guards.Deny || first.Cause != guards.CausePolicy {
		t.Fatalf("got %+v", first)
	}
	if counts := first.Reason[48:]; counts != strings.Repeat("a", 32) {
		t.Errorf("arguments or environment: %q", counts)
	}
	if first.Stderr != "hello from the guest" {
		t.Errorf("stderr %q", first.Stderr)
	}
}

func TestNotesAndReasonAreBounded(t *testing.T) {
	v := load(t, "notes", wasm.Options{}).Check(t.Context(), call)
	if len(v.Notes) != 8 {
		t.Errorf("%d notes", len(v.Notes))
	}
	for _, n := range v.Notes {
		if len(n) > 2<<10 || !utf8.ValidString(n) {
			t.Errorf("a note of %d bytes", len(n))
		}
	}
	if n := utf8.RuneCountInString(v.Reason); n > guards.MaxReason || n == 0 || !utf8.ValidString(v.Reason) {
		t.Errorf("a reason of %d characters", n)
	}
}

func TestInputLimits(t *testing.T) {
	g := load(t, "pass", wasm.Options{})
	for _, tc := range []struct {
		name  string
		args  string
		cause guards.Cause
	}{
		{"largest", `{"a":"` + strings.Repeat("x", guards.MaxInput-400) + `"}`, ""},
		{"too large", `{"a":"` + strings.Repeat("x", guards.MaxInput) + `"}`, guards.CauseInputTooLarge},
		{"not JSON", `{"a"`, guards.CauseInputInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := g.Check(t.Context(), &guards.Call{Arguments: json.RawMessage(tc.args)})
			if v.Cause != tc.cause || (v.Decision == guards.Deny) != (tc.cause != "") {
				t.Errorf("got %v, cause %q", v.Decision, v.Cause)
			}
		})
	}
}

func TestConcurrentCallsAndClose(t *testing.T) {
	g := load(t, "name", wasm.Options{Slots: 2})
	var wg sync.WaitGroup
	var closed atomic.Bool
	var judged atomic.Int64
	for i := range 8 {
		name := fmt.Sprintf("tool-%d", i)
		wg.Go(func() {
			for range 50 {
				before := closed.Load()
				v := g.Check(context.Background(), &guards.Call{Name: name})
				switch {
				case v.Cause == guards.CausePolicy && v.Reason == name && !before:
					judged.Add(1)
				case v.Cause == guards.CauseLoad:
				default:
					t.Errorf("got %+v", v)
				}
				if judged.Load() == 200 {
					if err := g.Close(); err != nil {
						t.Error(err)
					}
					closed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	if v := g.Check(context.Background(), call); v.Decision != guards.Deny || v.Cause != guards.CauseLoad {
		t.Errorf("after Close: %+v", v)
	}
	if err := g.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestCloseWaitsForCalls(t *testing.T) {
	g := load(t, "loop", wasm.Options{Deadline: 200 * time.Millisecond, Fuel: endless, Slots: 1})
	got := make(chan guards.Verdict, 1)
	go func() { got <- g.Check(context.Background(), call) }()
	// Once a second caller has to wait, the first one is running.
	for len(got) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		v := g.Check(ctx, call)
		cancel()
		if strings.Contains(v.Detail, "free slot") {
			break
		}
		if v.Cause != guards.CauseDeadline {
			t.Fatalf("got %+v", v)
		}
	}
	g.Close()
	select {
	case v := <-got:
		if v.Cause != guards.CauseDeadline {
			t.Errorf("got %+v", v)
		}
	case <-time.After(10 * time.Second):
		t.Error("Close returned while a call was running")
	}
}

func TestCacheDir(t *testing.T) {
	dir := t.TempDir() + "/cache"
	for range 2 {
		g := load(t, "deny", wasm.Options{CacheDir: dir})
		if v := g.Check(t.Context(), call); v.Reason != "not today" {
			t.Errorf("got %+v", v)
		}
	}
	damaged := 0
	var walk func(string)
	walk = func(d string) {
		entries, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			p := d + "/" + e.Name()
			if e.IsDir() {
				walk(p)
				continue
			}
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, b[:len(b)/2], 0o600); err != nil {
				t.Fatal(err)
			}
			damaged++
		}
	}
	walk(dir)
	if damaged == 0 {
		t.Fatal("nothing was cached")
	}
	if v := load(t, "deny", wasm.Options{CacheDir: dir}).Check(t.Context(), call); v.Reason != "not today" {
		t.Errorf("with a damaged cache: %+v", v)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := wasm.Load(t.Context(), module(t, "deny"), wasm.Options{CacheDir: dir}); err == nil {
		t.Error("a directory that all may write was accepted")
	}
}

// Arguments in which two readers could see two calls are not judged.
func TestAmbiguousArguments(t *testing.T) {
	g := load(t, "pass", wasm.Options{})
	for _, args := range []string{`{"command":"ls","command":"rm"}`, `{"a":{"b":1,"\u0062":2}}`, "{\"a\":\"\xff\"}"} {
		v := g.Check(t.Context(), &guards.Call{Name: "bash", Arguments: json.RawMessage(args)})
		if v.Decision != guards.Deny || v.Cause != guards.CauseInputInvalid {
			t.Errorf("%s: got %+v", args, v)
		}
	}
}
