package wasm_test

import (
	"os"
	"testing"

	"github.com/guardproxy/guardproxy/guards/wasm"
)

func TestMain(m *testing.M) {
	wasm.CompilerMain()
	os.Exit(m.Run())
}
