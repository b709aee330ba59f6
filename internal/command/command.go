// Package command reads shell commands for guards: one argv a simple command.
//
// A guard that looks for substrings misses `rm -fr /`, so the host parses the
// command once, with a real shell parser, and guards look at words. Parse
// walks the whole syntax tree: pipes, lists, subshells, substitutions, bodies
// of functions, loops and conditions. Scripts that a command carries in a
// literal argument (`bash -c '…'`, `eval '…'`, a here-document for `sh`) are
// parsed in turn, and their commands follow the command that carries them; so
// does the command that another one runs out of its words (`sudo`, `xargs`,
// `find -exec`; unwrap.go).
//
// The reader is a witness, not an interpreter: it expands no variable and
// never touches the disk. What it can't vouch for it marks as opaque.
package command

import (
	"path"
	"strings"
)

// Limits. A script beyond one of them is opaque; what was read until then is
// still reported.
const (
	MaxScript   = 256 << 10 // bytes of a script, nested scripts included
	MaxCommands = 4096      // argv lists
	MaxNesting  = 8         // scripts within scripts
	MaxScripts  = 256       // scripts, nested scripts included
)

// Parsed is what a command consists of.
type Parsed struct {
	// Argv has one list of words for each simple command, in source order.
	// In a word that the shell would expand, quotes and escapes are resolved
	// and the expansion stands as it was written: `$HOME/x`, `~`, `*.go`.
	// Brace lists are multiplied out. It may be incomplete when Opaque is set.
	Argv [][]string

	// Opaque says that the words are not the whole truth: a word is not a
	// literal, the parse failed, a limit was met, or a command takes more
	// commands from where the reader can't look (a pipe into sh, source,
	// xargs, an alias, a changed PATH, git -c, awk's system).
	//
	// It is no promise where it is false: programs in other languages, script
	// files, and what a program does with its own arguments are words like any
	// others, and the table of programs known to run such words is finite.
	Opaque bool

	// Files are the targets of redirections in source order, written like
	// words. At most MaxCommands are listed; then Opaque is set.
	Files []File
}

// File is what a redirection opens.
type File struct {
	Path  string
	Write bool // else it is read
}

// Parse reads a script in the bash dialect. It never fails and never panics:
// a script that can't be read is opaque.
func Parse(script string) Parsed {
	r := reader{}
	r.script(script, 0)
	return r.parsed()
}

// FromArgv reads a command that is given as an array, without a shell around
// it. A script in it, as in ["bash","-lc","…"], is parsed as one.
func FromArgv(argv []string) Parsed {
	r := reader{}
	if len(argv) == 0 || argv[0] == "" {
		r.opaque = true
		return r.parsed()
	}
	words := make([]string, len(argv))
	for i, w := range argv {
		r.bytes += len(w)
		if strings.IndexByte(w, 0) >= 0 {
			r.opaque = true // no process takes a NUL: whoever runs this changes it
		}
		words[i] = strings.Clone(w)
	}
	if r.bytes > MaxScript {
		r.opaque = true
		return r.parsed()
	}
	r.command(words, input{}, 0)
	return r.parsed()
}

// reader gathers the commands of a script and of those within it.
type reader struct {
	argv   [][]string
	files  []File
	opaque bool
	bytes  int // of all scripts read so far

	scripts    int // read so far
	multiplied int // words that came of brace lists
}

func (r *reader) parsed() Parsed { return Parsed{Argv: r.argv, Opaque: r.opaque, Files: r.files} }

// input is what is known about a command's standard input: the text of a
// here-document or here-string.
type input struct {
	text    string
	known   bool
	literal bool // the shell expands nothing in it
}

