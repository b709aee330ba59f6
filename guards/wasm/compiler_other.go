//go:build !linux

package wasm

import (
	"os"
	"os/exec"
	"time"
)

// Off Linux the compiler's time is bounded by its parent; its memory is
// bounded only as far as the Go runtime keeps to its soft limit.

func limitCompiler(compileLimits) error { return nil }

func bindToParent(*exec.Cmd) {}

// waitFactor times CompileTime is how long a compiler may take.
const waitFactor = 1

func outOfTime(*os.ProcessState, time.Duration) bool { return false }

func selfPath() (string, error) { return os.Executable() }
