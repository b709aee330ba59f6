// Package assemble writes small WebAssembly modules for tests, without a
// toolchain and byte for byte as they are asked for, malformed ones included.
//
// A [Module] collects sections; [Module.Bytes] puts them in order. An
// instruction is bytes, written by [I] from its name in the text format.
package assemble

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Module is a module under construction. The zero value is empty.
type Module struct {
	types                                                                 []string
	imports, funcs, tables, memories, globals, exports, elems, code, data [][]byte
	imported                                                              uint32
	start                                                                 []byte
	// Count adds a data count section.
	Count bool
	// Raw sections are written behind those of the same id.
	Raw map[byte][]byte
	// Custom sections, name and content, stand at the end.
	Custom [][2]string
}

// U is an unsigned LEB128 number.
func U(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// S is a signed LEB128 number.
func S(n int64) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Vec is a vector: its length and its elements.
func Vec(items ...[]byte) []byte { return append(U(uint64(len(items))), slices.Concat(items...)...) }

// Name is a vector of bytes.
func Name(s string) []byte { return append(U(uint64(len(s))), s...) }

// ValueTypes are the types by the letters of a signature.
var ValueTypes = map[byte]byte{'i': 0x7f, 'I': 0x7e, 'f': 0x7d, 'F': 0x7c, 'v': 0x7b, 'r': 0x70, 'x': 0x6f}

func letters(s string) []byte {
	var items [][]byte
	for _, c := range []byte(s) {
		t, ok := ValueTypes[c]
		if !ok {
			panic("no value type " + string(c))
		}
		items = append(items, []byte{t})
	}
	return Vec(items...)
}

// Type is the index of a function type, as "parameters:results" in letters of
// ValueTypes.
func (m *Module) Type(sig string) uint32 {
	if i := slices.Index(m.types, sig); i >= 0 {
		return uint32(i)
	}
	m.types = append(m.types, sig)
	return uint32(len(m.types) - 1)
}

// NewType adds a type even if there is one like it.
func (m *Module) NewType(sig string) uint32 {
	m.types = append(m.types, sig)
	return uint32(len(m.types) - 1)
}

// Import adds an imported function; all imports come before the first Func.
func (m *Module) Import(module, name, sig string) uint32 {
	m.ImportRaw(module, name, append([]byte{0}, U(uint64(m.Type(sig)))...))
	m.imported++
	return m.imported - 1
}

// ImportRaw adds an import of any kind.
func (m *Module) ImportRaw(module, name string, desc []byte) {
	m.imports = append(m.imports, slices.Concat(Name(module), Name(name), desc))
}

// Next is the index that the next Func gets.
func (m *Module) Next() uint32 { return m.imported + uint32(len(m.funcs)) }

// Func adds a function; locals are letters of ValueTypes. Its end is added.
func (m *Module) Func(sig, locals string, code ...[]byte) uint32 {
	var groups [][]byte
	for _, c := range []byte(locals) {
		groups = append(groups, []byte{1, ValueTypes[c]})
	}
	return m.FuncRaw(sig, slices.Concat(Vec(groups...), slices.Concat(code...), []byte{0x0b}))
}

// FuncRaw adds a function by its body, with locals and end.
func (m *Module) FuncRaw(sig string, body []byte) uint32 {
	m.funcs = append(m.funcs, U(uint64(m.Type(sig))))
	m.code = append(m.code, append(U(uint64(len(body))), body...))
	return m.Next() - 1
}

// Limits are a table's or memory's; high below 0 means none.
func Limits(low, high int64) []byte {
	if high < 0 {
		return append([]byte{0}, U(uint64(low))...)
	}
	return slices.Concat([]byte{1}, U(uint64(low)), U(uint64(high)))
}

// Memory adds a memory, in pages.
func (m *Module) Memory(low, high int64) { m.memories = append(m.memories, Limits(low, high)) }

// Table adds a table of a type of ValueTypes.
func (m *Module) Table(t byte, low, high int64) uint32 {
	m.tables = append(m.tables, append([]byte{ValueTypes[t]}, Limits(low, high)...))
	return uint32(len(m.tables) - 1)
}

// Global adds a global with its constant expression, without the end.
func (m *Module) Global(t byte, mutable bool, init []byte) uint32 {
	b := []byte{ValueTypes[t], 0}
	if mutable {
		b[1] = 1
	}
	m.globals = append(m.globals, slices.Concat(b, init, []byte{0x0b}))
	return uint32(len(m.globals) - 1)
}

// Kinds of exports.
const (
	Func byte = iota
	Table
	Memory
	Global
)

// Export adds an export.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.exports = append(m.exports, slices.Concat(Name(name), []byte{kind}, U(uint64(index))))
}

