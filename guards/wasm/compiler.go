package wasm

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// exitRefused is the compiler's exit code for a module that the engine does
// not take.
const exitRefused = 3

// exitTime is its exit code when its processor time is up.
const exitTime = 4

// compilerProcess is the whole of a compiler: it takes a module from stdin
// and leaves its machine code in dir. It trusts its parent, and not the
// module: before it reads any of it, it limits itself.
func compilerProcess(dir, bounds string, stdin io.Reader, stderr io.Writer) (code int) {
	l, err := parseCompileLimits(bounds)
	if err == nil {
		err = limitCompiler(l)
	}
	if err != nil {
		fmt.Fprintf(stderr, "limit the compiler: %v\n", err)
		return 1
	}
	debug.SetMemoryLimit(int64(l.memory / 4 * 3)) // collect before the limit is hit
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "%v\n", p)
			code = exitRefused
		}
	}()
	// Metering makes a module larger, by up to a few times.
	module, err := io.ReadAll(io.LimitReader(stdin, 16*MaxModule))
	if err != nil {
		fmt.Fprintf(stderr, "read the module: %v\n", err)
		return 1
	}
	ctx := experimental.WithCompilationWorkers(context.Background(), min(runtime.NumCPU(), 4))
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	// Nothing is closed: the process ends.
	if _, err := wazero.NewRuntimeWithConfig(ctx, engineConfig(cache)).CompileModule(ctx, module); err != nil {
		fmt.Fprintln(stderr, err)
		return exitRefused
	}
	return 0
}
