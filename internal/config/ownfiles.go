package config

import (
	"slices"

	"github.com/guardproxy/guardproxy/internal/home"
)

// OwnFiles returns the paths that no tool call may name, absolute, sorted and
// without duplicates: guardproxy's directories (all that is in them counts),
// the configuration file, and every file that it names. Symlinks are not
// resolved; who compares on a real file system resolves both sides.
func (c *Config) OwnFiles(d home.Dirs) []string {
	paths := []string{d.State, d.Config, d.Cache, c.File, c.TokenFile, c.Audit.File}
	paths = append(paths, c.Keys...)
	for _, g := range c.Guards {
		paths = append(paths, g.File)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return p == "" })
	slices.Sort(paths)
	return slices.Compact(paths)
}
