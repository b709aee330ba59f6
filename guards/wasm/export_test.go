package wasm

import (
	"time"

	"context"
	"github.com/guardproxy/guardproxy/guards"
	"testing"
)

// WithCopies makes guards that are loaded from now on copy their images, as they
// do where the kernel has no files in memory.
func WithCopies(t testing.TB) {
	shareImages = false
	t.Cleanup(func() { shareImages = true })
}

// OnTheHeap makes guards that are loaded from now on have their memory on the Go
// heap, as they do where no address space can be reserved.
func OnTheHeap(t testing.TB) {
	reserveRoom = false
	t.Cleanup(func() { reserveRoom = true })
}

// Reserved is how many bytes of address space guests hold.
func Reserved() int64 { return reserved.Load() }

// Shared reports whether the guard's calls begin with a shared image.
func (g *Guard) Shared() bool {
	if g.e.state == nil {
		return false
	}
	_, copied := g.e.state.image.(copiedImage)
	return !copied
}

// LoadFresh is Load for a guard that gets a new instance for each call, none of
// them made ahead.
func LoadFresh(ctx context.Context, module []byte, o Options) (*Guard, error) {
	g, err := Load(ctx, module, o)
	if err != nil {
		return nil, err
	}
	for _, in := range g.e.idle {
		in.close()
	}
	g.e.idle, g.e.state = nil, nil
	g.e.ahead = 1 << 20
	return g, nil
}

// CheckTwiceWithoutReset judges a call twice in one instance that is not put
// back in between.
func (g *Guard) CheckTwiceWithoutReset(ctx context.Context, c *guards.Call) (v guards.Verdict) {
	in, v := g.e.take(ctx)
	if in == nil {
		return v
	}
	defer in.close()
	for range 2 {
		run := newCall(ctx, given{fuel: DefaultFuel, time: time.Minute})
		if err := run.doc.parse(c.Document(nil)); err != nil {
			panic(err)
		}
		v, _ = in.check(run)
	}
	return v
}
