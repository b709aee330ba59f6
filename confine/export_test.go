//go:build (linux || darwin) && (amd64 || arm64)

package confine

// SeatbeltChain is the chain of macOS with another program in sandbox-exec's
// place, which has to prove itself like that.
func SeatbeltChain(command, launcher string) *Chain {
	c := New(Options{Launcher: launcher})
	c.once.Do(func() {
		r, m := proveSeatbelt(command, launcher)
		if c.rung = r; m != nil {
			c.err = &Unavailable{Rungs: []Missing{*m}}
		}
		c.found.Store(true)
	})
	return c
}
