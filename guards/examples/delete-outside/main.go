//go:build wasip1

package main

import (
	"strings"

	"github.com/guardproxy/guardproxy/guards/examples/shell"
	guard "github.com/guardproxy/guardproxy/guards/sdk/go"
)

const (
	deletes = shell.Own << iota
	finds
	moves // to another directory
	gits
	syncs
	fds
	renames
)

func init() {
	shell.Register(deletes, "rm grm srm rmdir unlink shred trash trash-put rimraf del del-cli remove-item gvfs-trash send2trash")
	shell.Register(finds, "find gfind bfs")
	shell.Register(moves, "cd pushd chdir popd")
	shell.Register(fds, "fd fdfind")
	shell.Register(gits, "git")
	shell.Register(syncs, "rsync")
	shell.Register(renames, "mv")
}

func isDeleter(word string) bool { return shell.Look(word).Kind&deletes != 0 }

//go:wasmexport guard_config_v1
func config() int32 {
	if _, ok := shell.Opaque(guard.Get); !ok || !shell.OnlySettings(guard.Get, "allow") {
		return guard.Deny("the settings are allow, a list of directories, and opaque: search, pass, ask or deny")
	}
	ok := true
	shell.List(guard.Get, "/config/allow", func(dir string) bool {
		ok = strings.HasPrefix(dir, "/") && shell.Clean(dir) == strings.TrimSuffix(dir, "/")
		return ok
	})
	if !ok {
		return guard.Deny("allow takes absolute directories without dots in them")
	}
	return guard.Pass
}

//go:wasmexport guard_check_v1
func check() int32 {
	j := judge{roots: []string{"/tmp", "/var/tmp", "/private/tmp"}}
	if w, _ := guard.Get("/session/workspace"); strings.HasPrefix(w, "/") {
		j.workspace = shell.Clean(w)
		j.dir = j.workspace
		j.roots = append(j.roots, j.workspace)
	}
	shell.List(guard.Get, "/config/allow", func(dir string) bool {
		j.roots = append(j.roots, shell.Clean(dir))
		return true
	})
	opaque, isShell := guard.Get("/call/shell/opaque")
	if !isShell {
		return j.tool()
	}
	for d := range shell.Dirs(guard.Get) {
		j.cd(d)
	}
	count := 0
	for argv := range guard.Commands() {
		if len(argv) == 0 {
			continue
		}
		count++
		if why := j.command(argv); why != "" {
			return deny(why)
		}
	}
	unread := opaque == "true"
	if setting, _ := shell.Opaque(guard.Get); setting == shell.Search {
		switch {
		case j.fed != "" && (j.feeds || j.unknown && j.reads):
			return deny(j.fed)
		case j.unseen || j.unknown || unread && count == 0:
			if p := j.spoken(shell.Text(guard.Get)); p != "" {
				return guard.Deny("this command cannot be read to the end, and its text speaks of deleting and of " + p + ", outside of the workspace. Name what to delete literally")
			}
		}
	}
	return shell.Answer(unread)
}

func deny(path string) int32 {
	if strings.HasPrefix(path, shell.Home) {
		path = "~" + path[len(shell.Home):]
	}
	return guard.Deny(path + " is outside of the workspace, and not to be deleted. Delete what you made, inside of it or in /tmp")
}

type judge struct {
	workspace string
	roots     []string
	dir       string // "" if unknown
	once      string // of the next command alone

	unseen  bool   // what a command runs is not in its words
	unknown bool   // a deletion of what is in a variable
	reads   bool   // words are put into variables that nobody can follow
	feeds   bool   // a deletion takes its paths from another command
	fed     string // a path outside that another command names
}

func (j *judge) cd(word string) {
	to, ok := shell.Resolve(j.dir, word)
	if !ok {
		to = ""
	}
	j.dir = to
}

// outside returns the path that a word names if it must not be deleted.
func (j *judge) outside(dir, word string) string {
	p, ok := shell.Resolve(dir, word)
	if !ok {
		j.unknown = true
		j.reads = j.reads || positional(word)
		if strings.Contains(word, "$(") || strings.Contains(word, "`") {
			if named := j.named(word); named != "" {
				return named // what is deleted is made of a path outside
			}
		}
		if dir == "" && !shell.Dynamic(word) && (word == ".." || strings.HasPrefix(word, "../")) {
			return word
		}
		return ""
	}
	for _, root := range j.roots {
		if shell.Inside(p, root) {
			return ""
		}
	}
	if j.workspace == "" && !strings.HasPrefix(word, "/") && !strings.HasPrefix(p, shell.Home) {
		return "" // somewhere below a directory that nobody named
	}
	return p
}

