package wasm

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	CompilerMain()
	if pid := os.Getenv(orphanEnv); pid != "" {
		orphan(pid)
		return
	}
	os.Exit(m.Run())
}
