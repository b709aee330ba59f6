package meter

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

// guard is the smallest guard, with what change adds to it.
func guard(change func(m *assemble.Module)) []byte {
	m := &assemble.Module{}
	if change != nil {
		change(m)
	}
	if !bytes.Contains(m.Bytes(), []byte("guard_check_v1")) {
		m.Export("guard_check_v1", assemble.Func, m.Func(":i", "", I("i32.const", 1)))
	}
	if !bytes.Contains(m.Bytes(), []byte("\x06memory\x02")) {
		m.Memory(1, -1)
		m.Export("memory", assemble.Memory, 0)
	}
	return m.Bytes()
}

// body is a guard with a function of this code.
func body(sig, locals string, code ...[]byte) []byte {
	return guard(func(m *assemble.Module) { m.Func(sig, locals, code...) })
}

func op(b ...byte) []byte { return b }

// Every row is refused, for the reason it names. Most are malformed or invalid
// by the specification; the rest is what a guard can't have.
func TestRefused(t *testing.T) {
	raw := func(id byte, content ...byte) []byte {
		return guard(func(m *assemble.Module) { m.Raw = map[byte][]byte{id: content} })
	}
	table := func(change func(m *assemble.Module)) []byte {
		return guard(func(m *assemble.Module) { m.Table('r', 2, 4); m.Table('x', 1, 1); change(m) })
	}
	for _, tc := range []struct {
		name   string
		module []byte
		want   string
	}{
		// The frame of a module.
		{"nothing", nil, "not a WebAssembly module"},
		{"text", []byte("(module)"), "not a WebAssembly module"},
		{"a component", []byte("\x00asm\x0d\x00\x01\x00"), "version 1"},
		{"half a header", []byte("\x00asm\x01\x00"), "version 1"},
		{"header alone", []byte(assemble.Header), "does not export guard_check_v1"},
		{"section without size", append(guard(nil), 1), "ends too early"},
		{"section cut off", append(guard(nil), 0, 5, 1), "5 bytes are announced"},
		{"unknown section", append(guard(nil), 14, 0), "section 14 is not known"},
		{"section twice", append(guard(nil), 1, 1, 0), "not in its place"},
		{"sections out of order", append([]byte(assemble.Header), slices.Concat(assemble.Section(3, op(0)), assemble.Section(1, op(0)))...), "not in its place"},
		{"bytes behind a section", append([]byte(assemble.Header), assemble.Section(1, op(0, 0))...), "1 bytes too many"},
		{"size of six bytes", append([]byte(assemble.Header), 1, 0x81, 0x80, 0x80, 0x80, 0x80, 0x00, 0), "more than 32 bits"},
		{"size with a bit too many", append([]byte(assemble.Header), 1, 0x81, 0x80, 0x80, 0x80, 0x10, 0), "more than 32 bits"},
		{"more types than bytes", append([]byte(assemble.Header), assemble.Section(1, op(0x80, 0x10))...), "2048 types are announced"},
		{"custom section without a name", append([]byte(assemble.Header), 0, 0), "ends too early"},
		{"custom section with a bad name", append([]byte(assemble.Header), 0, 3, 2, 0xc3, 0x28), "UTF-8"},
		{"tags", raw(13, 0), "exceptions"},
		// Types, imports, functions.
		{"type that is no function", append([]byte(assemble.Header), assemble.Section(1, op(1, 0x5f, 0, 0))...), "not a function's"},
		{"unknown value type", append([]byte(assemble.Header), assemble.Section(1, op(1, 0x60, 1, 0x40, 0))...), "no value type 0x40"},
		{"exnref", append([]byte(assemble.Header), assemble.Section(1, op(1, 0x60, 1, 0x69, 0))...), "no value type 0x69"},
		{"import of no kind", guard(func(m *assemble.Module) { m.ImportRaw("a", "b", op(5, 0)) }), "no import of kind 5"},
		{"import of a tag", guard(func(m *assemble.Module) { m.ImportRaw("a", "b", op(4, 0, 0)) }), "exception tag"},
		{"import of a type that is not there", guard(func(m *assemble.Module) { m.ImportRaw("a", "b", op(0, 9)) }), "no type 9"},
		{"import of a memory", guard(func(m *assemble.Module) { m.ImportRaw("env", "memory", op(2, 0, 1)) }), "memory"},
		{"import of a memory alone", func() []byte {
			m := &assemble.Module{}
			m.ImportRaw("env", "memory", op(2, 0, 1))
			m.Export("memory", assemble.Memory, 0)
			m.Export("guard_check_v1", assemble.Func, m.Func(":i", "", I("i32.const", 1)))
			return m.Bytes()
		}(), "imports a memory"},
		{"import of a table", guard(func(m *assemble.Module) { m.ImportRaw("env", "t", op(1, 0x70, 0, 1)) }), "imports the table env.t"},
		{"import of a global", guard(func(m *assemble.Module) { m.ImportRaw("env", "g", op(3, 0x7f, 0)) }), "imports the global env.g"},
		{"function of a type that is not there", append([]byte(assemble.Header), assemble.Section(3, op(1, 0))...), "no type 0"},
		{"functions without code", append([]byte(assemble.Header), slices.Concat(assemble.Section(1, op(1, 0x60, 0, 0)), assemble.Section(3, op(1, 0)))...), "no code"},
		{"code without functions", append([]byte(assemble.Header), assemble.Section(10, op(1, 2, 0, 0x0b))...), "0 functions and 1 bodies"},
		// Tables, memories, globals.
		{"threads", append([]byte(assemble.Header), assemble.Section(5, op(1, 3, 1, 1))...), "threads"},
		{"64-bit memory", append([]byte(assemble.Header), assemble.Section(5, op(1, 4, 1))...), "64-bit memory"},
		{"64-bit table", append([]byte(assemble.Header), assemble.Section(4, op(1, 0x70, 4, 1))...), "64-bit table"},
		{"memory with odd limits", append([]byte(assemble.Header), assemble.Section(5, op(1, 9, 1))...), "begin with 0x9"},
		{"two memories", append([]byte(assemble.Header), assemble.Section(5, op(2, 0, 1, 0, 1))...), "more than one memory"},
		{"memory upside down", append([]byte(assemble.Header), assemble.Section(5, op(1, 1, 2, 1))...), "from 2 to 1"},
		{"memory beyond 4 GiB", append([]byte(assemble.Header), assemble.Section(5, slices.Concat(op(1, 1, 1), assemble.U(65537)))...), "can't be"},
		{"large memory", guard(func(m *assemble.Module) { m.Memory(257, -1); m.Export("memory", assemble.Memory, 0) }), "16842752 bytes of memory to start"},
		{"table of numbers", append([]byte(assemble.Header), assemble.Section(4, op(1, 0x7f, 0, 1))...), "no reference type"},
		{"table upside down", append([]byte(assemble.Header), assemble.Section(4, op(1, 0x70, 1, 2, 1))...), "from 2 to 1"},
		{"large table", guard(func(m *assemble.Module) { m.Table('r', 100_001, -1) }), "100001 entries"},
		{"many tables", guard(func(m *assemble.Module) {
			for range 4 {
				m.Table('r', 30_000, -1)
			}
		}), "120000 entries"},
		{"101 tables", guard(func(m *assemble.Module) {
			for range 101 {
				m.Table('r', 0, 0)
			}
		}), "101 tables"},
		{"global neither way", append([]byte(assemble.Header), assemble.Section(6, op(1, 0x7f, 2, 0x41, 0, 0x0b))...), "neither constant nor mutable"},
		{"global of another type", guard(func(m *assemble.Module) { m.Global('i', false, I("i64.const", 1)) }), "is i64, it must be i32"},
		{"global from a global", guard(func(m *assemble.Module) {
			m.Global('i', false, I("i32.const", 1))
			m.Global('i', false, I("global.get", 0))
		}), "imported constant"},
		{"extended constant", guard(func(m *assemble.Module) {
			m.Global('i', false, cat(I("i32.const", 1), I("i32.const", 1), I("i32.add")))
		}), "extended constants"},
		{"no constant", guard(func(m *assemble.Module) { m.Global('i', false, I("memory.size")) }), "opcode 0x3f in a constant"},
		{"vector that is no constant", guard(func(m *assemble.Module) { m.Global('v', false, op(0xfd, 15)) }), "no constant"},
		{"empty constant", guard(func(m *assemble.Module) { m.Global('i', false, nil) }), "opcode 0xb in a constant"},
		{"reference to no function", guard(func(m *assemble.Module) { m.Global('r', false, I("ref.func", 7)) }), "no function 7"},
		// Exports and start.
		{"export twice", guard(func(m *assemble.Module) {
			f := m.Func(":", "")
			m.Export("a", assemble.Func, f)
			m.Export("a", assemble.Func, f)
		}), `"a" twice`},
		{"export of no kind", guard(func(m *assemble.Module) { m.Export("a", 5, 0) }), "no export of kind 5"},
		{"export of a tag", guard(func(m *assemble.Module) { m.Export("a", 4, 0) }), "exception tag"},
		{"export of no function", guard(func(m *assemble.Module) { m.Export("a", assemble.Func, 1) }), "func 1"},
		{"export of no table", guard(func(m *assemble.Module) { m.Export("a", assemble.Table, 0) }), "table 0"},
		{"export of no memory", guard(func(m *assemble.Module) { m.Export("a", assemble.Memory, 1) }), "memory 1"},
		{"export of no global", guard(func(m *assemble.Module) { m.Export("a", assemble.Global, 0) }), "global 0"},
		{"start that is not there", guard(func(m *assemble.Module) { m.Start(9) }), "no function 9"},
		{"start with a result", guard(func(m *assemble.Module) { m.Start(m.Func(":i", "", I("i32.const", 1))) }), "start function has the type () -> (i32)"},
		// Element and data segments.
		{"element segment of no form", table(func(m *assemble.Module) { m.Elem(op(8)) }), "form 8"},
		{"elements for no table", guard(func(m *assemble.Module) { m.Funcs(0) }), "no table 0"},
		{"elements for table 2", table(func(m *assemble.Module) { m.Elem(op(2, 2), I("i32.const", 0), op(0x0b, 0, 0)) }), "no table 2"},
		{"elements that are no functions", table(func(m *assemble.Module) { m.Funcs(0, 9) }), "no function 9"},
		{"elements of an unknown kind", table(func(m *assemble.Module) { m.Elem(op(1, 1, 0)) }), "unknown kind"},
		{"elements of another type", table(func(m *assemble.Module) { m.Elem(op(6, 1), I("i32.const", 0), op(0x0b, 0x70, 0)) }), "for a table of externref"},
		{"elements that are numbers", table(func(m *assemble.Module) { m.Elem(op(5, 0x70, 1), I("i32.const", 0), op(0x0b)) }), "is i32, it must be funcref"},
		{"element offset of 64 bits", table(func(m *assemble.Module) { m.Elem(op(0), I("i64.const", 0), op(0x0b, 0)) }), "is i64, it must be i32"},
		{"data without memory", append([]byte(assemble.Header), assemble.Section(11, op(1, 0, 0x41, 0, 0x0b, 0))...), "memory that does not exist"},
		{"data for memory 1", guard(func(m *assemble.Module) { m.Raw = map[byte][]byte{11: op(1, 2, 1, 0x41, 0, 0x0b, 0)} }), "memory that does not exist"},
		{"data of no form", guard(func(m *assemble.Module) { m.Raw = map[byte][]byte{11: op(1, 3, 0)} }), "form 3"},
		{"data cut off", guard(func(m *assemble.Module) { m.Raw = map[byte][]byte{11: op(1, 1, 9, 0)} }), "9 bytes are announced"},
		{"data count too low", guard(func(m *assemble.Module) { m.Raw = map[byte][]byte{12: op(0), 11: op(1, 1, 0)} }), "announces 0 data segments"},
		{"data count without data", guard(func(m *assemble.Module) { m.Raw = map[byte][]byte{12: op(1)} }), "announces 1 data segments"},
		// Bodies.
		{"no end", guard(func(m *assemble.Module) { m.FuncRaw(":", op(0, 0x01)) }), "ends too early"},
		{"code behind the end", guard(func(m *assemble.Module) { m.FuncRaw(":", op(0, 0x0b, 0x01)) }), "behind its end"},
		{"locals of no type", guard(func(m *assemble.Module) { m.FuncRaw(":", op(1, 1, 0x40, 0x0b)) }), "no value type"},
		{"four billion locals", guard(func(m *assemble.Module) { m.FuncRaw(":", slices.Concat(op(1), assemble.U(1<<32-1), op(0x7f, 0x0b))) }), "more than 2000 locals"},
		{"45,000 locals", guard(func(m *assemble.Module) { m.FuncRaw(":", slices.Concat(op(1), assemble.U(45_000), op(0x7f, 0x0b))) }), "more than 2000 locals"},
		{"result missing", body(":i", ""), "stack is empty"},
		{"result too many", body(":", "", I("i32.const", 1)), "left over"},
		{"result of another type", body(":i", "", I("i64.const", 1)), "i64 is on the stack where i32"},
		{"operand missing", body(":i", "", I("i32.const", 1), I("i32.add")), "stack is empty"},
		{"operand of another type", body(":i", "", I("i32.const", 1), I("f32.const", 1), I("i32.add")), "f32 is on the stack"},
		{"stack of an outer block", body(":", "", I("i32.const", 1), I("block"), I("drop"), I("end")), "stack is empty"},
		{"else without if", body(":", "", I("block"), I("else"), I("end")), "not in an if"},
		{"two elses", body(":", "", I("i32.const", 1), I("if"), I("else"), I("else"), I("end")), "not in an if"},
		{"if that must give a value", body(":", "", I("i32.const", 1), I("if", assemble.Result('i')), I("i32.const", 1), I("end"), I("drop")), "without an else"},
		{"block of no type", body(":", "", I("block", 9), I("end")), "no type 9"},
		{"block of an odd type", body(":", "", I("block", -3000), I("end")), "no type"},
		{"block type of two bytes", body(":", "", op(0x02, 0xff, 0x7f), I("i32.const", 1), I("end"), I("drop")), "odd type"},
		{"branch too far", body(":", "", I("br", 1)), "no label 1"},
		{"branch without a value", body(":i", "", I("br", 0)), "stack is empty"},
		{"branch table of different labels", body(":i", "", I("block"), I("i32.const", 1), I("i32.const", 1), I("br_table", 0, 1), I("end"), I("i32.const", 1)), "labels of"},
		{"call of nothing", body(":", "", I("call", 99)), "no function 99"},
		{"call with too little", guard(func(m *assemble.Module) { f := m.Func("i:", ""); m.Func(":", "", I("call", int64(f))) }), "stack is empty"},
		{"indirect call without table", body(":", "", I("i32.const", 0), I("call_indirect", 0, 0)), "no table 0"},
		{"indirect call of no type", table(func(m *assemble.Module) { m.Func(":", "", I("i32.const", 0), I("call_indirect", 50, 0)) }), "no type 50"},
		{"indirect call through a table of externref", table(func(m *assemble.Module) { m.Func(":", "", I("i32.const", 0), I("call_indirect", 0, 1)) }), "without functions"},
		{"tail call", body(":", "", I("return_call", 0)), "12 is not known"},
		{"indirect tail call", table(func(m *assemble.Module) { m.Func(":", "", I("return_call_indirect", 0, 0)) }), "13 is not known"},
		{"throw", body(":", "", I("throw", 0)), "08 is not known"},
		{"try", body(":", "", op(6, 0x40)), "06 is not known"},
		{"try_table", body(":", "", op(0x1f, 0x40, 0)), "1f is not known"},
		{"atomic load", body(":", "", I("i32.const", 0), I("i32.atomic.load", 2, 0), I("drop")), "fe is not known"},
		{"call_ref", body(":", "", op(0x14, 0)), "14 is not known"},
		{"gap in the opcodes", body(":", "", op(0x27)), "27 is not known"},
		{"last opcode", body(":", "", op(0xff)), "ff is not known"},
		{"unknown saturating conversion", body(":", "", op(0xfc, 18)), "fc 12 is not known"},
		{"relaxed vector instruction", body(":", "", op(0xfd, 0x80, 0x02)), "fd 80 02 is not known"},
		{"gap in the vector opcodes", body(":", "", op(0xfd, 0x9a, 0x01)), "fd 9a 01 is not known"},
		{"opcode longer than it need be", body("v:v", "", I("local.get", 0), op(0xfd, 0xcd, 0)), "more bytes than it needs"},
		{"lane too high", body("v:i", "", I("local.get", 0), op(0xfd, 21, 16)), "no lane 16"},
		{"shuffle too high", body("v:v", "", I("local.get", 0), I("local.get", 0), op(0xfd, 13), bytes.Repeat(op(32), 16)), "no lane 32"},
		{"local too high", body("i:", "I", I("local.get", 2), I("drop")), "no local 2"},
		{"global too high", body(":", "", I("global.get", 0), I("drop")), "no global 0"},
		{"constant global set", guard(func(m *assemble.Module) {
			g := m.Global('i', false, I("i32.const", 0))
			m.Func(":", "", I("i32.const", 0), I("global.set", int64(g)))
		}), "constant"},
		{"alignment above the size", body(":", "", I("i32.const", 0), I("i32.load", 3, 0), I("drop")), "aligned to 2^3"},
		{"second memory by alignment", body(":", "", I("i32.const", 0), op(0x28, 0x42, 1, 0), I("drop")), "aligned"},
		{"offset of 64 bits", body(":", "", I("i32.const", 0), op(0x28, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), I("drop")), "more than 32 bits"},
		{"constant of 33 bits", body(":", "", op(0x41, 0xff, 0xff, 0xff, 0xff, 0x0f), I("drop")), "more than 32 bits"},
		{"constant of six bytes", body(":", "", op(0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0), I("drop")), "more than 32 bits"},
		{"memory.grow with an index", body(":", "", I("i32.const", 0), op(0x40, 1), I("drop")), "reserved"},
		{"memory.copy with an index", body(":", "", I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), op(0xfc, 10, 0, 1)), "reserved"},
		{"memory.init without a count", guard(func(m *assemble.Module) {
			m.PassiveData("x")
			m.Func(":", "", I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), I("memory.init", 0))
		}), "without announcing"},
		{"memory.init of nothing", guard(func(m *assemble.Module) {
			m.Count = true
			m.PassiveData("x")
			m.Func(":", "", I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), I("memory.init", 1))
		}), "no data segment 1"},
		{"table.init of nothing", table(func(m *assemble.Module) {
			m.Func(":", "", I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), I("table.init", 0, 0))
		}), "no element segment 0"},
		{"table.copy between types", table(func(m *assemble.Module) {
			m.Func(":", "", I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), I("table.copy", 0, 1))
		}), "table of funcref is filled with externref"},
		{"table.set of another type", table(func(m *assemble.Module) { m.Func(":", "", I("i32.const", 0), I("ref.null", 0x6f), I("table.set", 0)) }), "externref is on the stack where funcref"},
		{"ref.func that is not declared", guard(func(m *assemble.Module) { f := m.Func(":", ""); m.Func(":", "", I("ref.func", int64(f)), I("drop")) }), "not declared"},
		{"ref.is_null of a number", body(":", "", I("i32.const", 0), I("ref.is_null"), I("drop")), "ref.is_null of i32"},
		{"ref.null of a number", body(":", "", op(0xd0, 0x7f), I("drop")), "no reference type"},
		{"select of references", body(":", "", I("ref.null", 0x70), I("ref.null", 0x70), I("i32.const", 0), I("select"), I("drop")), "needs its type"},
		{"select of two types", body(":", "", I("i64.const", 0), I("i32.const", 0), I("i32.const", 0), I("select"), I("drop")), "a select has i64 and i32"},
		{"select with two types", body(":", "", I("i32.const", 0), I("i32.const", 0), I("i32.const", 0), op(0x1c, 2, 0x7f, 0x7f), I("drop")), "one type"},
		// The shape of a guard.
		{"no memory", func() []byte {
			m := &assemble.Module{}
			m.Export("guard_check_v1", assemble.Func, m.Func(":i", "", I("i32.const", 1)))
			return m.Bytes()
		}(), "one memory, named memory; it exports 0"},
		{"memory under two names", guard(func(m *assemble.Module) {
			m.Memory(1, 1)
			m.Export("memory", assemble.Memory, 0)
			m.Export("other", assemble.Memory, 0)
		}), "it exports 2"},
		{"no check", func() []byte {
			m := &assemble.Module{}
			m.Memory(1, 1)
			m.Export("memory", assemble.Memory, 0)
			m.Export("guard_check", assemble.Func, m.Func(":i", "", I("i32.const", 1)))
			return m.Bytes()
		}(), "version is part of the name"},
		{"check that is a global", guard(func(m *assemble.Module) {
			m.Export("guard_check_v1", assemble.Global, m.Global('i', false, I("i32.const", 1)))
		}), "guard_check_v1 is a global"},
		{"check of another type", guard(func(m *assemble.Module) {
			m.Export("guard_check_v1", assemble.Func, m.Func("i:i", "", I("i32.const", 1)))
		}), "(i32) -> (i32), it must be () -> (i32)"},
		{"configuration of another type", guard(func(m *assemble.Module) { m.Export("guard_config_v1", assemble.Func, m.Func(":", "")) }), "guard_config_v1 has the type"},
		{"initialization of another type", guard(func(m *assemble.Module) {
			m.Export("_initialize", assemble.Func, m.Func(":i", "", I("i32.const", 1)))
		}), "_initialize has the type"},
		{"start of another type", guard(func(m *assemble.Module) { m.Export("_start", assemble.Func, m.Func("i:", "")) }), "_start has the type"},
		// What metering keeps to itself.
		{"imports the refill function", guard(func(m *assemble.Module) { m.Import(HostModule, RefillImport, ":") }), "reserved"},
		{"imports from a reserved module", guard(func(m *assemble.Module) { m.Import("guardproxy:x", "y", ":") }), "reserved"},
		{"exports the counter's name", guard(func(m *assemble.Module) {
			m.Export(FuelExport, assemble.Global, m.Global('I', true, I("i64.const", 0)))
		}), "reserved"},
		{"exports a global's name", guard(func(m *assemble.Module) { m.Export(GlobalExport(0), assemble.Func, m.Func(":", "")) }), "reserved"},
		{"sets the counter", guard(func(m *assemble.Module) {
			m.Global('I', true, I("i64.const", 0))
			m.Func(":", "", I("i64.const", 1<<40), I("global.set", 1)) // where the counter is going to be
		}), "no global 1"},
		{"sets the stack counter", guard(func(m *assemble.Module) { m.Func(":", "", I("i64.const", 1<<40), I("global.set", 1)) }), "no global 1"},
		{"calls the refill function", guard(func(m *assemble.Module) { m.Func(":", "", I("call", 2)) }), "no function 2"},
		{"puts the refill function in a table", table(func(m *assemble.Module) { m.Funcs(0, 1) }), "no function 1"},
		{"exports the counter by its index", guard(func(m *assemble.Module) { m.Export("fuel", assemble.Global, 0) }), "global 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Meter(tc.module, Limits{})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want %q", err, tc.want)
			}
			if _, err2 := Vet(tc.module, Limits{}); err2 == nil || err2.Error() != err.Error() {
				t.Errorf("Vet says %v", err2)
			}
		})
	}
}

