package gitconfig

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/machine"
)

func list(entries []Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Name()+"="+e.Value)
	}
	return out
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // nil: an error
	}{
		{"nothing", "", []string{}},
		{"a variable", "[core]\n\tbare = false\n", []string{"core.bare=false"}},
		{"case", "[CoRe]\n\tBARE=False\n[remote \"Origin\"]\nURL=x\n", []string{"core.bare=False", "remote.Origin.url=x"}},
		{"the old form of a subsection", "[remote.Origin]\nurl=x\n", []string{"remote.origin.url=x"}},
		{"a key alone", "[core]\n bare\n", []string{"core.bare="}},
		{"on the section's line", "[core] bare = true\n", []string{"core.bare=true"}},
		{"no line end", "[core]\nbare = a", []string{"core.bare=a"}},
		{"comments", "# x\n[core] ; y\nbare = a # z\n; w\n", []string{"core.bare=a"}},
		{"quotes", "[a]\nb = \"c # d\" e\\\"\n", []string{"a.b=c # d e\""}},
		{"a continued line", "[a]\nb = c\\\n  d\n", []string{"a.b=c  d"}},
		{"a continued comment is none", "[a]\nb = c ; d\\\nfsmonitor = x\n", []string{"a.b=c", "a.fsmonitor=x"}},
		{"windows", "[a]\r\nb = c\r\n", []string{"a.b=c"}},
		{"a mark at the start", "\ufeff[a]\nb = c\n", []string{"a.b=c"}},
		{"an escaped subsection", "[a \"b\\\"c\\\\\"]\nd = e\n", []string{"a.b\"c\\.d=e"}},
		{"a variable without a section", "a = b\n", nil},
		{"an open quote", "[a]\nb = \"c\n", nil},
		{"an open section", "[a\nb = c\n", nil},
		{"rubbish", "[a]\n= b\n", nil},
		{"a key with a comment", "[a]\nb # c\n", nil},
		{"a NUL", "[a]\nb = c\x00\n", nil},
		{"an unknown escape", "[a]\nb = \\x\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.text))
			if (err != nil) != (c.want == nil) || !slices.Equal(list(got), c.want) {
				t.Errorf("got %q, %v, want %q", list(got), err, c.want)
			}
		})
	}
}

const base = "[core]\n\tbare = false\n\tfsmonitor = false\n[alias]\n\tst = status\n"

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name, after string
		denied      string // names with spaces between
		want        string // entries after the merge; "" for those of after
	}{
		{"no change", base, "", ""},
		{"a remote", base + "[remote \"o\"]\nurl = ./x\nfetch = +refs/heads/*:refs/remotes/o/*\n", "", ""},
		{"line ends", strings.ReplaceAll(base, "false", "true # not"), "core.fsmonitor", "core.bare=true alias.st=status core.fsmonitor=false"},
		{"hooks elsewhere", base + "[core]\nhooksPath = x\nautocrlf = input\n", "core.hookspath", "core.bare=false core.fsmonitor=false alias.st=status core.autocrlf=input"},
		{"a program for a subsection", base + "[diff \"x\"]\nrenames = ./evil\n", "diff.x.renames", "core.bare=false core.fsmonitor=false alias.st=status"},
		{"another file", base + "[include]\npath = ../x\n", "include.path", "core.bare=false core.fsmonitor=false alias.st=status"},
		{"a program as a remote", base + "[remote \"o\"]\nurl = ext::sh -c x\n", "remote.o.url", "core.bare=false core.fsmonitor=false alias.st=status"},
		{"an option as a remote", base + "[remote \"o\"]\nurl = --upload-pack=x\n", "remote.o.url", "core.bare=false core.fsmonitor=false alias.st=status"},
		{"an address with colons", base + "[remote \"o\"]\nurl = ssh://[::1]/x\n", "", ""},
		{"a program as an update", base + "[submodule \"s\"]\nupdate = !x\nactive\n", "submodule.s.update", "core.bare=false core.fsmonitor=false alias.st=status submodule.s.active="},
		{"another directory", base + "[core]\nworktree = /home\n", "core.worktree", "core.bare=false core.fsmonitor=false alias.st=status"},
		{"a protection taken away", "[core]\nbare = false\n[alias]\nst = status\n", "core.fsmonitor", "core.bare=false alias.st=status core.fsmonitor=false"},
		{"another order", base + "[core]\nfsmonitor = x\nfsmonitor = false\n", "core.fsmonitor", "core.bare=false alias.st=status core.fsmonitor=false"},
		{"everything gone", "", "alias.st core.fsmonitor", "core.fsmonitor=false alias.st=status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := Parse([]byte(base))
			if err != nil {
				t.Fatal(err)
			}
			now, err := Parse([]byte(c.after))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(Denied(before, now), " "); got != c.denied {
				t.Errorf("denied %q, want %q", got, c.denied)
			}
			merged, err := Merge(before, []byte(c.after))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse(merged)
			want := c.want
			if want == "" {
				want = strings.Join(list(now), " ")
			}
			if err != nil || strings.Join(list(got), " ") != want {
				t.Errorf("merged %q, %v, want %q:\n%s", list(got), err, want, merged)
			}
		})
	}
	if _, err := Merge(nil, []byte("[a\n")); err == nil {
		t.Error("what can't be read was merged")
	}
}

