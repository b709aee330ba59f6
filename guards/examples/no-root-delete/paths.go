//go:build wasip1

package main

import "strings"

// home stands for the user's home directory, whatever it is.
const home = "/home/~"

// clean resolves a path's ".", ".." and repeated slashes against dir, which
// may be "" for unknown. A path that stays relative is returned as it is.
// /proc/N/root and /proc/N/cwd are the directories that they lead to.
func clean(dir, p string) string {
	if !strings.HasPrefix(p, "/") {
		if dir == "" {
			return p
		}
		p = dir + "/" + p
	}
	var space [16]string
	parts := space[:0]
	for rest := p; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch {
		case part == "" || part == ".":
		case part == "..":
			if len(parts) > 0 {
				parts = parts[:len(parts)-1]
			}
		case len(parts) > 0 && len(parts) < 5 && parts[0] == "proc" && (part == "root" || len(parts) > 1 && pattern(part)):
			parts = parts[:0]
		case len(parts) > 0 && len(parts) < 5 && parts[0] == "proc" && part == "cwd" && strings.HasPrefix(dir, "/"):
			parts = parts[:0]
			rest, dir = dir+"/"+rest, ""
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
// home, an alternative in a variable by itself, a pattern in parentheses by *,
// anything else by nothing. set says what to take ${NAME+alternative} for: the
// alternative, or nothing. Unsure says that something other than the home
// directory or a pattern was in it; guarded, that a variable was in it which
// can't be empty.
func expand(w string, set bool) (p string, unsure, guarded bool) {
	e := expander{set: set}
	if strings.HasPrefix(w, "~") {
		user, rest, _ := strings.Cut(w[1:], "/")
		switch user {
		case "":
			w = home + "/" + rest
		case "root":
			w = "/root/" + rest
		case "+":
			w = "./" + rest
		case "-": // the working directory before
			return rest, true, true
		default:
			w = "/home/" + user + "/" + rest
		}
	}
	at := skip(w, 0)
	for at < len(w) && kind[w[at]]&expanding == 0 {
		at = skip(w, at+1)
	}
	if at == len(w) {
		return w, false, false
	}
	e.word(w, 0)
	return e.out.String(), e.unsure, e.guarded
}

type expander struct {
	set             bool
	out             strings.Builder
	unsure, guarded bool
}

func (e *expander) word(w string, depth int) {
	if depth > 8 {
		e.unsure = true
		return
	}
	for i := 0; i < len(w); {
		switch {
		case w[i] == '`':
			e.unsure = true
			end := strings.IndexByte(w[i+1:], '`')
			if end < 0 {
				return
			}
			i += end + 2
		case strings.IndexByte("!@*+?", w[i]) >= 0 && i+1 < len(w) && w[i+1] == '(':
			e.out.WriteByte('*')
			i += 1 + closing(w[i+1:])
		case w[i] == '$' && i+1 < len(w) && w[i+1] == '{':
			n := closing(w[i+1:])
			e.parameter(strings.TrimSuffix(w[i+2:i+1+n], "}"), depth)
			i += 1 + n
		case w[i] == '$' && i+1 < len(w) && w[i+1] == '(':
			e.unsure = true
			i += 1 + closing(w[i+1:])
		case w[i] == '$' && i+1 < len(w):
			name := variable(w[i+1:])
			if name == "" {
				name = w[i+1 : i+2] // $1, $@, $$
			}
			i += 1 + len(name)
			e.parameter(name, depth)
		default:
			e.out.WriteByte(w[i])
			i++
		}
	}
}

// parameter takes what stands between the braces of ${…}.
func (e *expander) parameter(in string, depth int) {
	name := variable(in)
	op := in[len(name):]
	switch {
	case name == "HOME":
		e.out.WriteString(home)
		return
	case name == "PWD" && op == "":
		e.out.WriteString("./")
		return
	}
	e.unsure = true
	op = strings.TrimPrefix(op, ":")
	if op == "" {
		return
	}
	switch op[0] {
	case '?':
		if len(in) > len(name)+1 && in[len(name)] == ':' {
			e.out.WriteString("guarded")
			e.guarded = true
		}
	case '+':
		if !e.set {
			return
		}
		fallthrough
	case '-', '=':
		e.word(unquote(op[1:]), depth+1)
	}
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
