package wasm_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// hostile are the modules of testdata/hostile, and what becomes of each: an
// error of Load, or the cause of a denial. A guest that fuel stops is stopped
// by its deadline, too, when it has fuel without end. Which of the two is never
// left to the speed of the machine: the other one is out of reach.
var hostile = []struct {
	name    string
	refused string       // in the error of Load
	cause   guards.Cause // of the denial
	brief   bool         // it ends by itself, whatever its fuel
}{
	{name: "exponential", cause: guards.CauseFuel},
	{name: "fill_chain", cause: guards.CauseFuel, brief: true},
	{name: "fill_loop", cause: guards.CauseFuel},
	{name: "fill_all", cause: guards.CauseFuel},
	{name: "copy_loop", cause: guards.CauseFuel},
	{name: "init_loop", cause: guards.CauseFuel},
	{name: "touch_loop", cause: guards.CauseFuel},
	{name: "touch_all", cause: guards.CauseFuel},
	{name: "random_walk", cause: guards.CauseFuel},
	{name: "dirty_all", cause: guards.CauseUnknownVerdict, brief: true},
	{name: "grow_loop", cause: guards.CauseFuel},
	{name: "grow_trap", cause: guards.CauseMemory, brief: true},
	{name: "grow_nothing", cause: guards.CauseFuel},
	{name: "table_grow", cause: guards.CauseFuel, brief: true},
	{name: "table_grow_loop", cause: guards.CauseFuel},
	{name: "table_fill_loop", cause: guards.CauseFuel},
	{name: "table_copy_loop", cause: guards.CauseFuel},
	{name: "table_init", refused: "table"},
	{name: "recurse_deep", cause: guards.CauseTrap, brief: true},
	{name: "recurse_wide", cause: guards.CauseTrap, brief: true},
	{name: "recurse_table", cause: guards.CauseTrap, brief: true},
	{name: "recurse_start", refused: "does not start: trap"},
	{name: "recurse_spin", cause: guards.CauseFuel},
	{name: "get_loop", cause: guards.CauseFuel},
	{name: "get_long_path", cause: guards.CauseFuel},
	{name: "get_longer_path", cause: guards.CauseHostMisuse, brief: true},
	{name: "get_outside", cause: guards.CauseHostMisuse, brief: true},
	{name: "reason_loop", cause: guards.CauseFuel},
	{name: "note_loop", cause: guards.CauseFuel},
	{name: "stderr_loop", cause: guards.CauseFuel},
	{name: "stderr_vectors", cause: guards.CauseHostMisuse, brief: true},
	{name: "random_loop", cause: guards.CauseFuel},
	{name: "sleep_loop", cause: guards.CauseFuel},
	{name: "clock_wait", cause: guards.CauseFuel},
	{name: "branch_table", cause: guards.CauseFuel},
	{name: "divide_loop", cause: guards.CauseFuel},
	{name: "vector_loop", cause: guards.CauseFuel},
	{name: "denormal_loop", cause: guards.CauseFuel},
	{name: "convert_loop", cause: guards.CauseFuel},
	{name: "results_chain", cause: guards.CauseFuel},
	{name: "divide_zero", cause: guards.CauseTrap, brief: true},
	{name: "load_outside", cause: guards.CauseTrap, brief: true},
	{name: "indirect_null", cause: guards.CauseTrap, brief: true},
	{name: "indirect_type", cause: guards.CauseTrap, brief: true},
	{name: "fuel_global", cause: guards.CauseFuel},
	{name: "exit_deep", cause: guards.CauseExit, brief: true},
	{name: "data_outside", refused: "does not start: load"},
	{name: "reserved_export", refused: "guardproxy:"},
	{name: "reserved_import", refused: "guardproxy:"},
}

// No kind of hostile module harms more than itself: it is refused, or denies
// with the cause that fits, again and again; and the guard beside it never
// notices.
func TestHostile(t *testing.T) {
	good := load(t, "name", wasm.Options{})
	check := func(t *testing.T, g *wasm.Guard, cause guards.Cause) {
		t.Helper()
		for range 2 {
			judges(t, g, 1, guards.Deny, cause, "")
			if v := good.Check(t.Context(), call); v.Reason != "bash" {
				t.Errorf("the guard beside it: %+v", v)
			}
		}
	}
	for _, tc := range hostile {
		t.Run(tc.name, func(t *testing.T) {
			m := module(t, "hostile/"+tc.name)
			o := wasm.Options{Deadline: time.Minute, Fuel: 5_000_000, Memory: 16 << 20, CacheDir: wasm.CodeDir}
			g, err := wasm.Load(t.Context(), m, o)
			if err != nil {
				if tc.refused == "" || !strings.Contains(err.Error(), tc.refused) {
					t.Fatalf("refused: %v; want %q", err, tc.refused)
				}
				return
			}
			defer g.Close()
			if tc.refused != "" {
				t.Fatal("it was loaded")
			}
			check(t, g, tc.cause)
			if tc.brief {
				return
			}
			o.Deadline, o.Fuel = 20*time.Millisecond, endless
			late, err := wasm.Load(t.Context(), m, o)
			if err != nil {
				t.Fatal(err)
			}
			defer late.Close()
			check(t, late, guards.CauseDeadline)
		})
	}
	files, err := filepath.Glob("testdata/hostile/*.wasm")
	if err != nil || len(files) != len(hostile) {
		t.Errorf("%d modules in testdata/hostile, %d rows: %v", len(files), len(hostile), err)
	}
}

