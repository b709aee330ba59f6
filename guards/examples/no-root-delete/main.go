//go:build wasip1

package main

import (
	"strconv"
	"strings"

	guard "github.com/guardproxy/guardproxy/guards/sdk/go"
)

//go:wasmexport guard_check_v1
func check() int32 {
	opaque, ok := guard.Get("/call/shell/opaque")
	if !ok {
		return guard.Pass // no shell call
	}
	var j judge
	j.dir, _ = guard.Get("/session/workspace")
	for _, key := range []string{"workdir", "cwd"} {
		if d, ok := guard.Get("/call/arguments/" + key); ok && d != "" {
			j.dir = clean(j.dir, d)
		}
	}
	if !strings.HasPrefix(j.dir, "/") {
		j.dir = ""
	}
	start, commands := j.dir, 0
	for argv := range guard.Commands() {
		if len(argv) == 0 {
			continue
		}
		commands++
		if why := j.command(argv); why != "" {
			return guard.Deny(why)
		}
	}
	if j.fed {
		if why := feeds(start); why != "" {
			return guard.Deny(why)
		}
	}
	if j.astray || opaque == "true" && (j.doubtful || commands == 0) {
		if dir := meets(text()); dir != "" {
			return guard.Deny(unreadable(dir))
		}
	}
	return guard.Pass
}

func unreadable(dir string) string {
	return "this command cannot be read to the end, and it names both a deleting command and " + dir +
		". Name what to delete literally, in a call of its own, as in: rm -rf ./build"
}

// text is the command as the model wrote it, whatever the tool calls it.
func text() string {
	for _, key := range []string{"command", "cmd", "script", "code"} {
		path := "/call/arguments/" + key
		if first, ok := guard.Get(path + "/0"); ok { // an array of words
			var b strings.Builder
			for i := 1; ok; i++ {
				b.WriteString(first)
				b.WriteByte('\n')
				first, ok = guard.Get(path + "/" + strconv.Itoa(i))
			}
			return b.String()
		}
		if s, ok := guard.Get(path); ok {
			return s
		}
	}
	s, _ := guard.Get("/call/arguments")
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\n").Replace(s)
}

// judge goes through the commands in order.
type judge struct {
	dir    string // the working directory, "" if unknown
	unsure bool   // dir is what it is if a variable is empty
	lost   bool   // a cd led to a directory that is not known

	doubtful bool // what an opaque part stands for could be a deletion
	astray   bool // a deletion is relative to a directory that is not known
	fed      bool // a deletion takes its paths from another command
}

// command returns why the command must not run, or "".
func (j *judge) command(argv []string) string {
	if _, unsure, _ := expand(argv[0], false); unsure {
		j.doubtful = true // the program itself is unknown
	}
	r := roleOf(argv[0])
	for ; len(argv) > 1 && r&prefix != 0; r = roleOf(argv[0]) {
		argv = argv[1:]
		for len(argv) > 1 && strings.HasPrefix(argv[0], "-") {
			if strings.ContainsAny(argv[0], "vV") {
				return "" // it asks what a word is
			}
			argv = argv[1:]
		}
	}
	switch {
	case r == 0:
		return ""
	case r&changesDir != 0:
		j.cd(argv[1:])
	case r&returns != 0:
		j.dir, j.unsure, j.lost = "", false, true
	case r&sources != 0:
		j.doubtful = j.doubtful || len(argv) > 1 && stream(argv[1])
	case r&aliases != 0:
		j.doubtful = true // may run words that are not among those read
	}
	dir, unsure, lost := j.dir, j.unsure, j.lost
	why := j.run(argv)
	j.dir, j.unsure, j.lost = dir, unsure, lost
	return why
}

