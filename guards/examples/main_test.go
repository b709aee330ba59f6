package examples_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/guardproxy/guardproxy/guards/wasm"
)

// scratch keeps the compiled code of all tests of a run.
var scratch string

// TestMain lets the test binary compile guards, as guardproxy does.
func TestMain(m *testing.M) {
	wasm.CompilerMain()
	var err error
	if scratch, err = os.MkdirTemp("", "guards-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}
