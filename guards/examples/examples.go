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

// Info is what a list of the bundled guards says of one.
type Info struct {
	Name     string `json:"name"`
	Language string `json:"language"`
	About    string `json:"about"` // what it denies, in a line
}

var list = []Info{
	{"no-root-delete", "Go", "deletes of the root, a home, or a system directory"},
}

// List lists the bundled guards by name. The slice is the caller's.
func List() []Info {
	return slices.SortedFunc(slices.Values(list), func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
}

// Names lists the names of the bundled guards, sorted.
func Names() []string {
	var names []string
	for _, g := range List() {
		names = append(names, g.Name)
	}
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
