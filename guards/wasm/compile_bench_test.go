//go:build unix

package wasm

import (
	"os"
	"testing"

	"github.com/tetratelabs/wazero"
)

// What a start costs: with an empty cache, from the cache, and, beside them,
// what the engine alone takes to compile the same module in this process.
func BenchmarkLoad(b *testing.B) {
	guard, err := os.ReadFile("../examples/no-root-delete/no-root-delete.wasm")
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range []struct {
		name   string
		module []byte
	}{{"small", constant(1)}, {"go", guard}} {
		load := func(b *testing.B, dir string) {
			g, err := Load(b.Context(), m.module, Options{CacheDir: dir})
			if err != nil {
				b.Fatal(err)
			}
			g.Close()
		}
		b.Run(m.name+"/new", func(b *testing.B) {
			for b.Loop() {
				load(b, b.TempDir())
			}
		})
		b.Run(m.name+"/cached", func(b *testing.B) {
			dir := b.TempDir()
			load(b, dir)
			for b.Loop() {
				load(b, dir)
			}
		})
		b.Run(m.name+"/engine-alone", func(b *testing.B) {
			module := metered(b, m.module)
			for b.Loop() {
				r := wazero.NewRuntimeWithConfig(b.Context(), engineConfig(wazero.NewCompilationCache()))
				if _, err := r.CompileModule(b.Context(), module); err != nil {
					b.Fatal(err)
				}
				r.Close(b.Context())
			}
		})
	}
}
