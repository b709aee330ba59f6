// Package wasm runs guards that are WebAssembly modules: the host of the
// guard/1 contract that docs/guard-abi.md describes, on wazero.
//
// [Load] checks a module's shape, compiles it, and runs it once. [Guard.Check]
// gives every call an instance of its own, so that nothing is carried from
// one call to the next. Every failure of a guest is a denial with its own
// cause.
//
// What bounds a guest today: the size of the module and of its memory, a
// deadline that the engine checks at loop headers and at every call to the
// host, and the number of calls at a time. What nothing bounds yet: the time
// and memory of compilation, single instructions that take long (memory.fill,
// table.grow), and calls that multiply without a loop. A guest that means
// harm can stall the process with these; a faulty one will hardly do so by
// accident. Load only modules whose origin you know.
package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// Defaults and limits.
const (
	MaxModule       = 16 << 20 // bytes of a module
	DefaultDeadline = 250 * time.Millisecond
	// StartDeadline bounds the start of one instance. It is the machine's time
	// and not the call's: a Go guest takes milliseconds to start, many of
	// them on a busy machine, and a call must not be denied for that.
	StartDeadline = 5 * time.Second
	DefaultMemory = 16 << 20 // bytes
)

// Options are an operator's settings for one guard. The zero value is usable.
type Options struct {
	// Name is for errors and logs.
	Name string
	// Config is the guard's configuration as JSON, {} if empty. Guests find
	// it at /config.
	Config json.RawMessage
	// Deadline bounds the judging of one call. Waiting for a slot does not
	// count, nor does the instance's start, which has StartDeadline.
	// DefaultDeadline if zero.
	Deadline time.Duration
	// Memory is the most a guest may have, in bytes, rounded down to pages of
	// 64 KiB. DefaultMemory if zero.
	Memory int64
	// Slots is the number of calls that may run at a time; others wait.
	// runtime.NumCPU() if zero.
	Slots int
	// CacheDir keeps compiled code between runs of the program, if it isn't
	// empty. Whoever can write there can run code as this process: the
	// directory must be private to the user.
	CacheDir string
}

// Guard is a loaded module. It is safe for concurrent use.
type Guard struct {
	opts     Options
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
	slots    chan struct{}
	ready    chan *instance // started, and never called

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

var _ guards.Guard = (*Guard)(nil)

// LoadError says why a module was refused.
type LoadError struct {
	Guard string
	Err   error
	hint  string
}

func (e *LoadError) Error() string {
	name := e.Guard
	if name == "" {
		name = "module"
	}
	return "guard " + name + ": " + e.Err.Error()
}

func (e *LoadError) Unwrap() error { return e.Err }

// Hint says what to do about it; it may be empty.
func (e *LoadError) Hint() string { return e.hint }

const reactorHint = "build a reactor: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared, or --no-entry for wasm-ld, or --crate-type cdylib for rustc"

// Load checks and compiles a guard/1 module and starts one instance of it to
// see that it can start. If the module exports guard_config_v1, that judges
// o.Config. Errors are *LoadError. The module's bytes are not kept.
//
// Each guard has a runtime of its own: limits are a runtime's, and closing
// one guard can't touch the code of another.
func Load(ctx context.Context, module []byte, o Options) (*Guard, error) {
	fail := func(hint, format string, a ...any) (*Guard, error) {
		return nil, &LoadError{o.Name, fmt.Errorf(format, a...), hint}
	}
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	o.Memory = min(o.Memory, 1<<32) / pageSize * pageSize
	if o.Slots <= 0 {
		o.Slots = runtime.NumCPU()
	}
	if len(o.Config) == 0 {
		o.Config = json.RawMessage("{}")
	}
	o.Config = slices.Clone(o.Config)
	if err := new(tape.Tape).Parse(o.Config); err != nil {
		return fail("", "its configuration is not valid JSON: %w", err)
	}
	if len(module) > MaxModule {
		return fail("strip debug information from it", "the module has %d bytes, at most %d are allowed", len(module), MaxModule)
	}
	if !strings.HasPrefix(string(module[:min(4, len(module))]), "\x00asm") {
		return fail("a guard is a core WebAssembly module; text (.wat) is converted by wat2wasm", "not a WebAssembly module")
	}

	g := &Guard{opts: o, slots: make(chan struct{}, o.Slots), ready: make(chan *instance, min(2, o.Slots))}
	if err := g.compile(ctx, module); err != nil {
		return fail("", "%w", err)
	}
	if hint, err := checkShape(g.compiled, uint64(o.Memory)); err != nil {
		g.release()
		return fail(hint, "%w", err)
	}
	if hint, err := g.rehearse(ctx); err != nil {
		g.release()
		return fail(hint, "%w", err)
	}
	return g, nil
}

// compile makes the runtime with everything that a guest may import, and
// compiles the module in it. A damaged file in the cache directory can make
// the engine fail or panic, so it is tried again without.
func (g *Guard) compile(ctx context.Context, module []byte) (err error) {
	if g.opts.CacheDir != "" {
		if g.cache, err = openCache(g.opts.CacheDir); err != nil {
			return err
		}
		if g.tryCompile(ctx, module) == nil {
			return nil
		}
		g.release()
		g.cache = nil
	}
	if err = g.tryCompile(ctx, module); err != nil {
		g.release()
	}
	return err
}

func (g *Guard) tryCompile(ctx context.Context, module []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine failed: %v", p)
		}
	}()
	// Features: WebAssembly 2.0. Threads, tail calls, exceptions and 64-bit
	// memories are no part of it.
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithCloseOnContextDone(true).
		WithDebugInfoEnabled(false)
	if g.cache != nil {
		config = config.WithCompilationCache(g.cache)
	}
	g.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := instantiate(ctx, g.runtime, wasiModule, wasiFuncs); err != nil {
		return err
	}
	if err := instantiate(ctx, g.runtime, guardModule, guardFuncs); err != nil {
		return err
	}
	g.compiled, err = g.runtime.CompileModule(ctx, module)
	return err
}

