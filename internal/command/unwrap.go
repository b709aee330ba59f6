package command

import (
	"slices"
	"strings"
)

// Programs that run the words after their own options: `sudo -u root rm x` is
// as much an rm as a sudo. The command that they run follows theirs in the
// list of argvs, so that a guard compares one word with a name instead of
// knowing the options of fifty programs.
//
// The data structure: wrappers has, by a program's name, how many of its words
// come before the command. Where an option is not known to the table, the word
// after it may be its value or the command, and both readings are given: a
// reading too many is a command that guards look at in vain.

// MaxWrappers is the depth to which commands in the words of commands are
// followed.
const MaxWrappers = 8

// wrapper says where the command stands in a program's words.
type wrapper struct {
	values  string   // one-letter options with a value
	long    []string // long options with a value, without dashes
	two     []string // long options with two values
	flags   []string // long options without one
	before  int      // words before the command
	perhaps bool     // or none
	assigns bool     // NAME=value may stand before it
	subs    []string // only after one of these words, which is the program's first
	stop    string   // one-letter options after which the words are no command
	dashes  bool     // what stands behind a -- is a command, too, wherever that is
}

var wrappers = map[string]wrapper{
	"sudo": {values: "ugUhpCrtTDR", long: []string{"user", "group", "other-user", "host", "prompt", "close-from", "role", "type", "command-timeout", "chdir", "chroot"},
		flags: []string{"preserve-env", "non-interactive", "set-home", "stdin", "askpass", "background", "reset-timestamp", "preserve-groups"}, assigns: true, stop: "siel"},
	"doas": {values: "uC", stop: "s"},
	"env": {values: "uC", long: []string{"unset", "chdir"}, flags: []string{"ignore-environment", "debug", "null",
		"default-signal", "ignore-signal", "block-signal", "list-signal-handling"}, assigns: true, stop: "S"},
	"pkexec": {long: []string{"user"}}, "runuser": {values: "ugGsw", long: []string{"user", "group", "supp-group", "shell"}, stop: "c"},
	"gosu": {before: 1}, "su-exec": {before: 1}, "setpriv": {flags: []string{"no-new-privs", "clear-groups", "keep-groups", "init-groups", "reset-env", "nnp"}},
	"capsh": {subs: []string{"--"}},

	"command": {stop: "vV"}, "builtin": {}, "exec": {values: "a"}, "noglob": {}, "nocorrect": {}, "-": {}, "repeat": {before: 1},
	"nohup": {}, "setsid": {}, "nice": {values: "n", long: []string{"adjustment"}}, "ionice": {values: "cnpPu", long: []string{"class", "classdata"}},
	"time": {values: "fo", long: []string{"format", "output"}}, "timeout": {values: "ks", long: []string{"kill-after", "signal"}, flags: []string{"foreground", "preserve-status", "verbose"}, before: 1},
	"gtimeout": {values: "ks", before: 1}, "stdbuf": {values: "ioe"}, "chrt": {before: 1, values: "TPD"}, "taskset": {before: 1, stop: "p"},
	"caffeinate": {values: "tw"}, "unbuffer": {}, "chronic": {}, "eatmydata": {}, "rlwrap": {}, "faketime": {before: 1},
	"fakeroot": {values: "lbsi"}, "proot": {values: "rRSbmwqk"}, "chroot": {before: 1, long: []string{"userspec", "groups"}},
	"unshare": {values: "SGRwl"}, "nsenter": {values: "tSGWN"}, "setarch": {before: 1, perhaps: true}, "linux32": {}, "linux64": {}, "i386": {}, "uname26": {}, "cmake": {subs: []string{"-E"}},
	"firejail": {}, "bwrap": {long: []string{"args", "argv0", "bind-fd", "cap-add", "cap-drop", "chdir", "dev", "dir", "exec-label", "file-label", "gid", "hostname", "info-fd", "json-status-fd", "lock-file", "mqueue", "perms", "proc", "remount-ro", "seccomp", "size", "sync-fd", "tmpfs", "uid", "unsetenv", "userns"},
		two:   []string{"bind", "bind-data", "bind-try", "chmod", "dev-bind", "dev-bind-try", "file", "ro-bind", "ro-bind-data", "ro-bind-try", "setenv", "symlink"},
		flags: []string{"as-pid-1", "clearenv", "die-with-parent", "disable-userns", "new-session", "unshare-all", "share-net", "unshare-user", "unshare-user-try", "unshare-ipc", "unshare-pid", "unshare-net", "unshare-uts", "unshare-cgroup", "unshare-cgroup-try"}, dashes: true},
	"systemd-run": {values: "pEtHMu"}, "cgexec": {values: "g"}, "prlimit": {}, "numactl": {values: "NCmpbi"},
	"dbus-run-session": {}, "xvfb-run": {values: "nsefw"}, "tini": {}, "dumb-init": {},
	"strace": {values: "eopsuPEabIOSUX"}, "ltrace": {values: "eopsunalX"}, "valgrind": {}, "gdb": {subs: []string{"--args"}},
	"perf": {subs: []string{"stat", "record", "trace"}, values: "eopFcCrIxtuGDmjkwN"}, "flock": {values: "wE", before: 1, stop: "c"},
	"xargs": {values: "IELndPsa", long: []string{"max-args", "max-procs", "max-lines", "max-chars", "arg-file", "delimiter", "process-slot-var"},
		flags: []string{"null", "no-run-if-empty", "verbose", "interactive", "open-tty", "exit", "replace"}},
	"parallel": {values: "jnaSNLP"}, "watch": {values: "ndi", long: []string{"interval"}, flags: []string{"differences", "color", "no-title", "beep", "errexit", "chgexit"}},
	"entr": {}, "busybox": {}, "toybox": {}, "hyperfine": {values: "rwmMn"}, "doppler": {subs: []string{"run"}}, "op": {subs: []string{"run"}},
	"aws-vault": {subs: []string{"exec"}, before: 1}, "chamber": {subs: []string{"exec"}, before: 1}, "direnv": {subs: []string{"exec"}, before: 1},

	"corepack": {}, "npx": {values: "p", long: []string{"package"}, flags: []string{"yes", "no-install"}, stop: "c"}, "bunx": {}, "pnpx": {}, "uvx": {long: []string{"from", "with", "python"}},
	"npm": {subs: []string{"exec", "x"}}, "pnpm": {subs: []string{"exec", "dlx"}}, "yarn": {subs: []string{"exec", "dlx"}}, "bun": {subs: []string{"x"}},
	"pipx": {subs: []string{"run"}}, "uv": {subs: []string{"run"}, long: []string{"with", "python", "project", "directory", "extra", "group"}}, "poetry": {subs: []string{"run"}}, "pipenv": {subs: []string{"run"}},
	"pdm": {subs: []string{"run"}}, "hatch": {subs: []string{"run"}}, "rye": {subs: []string{"run"}}, "conda": {subs: []string{"run"}, values: "np"}, "micromamba": {subs: []string{"run"}, values: "np"},
	"bundle": {subs: []string{"exec"}}, "mise": {subs: []string{"exec", "x"}, dashes: true}, "rtx": {subs: []string{"exec", "x"}, dashes: true}, "nix": {subs: []string{"develop", "shell"}, stop: "c"},

	"run0": {values: "uDgH", long: []string{"user", "group", "chdir", "unit", "property", "description", "slice", "nice", "setenv", "background", "machine"}}, "choom": {values: "np", dashes: true}, "ssh-agent": {values: "aEtPO"}, "dbus-launch": {flags: []string{"exit-with-session", "sh-syntax"}, dashes: true},
	"systemd-inhibit": {}, "systemd-cat": {values: "tp"}, "logsave": {before: 1}, "ifne": {}, "setuidgid": {before: 1}, "s6-setuidgid": {before: 1}, "chpst": {values: "uUbemdoptfrc/"}, "softlimit": {values: "adfmostclrp"},
	"envdir": {before: 1}, "envuidgid": {before: 1}, "setlock": {before: 1}, "dotenv": {values: "fev", dashes: true}, "proxychains": {values: "f"}, "proxychains4": {values: "f"}, "torsocks": {values: "aPup"}, "torify": {}, "tsocks": {},
	"cpulimit": {values: "plec", dashes: true}, "schedtool": {values: "pnae"}, "daemonize": {values: "acepoulE"}, "catchsegv": {}, "arch": {}, "sem": {values: "jnaSNLP"}, "tsp": {values: "LDNEgmpW"}, "nq": {}, "watchexec": {values: "wefidsn", dashes: true},
	loader: {long: []string{"library-path", "preload", "audit", "inhibit-rpath", "argv0", "glibc-hwcaps-prepend", "glibc-hwcaps-mask"}, flags: []string{"list", "verify", "inhibit-cache", "list-tunables", "list-diagnostics"}},
}

