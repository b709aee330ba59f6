package command

import (
	"slices"
	"strings"
)

// Programs that run commands which stand in their arguments in a form of their
// own: an option's value, a language with a way out, a configuration. The
// reader doesn't learn these forms. It knows where they are, and that its words
// are not all that runs when one of them is used.
//
// The table is a list of known ways, not a proof that there are no others: a
// program that is not in it takes its words for what they are.

// taker says when a program's arguments bring commands along.
type taker struct {
	always  bool                     // as soon as there is an argument
	input   bool                     // when a here-document or here-string is its input
	options []string                 // any of these, alone, with =value or, if of one letter, with the value attached
	words   []string                 // any of these, which mostly is its first word
	text    func(arg string) bool    // an argument looks like it
	args    func(args []string) bool // the arguments together do

	// alone: without a program to run it starts a shell. So many words stand
	// before the program, and these one-letter options have a value.
	alone  bool
	before int
	values string
}

var takers = map[string]taker{
	"chroot":  {alone: true, before: 1, input: true},
	"unshare": {alone: true, values: "SGRwl", input: true},
	"nsenter": {alone: true, values: "tSGWN", input: true},
	"setarch": {alone: true, before: 1, input: true},
	"proot":   {alone: true, values: "rRSbmwqk", input: true},

	"fakeroot": {alone: true, values: "lbsi", input: true},
	"firejail": {alone: true, input: true},

	"entr":      {always: true},
	"hyperfine": {always: true},

	"start-stop-daemon": {always: true},
	"dtach":             {always: true},
	"capsh":             {always: true},
	"abduco":            {always: true},
	"nodemon":           {always: true},
	"rush":              {always: true},
	"ip":                {words: []string{"exec"}},
	"m4":                {input: true, text: func(w string) bool { return strings.Contains(w, "syscmd") }},
	"dc":                {input: true, text: func(w string) bool { return strings.Contains(w, "!") }},
	"gnuplot":           {input: true, options: []string{"-e"}},
	"tclsh":             {input: true},
	"sqlite3":           {input: true, text: func(w string) bool { return strings.Contains(w, ".sh") || strings.Contains(w, ".sy") }},
	"psql":              {input: true, text: func(w string) bool { return strings.Contains(w, `\!`) }},
	"mysql":             {input: true, text: func(w string) bool { return strings.Contains(w, `\!`) || strings.Contains(w, "system") }},
	"mariadb":           {input: true, text: func(w string) bool { return strings.Contains(w, `\!`) || strings.Contains(w, "system") }},
	"ftp":               {input: true},
	"lftp":              {input: true, options: []string{"-c", "-e"}},
	"dpkg":              {options: []string{"--pre-invoke", "--post-invoke"}},
	"apt":               {options: []string{"-o", "--option"}},
	"apt-get":           {options: []string{"-o", "--option"}},
	"aptitude":          {options: []string{"-o"}},
	"go":                {options: []string{"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"}},
	"cargo":             {options: []string{"--config"}},
	"gcc":               {words: []string{"-wrapper"}},
	"g++":               {words: []string{"-wrapper"}},
	"cc":                {words: []string{"-wrapper"}},
	"coreutils":         {options: []string{"--coreutils-prog"}},

	"crontab": {args: func(args []string) bool {
		return len(args) == 0 || args[len(args)-1] != "-l" && args[len(args)-1] != "-r"
	}},
	"nix-shell":        {options: []string{"--run", "--command"}, input: true},
	"nix":              {options: []string{"-c", "--command"}},
	"guix":             {words: []string{"shell", "environment"}},
	"tmux":             {words: []string{"new", "new-session", "neww", "new-window", "splitw", "split-window", "respawnp", "respawn-pane", "respawnw", "respawn-window", "send", "send-keys", "run", "run-shell", "if", "if-shell", "pipep", "pipe-pane", "popup", "display-popup", "set-hook", "bind", "bind-key", "source", "source-file"}, options: []string{"-c", "-f"}},
	"screen":           {always: true},
	"byobu":            {always: true},
	"expect":           {options: []string{"-c"}, input: true},
	"dbus-run-session": {alone: true, input: true},

	"git":    {args: gitRuns},
	"hg":     {options: []string{"--config"}},
	"svn":    {options: []string{"--config-option", "--diff-cmd", "--editor-cmd"}},
	"find":   {args: anyOf("-exec", "-execdir", "-ok", "-okdir")},
	"gfind":  {args: anyOf("-exec", "-execdir", "-ok", "-okdir")},
	"bfs":    {args: anyOf("-exec", "-execdir", "-ok", "-okdir")},
	"fd":     {options: []string{"-x", "-X", "--exec", "--exec-batch"}},
	"fdfind": {options: []string{"-x", "-X", "--exec", "--exec-batch"}},
	"rg":     {options: []string{"--pre", "--hostname-bin"}},
	"man":    {options: []string{"-P", "-H", "--pager", "--html"}},
	"less":   {text: plusCommand},
	"more":   {text: plusCommand},

	"awk":  {text: awkRuns},
	"gawk": {text: awkRuns},
	"mawk": {text: awkRuns},
	"nawk": {text: awkRuns},

	"vi":      {options: editing, text: plusCommand, input: true},
	"vim":     {options: editing, text: plusCommand, input: true},
	"nvim":    {options: append([]string{"-l", "--remote-expr"}, editing...), text: plusCommand, input: true},
	"gvim":    {options: editing, text: plusCommand, input: true},
	"view":    {options: editing, text: plusCommand, input: true},
	"vimdiff": {options: editing, text: plusCommand, input: true},
	"ex":      {options: editing, text: plusCommand, input: true},
	"ed":      {input: true},
	"emacs":   {options: []string{"--eval", "-eval", "--execute", "-f", "--funcall", "-l", "--load"}},

	"tar":     {args: oldTar, options: []string{"-I", "-F", "--use-compress-program", "--to-command", "--checkpoint-action", "--info-script", "--new-volume-script", "--rsh-command", "--rmt-command"}},
	"bsdtar":  {options: []string{"--use-compress-program"}},
	"cpio":    {options: []string{"--rsh-command"}},
	"zip":     {options: []string{"-TT", "--unzip-command"}},
	"rsync":   {options: []string{"-e", "--rsh", "--rsync-path"}},
	"scp":     {options: []string{"-S", "-o", "-D"}},
	"sftp":    {options: []string{"-S", "-o", "-D"}, input: true},
	"split":   {options: []string{"--filter"}},
	"install": {options: []string{"--strip-program"}},
	"wget":    {options: []string{"--use-askpass"}},
	"sed":     {args: sedRuns},
	"gsed":    {args: sedRuns},
	"sort":    {options: []string{"--compress-program"}},
	"tcpdump": {options: []string{"-z"}},
	"make":    {options: []string{"--eval", "-E"}, input: true, text: func(w string) bool { return strings.HasPrefix(w, "SHELL=") }},
	"gmake":   {options: []string{"--eval", "-E"}, input: true, text: func(w string) bool { return strings.HasPrefix(w, "SHELL=") }},
	"gdb":     {options: []string{"-ex", "-iex", "-x", "-ix", "--eval-command", "--init-eval-command", "--command"}, input: true},
	"npm":     {options: []string{"-c", "--call", "--script-shell"}},
	"npx":     {options: []string{"-c", "--call"}},
	"socat": {text: func(w string) bool {
		u := strings.ToUpper(w)
		return strings.HasPrefix(u, "EXEC:") || strings.HasPrefix(u, "SYSTEM:") || strings.HasPrefix(u, "SHELL:")
	}},
	"nc":   {options: []string{"-e", "-c"}},
	"ncat": {options: []string{"-e", "-c", "--exec", "--sh-exec", "--lua-exec"}},
}

