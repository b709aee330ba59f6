package meter

import (
	"os"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

// kernels are small programs that are hard on a meter, each a function
// (n i32) -> i32 called run.
func kernels() map[string]struct {
	module []byte
	n      uint64
} {
	type kernel = struct {
		module []byte
		n      uint64
	}
	finish := func(m *assemble.Module, f uint32) []byte {
		m.Memory(16, 16)
		m.Export("memory", assemble.Memory, 0)
		m.Export("run", assemble.Func, f)
		return m.Bytes()
	}
	out := map[string]kernel{}

	// fib: calls and little else.
	m := &assemble.Module{}
	f := m.Next()
	m.Func("i:i", "",
		I("local.get", 0), I("i32.const", 2), I("i32.lt_u"), I("if"), I("local.get", 0), I("return"), I("end"),
		I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("call", int64(f)),
		I("local.get", 0), I("i32.const", 2), I("i32.sub"), I("call", int64(f)), I("i32.add"))
	out["fib"] = kernel{finish(m, f), 22}

	// count: a loop of five instructions.
	m = &assemble.Module{}
	f = m.Func("i:i", "i",
		I("loop"),
		I("local.get", 1), I("local.get", 0), I("i32.xor"), I("local.set", 1),
		I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("local.tee", 0), I("br_if", 0),
		I("end"), I("local.get", 1))
	out["count"] = kernel{finish(m, f), 100_000}

	// collatz: a loop with two arms.
	m = &assemble.Module{}
	f = m.Func("i:i", "iI",
		I("loop"),
		I("local.get", 0), I("i64.extend_i32_u"), I("i64.const", 27), I("i64.add"), I("local.set", 2),
		I("loop"),
		I("local.get", 2), I("i32.wrap_i64"), I("i32.const", 1), I("i32.and"),
		I("if"),
		I("local.get", 2), I("i64.const", 3), I("i64.mul"), I("i64.const", 1), I("i64.add"), I("local.set", 2),
		I("else"),
		I("local.get", 2), I("i64.const", 1), I("i64.shr_u"), I("local.set", 2),
		I("end"),
		I("local.get", 1), I("i32.const", 1), I("i32.add"), I("local.set", 1),
		I("local.get", 2), I("i64.const", 1), I("i64.xor"), I("i64.eqz"), I("i32.eqz"), I("br_if", 0),
		I("end"),
		I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("local.tee", 0), I("br_if", 0),
		I("end"), I("local.get", 1))
	out["collatz"] = kernel{finish(m, f), 2000}

	// hash: bytes from memory, as a guard that reads a string.
	m = &assemble.Module{}
	f = m.Func("i:i", "ii",
		I("i32.const", 5381), I("local.set", 2),
		I("loop"),
		I("local.get", 2), I("i32.const", 33), I("i32.mul"), I("local.get", 1), I("i32.load8_u"), I("i32.xor"), I("local.set", 2),
		I("local.get", 1), I("i32.const", 1), I("i32.add"), I("local.tee", 1),
		I("local.get", 0), I("i32.lt_u"), I("br_if", 0),
		I("end"), I("local.get", 2))
	out["hash"] = kernel{finish(m, f), 100_000}

	// copy: bulk instructions on small sizes.
	m = &assemble.Module{}
	f = m.Func("i:i", "",
		I("loop"),
		I("i32.const", 4096), I("i32.const", 64), I("i32.const", 48), I("memory.copy"),
		I("local.get", 0), I("i32.const", 1), I("i32.sub"), I("local.tee", 0), I("br_if", 0),
		I("end"), I("i32.const", 0))
	out["copy"] = kernel{finish(m, f), 20_000}
	return out
}

func BenchmarkMetered(b *testing.B) {
	ks := kernels()
	for _, name := range []string{"fib", "count", "collatz", "hash", "copy"} {
		k := ks[name]
		metered, err := meterAny(k.module, Limits{}.withDefaults())
		if err != nil {
			b.Fatal(err)
		}
		for _, side := range []struct {
			name   string
			module []byte
			config wazero.RuntimeConfig
		}{
			{"stock", k.module, runtimeConfig()},
			{"metered", metered, runtimeConfig()},
			// The engine's own way to stop a loop, and loops only.
			{"stock-with-deadline", k.module, runtimeConfig().WithCloseOnContextDone(true)},
		} {
			b.Run(name+"/"+side.name, func(b *testing.B) {
				h := &host{}
				m, done, err := startWith(b.Context(), side.config, h, side.module)
				defer done()
				if err != nil {
					b.Fatal(err)
				}
				f := m.ExportedFunction("run")
				var stack [1]uint64
				for b.Loop() {
					h.left = 1 << 40
					stack[0] = k.n
					if err := f.CallWithStack(b.Context(), stack[:]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkMeter(b *testing.B) {
	module, err := os.ReadFile("../../examples/no-root-delete/no-root-delete.wasm")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(module)))
	for b.Loop() {
		if _, _, err := Meter(module, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
