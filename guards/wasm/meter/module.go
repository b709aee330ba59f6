package meter

// A module is decoded once, section by section, and encoded again as it is
// read: what leaves this package was written by it, each number in its
// shortest form and each index known, so that two readers can't disagree
// about what it says. Metering then only adds to what stands in the sections.
//
// Function indices shift by one on the way: metering adds an import, and
// imports come first. Tables, memories and globals keep their indices, since
// what metering adds stands behind the module's own.

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// unknown is the type of a value that unreachable code takes from an empty
// stack. It is no type of the binary format.
const unknown ValueType = 0

// Section ids of the core specification, 5.5.2. Tags belong to exceptions.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
	secTag
)

// order is where a section has to stand; 0 for an unknown one.
var order = [secTag + 1]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secTag: 6, secGlobal: 7, secExport: 8, secStart: 9, secElement: 10, secDataCount: 11, secCode: 12, secData: 13}

// vec is a section's new content: n elements, encoded.
type vec struct {
	n int
	b []byte
}

type global struct {
	typ     ValueType
	mutable bool
}

type element struct {
	typ ValueType
	n   int
}

// module is what is known of a module while it is read.
type module struct {
	lim  Limits
	info *Info
	out  [secTag + 1]vec

	types   []FuncType
	funcs   []uint32 // type indices, imported functions first
	imports int      // number of imported functions
	tables  []Table
	entries uint64 // of all tables, at their start
	memory  bool
	globals []global
	foreign int // number of imported globals
	names   map[string]Export
	indices map[string]uint32 // of exports
	elems   []element
	data    int // number announced by the data count section, -1 without one

	// refs are the functions that occur outside of function bodies: ref.func
	// may name only these. taken are those that a table or a reference can
	// hold: an indirect call can reach only these.
	refs, taken map[uint32]bool
	functions   []function
	locals      int // of all functions together
	work        int // steps of validation that no byte of the module pays for
	growth      int // bytes that metering adds, at least
}

// maxWork bounds what little code can make validation do: instructions of
// two bytes may take or give as many values as a type has. maxLocals bounds
// the locals of all functions together, which an engine may keep in memory.
const (
	maxWork   = 20 << 20
	maxLocals = 2 << 20
)

// vet reads and validates a module of guard/1.
func vet(b []byte, l Limits) (m *module, err error) {
	defer catch(&err)
	m = decode(b, l)
	m.checkNames()
	m.checkShape()
	return m, nil
}

// catch turns the panic that stops a reader into an error.
func catch(err *error) {
	if p := recover(); p != nil {
		e, ok := p.(*Error)
		if !ok {
			panic(p)
		}
		*err = e
	}
}

// decode reads and validates a module whatever it is for.
func decode(b []byte, l Limits) *module {
	if len(b) > l.Module {
		refuse("strip debug information from it", "the module has %d bytes, at most %d are allowed", len(b), l.Module)
	}
	if !bytes.HasPrefix(b, []byte("\x00asm")) {
		refuse("a guard is a core WebAssembly module; text (.wat) is converted by wat2wasm", "not a WebAssembly module")
	}
	if !bytes.HasPrefix(b, []byte("\x00asm\x01\x00\x00\x00")) {
		refuse("build a core module, not a component", "not a WebAssembly module of version 1")
	}
	m := &module{
		lim:     l,
		info:    &Info{SHA256: sha256.Sum256(b), Size: len(b)},
		names:   map[string]Export{},
		indices: map[string]uint32{},
		data:    -1,
		refs:    map[uint32]bool{},
		taken:   map[uint32]bool{},
	}
	r := &reader{b, 8, len(b)}
	var code, data reader
	for last := 0; !r.done(); {
		start := r.at
		id := r.byte()
		s := r.part(r.u32())
		if id == secCustom {
			// Nothing of a custom section has a meaning for what is run.
			if len(m.info.Custom) >= l.Exports {
				fail(start, "it has more than %d custom sections", l.Exports)
			}
			m.info.Custom = append(m.info.Custom, s.name(l.Name))
			continue
		}
		if int(id) >= len(order) {
			fail(start, "section %d is not known", id)
		}
		if order[id] <= last {
			fail(start, "section %d is not in its place", id)
		}
		last = order[id]
		switch id {
		case secType:
			m.readTypes(&s)
		case secImport:
			m.readImports(&s)
		case secFunction:
			m.readFunctions(&s)
		case secTable:
			m.readTables(&s)
		case secMemory:
			m.readMemory(&s)
		case secTag:
			refuse("build it without exceptions", "it uses exceptions, which a guard can't have")
		case secGlobal:
			m.readGlobals(&s)
		case secExport:
			m.readExports(&s)
		case secStart:
			m.readStart(&s)
		case secElement:
			m.readElements(&s)
		case secDataCount:
			m.data = int(s.u32())
			if m.data > l.Segments {
				fail(s.at, "it has %d data segments, at most %d are allowed", m.data, l.Segments)
			}
		case secCode:
			// References in bodies need all that is declared outside of them,
			// and that is read by now.
			code = s
			m.readCode(&s)
		case secData:
			data = s
			m.readData(&s)
		}
		if !s.done() {
			fail(s.at, "section %d has %d bytes too many", id, s.end-s.at)
		}
	}
	if code.buf == nil && len(m.funcs) > m.imports {
		fail(len(b), "it has no code for its %d functions", len(m.funcs)-m.imports)
	}
	if data.buf == nil && m.data > 0 {
		fail(len(b), "it announces %d data segments and has none", m.data)
	}
	m.info.Resettable = m.info.NotResettable == ""
	return m
}

