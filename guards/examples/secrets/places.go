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

// wild is where a pattern in a part of a path begins, or -1.
func wild(part string) int {
	for i := range len(part) {
		switch part[i] {
		case '*', '?', '[', '{':
			return i
		}
	}
	return -1
}

// fits compares a part of a path with a name; star is where a pattern in it
// begins, or -1. A pattern fits what it may become if it begins with at least
// one letter of the name.
func fits(part string, star int, name string) bool {
	if star >= 0 {
		return star > 0 && strings.HasPrefix(name, part[:star])
	}
	return part == name
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
	if at := wild(last); at > 0 {
		for _, f := range files {
			if (f[0] == '.' || strings.HasPrefix(f, "id_")) && strings.HasPrefix(f, last[:at]) {
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
		star := wild(part)
		for _, d := range near {
			if !fits(part, star, d.dir) || d.dir == "etc" && i > 0 || d.dir == "gcloud" && !(i > 0 && parts[i-1] == ".config") || d.dir == "self" && !(i > 0 && parts[i-1] == "proc") {
				continue
			}
			if d.files == nil {
				return d.dir
			}
			star := wild(parts[i+1])
			for _, f := range d.files {
				if fits(parts[i+1], star, f) || strings.HasPrefix(parts[i+1], "*") {
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
