//go:build wasip1

package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/guards/examples/shell"
	guard "github.com/guardproxy/guardproxy/guards/sdk/go"
)

const (
	names  = shell.Own << iota // files, without showing what is in them
	copies                     // to the last word
	greps                      // for the first word
	finds
	gits
	links
	changesDir
	prints
	filters // by the program in the first word
)

func init() {
	shell.Register(names, "ls stat test [ [[ echo printf touch chmod chown mkdir rm rmdir unlink shred tee which du tree file dirname basename realpath readlink mktemp ssh ssh-add ssh-keygen ssh-copy-id sftp export man type age-keygen mkcert kubectl helm terraform")
	shell.Register(copies, "cp mv install rsync scp")
	shell.Register(greps, "grep egrep fgrep rg ag ack zgrep")
	shell.Register(finds, "find gfind bfs fd fdfind")
	shell.Register(filters, "sed gsed awk gawk mawk nawk jq yq gojq jaq")
	shell.Register(gits, "git")
	shell.Register(links, "ln")
	shell.Register(changesDir, "cd pushd")
	for _, p := range printers {
		program, _, _ := strings.Cut(p, " ")
		printersOf[program] = append(printersOf[program], p)
		shell.Register(prints, program)
	}
	shell.Register(prints, "kubectl oc")
	for _, o := range strings.Fields("-i --env-file --env_file --kubeconfig --key --cert --cacert --private-key --identity --key-file --tls-key --tls-cert --ssl-key -keyout -out -inkey --output -o --signing-key --keystore") {
		uses[o] = true
	}
}

var (
	// uses are options whose value is a secret that is used and not shown, or
	// a file that is written.
	uses       = map[string]bool{}
	printersOf = map[string][]string{}
)

// printers are commands that print a secret, as the words that begin them.
var printers = []string{
	"gh auth token", "gh auth status -t", "gh auth status --show-token", "gcloud auth print-access-token", "gcloud auth print-identity-token", "gcloud auth application-default print-access-token", "az account get-access-token",
	"aws configure get", "aws configure export-credentials", "aws sts get-session-token", "aws secretsmanager get-secret-value", "gcloud secrets versions access",
	"vault kv get", "vault read", "op read", "op item get", "pass show", "bw get", "security find-generic-password", "security find-internet-password", "secret-tool lookup",
	"git credential fill", "heroku auth:token", "gpg --export-secret-keys", "doppler secrets", "npm token", "kubectl config view --raw", "kubectl create token", "chamber read", "chamber export", "keyring get", "lpass show", "gopass show", "ansible-vault view", "ansible-vault decrypt", "terraform state pull", "tofu state pull",
	"aws ssm get-parameter --with-decryption", "aws ssm get-parameters --with-decryption", "aws ssm get-parameters-by-path --with-decryption", "aws ecr get-login-password", "aws codeartifact get-authorization-token", "az keyvault secret show", "sops -d", "sops --decrypt", "age -d",
}

//go:wasmexport guard_config_v1
func config() int32 {
	if _, ok := shell.Opaque(guard.Get); !ok || !shell.OnlySettings(guard.Get, "allow") {
		return guard.Deny("the settings are allow, a list of the ends of paths, and opaque: search, pass, ask or deny")
	}
	return guard.Pass
}

//go:wasmexport guard_check_v1
func check() int32 {
	var j judge
	shell.List(guard.Get, "/config/allow", func(end string) bool {
		j.allow = append(j.allow, end)
		return true
	})
	j.dirs = slices.Collect(shell.Dirs(guard.Get))
	opaque, isShell := guard.Get("/call/shell/opaque")
	count := 0
	if isShell {
		for argv := range guard.Commands() {
			if len(argv) == 0 {
				continue
			}
			count++
			if what := j.command(argv); what != "" {
				return deny(what)
			}
		}
	}
	if what := j.paths(); what != "" {
		return deny(what)
	}
	if !isShell {
		return guard.Pass
	}
	unread := opaque == "true"
	if setting, _ := shell.Opaque(guard.Get); setting == shell.Search && (j.doubt || unread && count == 0) {
		if what := spoken(shell.Text(guard.Get)); what != "" && !j.allowed(what) {
			return guard.Deny("this command cannot be read to the end, and its text speaks of " + what + ", which is secret. Write each command plainly, without variables and code in other languages")
		}
	}
	return shell.Answer(unread)
}