// stream reports whether a file that is sourced may be what the command itself
// feeds: standard input, or another command's output.
func stream(file string) bool {
	return strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/") || strings.ContainsAny(file, "$`(")
}

// run judges a program and, if that runs the words after its own options, the
// programs among them. Every word may be one: which options take a word is a
// matter of each wrapper.
func (j *judge) run(argv []string) string {
	around := base(argv[0]) // the wrapper whose options are at hand
	for i, w := range argv {
		r := roleOf(w)
		switch {
		case r&deletes != 0:
			return j.remove(argv[i:])
		case r&finds != 0:
			if why := j.find(argv[i:]); why != "" {
				return why
			}
		case r&feedsWords != 0:
			j.xargs(argv[i:])
		case r&foreign != 0 || r&scripts != 0:
			// Its arguments are a script, in a language of its own or after
			// options of its own: the host has not read it.
			rest := strings.Join(argv[i+1:], " ")
			if dir := meets(rest); dir != "" {
				return unreadable(dir)
			}
			if r&foreign != 0 && !scripted(argv[i:]) || strings.Contains(rest, "$") {
				j.doubtful = true
			}
		case r&shells != 0:
			j.doubtful = j.doubtful || !scripted(argv[i:])
		}
		if i == 0 && r&wraps == 0 {
			return ""
		}
		if r&wraps != 0 {
			around = base(w)
		} else if len(w) > 1 && w[0] == '-' {
			if d := chdir(around, w, argv[i+1:]); d != "" {
				j.cd([]string{"--", d})
			}
		}
	}
	return ""
}

// chdir is the directory that an option of a wrapper changes to, or "".
func chdir(wrapper, option string, after []string) string {
	next := ""
	if len(after) > 0 {
		next = after[0]
	}
	if long, ok := strings.CutPrefix(option, "--"); ok {
		long, value, has := strings.Cut(long, "=")
		if len(long) >= 2 && strings.HasPrefix("chdir", long) || is(long, "wd", "wdns", "cwd", "working-directory") {
			if has {
				return value
			}
			return next
		}
		return ""
	}
	letter, takeValue := "", ""
	switch wrapper {
	case "env":
		letter, takeValue = "C", "uS"
	case "sudo":
		letter, takeValue = "D", "ugUhpCrtTR"
	case "unshare":
		letter, takeValue = "w", "SGRl"
	case "nsenter":
		letter, takeValue = "wW", "tSG"
	}
	for at := 1; at < len(option); at++ {
		switch c := option[at : at+1]; {
		case strings.Contains(letter, c):
			if value := option[at+1:]; value != "" {
				return value
			}
			return next
		case strings.Contains(takeValue, c):
			return ""
		}
	}
	return ""
}

func (j *judge) cd(args []string) {
	options := true
	for _, a := range args {
		if options && strings.HasPrefix(a, "-") && a != "-" {
			options = a != "--"
			continue
		}
		p, unsure, guarded := expand(a, true)
		switch {
		case a == "-" || strings.HasPrefix(a, "~-") || guarded:
			j.dir, j.unsure, j.lost = "", false, true
		case unsure && p == "":
			// Without quotes around it, an empty variable is no word, and cd
			// goes home.
			j.dir, j.unsure, j.lost = home, true, false
		default:
			// A pattern stays: it is then a pattern in each path.
			d := clean(j.dir, p)
			absolute := strings.HasPrefix(p, "/")
			if d == "" || d[0] != '/' {
				d = ""
			}
			j.dir, j.unsure, j.lost = d, unsure || j.unsure && !absolute, j.lost && !absolute
		}
		return
	}
	j.dir, j.unsure, j.lost = home, false, false
}

// remove judges rm and its like. Even without -r, rm dir/* takes every file.
func (j *judge) remove(argv []string) string {
	options := true
	for _, w := range argv[1:] {
		if options && len(w) > 1 && w[0] == '-' {
			options = w != "--"
			continue
		}
		if why := j.target(w); why != "" {
			return why
		}
	}
	return ""
}

// target judges one path that is to be deleted.
func (j *judge) target(w string) string {
	why := j.path(w, false)
	if why == "" && strings.Contains(w, "+") { // ${NAME+set}
		why = j.path(w, true)
	}
	return why
}

func (j *judge) path(w string, set bool) string {
	p, unsure, guarded := expand(w, set)
	if unsure {
		j.doubtful = true
		if p == "" || guarded {
			return ""
		}
	}
	if !strings.HasPrefix(p, "/") {
		j.astray = j.astray || j.lost || j.unsure
		unsure = unsure || j.unsure
	}
	abs := clean(j.dir, p)
	switch {
	case !precious(abs):
		return ""
	case unsure && set:
		return "depending on the variable in the path, this deletes " + show(abs) +
			". Write the path itself, as in: rm -rf ./build"
	case unsure:
		// The reason's alphabet has no dollar and no quotes.
		return "if the variable in the path is empty, this deletes " + show(abs) +
			". Write the path itself, as in: rm -rf ./build"
	}
	return "this would delete " + show(abs) +
		". Delete what you made, by its path inside the workspace, as in: rm -rf ./build"
}

// find judges a find or fd that deletes, by the directories that it starts
// from.
func (j *judge) find(argv []string) string {
	deleting := false
	for i, w := range argv {
		switch w {
		case "-delete":
			deleting = true
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			for n, after := range argv[i+1:] {
				r := roleOf(after)
				if r&deletes != 0 {
					// What it names itself, besides what is found.
					own := argv[i+1+n:]
					for end, w := range own {
						if w == ";" || w == "+" {
							own = own[:end]
							break
						}
					}
					if why := j.remove(own); why != "" {
						return why
					}
				}
				if r&(deletes|shells|foreign) != 0 {
					deleting = true
					break
				}
			}
		default:
			if w == "-files0-from" {
				j.astray = true // the places are in a file, or in the input
			}
			long, ok := strings.CutPrefix(w, "--exec=")
			if !ok {
				long, ok = strings.CutPrefix(w, "--exec-batch=")
			}
			deleting = deleting || ok && roleOf(long)&(deletes|shells|foreign) != 0
		}
	}
	if !deleting {
		return ""
	}
	if !is(base(argv[0]), "find", "gfind", "bfs") {
		return j.fd(argv[1:])
	}
	starts := 0
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		if w == "-D" || w == "-f" {
			if i++; w == "-D" || i == len(argv) {
				continue
			}
			w = argv[i] // -f path
		} else if len(w) == 2 && w[0] == '-' && strings.ContainsRune("HLPEXdsx-", rune(w[1])) || strings.HasPrefix(w, "-O") || strings.HasPrefix(w, "-D") {
			continue
		}
		if strings.HasPrefix(w, "-") || w == "(" || w == "!" {
			break
		}
		starts++
		if why := j.target(w); why != "" {
			return why
		}
	}
	if starts == 0 {
		return j.target(".")
	}
	return ""
}

// fd judges the words of an fd that deletes: a pattern, then the directories
// to search, with options among them.
func (j *judge) fd(args []string) string {
	words := 0
	for i, w := range args {
		switch {
		case is(w, "-x", "--exec", "--exec-batch"):
			if words < 2 {
				return j.target(".")
			}
			return ""
		case strings.HasPrefix(w, "--base-directory=") || strings.HasPrefix(w, "--search-path="):
			_, w, _ = strings.Cut(w, "=")
		case strings.HasPrefix(w, "-") && w != "--":
			continue
		case w == "--":
			continue
		}
		// The first word is the pattern, unless it is an option's.
		if words++; words == 1 && i == 0 && w != "/" {
			continue
		}
		if why := j.target(w); why != "" {
			return why
		}
	}
	return ""
}

// xargs notes a deletion whose paths come from its input.
func (j *judge) xargs(argv []string) {
	for _, w := range argv[1:] {
		if roleOf(w)&(deletes|finds) != 0 {
			j.fed = true
			j.doubtful = true // the input may be in the text alone
		}
	}
}

// feeds looks among all commands for a word that names a precious directory and
// may come out of them.
func feeds(dir string) string {
	for argv := range guard.Commands() {
		for _, w := range argv[1:] {
			if w == "" || w[0] != '/' && w[0] != '~' && w[0] != '$' && w != ".." {
				continue
			}
			if p, unsure, _ := expand(w, false); !unsure && (p == ".." || p[0] == '/') && precious(clean(dir, p)) {
				return "this feeds " + show(clean(dir, p)) +
					" to a deleting command. Name what to delete literally, as in: rm -rf ./build"
			}
		}
	}
	return ""
}

// meets looks for a deleting command and a precious directory in a text and
// returns the directory.
func meets(s string) string {
	deleting, dir := false, ""
	for len(s) > 0 && (!deleting || dir == "") {
		var w string
		if w, s = nextWord(s); w == "" {
			continue
		}
		if !deleting && (w == "-delete" || mayDelete(w) && roleOf(w)&deletes != 0) {
			deleting = true
			continue
		}
		if dir != "" || w[0] != '/' && w[0] != '~' && w[0] != '{' && (w[0] != '$' || !strings.Contains(w, "HOME")) {
			continue
		}
		if p, unsure, _ := expand(strings.TrimSuffix(strings.TrimPrefix(w, "{"), "}"), false); !unsure {
			if p = clean("", p); precious(p) {
				dir = show(p)
			}
		}
	}
	if !deleting {
		return ""
	}
	return dir
}

// mayDelete is a first look at how a program's name ends: most words of a
// script are passed by here.
func mayDelete(w string) bool {
	if len(w) < 2 {
		return false
	}
	switch string([]byte{w[len(w)-2] | 0x20, w[len(w)-1] | 0x20}) {
	case "rm", "ir", "nk", "ed", "em", "xe": // of rm, rmdir, unlink, shred, remove-item, rm.exe
		return true
	}
	return false
}

// nextWord cuts the first word off a text. Quotes go without parting words:
// what follows a quoted variable is no word of its own.
func nextWord(s string) (word, rest string) {
	end, quoted := skip(s, 0), false
	for end < len(s) && kind[s[end]]&parting == 0 {
		quoted = quoted || kind[s[end]] == quoting
		end = skip(s, end+1)
	}
	word, rest = s[:end], s[min(end+1, len(s)):]
	if quoted {
		word = unquote(word)
	}
	return word, rest
}

const (
	parting   byte = 1 << iota // words
	quoting                    // goes
	expanding                  // begins what the shell expands
)

// kind is what a byte is to nextWord and to expand.
var kind = [256]byte{
	' ': parting, '\t': parting, '\r': parting, '\n': parting, ';': parting, '|': parting, '&': parting,
	'<': parting, '>': parting, ')': parting, '=': parting, ',': parting,
	'(': parting | expanding, '`': parting | expanding, '$': expanding,
	'\'': quoting, '"': quoting, '\\': quoting,
}

