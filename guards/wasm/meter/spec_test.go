package meter

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/guardproxy/guardproxy/internal/machine"
)

// The official test suite of the core specification, as the engine's module
// carries it: scripts that load modules, call their functions and say what
// comes out, and modules that must be refused. Nothing of it is kept here.
//
// Each script runs twice, in step: with the modules as they are, and with the
// same modules metered. Every call must give the same results or the same trap.

// specSuite is the directory of the suite.
func specSuite(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), "internal/integration_test/spectest")
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		machine.Lacks(t, "spec-suite", "the engine's module with the specification's test suite is not here: %v", err)
	}
	return dir
}

type specScript struct {
	Commands []specCommand `json:"commands"`
}

type specCommand struct {
	Type       string     `json:"type"`
	Line       int        `json:"line"`
	Name       string     `json:"name"`
	As         string     `json:"as"`
	Filename   string     `json:"filename"`
	ModuleType string     `json:"module_type"`
	Text       string     `json:"text"`
	Action     specAction `json:"action"`
}

type specAction struct {
	Type   string      `json:"type"`
	Module string      `json:"module"`
	Field  string      `json:"field"`
	Args   []specValue `json:"args"`
}

type specValue struct {
	Type  string          `json:"type"`
	Lane  string          `json:"lane_type"`
	Value json.RawMessage `json:"value"`
}

func (v specValue) encode(t *testing.T) []uint64 {
	if v.Type == "v128" {
		var lanes []string
		if err := json.Unmarshal(v.Value, &lanes); err != nil {
			t.Fatal(err)
		}
		var out [2]uint64
		width := 128 / len(lanes)
		for i, s := range lanes {
			out[i*width/64] |= parseNumber(t, s) << (i * width % 64)
		}
		return out[:]
	}
	var s string
	if err := json.Unmarshal(v.Value, &s); err != nil {
		t.Fatal(err)
	}
	switch {
	case s == "null":
		return []uint64{0}
	case v.Type == "externref":
		return []uint64{parseNumber(t, s) + 1} // the engine takes 0 for null
	}
	return []uint64{parseNumber(t, s)}
}

