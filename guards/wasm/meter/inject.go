package meter

// What metering adds: an import (the refill function), a function that pays for
// sized instructions, two that fill and copy memory by parts (bulk.go), their
// types, two globals, exports, and short sequences in the code. Sequences leave
// the stack of types as they find it, so they can stand anywhere.

import "slices"

// injected are the indices of what is added, in the metered module.
type injected struct {
	refill, sized    uint32 // functions
	filling, copying uint32 // functions of a module that has a memory
	fuel, stack      uint32 // globals
}

// maxGrowth is how many times the largest module a metered one may have. Code
// of compilers grows by a quarter; code that is nothing but loops, tenfold.
const maxGrowth = 4

// inject encodes the metered module, or refuses it. It uses m up.
func (m *module) inject() []byte {
	in := injected{
		refill:  uint32(m.imports),
		sized:   uint32(len(m.funcs) + 1),
		filling: uint32(len(m.funcs) + 2),
		copying: uint32(len(m.funcs) + 3),
		fuel:    uint32(len(m.globals)),
		stack:   uint32(len(m.globals) + 1),
	}

	types := &m.out[secType]
	refillType, sizedType := uint32(types.n), uint32(types.n+1)
	types.add(appendType(nil, FuncType{}))
	types.add(appendType(nil, FuncType{[]ValueType{I32, I64}, []ValueType{I32}}))

	m.out[secImport].add(appendU32(append(appendName(appendName(nil, HostModule), RefillImport), 0), refillType))
	m.out[secFunction].add(appendU32(nil, sizedType))
	if m.memory {
		types.add(appendType(nil, bulkType))
		m.out[secFunction].add(appendU32(nil, sizedType+1))
		m.out[secFunction].add(appendU32(nil, sizedType+1))
	}

	global := func(start int64) []byte {
		return append(appendS64([]byte{byte(I64), 1, 0x42}, start), 0x0b)
	}
	m.out[secGlobal].add(global(0))
	m.out[secGlobal].add(global(int64(m.lim.Stack)))

	export := func(name string, index uint32) {
		m.out[secExport].add(appendU32(append(appendName(nil, name), 3), index))
	}
	export(FuelExport, in.fuel)
	export(StackExport, in.stack)
	for _, g := range m.info.MutableGlobals {
		export(GlobalExport(g), g)
	}

	code := &m.out[secCode]
	counted := m.counted()
	var body []byte
	for i := range m.functions {
		f := &m.functions[i]
		body = in.meter(append(body[:0], f.locals...), f, func(c edge) bool { return counted(i, c) })
		code.b = append(appendU32(code.b, uint32(len(body))), body...)
		if len(code.b) > maxGrowth*m.lim.Module {
			m.tooLarge()
		}
	}
	code.n = len(m.functions)
	added := [][]byte{in.paySized(nil)}
	if m.memory {
		added = append(added, in.fill(nil), in.copy(nil))
	}
	for _, body := range added {
		code.add(append(appendU32(nil, uint32(len(body))), body...))
	}

	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range []byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart, secElement, secDataCount, secCode, secData} {
		content := m.out[id].b
		switch {
		case id == secDataCount:
			if m.data < 0 {
				continue
			}
			content = appendU32(nil, uint32(m.data))
		case id == secStart:
			if !m.info.Start {
				continue
			}
		case m.out[id].n == 0:
			continue
		default:
			content = append(appendU32(nil, uint32(m.out[id].n)), content...)
		}
		out = append(appendU32(append(out, id), uint32(len(content))), content...)
	}
	return slices.Clip(out)
}

func (m *module) tooLarge() {
	refuse("", "its code grows to more than %d bytes when it is metered", maxGrowth*m.lim.Module)
}

func (v *vec) add(b []byte) {
	v.n++
	v.b = append(v.b, b...)
}

// meter writes a function's code with what its marks ask for.
func (in injected) meter(b []byte, f *function, counted func(edge) bool) []byte {
	from := 0
	for _, m := range f.marks {
		b = append(b, f.code[from:m.at]...)
		from = int(m.at)
		switch m.kind {
		case markEnter:
			b = in.look(add(b, in.fuel, -int64(f.segments[m.arg].cost)))
		case markPay:
			if cost := f.segments[m.arg].cost; cost > 0 {
				b = add(b, in.fuel, -int64(cost))
			}
		case markCall, markReturn:
			if !counted(f.calls[m.arg]) {
				continue
			}
			if m.kind == markCall {
				b = add(b, in.stack, -int64(f.frame))
			} else {
				b = add(b, in.stack, int64(f.frame))
			}
		case markSized:
			b = appendS64(append(b, 0x42), int64(m.arg))
			b = appendU32(append(b, opCall), in.sized)
		case markFill:
			b = appendU32(append(b, opCall), in.filling)
			from += sizeFill
		case markCopy:
			b = appendU32(append(b, opCall), in.copying)
			from += sizeCopy
		}
	}
	return append(b, f.code[from:]...)
}

// add adds n to an i64 global.
func add(b []byte, global uint32, n int64) []byte {
	b = appendU32(append(b, 0x23), global) // global.get
	b = appendS64(append(b, 0x42), n)      // i64.const
	b = append(b, 0x7c)                    // i64.add
	return appendU32(append(b, 0x24), global)
}

// look calls the host if fuel or stack is below zero: their sign bits are
// looked at together.
func (in injected) look(b []byte) []byte {
	b = appendU32(append(b, 0x23), in.fuel)
	b = appendU32(append(b, 0x23), in.stack)
	b = append(b, 0x84, 0x42, 0, 0x53, opIf, 0x40) // i64.or, i64.const 0, i64.lt_s, if
	b = appendU32(append(b, opCall), in.refill)
	return append(b, opEnd)
}

// paySized is the body of the function (n i32, units i64) -> n that pays
// n * units / 16.
func (in injected) paySized(b []byte) []byte {
	b = append(b, 0)                            // no locals
	b = appendU32(append(b, 0x23), in.fuel)     // global.get
	b = append(b, 0x20, 0, 0xad, 0x20, 1, 0x7e) // n as u64 * units
	b = append(b, 0x42, 4, 0x88, 0x7d)          // >> 4; i64.sub
	b = appendU32(append(b, 0x24), in.fuel)     // global.set
	return append(in.look(b), 0x20, 0, opEnd)   // n
}
