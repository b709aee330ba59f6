package meter

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

type hostileModule struct {
	module []byte
	why    error // why the host stops it
	starts bool  // it is stopped while it is instantiated
}

// hostile are guests that would not end, or would take all memory or stack, if
// nobody looked: each is a way around a limit that some meter has missed.
func hostile() map[string]hostileModule {
	out := map[string]hostileModule{}
	add := func(name string, why error, change func(m *assemble.Module) uint32) {
		m := &assemble.Module{Count: true}
		f := change(m)
		m.Memory(16, 256)
		m.Export("memory", assemble.Memory, 0)
		m.Export("run", assemble.Func, f)
		out[name] = hostileModule{module: m.Bytes(), why: why}
	}
	fuel := func(name, locals string, code ...[]byte) {
		add(name, errFuel, func(m *assemble.Module) uint32 {
			m.PassiveData("some data")
			m.Table('r', 1000, 100_000)
			m.Elem(op(1, 0), assemble.Vec(slices.Repeat([][]byte{op(0)}, 1000)...))
			return m.Func(":i", locals, cat(code...), I("i32.const", 0))
		})
	}
	forever := func(code ...[]byte) []byte { return cat(I("loop"), cat(code...), I("br", 0), I("end")) }
	n := func(values ...int64) (b []byte) {
		for _, v := range values {
			b = append(b, I("i32.const", v)...)
		}
		return b
	}

	fuel("loop", "", forever())
	fuel("loop of nops", "", forever(assemble.Repeat(1000, I("nop"))))
	fuel("loop by br_if", "", I("loop"), n(1), I("br_if", 0), I("end"))
	fuel("loop by br_table", "", I("loop"), n(5), I("br_table", 0, 0, 0), I("end"))
	fuel("loop in a block in a loop", "", forever(I("block"), n(1), I("br_if", 1), I("end")))
	fuel("loop behind a return", "", I("block"), n(1), I("br_if", 0), n(0), I("return"), I("end"), forever())
	fuel("loop in an else", "", n(0), I("if"), I("else"), forever(), I("end"))
	fuel("loop in unreachable code, entered by a branch", "", I("loop"), I("block"), I("br", 0), I("end"), I("br", 0), I("end"))
	fuel("loops in loops", "iiii",
		I("loop"), I("loop"), I("loop"), I("loop"), I("local.get", 0), n(1), I("i32.add"), I("local.tee", 0), I("br_if", 0), I("end"),
		I("local.get", 1), n(1), I("i32.add"), I("local.tee", 1), I("br_if", 0), I("end"),
		I("local.get", 2), n(1), I("i32.add"), I("local.tee", 2), I("br_if", 0), I("end"),
		I("local.get", 3), n(1), I("i32.add"), I("local.tee", 3), I("br_if", 0), I("end"))
	fuel("divisions", "I", forever(I("i64.const", -1), I("i64.const", 3), I("i64.div_u"), I("local.set", 0)))
	fuel("memory.fill in a loop", "", forever(n(0, 7, 1<<20), I("memory.fill")))
	fuel("memory.copy in a loop", "", forever(n(0, 1, 1<<20-1), I("memory.copy")))
	fuel("memory.init in a loop", "", forever(n(0, 0, 9), I("memory.init", 0)))
	fuel("2,000 fills without a loop", "", assemble.Repeat(2000, n(0, 7, 1<<20), I("memory.fill")))
	fuel("2,000 copies without a loop", "", assemble.Repeat(2000, n(0, 1, 1<<20-1), I("memory.copy")))
	fuel("a fill of 4 GiB that would trap", "", n(0, 7, -1), I("memory.fill"))
	fuel("memory.grow in a loop", "", forever(n(1), I("memory.grow"), I("drop")))
	fuel("memory.grow of 4 GiB pages", "", forever(n(-1), I("memory.grow"), I("drop")))
	fuel("memory.grow of nothing", "", forever(n(0), I("memory.grow"), I("drop")))
	fuel("table.grow of 400 million", "", I("ref.null", 0x70), n(400_000_000), I("table.grow", 0), I("drop"))
	fuel("table.grow in a loop", "", forever(I("ref.null", 0x70), n(1), I("table.grow", 0), I("drop")))
	fuel("table.fill in a loop", "", forever(n(0), I("ref.null", 0x70), n(1000), I("table.fill", 0)))
	fuel("table.copy in a loop", "", forever(n(0, 1, 999), I("table.copy", 0, 0)))
	fuel("table.init in a loop", "", forever(n(0, 0, 1000), I("table.init", 0, 0)))
	fuel("table.set in a loop", "", forever(n(0), I("ref.null", 0x70), I("table.set", 0)))
	fuel("memory.size in a loop", "", forever(I("memory.size"), I("drop")))
	fuel("stores all over memory", "i", forever(I("local.get", 0), n(7), I("i32.store8"), I("local.get", 0), n(4096), I("i32.add"), n(1<<20-1), I("i32.and"), I("local.set", 0)))

	add("loop that carries a value", errFuel, func(m *assemble.Module) uint32 {
		return m.Func(":i", "", I("f64.const", 1), I("loop", int64(m.Type("F:F"))), I("f64.sqrt"), I("br", 0), I("end"), I("drop"), I("i32.const", 1))
	})
	add("calls that double without a loop", errFuel, func(m *assemble.Module) uint32 {
		f := m.Func(":", "")
		for range 60 {
			f = m.Func(":", "", I("call", int64(f)), I("call", int64(f)))
		}
		return m.Func(":i", "", I("call", int64(f)), I("i32.const", 1))
	})
	add("empty functions that double", errFuel, func(m *assemble.Module) uint32 {
		f := m.Func("i:i", "", I("local.get", 0))
		for range 60 {
			f = m.Func("i:i", "", I("local.get", 0), I("call", int64(f)), I("call", int64(f)))
		}
		return m.Func(":i", "", I("i32.const", 1), I("call", int64(f)))
	})
	add("indirect calls that double", errFuel, func(m *assemble.Module) uint32 {
		m.Table('r', 61, 61)
		typ := int64(m.Type(":"))
		funcs := []uint32{m.Func(":", "")}
		for i := range 60 {
			c := cat(I("i32.const", int64(i)), I("call_indirect", typ, 0))
			funcs = append(funcs, m.Func(":", "", c, c))
		}
		m.Funcs(0, funcs...)
		return m.Func(":i", "", I("call", int64(funcs[60])), I("i32.const", 1))
	})
	recursion := func(name, locals string, code func(self int64) []byte) {
		add(name, errStack, func(m *assemble.Module) uint32 {
			f := m.Next()
			return m.Func(":i", locals, code(int64(f)))
		})
	}
	recursion("recursion", "", func(f int64) []byte { return cat(I("call", f), I("i32.const", 1), I("i32.add")) })
	recursion("recursion with many locals", string(slices.Repeat([]byte{'I'}, 1900)), func(f int64) []byte {
		b := I("call", f)
		for i := range 1900 {
			b = cat(b, I("local.get", int64(i)), I("i32.wrap_i64"), I("i32.add"))
		}
		return b
	})
	recursion("recursion with a deep stack", "", func(f int64) []byte {
		return cat(assemble.Repeat(500, I("memory.size")), I("call", f), assemble.Repeat(500, I("i32.add")))
	})
	add("recursion of two", errStack, func(m *assemble.Module) uint32 {
		f := int64(m.Next())
		m.Func(":i", "", I("call", f+1), I("i32.const", 1), I("i32.add"))
		return m.Func(":i", "", I("call", f), I("i32.const", 1), I("i32.add"))
	})
	add("recursion through a table", errStack, func(m *assemble.Module) uint32 {
		m.Table('r', 1, 1)
		f := m.Func(":i", "", I("i32.const", 0), I("call_indirect", int64(m.Type(":i")), 0), I("i32.const", 1), I("i32.add"))
		m.Funcs(0, f)
		return f
	})
	add("recursion through a table, by an equal type", errStack, func(m *assemble.Module) uint32 {
		m.Table('r', 1, 1)
		m.Type(":i")
		again := m.NewType(":i")
		f := m.Func(":i", "", I("i32.const", 0), I("call_indirect", int64(again), 0), I("i32.const", 1), I("i32.add"))
		m.Funcs(0, f)
		return f
	})
	add("recursion through a reference that is set", errStack, func(m *assemble.Module) uint32 {
		m.Table('r', 1, 1)
		f := m.Next()
		m.Elem(op(3, 0, 1), assemble.U(uint64(f)))
		return m.Func(":i", "", I("i32.const", 0), I("ref.func", int64(f)), I("table.set", 0), I("i32.const", 0), I("call_indirect", int64(m.Type(":i")), 0), I("i32.const", 1), I("i32.add"))
	})
	add("a chain of 40,000 calls", errStack, func(m *assemble.Module) uint32 {
		f := m.Func(":i", "", I("i32.const", 1))
		for range 40_000 {
			f = m.Func(":i", "", I("call", int64(f)), I("i32.const", 1), I("i32.add"))
		}
		return f
	})
	for _, name := range []string{"loop", "recursion"} {
		m := &assemble.Module{}
		f := m.Next()
		why := errFuel
		if name == "loop" {
			m.Func(":", "", forever())
		} else {
			why = errStack
			m.Func(":", "", I("call", int64(f)), I("nop"))
		}
		m.Start(f)
		m.Memory(1, 1)
		m.Export("memory", assemble.Memory, 0)
		out[name+" in the start function"] = hostileModule{m.Bytes(), why, true}
	}
	return out
}

