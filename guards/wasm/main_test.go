//go:build unix

package wasm

import (
	"os"
	"testing"
)

// CodeDir holds the machine code of modules that several tests load.
var CodeDir string

func TestMain(m *testing.M) {
	CompilerMain()
	if pid := os.Getenv(orphanEnv); pid != "" {
		orphan(pid)
		return
	}
	var err error
	if CodeDir, err = os.MkdirTemp("", "guardproxy-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(CodeDir)
	os.Exit(code)
}
