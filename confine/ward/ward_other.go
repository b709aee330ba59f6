//go:build !(linux || darwin)

package ward

import "errors"

// Ward has nothing to guard here: no command is confined on this system.
type Ward struct{}

// Look fails.
func Look(Options) (*Ward, error) { return nil, errors.New("this system is not supported") }

// Close has nothing to close.
func (w *Ward) Close() error { return nil }

// Settle has nothing to compare.
func (w *Ward) Settle(string) []Held { return nil }

// Propose fails.
func (w *Ward) Propose(string) error { return errors.New("this system is not supported") }

// ReadOnly names nothing.
func (w *Ward) ReadOnly() []string { return nil }

// Guarded names nothing.
func (w *Ward) Guarded() []string { return nil }

// Configs names nothing.
func (w *Ward) Configs() []string { return nil }