// Start names the start function.
func (m *Module) Start(f uint32) { m.start = U(uint64(f)) }

// Elem adds an element segment as it is encoded.
func (m *Module) Elem(b ...[]byte) { m.elems = append(m.elems, slices.Concat(b...)) }

// Funcs adds an active segment of functions for table 0.
func (m *Module) Funcs(at int64, funcs ...uint32) {
	var items [][]byte
	for _, f := range funcs {
		items = append(items, U(uint64(f)))
	}
	m.Elem([]byte{0}, I("i32.const", at), []byte{0x0b}, Vec(items...))
}

// Data adds an active data segment.
func (m *Module) Data(at int64, s string) {
	m.data = append(m.data, slices.Concat([]byte{0}, I("i32.const", at), []byte{0x0b}, Name(s)))
}

// PassiveData adds a passive data segment.
func (m *Module) PassiveData(s string) { m.data = append(m.data, append([]byte{1}, Name(s)...)) }

// Header begins every module.
const Header = "\x00asm\x01\x00\x00\x00"

// Section is a section with its id and size.
func Section(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, U(uint64(len(content))), content)
}

// Bytes is the module.
func (m *Module) Bytes() []byte {
	out := []byte(Header)
	var types [][]byte
	for _, sig := range m.types {
		p, r, ok := strings.Cut(sig, ":")
		if !ok {
			panic("a signature without a colon")
		}
		types = append(types, slices.Concat([]byte{0x60}, letters(p), letters(r)))
	}
	for _, s := range []struct {
		id    byte
		items [][]byte
	}{{1, types}, {2, m.imports}, {3, m.funcs}, {4, m.tables}, {5, m.memories}, {13, nil}, {6, m.globals}, {7, m.exports}, {8, nil}, {9, m.elems}, {12, nil}, {10, m.code}, {11, m.data}} {
		switch {
		case s.id == 8 && m.start != nil:
			out = append(out, Section(8, m.start)...)
		case s.id == 12 && m.Count:
			out = append(out, Section(12, U(uint64(len(m.data))))...)
		case len(s.items) > 0:
			out = append(out, Section(s.id, Vec(s.items...))...)
		}
		if raw, ok := m.Raw[s.id]; ok {
			out = append(out, Section(s.id, raw)...)
		}
	}
	for _, c := range m.Custom {
		out = append(out, Section(0, append(Name(c[0]), c[1]...))...)
	}
	return out
}

// I is an instruction by its name in the text format, with its immediates in
// the order of the binary format. Blocks have no type without an immediate;
// accesses to memory have alignment and offset 0 without.
func I(name string, imm ...int64) []byte {
	code, ok := opcodes[name]
	if !ok {
		panic("no instruction " + name)
	}
	b := []byte(code)
	switch {
	case name == "i32.const" || name == "i64.const":
		return append(b, S(imm[0])...)
	case name == "f32.const":
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(imm[0])))
	case name == "f64.const":
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(imm[0])))
	case name == "block" || name == "loop" || name == "if":
		if len(imm) == 0 {
			return append(b, 0x40)
		}
		return append(b, S(imm[0])...)
	case name == "br_table":
		b = append(b, U(uint64(len(imm)-1))...)
	case len(imm) == 0 && (strings.Contains(name, ".load") || strings.Contains(name, ".store")):
		return append(b, 0, 0)
	case name == "memory.size" || name == "memory.grow" || name == "memory.fill":
		return append(b, 0)
	case name == "memory.copy":
		return append(b, 0, 0)
	case name == "memory.init":
		return append(append(b, U(uint64(imm[0]))...), 0)
	}
	for _, n := range imm {
		b = append(b, U(uint64(n))...)
	}
	return b
}