// Names of exports.
const (
	exportCheck  = "guard_check_v1"
	exportConfig = "guard_config_v1"
	exportInit   = "_initialize"
	exportStart  = "_start"
	exportMemory = "memory"
)

// checkShape holds a module against the contract.
func checkShape(m wazero.CompiledModule, memory uint64) (hint string, err error) {
	exports := m.ExportedFunctions()
	if exports[exportCheck] == nil {
		switch {
		case exports[exportStart] != nil:
			return reactorHint, fmt.Errorf("it is a command (exports %s, not %s), which is not supported", exportStart, exportCheck)
		case exports["guard_check"] != nil:
			return "", fmt.Errorf("it exports guard_check, but the version is part of the name: %s", exportCheck)
		}
		return reactorHint, fmt.Errorf("it does not export %s", exportCheck)
	}
	for name, sig := range map[string]string{exportCheck: ":i", exportConfig: ":i", exportInit: ":"} {
		if f := exports[name]; f != nil && signature(f) != sig {
			return "", fmt.Errorf("its export %s has the type %s, it must be %s", name, spell(signature(f)), spell(sig))
		}
	}
	for _, f := range m.ImportedFunctions() {
		module, name, _ := f.Import()
		offered := map[string]map[string]hostFunc{guardModule: guardFuncs, wasiModule: wasiFuncs}[module]
		want, ok := offered[name]
		if !ok {
			return "a guard may import get, reason and note of " + guardModule + ", and " + wasiModule,
				fmt.Errorf("it imports %s.%s, which does not exist", module, name)
		}
		if signature(f) != want.sig {
			return "", fmt.Errorf("it imports %s.%s with the type %s, it is %s", module, name, spell(signature(f)), spell(want.sig))
		}
	}
	if len(m.ImportedMemories()) > 0 {
		return "a guard's memory is its own: export it", errors.New("it imports a memory")
	}
	memories := m.ExportedMemories()
	mem := memories[exportMemory]
	if mem == nil || len(memories) != 1 {
		names := slices.Sorted(maps.Keys(memories))
		return "", fmt.Errorf("it must export one memory, named %s; it exports %d %q", exportMemory, len(names), names)
	}
	if need := uint64(mem.Min()) * pageSize; need > memory {
		return "raise wasm.memory, or build the guard with less initial memory",
			fmt.Errorf("it needs %d bytes of memory to start, %d are allowed", need, memory)
	}
	return "", nil
}