// Every limit is exact: what reaches it is accepted, one more is refused. The
// other limits are at their defaults.
func TestLimits(t *testing.T) {
	many := func(n int, add func(m *assemble.Module)) []byte {
		return guard(func(m *assemble.Module) {
			for range n {
				add(m)
			}
		})
	}
	for _, tc := range []struct {
		name   string
		limits func(n int) Limits
		most   int
		module func(n int) []byte
	}{
		{"module", func(n int) Limits { return Limits{Module: n} }, 4000, func(n int) []byte {
			b := guard(nil)
			return append(b, assemble.Section(0, append(assemble.Name(""), make([]byte, n-len(b)-4)...))...)
		}},
		{"body", func(n int) Limits { return Limits{Body: n} }, 1000, func(n int) []byte { return body(":", "", assemble.Repeat(n-2, I("nop"))) }},
		{"locals", func(n int) Limits { return Limits{Locals: n} }, 300, func(n int) []byte { return body("iI:", strings.Repeat("f", n-2)) }},
		{"functions", func(n int) Limits { return Limits{Functions: n} }, 200, func(n int) []byte { return many(n-1, func(m *assemble.Module) { m.Func(":", "") }) }},
		{"types", func(n int) Limits { return Limits{Types: n} }, 100, func(n int) []byte { return many(n-1, func(m *assemble.Module) { m.NewType(":") }) }},
		{"parameters", func(n int) Limits { return Limits{Values: n} }, 20, func(n int) []byte {
			return guard(func(m *assemble.Module) { m.NewType(strings.Repeat("i", n) + ":") })
		}},
		{"results", func(n int) Limits { return Limits{Values: n} }, 20, func(n int) []byte {
			return guard(func(m *assemble.Module) { m.NewType(":" + strings.Repeat("i", n)) })
		}},
		{"nesting", func(n int) Limits { return Limits{Nesting: n} }, 50, func(n int) []byte {
			return body(":", "", assemble.Repeat(n, I("block")), assemble.Repeat(n, I("end")))
		}},
		{"table", func(n int) Limits { return Limits{Table: n} }, 300, func(n int) []byte {
			return guard(func(m *assemble.Module) { m.Table('r', int64(n), -1) })
		}},
		{"memory", func(n int) Limits { return Limits{Memory: int64(n) << 16} }, 7, func(n int) []byte {
			return guard(func(m *assemble.Module) { m.Memory(int64(n), -1); m.Export("memory", assemble.Memory, 0) })
		}},
		{"globals", func(n int) Limits { return Limits{Globals: n} }, 100, func(n int) []byte {
			return many(n, func(m *assemble.Module) { m.Global('i', true, I("i32.const", 0)) })
		}},
		{"data segments", func(n int) Limits { return Limits{Segments: n} }, 100, func(n int) []byte {
			return many(n, func(m *assemble.Module) { m.PassiveData("x") })
		}},
		{"announced data segments", func(n int) Limits { return Limits{Segments: n} }, 100, func(n int) []byte {
			return guard(func(m *assemble.Module) {
				m.Count = true
				for range n {
					m.PassiveData("x")
				}
			})
		}},
		{"element segments", func(n int) Limits { return Limits{Segments: n} }, 100, func(n int) []byte {
			return many(n, func(m *assemble.Module) { m.Elem(op(1, 0, 0)) })
		}},
		{"elements", func(n int) Limits { return Limits{Table: n} }, 100, func(n int) []byte {
			return guard(func(m *assemble.Module) { m.Elem(op(1, 0), assemble.Vec(slices.Repeat([][]byte{op(0)}, n)...)) })
		}},
		{"exports", func(n int) Limits { return Limits{Exports: n} }, 60, func(n int) []byte {
			return guard(func(m *assemble.Module) {
				for i := range n - 2 {
					m.Export("e"+strings.Repeat("x", i), assemble.Func, 0)
				}
			})
		}},
		{"imports", func(n int) Limits { return Limits{Exports: n} }, 60, func(n int) []byte {
			return many(n, func(m *assemble.Module) { m.Import("m", "f", ":") })
		}},
		{"custom sections", func(n int) Limits { return Limits{Exports: n} }, 60, func(n int) []byte {
			return many(n, func(m *assemble.Module) { m.Custom = append(m.Custom, [2]string{"c", ""}) })
		}},
		{"names", func(n int) Limits { return Limits{Name: n} }, 60, func(n int) []byte {
			return guard(func(m *assemble.Module) { m.Import(strings.Repeat("m", n), "f", ":") })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := tc.limits(tc.most)
			if _, _, err := Meter(tc.module(tc.most), l); err != nil {
				t.Errorf("%d: %v", tc.most, err)
			}
			if _, _, err := Meter(tc.module(tc.most+1), l); err == nil {
				t.Errorf("%d is accepted", tc.most+1)
			}
		})
	}
}