func deny(what string) int32 {
	return guard.Deny(what + " holds or prints secrets, which this session does not read. Use an example file, or say which value is needed and let the user put it in place")
}

type judge struct {
	allow []string
	dirs  []string // the command changes to
	doubt bool
}

func (j *judge) allowed(path string) bool {
	for _, end := range j.allow {
		if path == end || strings.HasSuffix(path, "/"+end) {
			return true
		}
	}
	return false
}

// secret looks at a path, from each directory that it may be relative to.
func (j *judge) secret(path string) string {
	if j.allowed(path) {
		return ""
	}
	if what := secret(path); what != "" {
		return what
	}
	if !strings.HasPrefix(path, "/") {
		for _, d := range j.dirs {
			if what := secret(d + "/" + path); what != "" {
				return what
			}
		}
	}
	return ""
}

// paths looks at what tools read, and what a shell opens for reading.
func (j *judge) paths() string {
	for i := 0; ; i++ {
		at := "/call/paths/" + strconv.Itoa(i)
		op, ok := guard.Get(at + "/op")
		if !ok {
			break
		}
		if op != "read" {
			continue
		}
		if p, _ := guard.Get(at + "/path"); j.secret(p) != "" {
			return j.secret(p)
		}
	}
	kind, _ := guard.Get("/call/kind")
	if kind == "shell" || kind == "write" || kind == "code" {
		return ""
	}
	// A tool that nobody catalogued has its paths somewhere; a search for
	// contents may name its files by a pattern.
	for p := range shell.Paths(guard.Get, "path", "file_path", "filePath", "file", "filepath", "filename", "absolute_path", "target_file", "uri", "glob", "include") {
		if what := j.secret(strings.TrimPrefix(p, "file://")); what != "" {
			return what
		}
	}
	return ""
}

// command returns the secret that a command reads or prints, or "".
func (j *judge) command(argv []string) string {
	program := shell.Look(argv[0])
	name, kind := program.Name, program.Kind
	j.doubt = j.doubt || program.Unseen(argv)
	if kind&changesDir != 0 {
		if to := argv[len(argv)-1]; len(argv) > 1 && len(j.dirs) < 16 {
			if n := len(j.dirs); n > 0 && !strings.HasPrefix(to, "/") {
				to = j.dirs[n-1] + "/" + to
			}
			j.dirs = append(j.dirs, to)
		}
		return ""
	}
	if kind&prints != 0 {
		if what := printed(name, argv[1:]); what != "" {
			return what
		}
	}
	args := argv[1:]
	switch {
	case kind&(shell.Wrapper|shell.IsShell) != 0:
		return "" // the command that they run follows
	case kind&finds != 0:
		return j.find(args)
	case kind&gits != 0:
		return j.git(args)
	case name == "kubectl" && len(args) > 0 && (args[0] == "cp" || args[0] == "create"):
	case kind&links != 0:
		return j.words(name, args) // a link to it can be read by another name
	case kind&names != 0:
		return ""
	case kind&copies != 0:
		n := len(args) - 1
		for _, w := range args {
			if strings.HasPrefix(w, "-t") || strings.HasPrefix(w, "--target") {
				n = len(args)
			}
		}
		args = args[:max(0, n)]
	case kind&greps != 0:
		args = withoutPattern(args)
	case kind&filters != 0:
		args = withoutScript(args)
	case kind&shell.Interpret != 0:
		args = withoutCode(args)
	case name == "openssl" && len(args) > 0 && (args[0] == "x509" || args[0] == "verify" || args[0] == "crl"):
		return "" // what these show of a file is public
	}
	return j.words(name, args)
}

