package wasm

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm/meter"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// Names of exports.
const (
	exportCheck  = "guard_check_v1"
	exportConfig = "guard_config_v1"
	exportInit   = "_initialize"
	exportStart  = "_start"
)

// instance is one instantiation of a module. It is used by one goroutine at a
// time, and closed by the one that has it.
type instance struct {
	info    *meter.Info
	module  api.Module
	memory  *linear
	ctx     context.Context // leads host functions to the instance
	call    *call           // the run that goes on, nil between calls
	entry   api.Function    // what a call calls
	fuel    api.MutableGlobal
	stack   api.MutableGlobal
	globals []api.MutableGlobal // of the module itself
	tape    tape.Tape           // memory for the next call's index
}

type instanceKey struct{}

// state is all that a call may change, as it is when a call begins.
type state struct {
	image   image
	globals []uint64
	stack   uint64
}

// instantiate makes an instance; the module's start function runs in it.
func (e *engine) instantiate(c *call) (in *instance, err error) {
	in = &instance{info: e.info, memory: &linear{limit: uint64(e.opts.Memory)}, call: c}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine failed: %v", p)
		}
		if err != nil {
			c.memFull = in.memory.full
			in.close()
			in = nil
		}
	}()
	c.in = in
	in.ctx = context.WithValue(context.Background(), instanceKey{}, in)
	m, err := e.runtime.InstantiateModule(experimental.WithMemoryAllocator(in.ctx, in.memory), e.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		if c.fault == "" && !in.memory.full {
			c.fault = faultLoad
		}
		return in, err
	}
	e.made.Add(1)
	in.bind(m)
	return in, nil
}

// bind finds what the host needs of a module. Metering has put it there, so it
// panics if it is missing.
func (in *instance) bind(m api.Module) {
	in.module = m
	in.entry = m.ExportedFunction(exportCheck)
	if in.info.Profile == meter.Command {
		in.entry = m.ExportedFunction(exportStart)
	}
	global := func(name string) api.MutableGlobal { return m.ExportedGlobal(name).(api.MutableGlobal) }
	in.fuel, in.stack = global(meter.FuelExport), global(meter.StackExport)
	in.globals = in.globals[:0]
	for _, i := range in.info.MutableGlobals {
		in.globals = append(in.globals, global(meter.GlobalExport(i)))
	}
}

// begin runs what comes before a guest's first call. The start functions are
// called here rather than by the engine, which takes an exit with code 0 in
// them for success. A guest that was told its configuration again, for
// another instance, must give the same answer.
func (in *instance) begin(c *call) guards.Verdict {
	if in.info.Profile == meter.Command {
		return guards.Verdict{}
	}
	for _, export := range []string{exportInit, exportConfig} {
		f := in.module.ExportedFunction(export)
		if f == nil {
			continue
		}
		result, err := in.run(c, f)
		if err != nil {
			return c.failed(err)
		}
		if export == exportConfig {
			return c.verdict(export, result)
		}
		c.reason, c.notes = "", nil // nobody has asked yet
	}
	return guards.Verdict{}
}

// check asks the guest about the call's document. broken means that the
// instance can't be used any more.
func (in *instance) check(c *call) (v guards.Verdict, broken bool) {
	result, err := in.run(c, in.entry)
	if err != nil {
		return c.failed(err), true
	}
	return c.verdict(exportCheck, result), false
}

// command runs the guest as a program.
func (in *instance) command(c *call, doc []byte) guards.Verdict {
	c.stdin, c.command = doc, true
	_, err := in.run(c, in.entry)
	if err != nil && (c.fault != faultExit || c.exitCode != 0) {
		return c.failed(err)
	}
	v, err := readVerdict(c.stdout)
	if err != nil {
		v = guards.Fault(guards.CauseUnknownVerdict, err.Error())
	}
	v.Stderr = c.stderr()
	return v
}

// run calls an export without parameters and gives its result, if it has one.
func (in *instance) run(c *call, f api.Function) (result uint64, err error) {
	in.call, c.in = c, in
	defer func() {
		c.memFull = in.memory.full
		in.call = nil
	}()
	in.fuel.Set(0) // the first thing that costs asks for the first slice
	var stack [1]uint64
	err = f.CallWithStack(in.ctx, stack[:])
	return stack[0], err
}

// fuelLeft is what a call has not burnt.
func (in *instance) fuelLeft(c *call) int64 { return max(c.fuel+int64(in.fuel.Get()), 0) }

// snapshot writes down the state of an instance that is between two calls.
func (in *instance) snapshot() (*state, error) {
	s := &state{stack: in.stack.Get()}
	for _, g := range in.globals {
		s.globals = append(s.globals, g.Get())
	}
	var err error
	s.image, err = newImage(in.memory)
	return s, err
}

// attach brings an instance that was just made to a state.
func (in *instance) attach(s *state) error {
	if have, want := in.memory.size, s.image.size(); have != want {
		if want < have {
			return fmt.Errorf("the memory has %d bytes, and had %d when it was written down", have, want)
		}
		if _, ok := in.module.Memory().Grow(uint32((want - have) / pageSize)); !ok {
			return fmt.Errorf("the memory can't grow to the %d bytes that it had when it was written down", want)
		}
	}
	if err := s.image.attach(in.memory); err != nil {
		return err
	}
	in.restore(s)
	return nil
}

// reset brings an instance that was attached to a state back to it after a
// call. It can't after the memory grew: memories don't shrink.
func (in *instance) reset(s *state) error {
	if in.memory.size != s.image.size() {
		return fmt.Errorf("the memory grew to %d bytes", in.memory.size)
	}
	if err := s.image.reset(in.memory); err != nil {
		return err
	}
	in.restore(s)
	return nil
}

func (in *instance) restore(s *state) {
	for i, g := range in.globals {
		g.Set(s.globals[i])
	}
	in.stack.Set(s.stack)
	in.memory.full = false
}

// close frees the instance and its memory. Nothing may run in it.
func (in *instance) close() {
	if in.module != nil {
		in.module.Close(context.Background())
	}
	in.memory.Free() // where the engine failed before it took it
}
