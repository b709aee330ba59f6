package meter

import (
	"bytes"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

// bulk is a module whose functions fill and copy do what the instructions do.
func bulk(t testing.TB, pages int64) []byte {
	m := &assemble.Module{}
	args := cat(I("local.get", 0), I("local.get", 1), I("local.get", 2))
	m.Export("fill", assemble.Func, m.Func("iii:", "", args, I("memory.fill")))
	m.Export("copy", assemble.Func, m.Func("iii:", "", args, I("memory.copy")))
	m.Memory(pages, pages)
	m.Export("memory", assemble.Memory, 0)
	b, err := meterAny(m.Bytes(), Limits{Memory: pages << 16}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// For all operands, sizes around multiples of a part above all: a metered
// memory.fill or memory.copy leaves the memory as the instruction does, traps
// where it does without having written, and costs the same.
func TestBulkIsAsOneInstruction(t *testing.T) {
	const pages = 3*chunk>>16 + 1
	h := &host{left: 1 << 50}
	m := instantiate(t, h, bulk(t, pages))
	mem, _ := m.Memory().Read(0, pages<<16)
	fuel := m.ExportedGlobal(FuelExport).(api.MutableGlobal)
	want := make([]byte, len(mem))
	rapid.Check(t, func(rt *rapid.T) {
		number := func(name string) uint32 {
			near := rapid.SampledFrom([]int64{0, chunk, 2 * chunk, 3 * chunk, pages << 16, 1 << 31, 1 << 32}).Draw(rt, name)
			return uint32(near + int64(rapid.IntRange(-20, 20).Draw(rt, name+" off")))
		}
		to, from, size := number("to"), number("from"), number("size")
		for i := 0; i < len(mem); i += 509 { // whatever moves shows
			mem[i] = byte(rapid.Byte().Draw(rt, "seed")) + byte(i>>9)
			if i > 1<<16 && i&1 == 0 {
				i += 100_000
			}
		}
		copy(want, mem)
		name := rapid.SampledFrom([]string{"fill", "copy"}).Draw(rt, "name")
		inside := uint64(to)+uint64(size) <= uint64(len(mem))
		if name == "copy" {
			inside = inside && uint64(from)+uint64(size) <= uint64(len(mem))
		}
		switch {
		case !inside:
		case name == "fill":
			for i := range size {
				want[to+i] = byte(from)
			}
		default:
			copy(want[to:to+size], want[from:from+size])
		}
		fuel.Set(0)
		h.granted = 0
		_, err := m.ExportedFunction(name).Call(t.Context(), uint64(to), uint64(from), uint64(size))
		if (err == nil) != inside {
			rt.Fatalf("%s(%d, %d, %d): %v", name, to, from, size, err)
		}
		if !bytes.Equal(mem, want) {
			rt.Fatalf("%s(%d, %d, %d) leaves another memory", name, to, from, size)
		}
		if paid := h.granted - int64(fuel.Get()) - int64(size/16); paid < 0 || paid > 20 {
			rt.Fatalf("%s of %d bytes cost %d beside them", name, size, paid)
		}
	})
}

// However much is filled or copied by one instruction, the host is asked in
// regular distances.
func TestBulkAsksInParts(t *testing.T) {
	const size = 64 << 20
	for _, tc := range []struct {
		name           string
		to, from, size uint64
	}{
		{"fill", 0, 7, size},
		{"copy", 0, 1, size - 1},
		{"copy", 1, 0, size - 1},
	} {
		h := &host{left: 1 << 50}
		m := instantiate(t, h, bulk(t, size>>16))
		if _, err := m.ExportedFunction(tc.name).Call(t.Context(), tc.to, tc.from, tc.size); err != nil {
			t.Fatal(err)
		}
		if h.deepest < -chunk/16-100 {
			t.Errorf("%s: the counter was at %d before the host was asked", tc.name, h.deepest)
		}
	}
}
