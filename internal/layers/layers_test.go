// Package layers holds the test that keeps the house in order: which package
// may import which.
package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/guardproxy/guardproxy"

// rows are the layers, lowest first. A package imports only from lower rows;
// a subpackage may import its parent, and a parent nothing of its subpackages
// unless they stand lower.
var rows = [][]string{
	{"internal/tape", "internal/wire/sse", "confine/launch", "internal/gitconfig", "guards/wasm/meter", "guards/wasm/internal/assemble", "internal/machine", "internal/terminal"},
	{"confine/ward", "internal/home"},
	{"schema", "confine", "internal/wire"},
	{"guards", "internal/envelope", "internal/policy", "internal/agents", "internal/command", "internal/codemode", "guards/sdk/go", "guards/examples/shell", "guards/sdk"},
	{"internal/rewrite", "internal/session", "internal/record", "internal/audit", "internal/config", "guards/wasm", "guards/examples", "guards/examples/no-root-delete", "internal/metrics", "guards/conformance", "guards/examples/delete-outside", "guards/examples/secrets"},
	{"proxy", "cachecheck", "confine/run", "internal/control", "internal/fakemodel"},
	{"internal/spawn", "internal/spawn/early"},
	{"cmd/guardproxy", "cmd/guardproxy-launch", "cmd/guardproxy-exec", "internal/e2e", "internal/layers"},
}

// pure packages take bytes and return bytes: no network, no files, no clock.
var pure = []string{"schema", "cachecheck", "internal/wire", "internal/wire/sse", "internal/tape", "internal/rewrite", "internal/envelope", "internal/policy", "internal/agents", "internal/command", "internal/codemode", "guards/wasm/meter", "internal/gitconfig"}

var effects = []string{"net", "net/http", "os", "os/exec", "time", "log", "log/slog", "syscall", "math/rand", "math/rand/v2", "crypto/rand", "golang.org/x/sys/unix"}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestLayers(t *testing.T) {
	row := map[string]int{}
	for i, r := range rows {
		for _, p := range r {
			row[p] = i
		}
	}
	isPure := map[string]bool{}
	for _, p := range pure {
		isPure[p] = true
	}
	isEffect := map[string]bool{}
	for _, p := range effects {
		isEffect[p] = true
	}
	seen := map[string]bool{}
	for _, goos := range []string{"linux", "darwin"} {
		t.Setenv("GOOS", goos)
		for _, line := range goList(t, "-e", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
			words := strings.Fields(line)
			name := strings.TrimPrefix(words[0], module+"/")
			seen[name] = true
			from, ok := row[name]
			if !ok {
				t.Errorf("%s stands in no layer: the house has no room for it", name)
				continue
			}
			for _, imp := range words[1:] {
				if isPure[name] && isEffect[imp] {
					t.Errorf("%s is pure and imports %s", name, imp)
				}
				to, ours := strings.CutPrefix(imp, module+"/")
				if !ours {
					continue
				}
				if rank, ok := row[to]; !ok || rank >= from && !strings.HasPrefix(name, to+"/") {
					t.Errorf("%s imports %s, which does not stand below it", name, to)
				}
			}
		}
	}
	for _, name := range []string{"util", "utils", "common", "types", "helpers", "models", "core"} {
		for p := range seen {
			if p == name || strings.HasSuffix(p, "/"+name) {
				t.Errorf("a package called %s", p)
			}
		}
	}
}

// TestEarlyStartsLight: what guardproxy exec needs before it starts is short, and
// nothing of it is initialised late. A package that comes to this list is paid
// for by every confined command.
func TestEarlyStartsLight(t *testing.T) {
	heavy := []string{"net", "regexp", "text/template", "encoding/gob", "go/ast", "log/slog", "net/http", "github.com/alecthomas/kong", "github.com/goccy/go-yaml"}
	modules := []string{module, "golang.org/x/sys", "github.com/landlock-lsm/go-landlock", "kernel.org/pub/linux/libs/security/libcap/psx"}
	t.Setenv("GOOS", "linux")
	deps := goList(t, "-deps", "-f", "{{.ImportPath}} {{if .Module}}{{.Module.Path}}{{end}}", "./internal/spawn/early")
	for _, line := range deps {
		name, from, _ := strings.Cut(line, " ")
		if slices.Contains(heavy, name) {
			t.Errorf("exec has come to need %s", name)
		}
		if from != "" && !slices.Contains(modules, from) {
			t.Errorf("exec has come to need %s of %s", name, from)
		}
	}
	if len(deps) < 20 {
		t.Fatalf("only %d packages were looked at", len(deps))
	}
}

// TestPublicNamesAreSelfContained: what a public package exports can be used
// by its importers, so no exported signature or field mentions a type of an
// internal package.
func TestPublicNamesAreSelfContained(t *testing.T) {
	checked := 0
	for _, dir := range goList(t, "-e", "-f", "{{.Dir}}", "./...") {
		rel, err := filepath.Rel(mustAbs(t, "../.."), dir)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(rel, "internal/") || strings.HasPrefix(rel, "cmd/") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			checked++
			internal := map[string]bool{}
			for _, imp := range f.Imports {
				path, _ := strconv.Unquote(imp.Path.Value)
				if strings.HasPrefix(path, module+"/internal/") {
					name := path[strings.LastIndex(path, "/")+1:]
					if imp.Name != nil {
						name = imp.Name.Name
					}
					internal[name] = true
				}
			}
			for _, d := range f.Decls {
				exported(d, func(n ast.Node) {
					ast.Inspect(n, func(n ast.Node) bool {
						if s, ok := n.(*ast.SelectorExpr); ok {
							if x, ok := s.X.(*ast.Ident); ok && internal[x.Name] {
								t.Errorf("%s: an exported name mentions %s.%s", file, x.Name, s.Sel.Name)
							}
						}
						return true
					})
				})
			}
		}
	}
	if checked < 10 {
		t.Fatalf("only %d files were looked at", checked)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// exported calls look with the parts of a declaration that importers see.
func exported(d ast.Decl, look func(ast.Node)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			return
		}
		if d.Recv != nil {
			recv := d.Recv.List[0].Type
			if s, ok := recv.(*ast.StarExpr); ok {
				recv = s.X
			}
			if id, ok := recv.(*ast.Ident); ok && !id.IsExported() {
				return
			}
		}
		look(d.Type)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				st, ok := s.Type.(*ast.StructType)
				if !ok {
					look(s.Type)
					continue
				}
				for _, f := range st.Fields.List {
					if len(f.Names) == 0 || f.Names[0].IsExported() {
						look(f.Type)
					}
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					look(s.Type)
				}
			}
		}
	}
}