// Every hostile guest is stopped by the host, for the right reason, with little
// memory, and leaves nothing behind.
func TestHostileGuests(t *testing.T) {
	all := hostile()
	if len(all) < 40 {
		t.Errorf("only %d kinds", len(all))
	}
	goroutines := runtime.NumGoroutine()
	for name, h := range all {
		t.Run(name, func(t *testing.T) {
			module, err := meterAny(h.module, Limits{}.withDefaults())
			if err != nil {
				t.Fatal(err)
			}
			host := &host{left: 50_000_000}
			var before, after runtime.MemStats
			ctx := t.Context()
			m, done, err := start(ctx, host, module)
			defer done()
			if !h.starts {
				if err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&before)
				_, err = m.ExportedFunction("run").Call(ctx)
				runtime.ReadMemStats(&after)
			}
			if err == nil || host.why != h.why {
				t.Errorf("it ended with %v; the host stopped it for %v, want %v", err, host.why, h.why)
			}
			// What the guest's own memory may be is for its allocator to say. The
			// rest is stack, which is doubled as it grows: its halves are counted,
			// too.
			grown := m != nil && m.Memory().Size() > 16<<16
			if used := after.TotalAlloc - before.TotalAlloc; !grown && used > 6*uint64(Limits{}.withDefaults().Stack) {
				t.Errorf("it took %d KiB", used>>10)
			}
		})
	}
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, before there were %d", runtime.NumGoroutine(), goroutines)
		}
	}
}

