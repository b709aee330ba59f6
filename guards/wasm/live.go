package wasm

import (
	"context"
	"sync/atomic"

	"github.com/guardproxy/guardproxy/guards"
)

// Live is a guard that can be replaced while it judges: calls in flight end in
// the old one, those that come later begin in the new one, and none is lost
// between the two. It is safe for concurrent use.
type Live struct {
	now atomic.Pointer[Guard]
}

var _ guards.Guard = (*Live)(nil)

// NewLive takes over g: it closes it when it is replaced.
func NewLive(g *Guard) *Live {
	l := &Live{}
	l.now.Store(g)
	return l
}

// Check judges a call in the newest guard.
func (l *Live) Check(ctx context.Context, c *guards.Call) guards.Verdict {
	for {
		g := l.now.Load()
		v, open := g.e.check(ctx, c)
		if open {
			return v
		}
		if l.now.Load() == g { // it was closed, and not for another
			return guards.Fault(guards.CauseLoad, "the guard is closed")
		}
	}
}

// Guard is the newest guard.
func (l *Live) Guard() *Guard { return l.now.Load() }

// Replace puts g in the place of the guard, and closes the old one when its
// calls in flight are over. It does not wait for them.
func (l *Live) Replace(g *Guard) {
	if old := l.now.Swap(g); old != g {
		go old.Close()
	}
}

// Close closes the newest guard.
func (l *Live) Close() error { return l.now.Load().Close() }
