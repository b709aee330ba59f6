package wasm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guardproxy/guardproxy/guards"
)

// FuzzLoad: whatever bytes are loaded, the loader as a whole (vetting, metering,
// the compiler, the first start) ends within its bounds with a guard or with a
// reason. A guard judges within its fuel, the same call twice in the same way,
// and leaves no memory when it is closed.
func FuzzLoad(f *testing.F) {
	err := filepath.WalkDir("testdata", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".wasm" {
			return err
		}
		b, err := os.ReadFile(path)
		if len(b) < 4<<10 {
			f.Add(b)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(constant(1))
	f.Add(bomb(3, 20))
	compileBounds.time = 5 * time.Second
	f.Cleanup(func() { compileBounds.time = CompileTime })
	const fuel, memory = 1_000_000, 4 << 20
	// Far more than any input takes, on any machine; what is not bounded takes all.
	const patience, heap = 2 * time.Minute, 256 << 20
	c := &guards.Call{Name: "bash", Arguments: []byte(`{"command":"ls /"}`), Shell: &guards.Shell{Argv: [][]string{{"ls", "/"}}}}
	most := int64(fuel + len(c.Document(nil))*FuelPerByte)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 16<<10 {
			return
		}
		held, start, module := reserved.Load(), time.Now(), bytes.Clone(b)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			runtime.ReadMemStats(&after)
			if took := time.Since(start); took > patience {
				t.Errorf("it took %v", took)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > heap {
				t.Errorf("it took %d bytes of this process", n)
			}
			if n := reserved.Load(); n != held {
				t.Errorf("%d bytes of guests are held, before it were %d", n, held)
			}
			if !bytes.Equal(b, module) {
				t.Error("the module was changed")
			}
		}()
		// The fuel is used up long before the deadline, on any machine.
		g, err := Load(t.Context(), b, Options{Name: "g", Deadline: patience, Fuel: fuel, Memory: memory, Slots: 1, CacheDir: CodeDir})
		if err != nil {
			var refused *LoadError
			if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "guard g: ") {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		first := g.Check(t.Context(), c)
		again := g.Check(t.Context(), c)
		if d := cmp.Diff(first, again); d != "" {
			t.Errorf("the same call is judged in another way:\n%s", d)
		}
		if first.Fuel > most || first.Cause == guards.CausePanic || first.Cause == guards.CauseDeadline {
			t.Errorf("%+v", first)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzCacheEntry: whatever has become of an entry's files, looking it up ends
// with code that is the compiler's to the last byte, or with the entry gone, so
// that it is made anew.
func FuzzCacheEntry(f *testing.F) {
	code := bytes.Repeat([]byte("machine code "), 40)
	const dir, file = "wazero-v1-amd64-linux", "0123"
	fill := func(into string) error {
		return errors.Join(os.Mkdir(filepath.Join(into, dir), 0o700), os.WriteFile(filepath.Join(into, dir, file), code, 0o600))
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(code))
	for _, whole := range [][]byte{code, []byte(sum + " " + dir + "/" + file + "\n")} {
		f.Add(0, whole)
		f.Add(1, whole)
		f.Add(2, whole)
		f.Add(0, whole[:len(whole)/2])
		f.Add(1, whole[:len(whole)-1])
		f.Add(1, append(bytes.Clone(whole), '\n'))
	}
	f.Add(1, []byte(sum+" "+dir+"/other\n"))
	f.Add(1, []byte(sum+" "+dir+"/../"+dir+"/"+file+"\n"))
	f.Add(1, []byte(sum+" ../"+file+"\n"))
	f.Add(1, []byte(sum+" /etc/passwd\n"))
	f.Add(1, []byte(sum+"  \x00/x\n"))
	module := []byte("a module")
	f.Fuzz(func(t *testing.T, which int, content []byte) {
		d := &cacheDir{path: t.TempDir()}
		entry, err := d.add(module, fill)
		if err != nil {
			t.Fatal(err)
		}
		// One file is overwritten, or there is one more.
		path := []string{filepath.Join(entry, dir, file), filepath.Join(entry, sumFile), filepath.Join(entry, dir, "other")}[uint(which)%3]
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := d.lookup(module)
		if err != nil {
			if _, err := os.Lstat(entry); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a damaged entry is still there: %v", err)
			}
			return
		}
		if got, err := os.ReadFile(filepath.Join(found, dir, file)); err != nil || !bytes.Equal(got, code) {
			t.Errorf("with %q in %s it finds other code: %v", content, filepath.Base(path), err)
		}
	})
}