// command returns the path outside that a command deletes, or "".
func (j *judge) command(argv []string) string {
	program := shell.Look(argv[0])
	name, kind := program.Name, program.Kind
	j.unseen = j.unseen || program.Unseen(argv)
	dir := j.dir
	if j.once != "" {
		dir, j.once = j.once, ""
	}
	switch {
	case name == "popd":
		j.dir = ""
	case kind&moves != 0:
		to := "~"
		for _, w := range argv[1:] {
			if w == "-" || !strings.HasPrefix(w, "-") {
				to = w
				break
			}
		}
		if to == "-" {
			to = "$OLDPWD"
		}
		j.cd(to)
	case name == "read" || name == "mapfile" || name == "readarray" || name == "set" && len(argv) > 2:
		j.reads = true
	case kind&shell.IsShell != 0 && len(argv) > 3:
		j.reads = true // the script's own arguments
	case kind&fds != 0:
		return j.fd(dir, argv)
	case name == "xargs" || name == "parallel":
		for _, w := range argv[1:] {
			j.feeds = j.feeds || isDeleter(w)
		}
	case kind&shell.Wrapper != 0:
		j.chdir(name, dir, argv)
	case kind&deletes != 0:
		return j.operands(dir, argv[1:])
	case kind&finds != 0:
		return j.find(dir, argv)
	case kind&syncs != 0:
		for _, w := range argv[1:] {
			switch {
			case strings.HasPrefix(w, "--del"):
				return j.outside(dir, argv[len(argv)-1])
			case w == "--remove-source-files":
				return j.operands(dir, argv[1:len(argv)-1])
			}
		}
	case kind&gits != 0:
		return j.git(dir, argv)
	case name == "gio" && len(argv) > 2 && (argv[1] == "trash" || argv[1] == "remove"),
		name == "rclone" && len(argv) > 2 && (argv[1] == "delete" || argv[1] == "purge" || argv[1] == "deletefile" || argv[1] == "rmdir"),
		name == "cmake" && len(argv) > 3 && argv[1] == "-E" && strings.HasPrefix(argv[2], "remove"):
		return j.operands(dir, argv[2:])
	case kind&renames != 0:
		if len(argv) > 2 && argv[len(argv)-1] == "/dev/null" {
			return j.operands(dir, argv[1:len(argv)-1])
		}
	}
	if j.fed == "" && kind&(deletes|moves) == 0 {
		for _, w := range argv[1:] {
			if strings.HasPrefix(w, "/") && !strings.HasPrefix(w, "/dev/") || strings.HasPrefix(w, "~") || strings.HasPrefix(w, "..") {
				if p := j.outside(dir, w); p != "" {
					j.fed = p
					break
				}
			}
		}
	}
	return ""
}

// chdir notes the directory in which a wrapper starts its command.
func (j *judge) chdir(name, dir string, argv []string) {
	for i, w := range argv[1:] {
		to, ok := strings.CutPrefix(w, "--chdir=")
		if !ok && i+2 < len(argv) && (w == "--chdir" || name == "env" && w == "-C" || name == "sudo" && w == "-D") {
			to, ok = argv[i+2], true
		}
		if ok {
			if j.once, ok = shell.Resolve(dir, to); !ok {
				j.once = ""
			}
			return
		}
	}
}

// positional: the word is an argument of the function or script that it stands in.
func positional(word string) bool {
	for _, p := range []string{"$1", "$2", "$@", "$*", "${1", "${2", "${@", "${*"} {
		if strings.Contains(word, p) {
			return true
		}
	}
	return false
}

// named returns the first path outside that is a word of a substitution.
func (j *judge) named(substitution string) string {
	for w := range strings.FieldsFuncSeq(substitution, func(c rune) bool { return strings.ContainsRune(" \t\n\"'()`;|&<>", c) }) {
		if !shell.Dynamic(w) && (strings.HasPrefix(w, "/") && !strings.HasPrefix(w, "/dev/") && !strings.HasPrefix(w, "/bin/") && !strings.HasPrefix(w, "/usr/bin/") || strings.HasPrefix(w, "~")) {
			if p := j.outside(j.dir, w); p != "" {
				return p
			}
		}
	}
	return ""
}

func (j *judge) operands(dir string, args []string) string {
	options := true
	for _, w := range args {
		if options && len(w) > 1 && w[0] == '-' {
			options = w != "--"
			continue
		}
		if p := j.outside(dir, w); p != "" {
			return p
		}
	}
	return ""
}

// find judges one that deletes by where it starts.
func (j *judge) find(dir string, argv []string) string {
	deleting := false
	for i, w := range argv {
		if w == "-delete" {
			deleting = true
		}
		if (w == "-exec" || w == "-execdir" || w == "-ok" || w == "-okdir") && i+1 < len(argv) {
			for _, p := range argv[i+1:] {
				if p == ";" {
					break
				}
				deleting = deleting || isDeleter(p) || strings.Contains(p, " ") && signs.In(p) != ""
			}
		}
	}
	if !deleting {
		for _, w := range argv[1:] {
			if p := ""; j.fed == "" && (strings.HasPrefix(w, "/") || strings.HasPrefix(w, "~") || strings.HasPrefix(w, "..")) {
				if p = j.outside(dir, w); p != "" {
					j.fed = p
				}
			}
		}
		return ""
	}
	for _, w := range argv[1:] {
		switch {
		case w == "-H" || w == "-L" || w == "-P" || strings.HasPrefix(w, "-O"):
			continue
		case strings.HasPrefix(w, "-") || w == "(" || w == "!":
			return ""
		}
		// What is found lies below: to start at the workspace is fine.
		if p := j.outside(dir, strings.TrimSuffix(w, "/")+"/x"); p != "" {
			return above(p)
		}
	}
	return ""
}

