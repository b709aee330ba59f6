package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm/meter"
)

// engine is what the calls of one guard share: the compiled code, the image of
// a started guest, and the instances that wait for a call.
//
//	Load:  start one instance → configure it → write its state down (state)
//	call:  idle instance, or one made from the state → judge → put back → idle
//
// A module whose state can't be written down (info.Resettable) gets an
// instance that is started and configured for each call; some are started
// ahead. So does a command, whose run is the call.
type engine struct {
	opts     Options
	info     *meter.Info
	config   []byte // the document in which the configuration is judged
	slots    slots
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
	state    *state // of a guest that was started and configured; nil if there is none

	mu     sync.Mutex
	closed bool
	idle   []*instance // ready for a call; the last one was used last
	ahead  int         // instances that are being started
	inside sync.WaitGroup

	calls, made, discarded atomic.Int64
}

func newEngine(o Options, info *meter.Info) *engine {
	return &engine{opts: o, info: info, slots: make(slots, o.Slots),
		config: []byte(`{"abi":"guard/1","config":` + string(compact(o.Config)) + `}`)}
}

// compile makes the runtime with everything that a guest may import, and takes
// the metered module's code from the cache, where a child process puts it.
func (e *engine) compile(ctx context.Context, module []byte) error {
	return withMachineCode(ctx, e.opts, module, func(cache wazero.CompilationCache) error {
		e.cache = cache
		err := e.fromCache(ctx, module)
		if err != nil {
			e.release()
		}
		return err
	})
}

func (e *engine) fromCache(ctx context.Context, module []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine failed: %v", p)
		}
	}()
	e.runtime = wazero.NewRuntimeWithConfig(ctx, engineConfig(e.cache))
	for name, funcs := range imports {
		if err := offer(ctx, e.runtime, name, funcs); err != nil {
			return err
		}
	}
	e.compiled, err = fromCache(ctx, e.runtime, module)
	return err
}

// rehearse starts an instance and lets it judge its configuration, so that a
// guard that would deny every call is found now. Then it writes down the state
// that calls begin with.
func (e *engine) rehearse(ctx context.Context) (hint string, err error) {
	in, v := e.start(ctx)
	if in == nil {
		if v.Cause == guards.CausePolicy {
			if v.Reason == "" {
				v.Reason = "(it gave no reason)"
			}
			return "change the config that it is given", fmt.Errorf("it refuses its configuration: %s", v.Reason)
		}
		detail := v.Detail
		if v.Stderr != "" {
			detail += "; stderr: " + v.Stderr
		}
		return "", fmt.Errorf("it does not start: %s: %s", v.Cause, detail)
	}
	if e.info.Resettable && e.info.Profile == meter.Reactor && !e.opts.Fresh {
		if e.state, err = in.snapshot(); err != nil {
			in.close()
			return "", fmt.Errorf("write its state down: %w", err)
		}
		if in.attach(e.state) != nil {
			in.close()
			return "", nil // the next call makes another, or fails
		}
	}
	e.keep(in)
	return "", nil
}

// start makes an instance, runs what a guest runs before its first call, and
// configures it. On a failure the instance is nil, and the verdict says why.
func (e *engine) start(ctx context.Context) (*instance, guards.Verdict) {
	c := newCall(ctx, given{fuel: StartFuel, time: StartDeadline, start: true})
	if err := c.doc.parse(e.config); err != nil {
		return nil, guards.Fault(guards.CauseInputInvalid, err.Error())
	}
	in, err := e.instantiate(c)
	if err != nil {
		return nil, c.failed(err)
	}
	v := in.begin(c)
	if v.Decision != guards.Pass {
		in.close()
		return nil, v
	}
	return in, v
}

// take gets an instance that is ready for a call.
func (e *engine) take(ctx context.Context) (*instance, guards.Verdict) {
	e.mu.Lock()
	if n := len(e.idle); n > 0 {
		in := e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.mu.Unlock()
		return in, guards.Verdict{}
	}
	e.mu.Unlock()
	if e.state == nil {
		in, v := e.start(ctx)
		if v.Cause == guards.CausePolicy {
			// It took this very configuration when it was loaded.
			v = guards.Fault(guards.CauseLoad, "the guard refuses the configuration that it took before")
		}
		return in, v
	}
	c := newCall(ctx, given{fuel: StartFuel, time: StartDeadline, start: true})
	in, err := e.instantiate(c)
	if err != nil {
		return nil, c.failed(err)
	}
	if err := in.attach(e.state); err != nil {
		in.close()
		return nil, guards.Fault(guards.CauseLoad, err.Error())
	}
	return in, guards.Verdict{}
}

// keep puts an instance that is ready for a call with the others.
func (e *engine) keep(in *instance) {
	e.mu.Lock()
	if full := e.closed || len(e.idle) >= e.opts.Slots; !full {
		e.idle = append(e.idle, in)
		in = nil
	}
	e.mu.Unlock()
	if in != nil {
		in.close()
	}
}