var editing = []string{"-c", "--cmd", "-S", "-s"}

// maxTakers is the number of words in one command that are looked at as
// programs with arguments: more are no honest command, and looking takes time
// in the square of them.
const maxTakers = 64

// takes reports whether a program brings commands along in its arguments.
func takes(program string, args []string, in input) bool {
	t, ok := takers[program]
	if !ok {
		return false
	}
	if t.always && len(args) > 0 || t.input && in.known || t.args != nil && t.args(args) {
		return true
	}
	if t.alone && operands(args, t.values) <= t.before {
		return true
	}
	for _, w := range args {
		if among(t.words, w) || t.text != nil && t.text(w) {
			return true
		}
		if w == "--" {
			break
		}
		for _, o := range t.options {
			if option(w, o) {
				return true
			}
		}
	}
	return false
}

// option reports whether word w is option o, alone or with a value, in one of the
// forms that programs take: -o, -ovalue, -xo and -xovalue, --option, --option=value, and a
// long one cut short.
func option(w, o string) bool {
	switch {
	case strings.HasPrefix(o, "--"):
		w, _, given := strings.Cut(w, "=")
		return w == o || len(w) > 3 && w != "--checkpoint" && strings.HasPrefix(o, w) && (given || len(w) > 4)
	case len(o) == 2:
		return isCluster(w) && w[0] == '-' && strings.IndexByte(w[1:], o[1]) >= 0
	}
	rest, ok := strings.CutPrefix(w, o)
	return ok && (rest == "" || rest[0] == '=')
}

// oldTar: the first word of tar's is a cluster without a dash.
func oldTar(args []string) bool {
	return len(args) > 0 && !strings.HasPrefix(args[0], "-") && strings.ContainsAny(args[0], "IF") && strings.Trim(args[0], "AcdrtuxBbCfFgGhIijJklLMmNnOoPpRSsUvVWwXzZa") == ""
}

// operands counts the words that are neither options nor values of those one-letter
// options that take one. It stops at two, where every answer is known.
func operands(args []string, withValue string) int {
	n := 0
	for i := 0; i < len(args) && n < 2; i++ {
		w := args[i]
		switch {
		case w == "--":
			return n + len(args) - i - 1
		case n == 0 && len(w) > 1 && w[0] == '-':
			if len(w) == 2 && strings.IndexByte(withValue, w[1]) >= 0 {
				i++
			}
		default:
			n++
		}
	}
	return n
}

