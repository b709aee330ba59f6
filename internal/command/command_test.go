package command

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mvdan.cc/sh/v3/syntax"
)

// list writes argv lists as a reader would: words by spaces, commands by " ; ".
func list(p Parsed) string {
	var cmds []string
	for _, argv := range p.Argv {
		cmds = append(cmds, strings.Join(argv, " "))
	}
	return strings.Join(cmds, " ; ")
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, script, want string
		opaque             bool
	}{
		{"empty", "", "", false},
		{"comment only", "# rm -rf /", "", false},
		{"simple", "ls -l", "ls -l", false},
		{"single quotes", `rm '-rf' '/'`, "rm -rf /", false},
		{"split quotes", `r''m -"r"f /`, "rm -rf /", false},
		{"backslashes", `\rm -r\f \/`, "rm -rf /", false},
		{"line continuation", "rm -rf \\\n/", "rm -rf /", false},
		{"escapes in double quotes", `echo "a\$b\"c\d"`, `echo a$b"c\d`, false},
		{"escaped glob", `echo \*`, "echo *", false},
		{"quoted glob", `echo '*' "?"`, "echo * ?", false},
		{"lone bracket", `[ -f x ] && ls`, "[ -f x ] ; ls", false},
		{"empty words", `git commit -m ""`, "git commit -m ", false},
		{"list", "a 1; b 2 && c 3 || d 4 & e", "a 1 ; b 2 ; c 3 ; d 4 ; e", false},
		{"pipe", "a | b |& c", "a ; b ; c", false},
		{"subshell and group", "(a; b) && { c; d; }", "a ; b ; c ; d", false},
		{"negation", "! a", "a", false},
		{"if", "if a; then b; elif c; then d; else e; fi", "a ; b ; c ; d ; e", false},
		{"while and until", "while a; do b; done; until c; do d; done", "a ; b ; c ; d", false},
		{"for", "for i in 1 2; do a; done", "a", false},
		{"for over arguments", "for i; do a; done", "a", true},
		{"select", "select i in x y; do a; done", "a", false},
		{"case", "case x in y*) a ;; *) b ;; esac", "a ; b", false},
		{"function", "f() { a; }; function g { b; }; f", "a ; b ; f", false},
		{"time", "time a", "a", false},
		{"coproc", "coproc a", "a", false},
		{"double bracket", "[[ -f x ]] && a", "a", false},
		{"double bracket with variable", "[[ -n $x ]] && a", "a", true},
		{"double bracket with substitution", "[[ -n $(rm x) ]]", "rm x", true},
		{"assignment before", "FOO=1 BAR=x a b", "a b", false},
		{"assignment alone", "FOO=1", "", false},
		{"assignment from a command", "x=$(rm -rf /)", "rm -rf /", true},
		{"array", "x=(a b); ls", "ls", false},
		{"array from a command", "x=(a $(rm y)); ls", "rm y ; ls", true},
		{"export", "export A=b; ls", "export A=b ; ls", false},
		{"PATH changed", "PATH=/tmp/x ls", "ls", true},
		{"LD_PRELOAD", "LD_PRELOAD=./x.so ls", "ls", true},
		{"PATH exported", "export PATH=/x; ls", "export PATH=/x ; ls", true},
		{"PATH by env", "env PATH=/x ls", "env PATH=/x ls ; ls", true},
		{"redirections", "a >out 2>&1 <in", "a", false},
		{"redirection to a variable", "a >$out", "a", true},
		{"redirection from a command", "a < <(rm x)", "a ; rm x", true},
		{"redirection alone", "> file", "", false},
		{"here-document", "cat <<EOF\nrm -rf /\nEOF", "cat", false},
		{"here-document with a substitution", "cat <<EOF\n$(rm x)\nEOF", "cat ; rm x", false},
		{"here-document quoted", "cat <<'EOF'\n$(rm x)\nEOF", "cat", false},
		{"variable", `rm -rf "$HOME"/x`, "rm -rf $HOME/x", true},
		{"variable as command", "$cmd x", "$cmd x", true},
		{"command substitution", `echo "a $(rm x) b"`, "echo a $(rm x) b ; rm x", true},
		{"backquotes", "echo `rm x`", "echo `rm x` ; rm x", true},
		{"nested substitution", "a $(b $(c))", "a $(b $(c)) ; b $(c) ; c", true},
		{"substitution in a default", "a ${x:-$(rm y)}", "a ${x:-$(rm y)} ; rm y", true},
		{"arithmetic", "a $((1+1))", "a $((1+1))", true},
		{"arithmetic command", "((i++)); a", "a", true},
		{"process substitution", "diff <(a) <(b)", "diff <(a) <(b) ; a ; b", true},
		{"tilde", "ls ~/x", "ls ~/x", true},
		{"quoted tilde", "ls '~'", "ls ~", false},
		{"glob", "ls *.go", "ls *.go", true},
		{"character class", "ls [ab]", "ls [ab]", true},
		{"extended glob", "ls !(a)", "ls !(a)", true},
		{"brace list", "rm {a,b}", "rm a b", true},
		{"brace command", "{rm,-rf,/}", "rm -rf /", true},
		{"brace range", "echo {1..3}", "echo 1 2 3", true},
		{"huge brace range", "echo {1..100000000}", "echo {1..100000000}", true},
		{"braces without meaning", "frob . a {} ;", "frob . a {}", false},
		{"what find found", "find . -exec a {} ;", "find . -exec a {} ; a {}", true},
		{"escape string", `$'\x72m' x`, "rm x", true},
		{"translated string", `echo $"x"`, "echo x", true},
		{"zsh command word", "=rm x", "=rm x", true},
		{"unclosed quote", `echo "a`, "", true},
		{"not shell", "if then fi (", "", true},
		{"carriage return", "echo a\r", "echo a", true},
		{"NUL", "echo a\x00b", "echo ab", true},
		{"invalid UTF-8", "echo \xff", "", true},

		{"bash -c", `bash -c 'rm -rf /; ls'`, "bash -c rm -rf /; ls ; rm -rf / ; ls", false},
		{"sh -lc", `sh -lc "rm x"`, "sh -lc rm x ; rm x", false},
		{"options around -c", `bash -e -c -o pipefail -- 'rm x' name`, "bash -e -c -o pipefail -- rm x name ; rm x", false},
		{"shell by path", `/usr/bin/bash -c 'rm x'`, "/usr/bin/bash -c rm x ; rm x", false},
		{"shell in shell", `sh -c "bash -c 'rm x'"`, "sh -c bash -c 'rm x' ; bash -c rm x ; rm x", false},
		{"shell with variable", `bash -c "rm $x"`, "bash -c rm $x ; rm $x", true},
		{"shell with parameters", `bash -c 'rm "$1"' _ /`, `bash -c rm "$1" _ / ; rm $1`, true},
		{"-c without script", "bash -c", "bash -c", true},
		{"script file", "bash build.sh x", "bash build.sh x", false},
		{"script from stdin", "echo 'rm x' | sh", "echo rm x ; sh", true},
		{"script from a device", "sh /dev/stdin", "sh /dev/stdin", true},
		{"script from a here-document", "bash <<'E'\nrm x\nE", "bash ; rm x", false},
		{"script from a here-document with variable", "bash <<E\nrm '$x'\nE", "bash ; rm $x", true},
		{"script from a here-string", "bash <<< 'rm x'", "bash ; rm x", false},
		{"program from a pipe", "curl x | python3", "curl x ; python3", true},
		{"program from a pipe, said so", "curl x | sudo python3 -u -", "curl x ; sudo python3 -u - ; python3 -u -", true},
		{"program in a here-document", "python3 - <<'E'\nprint(1)\nE", "python3 -", false},
		{"program in a file", "python3 -u x.py", "python3 -u x.py", false},
		{"program in a word", "curl x | python3 -c 'print(1)'", "curl x ; python3 -c print(1)", false},
		{"module", "curl x | python3 -m json.tool", "curl x ; python3 -m json.tool", false},
		{"one-liner", "ls | perl -ne 'print'", "ls ; perl -ne print", false},
		{"shell behind sudo", `sudo -u root bash -c 'rm x'`, "sudo -u root bash -c rm x ; bash -c rm x ; rm x", false},
		{"shell behind env", `env A=1 sh -c 'rm x'`, "env A=1 sh -c rm x ; sh -c rm x ; rm x", false},
		{"shell behind find", `find . -exec sh -c 'rm x' \;`, "find . -exec sh -c rm x ; ; sh -c rm x ; rm x", true},
		{"shell behind an unknown program", `frob -x bash -c 'rm y'`, "frob -x bash -c rm y ; rm y", false},
		{"shell as a file name", "ls -l /bin/sh", "ls -l /bin/sh", false},
		{"shell as a text", "echo bash -c 'rm x'", "echo bash -c rm x", false},
		{"sudo -s", "sudo -s rm x", "sudo -s rm x ; rm x", true},
		{"env -S", "env -S 'rm x'", "env -S rm x ; rm x", true},
		{"su -c", "su root -c 'rm x'", "su root -c rm x ; rm x", false},
		{"su", "su", "su", true},
		{"flock", "flock f rm x", "flock f rm x ; rm x", false},
		{"another shell", "fish -c 'rm x'", "fish -c rm x", true},
		{"xargs", "ls | xargs rm", "ls ; xargs rm ; rm", true},
		{"eval", "eval 'rm x; ls'", "eval rm x; ls ; rm x ; ls", false},
		{"eval of several words", "eval rm -rf '\"/\"'", `eval rm -rf "/" ; rm -rf /`, false},
		{"eval behind command", "command eval 'rm x'", "command eval rm x ; eval rm x ; rm x", false},
		{"eval of a variable", `eval "$x"`, "eval $x ; $x", true},
		{"trap", "trap 'rm x' EXIT", "trap rm x EXIT ; rm x", false},
		{"source", ". ./env.sh", ". ./env.sh", true},
		{"alias", "alias ls='rm x'; ls", "alias ls=rm x ; ls", true},
		{"git", "git commit -am 'fix: bash -c'", "git commit -am fix: bash -c", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Parse(tc.script)
			if d := cmp.Diff(tc.want, list(got)); d != "" {
				t.Errorf("argv of %q (-want +got):\n%s", tc.script, d)
			}
			if got.Opaque != tc.opaque {
				t.Errorf("opaque of %q is %v, want %v", tc.script, got.Opaque, tc.opaque)
			}
		})
	}
}

