package meter

import (
	"runtime"
	"slices"
	"testing"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

func recursive(locals int, code func(f int64) []byte) []byte {
	m := &assemble.Module{}
	f := int64(m.Next())
	m.Func("i:i", string(slices.Repeat([]byte{'i'}, locals)), code(f))
	m.Memory(1, 1)
	m.Table('r', 1, 1)
	m.Export("memory", assemble.Memory, 0)
	m.Export("run", assemble.Func, uint32(f))
	return m.Bytes()
}

// deep makes locals that are all needed after the call.
func deep(locals int) []byte {
	return recursive(locals, func(f int64) []byte {
		var b []byte
		for i := range locals {
			b = slices.Concat(b, I("local.get", 0), I("i32.const", int64(i)), I("i32.rotl"), I("local.set", int64(i+1)))
		}
		b = slices.Concat(b, I("local.get", 0), I("i32.const", 1), I("i32.add"), I("call", f))
		for i := range locals {
			b = slices.Concat(b, I("local.get", int64(i+1)), I("i32.add"))
		}
		return b
	})
}

// many has as many values on its stack as it calls, each needed later, and
// sets one local again and again.
func many(calls int) []byte {
	return recursive(1, func(f int64) []byte {
		var b []byte
		for range calls {
			b = slices.Concat(b, I("local.get", 1), I("i32.const", 7), I("i32.mul"), I("local.get", 0), I("i32.load", 0, 0), I("i32.add"), I("local.set", 1), I("local.get", 0), I("i32.const", 1), I("i32.add"), I("call", f), I("drop"))
			b = slices.Concat(b, I("local.get", 1))
			b = slices.Concat(b, I("local.get", 0), I("i32.load", 0, 0), I("i32.add"), I("local.set", 1))
		}
		return slices.Concat(b, I("local.get", 1))
	})
}

// beside has values that are needed after what is no call of the guest's, each
// after another one; after its own call it needs none of them.
func beside(times int, what []byte) []byte {
	return recursive(1, func(f int64) []byte {
		var b []byte
		for i := range times {
			b = cat(b, I("local.get", 0), I("i32.load", 0, int64(4*i)), what, I("local.get", 1), I("i32.add"), I("local.set", 1))
		}
		return cat(b, I("local.get", 0), I("i32.const", 1), I("i32.add"), I("call", f), I("local.get", 1), I("i32.add"))
	})
}

// The estimate of native stack holds: whatever a recursion saves in each call,
// the engine's stack stays near the limit. It is doubled as it grows, and all
// of its sizes are counted here: six times the limit is what a stack of one and
// a half times the limit has had.
func TestStackEstimate(t *testing.T) {
	vectors := recursive(0, func(f int64) []byte {
		var b []byte
		for i := range 100 {
			b = cat(b, I("local.get", 0), I("i32.const", int64(i)), I("i32.add"), op(0xfd, 15)) // i8x16.splat
		}
		b = cat(b, I("local.get", 0), I("i32.const", 1), I("i32.add"), I("call", f), I("local.set", 0))
		b = cat(b, assemble.Repeat(99, op(0xfd, 110)), op(0xfd, 21, 0)) // i8x16.add, extract_lane_s
		b = cat(b, I("local.get", 0), I("i32.add"))
		return b
	})
	for name, module := range map[string][]byte{
		"a local": deep(1), "10 locals": deep(10), "100 locals": deep(100), "1,000 locals": deep(1000),
		"10 calls": many(10), "1,000 calls": many(1000), "vectors": vectors,
		"1,000 fills":      beside(1000, cat(I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), I("memory.fill"))),
		"1,000 copies":     beside(1000, cat(I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), I("memory.copy"))),
		"1,000 tables":     beside(1000, cat(I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), I("table.copy", 0, 0))),
		"1,000 references": beside(1000, cat(I("ref.func", 0), I("drop"))),
		"1,000 growths":    beside(1000, cat(I("i32.const", 0), I("memory.grow"), I("drop"))),
		"1,000 loops":      beside(1000, cat(I("loop"), I("end"))),
	} {
		t.Run(name, func(t *testing.T) {
			l := Limits{}.withDefaults()
			m := decode(module, l)
			frame := m.functions[0].frame
			h := &host{left: 1 << 40}
			f := instantiate(t, h, m.inject()).ExportedFunction("run")
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := f.Call(t.Context(), 0)
			runtime.ReadMemStats(&after)
			if h.why != errStack {
				t.Fatalf("it was not stopped for its stack: %v", err)
			}
			used := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes a frame, %d frames, %d KiB in all", frame, l.Stack/frame, used>>10)
			if used > 6*uint64(l.Stack) {
				t.Errorf("its stacks had %d KiB in all, the limit is %d KiB", used>>10, l.Stack>>10)
			}
		})
	}
}
