//go:build wasip1

package main

import "strings"

// Where secrets lie: names of files wherever they are, the ends of names, and
// files in directories of a known name. All in lower case.

var files = []string{
	".env", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".pypirc", ".git-credentials", ".dockercfg", ".vault-token", ".secrets", ".htpasswd", ".boto", ".s3cfg",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "application_default_credentials.json", "credentials.tfrc.json", "wallet.dat", "logins.json", "key4.db", "login data",
	".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".node_repl_history", ".lesshst", "fish_history",
}

var known = func() map[string]bool {
	m := map[string]bool{}
	for _, f := range files {
		m[f] = true
	}
	return m
}()

// hidden are those that patterns are held against, and some that begin alike.
var hidden = func() []string {
	out := []string{".env.local", ".env.production", ".env.development", ".env.staging", ".env.test"}
	for _, f := range files {
		if f[0] == '.' || strings.HasPrefix(f, "id_") {
			out = append(out, f)
		}
	}
	return out
}()

var ends = map[string]bool{".pem": true, ".key": true, ".p12": true, ".pfx": true, ".jks": true, ".keystore": true, ".kdbx": true, ".ppk": true, ".env": true, ".agekey": true}

type place struct {
	dir   string
	files []string // none: all of it, but for what is public
}

var dirs = []place{
	{".ssh", nil}, {".gnupg", nil}, {".password-store", nil}, {".azure", nil}, {"gcloud", nil}, {"keychains", nil}, {"keyrings", nil},
	{".aws", []string{"credentials", "sso", "cli"}}, {".kube", []string{"config", "cache"}}, {".docker", []string{"config.json"}},
	{"gh", []string{"hosts.yml"}}, {"hub", []string{}}, {".cargo", []string{"credentials", "credentials.toml"}}, {".gem", []string{"credentials"}},
	{"rclone", []string{"rclone.conf"}}, {"op", []string{"config"}}, {".claude", []string{".credentials.json"}}, {".codex", []string{"auth.json"}},
	{".gemini", []string{"oauth_creds.json"}}, {".qwen", []string{"oauth_creds.json"}}, {"opencode", []string{"auth.json"}}, {".config", []string{"op"}},
	{"etc", []string{"shadow", "gshadow", "shadow-", "master.passwd"}}, {"self", []string{"environ"}},
}

// leads are those directories by their first letters.
var leads = func() (l [256][]*place) {
	for i := range dirs {
		c := dirs[i].dir[0]
		l[c] = append(l[c], &dirs[i])
	}
	return l
}()

// public are names in such directories that are no secrets; end is what such a
// name has from its last dot on.
func public(name, end string) bool {
	switch end {
	case ".pub", ".example", ".sample", ".template", ".dist", ".tmpl", ".defaults":
		return true
	}
	return name == "known_hosts" || name == "known_hosts.old" || name == "config" || name == "authorized_keys"
}

// shape is the pattern that the shell sees in a part of a path, made of * and ?
// alone: a bracket is one character, whatever the shell expands is any text. It
// is "" if there is none.
func shape(part string) string {
	at := strings.IndexAny(part, "*?[$`")
	if at < 0 {
		return ""
	}
	b := append(make([]byte, 0, len(part)), part[:at]...)
	pattern := false
	for i := at; i < len(part); i++ {
		c := part[i]
		switch c {
		case '*', '?':
			pattern = true
		case '[':
			if n := bracket(part[i:]); n > 0 {
				c, i, pattern = '?', i+n, true
			}
		case '$', '`':
			if n := expansion(part[i:]); n > 0 {
				c, i, pattern = '*', i+n, true
			}
		}
		b = append(b, c)
	}
	if !pattern {
		return ""
	}
	return string(b)
}

// bracket is where a bracket at the beginning is closed, 0 if it is not.
func bracket(s string) int {
	from := 1
	if len(s) > 1 && (s[1] == '!' || s[1] == '^') {
		from++
	}
	if len(s) <= from { // the first one in it stands for itself
		return 0
	}
	n := strings.IndexByte(s[from+1:], ']')
	if n < 0 {
		return 0
	}
	return from + 1 + n
}