func parseNumber(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// specSide is one of the two runs of a script.
type specSide struct {
	runtime wazero.Runtime
	modules map[string]api.Module
	last    api.Module
	host    *host
}

func newSpecSide(t *testing.T, spectest []byte) *specSide {
	ctx := t.Context()
	s := &specSide{runtime: wazero.NewRuntimeWithConfig(ctx, runtimeConfig()), modules: map[string]api.Module{}, host: &host{}}
	t.Cleanup(func() { s.runtime.Close(ctx) })
	if err := s.host.offer(ctx, s.runtime); err != nil {
		t.Fatal(err)
	}
	if _, err := s.runtime.InstantiateWithConfig(ctx, spectest, wazero.NewModuleConfig().WithName("spectest")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *specSide) load(ctx context.Context, b []byte, c specCommand, as string) error {
	s.host.left = 1 << 40
	m, err := s.runtime.InstantiateWithConfig(ctx, b, wazero.NewModuleConfig().WithName(as))
	if err != nil {
		return err
	}
	if c.Name != "" {
		s.modules[c.Name] = m
	}
	s.last = m
	return nil
}

func (s *specSide) module(name string) api.Module {
	if name == "" {
		return s.last
	}
	return s.modules[name]
}

// act does what an action says. References are told only as null or not: they
// are addresses.
func (s *specSide) act(t *testing.T, a specAction) ([]uint64, error) {
	m := s.module(a.Module)
	if a.Type == "get" {
		return []uint64{m.ExportedGlobal(a.Field).Get()}, nil
	}
	if g, ok := m.ExportedGlobal(StackExport).(api.MutableGlobal); ok { // a trap has left it as it was
		g.Set(uint64(specLimits.Stack))
	}
	s.host.left, s.host.why = 1<<40, nil
	f := m.ExportedFunction(a.Field)
	var args []uint64
	for _, v := range a.Args {
		args = append(args, v.encode(t)...)
	}
	out, err := f.Call(t.Context(), args...)
	i := 0
	for _, typ := range f.Definition().ResultTypes() {
		switch {
		case err != nil:
		case byte(typ) == byte(V128):
			i++
		case byte(typ) == byte(FuncRef) && out[i] != 0:
			out[i] = 1
		}
		i++
	}
	return out, err
}

// specLimits let the suite's modules through that a guard could not have.
var specLimits = Limits{Memory: 1 << 32, Table: 1 << 33}.withDefaults()

// meterAny meters a module that has not the shape of a guard.
func meterAny(b []byte, l Limits) (out []byte, err error) {
	defer catch(&err)
	m := decode(b, l)
	m.checkNames()
	return m.inject(), nil
}

// validate decodes a module that may be metered already.
func validate(b []byte, l Limits) (err error) {
	defer catch(&err)
	decode(b, l)
	return nil
}

func trapOf(err error) string {
	if err == nil {
		return ""
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// wasmError is the trap in an error of instantiation; what else it says has
// function numbers in it.
func wasmError(err error) string {
	if err == nil {
		return ""
	}
	_, s, _ := strings.Cut(trapOf(err), "wasm error: ")
	return s
}

// validSince2 says whether a module that version 1 of the suite refuses is
// valid by version 2: it has several results or tables, or its unreachable
// code has labels of different types.
func validSince2(c specCommand) bool {
	return c.Text == "invalid result arity" || c.Text == "multiple tables" ||
		c.Filename == "unreached-invalid.87.wasm"
}

func TestSpecificationSuite(t *testing.T) {
	root := specSuite(t)
	spectest, err := os.ReadFile(filepath.Join(root, "testdata/spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	var modules, refused, calls, traps int
	for _, version := range []string{"v1", "v2"} {
		scripts, err := filepath.Glob(filepath.Join(root, version, "testdata/*.json"))
		if err != nil || len(scripts) == 0 {
			t.Fatal("the suite has no scripts", err)
		}
		for _, path := range scripts {
			t.Run(version+"/"+strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				var script specScript
				if err := json.Unmarshal(b, &script); err != nil {
					t.Fatal(err)
				}
				stock, metered := newSpecSide(t, spectest), newSpecSide(t, spectest)
				for i, c := range script.Commands {
					var module []byte
					if c.Filename != "" && c.ModuleType != "text" {
						if module, err = os.ReadFile(filepath.Join(filepath.Dir(path), c.Filename)); err != nil {
							t.Fatal(err)
						}
					}
					switch c.Type {
					case "module", "assert_uninstantiable", "assert_unlinkable":
						if module == nil {
							continue
						}
						as := ""
						if next := i + 1; next < len(script.Commands) && script.Commands[next].Type == "register" {
							as = script.Commands[next].As
						}
						out, err := meterAny(module, specLimits)
						if c.Filename == "binary-leb128.81.wasm" && version == "v2" {
							// The one module that is refused though it is valid: see
							// TestRefused, "opcode longer than it need be".
							if err == nil {
								t.Errorf("line %d: %s is accepted", c.Line, c.Filename)
							}
							continue
						}
						if err != nil {
							t.Errorf("line %d: %s is refused: %v", c.Line, c.Filename, err)
							continue
						}
						modules++
						err1, err2 := stock.load(t.Context(), module, c, as), metered.load(t.Context(), out, c, as)
						if (err1 == nil) != (err2 == nil) || wasmError(err1) != wasmError(err2) {
							t.Errorf("line %d: %s: instantiated: %v, metered: %v", c.Line, c.Filename, err1, err2)
						}
					case "assert_invalid", "assert_malformed":
						if module == nil || version == "v1" && validSince2(c) {
							continue
						}
						refused++
						if _, err := meterAny(module, specLimits); err == nil {
							t.Errorf("line %d: %s is accepted, it must not: %s", c.Line, c.Filename, c.Text)
						}
					case "assert_return", "assert_trap", "action":
						calls++
						r1, err1 := stock.act(t, c.Action)
						r2, err2 := metered.act(t, c.Action)
						if err1 != nil {
							traps++
						}
						if trapOf(err1) != trapOf(err2) || !slices.Equal(r1, r2) {
							t.Errorf("line %d: %s gives %v %v, metered %v %v", c.Line, c.Action.Field, r1, err1, r2, err2)
						}
					case "assert_exhaustion":
						calls++
						if _, err := metered.act(t, c.Action); err == nil || metered.host.why != errStack {
							t.Errorf("line %d: %s does not run out of stack: %v", c.Line, c.Action.Field, err)
						}
					case "register":
					default:
						t.Errorf("line %d: %s is not known", c.Line, c.Type)
					}
				}
			})
		}
	}
	t.Logf("%d modules metered, %d refused; %d calls gave the same, %d of them trapped", modules, refused, calls, traps)
	if modules < 1000 || refused < 2000 || calls < 20_000 {
		t.Errorf("the suite has shrunk")
	}
}
