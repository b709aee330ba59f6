package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm/meter"
)

// Limits of what one call may leave behind.
const (
	maxNotes = 8
	maxNote  = 1 << 10 // bytes a note
	maxLog   = 4 << 10 // bytes of standard error
)

const pageSize = 64 << 10

// slice is how much fuel a guest gets at a time. Between two slices the Go
// scheduler and the collector wait for it, and its deadline is not looked at:
// a slice is some 100 µs of plain code. What code costs that writes a page for
// the first time, the kernel decides, and it is a thousand times more: so a guest
// gets less at a time once it has more pages than it could get through in some
// milliseconds.
const (
	slice      = 200_000
	sliceLarge = 20_000
	large      = 32 << 20 // bytes of memory
)

// call is one run of a guest: what it asks about, what it may still use, and
// what it has said. A run gets a new one, so nothing in it outlives the run.
type call struct {
	in       *instance
	ctx      context.Context // the caller's
	deadline time.Time
	fuel     int64 // not yet handed out
	given    given

	doc     document
	command bool   // a program: the document is on stdin, and stdout is the verdict
	stdin   []byte // what is left of it
	stdout  []byte
	log     []byte // standard error
	reason  string
	notes   []string
	random  uint64

	function string // the host function that was called last
	fault    fault  // why a host function stopped the guest
	exitCode uint32
	memFull  bool // the guest asked for more memory than the limit
}

// newCall begins a run. Its time runs from now.
func newCall(ctx context.Context, g given) *call {
	return &call{ctx: ctx, deadline: time.Now().Add(g.time), fuel: g.fuel, given: g}
}

// given is what a run may use in all, for those who read why it was stopped.
type given struct {
	fuel  int64
	time  time.Duration
	start bool // it is no call: the configuration has no say in it
}

// spent says that a run has used up what it was given of something. The key of
// the configuration that gives a call more stands behind it.
func (g given) spent(what string, key string) string {
	if g.start {
		return what
	}
	return what + " (" + key + ")"
}

// fault is a panic by which a host function stops the guest. The engine hands
// it back as an error; the cause is read from the call, whatever the engine
// makes of it.
type fault string

const (
	faultMisuse   = fault(guards.CauseHostMisuse)
	faultExit     = fault(guards.CauseExit)
	faultDeadline = fault(guards.CauseDeadline)
	faultCanceled = fault(guards.CauseCanceled)
	faultFuel     = fault(guards.CauseFuel)
	faultStack    = fault(guards.CauseTrap)
	faultLoad     = fault(guards.CauseLoad)
)

func (f fault) Error() string { return "guest stopped: " + string(f) }

func (c *call) fail(f fault) {
	c.fault = f
	panic(f)
}

// hostFunc is a function that guests may import. Its type is written as in
// "iIi:i": parameters, then results; i is i32 and I is i64.
type hostFunc struct {
	sig  string
	call func(c *call, stack []uint64)
}

// hostCall is what every call to the host costs, as if it were bytes: it takes
// as long as some hundred instructions.
const hostCall = 100 * 16

// imports is all that a metered module can import.
var imports = map[string]map[string]hostFunc{
	guardModule:      guardFuncs,
	wasiModule:       wasiFuncs,
	meter.HostModule: {meter.RefillImport: {refillSig, refill}},
}

// offer makes a set of functions known to the guests of a runtime.
func offer(ctx context.Context, rt wazero.Runtime, module string, funcs map[string]hostFunc) error {
	b := rt.NewHostModuleBuilder(module)
	for name, f := range funcs {
		params, results := types(f.sig)
		full := module + "." + name
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
			in := ctx.Value(instanceKey{}).(*instance)
			if in.module == nil { // the module's start function runs
				in.bind(m)
			}
			c := in.call
			c.function = full
			c.onTime()
			if f.sig != refillSig {
				c.charge(hostCall)
			}
			f.call(c, stack)
		}), params, results).Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// refillSig is the type of what metering calls; no function of a guest's has it.
const refillSig = ":"

// types spells out a signature.
func types(sig string) (params, results []api.ValueType) {
	into := &params
	for _, c := range sig {
		switch c {
		case 'i':
			*into = append(*into, api.ValueTypeI32)
		case 'I':
			*into = append(*into, api.ValueTypeI64)
		case ':':
			into = &results
		}
	}
	return params, results
}

// onTime stops a guest that has no time left, or that nobody waits for.
func (c *call) onTime() {
	switch err := c.ctx.Err(); {
	case err == nil && time.Now().Before(c.deadline):
	case errors.Is(err, context.Canceled):
		c.fail(faultCanceled)
	default:
		c.fail(faultDeadline)
	}
}

// refill is called by what metering has put into the module, when the counter
// of fuel or that of the native stack is below zero.
func refill(c *call, _ []uint64) {
	fuel, stack := c.in.fuel, c.in.stack
	if int64(stack.Get()) < 0 {
		c.fail(faultStack)
	}
	have, next := int64(fuel.Get()), int64(slice)
	if c.in.memory.size > large {
		next = sliceLarge
	}
	give := min(max(next, next-have), c.fuel) // one instruction may have cost more than a slice
	c.fuel -= give
	if have+give < 0 {
		c.fuel += have + give // what it could not pay, so that fuelLeft is right
		c.fail(faultFuel)
	}
	fuel.Set(uint64(have + give))
}

