// Package examples holds the guards that come with guardproxy, compiled.
//
// Each lies in a directory of its own with its source, its cases and the
// module that is built from it. go generate builds the modules anew; the same
// toolchain builds the same bytes.
package examples

import (
	"embed"
	"slices"
	"strings"
)

// To see that the committed modules are what their source builds (with the
// toolchain that go.mod names):
//
//	go generate ./guards/examples && git diff --exit-code -- guards/examples

//go:generate env GOOS=wasip1 GOARCH=wasm GOFLAGS=-buildvcs=false go build -buildmode=c-shared -trimpath -ldflags "-s -w -buildid=" -o no-root-delete/no-root-delete.wasm ./no-root-delete

//go:embed */*.wasm
var modules embed.FS

// Names lists the bundled guards, sorted.
func Names() []string {
	entries, err := modules.ReadDir(".")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// Module returns a bundled guard's module by its name. The bytes are the
// caller's.
func Module(name string) ([]byte, bool) {
	if name == "" || strings.ContainsAny(name, "/.") {
		return nil, false
	}
	b, err := modules.ReadFile(name + "/" + name + ".wasm")
	return b, err == nil
}
