package confine

import (
	"path/filepath"
	"slices"
)

// xdg are the directories that guardproxy has a directory in, by the XDG Base
// Directory Specification.
var xdg = []struct{ env, fallback string }{
	{"XDG_STATE_HOME", ".local/state"},
	{"XDG_CONFIG_HOME", ".config"},
	{"XDG_CACHE_HOME", ".cache"},
}

// OwnFiles returns where guardproxy itself looks for its files, given this
// environment: its state (keys, recordings and log), configuration and cache,
// each in its XDG directory or that directory's default, and whatever the
// configuration adds (guard modules, recordings kept elsewhere). [Masks] are
// what a command is kept from.
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
	for _, d := range xdg {
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

// Masks returns the paths that a confined command must neither read nor write:
// [OwnFiles], and the same directories where a guardproxy finds them that was
// started with another environment, by the defaults under $HOME and under each
// of homes (what the user database says). A server's environment and that of
// the command's shell need not agree.
//
// It is an error, a [*Refused], if no home is known and one of the XDG variables
// is not set: then nobody knows what to mask.
func Masks(getenv func(string) string, homes []string, extra ...string) ([]string, error) {
	masks := OwnFiles(getenv, extra...)
	known := false
	for _, home := range append([]string{getenv("HOME")}, homes...) {
		if !filepath.IsAbs(home) {
			continue
		}
		known = true
		for _, d := range xdg {
			masks = append(masks, filepath.Join(home, d.fallback, "guardproxy"))
		}
	}
	for _, d := range xdg {
		if !known && !filepath.IsAbs(getenv(d.env)) {
			return nil, &Refused{Reason: "no home directory is known, so guardproxy's own files can't be kept from the command",
				Advice: "set HOME, or XDG_STATE_HOME, XDG_CONFIG_HOME and XDG_CACHE_HOME"}
		}
	}
	slices.Sort(masks)
	return slices.Compact(masks), nil
}
