package meter

import (
	"bytes"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

// projectModules are all modules in this repository, by path.
func projectModules(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "target"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".wasm"):
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[path] = b
		}
		return nil
	})
	if err != nil || len(out) < 20 {
		t.Fatal("the project's modules are not where they were", err)
	}
	return out
}

// Every module of this repository is either refused with a reason, or metered
// to one that the engine takes.
func TestProjectModules(t *testing.T) {
	metered, refused := 0, 0
	r := engineForFuzz(t)
	defer r.Close(t.Context())
	for path, b := range projectModules(t) {
		if consistent(t, r, b) {
			metered++
		} else {
			refused++
			t.Logf("%s is refused", path)
		}
	}
	t.Logf("%d metered, %d refused", metered, refused)
	if metered < 2*refused {
		t.Error("most of the project's own modules must be accepted")
	}
}

// Modules of the specification's proposals that are no part of guard/1: what
// is accepted is valid without them.
func TestProposals(t *testing.T) {
	root := specSuite(t)
	files, err := filepath.Glob(filepath.Join(root, "*", "testdata", "*.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	r := engineForFuzz(t)
	defer r.Close(t.Context())
	accepted, refused := 0, 0
	for _, path := range files {
		if v := filepath.Base(filepath.Dir(filepath.Dir(path))); v == "v1" || v == "v2" {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if consistent(t, r, b) {
			accepted++
		} else {
			refused++
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if refused < 100 {
		t.Error("the proposals' modules must be refused")
	}
}

// Modules of other toolchains, and those on which engines have failed before:
// the ones that the engine's module carries beside the specification's suite.
func TestOtherToolchains(t *testing.T) {
	root := filepath.Join(specSuite(t), "../../..")
	r := engineForFuzz(t)
	defer r.Close(t.Context())
	accepted := 0
	refused := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".wasm") || strings.Contains(path, "spectest") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if consistent(t, r, b) {
			accepted++
			return nil
		}
		_, err = meterAny(b, Limits{}.withDefaults())
		refused[err.(*Error).msg]++
		if _, err := r.CompileModule(t.Context(), b); err == nil {
			t.Logf("%s, which the engine takes, is refused: %s", filepath.Base(path), refusal(b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d accepted, refused: %v", accepted, refused)
	if accepted < 80 {
		t.Error("too many are refused")
	}
}

func refusal(b []byte) error {
	_, err := meterAny(b, Limits{}.withDefaults())
	return err
}

// For all bytes: no panic; what is accepted, the engine takes, as it is and
// metered; and metering changes nothing but what it says.
func FuzzMeter(f *testing.F) {
	for _, b := range projectModules(f) {
		if len(b) < 4<<10 {
			f.Add(b)
		}
	}
	for _, k := range kernels() {
		f.Add(k.module)
	}
	for _, h := range hostile() {
		if len(h.module) < 4<<10 {
			f.Add(h.module)
		}
	}
	m := &assemble.Module{Count: true}
	m.Import("m", "f", ":")
	m.Import("m", "g", "iI:fF")
	m.Func("v:v", "vxr", I("local.get", 0), op(0xfd, 0x60))
	m.Func("i:iI", "", I("local.get", 0), I("block", int64(m.Type("i:iI"))), I("i64.const", 1), I("end"))
	m.Table('r', 2, 8)
	m.Table('x', 0, -1)
	m.Memory(1, 2)
	m.Global('r', true, I("ref.func", 2))
	m.Elem(op(0), I("i32.const", 0), op(0x0b, 1, 0))
	m.Elem(op(1, 0, 1, 1))
	m.Elem(op(2, 0), I("i32.const", 0), op(0x0b, 0, 1, 2))
	m.Elem(op(3, 0, 1, 3))
	m.Elem(op(4), I("i32.const", 0), op(0x0b, 1, 0xd2, 0, 0x0b))
	m.Elem(op(5, 0x6f, 1, 0xd0, 0x6f, 0x0b))
	m.Elem(op(6, 1), I("i32.const", 0), op(0x0b, 0x6f, 0))
	m.Elem(op(7, 0x70, 1, 0xd2, 3, 0x0b))
	m.PassiveData("x")
	f.Add(m.Bytes())
	r := engineForFuzz(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 64<<10 {
			return
		}
		consistent(t, r, bytes.Clone(b))
	})
}

var mutations = flag.Int("mutations", 2, "how often each module of the specification's suite is changed at random")

// For all modules of the specification's suite, with a byte or two changed: if
// it is accepted, the engine takes it.
func TestMutatedSpecification(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(specSuite(t), "v2", "testdata", "*.wasm"))
	if err != nil || len(files) == 0 {
		t.Fatal("no modules", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	r := engineForFuzz(t)
	defer r.Close(t.Context())
	accepted, refused := 0, 0
	for _, path := range files {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(good) == 0 || len(good) > 16<<10 {
			continue
		}
		for range *mutations {
			b := bytes.Clone(good)
			for range 1 + random.IntN(2) {
				b[random.IntN(len(b))] = byte(random.Uint32())
			}
			if consistent(t, r, b) {
				accepted++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
}