// words looks at each word of a command, and at what stands behind @ and = in
// one: curl -d @.env, --file=.env.
func (j *judge) words(name string, args []string) string {
	for i, w := range args {
		if len(j.dirs) == 0 && plain(w) {
			continue
		}
		if strings.HasPrefix(w, "$") && len(w) < 40 && !strings.ContainsAny(w, "/(") {
			j.doubt = true // whatever is in the variable
			continue
		}
		has := look(w)
		if has.expands && (strings.Contains(w, "$(") || strings.Contains(w, "`")) {
			if what := spoken(w); what != "" && !j.allowed(what) {
				return what
			}
		}
		option, value, given := w, "", false
		if has.equals {
			option, value, given = strings.Cut(w, "=")
		}
		if i > 0 && uses[args[i-1]] && !(args[i-1] == "-i" && name == "sed") || given && uses[option] || strings.HasPrefix(w, "of=") {
			continue
		}
		if i > 0 && strings.HasPrefix(args[i-1], "-") && letterless(w) {
			continue // the value of an option: -run '.*'
		}
		if what := j.secret(w); what != "" {
			return what
		}
		if given && !letterless(value) {
			if what := j.secret(strings.TrimPrefix(value, "@")); what != "" {
				return what
			}
		}
		if has.at {
			if what := j.secret(w[strings.IndexByte(w, '@')+1:]); what != "" {
				return what
			}
		}
		if has.colon {
			if before, behind, _ := strings.Cut(w, ":"); !strings.HasPrefix(behind, "//") {
				for _, part := range []string{before, behind} {
					if what := j.secret(part); what != "" {
						return what
					}
				}
			}
		}
		if (has.colon || strings.Contains(w, ".") || strings.Contains(w, "/")) && linkLocal(w) {
			return "the metadata service " + metadata[0]
		}
		for _, host := range metadata {
			if len(w) >= len(host) && strings.Contains(w, host) {
				return "the metadata service " + host
			}
		}
	}
	return ""
}

var metadata = []string{"169.254.169.254", "metadata.google.internal", "169.254.170.2", "100.100.100.200", "fd00:ec2::254"}

// linkLocal reports whether a URL's host is the first metadata service, in one of
// the ways in which inet_aton(3) reads numbers: fewer parts, octal, hexadecimal.
func linkLocal(url string) bool {
	_, host, ok := strings.Cut(url, "://")
	if !ok {
		host = url
	}
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	host, _, _ = strings.Cut(host, ":")
	if host == "" || host[0] < '0' || host[0] > '9' || len(host) > 64 {
		return false
	}
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	sum := uint64(0)
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil || len(parts) > 4 {
			return false
		}
		if i < len(parts)-1 {
			n <<= 24 - 8*i
		}
		sum += n
	}
	return sum == 0xa9fea9fe
}

// marks are the characters of a word that ask for a closer look.
type marks struct{ expands, equals, at, colon bool }

func look(w string) (m marks) {
	for i := range len(w) {
		switch w[i] {
		case '$', '`':
			m.expands = true
		case '=':
			m.equals = true
		case '@':
			m.at = true
		case ':':
			m.colon = true
		}
	}
	return m
}

// plain: nothing in the word makes it worth a look. It need not find all of
// those.
func plain(w string) bool {
	for i := range len(w) {
		switch w[i] {
		case '.', '/', '$', '_', '*', '?', '[', '{', '@', '=', ':', ' ':
			return false
		}
	}
	return true
}

// letterless: a pattern that names nothing, as likely of another kind as one of
// files.
func letterless(w string) bool {
	for i := range len(w) {
		if c := w[i] | 0x20; c >= 'a' && c <= 'z' {
			return false
		}
	}
	return true
}

// withoutPattern drops what a grep looks for.
func withoutPattern(args []string) []string {
	for i, w := range args {
		if w == "-e" || w == "-f" || strings.HasPrefix(w, "--regexp") || strings.HasPrefix(w, "--file") {
			return args
		}
		if !strings.HasPrefix(w, "-") {
			return append(append([]string{}, args[:i]...), args[i+1:]...)
		}
	}
	return args
}

// withoutScript drops the program of a filter: the first word that is no option,
// unless options give it. One that speaks of a secret stays, for it can read.
func withoutScript(args []string) []string {
	for i, w := range args {
		given := w == "-e" || w == "--expression"
		switch {
		case given && i+1 < len(args):
			i++
		case w == "-f" || w == "--file" || w == "--from-file":
			return args
		case strings.HasPrefix(w, "-"):
			continue
		}
		if spoken(args[i]) != "" {
			return args
		}
		rest := append(append([]string{}, args[:i]...), args[i+1:]...)
		if given {
			return append(rest[:i-1:i-1], withoutExpressions(rest[i:])...)
		}
		return rest
	}
	return args
}