// fd judges one that deletes by the directories among its words.
func (j *judge) fd(dir string, argv []string) string {
	for i, w := range argv {
		if (w == "-x" || w == "-X" || strings.HasPrefix(w, "--exec")) && i+1 < len(argv) && isDeleter(argv[i+1]) {
			for _, start := range argv[1:i] {
				if strings.HasPrefix(start, "/") || strings.HasPrefix(start, "~") || strings.HasPrefix(start, "..") {
					if p := j.outside(dir, strings.TrimSuffix(start, "/")+"/x"); p != "" {
						return above(p)
					}
				}
			}
		}
	}
	return ""
}

// above is the directory of a path x in it, "" for "".
func above(p string) string {
	if p == "/x" {
		return "/"
	}
	return strings.TrimSuffix(p, "/x")
}

// git judges clean and rm in other directories.
func (j *judge) git(dir string, argv []string) string {
	cleans := false
	for i := 1; i < len(argv); i++ {
		switch w := argv[i]; {
		case strings.HasPrefix(w, "--work-tree="):
			if to, ok := shell.Resolve(dir, w[len("--work-tree="):]); ok {
				dir = to
			}
		case (w == "-C" || w == "--work-tree") && i+1 < len(argv):
			if to, ok := shell.Resolve(dir, argv[i+1]); ok {
				dir = to
			}
			i++
		case w == "clean" || w == "rm" || w == "worktree" && i+1 < len(argv) && argv[i+1] == "remove":
			cleans = true
			if w == "worktree" {
				return j.operands(dir, argv[i+2:])
			}
		}
	}
	if cleans {
		return above(j.outside(dir, "./x"))
	}
	return ""
}

// tool judges a tool that deletes by its name.
func (j *judge) tool() int32 {
	name, _ := guard.Get("/call/name")
	name = strings.ToLower(name)
	if !strings.Contains(name, "delete") && !strings.Contains(name, "remove") && !strings.Contains(name, "unlink") && name != "rm" {
		return guard.Pass
	}
	for p := range shell.Paths(guard.Get, "path", "file_path", "filePath", "file", "filename", "target", "target_file", "directory", "dir") {
		if out := j.outside(j.dir, p); out != "" {
			return deny(out)
		}
	}
	return guard.Pass
}

var signs = shell.NewSigns("rm", "rmdir", "unlink", "shred", "rmtree", "os.remove", "os.unlink", "remove", "removeall", "rmsync", "removesync", "unlinksync", "rimraf", "remove-item", "fileutils.rm_rf", "rm_rf", "-delete")

// spoken returns a path outside that a text gives to a variable, to a function
// or to a list, if it speaks of deleting too.
func (j *judge) spoken(text string) string {
	if signs.In(text) == "" {
		return ""
	}
	for i := range len(text) {
		if c := text[i]; c != '/' && c != '~' && !(c == '$' && (strings.HasPrefix(text[i:], "$HOME") || strings.HasPrefix(text[i:], "${HOME}"))) && !(c == '.' && strings.HasPrefix(text[i:], "../")) {
			continue
		}
		fallback := i > 1 && text[i-1] == '-' && text[i-2] == ':'
		if i > 0 && !fallback && strings.IndexByte("=('\" \t\n[,", text[i-1]) < 0 {
			continue
		}
		if i > 1 && (text[i-1] == '"' || text[i-1] == '\'') && strings.IndexByte(" \t\n=([,:", text[i-2]) < 0 {
			continue // behind a closing quote: the path goes on
		}
		// Behind a space it is a variable's only in a list: for x in /a /b.
		if i > 0 && (text[i-1] == ' ' || text[i-1] == '\t' || text[i-1] == '\n') && !j.unseen && !strings.Contains(text[:i], " in ") {
			continue
		}
		end := i
		for end < len(text) && strings.IndexByte(" \t\n\r'\"`;|&<>(),=]", text[end]) < 0 {
			end++
		}
		p := text[i:end]
		if fallback {
			p = strings.Replace(p, "}", "", 1) // "${TMPDIR:-/tmp}/x"
		}
		if p == "/" && !j.unknown && !j.unseen || strings.HasPrefix(p, "/dev/") || strings.HasPrefix(p, "/bin/") || strings.HasPrefix(p, "/usr/bin/") || strings.HasPrefix(p, "//") {
			continue
		}
		if out := j.outside(j.workspace, p); out != "" {
			return p
		}
	}
	return ""
}