// skip is the first byte of s at or after i that is of any kind. It goes by
// eight: each turn of a loop is where the host may stop the guard, and costs
// as much as many steps.
func skip(s string, i int) int {
	for i+8 <= len(s) {
		t := s[i : i+8]
		if kind[t[0]]|kind[t[1]]|kind[t[2]]|kind[t[3]]|kind[t[4]]|kind[t[5]]|kind[t[6]]|kind[t[7]] != 0 {
			break
		}
		i += 8
	}
	for i < len(s) && kind[s[i]] == 0 {
		i++
	}
	return i
}

// unquote drops quotes and backslashes.
func unquote(s string) string {
	b := make([]byte, 0, len(s))
	for from := 0; from < len(s); {
		end := skip(s, from)
		b = append(b, s[from:end]...)
		if end < len(s) && kind[s[end]] != quoting {
			b = append(b, s[end])
		}
		from = end + 1
	}
	return string(b)
}

func show(p string) string {
	if p == home {
		return "the home directory"
	}
	if p == "/" {
		return "the root directory"
	}
	if cut := strings.LastIndexByte(p, '/'); cut >= 0 && all(p[cut+1:]) {
		return "everything in " + show(p[:max(cut, 1)])
	}
	return p
}

func base(w string) string { return w[strings.LastIndexByte(w, '/')+1:] }

