// Package wasm runs guards that are WebAssembly modules: the host of the
// guard/1 contract that docs/guard-abi.md describes, on wazero.
//
// [Load] vets and meters a module, has a child process compile it (so main
// begins with [CompilerMain]), and starts it once.
// [Guard.Check] judges a call in an instance whose state is that of a guard
// that was just started and configured: instances are put back after every
// call, or thrown away where that is not enough, so that nothing is carried
// from one call to the next. Every failure of a guest is a denial with its own
// cause.
//
// A guest may mean harm. What it can take is bounded before it runs (the
// module's size and shape, see package meter) and while it runs: memory, fuel,
// native stack, time, and the number of guests at a time.
//
// The files of this package: engine.go holds what calls share, instance.go one
// guest and its way back, compile.go, compiler.go and cache.go how its code is
// made, memory.go the memory, call.go and wasi.go what a guest may import,
// command.go the profile for programs, slots.go who may run when.
package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm/meter"
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

	// DefaultFuel is what a call may burn, in units of package meter, beside
	// FuelPerByte for every byte of its document. A program in Go that parses
	// the document with encoding/json takes up to 800 units a byte, and 1,700
	// where thousands of short commands are in it.
	DefaultFuel = 100_000_000
	FuelPerByte = 1_000
	// StartFuel is what the start of an instance may burn.
	StartFuel = 200_000_000
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
	// Fuel is what one call may burn, beside FuelPerByte. DefaultFuel if zero.
	Fuel int64
	// Slots is the number of calls that may run at a time in this guard; others
	// wait. If zero, three quarters of ProcessSlots, so that no guard can keep
	// all others waiting.
	Slots int
	// Fresh gives every call an instance that is made and started for it,
	// instead of one that was put back to its first state. It is for
	// measuring what the latter saves.
	Fresh bool
	// CacheDir keeps compiled code between runs of the program, if it isn't
	// empty. Whoever can write there can run code as this process: the
	// directory must be private to the user (mode 0700, no symbolic link), or
	// Load refuses it. It is made if it does not exist.
	CacheDir string
	// Compiler is the command that compiles modules in a child process: the
	// path of a program whose main calls [CompilerMain], as guardproxy's does,
	// and arguments. It must be of this program's version. If it is empty, this
	// executable is started again, provided that its main calls CompilerMain;
	// else Load refuses every module. The child has CompileTime, and on Linux
	// CompileMemory; on other systems its memory is not bounded.
	Compiler []string
}

// Guard is a loaded module. It is safe for concurrent use. A Guard that nobody
// refers to any more is closed by the garbage collector.
type Guard struct {
	e *engine
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

// Load vets, meters and compiles a guard/1 module and starts one instance of it
// to see that it can start. If the module exports guard_config_v1, that judges
// o.Config. Errors are *LoadError. The module's bytes are not kept.
//
// Each guard has a runtime of its own: limits are a runtime's, and closing
// one guard can't touch the code of another.
func Load(ctx context.Context, module []byte, o Options) (*Guard, error) {
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	o.Memory = min(o.Memory, 1<<32) / pageSize * pageSize
	if o.Fuel <= 0 {
		o.Fuel = DefaultFuel
	}
	o.Fuel = min(o.Fuel, 1<<60) // room for what the document adds
	if o.Slots <= 0 {
		o.Slots = guardSlots()
	}
	if len(o.Config) == 0 {
		o.Config = json.RawMessage("{}")
	}
	o.Config = slices.Clone(o.Config)
	if err := new(tape.Tape).Parse(o.Config); err != nil {
		return nil, &LoadError{o.Name, fmt.Errorf("its configuration is not valid JSON: %w", err), ""}
	}
	metered, info, err := meter.Meter(module, meter.Limits{Module: MaxModule, Memory: o.Memory})
	if err != nil {
		return nil, &LoadError{o.Name, err, hintOf(err)}
	}
	if hint, err := checkImports(info); err != nil {
		return nil, &LoadError{o.Name, err, hint}
	}
	e := newEngine(o, info)
	if err := e.compile(ctx, metered); err != nil {
		return nil, &LoadError{o.Name, err, hintOf(err)}
	}
	if hint, err := e.rehearse(ctx); err != nil {
		e.close()
		return nil, &LoadError{o.Name, err, hint}
	}
	g := &Guard{e}
	// Running calls keep the guard, so nothing runs in it when this does.
	runtime.AddCleanup(g, func(e *engine) { go e.close() }, e)
	return g, nil
}

func hintOf(err error) string {
	if h, ok := err.(interface{ Hint() string }); ok {
		return h.Hint()
	}
	return ""
}

// Check judges one call. If all slots are taken it waits for one until ctx
// ends.
func (g *Guard) Check(ctx context.Context, c *guards.Call) guards.Verdict {
	defer runtime.KeepAlive(g)
	v, open := g.e.check(ctx, c)
	if !open {
		return guards.Fault(guards.CauseLoad, "the guard is closed")
	}
	return v
}

// Close waits for the calls in flight and frees the compiled code and all
// memory. Calls that come later are denied. It may be called more than once.
func (g *Guard) Close() error {
	defer runtime.KeepAlive(g)
	return g.e.close()
}

// Info tells what is in the module, as it came. It must not be changed.
func (g *Guard) Info() *meter.Info { return g.e.info }

// Stats are counts since Load.
type Stats struct {
	Calls     int64 // judged, or denied by a failure of the guest
	Instances int64 // made
	Discarded int64 // thrown away after a failure, or because their memory grew
}

// Stats returns the counts of this moment.
func (g *Guard) Stats() Stats {
	defer runtime.KeepAlive(g)
	return Stats{g.e.calls.Load(), g.e.made.Load(), g.e.discarded.Load()}
}