// withoutExpressions drops what stands behind each other -e.
func withoutExpressions(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		if (args[i] == "-e" || args[i] == "--expression") && i+1 < len(args) && spoken(args[i+1]) == "" {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// withoutCode drops what stands behind -e, -pe or -c: no path, and looked at as
// text, for it can't be read.
func withoutCode(args []string) []string {
	for i, w := range args[:max(0, len(args)-1)] {
		if n := len(w); n > 1 && w[0] == '-' && w[1] != '-' && strings.IndexByte("ecE", w[n-1]) >= 0 {
			return append(append([]string{}, args[:i+1]...), args[i+2:]...)
		}
	}
	return args
}

// find judges one that runs something on a secret that it looks for.
func (j *judge) find(args []string) string {
	runs := false
	for i, w := range args {
		if (w == "-exec" || w == "-execdir" || w == "-x" || w == "-X" || w == "--exec") && i+1 < len(args) {
			runs = runs || shell.Look(args[i+1]).Kind&names == 0
		}
	}
	if !runs {
		return ""
	}
	for _, w := range args { // fd and -regex take regular expressions
		if plain := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(w, "^"), "$"), "\\", ""); plain != w {
			if what := j.secret(plain); what != "" {
				return what
			}
		}
	}
	return j.words("find", args)
}

// git judges those of its commands that show what is in files, or take files
// over into history.
func (j *judge) git(args []string) string {
	shows := false
	for _, w := range args {
		switch w {
		case "show", "diff", "log", "blame", "annotate", "grep", "cat-file", "archive", "add", "stage", "hash-object", "apply":
			shows = true
		}
	}
	if !shows {
		return ""
	}
	return j.words("git", args)
}

// printed returns the words of a printer that a command begins with.
func printed(name string, args []string) string {
	if name == "kubectl" || name == "oc" {
		get, secrets, output := false, false, false
		for i, w := range args {
			get = get || w == "get"
			secrets = secrets || get && (w == "secret" || w == "secrets" || strings.HasPrefix(w, "secret/") || strings.HasPrefix(w, "secrets/"))
			o := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(w, "--output="), "-o"), "=")
			if (w == "-o" || w == "--output") && i+1 < len(args) {
				o = args[i+1]
			}
			output = output || (o != w || w == o && i > 0 && (args[i-1] == "-o" || args[i-1] == "--output")) && (strings.HasPrefix(o, "yaml") || strings.HasPrefix(o, "json") || strings.HasPrefix(o, "go-template") || strings.HasPrefix(o, "custom-columns"))
		}
		if secrets && output {
			return "kubectl get secret"
		}
	}
	for _, w := range args {
		if name == "gpg" && strings.HasPrefix(w, "--export-secret") {
			return "gpg --export-secret-keys"
		}
	}
	for _, p := range printersOf[name] {
		_, rest, _ := strings.Cut(p, " ")
		at := 0
		for w := range strings.SplitSeq(rest, " ") {
			for at < len(args) && args[at] != w {
				if !strings.HasPrefix(args[at], "-") && (at == 0 || !strings.HasPrefix(args[at-1], "-") || strings.Contains(args[at-1], "=")) {
					at = len(args) // another subcommand
					break
				}
				at++
			}
			if at >= len(args) {
				at = -1
				break
			}
			at++
		}
		if at > 0 {
			return p
		}
	}
	return ""
}

var signs = shell.NewSigns(".env", "id_rsa", "id_ed25519", "id_ecdsa", ".aws/credentials", ".ssh/id", ".ssh/*", ".netrc", ".git-credentials", ".kube/config", ".docker/config.json", ".pgpass", ".vault-token", ".gnupg", "/etc/shadow", "/proc/self/environ", ".bash_history", ".zsh_history", ".codex/auth.json", ".credentials.json", "application_default_credentials.json", "169.254.169.254", "metadata.google.internal", "gh auth token")

var templates = strings.NewReplacer(".env.example", "", ".env.sample", "", ".env.template", "", ".env.dist", "", ".env.defaults", "", ".ssh/known_hosts", "", ".ssh/config", "")

// spoken returns the sign of a secret that a text speaks of.
func spoken(text string) string {
	if signs.In(text) == "" {
		return ""
	}
	// A template beside it is none.
	return signs.In(templates.Replace(text))
}
