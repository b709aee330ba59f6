// Package shell is what the guards in Go know about shell commands: names of
// programs, commands whose words do not say what they run, a search of the text
// for those, and where a path lies. shell.h and shell.rs are the same for C and
// Rust, as far as the guards there need it.
//
// The host has parsed the command: wrappers (sudo, xargs, sh -c, find -exec)
// are followed by the command that they run. What is left is named here.
package shell

import (
	"iter"
	"strconv"
	"strings"
)

// Get looks up a JSON Pointer in the input document, as guard.Get does.
type Get func(pointer string) (string, bool)

// Kind is what a program is: a set of bits.
type Kind uint32

const (
	IsShell   Kind = 1 << iota // reads a script; one among its words was read by the host
	Interpret                  // reads a program in another language
	Wrapper                    // runs the words after its options; what it runs follows in the list
	Foreign                    // runs what is not in its words, or not as they stand there
	Source                     // runs a file in the same shell
	Own                        // the first that a guard has for itself
)

var kinds = map[string]Kind{}

func init() {
	Register(IsShell, "sh bash rbash dash ash hush posh zsh ksh ksh93 rksh mksh lksh oksh yash")
	Register(Interpret, "python python2 python3 perl ruby node nodejs bun deno php lua rscript osascript tclsh expect jshell groovy")
	Register(Wrapper, "sudo doas env command builtin exec nohup nice ionice time timeout gtimeout stdbuf setsid xargs parallel watch strace ltrace busybox toybox chroot unshare flock chrt taskset caffeinate npx poetry uv bundle pipenv")
	Register(Foreign, "alias fish pwsh powershell nu elvish xonsh csh tcsh cmd xargs parallel ssh at batch watch tmux screen crontab nix-shell entr script hyperfine awk gawk mawk nawk vim vi nvim ex ed emacs make gmake gdb socat tar")
	Register(Source, "source .")
}

// Register says that the programs of these names are of a kind, besides what
// they are already. It is for the start of a guard.
func Register(k Kind, names string) {
	for _, n := range strings.Fields(names) {
		kinds[n] |= k
	}
}

// Program is the first word of a command, looked up.
type Program struct {
	word string
	Name string // in lower case, without directory and .exe
	Kind Kind
	odd  bool // the shell makes something else of the name
}

// programs remembers what was looked up: a script has few different ones, and
// thousands of commands.
var programs [16]Program

// Look looks up a command's first word. The result is good until the next Look.
func Look(word string) *Program {
	slot := len(word)
	if slot > 0 {
		slot += int(word[0]) + int(word[len(word)-1])<<1
	}
	p := &programs[slot%len(programs)]
	if p.word != word || word == "" {
		name := strings.TrimSuffix(strings.ToLower(word[strings.LastIndexByte(word, '/')+1:]), ".exe")
		*p = Program{word, name, kinds[name], strings.ContainsAny(name, "$`)}*?") || strings.Contains(name, "[") && name != "[" && name != "[["}
		if strings.HasPrefix(name, "python3.") {
			p.Kind |= Interpret
		}
	}
	return p
}

// Dynamic reports whether the shell expands a variable or a command in the word.
func Dynamic(word string) bool {
	return strings.ContainsAny(word, "$`") || strings.HasPrefix(word, "<(")
}