// charge takes fuel for what the host does on the guest's behalf: n bytes that
// it looks at or copies, at the rate of bulk instructions.
func (c *call) charge(n int) {
	c.fuel -= int64(n / 16)
	if c.fuel < 0 {
		c.fail(faultFuel)
	}
}

// memory is a range of the guest's memory, to be used at once. A range
// outside of it stops the guest.
func (c *call) memory(ptr, size uint64) []byte {
	ptr, size = uint64(uint32(ptr)), uint64(uint32(size)) // only the low half of a stack slot is an i32
	mem := c.in.memory.bytes()
	if ptr > uint64(len(mem)) || size > uint64(len(mem))-ptr {
		c.fail(faultMisuse)
	}
	return mem[ptr : ptr+size : ptr+size]
}

const guardModule = "guardproxy"

// guardFuncs are the three functions of guard/1.
var guardFuncs = map[string]hostFunc{
	"get":    {"iiii:i", hostGet},
	"reason": {"ii:", hostReason},
	"note":   {"ii:", hostNote},
}

// maxPath is the longest JSON Pointer, in bytes, that could lead anywhere: all of
// a document, each byte escaped.
const maxPath = 2 * guards.MaxInput

// hostGet is get(path_ptr, path_len, dst, cap) -> length, or -1.
func hostGet(c *call, s []uint64) {
	path := c.memory(s[0], s[1])
	if len(path) > maxPath {
		c.fail(faultMisuse)
	}
	c.charge(16 * len(path)) // it is copied, and looked at by token
	value, found, ok := c.doc.get(string(path))
	if !ok {
		// Answering "absent" could turn a misspelt path into a pass.
		c.fail(faultMisuse)
	}
	if !found {
		s[0] = api.EncodeI32(-1)
		return
	}
	c.charge(4 * len(value)) // decoding it took longer than a copy
	if len(value) <= int(uint32(s[3])) {
		copy(c.memory(s[2], uint64(len(value))), value)
	}
	s[0] = uint64(len(value))
}

// hostReason is reason(ptr, len). The last one counts.
func hostReason(c *call, s []uint64) {
	b := c.memory(s[0], s[1])
	c.charge(16 * min(len(b), 4*guards.MaxReason))
	c.reason = guards.ClipReason(string(b[:min(len(b), 4*guards.MaxReason+4)]))
}

// hostNote is note(ptr, len). What exceeds the limits is dropped.
func hostNote(c *call, s []uint64) {
	b := c.memory(s[0], s[1])
	c.charge(16 * min(len(b), maxNote))
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, strings.ToValidUTF8(string(b[:min(len(b), maxNote)]), "\uFFFD"))
	}
}

// verdict reads what an export returned.
func (c *call) verdict(export string, result uint64) guards.Verdict {
	v := guards.Verdict{Cause: guards.CausePolicy, Reason: c.reason, Notes: c.notes, Stderr: c.stderr()}
	switch uint32(result) {
	case 1:
		v.Cause, v.Reason = "", ""
	case 2:
		v.Decision = guards.Deny
	case 3:
		v.Decision = guards.Ask
	default:
		f := guards.Fault(guards.CauseUnknownVerdict, fmt.Sprintf("%s returned %d", export, int32(uint32(result))))
		f.Notes, f.Stderr = c.notes, c.stderr()
		return f
	}
	return v
}

// failed is the verdict on a guest that ended with an error.
func (c *call) failed(err error) guards.Verdict {
	v := guards.Fault(c.cause(err), firstLine(err))
	v.Stderr, v.Notes = c.stderr(), c.notes
	switch {
	case v.Cause == guards.CauseMemory:
		v.Detail = fmt.Sprintf("it asked for more than %d bytes of memory (wasm.memory), and then ended with: %s", c.in.memory.limit, v.Detail)
	case c.fault == faultFuel:
		v.Detail = c.given.spent(fmt.Sprintf("it used up its %d units of fuel", c.given.fuel), "wasm.fuel")
	case c.fault == faultDeadline:
		v.Detail = c.given.spent(fmt.Sprintf("it took longer than %v", c.given.time), "wasm.deadline")
	case c.fault == faultCanceled:
		v.Detail = "nobody waits for it any more"
	case c.fault == faultExit:
		v.Detail = fmt.Sprintf("exit code %d", c.exitCode)
	case c.fault == faultMisuse:
		v.Detail = "bad arguments for " + c.function
	case c.fault == faultStack:
		v.Detail = "the native stack is used up"
	}
	return v
}

// cause finds out why a guest ended with an error.
func (c *call) cause(err error) guards.Cause {
	switch {
	case c.fault == faultDeadline, c.fault == faultCanceled, c.fault == faultFuel:
		return guards.Cause(c.fault)
	case c.memFull: // a guest that can't grow its memory traps, or exits
		return guards.CauseMemory
	case c.fault != "":
		return guards.Cause(c.fault)
	case strings.Contains(firstLine(err), "(recovered by wazero)"):
		return guards.CausePanic // of a host function
	}
	return guards.CauseTrap
}

// stderr is what the guest wrote there.
func (c *call) stderr() string { return strings.ToValidUTF8(string(c.log), "\uFFFD") }
