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

// To see that the committed modules are what their source builds:
//
//	go generate ./guards/examples && git diff --exit-code -- guards/examples
//
// A module whose toolchain is not here, in the version that it was built with,
// stays as it is, and build.sh says so.

//go:generate sh build.sh call-budget
//go:generate sh build.sh delete-outside
//go:generate sh build.sh git-history
//go:generate sh build.sh no-root-delete
//go:generate sh build.sh pipe-to-shell
//go:generate sh build.sh privilege
//go:generate sh build.sh publish
//go:generate sh build.sh run-later
//go:generate sh build.sh secrets

//go:embed */*.wasm
var modules embed.FS

// Info is what a list of the bundled guards says of one.
type Info struct {
	Name     string `json:"name"`
	Language string `json:"language"`
	About    string `json:"about"` // what it denies, in a line
}

var list = []Info{
	{"call-budget", "WAT", "asks when a turn has made more calls than it should need"},
	{"delete-outside", "Go", "deletes outside of the workspace"},
	{"git-history", "Rust", "force pushes, and what rewrites or drops history"},
	{"no-root-delete", "Go", "deletes of the root, a home, or a system directory"},
	{"pipe-to-shell", "C", "running what comes from the network or out of a decoder"},
	{"privilege", "C", "sudo, setuid, container sockets, privileged containers"},
	{"publish", "Rust", "releasing packages and sites, tearing down infrastructure"},
	{"run-later", "AssemblyScript", "writing to hooks, start-up files, CI, agents' configuration"},
	{"secrets", "Go", "reading .env files, keys and credentials"},
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