// signature writes a function's type as hostFunc.sig has it; a type other
// than i32 and i64 is "?".
func signature(f api.FunctionDefinition) string {
	var b strings.Builder
	add := func(ts []api.ValueType) {
		for _, t := range ts {
			switch t {
			case api.ValueTypeI32:
				b.WriteByte('i')
			case api.ValueTypeI64:
				b.WriteByte('I')
			default:
				b.WriteByte('?')
			}
		}
	}
	add(f.ParamTypes())
	b.WriteByte(':')
	add(f.ResultTypes())
	return b.String()
}

// spell writes a signature for people.
func spell(sig string) string {
	list := func(s string) string {
		var names []string
		for _, c := range s {
			names = append(names, map[rune]string{'i': "i32", 'I': "i64", '?': "other"}[c])
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	params, results, _ := strings.Cut(sig, ":")
	return list(params) + " -> " + list(results)
}

// rehearse starts an instance and lets it judge its configuration, so that a
// guard that would deny every call is found now.
func (g *Guard) rehearse(ctx context.Context) (hint string, err error) {
	doc := []byte(`{"abi":"guard/1","config":` + string(compact(g.opts.Config)) + `}`)
	v := g.run(ctx, doc, exportConfig)
	switch {
	case v.Decision == guards.Pass:
		return "", nil
	case v.Cause == guards.CausePolicy:
		if v.Reason == "" {
			v.Reason = "(it gave no reason)"
		}
		return "change guards[].config", fmt.Errorf("it refuses its configuration: %s", v.Reason)
	}
	return "", fmt.Errorf("it does not start: %s: %s", v.Cause, v.Detail)
}

// Check judges one call in a fresh instance. If all slots are taken it waits
// for one until ctx ends.
func (g *Guard) Check(ctx context.Context, c *guards.Call) guards.Verdict {
	doc := c.Document(g.opts.Config)
	switch {
	case doc == nil:
		return guards.Fault(guards.CauseInputInvalid, "the arguments are not valid JSON")
	case len(doc) > guards.MaxInput:
		return guards.Fault(guards.CauseInputTooLarge, fmt.Sprintf("the document has %d bytes, at most %d are judged", len(doc), guards.MaxInput))
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		cause := guards.CauseCanceled
		if ctx.Err() == context.DeadlineExceeded {
			cause = guards.CauseDeadline
		}
		return guards.Fault(cause, "while waiting for a free slot")
	}
	return g.run(ctx, doc, exportCheck)
}

// run calls one export of a fresh instance and takes its verdict. An absent
// export passes; only guard_config_v1 can be absent.
func (g *Guard) run(ctx context.Context, doc []byte, export string) (v guards.Verdict) {
	if !g.enter() {
		return guards.Fault(guards.CauseLoad, "the guard is closed")
	}
	defer g.calls.Done()

	var in *instance
	select {
	case in = <-g.ready:
	default:
		in = &instance{c: &call{memLimit: uint64(g.opts.Memory)}}
	}
	c := in.c
	defer func() {
		if p := recover(); p != nil {
			v = guards.Fault(guards.CausePanic, c.detail(fmt.Sprint(p)))
		}
	}()
	defer in.close()
	if err := c.doc.parse(doc); err != nil {
		return guards.Fault(guards.CauseInputInvalid, err.Error())
	}
	if in.module == nil {
		start, cancel := context.WithTimeout(ctx, StartDeadline)
		defer cancel()
		if started, err := g.start(start, in); err != nil {
			return guards.Fault(c.cause(start, err, started), c.detail(firstLine(err)))
		}
	}
	ctx, cancel := context.WithTimeout(in.context(ctx), g.opts.Deadline)
	defer cancel()
	result := uint64(1)
	if f := in.module.ExportedFunction(export); f != nil || export != exportConfig {
		var stack [1]uint64
		if err := f.CallWithStack(ctx, stack[:]); err != nil {
			return guards.Fault(c.cause(ctx, err, true), c.detail(firstLine(err)))
		}
		result = stack[0]
	}
	g.prepare()
	v = guards.Verdict{Cause: guards.CausePolicy, Reason: c.reason, Notes: c.notes, Detail: c.detail("")}
	switch uint32(result) {
	case 1:
		v.Cause, v.Reason = "", ""
	case 2:
		v.Decision = guards.Deny
	case 3:
		v.Decision = guards.Ask
	default:
		f := guards.Fault(guards.CauseUnknownVerdict, c.detail(fmt.Sprintf("%s returned %d", export, int32(uint32(result)))))
		f.Notes = c.notes
		return f
	}
	return v
}

// enter counts a use of the runtime, unless the guard is closed. Who gets true
// owes a g.calls.Done.
func (g *Guard) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls.Add(1)
	return true
}

// instance is one instantiation of the module. It judges one call and is
// thrown away, so nothing is carried from one call to the next.
type instance struct {
	module api.Module // nil until it was started
	c      *call
}

// context is what the instance has to be called with: the host functions find
// its state there.
func (in *instance) context(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(context.WithValue(ctx, callKey{}, in.c), in.c)
}

func (in *instance) close() {
	if in.module != nil {
		in.module.Close(context.Background())
	}
}

// start instantiates the module and runs its start functions. They are called
// here rather than by the engine, which takes an exit with code 0 in them for
// success.
func (g *Guard) start(ctx context.Context, in *instance) (started bool, err error) {
	ctx = in.context(ctx)
	m, err := g.runtime.InstantiateModule(ctx, g.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return false, err
	}
	in.module = m
	if f := m.ExportedFunction(exportInit); f != nil {
		if _, err := f.Call(ctx); err != nil {
			return true, err
		}
	}
	return true, nil
}

// prepare starts an instance for a call to come, in the background: starting
// is most of what a call costs. A failure is left to that call to find.
func (g *Guard) prepare() {
	if len(g.ready) == cap(g.ready) || !g.enter() {
		return
	}
	go func() {
		defer g.calls.Done()
		in := &instance{c: &call{memLimit: uint64(g.opts.Memory)}}
		defer func() {
			if p := recover(); p != nil || in != nil {
				in.close()
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), StartDeadline)
		defer cancel()
		if _, err := g.start(ctx, in); err != nil {
			return
		}
		select {
		case g.ready <- in:
			in = nil
		default:
		}
	}()
}

// cause finds out why a guest ended with an error.
func (c *call) cause(ctx context.Context, err error, started bool) guards.Cause {
	var exit *sys.ExitError
	ended := errors.As(err, &exit) && (exit.ExitCode() == sys.ExitCodeDeadlineExceeded || exit.ExitCode() == sys.ExitCodeContextCanceled)
	switch {
	case ended, c.fault == faultDeadline:
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return guards.CauseCanceled
		}
		return guards.CauseDeadline
	case c.memFull: // a guest that can't grow its memory traps, or exits
		return guards.CauseMemory
	case c.fault != "":
		return guards.Cause(c.fault)
	case errors.As(err, &exit):
		return guards.CauseExit
	case !started:
		return guards.CauseLoad
	}
	return guards.CauseTrap
}

// detail is an account for the operator's log: what happened, and what the
// guest wrote to standard error.
func (c *call) detail(what string) string {
	switch c.fault {
	case faultExit:
		what = fmt.Sprintf("exit code %d", c.exitCode)
	case faultMisuse:
		what = "bad arguments for " + c.function
	}
	if len(c.log) == 0 {
		return what
	}
	if what != "" {
		what += "; "
	}
	return what + "stderr: " + strings.ToValidUTF8(string(c.log), "\uFFFD")
}

// firstLine drops the stack trace of an engine's error.
func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// Close waits for the calls in flight and frees the compiled code. Calls that
// come later are denied. It may be called more than once.
func (g *Guard) Close() error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	g.calls.Wait()
	if !first {
		return nil
	}
	return g.release()
}

// release frees the runtime. Nothing may run in it.
func (g *Guard) release() error {
	ctx := context.Background()
	var err error
	if g.runtime != nil {
		err = g.runtime.Close(ctx)
	}
	if g.cache != nil {
		err = errors.Join(err, g.cache.Close(ctx))
	}
	return err
}

// compact removes white space from valid JSON.
func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return []byte("{}")
	}
	return b.Bytes()
}