func TestFromArgv(t *testing.T) {
	for _, tc := range []struct {
		name   string
		argv   []string
		want   string
		opaque bool
	}{
		{"none", nil, "", true},
		{"empty program", []string{"", "x"}, "", true},
		{"plain", []string{"rm", "-rf", "$HOME"}, "rm -rf $HOME", false},
		{"script", []string{"bash", "-lc", "cd x && rm -rf y"}, "bash -lc cd x && rm -rf y ; cd x ; rm -rf y", false},
		{"opaque script", []string{"bash", "-lc", "rm $x"}, "bash -lc rm $x ; rm $x", true},
		{"NUL", []string{"ls", "a\x00b"}, "ls a\x00b", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := FromArgv(tc.argv)
			if d := cmp.Diff(tc.want, list(got)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got.Opaque != tc.opaque {
				t.Errorf("opaque is %v, want %v", got.Opaque, tc.opaque)
			}
		})
	}
}

// Scripts made to exhaust the reader come back opaque, and soon.
func TestLimits(t *testing.T) {
	n := MaxScript - 100
	nested := "rm x"
	for range MaxNesting + 1 {
		q, err := syntax.Quote(nested, syntax.LangBash)
		if err != nil {
			t.Fatal(err)
		}
		nested = "sh -c " + q
	}
	for _, tc := range []struct{ name, script string }{
		{"too long", "echo " + strings.Repeat("a", MaxScript)},
		{"parentheses", strings.Repeat("(", n)},
		{"arithmetic", strings.Repeat("((", n/2)},
		{"substitutions", strings.Repeat("$(", n/2)},
		{"quoted substitutions", strings.Repeat(`"$(`, n/3)},
		{"indices", strings.Repeat("a[", n/2)},
		{"defaults", strings.Repeat("${x:-", n/5)},
		{"conditions", strings.Repeat("if ", n/3)},
		{"functions", strings.Repeat("f()", n/3)},
		{"groups in order", strings.Repeat("(", n/2) + "a" + strings.Repeat(")", n/2)},
		{"tests", "[[" + strings.Repeat(" !", n/2)},
		{"too many commands", strings.Repeat("a\n", MaxCommands+1)},
		{"too many scripts", nested},
		{"repeated scripts", strings.Repeat("eval "+strings.Repeat("eval ", 2000)+"a\n", 20)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Parse(tc.script); !got.Opaque {
				t.Error("not opaque")
			}
		})
	}
	t.Run("long chains are fine", func(t *testing.T) {
		got := Parse(strings.Repeat("a&&", MaxCommands-1) + "a")
		if got.Opaque || len(got.Argv) != MaxCommands {
			t.Errorf("%d commands, opaque %v", len(got.Argv), got.Opaque)
		}
	})
}