// fileGen draws configuration files, most of them well-formed.
var fileGen = rapid.Custom(func(t *rapid.T) string {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		"[core]\n", "[core]", "[remote \"o\"]\n", "[a.B]\n", "[x \"y\\\"z\"] ", "\t", " ", "fsmonitor = x\n", "bare = false\n",
		"hooksPath=\"a b\" c\n", "url = ext::x\n", "url = ./x\n", "k\n", "k = \n", "v = a\\\n b\n", "v = \"a\\tb\"\n", "v = a ; c\\\n",
		"# c\n", "; c", "\r\n", "\"", "\\", "=", "é = x\n", "p=a  b \t\n", "\v", "q = a\vb\n"}), 0, 8).Draw(t, "pieces")
	return strings.Join(pieces, "")
})

// Whatever is merged keeps what may not change, and all of the rest.
func TestMergeKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, err := Parse([]byte(fileGen.Draw(t, "before")))
		if err != nil {
			return
		}
		after := []byte(fileGen.Draw(t, "after"))
		now, err := Parse(after)
		if err != nil {
			return
		}
		merged, err := Merge(before, after)
		if err != nil {
			t.Fatalf("%q: %v", after, err)
		}
		got, err := Parse(merged)
		if err != nil || len(Denied(before, got)) > 0 {
			t.Fatalf("merged %q: %v, denied %q", merged, err, Denied(before, got))
		}
		free := func(all []Entry) (out []string) {
			for _, e := range all {
				if e.free() && !slices.Contains(Denied(before, now), e.Name()) {
					out = append(out, e.Name()+"="+e.Value)
				}
			}
			return out
		}
		var kept []Entry // without what the merge put back
		for _, e := range got {
			if e.free() {
				kept = append(kept, e)
			}
		}
		if w, g := free(now), free(kept); !slices.Equal(w, g) {
			t.Errorf("free before %q, after the merge %q", w, g)
		}
		if len(Denied(before, now)) == 0 && !bytes.Equal(merged, after) {
			t.Errorf("changed without a reason: %q", merged)
		}
	})
}

// What is read is what git reads, wherever both can.
func TestAgainstGit(t *testing.T) {
	git := machine.Needs(t, "git")
	check := func(t interface{ Errorf(string, ...any) }, text string) {
		ours, err := Parse([]byte(text))
		if err != nil {
			return // stricter than git, which a caller refuses
		}
		cmd := exec.Command(git, "config", "--no-includes", "--file", "-", "--list", "-z")
		cmd.Stdin = strings.NewReader(text)
		cmd.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}
		out, err := cmd.Output()
		if err != nil {
			return // git reads nothing
		}
		var want []string
		for rec := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if rec == "" {
				continue
			}
			name, value, _ := strings.Cut(rec, "\n")
			want = append(want, name+"="+value)
		}
		got := list(ours)
		// Some versions print any blank inside a value as a space.
		blank := func(s string) string { return strings.NewReplacer("\t", " ", "\r", " ").Replace(s) }
		if blank(strings.Join(got, "|")) != blank(strings.Join(want, "|")) {
			t.Errorf("%q: read %q, git %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, fileGen.Draw(t, "file")) })
}

func FuzzParse(f *testing.F) {
	f.Add(base, "[a \"b\"]\nc = d\\\n e \"f\" # g\n")
	f.Add("\ufeff[a]\r\nb", "[core] fsmonitor\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		was, err := Parse([]byte(before))
		if err != nil {
			was = nil
		}
		merged, err := Merge(was, []byte(after))
		if err != nil {
			return
		}
		got, err := Parse(merged)
		if err != nil || len(Denied(was, got)) > 0 {
			t.Errorf("merged %q: %v, denied %q", merged, err, Denied(was, got))
		}
	})
}