// command takes in one simple command and the scripts that it carries.
func (r *reader) command(argv []string, in input, depth int) {
	if len(argv) == 0 {
		return
	}
	if len(r.argv) >= MaxCommands {
		r.opaque = true
		return
	}
	r.argv = append(r.argv, argv)
	r.unwrap(argv, in, 0)
	r.builtin(argv, depth)
	if strings.HasPrefix(argv[0], "/proc/") || strings.HasPrefix(argv[0], "/dev/") {
		r.opaque = true // /proc/self/exe is the shell itself
	}
	r.opaque = r.opaque || takes(name(argv[0]), argv[1:], in)
	switch name(argv[0]) {
	case "echo", "printf", "[", "test", "grep", "rg", "which", "type", "man":
		return // their words are never run
	}
	// A shell may stand behind any number of wrappers (sudo, env, timeout,
	// find -exec, docker exec), each with options of its own. Looking at
	// every position needs no knowledge of them and errs on the safe side.
	looks := 0
	for i, w := range argv {
		n := name(w)
		if i > 0 && !r.opaque && wraps(argv[0]) {
			if _, ok := takers[n]; ok {
				looks++
				r.opaque = looks > maxTakers || takes(n, argv[i+1:], in)
			}
		}
		switch n {
		case "sh", "bash", "rbash", "dash", "ash", "hush", "posh", "zsh", "ksh", "ksh93", "rksh", "mksh", "lksh", "oksh", "yash":
			if i == 0 || !onlyNames(argv[0]) {
				r.shell(n, argv[i+1:], in, depth)
			}
		case "python", "python2", "python3", "perl", "ruby", "node", "nodejs", "bun", "deno", "php", "lua", "Rscript", "osascript", "tclsh":
			// Not our language, but whether its program is here can be told.
			if i == 0 || wraps(argv[0]) {
				r.opaque = r.opaque || !in.known && readsProgram(argv[i+1:])
			}
		case "fish", "pwsh", "powershell", "cmd", "nu", "elvish", "xonsh", "csh", "tcsh":
			// Another language: nothing about its words can be vouched for.
			r.opaque = r.opaque || i == 0 || wraps(argv[0])
		case "su", "runuser", "script", "flock":
			if i == 0 || wraps(argv[0]) {
				if looks++; looks > maxTakers {
					r.opaque = true
					return
				}
				r.dashC(n, argv[i+1:], depth)
			}
		case "sudo", "doas", "env":
			if i == 0 || !onlyNames(argv[0]) {
				r.wrapper(argv[i:], depth)
			}
		case "sg", "newgrp":
			r.opaque = r.opaque || i == 0 || wraps(argv[0])
		case "xargs", "parallel", "sem", "watch", "ssh", "at", "batch":
			// They run words that come from elsewhere, or join theirs to a script.
			r.opaque = r.opaque || i == 0 || wraps(argv[0])
		}
	}
}

// readsProgram reports whether an interpreter with these arguments takes its
// program from standard input: there is neither a file nor an option with code
// or a module.
func readsProgram(args []string) bool {
	for _, w := range args {
		switch {
		case w == "-" || strings.HasPrefix(w, "/dev/stdin") || strings.HasPrefix(w, "/dev/fd/") || strings.HasPrefix(w, "/proc/"):
			return true
		case !strings.HasPrefix(w, "-"):
			return false
		case w == "--eval" || w == "--print" || w == "--version" || w == "--help":
			return false
		case w[1] != '-' && strings.ContainsAny(w, "ceEmprVvh"):
			return false // -c, -e and -r are code, -m is a module, the rest tells and ends
		}
	}
	return true
}

// onlyNames reports whether a program takes its words for files or packages
// and runs none of them: `ls /bin/sh` and `chmod +x bash` start no shell.
func onlyNames(program string) bool {
	switch name(program) {
	case "ls", "cat", "cp", "mv", "ln", "rm", "chmod", "chown", "head", "tail", "wc", "file",
		"stat", "mkdir", "touch", "cd", "apt", "apt-get", "apk", "dnf", "yum", "pip",
		"shellcheck", "shfmt", "diff", "readlink", "realpath", "basename", "dirname":
		return true
	}
	return false
}