// Modules that take longer to write down than to generate.
func TestHostileGenerated(t *testing.T) {
	for _, tc := range []struct {
		name   string
		module []byte
		want   string
	}{
		{"45,000 locals", assemble([]byte{0x01, 0xc8, 0xdf, 0x02, 0x7e, 0x41, 0x01, 0x0b}), "locals"},
		{"locals that overflow", assemble([]byte{0x02, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7e, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7e, 0x41, 0x01, 0x0b}), "locals"},
		{"3,000 blocks", assemble(slices.Concat([]byte{0}, bytes.Repeat([]byte{0x02, 0x40}, 3000), bytes.Repeat([]byte{0x0b}, 3000), []byte{0x41, 0x01, 0x0b})), "nest"},
		{"2 MiB of code in one function", assemble(slices.Concat([]byte{0}, bytes.Repeat([]byte{0x01}, 2<<20), []byte{0x41, 0x01, 0x0b})), "function"},
		{"a function that ends early", assemble([]byte{0, 0x0b, 0x41, 0x01, 0x0b}), ""},
		{"a call of nobody", assemble([]byte{0, 0x10, 0x07, 0x41, 0x01, 0x0b}), ""},
		{"a global of nobody", assemble([]byte{0, 0x23, 0x00, 0x1a, 0x41, 0x01, 0x0b}), ""},
		{"the function that metering imports, by its index", assemble([]byte{0, 0x10, 0x01, 0x41, 0x01, 0x0b}), ""},
		{"an instruction that does not exist", assemble([]byte{0, 0xff, 0x41, 0x01, 0x0b}), ""},
		{"a result of another type", assemble([]byte{0, 0x42, 0x01, 0x0b}), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, err := wasm.Load(t.Context(), tc.module, wasm.Options{})
			if err == nil {
				g.Close()
				t.Fatal("it was loaded")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
		})
	}
	if g, err := wasm.Load(t.Context(), assemble([]byte{0, 0x41, 0x01, 0x0b}), wasm.Options{}); err != nil {
		t.Errorf("the honest one: %v", err)
	} else {
		g.Close()
	}
}

// assemble makes a guard whose guard_check_v1 has the given body: local
// declarations and instructions.
func assemble(body []byte) []byte {
	section := func(id byte, b []byte) []byte { return slices.Concat([]byte{id}, uleb(len(b)), b) }
	name := func(s string) []byte { return append(uleb(len(s)), s...) }
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{1, 0x60, 0, 1, 0x7f}),
		section(3, []byte{1, 0}),
		section(5, []byte{1, 0, 1}),
		section(7, slices.Concat([]byte{2}, name("memory"), []byte{2, 0}, name("guard_check_v1"), []byte{0, 0})),
		section(10, slices.Concat([]byte{1}, uleb(len(body)), body)))
}

func uleb(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// After all of them: no memory is held, no file in memory, no goroutine.
func TestHostileLeaveNothing(t *testing.T) {
	goroutines, held := runtime.NumGoroutine(), wasm.Reserved()
	for _, tc := range hostile {
		g, err := wasm.Load(context.Background(), module(t, "hostile/"+tc.name), wasm.Options{Deadline: 20 * time.Millisecond, CacheDir: wasm.CodeDir})
		if err != nil {
			continue
		}
		done := make(chan bool)
		for range 3 {
			go func() {
				g.Check(context.Background(), call)
				done <- true
			}()
		}
		for range 3 {
			<-done
		}
		if err := g.Close(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if n := wasm.Reserved(); n != held {
		t.Errorf("guests hold %d bytes, before it were %d", n, held)
	}
	settle(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= goroutines })
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil && held == 0 && strings.Contains(string(maps), "memfd:guard") {
		t.Error("an image is still mapped")
	}
}

// settle waits for what happens soon on any machine.
func settle(t *testing.T, otherwise string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}
