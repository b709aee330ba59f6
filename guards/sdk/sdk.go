// Package sdk holds what guard authors include, one directory a language, and
// the first files of a new guard.
package sdk

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// The template of a language is in new/LANG: its files with .tmpl at the end, so
// that no tool takes them for part of this module. cases.jsonl and README.md
// are the same for all.

//go:embed go/doc.go go/guard.go go/start.go go/words.go rust/guardproxy.rs c/guardproxy.h assemblyscript/guardproxy.ts new
var files embed.FS

// sources says which files of the SDK a new guard gets, and where.
var sources = map[string]map[string]string{
	"go":             {"go/doc.go": "guard/doc.go", "go/guard.go": "guard/guard.go", "go/start.go": "guard/start.go", "go/words.go": "guard/words.go"},
	"rust":           {"rust/guardproxy.rs": "guardproxy.rs"},
	"c":              {"c/guardproxy.h": "guardproxy.h"},
	"assemblyscript": {"assemblyscript/guardproxy.ts": "guardproxy.ts"},
}

// Languages lists the languages, sorted.
func Languages() []string { return []string{"assemblyscript", "c", "go", "rust"} }

// New returns the files of a new guard in a language, by their paths with
// slashes. The contents are the caller's.
func New(language string) (map[string][]byte, error) {
	from, ok := sources[language]
	if !ok {
		return nil, fmt.Errorf("no guards are written in %q; the languages are %s", language, strings.Join(Languages(), ", "))
	}
	out := map[string][]byte{}
	for source, name := range from {
		b, err := files.ReadFile(source)
		if err != nil {
			return nil, err
		}
		out[name] = b
	}
	for _, dir := range []string{"new", "new/" + language} {
		entries, err := files.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".tmpl"); ok && !e.IsDir() {
				b, err := fs.ReadFile(files, dir+"/"+e.Name())
				if err != nil {
					return nil, err
				}
				out[name] = b
			}
		}
	}
	return out, nil
}