// loader stands for the programs that load others, which are called by the
// machine that they are for: ld-linux-x86-64.so.2, ld-musl-aarch64.so.1.
const loader = "ld.so"

// unwrap adds the commands that argv runs out of its own words.
func (r *reader) unwrap(argv []string, in input, depth int) {
	for _, inner := range carried(argv) {
		if len(r.argv) >= MaxCommands || depth == MaxWrappers {
			r.opaque = true
			return
		}
		r.argv = append(r.argv, inner)
		r.opaque = r.opaque || brings(inner, in)
		r.unwrap(inner, in, depth+1)
	}
}

// brings reports whether a command runs what is not among its words. Scripts are
// read wherever they stand, and no matter of this.
func brings(argv []string, in input) bool {
	switch n := name(argv[0]); n {
	case "python", "python2", "python3", "perl", "ruby", "node", "nodejs", "bun", "deno", "php", "lua", "Rscript", "osascript", "tclsh":
		return !in.known && readsProgram(argv[1:])
	case "fish", "pwsh", "powershell", "cmd", "nu", "elvish", "xonsh", "csh", "tcsh", "sg", "newgrp", "xargs", "parallel", "sem", "watch", "ssh", "at", "batch":
		return true
	default:
		return takes(n, argv[1:], in)
	}
}