// Small modules that would make validation or the engine do much are refused
// while they are read.
func TestLaboriousModules(t *testing.T) {
	wide := strings.Repeat("i", 100)
	for name, module := range map[string][]byte{
		// Unreachable code gives values for nothing.
		"calls": guard(func(m *assemble.Module) {
			f := m.Func(wide+":"+wide, "", I("unreachable"))
			for range 3 {
				m.Func(":", "", I("unreachable"), assemble.Repeat(400_000, I("call", int64(f))), I("return"))
			}
		}),
		"labels": guard(func(m *assemble.Module) {
			t := m.Type(":" + wide)
			for range 3 {
				m.Func(":", "", I("block", int64(t)), I("unreachable"), I("br_table", make([]int64, 500_000)...), I("end"), assemble.Repeat(100, I("drop")))
			}
		}),
		"locals": guard(func(m *assemble.Module) {
			for range 2000 {
				m.FuncRaw(":", slices.Concat(op(1), assemble.U(2000), op(0x7f, 0x0b)))
			}
		}),
		// Metering makes ten bytes of one.
		"loops": guard(func(m *assemble.Module) {
			for range 14 {
				m.Func(":", "", assemble.Repeat(300_000, I("loop"), I("end")))
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			out, info, err := Meter(module, Limits{})
			if err == nil || out != nil || info != nil {
				t.Fatalf("%d bytes are accepted", len(module))
			}
			if !slices.ContainsFunc([]string{"laborious", "locals in all", "when it is metered"}, func(s string) bool { return strings.Contains(err.Error(), s) }) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Everything in a module is in its Info.
func TestInfo(t *testing.T) {
	m := &assemble.Module{Count: true, Custom: [][2]string{{"name", "\x00"}, {"producers", "x"}}}
	m.Import("guardproxy", "get", "iiii:i")
	m.Import("wasi_snapshot_preview1", "proc_exit", "i:")
	check := m.Func(":i", "", I("i32.const", 1))
	start := m.Func(":", "", assemble.Repeat(100, I("nop")))
	m.Table('r', 3, 10)
	m.Table('x', 1, -1)
	m.Memory(2, 5)
	m.Global('i', false, I("i32.const", 1))
	m.Global('i', true, I("i32.const", 1))
	m.Global('F', true, I("f64.const", 1))
	m.Data(0, "hello")
	m.PassiveData("!")
	m.Start(start)
	m.Export("memory", assemble.Memory, 0)
	m.Export("guard_check_v1", assemble.Func, check)
	m.Export("_initialize", assemble.Func, start)
	m.Export("g", assemble.Global, 2)
	m.Export("t", assemble.Table, 0)
	b := m.Bytes()
	got, err := Vet(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	i32 := []ValueType{I32}
	want := &Info{
		SHA256: sha256.Sum256(b), Profile: Reactor, Size: len(b),
		Imports: []Import{
			{KindFunc, "guardproxy", "get", FuncType{[]ValueType{I32, I32, I32, I32}, i32}},
			{KindFunc, "wasi_snapshot_preview1", "proc_exit", FuncType{Params: i32, Results: []ValueType{}}},
		},
		Exports: []Export{
			{"memory", KindMemory, FuncType{}},
			{"guard_check_v1", KindFunc, FuncType{[]ValueType{}, i32}},
			{"_initialize", KindFunc, FuncType{[]ValueType{}, []ValueType{}}},
			{"g", KindGlobal, FuncType{}},
			{"t", KindTable, FuncType{}},
		},
		Functions: 2, Code: 2 + 4 + 102, LargestFn: 102, Globals: 3,
		Tables:    []Table{{FuncRef, 3, 10}, {ExternRef, 1, 1<<32 - 1}},
		MemoryMin: 2, MemoryMax: 5, DataSize: 6,
		Start: true, HasInit: true,
		MutableGlobals: []uint32{1, 2}, Resettable: true,
		Custom: []string{"name", "producers"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestResettable(t *testing.T) {
	three := cat(I("i32.const", 0), I("i32.const", 0), I("i32.const", 0))
	with := func(code ...[]byte) []byte {
		return guard(func(m *assemble.Module) {
			m.Count = true
			m.PassiveData("x")
			m.Table('r', 1, 1)
			m.Elem(op(1, 0, 0))
			m.Func(":", "", code...)
		})
	}
	for _, tc := range []struct {
		name   string
		module []byte
		why    string // "" for a module that can be put back
	}{
		{"plain", guard(nil), ""},
		{"reads a table", with(I("i32.const", 0), I("table.get", 0), I("drop"), I("table.size", 0), I("drop")), ""},
		{"calls through a table", with(I("i32.const", 0), I("call_indirect", 0, 0)), ""},
		{"memory.init", with(three, I("memory.init", 0)), ""},
		{"memory.grow", with(I("i32.const", 0), I("memory.grow"), I("drop")), ""},
		{"mutable numbers", guard(func(m *assemble.Module) {
			m.Global('I', true, I("i64.const", 0))
			m.Global('f', true, I("f32.const", 0))
		}), ""},
		{"constant reference", guard(func(m *assemble.Module) { m.Global('r', false, I("ref.null", 0x70)) }), ""},
		{"mutable reference", guard(func(m *assemble.Module) { m.Global('r', true, I("ref.null", 0x70)) }), "funcref"},
		{"mutable vector", guard(func(m *assemble.Module) { m.Global('v', true, append(op(0xfd, 12), make([]byte, 16)...)) }), "v128"},
		{"table.set", with(I("i32.const", 0), I("ref.null", 0x70), I("table.set", 0)), "table.set"},
		{"table.grow", with(I("ref.null", 0x70), I("i32.const", 0), I("table.grow", 0), I("drop")), "table.grow"},
		{"table.fill", with(I("i32.const", 0), I("ref.null", 0x70), I("i32.const", 0), I("table.fill", 0)), "table.fill"},
		{"table.copy", with(three, I("table.copy", 0, 0)), "table.copy"},
		{"table.init", with(three, I("table.init", 0, 0)), "table.init"},
		{"data.drop", with(I("data.drop", 0)), "data.drop"},
		{"elem.drop", with(I("elem.drop", 0)), "elem.drop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info, err := Vet(tc.module, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if info.Resettable != (tc.why == "") || !strings.Contains(info.NotResettable, tc.why) {
				t.Errorf("resettable %v, %q", info.Resettable, info.NotResettable)
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	command := func(more string) []byte {
		m := &assemble.Module{}
		m.Memory(1, 1)
		m.Export("memory", assemble.Memory, 0)
		m.Export("_start", assemble.Func, m.Func(":", ""))
		if more != "" {
			m.Export(more, assemble.Func, m.Func(":i", "", I("i32.const", 1)))
		}
		return m.Bytes()
	}
	for _, tc := range []struct {
		more string
		want Profile
	}{{"", Command}, {"guard_check_v1", Reactor}, {"other", Command}} {
		info, err := Vet(command(tc.more), Limits{})
		if err != nil || info.Profile != tc.want {
			t.Errorf("%q: %v, %v", tc.more, info, err)
		}
	}
}

// Whatever is cut off or changed in a module: if it is accepted, the engine
// takes it, as it is and metered, and metering it twice gives the same bytes.
func TestDamagedModules(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.wasm")
	if err != nil || len(files) == 0 {
		t.Fatal("no modules", err)
	}
	accepted, refused := 0, 0
	for _, file := range files {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(good) > 400 {
			continue
		}
		r := engineForFuzz(t)
		for i := range good {
			for _, m := range [][]byte{good[:i], change(good, i, 0x41), change(good, i, 0x01), change(good, i, 0x80)} {
				if consistent(t, r, m) {
					accepted++
				} else {
					refused++
				}
			}
		}
		r.Close(t.Context())
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted < 100 || refused < 1000 {
		t.Error("the changes are not what they should be")
	}
}

func change(b []byte, i int, x byte) []byte {
	b = bytes.Clone(b)
	b[i] ^= x
	return b
}

// engineForFuzz validates and does not optimise.
func engineForFuzz(t testing.TB) wazero.Runtime {
	return wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures).WithDebugInfoEnabled(false))
}

// consistent says whether a module is accepted, and checks what that promises.
func consistent(t testing.TB, r wazero.Runtime, b []byte) bool {
	t.Helper()
	before := bytes.Clone(b)
	out, err := meterAny(b, Limits{}.withDefaults())
	if !bytes.Equal(before, b) {
		t.Fatalf("it changes its input")
	}
	if err != nil {
		if _, _, err := Meter(b, Limits{}); err == nil {
			t.Fatalf("Meter accepts what does not decode")
		}
		return false
	}
	if again, _ := meterAny(b, Limits{}.withDefaults()); !bytes.Equal(out, again) {
		t.Fatalf("metering it twice gives different modules\n%x", b)
	}
	for _, m := range []struct {
		name string
		b    []byte
	}{{"as it is", withoutCustom(b)}, {"metered", out}} {
		c, err := r.CompileModule(t.Context(), m.b)
		if err != nil {
			t.Fatalf("the engine refuses it %s: %v\n%x", m.name, err, b)
		}
		c.Close(t.Context())
	}
	if err := validate(out, Limits{Module: 1 << 30, Body: 1 << 30, Functions: 1 << 20, Types: 1 << 20, Globals: 1 << 20, Exports: 1 << 20, Locals: 1 << 20}.withDefaults()); err != nil {
		t.Fatalf("the metered module is not valid: %v\n%x", err, b)
	}
	if _, err := Vet(out, Limits{}); err == nil {
		t.Fatalf("a metered module is accepted as a guard")
	}
	return true
}

// withoutCustom removes custom sections, in a module that was accepted. The
// engine looks into one of them and refuses what it does not like there, though
// by the specification their content has no meaning.
func withoutCustom(b []byte) []byte {
	out := []byte(assemble.Header)
	for r := (&reader{b, len(assemble.Header), len(b)}); !r.done(); {
		start := r.at
		id := r.byte()
		r.part(r.u32())
		if id != secCustom {
			out = append(out, b[start:r.at]...)
		}
	}
	return out
}
