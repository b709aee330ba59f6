package confine

import (
	"path/filepath"
	"slices"
)

// OwnFiles returns the paths that a confined command must neither read nor
// write: guardproxy's state (its keys, recordings and log), configuration and
// cache, each in its XDG directory or that directory's default, and whatever
// the configuration adds (guard modules, recordings kept elsewhere).
//
// getenv is os.Getenv; extra paths are made absolute by the caller. The result
// is sorted and has no duplicates; a path need not exist. Without a home
// directory and without the variable, that directory is left out: guardproxy
// would not find it either.
//
// The defaults are those of the XDG Base Directory Specification.
func OwnFiles(getenv func(string) string, extra ...string) []string {
	home := getenv("HOME")
	own := slices.Clone(extra)
	for _, d := range []struct{ env, fallback string }{
		{"XDG_STATE_HOME", ".local/state"},
		{"XDG_CONFIG_HOME", ".config"},
		{"XDG_CACHE_HOME", ".cache"},
	} {
		base := getenv(d.env)
		if !filepath.IsAbs(base) { // the specification: a relative value is ignored
			if !filepath.IsAbs(home) {
				continue
			}
			base = filepath.Join(home, d.fallback)
		}
		own = append(own, filepath.Join(base, "guardproxy"))
	}
	slices.Sort(own)
	return slices.Compact(own)
}