// Result is the type of a block with one result, a letter of ValueTypes.
func Result(t byte) int64 { return int64(ValueTypes[t]) - 0x80 }

// Repeat is n times the same code.
func Repeat(n int, code ...[]byte) []byte {
	return slices.Concat(slices.Repeat([][]byte{slices.Concat(code...)}, n)...)
}

// Opcode is an instruction's encoding without immediates.
func Opcode(name string) string {
	if _, ok := opcodes[name]; !ok {
		panic(fmt.Sprintf("no instruction %s", name))
	}
	return opcodes[name]
}

// opcodes has what tests use (core specification 2.0, appendix A.7).
var opcodes = map[string]string{
	"unreachable": "\x00", "nop": "\x01", "block": "\x02", "loop": "\x03", "if": "\x04", "else": "\x05", "end": "\x0b",
	"br": "\x0c", "br_if": "\x0d", "br_table": "\x0e", "return": "\x0f", "call": "\x10", "call_indirect": "\x11",
	"return_call": "\x12", "return_call_indirect": "\x13", "try": "\x06", "throw": "\x08", "try_table": "\x1f",
	"drop": "\x1a", "select": "\x1b",
	"local.get": "\x20", "local.set": "\x21", "local.tee": "\x22", "global.get": "\x23", "global.set": "\x24",
	"table.get": "\x25", "table.set": "\x26",
	"i32.load": "\x28", "i64.load": "\x29", "i32.load8_u": "\x2d", "i32.store": "\x36", "i64.store": "\x37", "i32.store8": "\x3a",
	"memory.size": "\x3f", "memory.grow": "\x40",
	"i32.const": "\x41", "i64.const": "\x42", "f32.const": "\x43", "f64.const": "\x44",
	"i32.eqz": "\x45", "i32.eq": "\x46", "i32.ne": "\x47", "i32.lt_s": "\x48", "i32.lt_u": "\x49", "i32.gt_s": "\x4a", "i32.ge_u": "\x4f",
	"i64.eqz": "\x50", "i64.lt_s": "\x53", "i64.lt_u": "\x54",
	"i32.add": "\x6a", "i32.sub": "\x6b", "i32.mul": "\x6c", "i32.div_u": "\x6e", "i32.rem_u": "\x70",
	"i32.and": "\x71", "i32.or": "\x72", "i32.xor": "\x73", "i32.shl": "\x74", "i32.shr_u": "\x76", "i32.rotl": "\x77",
	"i64.add": "\x7c", "i64.sub": "\x7d", "i64.mul": "\x7e", "i64.div_u": "\x80", "i64.xor": "\x85", "i64.shl": "\x86", "i64.shr_u": "\x88", "i64.rotl": "\x89",
	"f64.sqrt": "\x9f", "f64.add": "\xa0", "f64.div": "\xa3",
	"i32.wrap_i64": "\xa7", "i64.extend_i32_u": "\xad", "i32.trunc_f64_s": "\xaa", "f64.convert_i32_s": "\xb7",
	"ref.null": "\xd0", "ref.is_null": "\xd1", "ref.func": "\xd2",
	"memory.init": "\xfc\x08", "data.drop": "\xfc\x09", "memory.copy": "\xfc\x0a", "memory.fill": "\xfc\x0b",
	"table.init": "\xfc\x0c", "elem.drop": "\xfc\x0d", "table.copy": "\xfc\x0e", "table.grow": "\xfc\x0f", "table.size": "\xfc\x10", "table.fill": "\xfc\x11",
	"i32.atomic.load": "\xfe\x10",
}
