// Package meter vets WebAssembly modules that nobody trusts, and gives them a
// fuel counter. It takes bytes and returns bytes.
//
// [Vet] decodes a whole module, validates it as the core specification asks,
// holds it against the shape of a guard/1 module and against [Limits], and
// tells what is in it. [Meter] does the same and then rewrites the module so
// that everything that takes time pays for it: each stretch of straight code,
// each function entry and loop iteration, and memory and table instructions by
// the size that they are called with. A metered module computes the same
// results.
//
// # Fuel
//
// A metered module exports the mutable i64 global [FuelExport] and imports
// the function [RefillImport] of [HostModule], () -> (). The counter starts
// at zero. Code subtracts what it costs, and at each function entry, loop
// iteration and sized instruction, if the counter is below zero, calls the
// host. The host then looks at its clock and its budget, and either adds a
// slice to the global, so that it is zero or more, or stops the guest by a
// panic. So the host knows why it stopped a guest, is asked in regular
// distances, and can do it before and during the start function, too.
//
// One unit is about one instruction, 16 bytes of bulk memory, or 2 table
// entries. A stretch is paid for when it is entered, so a guest may pay for
// code that it then jumps over, and never the other way round.
//
// # Stack
//
// Calls in a recursion are paid from a second global, [StackExport], an
// estimate of the native stack in bytes, which starts at Limits.Stack, and get
// it back when they return. When it is below zero at a function entry, the
// refill function is called, too: the host stops the guest. After a trap its
// value is undefined, as is all of the instance.
//
// # Reset
//
// Every mutable global is exported under a name of [GlobalExport], so that a
// host can put all of an instance's state back: the memory, these globals,
// and nothing else where [Info].Resettable is true.
//
// A guest can't name any of this. Exports and imports whose names begin with
// [Reserved] are refused, and every index in the module is checked against the
// module as it came.
package meter

import (
	"fmt"
	"strings"
)

// Names that metering adds to a module.
const (
	// Reserved begins every name that only metering may use.
	Reserved = "guardproxy:"
	// HostModule is the module of the import that metering adds.
	HostModule = Reserved + "meter"
	// RefillImport is the name of that import, a function () -> ().
	RefillImport = "refill"
	// FuelExport is a mutable i64 global: units left until the next refill.
	FuelExport = Reserved + "fuel"
	// StackExport is a mutable i64 global: bytes of native stack left.
	StackExport = Reserved + "stack"
)

// GlobalExport is the name under which the mutable global with this index is
// exported; Info.MutableGlobals has the indices.
func GlobalExport(index uint32) string { return fmt.Sprintf("%sglobal:%d", Reserved, index) }

// Limits bound a module. A zero field means the default; there is no way to
// say "none".
type Limits struct {
	Module    int   // bytes of the module, 16 MiB
	Memory    int64 // bytes of memory that it may ask for at its start, 16 MiB
	Stack     int   // bytes of native stack, by estimate, 2 MiB
	Body      int   // bytes of one function, 1 MiB
	Locals    int   // parameters and locals of one function, 2,000
	Functions int   // defined functions, 50,000
	Types     int   // function types, 5,000
	Values    int   // parameters, and results, of one type, 100
	Nesting   int   // blocks in blocks, 1,000
	Table     int   // entries of all tables together, 100,000
	Globals   int   // globals, 10,000
	Segments  int   // data and element segments, each, 100,000
	Exports   int   // exports, and imports, each, 5,000
	Name      int   // bytes of one name, 1,000
}

func (l Limits) withDefaults() Limits {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&l.Module, 16<<20)
	if l.Memory <= 0 {
		l.Memory = 16 << 20
	}
	set(&l.Stack, 2<<20)
	set(&l.Body, 1<<20)
	set(&l.Locals, 2000)
	set(&l.Functions, 50_000)
	set(&l.Types, 5_000)
	set(&l.Values, 100)
	set(&l.Nesting, 1000)
	set(&l.Table, 100_000)
	set(&l.Globals, 10_000)
	set(&l.Segments, 100_000)
	set(&l.Exports, 5_000)
	set(&l.Name, 1000)
	return l
}

