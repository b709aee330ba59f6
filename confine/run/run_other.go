//go:build !(linux || darwin)

package run

import (
	"context"

	"github.com/guardproxy/guardproxy/confine"
)

// Run has nothing to run here: no rung of package confine prepares a command on
// this system.
func Run(_ context.Context, p confine.Prepared, _ Options) (Result, error) {
	return Result{ExitCode: -1}, &Failure{Runner: p.Enforcement.Runner, Reason: "this system is not supported"}
}

// Sole has nothing to do here.
func Sole() error { return nil }