// giveBack takes an instance after a call. It is put back to the state that
// calls begin with; one that can't be is returned, to be closed.
func (e *engine) giveBack(in *instance, broken bool) (over *instance) {
	if !broken && e.state != nil && in.reset(e.state) == nil {
		e.keep(in)
		return nil
	}
	if e.state != nil {
		e.discarded.Add(1)
	} else {
		e.startAhead()
	}
	return in
}

// mostAhead is how many instances wait for a call where each call needs one
// that was just started: starting is most of what such a call costs.
const mostAhead = 2

// startAhead starts an instance in the background. A failure is left to the
// next call to find.
func (e *engine) startAhead() {
	e.mu.Lock()
	enough := e.closed || e.opts.Fresh || len(e.idle)+e.ahead >= min(mostAhead, e.opts.Slots)
	if !enough {
		e.ahead++
		e.inside.Add(1)
	}
	e.mu.Unlock()
	if enough {
		return
	}
	go func() {
		defer e.inside.Done()
		var in *instance
		if e.slots.take(context.Background()) == nil { // a start is a guest that runs
			in, _ = e.start(context.Background())
			e.slots.give()
		}
		e.mu.Lock()
		e.ahead--
		e.mu.Unlock()
		if in != nil {
			e.keep(in)
		}
	}()
}

// check judges one call. open is false when the engine was closed before it
// could begin.
func (e *engine) check(ctx context.Context, c *guards.Call) (v guards.Verdict, open bool) {
	doc := c.Document(e.opts.Config)
	switch {
	case doc == nil:
		return guards.Fault(guards.CauseInputInvalid, "the arguments are not valid JSON"), true
	case len(doc) > guards.MaxInput:
		return guards.Fault(guards.CauseInputTooLarge, fmt.Sprintf("the document has %d bytes, at most %d are judged", len(doc), guards.MaxInput)), true
	}
	if !e.enter() {
		return v, false
	}
	if err := e.slots.take(ctx); err != nil {
		e.inside.Done()
		cause := guards.CauseCanceled
		if errors.Is(err, context.DeadlineExceeded) {
			cause = guards.CauseDeadline
		}
		return guards.Fault(cause, "while waiting for a free slot"), true
	}
	var over *instance
	defer func() {
		end := func() {
			if over != nil {
				over.close()
			}
			e.slots.give()
			e.inside.Done()
		}
		if over != nil && over.memory.size > large {
			// To free it takes milliseconds, for which nobody need wait but the
			// next in this slot.
			go end()
		} else {
			end()
		}
	}()
	v, over = e.judge(ctx, doc)
	return v, true
}

// judge runs the guest on a document. An instance that is over is the caller's
// to close.
func (e *engine) judge(ctx context.Context, doc []byte) (v guards.Verdict, over *instance) {
	e.calls.Add(1)
	in, v := e.take(ctx)
	if in == nil {
		return v, nil
	}
	broken := true
	defer func() {
		if p := recover(); p != nil {
			v = guards.Fault(guards.CausePanic, fmt.Sprint(p))
		}
		over = e.giveBack(in, broken)
	}()
	c := newCall(ctx, given{fuel: e.opts.Fuel + int64(len(doc))*FuelPerByte, time: e.opts.Deadline})
	if len(doc) <= smallDoc {
		c.doc.tape = in.tape // its memory is used again
	}
	if err := c.doc.parse(doc); err != nil {
		broken = false
		return guards.Fault(guards.CauseInputInvalid, err.Error()), nil
	}
	c.deadline = time.Now().Add(c.given.time) // the instance's start and the index are not the guest's time
	if e.info.Profile == meter.Command {
		v = in.command(c, doc)
	} else {
		v, broken = in.check(c)
	}
	v.Fuel = c.given.fuel - in.fuelLeft(c)
	if len(doc) <= smallDoc {
		in.tape = c.doc.tape
	}
	return v, nil
}

// smallDoc is the largest document, in bytes, whose index is kept for the next
// call's. It is the host's memory: no guest sees it.
const smallDoc = 64 << 10

// enter counts a use of the runtime, unless it is closed. Who gets true owes
// an inside.Done.
func (e *engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.inside.Add(1)
	return true
}

// close waits for what runs and frees everything.
func (e *engine) close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	idle := e.idle
	e.idle = nil
	e.mu.Unlock()
	for _, in := range idle {
		in.close()
	}
	e.inside.Wait()
	if !first {
		return nil
	}
	return e.release()
}

// release frees the runtime. Nothing may run in it.
func (e *engine) release() error {
	ctx := context.Background()
	var err error
	if e.runtime != nil {
		err = e.runtime.Close(ctx)
	}
	if e.cache != nil {
		err = errors.Join(err, e.cache.Close(ctx))
	}
	if e.state != nil {
		err = errors.Join(err, e.state.image.close())
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

// firstLine drops the stack trace of an engine's error.
func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