// expansion is where the variable or command at the beginning ends, 0 if there
// is none.
func expansion(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch c := s[1]; {
	case s[0] == '`' || c == '(':
		return len(s) - 1
	case c == '{':
		if n := strings.IndexByte(s, '}'); n > 0 {
			return n
		}
		return len(s) - 1
	}
	n := 1
	for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n - 1
}

// fits compares a part of a path, and its shape, with a name. A pattern has to
// begin with at least one letter of the name.
func fits(part, shape, name string) bool {
	if shape == "" {
		return part == name
	}
	if shape[0] != name[0] {
		return false
	}
	star, back, n, p := -1, 0, 0, 0
	for n < len(name) {
		switch {
		case p < len(shape) && shape[p] == '*':
			star, back = p, n
			p++
		case p < len(shape) && (shape[p] == '?' || shape[p] == name[n]):
			p++
			n++
		case star >= 0:
			back++
			p, n = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(shape[p:], "*") == ""
}

// secret returns what a path names that is secret, or "".
func secret(path string) string {
	if len(path) > 4096 || path == "" || strings.HasPrefix(path, "http") {
		return ""
	}
	path = strings.ToLower(path)
	var space [16]string // most paths need no memory of the heap
	parts := space[:0]
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			parts = parts[:max(0, len(parts)-1)]
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	last := parts[len(parts)-1]
	end := last[max(strings.LastIndexByte(last, '.'), 0):]
	if public(last, end) && parent(parts) != ".kube" {
		return ""
	}
	if known[last] {
		return last
	}
	if pattern := shape(last); pattern != "" {
		for _, f := range hidden {
			if fits(last, pattern, f) {
				return f
			}
		}
	}
	if strings.HasPrefix(last, ".env.") || strings.HasPrefix(last, "client_secret") && strings.HasSuffix(last, ".json") {
		return last
	}
	if end[0] == '.' && ends[end] && !certificate(last, end) {
		return "*" + end
	}
	if last == ".npmrc" && (strings.HasPrefix(path, "~") || strings.HasPrefix(path, "$home") || strings.HasPrefix(path, "/home/") || strings.HasPrefix(path, "/root/") || strings.HasPrefix(path, "/users/")) {
		return last // a project's own holds settings
	}
	if last[0] == '.' {
		for _, d := range leads['.'] {
			if d.files == nil && last == d.dir {
				return d.dir // a search in all of it
			}
		}
	}
	if parts[0] == "proc" && last == "environ" {
		return "environ"
	}
	for i, part := range parts[:len(parts)-1] {
		near := leads[part[0]]
		if near == nil {
			continue
		}
		pattern := shape(part)
		for _, d := range near {
			if !fits(part, pattern, d.dir) || d.dir == "etc" && i > 0 || d.dir == "gcloud" && !(i > 0 && parts[i-1] == ".config") || d.dir == "self" && !(i > 0 && parts[i-1] == "proc") {
				continue
			}
			if d.files == nil {
				return d.dir
			}
			pattern := shape(parts[i+1])
			for _, f := range d.files {
				if fits(parts[i+1], pattern, f) || strings.HasPrefix(parts[i+1], "*") {
					return d.dir + "/" + f
				}
			}
		}
	}
	return ""
}

func parent(parts []string) string {
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// certificate reports whether a name is likely that of something public, or of
// no key at all.
func certificate(name, end string) bool {
	stem := strings.TrimSuffix(name, end)
	if end != ".pem" && end != ".key" || stem == "" {
		return end == ".env" && stem == "process"
	}
	for _, word := range []string{"cert", "ca", "chain", "pub", "public", "fullchain", "bundle", "root", "crt"} {
		if stem == word || strings.Contains(stem, "cert") || strings.HasSuffix(stem, "-"+word) || strings.HasSuffix(stem, "_"+word) || strings.HasPrefix(stem, word+"-") || strings.HasPrefix(stem, word+"_") {
			return true
		}
	}
	// data.key and this.key are members of objects, not files.
	return end == ".key" && (strings.ContainsAny(stem, "(){}$=,;\"' ") || strings.HasSuffix(stem, "]"))
}
