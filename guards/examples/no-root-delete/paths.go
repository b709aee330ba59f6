//go:build wasip1

package main

import "strings"

// home stands for the user's home directory, whatever it is.
const home = "/home/~"

// clean resolves a path's ".", ".." and repeated slashes against dir, which
// may be "" for unknown. A path that stays relative is returned as it is.
func clean(dir, p string) string {
	if !strings.HasPrefix(p, "/") {
		if dir == "" {
			return p
		}
		p = dir + "/" + p
	}
	var parts []string
	for _, part := range strings.Split(p, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(parts) > 0 {
				parts = parts[:len(parts)-1]
			}
		default:
			parts = append(parts, part)
		}
	}
	return "/" + strings.Join(parts, "/")
}

// precious reports whether deleting p, an absolute clean path or a pattern,
// deletes the root, a home, or a top-level system directory, or all that is
// in one.
func precious(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	parts := strings.Split(p[1:], "/")
	for len(parts) > 0 && all(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1] // dir/* is what is in dir
	}
	switch len(parts) {
	case 0:
		return true
	case 1:
		return parts[0] == "" || pattern(parts[0]) || system(parts[0])
	case 2:
		return is(parts[0], "home", "users") || pattern(parts[0])
	}
	return false
}

func system(name string) bool {
	return is(name, "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt",
		"opt", "proc", "root", "run", "sbin", "srv", "sys", "usr", "var", "nix",
		"system", "library", "applications", "users", "private", "volumes", "cores")
}

func is(s string, names ...string) bool {
	for _, n := range names {
		if strings.EqualFold(s, n) {
			return true
		}
	}
	return false
}

func pattern(s string) bool { return strings.ContainsAny(s, "*?[") }

// all reports whether a pattern is made to match everything, or all hidden
// names: *, .*, ?*, .[!.]*, [a-z]*.
func all(s string) bool {
	if !pattern(s) {
		return false
	}
	inside := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case inside:
			inside = c != ']'
		case c == '[':
			inside = true
		case c != '*' && c != '?' && c != '.':
			return false
		}
	}
	return true
}

// expand replaces what the shell expands in a word: the home directory by
// home, anything else by nothing. Unsure says that something other than the
// home directory or a pattern was in it; guarded, that a variable was in it
// which can't be empty.
func expand(w string) (p string, unsure, guarded bool) {
	if strings.HasPrefix(w, "~") {
		user, rest, _ := strings.Cut(w[1:], "/")
		switch user {
		case "":
			w = home + "/" + rest
		case "root":
			w = "/root/" + rest
		case "+", "-": // the working directory, the one before
			return rest, true, true
		default:
			w = "/home/" + user + "/" + rest
		}
	}
	var b strings.Builder
	for i := 0; i < len(w); {
		switch {
		case w[i] == '`':
			end := strings.IndexByte(w[i+1:], '`')
			if end < 0 {
				return b.String(), true, guarded
			}
			i += end + 2
			unsure = true
		case w[i] == '$' && i+1 < len(w) && (w[i+1] == '{' || w[i+1] == '('):
			at, end := i+1, closing(w[i+1:])
			in := strings.Trim(w[at:at+end], "{}")
			i += 1 + end
			switch name := variable(in); {
			case name == "HOME":
				b.WriteString(home)
			case strings.HasPrefix(in[len(name):], ":?") && w[at] == '{':
				b.WriteString("guarded")
				unsure, guarded = true, true
			default:
				unsure = true
				if _, otherwise, ok := strings.Cut(in, "-"); ok && w[at] == '{' {
					b.WriteString(otherwise) // ${NAME:-otherwise}
				}
			}
		case w[i] == '$' && i+1 < len(w):
			name := variable(w[i+1:])
			if name == "" {
				name = w[i+1 : i+2] // $1, $@, $$
			}
			i += 1 + len(name)
			switch name {
			case "HOME":
				b.WriteString(home)
			case "PWD":
				b.WriteString("./")
			default:
				unsure = true
			}
		default:
			b.WriteByte(w[i])
			i++
		}
	}
	return b.String(), unsure, guarded
}

// closing is the length of a bracketed piece at the start of s.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{', '(':
			depth++
		case '}', ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// variable is the name at the start of s.
func variable(s string) string {
	for i := 0; i < len(s); i++ {
		c := s[i] | 0x20
		if !(c >= 'a' && c <= 'z' || s[i] == '_' || i > 0 && s[i] >= '0' && s[i] <= '9') {
			return s[:i]
		}
	}
	return s
}