// keep notes why putting back memory and globals is not enough.
func (m *module) keep(why string) {
	if m.info.NotResettable == "" {
		m.info.NotResettable = why
	}
}

// shift is a function's index in the metered module.
func (m *module) shift(f uint32) uint32 {
	if f >= uint32(m.imports) {
		return f + 1
	}
	return f
}

func (m *module) checkFunc(at int, f uint32) {
	if f >= uint32(len(m.funcs)) {
		fail(at, "there is no function %d", f)
	}
}

func (m *module) valueType(r *reader) ValueType {
	at := r.at
	switch t := ValueType(r.byte()); t {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
		return t
	default:
		fail(at, "there is no value type %#x", byte(t))
		return 0
	}
}

func (m *module) refType(r *reader) ValueType {
	at := r.at
	t := m.valueType(r)
	if !t.isRef() {
		fail(at, "%v is no reference type", t)
	}
	return t
}

func (t ValueType) isRef() bool { return t == FuncRef || t == ExternRef }

func (m *module) readTypes(r *reader) {
	v := &m.out[secType]
	v.n = r.count(m.lim.Types, "types")
	for range v.n {
		if at := r.at; r.byte() != 0x60 {
			fail(at, "a type is not a function's")
		}
		read := func(what string) []ValueType {
			ts := make([]ValueType, r.count(m.lim.Values, what))
			for i := range ts {
				ts[i] = m.valueType(r)
			}
			return ts
		}
		t := FuncType{read("parameters"), read("results")}
		m.types = append(m.types, t)
		v.b = appendType(v.b, t)
	}
}

func appendType(b []byte, t FuncType) []byte {
	b = append(b, 0x60)
	for _, ts := range [][]ValueType{t.Params, t.Results} {
		b = appendU32(b, uint32(len(ts)))
		for _, t := range ts {
			b = append(b, byte(t))
		}
	}
	return b
}

func (m *module) typeIndex(r *reader) uint32 {
	at := r.at
	t := r.u32()
	if t >= uint32(len(m.types)) {
		fail(at, "there is no type %d", t)
	}
	return t
}