func among(list []string, w string) bool {
	for _, o := range list {
		if o == w {
			return true
		}
	}
	return false
}

func anyOf(list ...string) func([]string) bool {
	return func(args []string) bool {
		for _, w := range args {
			if among(list, w) {
				return true
			}
		}
		return false
	}
}

// plusCommand is an editor's or a pager's +command; +12 and +/text only move.
func plusCommand(w string) bool {
	if len(w) < 2 || w[0] != '+' || w[1] == '/' {
		return false
	}
	return strings.Trim(w[1:], "0123456789Gg$") != ""
}

// awkRuns: system(), a pipe, and a library loaded. A regular expression with a
// bar in it is taken for a pipe.
func awkRuns(w string) bool {
	return strings.Contains(w, "system") || strings.Contains(strings.ReplaceAll(w, "||", ""), "|") || strings.Contains(w, "@load")
}

// gitRuns: git runs what its configuration says, which -c changes, and some of
// its commands run others.
func gitRuns(args []string) bool {
	i := 0
	for ; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		switch w := args[i]; {
		case w == "-c" && i+1 < len(args):
			if i++; !plainSetting(args[i]) {
				return true
			}
		case strings.HasPrefix(w, "--config-env"), strings.HasPrefix(w, "--exec-path="):
			return true
		case w == "-C" || w == "--git-dir" || w == "--work-tree" || w == "--namespace":
			i++
		}
	}
	if i >= len(args) {
		return false
	}
	sub, rest := args[i], args[i+1:]
	first := ""
	if len(rest) > 0 {
		first = rest[0]
	}
	options := map[string][]string{
		"rebase":    {"-x", "--exec"},
		"difftool":  {"-x", "--extcmd"},
		"grep":      {"-O", "--open-files-in-pager"},
		"clone":     {"-c", "--config", "-u", "--upload-pack", "--template"},
		"fetch":     {"--upload-pack"},
		"pull":      {"--upload-pack"},
		"ls-remote": {"--upload-pack", "--exec"},
		"push":      {"--receive-pack", "--exec"},
		"archive":   {"--exec"},
	}[sub]
	for _, w := range rest {
		if strings.HasPrefix(w, "ext::") {
			return true
		}
		if w == "--" {
			break
		}
		if slices.ContainsFunc(options, func(o string) bool { return option(w, o) }) {
			return true
		}
	}
	switch sub {
	case "config":
		return gitSets(rest)
	case "filter-branch":
		return true
	case "bisect":
		return first == "run"
	case "submodule":
		return anyOf("foreach")(rest)
	}
	return false
}

// gitSets reports whether git config sets what names a program.
func gitSets(args []string) bool {
	if anyOf("--get", "--get-all", "--get-regexp", "get", "--list", "-l", "list", "--unset", "--unset-all", "unset")(args) {
		return false
	}
	for i, w := range args {
		if i+1 < len(args) && !strings.HasPrefix(w, "-") && strings.Contains(w, ".") {
			return !plainSetting(w + "=" + args[i+1])
		}
	}
	return false
}

// plainSetting reports whether a setting of git's names no program.
func plainSetting(setting string) bool {
	key, value, _ := strings.Cut(strings.ToLower(setting), "=")
	if key == "core.pager" || key == "core.editor" {
		return value == "" || value == "cat" || value == "true"
	}
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "user", "author", "committer", "color", "advice", "init", "safe", "commit", "push", "pull", "fetch", "gc", "http", "https", "log", "status", "protocol", "branch", "rerere", "pack", "index", "feature":
		return !strings.HasPrefix(value, "!")
	}
	switch key {
	case "core.quotepath", "core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.longpaths", "core.abbrev":
		return true
	}
	return false
}

// commandVariable reports whether programs run a variable's value.
func commandVariable(variable string) bool {
	switch variable {
	case "PAGER", "MANPAGER", "GIT_PAGER", "SYSTEMD_PAGER", "DELTA_PAGER", "BAT_PAGER", "EDITOR", "VISUAL", "FCEDIT", "SUDO_EDITOR", "BROWSER", "SHELL",
		"GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH",
		"SSH_ASKPASS", "SUDO_ASKPASS", "RSYNC_RSH", "CVS_RSH", "SVN_SSH", "LESSOPEN", "LESSCLOSE", "MAKEFLAGS", "GNUMAKEFLAGS", "TAR_OPTIONS":
		return true
	}
	return strings.HasPrefix(variable, "GIT_CONFIG")
}

// assigns reports whether an assignment decides what later words do.
func assigns(variable, value string) bool {
	if commandVariable(variable) {
		if variable == "MAKEFLAGS" && strings.Trim(value, "-j0123456789") == "" {
			return false
		}
		switch value {
		case "", "cat", "true", ":", "less", "more", "vi", "vim", "nano", "/bin/sh", "/bin/bash", "/dev/null":
			return false
		}
	}
	return steering(variable)
}
