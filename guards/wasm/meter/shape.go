package meter

// The shape of a guard/1 module: what it has to export, and what it may
// import. Which functions a host offers is the host's to know; here only
// functions can be imported, and nothing that metering keeps to itself.

import "strings"

// Names of exports that have a meaning in guard/1.
const (
	ExportCheck  = "guard_check_v1"
	ExportConfig = "guard_config_v1"
	ExportInit   = "_initialize"
	ExportStart  = "_start"
	ExportMemory = "memory"
)

const reactorHint = "build a reactor: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared, or --no-entry for wasm-ld, or --crate-type cdylib for rustc"

// checkNames refuses names that metering keeps to itself.
func (m *module) checkNames() {
	for _, i := range m.info.Imports {
		if strings.HasPrefix(i.Module, Reserved) {
			refuse("", "it imports %s.%s, a name that is reserved", i.Module, i.Name)
		}
	}
	for _, e := range m.info.Exports {
		if strings.HasPrefix(e.Name, Reserved) {
			refuse("", "it exports %s, a name that is reserved", e.Name)
		}
	}
}

func (m *module) checkShape() {
	for _, i := range m.info.Imports {
		switch {
		case i.Kind == KindMemory:
			refuse("a guard's memory is its own: export it", "it imports a memory")
		case i.Kind != KindFunc:
			refuse("a guard may import functions only", "it imports the %s %s.%s", i.Kind, i.Module, i.Name)
		}
	}
	memories := []string{}
	for _, e := range m.info.Exports {
		if e.Kind == KindMemory {
			memories = append(memories, e.Name)
		}
	}
	function := func(name string, result bool) bool {
		e, ok := m.names[name]
		if !ok {
			return false
		}
		want := FuncType{}
		if result {
			want.Results = []ValueType{I32}
		}
		if e.Kind != KindFunc {
			refuse("", "its export %s is a %s, it must be a function", name, e.Kind)
		}
		if !e.Type.equal(want) {
			refuse("", "its export %s has the type %v, it must be %v", name, e.Type, want)
		}
		return true
	}
	check, start := function(ExportCheck, true), function(ExportStart, false)
	m.info.HasConfig = function(ExportConfig, true)
	m.info.HasInit = function(ExportInit, false)
	switch {
	case check:
		m.info.Profile = Reactor
	case start:
		m.info.Profile = Command
	default:
		if e, ok := m.names["guard_check"]; ok && e.Kind == KindFunc {
			refuse("", "it exports guard_check, but the version is part of the name: %s", ExportCheck)
		}
		refuse(reactorHint, "it does not export %s", ExportCheck)
	}
	if len(memories) != 1 || memories[0] != ExportMemory {
		refuse("", "it must export one memory, named %s; it exports %d %q", ExportMemory, len(memories), memories)
	}
}