func (m *module) readImports(r *reader) {
	v := &m.out[secImport]
	v.n = r.count(m.lim.Exports, "imports")
	for range v.n {
		i := Import{Module: r.name(m.lim.Name), Name: r.name(m.lim.Name)}
		v.b = appendName(appendName(v.b, i.Module), i.Name)
		at := r.at
		kind := r.byte()
		v.b = append(v.b, kind)
		switch kind {
		case 0:
			t := m.typeIndex(r)
			v.b = appendU32(v.b, t)
			m.funcs = append(m.funcs, t)
			i.Kind, i.Type = KindFunc, m.types[t].clone()
		case 1:
			i.Kind = KindTable
			t := m.readTable(r)
			v.b = appendTable(v.b, t, min(int64(t.Max), int64(m.lim.Table)))
		case 2:
			i.Kind = KindMemory
			v.b = m.readMemoryType(r, v.b)
		case 3:
			i.Kind = KindGlobal
			g := m.readGlobalType(r)
			m.globals = append(m.globals, g)
			v.b = append(v.b, byte(g.typ), bit(g.mutable))
		case 4:
			refuse("build it without exceptions", "it imports an exception tag, which a guard can't have")
		default:
			fail(at, "there is no import of kind %d", kind)
		}
		m.info.Imports = append(m.info.Imports, i)
	}
	m.imports = len(m.funcs)
	m.foreign = len(m.globals)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (t FuncType) clone() FuncType {
	return FuncType{slices.Clone(t.Params), slices.Clone(t.Results)}
}

func (t FuncType) equal(u FuncType) bool {
	return slices.Equal(t.Params, u.Params) && slices.Equal(t.Results, u.Results)
}

func (m *module) readFunctions(r *reader) {
	v := &m.out[secFunction]
	v.n = r.count(m.lim.Functions, "functions")
	for range v.n {
		t := m.typeIndex(r)
		m.funcs = append(m.funcs, t)
		v.b = appendU32(v.b, t)
	}
	m.info.Functions = v.n
}

// readTables reads the tables, and caps what they may grow to: an engine has no
// limit of its own there. What the limit leaves is shared out evenly.
func (m *module) readTables(r *reader) {
	v := &m.out[secTable]
	v.n = r.count(maxTables, "tables")
	first := len(m.tables)
	for range v.n {
		m.readTable(r)
	}
	room := int64(m.lim.Table) - int64(m.entries)
	for _, t := range m.tables[first:] {
		v.b = appendTable(v.b, t, min(int64(t.Max), int64(t.Min)+room/int64(v.n)))
	}
}

const maxTables = 100

func (m *module) readTable(r *reader) Table {
	t := Table{Type: m.refType(r)}
	t.Min, t.Max = r.limits("table", 1<<32-1, 1<<32-1)
	m.entries += uint64(t.Min)
	if m.entries > uint64(m.lim.Table) {
		refuse("", "its tables have %d entries, at most %d are allowed", m.entries, m.lim.Table)
	}
	m.tables = append(m.tables, t)
	m.info.Tables = append(m.info.Tables, t)
	return t
}

func appendTable(b []byte, t Table, most int64) []byte {
	b = append(b, byte(t.Type), 1)
	return appendU32(appendU32(b, t.Min), uint32(most))
}

func (m *module) readMemory(r *reader) {
	v := &m.out[secMemory]
	v.n = r.count(m.lim.Table, "memories")
	for range v.n {
		v.b = m.readMemoryType(r, v.b)
	}
}

const maxPages = 1 << 16

func (m *module) readMemoryType(r *reader, b []byte) []byte {
	at := r.at
	if m.memory {
		fail(at, "it has more than one memory")
	}
	m.memory = true
	low, high := r.limits("memory", maxPages, maxPages)
	if need := int64(low) << 16; need > m.lim.Memory {
		refuse("raise wasm.memory, or build the guard with less initial memory", "it needs %d bytes of memory to start, %d are allowed", need, m.lim.Memory)
	}
	m.info.MemoryMin, m.info.MemoryMax = low, high
	b = append(b, 1)
	return appendU32(appendU32(b, low), high)
}

func (m *module) readGlobalType(r *reader) global {
	g := global{typ: m.valueType(r)}
	at := r.at
	switch r.byte() {
	case 0:
	case 1:
		g.mutable = true
	default:
		fail(at, "a global is neither constant nor mutable")
	}
	return g
}

func (m *module) readGlobals(r *reader) {
	v := &m.out[secGlobal]
	v.n = r.count(m.lim.Globals, "globals")
	for range v.n {
		g := m.readGlobalType(r)
		v.b = append(v.b, byte(g.typ), bit(g.mutable))
		v.b = m.readConst(r, v.b, g.typ)
		if g.mutable {
			m.info.MutableGlobals = append(m.info.MutableGlobals, uint32(len(m.globals)))
			if g.typ == V128 || g.typ.isRef() {
				m.keep("it has a mutable global of type " + g.typ.String())
			}
		}
		m.globals = append(m.globals, g)
	}
	m.info.Globals = v.n
}

// readConst reads a constant expression (3.3.10): one instruction and its
// end. A global may only be an imported constant.
func (m *module) readConst(r *reader, b []byte, want ValueType) []byte {
	at := r.at
	var got ValueType
	switch op := r.byte(); op {
	case 0x41:
		got = I32
		b = appendS64(append(b, op), r.signed(32))
	case 0x42:
		got = I64
		b = appendS64(append(b, op), r.signed(64))
	case 0x43:
		got = F32
		b = append(append(b, op), r.bytes(4)...)
	case 0x44:
		got = F64
		b = append(append(b, op), r.bytes(8)...)
	case 0x23:
		g := r.u32()
		if g >= uint32(m.foreign) || m.globals[g].mutable {
			fail(at, "a constant expression needs an imported constant, global %d is none", g)
		}
		got = m.globals[g].typ
		b = appendU32(append(b, op), g)
	case 0xd0:
		got = m.refType(r)
		b = append(b, op, byte(got))
	case 0xd2:
		f := r.u32()
		m.checkFunc(at, f)
		m.refs[f], m.taken[f] = true, true
		got = FuncRef
		b = appendU32(append(b, op), m.shift(f))
	case 0xfd:
		if r.u32() != 12 {
			fail(at, "that is no constant")
		}
		got = V128
		b = append(append(b, op, 12), r.bytes(16)...)
	default:
		fail(at, "opcode %#x in a constant expression", op)
	}
	if got != want {
		fail(at, "a constant is %v, it must be %v", got, want)
	}
	if at := r.at; r.byte() != 0x0b {
		fail(at, "a constant expression has more than one instruction: extended constants are not supported")
	}
	return append(b, 0x0b)
}

var kinds = []Kind{KindFunc, KindTable, KindMemory, KindGlobal}

func (m *module) readExports(r *reader) {
	v := &m.out[secExport]
	v.n = r.count(m.lim.Exports, "exports")
	for range v.n {
		at := r.at
		e := Export{Name: r.name(m.lim.Name)}
		if _, twice := m.names[e.Name]; twice {
			fail(at, "it exports %q twice", e.Name)
		}
		kind, index := r.byte(), r.u32()
		if kind == 4 {
			refuse("build it without exceptions", "it exports an exception tag, which a guard can't have")
		}
		if int(kind) >= len(kinds) {
			fail(at, "there is no export of kind %d", kind)
		}
		e.Kind = kinds[kind]
		n := []int{len(m.funcs), len(m.tables), int(bit(m.memory)), len(m.globals)}[kind]
		if index >= uint32(n) {
			fail(at, "it exports %s %d as %q, and has none", e.Kind, index, e.Name)
		}
		v.b = append(appendName(v.b, e.Name), kind)
		if kind == 0 {
			e.Type = m.types[m.funcs[index]].clone()
			m.refs[index] = true
			v.b = appendU32(v.b, m.shift(index))
		} else {
			v.b = appendU32(v.b, index)
		}
		m.names[e.Name] = e
		m.indices[e.Name] = index
		m.info.Exports = append(m.info.Exports, e)
	}
}

func (m *module) readStart(r *reader) {
	at := r.at
	f := r.u32()
	m.checkFunc(at, f)
	if t := m.types[m.funcs[f]]; len(t.Params)+len(t.Results) > 0 {
		fail(at, "its start function has the type %v", t)
	}
	m.info.Start = true
	m.out[secStart].b = appendU32(nil, m.shift(f))
}

// readElements reads the eight forms of element segments (5.5.12). Of the
// form's bits, 1 is passive or declared, 2 names a table or is declared, 4
// has expressions instead of indices.
func (m *module) readElements(r *reader) {
	v := &m.out[secElement]
	v.n = r.count(m.lim.Segments, "element segments")
	total := 0
	for range v.n {
		at := r.at
		form := r.u32()
		if form > 7 {
			fail(at, "there is no element segment of form %d", form)
		}
		v.b = append(v.b, byte(form))
		active, explicit, exprs := form&1 == 0, form&3 != 0, form&4 != 0
		table := uint32(0)
		if form&3 == 2 {
			table = r.u32()
			v.b = appendU32(v.b, table)
		}
		if active {
			if table >= uint32(len(m.tables)) {
				fail(at, "there is no table %d", table)
			}
			v.b = m.readConst(r, v.b, I32)
		}
		e := element{typ: FuncRef}
		switch {
		case explicit && exprs:
			e.typ = m.refType(r)
			v.b = append(v.b, byte(e.typ))
		case explicit:
			if at := r.at; r.byte() != 0 {
				fail(at, "an element segment has an unknown kind")
			}
			v.b = append(v.b, 0)
		}
		if active && m.tables[table].Type != e.typ {
			fail(at, "an element segment of %v is for a table of %v", e.typ, m.tables[table].Type)
		}
		e.n = r.count(m.lim.Table, "elements")
		if total += e.n; total > 4*m.lim.Table {
			fail(at, "its element segments have more than %d elements", 4*m.lim.Table)
		}
		v.b = appendU32(v.b, uint32(e.n))
		for range e.n {
			if exprs {
				v.b = m.readConst(r, v.b, e.typ)
				continue
			}
			at := r.at
			f := r.u32()
			m.checkFunc(at, f)
			m.refs[f], m.taken[f] = true, true
			v.b = appendU32(v.b, m.shift(f))
		}
		m.elems = append(m.elems, e)
	}
}

func (m *module) readData(r *reader) {
	v := &m.out[secData]
	at := r.at
	v.n = r.count(m.lim.Segments, "data segments")
	if m.data >= 0 && m.data != v.n {
		fail(at, "it announces %d data segments and has %d", m.data, v.n)
	}
	for range v.n {
		at := r.at
		form := r.u32()
		switch form {
		case 0, 2:
			if form == 2 && r.u32() != 0 || !m.memory {
				fail(at, "a data segment is for a memory that does not exist")
			}
			v.b = m.readConst(r, append(v.b, 0), I32)
		case 1:
			v.b = append(v.b, 1)
		default:
			fail(at, "there is no data segment of form %d", form)
		}
		n := r.u32()
		v.b = append(appendU32(v.b, n), r.bytes(n)...)
		m.info.DataSize += int(n)
	}
}
