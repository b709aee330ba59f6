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

func TestStackX(t *testing.T) {
	for name, module := range map[string][]byte{"1": deep(1), "10": deep(10), "100": deep(100), "1000": deep(1000), "many10": many(10), "many1000": many(1000)} {
		l := Limits{}.withDefaults()
		m := decode(module, l)
		frame := m.functions[0].frame
		metered := m.inject()
		h := &host{}
		f := instantiate(t, h, metered).ExportedFunction("run")
		h.left = 1 << 40
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := f.Call(t.Context(), 0)
		runtime.ReadMemStats(&after)
		if h.why != errStack {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(name, frame, l.Stack/frame, (after.TotalAlloc-before.TotalAlloc)>>10)
	}
}
