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
	j := judge{argvs: words()}
	j.dir, _ = guard.Get("/session/workspace")
	for _, key := range []string{"workdir", "cwd"} {
		if d, ok := guard.Get("/call/arguments/" + key); ok && d != "" {
			j.dir = clean(j.dir, d)
		}
	}
	if !strings.HasPrefix(j.dir, "/") {
		j.dir = ""
	}
	for _, argv := range j.argvs {
		if why := j.command(argv); why != "" {
			return guard.Deny(why)
		}
	}
	if opaque == "true" && (j.doubtful || len(j.argvs) == 0) {
		if dir := meets(text()); dir != "" {
			return guard.Deny("this command cannot be read to the end, and it names both a deleting command and " + dir +
				". Name what to delete literally, in a call of its own, as in: rm -rf ./build")
		}
	}
	return guard.Pass
}

// words reads the host's parse, word by word.
func words() (argvs [][]string) {
	for i := 0; ; i++ {
		var argv []string
		for j := 0; ; j++ {
			w, ok := guard.Get("/call/shell/argv/" + strconv.Itoa(i) + "/" + strconv.Itoa(j))
			if !ok {
				break
			}
			argv = append(argv, w)
		}
		if len(argv) == 0 {
			return argvs
		}
		argvs = append(argvs, argv)
	}
}

// text is the command as the model wrote it, whatever the tool calls it.
func text() string {
	for _, key := range []string{"command", "cmd", "script", "code"} {
		if s, ok := guard.Get("/call/arguments/" + key); ok {
			return s
		}
	}
	s, _ := guard.Get("/call/arguments")
	return s
}

// judge goes through the commands in order.
type judge struct {
	argvs    [][]string
	dir      string // the working directory, "" if unknown
	doubtful bool   // what an opaque part stands for could be a deletion
}

// command returns why the command must not run, or "".
func (j *judge) command(argv []string) string {
	program := base(argv[0])
	if _, unsure, _ := expand(argv[0]); unsure {
		j.doubtful = true // the program itself is unknown
	}
	switch {
	case program == "cd" || program == "pushd":
		j.cd(argv[1:])
	case program == "alias" || shell(program) && !scripted(argv):
		j.doubtful = true // may run words that are not among those read
	}
	if deletes(program) {
		return j.remove(argv)
	}
	if program == "find" {
		return j.find(argv)
	}
	if !wrapper(program) {
		return ""
	}
	for i := 1; i < len(argv); i++ {
		switch b := base(argv[i]); {
		case deletes(b):
			if program == "xargs" || program == "parallel" {
				if why := j.fed(); why != "" {
					return why
				}
			}
			return j.remove(argv[i:])
		case b == "find":
			return j.find(argv[i:])
		case shell(b) && !scripted(argv[i:]):
			j.doubtful = true
		}
	}
	return ""
}

func (j *judge) cd(args []string) {
	for _, a := range args {
		if strings.HasPrefix(a, "-") && a != "-" {
			continue
		}
		p, unsure, _ := expand(a)
		if unsure || a == "-" || pattern(p) {
			j.dir = ""
			return
		}
		if j.dir = clean(j.dir, p); j.dir[0] != '/' {
			j.dir = ""
		}
		return
	}
	j.dir = home
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
	p, unsure, guarded := expand(w)
	if unsure {
		j.doubtful = true
		if p == "" || guarded {
			return ""
		}
	}
	abs := clean(j.dir, p)
	switch {
	case !precious(abs):
		return ""
	case unsure:
		// The reason's alphabet has no dollar and no quotes.
		return "if the variable in the path is empty, this deletes " + show(abs) +
			". Write the path itself, as in: rm -rf ./build"
	}
	return "this would delete " + show(abs) +
		". Delete what you made, by its path inside the workspace, as in: rm -rf ./build"
}

// find judges a find that deletes, by the directories that it starts from.
func (j *judge) find(argv []string) string {
	deleting := false
	for i, w := range argv {
		switch w {
		case "-delete":
			deleting = true
		case "-exec", "-execdir", "-ok", "-okdir":
			for _, after := range argv[i+1:] {
				deleting = deleting || deletes(base(after)) || shell(base(after))
			}
		}
	}
	if !deleting {
		return ""
	}
	starts := 0
	for _, w := range argv[1:] {
		if w == "-H" || w == "-L" || w == "-P" || strings.HasPrefix(w, "-O") {
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

// fed judges a deletion whose paths come from another command.
func (j *judge) fed() string {
	for _, argv := range j.argvs {
		for i, w := range argv {
			if i == 0 {
				continue
			}
			if p, unsure, _ := expand(w); !unsure && (strings.HasPrefix(p, "/") || p == "..") && precious(clean(j.dir, p)) {
				return "this feeds " + show(clean(j.dir, p)) +
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
	// Quotes go without parting words: what follows a quoted variable is no
	// word of its own.
	s = strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(s)
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\r\n`;|&<>()=,", r) }) {
		if deletes(base(w)) || w == "-delete" {
			deleting = true
			continue
		}
		if p, unsure, _ := expand(strings.TrimSuffix(strings.TrimPrefix(w, "{"), "}")); !unsure && dir == "" && precious(clean("", p)) {
			dir = show(clean("", p))
		}
	}
	if !deleting {
		return ""
	}
	return dir
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

func deletes(program string) bool {
	return is(program, "rm", "grm", "srm", "rmdir", "unlink", "shred")
}

func shell(program string) bool {
	return is(program, "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "rbash", "su")
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

// wrapper reports whether a program runs the words after its own options.
func wrapper(program string) bool {
	return is(program, "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "ionice", "chrt",
		"taskset", "time", "timeout", "stdbuf", "setsid", "xargs", "parallel", "busybox", "toybox", "unshare",
		"nsenter", "chroot", "strace", "ltrace", "watch", "flock", "setpriv", "runuser", "su", "caffeinate",
		"systemd-run", "firejail", "bwrap", "script", "gtimeout", "unbuffer")
}