// Unseen reports whether what a command runs is not among its words. The
// program is its first word's.
func (p *Program) Unseen(argv []string) bool {
	if !p.odd && p.Kind&(IsShell|Interpret|Foreign|Source) == 0 {
		return p.Name == "git" && len(argv) > 1 && strings.HasPrefix(argv[1], "-c") // settings name programs
	}
	first := ""
	if len(argv) > 1 {
		first = argv[1]
	}
	stream := func(w string) bool {
		return Dynamic(w) || strings.HasPrefix(w, "/dev/") || strings.HasPrefix(w, "/proc/")
	}
	switch {
	case p.odd:
		return true
	case p.Kind&IsShell != 0:
		for _, w := range argv[1:] {
			switch {
			case strings.HasPrefix(w, "--"):
			case w != "" && (w[0] == '-' || w[0] == '+'):
				if strings.Contains(w, "c") {
					return false
				}
				if strings.Contains(w, "s") {
					return true
				}
			default:
				return stream(w)
			}
		}
		return first != "--version" && first != "--help"
	case p.Kind&Interpret != 0:
		for _, w := range argv[1:] {
			switch {
			case w == "" || w[0] != '-':
				return stream(w) || w == "eval"
			case w == "-m" || w == "-V" || w == "-v" || w == "--version" || w == "--help":
				return false
			case w == "-" || w == "--eval" || w == "--print" || w[1] != '-' && strings.ContainsAny(w, "ceErp"):
				return true // code in the words
			}
		}
		return true
	case p.Kind&Source != 0:
		return stream(first)
	}
	return len(argv) > 1
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func gap(s string, i int) bool {
	return i < len(s) && strings.IndexByte(" \t\r\n\\'\",[]()", s[i]) >= 0
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// Signs are words, in lower case, that texts are searched for. They are filed by
// their first byte when the guard starts, which is once.
type Signs [256][]string

// NewSigns files words; none may be empty.
func NewSigns(words ...string) *Signs {
	var s Signs
	for _, w := range words {
		s[w[0]] = append(s[w[0]], w)
	}
	return &s
}

// In returns the first that stands in a text, as words and whatever their case,
// or "". A space stands for whatever parts words there, in quotes and lists
// too. It reads the text once: guards have fuel for some hundred steps a byte
// of it.
func (s *Signs) In(text string) string {
	for from := range len(text) {
		c := lower(text[from])
		if s[c] == nil || from > 0 && letter(text[from-1]) && (letter(c) || c == '.') {
			continue
		}
		for _, words := range s[c] {
			if at(text, from, words) {
				return words
			}
		}
	}
	return ""
}

func at(text string, i int, words string) bool {
	for w := range len(words) {
		if words[w] == ' ' && gap(text, i) {
			for gap(text, i) {
				i++
			}
		} else if i < len(text) && lower(text[i]) == words[w] {
			i++
		} else {
			return false
		}
	}
	return !(letter(words[len(words)-1]) && i < len(text) && letter(text[i]))
}

// Text is the command as the model wrote it, or all arguments.
func Text(get Get) string {
	for _, key := range []string{"/command", "/cmd", "/script", "/code", ""} {
		if s, ok := get("/call/arguments" + key); ok {
			return s
		}
	}
	return ""
}

// List calls each with the elements of a list of texts, until it returns false.
func List(get Get, pointer string, each func(string) bool) {
	for i := 0; ; i++ {
		s, ok := get(pointer + "/" + strconv.Itoa(i))
		if !ok || !each(s) {
			return
		}
	}
}

// Paths goes through what a tool that nobody catalogued may name: its arguments
// of these names, and what is in lists of paths and files.
func Paths(get Get, arguments ...string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range arguments {
			if p, ok := get("/call/arguments/" + name); ok && p != "" && !yield(p) {
				return
			}
		}
		on := true
		for _, name := range []string{"paths", "files"} {
			List(get, "/call/arguments/"+name, func(p string) bool {
				on = yield(p)
				return on
			})
			if !on {
				return
			}
		}
	}
}

// Dirs goes through the directories in which a call says that it is run.
func Dirs(get Get) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range []string{"workdir", "cwd"} {
			if d, ok := get("/call/arguments/" + name); ok && d != "" && !yield(d) {
				return
			}
		}
	}
}

// What the operator wants for commands that can't be read to the end.
const (
	Search = "search" // look for the guard's subject in the text, where what is run is not in the words
	Pass   = "pass"   // judge the words alone
	Ask    = "ask"    // ask about every opaque command
	Deny   = "deny"   // deny every opaque command
)

// Opaque is the setting for opaque commands; false if it is none of the four.
func Opaque(get Get) (string, bool) {
	switch s, ok := get("/config/opaque"); {
	case !ok:
		return Search, true
	case s == Search, s == Pass, s == Ask, s == Deny:
		return s, true
	}
	return "", false
}

// OnlySettings holds the configuration to opaque and to lists of texts of these
// names. Every byte of it must be theirs.
func OnlySettings(get Get, lists ...string) bool {
	bytes, count := 2, 0
	if s, ok := get("/config/opaque"); ok {
		bytes, count = bytes+len(`"opaque":""`)+len(s), 1
	}
	for _, name := range lists {
		if s, ok := get("/config/" + name); ok {
			if !strings.HasPrefix(s, "[") {
				return false
			}
			bytes, count = bytes+len(`"":`)+len(name)+len(s), count+1
		}
	}
	all, _ := get("/config")
	return len(all) == bytes+max(0, count-1)
}

// Home stands for the user's home directory, whatever it is.
const Home = "/home/~"

// Resolve is the absolute path that a word names: from dir, with the home
// directory as Home, without . and .. in it. It reports false if that can't be
// told. A pattern stays in it as it is; dir may be "" for unknown.
func Resolve(dir, word string) (string, bool) {
	for _, h := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(word, h); ok && (rest == "" || rest[0] == '/') {
			word = Home + rest
		}
	}
	for _, h := range []string{"$PWD", "${PWD}", "$(pwd)", "~+"} {
		if rest, ok := strings.CutPrefix(word, h); ok && (rest == "" || rest[0] == '/') {
			word = "." + rest
		}
	}
	if user, rest, _ := strings.Cut(word, "/"); strings.HasPrefix(user, "~") && !Dynamic(user) {
		word = "/home/" + user[1:] + "/" + rest
	}
	if Dynamic(word) || !strings.HasPrefix(word, "/") && dir == "" {
		return "", false
	}
	if !strings.HasPrefix(word, "/") {
		word = dir + "/" + word
	}
	return Clean(word), true
}

// Clean is an absolute path without //, . and ...
func Clean(p string) string {
	var parts []string
	for part := range strings.SplitSeq(p, "/") {
		switch part {
		case "", ".":
		case "..":
			parts = parts[:max(0, len(parts)-1)]
		default:
			parts = append(parts, part)
		}
	}
	return "/" + strings.Join(parts, "/")
}

// Inside reports whether an absolute clean path is below a directory.
func Inside(path, dir string) bool {
	return dir == "/" || strings.HasPrefix(path, dir+"/")
}