// Profile is how a host talks to a module.
type Profile string

const (
	// Reactor modules export guard_check_v1, and read their input by get.
	Reactor Profile = "reactor"
	// Command modules export only _start: the input on stdin, the verdict on
	// stdout.
	Command Profile = "command"
)

// Info is what is in a module, as it came. It shares no memory with it.
type Info struct {
	SHA256  [32]byte // of the module as it came
	Profile Profile
	Size    int // bytes

	Imports []Import
	Exports []Export

	Functions int // defined ones
	Code      int // bytes of the code section
	LargestFn int // bytes of the largest function
	Globals   int
	Tables    []Table
	MemoryMin uint32 // pages of 64 KiB
	MemoryMax uint32 // pages; 65,536 when the module names none
	DataSize  int    // bytes of all data segments

	// Start says that a start function runs at instantiation.
	Start bool
	// HasInit and HasConfig say that _initialize and guard_config_v1 are exported.
	HasInit, HasConfig bool

	// MutableGlobals are the indices of the globals that code can change.
	MutableGlobals []uint32
	// Resettable says that memory and MutableGlobals are all of the state
	// that a call can change, so that putting them back is as good as a fresh
	// instance. Where it is false, NotResettable says why.
	Resettable    bool
	NotResettable string

	// Custom are the names of the custom sections; metering drops them.
	Custom []string
}

// Import is something that a module asks for; a guard may ask for functions only.
type Import struct {
	Kind         Kind
	Module, Name string
	Type         FuncType // of a function
}

// Export is something that a module offers.
type Export struct {
	Name string
	Kind Kind
	Type FuncType // of a function
}

// Kind is what an import or export is: func, table, memory or global.
type Kind string

// The kinds of the core specification, 5.5.5 and 5.5.10.
const (
	KindFunc   Kind = "func"
	KindTable  Kind = "table"
	KindMemory Kind = "memory"
	KindGlobal Kind = "global"
)

// Table is a table's element type and limits in entries. Metering caps Max.
type Table struct {
	Type     ValueType
	Min, Max uint32
}

// ValueType is a type as the binary format encodes it.
type ValueType byte

// The value types of the core specification 2.0, 5.3.1 to 5.3.4.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String is the type's name in the text format.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	case unknown:
		return "any"
	}
	return fmt.Sprintf("type %#x", byte(t))
}

// FuncType is a function's type.
type FuncType struct{ Params, Results []ValueType }

// String is the type for people: (i32, i32) -> (i64).
func (t FuncType) String() string {
	list := func(ts []ValueType) string {
		names := make([]string, len(ts))
		for i, t := range ts {
			names[i] = t.String()
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return list(t.Params) + " -> " + list(t.Results)
}

// Error says why a module was refused.
type Error struct {
	// Offset is where in the module, in bytes; -1 when that says nothing.
	Offset int
	msg    string
	hint   string
}

func (e *Error) Error() string {
	if e.Offset < 0 {
		return e.msg
	}
	return fmt.Sprintf("%s (at byte %d)", e.msg, e.Offset)
}

// Hint says what to do about it; it may be empty.
func (e *Error) Hint() string { return e.hint }

// Vet decodes and validates a module and tells what is in it. Errors are
// *Error. The module's bytes are neither changed nor kept.
func Vet(module []byte, l Limits) (*Info, error) {
	m, err := vet(module, l.withDefaults())
	if err != nil {
		return nil, err
	}
	return m.info, nil
}

// Meter vets a module and returns it with its counters injected; the Info is
// of the module as it came. The result is a function of the arguments, bytes
// for bytes. It shares no memory with module.
func Meter(module []byte, l Limits) (metered []byte, info *Info, err error) {
	m, err := vet(module, l.withDefaults())
	if err != nil {
		return nil, nil, err
	}
	defer catch(&err)
	return m.inject(), m.info, nil
}