// For all lists of words, quoting them for the shell and parsing that gives
// the words back, and nothing is opaque.
func TestQuotedWordsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("ab-/ '\"\\$`*?[]{},~=#!&;|<>()\n\té")), 0, 12, -1)
		argv := append([]string{"frob"}, rapid.SliceOfN(word, 0, 6).Draw(t, "words")...)
		var quoted []string
		for _, w := range argv {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		got := Parse(strings.Join(quoted, " "))
		if d := cmp.Diff(Parsed{Argv: [][]string{argv}}, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// For all commands, carrying one in a shell, an eval, a subshell or a list
// never hides a word of it.
func TestCarriersHideNothing(t *testing.T) {
	carriers := []func(string) string{
		func(s string) string { return "( " + s + " )" },
		func(s string) string { return "ls && " + s },
		func(s string) string { return "if true; then " + s + "; fi" },
		func(s string) string { return "x=$( " + s + " )" },
		func(s string) string { return "f() { " + s + "; }" },
		func(s string) string { return "eval '" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		func(s string) string { return "bash -lc '" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		func(s string) string { return "sudo sh -c '" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		func(s string) string { return "while read x; do " + s + "; done" },
	}
	rapid.Check(t, func(t *rapid.T) {
		script := "rm -rf /"
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(carriers)-1), 0, 5).Draw(t, "carriers") {
			script = carriers[i](script)
		}
		for _, argv := range Parse(script).Argv {
			if cmp.Equal(argv, []string{"rm", "-rf", "/"}) {
				return
			}
		}
		t.Fatalf("%q hides the command", script)
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"rm -rf /", "a && b | c", "$(x) `y` ${z:-$(w)}", "bash -c 'eval \"rm x\"'", "cat <<E\n$x\nE", "a <<-'E' | sh\n\tb\n\tE",
		"for ((i=0;i<3;i++)); do a; done", "case $x in a|b) c;; esac", "[[ a =~ b ]] && { c; }", "{a,{b,c}}{1..3}", "x=(1 2 $(y)) z", "echo $'\\u0041\\c'",
		"sudo -s <<< x", "sudo -u a env -i B=c timeout -k 1 2 find . -exec nice d {} +", "a >b 2>>c <d &>e <>f >&g", "env -S\"a b\" c", "f() ( a )", "declare -A x=([a]=b)", "a\\\nb", "~root/=x", "!(a|b)", "coproc x { a; }", "trap -- 'a' 0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, b := Parse(s), Parse(s)
		if !cmp.Equal(a, b) {
			t.Fatalf("two readings differ: %v and %v", a, b)
		}
		if len(a.Argv) > MaxCommands {
			t.Fatalf("%d commands", len(a.Argv))
		}
		for _, argv := range a.Argv {
			if len(argv) == 0 {
				t.Fatal("a command without words")
			}
		}
		if len(a.Files) > MaxCommands {
			t.Fatalf("%d files", len(a.Files))
		}
	})
}
