// Package home knows where guardproxy keeps its own files, and what stands in
// those that several verbs read.
package home

import (
	"errors"
	"path/filepath"
)

// Dirs are guardproxy's own directories, as absolute paths. None is created
// here.
type Dirs struct {
	// State holds the installation's key and what must outlive a restart.
	State string
	// Config is where a user's configuration lies by custom.
	Config string
	// Cache holds what can be made again, such as compiled guards.
	Cache string
}

// ErrNone is returned by Find when the environment names no home.
var ErrNone error = noHome{errors.New("no directory for guardproxy's state: HOME is not set")}

type noHome struct{ error }

func (noHome) Hint() string { return "set HOME, or XDG_STATE_HOME, XDG_CONFIG_HOME and XDG_CACHE_HOME" }

// Find returns the directories that an environment asks for, by the XDG
// Base Directory Specification: a variable counts if it holds an absolute
// path, else the customary place under HOME is taken. lookup is os.LookupEnv
// or stands in for it.
func Find(lookup func(string) (string, bool)) (Dirs, error) {
	var d Dirs
	for _, x := range []struct {
		dir            *string
		variable, home string
	}{
		{&d.State, "XDG_STATE_HOME", ".local/state"},
		{&d.Config, "XDG_CONFIG_HOME", ".config"},
		{&d.Cache, "XDG_CACHE_HOME", ".cache"},
	} {
		base, _ := lookup(x.variable)
		if !filepath.IsAbs(base) {
			home, _ := lookup("HOME")
			if !filepath.IsAbs(home) {
				return Dirs{}, ErrNone
			}
			base = filepath.Join(home, x.home)
		}
		*x.dir = filepath.Join(base, "guardproxy")
	}
	return d, nil
}

// Resolve follows links as far as the path exists: the state directory may not
// exist yet, and then its parent decides where it is going to be.
func Resolve(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Resolve(parent), filepath.Base(path))
}