// role is what a program does to the words after it. It may have several.
type role uint16

const (
	deletes    role = 1 << iota
	finds           // deletes, or runs a command on, what it finds
	wraps           // runs the words after its own options
	prefix          // is a word of the shell before a command
	shells          // reads a script in a language that the host reads
	foreign         // reads a script in a language that it doesn't
	scripts         // takes a script among its words that the host doesn't read
	feedsWords      // adds words from its input
	changesDir      // cd
	returns         // popd
	sources         // runs a file of commands
	aliases         // gives a command another name
)

func roleOf(word string) role {
	word = base(word)
	if len(word) == 0 || len(word) > len("powershell.exe") {
		return 0
	}
	if c := word[len(word)-1] | 0x20; c == 'e' {
		word = strings.TrimSuffix(strings.ToLower(word), ".exe")
	} else if capital(word) {
		word = strings.ToLower(word)
	}
	switch word {
	case "rm", "grm", "srm", "rmdir", "unlink", "shred", "remove-item":
		return deletes
	case "find", "gfind", "bfs", "fd", "fdfind":
		return finds
	case "command", "builtin", "noglob", "nocorrect":
		return wraps | prefix
	case "sudo", "doas", "env", "exec", "nohup", "nice", "ionice", "chrt", "taskset", "time", "timeout",
		"stdbuf", "setsid", "busybox", "toybox", "unshare", "nsenter", "chroot", "strace", "ltrace", "flock",
		"setpriv", "runuser", "caffeinate", "systemd-run", "firejail", "bwrap", "gtimeout", "unbuffer", "repeat",
		"fakeroot", "proot", "numactl", "prlimit", "chronic", "eatmydata", "xvfb-run", "rlwrap", "valgrind":
		return wraps
	case "xargs", "parallel":
		return wraps | feedsWords
	case "watch", "entr", "script", "hyperfine":
		return wraps | scripts
	case "tmux", "screen", "nix-shell":
		return scripts
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "yash":
		return shells
	case "su":
		return shells | wraps
	case "fish", "csh", "tcsh", "pwsh", "powershell", "cmd", "nu", "elvish", "xonsh",
		"at", "batch", "crontab":
		return foreign
	case "cd", "pushd", "chdir":
		return changesDir
	case "popd":
		return returns
	case ".", "source":
		return sources
	case "alias":
		return aliases
	}
	return 0
}

// capital reports whether there is a byte in w that is a capital letter, or that
// may be a part of one.
func capital(w string) bool {
	for ; len(w) >= 4; w = w[4:] {
		if w[0]&w[1]&w[2]&w[3]&0x20 == 0 || w[0]|w[1]|w[2]|w[3] >= 0x80 {
			return true
		}
	}
	for i := 0; i < len(w); i++ {
		if w[i]&0x20 == 0 || w[i] >= 0x80 {
			return true
		}
	}
	return false
}

// scripted reports whether a shell has its script as an argument: then the
// host has read it, and its commands follow.
func scripted(argv []string) bool {
	for _, w := range argv[1:] {
		if len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.IndexByte(w, 'c') > 0 {
			return true
		}
	}
	return false
}
