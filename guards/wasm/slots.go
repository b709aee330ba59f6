package wasm

import (
	"context"
	"runtime"
)

// Slots bound how many guests run at a time. A guest runs as native code, which
// the Go scheduler can't interrupt: it keeps its processor until it calls the
// host, and the collector waits for it. So there is one bound for the process,
// and a smaller one for each guard, which leaves slots free for the others
// however many calls of one guard are stuck. A program that judges while it
// serves gives the scheduler as many processors more as there are slots
// (see [ProcessSlots]).
//
// Whoever waits is served in order of arrival; the wait is not on the call's
// clock.

// ProcessSlots is how many guests run at a time in this process, whatever the
// number of guards. A server calls
//
//	runtime.GOMAXPROCS(runtime.NumCPU() + wasm.ProcessSlots())
//
// so that stuck guests leave processors for everything else; the kernel then
// shares the machine among the threads.
func ProcessSlots() int { return cap(process) }

// process holds the slots of this process. Beyond 16 there is nothing to win:
// a call takes microseconds.
var process = make(chan struct{}, min(max(2*runtime.NumCPU(), 4), 16))

// guardSlots is a guard's share if its options name none.
func guardSlots() int { return ProcessSlots() * 3 / 4 }

// slots is the share of one guard.
type slots chan struct{}

// take waits for a slot of the guard and one of the process, in this order:
// who waits for the guard's own takes nothing from others.
func (s slots) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case process <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-s
		return ctx.Err()
	}
}

func (s slots) give() {
	<-process
	<-s
}
