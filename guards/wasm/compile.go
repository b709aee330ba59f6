package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Compilation is the one thing that a module can make expensive before it
// runs: a module of some hundred kilobytes, within all limits, can keep the
// engine's optimiser busy for minutes and take gigabytes. So it is done by a
// child process with limits on its time and memory, which writes machine code
// into a cache directory; this process takes code from there and never
// compiles a module itself.
//
//	Load → look the metered module up in the cache (cache.go)
//	     → absent: start the compiler, which compiles it into the cache (compiler.go)
//	     → load from the cache, with an engine that can't compile (fromCache)
//	     → a failure: delete the entry, and all of it once more

// Limits of the compiler.
const (
	// CompileTime is processor time on Linux, so that a busy machine refuses
	// no guard that an idle one takes; there, a compiler that gets no processor
	// is ended after four times as long. On other systems it is time.
	CompileTime   = 30 * time.Second
	CompileMemory = 1 << 30 // bytes of address space, beside what a process begins with
)

// compileVerb asks an executable whose main calls CompilerMain to be the
// compiler. Behind it stand the directory to write to, and the limits as
// compileLimits writes them.
const compileVerb = "wasm-compile"

// compileLimits bound a compiler.
type compileLimits struct {
	time   time.Duration
	memory uint64
}

var compileBounds = compileLimits{CompileTime, CompileMemory} // tests have smaller ones

func (l compileLimits) String() string {
	return fmt.Sprintf("%dms,%d", l.time.Milliseconds(), l.memory)
}

func parseCompileLimits(s string) (l compileLimits, err error) {
	var ms int64
	if _, err = fmt.Sscanf(s, "%dms,%d", &ms, &l.memory); err == nil && (ms <= 0 || l.memory == 0) {
		err = errors.New("a limit is missing")
	}
	l.time = time.Duration(ms) * time.Millisecond
	return l, err
}

// compilerMain says that this executable can be started as the compiler.
var compilerMain atomic.Bool

// CompilerMain has to be the first statement of main, and of TestMain, in a
// program that loads guards. If this process was started to compile a module,
// it does so and does not return. Otherwise it does nothing but note that this
// executable can be started for that.
func CompilerMain() {
	if len(os.Args) == 4 && os.Args[1] == compileVerb {
		os.Exit(compilerProcess(os.Args[2], os.Args[3], os.Stdin, os.Stderr))
	}
	compilerMain.Store(true)
}

// engineConfig is the engine's configuration, in the compiler and here; what
// is in it decides where the engine looks code up.
//
// Features: WebAssembly 2.0. Threads, tail calls, exceptions and 64-bit
// memories are no part of it. The engine's own check of deadlines is off: it
// is slow, and has holes that fuel has not.
func engineConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).
		WithCompilationCache(cache)
}

// compileError is a refusal with advice.
type compileError struct{ msg, hint string }

func (e *compileError) Error() string { return e.msg }
func (e *compileError) Hint() string  { return e.hint }

// fromCache compiles a module without compiling it: the engine looks for the
// module's code first, and begins to compile with a look at the context, which
// has ended already. If the code is not there, the error is context.Canceled.
func fromCache(ctx context.Context, r wazero.Runtime, module []byte) (wazero.CompiledModule, error) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	// Only workers look at the context; one alone would compile.
	return r.CompileModule(experimental.WithCompilationWorkers(ended, 2), module)
}

// withMachineCode calls use with a cache that has the module's machine code.
// If use fails, the code is made anew, and use is called a second time. The
// cache is the callee's to close, in each of the calls.
func withMachineCode(ctx context.Context, o Options, module []byte, use func(wazero.CompilationCache) error) error {
	dir, err := openCacheDir(o.CacheDir)
	if err != nil {
		return err
	}
	defer dir.close()
	for try := 1; ; try++ {
		entry, err := dir.lookup(module)
		if err != nil {
			if entry, err = dir.add(module, func(into string) error { return compile(ctx, o.Compiler, into, module) }); err != nil {
				return err
			}
		}
		cache, err := wazero.NewCompilationCacheWithDir(entry)
		if err == nil {
			err = use(cache)
		}
		if err == nil {
			dir.prune()
			return nil
		}
		dir.remove(module)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case try < 2:
		case errors.Is(err, context.Canceled):
			return &compileError{"the compiler's result is not what this program looks for", "let Options.Compiler name the same version of the program"}
		default:
			return err
		}
	}
}

// compilers bounds how many run at a time.
var compilers = make(chan struct{}, 2)

// compile runs the compiler on a module; what it makes is in the directory
// into, which must exist.
func compile(ctx context.Context, command []string, into string, module []byte) error {
	argv, err := compilerCommand(command)
	if err != nil {
		return err
	}
	select {
	case compilers <- struct{}{}:
		defer func() { <-compilers }()
	case <-ctx.Done():
		return ctx.Err()
	}
	bounds := compileBounds
	timed, cancel := context.WithTimeout(ctx, waitFactor*bounds.time)
	defer cancel()
	cmd := exec.CommandContext(timed, argv[0], append(argv[1:], compileVerb, into, bounds.String())...)
	cmd.Env = []string{}
	cmd.Stdin = bytes.NewReader(module)
	stderr := &firstBytes{most: 4 << 10}
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second

	// The kernel ends the compiler with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bindToParent(cmd)
	err = cmd.Run()
	said := strings.TrimSpace(stderr.String())
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() != nil, outOfTime(cmd.ProcessState, bounds.time):
		return &compileError{fmt.Sprintf("compiling it takes more than %v", bounds.time), "large functions with many locals and blocks take long: build it with optimisation"}
	case cmd.ProcessState == nil:
		return fmt.Errorf("start the compiler: %w", err)
	case cmd.ProcessState.ExitCode() == exitRefused:
		return &compileError{"the engine refuses it: " + said, ""}
	case strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory") || strings.Contains(said, "failed to allocate"):
		return &compileError{fmt.Sprintf("compiling it takes more than %d MiB of memory", bounds.memory>>20), "large functions with many locals and blocks take much: build it with optimisation"}
	}
	said, _, _ = strings.Cut(said, "\n")
	return fmt.Errorf("the compiler failed: %w: %s", err, said)
}

// compilerCommand is the command to start; it is fresh, to be appended to.
func compilerCommand(command []string) ([]string, error) {
	if len(command) > 0 {
		return append([]string{}, command...), nil
	}
	if !compilerMain.Load() {
		return nil, &compileError{"there is no compiler: guards are compiled in a child process, and this program can't be started as one",
			"call wasm.CompilerMain at the beginning of main and TestMain, or set Options.Compiler to the path of guardproxy"}
	}
	path, err := selfPath()
	if err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	return []string{path}, nil
}

// firstBytes keeps the beginning of what is written.
type firstBytes struct {
	bytes.Buffer
	most int
}

func (b *firstBytes) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}