// However a guest grows its tables, and however many it has: together they stay
// below the limit.
func TestTablesStaySmall(t *testing.T) {
	const tables = 50
	m := &assemble.Module{}
	var code []byte
	for i := range tables {
		m.Table([]byte("rx")[i%2], int64(i), -1)
		typ := []int64{0x70, 0x6f}[i%2]
		code = cat(code, I("loop"), I("ref.null", typ), I("i32.const", 100), I("table.grow", int64(i)), I("i32.const", -1), I("i32.ne"), I("br_if", 0), I("end"))
		code = cat(code, I("local.get", 0), I("table.size", int64(i)), I("i32.add"), I("local.set", 0))
	}
	f := m.Func(":i", "i", code, I("local.get", 0))
	m.Memory(1, 1)
	m.Export("memory", assemble.Memory, 0)
	m.Export("run", assemble.Func, f)
	module, err := meterAny(m.Bytes(), Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	got, err := instantiate(t, &host{left: 50_000_000}, module).ExportedFunction("run").Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if most := uint64(Limits{}.withDefaults().Table); got[0] > most || got[0] < most*9/10 {
		t.Errorf("its tables have %d entries in all, the limit is %d", got[0], most)
	}
}

// A guest is told apart from one that is merely at its limit: with one slice
// more it ends.
func TestFuelIsExact(t *testing.T) {
	k := kernels()["count"]
	module, err := meterAny(k.module, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	run := func(budget, n int64) (int64, error) {
		h := &host{left: budget}
		m, done, err := start(t.Context(), h, module)
		defer done()
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.ExportedFunction("run").Call(t.Context(), uint64(n))
		if err != nil && h.why != errFuel {
			t.Fatal(err)
		}
		return h.granted - int64(m.ExportedGlobal(FuelExport).Get()), err
	}
	used, err := run(1<<40, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	// Ten instructions an iteration, and the loop's header.
	if used < 10*100_000 || used > 14*100_000 {
		t.Errorf("100,000 iterations cost %d", used)
	}
	enough := (used/slice + 1) * slice
	if _, err := run(enough, 100_000); err != nil {
		t.Errorf("with %d: %v", enough, err)
	}
	if _, err := run(enough-slice, 100_000); err == nil {
		t.Errorf("with %d it ended", enough-slice)
	}
	// The same input costs the same: a decision can be replayed.
	if again, _ := run(1<<40, 100_000); again != used {
		t.Errorf("%d the first time, %d the second", used, again)
	}
}

// A loop over a switch pays for the arm that it takes, not for all of them:
// compilers turn whole programs into such loops.
func TestSwitchPaysForOneArm(t *testing.T) {
	cost := func(arms int) int64 {
		m := &assemble.Module{}
		b := I("loop")
		for range arms + 1 {
			b = cat(b, I("block"))
		}
		labels := make([]int64, arms+1)
		for i := range labels {
			labels[i] = int64(i)
		}
		b = cat(b, I("local.get", 0), I("i32.const", 3), I("i32.and"), I("br_table", labels...))
		for range arms {
			b = cat(b, I("end"), assemble.Repeat(10, I("local.get", 1), I("i32.const", 3), I("i32.add"), I("local.set", 1)), I("br", int64(arms-1)))
			arms--
		}
		b = cat(b, I("end"), I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("local.tee", 0), I("br_if", 0), I("end"), I("local.get", 1))
		f := m.Func("i:i", "i", b)
		m.Memory(1, 1)
		m.Export("memory", assemble.Memory, 0)
		m.Export("run", assemble.Func, f)
		module, err := meterAny(m.Bytes(), Limits{}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		h := &host{left: 50_000_000}
		in, done, err := start(t.Context(), h, module)
		defer done()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.ExportedFunction("run").Call(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		return h.granted - int64(in.ExportedGlobal(FuelExport).(api.MutableGlobal).Get())
	}
	few, many := cost(5), cost(200)
	if many > 2*few {
		t.Errorf("with 5 arms a loop costs %d, with 200 it costs %d", few, many)
	}
}

// Stack is given back: calls that return leave nothing behind, whatever way
// they return.
func TestStackComesBack(t *testing.T) {
	m := &assemble.Module{}
	f := int64(m.Next())
	m.Func("i:i", "",
		I("block"), I("local.get", 0), I("br_if", 0), I("i32.const", 1), I("return"), I("end"),
		I("local.get", 0), I("i32.const", 1), I("i32.and"), I("if"),
		I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("call", f), I("br", 1), I("end"),
		I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("call", f), I("drop"),
		I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("call", f))
	m.Memory(1, 1)
	m.Export("memory", assemble.Memory, 0)
	m.Export("run", assemble.Func, uint32(f))
	module, err := meterAny(m.Bytes(), Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{left: 1 << 40}
	in := instantiate(t, h, module)
	if _, err := in.ExportedFunction("run").Call(context.Background(), 20); err != nil {
		t.Fatal(err)
	}
	if got, want := int64(in.ExportedGlobal(StackExport).Get()), int64(Limits{}.withDefaults().Stack); got != want {
		t.Errorf("%d are left of %d", got, want)
	}
}

// Functions that can't recurse pay nothing for stack.
func TestOnlyRecursionIsCounted(t *testing.T) {
	count := func(build func(m *assemble.Module)) int {
		m := &assemble.Module{}
		build(m)
		d := decode(m.Bytes(), Limits{}.withDefaults())
		counted := d.counted()
		n := 0
		for i := range d.functions {
			for _, c := range d.functions[i].calls {
				if counted(i, c) {
					n++
				}
			}
		}
		return n
	}
	for _, tc := range []struct {
		name  string
		build func(m *assemble.Module)
		want  int
	}{
		{"a chain", func(m *assemble.Module) {
			f := int64(m.Func(":", ""))
			g := int64(m.Func(":", "", I("call", f), I("call", f)))
			m.Func(":", "", I("call", g), I("call", f))
		}, 0},
		{"a loop with a tail", func(m *assemble.Module) {
			f := int64(m.Func(":", ""))
			m.Func(":", "", I("call", f), I("call", f+2))
			m.Func(":", "", I("call", f+1))
			m.Func(":", "", I("call", f+2))
		}, 2},
		{"a table without the caller", func(m *assemble.Module) {
			m.Table('r', 1, 1)
			f := m.Func(":", "")
			m.Funcs(0, f)
			m.Func(":", "", I("i32.const", 0), I("call_indirect", 0, 0))
		}, 0},
		{"a table with the caller, by another type", func(m *assemble.Module) {
			m.Table('r', 1, 1)
			m.Type("i:")
			f := m.Func(":", "", I("i32.const", 0), I("i32.const", 0), I("call_indirect", 0, 0))
			m.Funcs(0, f)
		}, 0},
		{"a table with the caller", func(m *assemble.Module) {
			m.Table('r', 1, 1)
			f := m.Func(":", "", I("i32.const", 0), I("call_indirect", 0, 0))
			m.Funcs(0, f)
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := count(tc.build); got != tc.want {
				t.Errorf("%d calls are counted, want %d", got, tc.want)
			}
		})
	}
}
