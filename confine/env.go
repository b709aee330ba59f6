package confine

import (
	"path/filepath"
	"slices"
	"strings"
)

// dropped are the variables that don't reach a confined command, besides those
// whose name says that they hold a secret. Each is either code that some program
// runs when it starts, a handle to something outside the sandbox, or a
// credential. What is merely private is left: a build may need it.
var dropped = map[string]string{
	// code, run before the command's own
	"GCONV_PATH":      "code",
	"BASH_ENV":        "code",
	"ENV":             "code",
	"PROMPT_COMMAND":  "code",
	"NODE_OPTIONS":    "code",
	"PYTHONSTARTUP":   "code",
	"PERL5OPT":        "code",
	"RUBYOPT":         "code",
	"GIT_SSH":         "code",
	"GIT_SSH_COMMAND": "code",
	"GIT_ASKPASS":     "code",
	"SSH_ASKPASS":     "code",
	// handles to the outside
	"SSH_AUTH_SOCK":            "handle",
	"SSH_AGENT_PID":            "handle",
	"GPG_AGENT_INFO":           "handle",
	"DBUS_SESSION_BUS_ADDRESS": "handle",
	"DBUS_SYSTEM_BUS_ADDRESS":  "handle",
	"DOCKER_HOST":              "handle",
	"CONTAINER_HOST":           "handle",
	"WAYLAND_DISPLAY":          "handle",
	"DISPLAY":                  "handle",
	"XAUTHORITY":               "handle",
	"XDG_RUNTIME_DIR":          "handle",
	"NOTIFY_SOCKET":            "handle",
	"TMUX":                     "handle",
	// credentials under names that do not say so
	"ANTHROPIC_CUSTOM_HEADERS":       "credential",
	"AWS_ACCESS_KEY_ID":              "credential",
	"AWS_BEARER_TOKEN_BEDROCK":       "credential",
	"GOOGLE_APPLICATION_CREDENTIALS": "credential",
	"KUBECONFIG":                     "credential",
	"NETRC":                          "credential",
	"PGPASSFILE":                     "credential",
}

// droppedPrefixes are of variables that run code in every program (ld.so(8)),
// of functions that bash takes from its environment, and of guardproxy's own.
var droppedPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "GUARDPROXY_"}

// secretWords end a word of a name, in which words stand between characters that
// are neither letters nor digits: GITHUB_TOKEN, PGPASSWORD, npm_config__authToken.
var secretWords = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS", "APIKEY"}

// secretEnds end a whole name.
var secretEnds = []string{"_KEY", "_PAT", "_PASS", "_PWD", "_CREDS", "_CREDENTIAL", "_SECRETS", "_TOKENS", "_AUTH"}

// SecretName says whether the name of a variable says that it holds a secret.
// Case does not matter.
func SecretName(name string) bool {
	name = strings.ToUpper(name)
	for _, end := range secretEnds {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') })
	for _, word := range words {
		for _, end := range secretWords {
			if strings.HasSuffix(word, end) {
				return true
			}
		}
	}
	return false
}

// EnvRules are exceptions from what [Env] leaves out. No rule lets a variable
// through that runs code in every program (LD_PRELOAD and the like), or one of
// guardproxy's own.
type EnvRules struct {
	// Keep are names that stay.
	Keep []string `json:"keep,omitempty"`
	// Only, if not nil, are the only names that stay, besides those in Keep.
	Only []string `json:"only,omitempty"`
}

// Env returns the environment that a confined command gets out of environ
// (name=value, as os.Environ gives): without code that runs at start-up
// (LD_PRELOAD, BASH_ENV, exported bash functions, NODE_OPTIONS and the like),
// handles to the outside (agent and bus sockets, displays), secrets by their
// name (see [SecretName]), and everything named GUARDPROXY_…. The order stays;
// environ is not changed.
func Env(environ []string, rules EnvRules) []string {
	kept := make([]string, 0, len(environ))
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || slices.ContainsFunc(droppedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		if !slices.Contains(rules.Keep, name) {
			if dropped[name] != "" || SecretName(name) || rules.Only != nil && !slices.Contains(rules.Only, name) {
				continue
			}
		}
		kept = append(kept, kv)
	}
	return kept
}

// plainMessages lets programs speak the language that denials are recognised
// in, and leaves all other habits of the locale as they are: LC_ALL would
// override both, so its value moves to where it can be overridden (locale(7)).
func plainMessages(environ []string) []string {
	out := make([]string, 0, len(environ)+2)
	all := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "LC_ALL="); ok {
			all = v
		}
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if name == "LANGUAGE" || name == "LC_ALL" || name == "LC_MESSAGES" || all != "" && (name == "LANG" || strings.HasPrefix(name, "LC_")) {
			continue
		}
		out = append(out, kv)
	}
	if all != "" {
		out = append(out, "LANG="+all)
	}
	return append(out, "LC_MESSAGES=C.UTF-8")
}

// caches are the variables by which tools find their caches, and the directory
// below the temporary one that they get: a cache is written by nearly every
// build and lies in the home directory, which a command can't write.
var caches = []struct{ name, dir string }{
	{"GOCACHE", "go-build"},
	{"npm_config_cache", "npm"},
	{"UV_CACHE_DIR", "uv"},
	{"PIP_CACHE_DIR", "pip"},
}

// withTemp sets TMPDIR and the caches below it. A cache that the user keeps in a
// writable root stays there.
func withTemp(environ []string, temp string, roots []string) []string {
	environ = setenv(environ, "TMPDIR", temp)
	for _, c := range caches {
		if v := getenv(environ, c.name); filepath.IsAbs(v) && slices.ContainsFunc(roots, func(r string) bool { return Within(v, r) }) {
			continue
		}
		environ = setenv(environ, c.name, temp+"/.cache/"+c.dir)
	}
	return environ
}

func getenv(environ []string, name string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// setenv returns environ with name set to value, once.
func setenv(environ []string, name, value string) []string {
	out := make([]string, 0, len(environ)+1)
	for _, kv := range environ {
		if n, _, _ := strings.Cut(kv, "="); n != name {
			out = append(out, kv)
		}
	}
	return append(out, name+"="+value)
}
