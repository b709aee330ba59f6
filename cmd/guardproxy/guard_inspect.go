package main

import (
	"bytes"
	"fmt"

	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/guards/wasm/meter"
)

type guardInspectCmd struct {
	moduleArg
	JSON bool `name:"json" help:"Print one JSON object instead of the list."`
}

func (guardInspectCmd) Help() string {
	return `Vets the module as loading does, and shows its profile, size, hash, imports,
exports, memory and tables, beside the limits that hold for them. Nothing of it
is compiled or run.

--json prints guard, sha256, profile, bytes, limit_bytes, memory_bytes,
limit_memory_bytes, max_memory_bytes, functions, code_bytes,
largest_function_bytes, data_bytes, globals, mutable_globals, tables (min, max),
start, config, imports and exports (name, kind, type), custom_sections,
resettable, not_resettable.

Exit codes: 0 a module that may be loaded, 2 usage, 3 a module that is refused,
or that can't be read; the reason is on stderr.`
}

// inspected is the JSON of --json.
type inspected struct {
	Guard            string           `json:"guard"`
	SHA256           string           `json:"sha256"`
	Profile          string           `json:"profile"`
	Bytes            int              `json:"bytes"`
	LimitBytes       int              `json:"limit_bytes"`
	MemoryBytes      uint64           `json:"memory_bytes"`
	LimitMemoryBytes uint64           `json:"limit_memory_bytes"`
	MaxMemoryBytes   uint64           `json:"max_memory_bytes"`
	Functions        int              `json:"functions"`
	CodeBytes        int              `json:"code_bytes"`
	LargestFunction  int              `json:"largest_function_bytes"`
	DataBytes        int              `json:"data_bytes"`
	Globals          int              `json:"globals"`
	MutableGlobals   int              `json:"mutable_globals"`
	Tables           []inspectedTable `json:"tables"`
	Start            bool             `json:"start"`
	Config           bool             `json:"config"`
	Imports          []inspectedName  `json:"imports"`
	Exports          []inspectedName  `json:"exports"`
	Custom           []string         `json:"custom_sections"`
	Resettable       bool             `json:"resettable"`
	NotResettable    string           `json:"not_resettable,omitempty"`
}

type inspectedTable struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

type inspectedName struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Type string `json:"type,omitempty"`
}

const wasmPage = 64 << 10

func (c *guardInspectCmd) Run(std stdio) error {
	m, err := c.read()
	if err != nil {
		return err
	}
	info, err := meter.Vet(m.bytes, meter.Limits{})
	if err != nil {
		return withCode(exitInput, fmt.Errorf("guard %s: %w", m.name, err))
	}
	r := inspected{
		Guard: m.name, SHA256: fmt.Sprintf("%x", info.SHA256), Profile: string(info.Profile), Bytes: info.Size, LimitBytes: wasm.MaxModule,
		MemoryBytes: uint64(info.MemoryMin) * wasmPage, LimitMemoryBytes: wasm.DefaultMemory, MaxMemoryBytes: uint64(info.MemoryMax) * wasmPage,
		Functions: info.Functions, CodeBytes: info.Code, LargestFunction: info.LargestFn, DataBytes: info.DataSize,
		Globals: info.Globals, MutableGlobals: len(info.MutableGlobals), Start: info.Start || info.HasInit, Config: info.HasConfig,
		Tables: []inspectedTable{}, Imports: []inspectedName{}, Exports: []inspectedName{}, Custom: append([]string{}, info.Custom...),
		Resettable: info.Resettable, NotResettable: info.NotResettable,
	}
	for _, t := range info.Tables {
		r.Tables = append(r.Tables, inspectedTable{t.Min, t.Max})
	}
	for _, i := range info.Imports {
		r.Imports = append(r.Imports, inspectedName{i.Module + "." + i.Name, string(i.Kind), i.Type.String()})
	}
	for _, e := range info.Exports {
		n := inspectedName{Name: e.Name, Kind: string(e.Kind)}
		if e.Kind == meter.KindFunc {
			n.Type = e.Type.String()
		}
		r.Exports = append(r.Exports, n)
	}
	if c.JSON {
		return printJSON(std.out, r)
	}
	var b bytes.Buffer
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintf(&b, "guard     %s\nsha256    %s\nprofile   %s\nsize      %d bytes, at most %d\n", shown(r.Guard), r.SHA256, r.Profile, r.Bytes, r.LimitBytes)
	fmt.Fprintf(&b, "memory    %d bytes to start, at most %d\ncode      %s, %d bytes, the largest %d\n", r.MemoryBytes, r.LimitMemoryBytes, counted(r.Functions, "function"), r.CodeBytes, r.LargestFunction)
	fmt.Fprintf(&b, "data      %s, %s, %d of them mutable, %s\n", counted(r.DataBytes, "byte"), counted(r.Globals, "global"), r.MutableGlobals, counted(len(r.Tables), "table"))
	fmt.Fprintf(&b, "starts    %s\nconfig    checked by the guard: %s\n", yes[r.Start], yes[r.Config])
	if r.Resettable {
		fmt.Fprintf(&b, "reset     yes: instances are used again, put back to their first state\n")
	} else {
		fmt.Fprintf(&b, "reset     no, every call gets a fresh instance: %s\n", shown(r.NotResettable))
	}
	for _, n := range r.Imports {
		fmt.Fprintf(&b, "import    %s %s\n", shown(n.Name), n.Type)
	}
	for _, n := range r.Exports {
		fmt.Fprintf(&b, "export    %s %s%s\n", shown(n.Name), n.Kind, map[bool]string{true: " " + n.Type}[n.Type != ""])
	}
	_, err = std.out.Write(b.Bytes())
	return err
}
