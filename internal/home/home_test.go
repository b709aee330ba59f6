package home

import (
	"errors"
	"testing"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want Dirs
	}{
		{"by HOME", map[string]string{"HOME": "/h"}, Dirs{"/h/.local/state/guardproxy", "/h/.config/guardproxy", "/h/.cache/guardproxy"}},
		{"by XDG", map[string]string{"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k"}, Dirs{"/s/guardproxy", "/c/guardproxy", "/k/guardproxy"}},
		{"a relative variable does not count", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "state"}, Dirs{"/h/.local/state/guardproxy", "/h/.config/guardproxy", "/h/.cache/guardproxy"}},
		{"no home", nil, Dirs{}},
		{"a relative home", map[string]string{"HOME": "h"}, Dirs{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(func(k string) (string, bool) { v, ok := c.env[k]; return v, ok })
			if got != c.want || errors.Is(err, ErrNone) != (c.want == Dirs{}) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	var h interface{ Hint() string }
	if !errors.As(ErrNone, &h) || h.Hint() == "" {
		t.Error("no hint with ErrNone")
	}
}
