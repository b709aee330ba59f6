package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/guards/sdk"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// A new guard of each language builds with one command and passes its cases.
func TestNewGuardsBuildAndPass(t *testing.T) {
	for _, language := range sdk.Languages() {
		t.Run(language, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "guard")
			if code, _, stderr := verbRun(t, "guard", "new", "--lang", language, dir); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			var said bytes.Buffer
			build := exec.CommandContext(t.Context(), "sh", "build.sh")
			build.Dir, build.Stdout, build.Stderr = dir, &said, &said
			if err := build.Run(); err != nil {
				if language != "go" && (strings.Contains(said.String(), "build.sh: no ") || language == "assemblyscript") {
					machine.Lacks(t, "toolchains", "%s", said.String())
				}
				t.Fatalf("%v: %s", err, said.String())
			}
			module, cases := filepath.Join(dir, "guard.wasm"), filepath.Join(dir, "cases.jsonl")
			code, stdout, stderr := verbRun(t, "guard", "test", module, cases, "--within", "120s", "--deadline", "20s")
			if code != 0 || !strings.Contains(stdout, "all checks passed") {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// verbRun is one run of the program.
func verbRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(context.Background(), args, stdio{strings.NewReader(""), &out, &err})
	return code, out.String(), err.String()
}