// carried lists the commands in a command's words.
func carried(argv []string) [][]string {
	program := strings.ToLower(name(argv[0]))
	out := inside(program, argv)
	if subs, ok := fetchers[program]; ok && (subs == nil || slices.ContainsFunc(argv[1:], func(w string) bool { return slices.Contains(subs, w) })) {
		for i := range out {
			out[i] = unpacked(out[i])
		}
	}
	return out
}

// inside lists the commands in a command's words; parts of argv.
func inside(program string, argv []string) [][]string {
	switch program {
	case "go":
		return one(fetched(program, argv[1:]))
	case "nix":
		if run := fetched(program, argv[1:]); run != nil {
			return one(run)
		}
	case "find", "gfind", "bfs":
		return after(argv, "-exec", "-execdir", "-ok", "-okdir")
	case "fd", "fdfind":
		return after(argv, "-x", "-X", "--exec", "--exec-batch")
	}
	if strings.HasPrefix(program, "ld-linux") || strings.HasPrefix(program, "ld-musl") || strings.HasPrefix(program, "ld.so") || strings.HasPrefix(program, "ld64.so") {
		program = loader
	}
	if len(program) > 1 && program[0] == '-' {
		// Behind the keyword time, which in some shells is the program.
		return wrappers["time"].commands(argv)
	}
	w, ok := wrappers[program]
	if !ok {
		return nil
	}
	args := argv[1:]
	if len(w.subs) > 0 {
		for len(args) > 1 && strings.HasPrefix(args[0], "-") && !slices.Contains(w.subs, args[0]) {
			if args = args[1:]; len(args) > 1 && !strings.HasPrefix(args[0], "-") && !slices.Contains(w.subs, args[0]) {
				args = args[1:] // the option's value
			}
		}
		if len(args) == 0 || !slices.Contains(w.subs, args[0]) {
			return nil
		}
		args = args[1:]
	}
	return w.commands(args)
}

// one is the list of a command, empty for none.
func one(argv []string) [][]string {
	if argv == nil {
		return nil
	}
	return [][]string{argv}
}

// commands reads a wrapper's own words. There is more than one reading when
// it has an option that the table doesn't know.
func (w wrapper) commands(args []string) [][]string {
	before := w.before
	var doubtful [][]string
	if i := slices.Index(args, "--"); w.dashes && i >= 0 && i+1 < len(args) {
		doubtful = append(doubtful, args[i+1:])
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			for i++; w.assigns && i < len(args) && strings.IndexByte(args[i], '=') > 0; i++ {
			}
			if i+before < len(args) && !contains(doubtful, args[i+before:]) {
				return append(doubtful, args[i+before:])
			}
			return doubtful
		case a == "-" && w.assigns: // env's -i
		case strings.HasPrefix(a, "--"):
			option, _, given := strings.Cut(a[2:], "=")
			if given || slices.Contains(w.flags, option) {
				continue
			}
			if slices.Contains(w.two, option) {
				i += 2
				continue
			}
			if i++; !slices.Contains(w.long, option) && i < len(args) {
				if len(doubtful) == MaxWrappers {
					return doubtful
				}
				if !strings.HasPrefix(args[i], "-") && i+before < len(args) {
					doubtful = append(doubtful, args[i+before:])
				} else {
					i--
				}
			}
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			for at := 1; at < len(a); at++ {
				if strings.IndexByte(w.stop, a[at]) >= 0 {
					return doubtful
				}
				if strings.IndexByte(w.values, a[at]) >= 0 {
					if at == len(a)-1 {
						i++
					}
					break
				}
			}
		case w.assigns && strings.IndexByte(a, '=') > 0:
		case before > 0:
			if before--; w.perhaps {
				doubtful = append(doubtful, args[i:])
			}
		default:
			return append(doubtful, args[i:])
		}
	}
	return doubtful
}

// contains reports whether one of the commands is words; all are ends of one list.
func contains(commands [][]string, words []string) bool {
	return slices.ContainsFunc(commands, func(c []string) bool { return len(c) == len(words) })
}

// after lists the commands that stand after one of the options, each up to a
// semicolon or to {} and a plus sign.
func after(argv []string, options ...string) [][]string {
	var out [][]string
	for i := 1; i < len(argv); i++ {
		option, value, given := strings.Cut(argv[i], "=")
		if !slices.Contains(options, option) {
			continue
		}
		if given { // the command is one word
			out = append(out, []string{value})
			continue
		}
		from := i + 1
		for i++; i < len(argv) && argv[i] != ";" && !(argv[i] == "+" && argv[i-1] == "{}"); i++ {
		}
		if from < i {
			out = append(out, argv[from:i])
		}
	}
	return out
}