// wraps reports whether a program is known for running the words after its
// own options. It decides only about names that are also common words.
func wraps(program string) bool {
	switch name(program) {
	case "sudo", "doas", "env", "command", "exec", "nohup", "nice", "ionice", "time", "timeout",
		"setsid", "stdbuf", "busybox", "toybox", "chroot", "unshare", "nsenter", "strace", "find", "xargs",
		"chrt", "taskset", "ltrace", "setpriv", "prlimit", "numactl", "setarch", "systemd-run", "firejail", "bwrap",
		"fakeroot", "proot", "flock", "runuser", "pkexec", "gosu", "su-exec", "dbus-run-session", "xvfb-run", "unbuffer",
		"chronic", "eatmydata", "rlwrap", "valgrind", "perf", "caffeinate", "gtimeout", "builtin", "noglob", "nocorrect", "repeat",
		"parallel", "entr", "tini", "dumb-init", "cgexec", "fd", "fdfind", "gfind":
		return true
	}
	return false
}

// builtin handles the shell's own commands that run or redefine words.
func (r *reader) builtin(argv []string, depth int) {
strip:
	for len(argv) > 1 {
		switch argv[0] {
		case "command", "builtin":
		case "noglob", "nocorrect", "-", "repeat":
			r.opaque = true // zsh's own; other shells would look for a program
			if argv[0] == "repeat" && len(argv) > 2 {
				argv = argv[1:]
			}
		default:
			break strip
		}
		argv = argv[1:]
		for len(argv) > 1 && strings.HasPrefix(argv[0], "-") {
			argv = argv[1:]
		}
	}
	args := argv[1:]
	switch argv[0] {
	case "[", "test", "printf", "read", "unset", "getopts", "wait", "declare", "typeset", "local", "export", "readonly":
		// They take names of variables, and a subscript in one is arithmetic,
		// which runs $(…) even out of a quoted word. And they set variables.
		for i, w := range args {
			variable, value, given := strings.Cut(w, "=")
			subscript := strings.IndexByte(w, '[') >= 0 && strings.ContainsAny(w, "$`")
			integer := argv[0] != "printf" && argv[0] != "test" && argv[0] != "[" && argv[0] != "read" && isCluster(w) && strings.ContainsAny(w, "in")
			switch {
			case argv[0] == "printf" || argv[0] == "test" || argv[0] == "[":
				v := i > 0 && args[i-1] == "-v" || strings.HasPrefix(w, "-v") && len(w) > 2
				r.opaque = r.opaque || v && (subscript || steering(strings.TrimPrefix(w, "-v")))
			default:
				steers := steering(variable)
				if given {
					steers = assigns(variable, value)
				}
				r.opaque = r.opaque || subscript || integer || steers
			}
		}
	}
	switch argv[0] {
	case "eval":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		r.script(strings.Join(args, " "), depth+1)
	case "trap":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		if len(args) > 1 && args[0] != "-" && !strings.HasPrefix(args[0], "-") {
			r.script(args[0], depth+1)
		}
	case "source", ".", "alias", "enable", "bind", "complete", "compgen", "mapfile", "readarray", "fc", "hash":
		// Each can make a later word mean something else, or run one.
		r.opaque = r.opaque || len(args) > 0
	}
}

// wrapper handles options of sudo and env that bring a script or a shell.
func (r *reader) wrapper(argv []string, depth int) {
	if r.scripts > MaxScripts || r.bytes > MaxScript {
		return // opaque already; a script would only be put together to be dropped
	}
	isEnv := name(argv[0]) == "env"
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		if variable, value, ok := strings.Cut(w, "="); ok && variable != "" && w[0] != '-' {
			r.opaque = r.opaque || assigns(variable, value)
			continue
		}
		if !strings.HasPrefix(w, "-") {
			return
		}
		if len(w) == 2 && (isEnv && strings.ContainsAny(w, "uC") || !isEnv && strings.ContainsAny(w, "ugUhpCrtTDR")) {
			i++ // its argument
			continue
		}
		if !isEnv {
			if strings.HasPrefix(w, "--s") || strings.HasPrefix(w, "--l") || isCluster(w) && strings.ContainsAny(w, "si") {
				r.opaque = true // the words, or the input, go to a shell
				r.script(strings.Join(argv[i+1:], " "), depth+1)
				return
			}
			continue
		}
		if strings.HasPrefix(w, "--s") && !strings.HasPrefix(w, "--split-string") {
			r.opaque = true // long options may be cut short
		}
		rest, ok := strings.CutPrefix(w, "--split-string")
		if !ok && isCluster(w) {
			if at := strings.IndexByte(w, 'S'); at > 0 {
				rest, ok = w[at+1:], true
			}
		}
		if ok {
			// env -S splits by rules of its own, close to the shell's.
			r.opaque = true
			r.script(strings.TrimPrefix(rest, "=")+" "+strings.Join(argv[i+1:], " "), depth+1)
			return
		}
	}
}

