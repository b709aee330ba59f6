package meter

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

// host is what a metered module needs of a host: the smallest one that can
// tell why it stopped a guest.
type host struct {
	left          int64 // budget
	granted, used int64
	deepest       int64 // the lowest that the counter was
	why           error
}

var (
	errFuel  = errors.New("out of fuel")
	errStack = errors.New("out of stack")
)

const coreFeatures = api.CoreFeaturesV2

const slice = 100_000

func (h *host) refill(m api.Module) {
	if int64(m.ExportedGlobal(StackExport).Get()) < 0 {
		h.why = errStack
		panic(errStack)
	}
	fuel := m.ExportedGlobal(FuelExport).(api.MutableGlobal)
	now := int64(fuel.Get())
	h.deepest = min(h.deepest, now)
	grant := max(slice, -now)
	if grant > h.left {
		h.why = errFuel
		panic(errFuel)
	}
	h.left -= grant
	h.granted += grant
	fuel.Set(uint64(now + grant))
}

func (h *host) offer(ctx context.Context, r wazero.Runtime) error {
	_, err := r.NewHostModuleBuilder(HostModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, _ []uint64) { h.refill(m) }), nil, nil).
		Export(RefillImport).Instantiate(ctx)
	return err
}

func runtimeConfig() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().WithCoreFeatures(coreFeatures).WithDebugInfoEnabled(false)
}

// instantiate starts a module with nothing but the meter's host behind it.
func instantiate(t testing.TB, h *host, b []byte) api.Module {
	t.Helper()
	m, done, err := start(t.Context(), h, b)
	t.Cleanup(done)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// start instantiates a module; done frees it.
func start(ctx context.Context, h *host, b []byte) (m api.Module, done func(), err error) {
	return startWith(ctx, runtimeConfig(), h, b)
}

func startWith(ctx context.Context, c wazero.RuntimeConfig, h *host, b []byte) (m api.Module, done func(), err error) {
	r := wazero.NewRuntimeWithConfig(ctx, c)
	done = func() { r.Close(ctx) }
	if err = h.offer(ctx, r); err == nil {
		m, err = r.InstantiateWithConfig(ctx, b, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	}
	return m, done, err
}

// Every module of the host's tests that loads is metered, and the engine takes
// the result.
func TestEngineTakesMeteredModules(t *testing.T) {
	for _, file := range []string{
		"../testdata/pass.wasm", "../testdata/deny.wasm", "../testdata/loop.wasm", "../testdata/recurse.wasm", "../testdata/counter.wasm",
		"../../examples/no-root-delete/no-root-delete.wasm",
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := Meter(b, Limits{})
		if err != nil {
			t.Fatal(file, err)
		}
		r := wazero.NewRuntimeWithConfig(t.Context(), runtimeConfig())
		if _, err := r.CompileModule(t.Context(), out); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		r.Close(t.Context())
	}
}

// I is an instruction.
var I = assemble.I
