package proxy

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// ownFiles finds guardproxy's own files in the arguments of a call. It is a
// fence for the honest and the clumsy; a shell can build any path out of
// pieces, and there the confinement layer is the wall.
type ownFiles struct {
	roots     []string // absolute and clean, with symlinks as given and resolved
	spelled   []string // texts that name a root: absolute, and by way of home
	workspace string
}

func newOwnFiles(paths []string, workspace string) *ownFiles {
	o := &ownFiles{workspace: workspace}
	home, _ := os.UserHomeDir()
	seen := map[string]bool{}
	add := func(p string) {
		if p == "/" || seen[p] {
			return
		}
		seen[p] = true
		o.roots = append(o.roots, p)
		o.spelled = append(o.spelled, p)
		if rest, ok := strings.CutPrefix(p, home+"/"); ok && home != "" && home != "/" {
			for _, h := range []string{"~/", "$HOME/", "${HOME}/"} {
				o.spelled = append(o.spelled, h+rest)
			}
		}
	}
	for _, p := range paths {
		if p = filepath.Clean(p); filepath.IsAbs(p) {
			add(p)
			add(resolve(p))
		}
	}
	return o
}

const maxPath = 4096 // bytes: Linux' PATH_MAX

// resolve follows symlinks in the longest part of path that exists.
func resolve(path string) string {
	if len(path) > maxPath {
		return path // nothing can be opened by it
	}
	rest := ""
	for p := path; ; {
		if r, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(r, rest)
		}
		parent := filepath.Dir(p)
		if parent == p {
			return path
		}
		rest = filepath.Join(filepath.Base(p), rest)
		p = parent
	}
}

// inText returns the own file that some string in the arguments names, or "".
func (o *ownFiles) inText(t *tape.Tape) string {
	if len(o.spelled) == 0 {
		return ""
	}
	for i := range t.Len() {
		if t.Kind(i) != tape.String {
			continue
		}
		if own := o.inString(t.Str(i)); own != "" {
			return own
		}
	}
	return ""
}

// inString is inText for one string.
func (o *ownFiles) inString(s string) string {
	s = squeeze(s)
	for _, own := range o.spelled {
		if names(s, own) {
			return own
		}
	}
	return ""
}

// squeeze removes what a path means nothing by: doubled slashes and /./ .
func squeeze(s string) string {
	if !strings.Contains(s, "//") && !strings.Contains(s, "/./") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '/' {
			for i+1 < len(s) && s[i+1] == '/' || i+2 < len(s) && s[i+1] == '.' && s[i+2] == '/' {
				if s[i+1] == '/' {
					i++
				} else {
					i += 2
				}
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// names reports whether s holds own as a whole path or as the start of a
// longer one.
func names(s, own string) bool {
	for {
		i := strings.Index(s, own)
		if i < 0 {
			return false
		}
		s = s[i+len(own):]
		if s == "" || !inName(s) {
			return true
		}
	}
}

// inName reports whether s goes on with the same path element.
func inName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c >= 0x80:
			return true
		case c != '.':
			return false
		}
	}
	return false
}

// holds returns the own file that a path of a call leads to, or "". Relative
// paths are taken from the workspace; symlinks are followed as far as they
// exist.
func (o *ownFiles) holds(path string) string {
	if len(o.roots) == 0 || path == "" {
		return ""
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			path = filepath.Join(home, rest)
		}
	}
	path = strings.TrimPrefix(path, "file://")
	if !filepath.IsAbs(path) {
		if o.workspace == "" {
			return ""
		}
		path = filepath.Join(o.workspace, path)
	}
	clean := filepath.Clean(path)
	for _, p := range []string{clean, resolve(clean)} {
		for _, own := range o.roots {
			if p == own || strings.HasPrefix(p, own+"/") {
				return own
			}
		}
	}
	return ""
}