// isCluster reports whether w is a group of one-letter options.
func isCluster(w string) bool {
	return len(w) > 1 && (w[0] == '-' || w[0] == '+') && w[1] != '-'
}

// shell handles the arguments of a POSIX-like shell. With -c the script is
// the first word after all options, wherever -c itself stands.
func (r *reader) shell(shell string, args []string, in input, depth int) {
	hasC, stdin := false, false
	for len(args) > 0 {
		w := args[0]
		if w == "--" || w == "-" {
			args = args[1:]
			break
		}
		if strings.HasPrefix(w, "--") {
			args = args[1:]
			switch w {
			case "--rcfile", "--init-file":
				r.opaque = true // a file of commands that runs first
				if len(args) > 0 {
					args = args[1:]
				}
			case "--version", "--help":
				return
			}
			continue
		}
		if !isCluster(w) {
			break
		}
		args = args[1:]
		for _, o := range w[1:] {
			switch o {
			case 'c':
				hasC = true
			case 's':
				stdin = true
			case 'T', 'R', 'o', 'O':
				// mksh's -T and ksh93's -R have a value, those of others none.
				ksh := strings.Contains(shell, "ksh")
				if o == 'T' || o == 'R' {
					r.opaque = r.opaque || ksh
				}
				if len(args) > 0 && (ksh || o == 'o' || o == 'O') {
					args = args[1:]
				}
			}
		}
	}
	switch {
	case hasC && len(args) > 0:
		r.script(args[0], depth+1)
	case hasC:
		r.opaque = true
	case len(args) > 0 && !stdin && !strings.HasPrefix(args[0], "/dev/") && !strings.HasPrefix(args[0], "/proc/"):
		// A script file: no more opaque than any other program.
	case in.known:
		r.opaque = r.opaque || !in.literal
		r.script(in.text, depth+1)
	default:
		r.opaque = true // commands from a pipe or a terminal
	}
}

// dashC handles programs that give the argument of -c to a shell.
func (r *reader) dashC(prog string, args []string, depth int) {
	for i, w := range args {
		var rest string
		switch {
		case strings.HasPrefix(w, "--command"), strings.HasPrefix(w, "--session-command"):
			_, rest, _ = strings.Cut(w, "=")
		case isCluster(w) && strings.IndexByte(w, 'c') > 0:
			rest = w[strings.IndexByte(w, 'c')+1:]
		default:
			continue
		}
		if rest == "" && i+1 < len(args) {
			rest = args[i+1]
		}
		r.script(rest, depth+1)
		return
	}
	if prog != "flock" { // flock runs the words themselves, the others a shell
		r.opaque = true
	}
}

// steering reports whether a variable decides which program a word names or
// how words are split.
func steering(variable string) bool {
	switch variable {
	case "PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS4", "GLOBIGNORE", "CDPATH":
		return true
	}
	return commandVariable(variable) || strings.HasPrefix(variable, "LD_") || strings.HasPrefix(variable, "DYLD_") || strings.HasPrefix(variable, "BASH_FUNC_")
}

// name is a program's name without its directory and, for Windows' bash, its
// extension.
func name(word string) string {
	return strings.TrimSuffix(path.Base(word), ".exe")
}
