package confine

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSeatbelt(t *testing.T) {
	roots, guarded, hidden := []string{"/w", "/more"}, []string{"/w/.git/hooks", "/w/.envrc"}, []string{"/h/own", "/h/.ssh", "/w/deep/down/secret"}
	const temp = "/h/own/sessions/t"
	none, host := seatbelt(roots, guarded, hidden, temp, ""), seatbelt(roots, guarded, hidden, temp, HostNetwork)
	for _, c := range []struct {
		name, line, text string
		has              bool
	}{
		{"everything is denied first", "(version 1)\n(deny default)\n", none, true},
		{"the workspace", `(allow file-write* (subpath "/w"))`, none, true},
		{"a further root", `(allow file-write* (subpath "/more"))`, none, true},
		{"nothing else is written", `(allow file-write* (subpath "/w"))`, seatbelt(nil, nil, hidden, temp, ""), false},
		{"the temporary directory", `(allow file-read* file-write* (subpath "/h/own/sessions/t"))`, none, true},
		{"the way to it has a name", `(allow file-read-metadata (literal "/h/own"))`, none, true},
		{"a guarded place, also where nothing is", `(deny file-write* (subpath "/w/.envrc"))`, none, true},
		{"and by its other name", `(deny file-write* (subpath "/System/Volumes/Data/w/.envrc"))`, none, true},
		{"the way to one can't be moved", `(deny file-write-unlink (literal "/w/.git"))`, none, true},
		{"nor that to a secret", `(deny file-write-unlink (literal "/w/deep"))`, none, true},
		{"nor further down", `(deny file-write-unlink (literal "/w/deep/down"))`, none, true},
		{"a root is not on the way", `(deny file-write-unlink (literal "/w"))`, none, false},
		{"own files", `(deny file-read* file-write* (subpath "/h/own"))`, none, true},
		{"secrets", `(deny file-read* file-write* (subpath "/h/.ssh"))`, none, true},
		{"and by their other name", `(deny file-read* file-write* (subpath "/System/Volumes/Data/h/.ssh"))`, none, true},
		{"devices are not read", `(deny file-read-data (subpath "/dev"))`, none, true},
		{"no environment of another process", `(deny sysctl-read (sysctl-name-prefix "kern.procargs"))`, none, true},
		{"no network", "network", none, false},
		{"the host's network", "(allow network*)", host, true},
		{"and no sockets of the file system", "(deny network* (remote unix-socket))", host, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.text, c.line) != c.has {
				t.Errorf("%q: want it %v in\n%s", c.line, c.has, c.text)
			}
		})
	}
	// The last rule that matches decides: what is taken away stands after what
	// is given.
	for _, pair := range [][2]string{
		{"(allow file-write* (subpath", "(deny file-write* (subpath"},
		{"(allow file-write* (subpath", "(deny file-read* file-write* (subpath"},
		{"(allow file-read* file-map", "(deny file-read* file-write* (subpath"},
		{"(allow file-write* (subpath", "(deny file-write-unlink"},
		{"(allow file-write* (subpath", "(deny file-write-setugid"},
		{"(allow network*)", "(deny network* (remote unix-socket))"},
		{"(deny file-read* file-write* (subpath", "(allow file-read* file-write* (subpath"}, // a session's
		{"(allow file-read* file-write* (subpath", "(deny file-write-setugid"},
		{"(allow sysctl-read)", "(deny sysctl-read"},
		{"(deny process-info*)", "(allow process-info* (target same-sandbox))"},
		{"(allow file-read* file-map", "(deny file-read-data (subpath"},
	} {
		if given, taken := strings.LastIndex(host, pair[0]), strings.Index(host, pair[1]); given < 0 || taken < given {
			t.Errorf("%s stands behind %s:\n%s", pair[0], pair[1], host)
		}
	}
	if got := seatbeltArgs("/s", "x", []string{"a", "-b"}); !slices.Equal(got, []string{"/s", "-p", "x", "--", "a", "-b"}) {
		t.Errorf("arguments %q", got)
	}
}

var update = flag.Bool("update", false, "write testdata anew")

// The whole text, for a reader: it is what a Mac gets.
func TestSeatbeltText(t *testing.T) {
	const file = "testdata/seatbelt.sb"
	got := seatbelt([]string{"/Users/me/project"}, []string{"/Users/me/project/.envrc", "/Users/me/project/.git/hooks"},
		[]string{"/Users/me/.ssh", "/Users/me/.local/state/guardproxy", "/Users/me/project/private/key"}, "/Users/me/.local/state/guardproxy/sessions/one", HostNetwork)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
	}
}

func TestSeatbeltAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"sandbox-exec: sandbox_apply: Operation not permitted":    "outside of any other sandbox",
		"the launcher can't read its instructions: unknown field": LauncherName,
		"a masked file was readable":                              "",
	} {
		if got := seatbeltAdvice(text); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestSeatbeltMissing(t *testing.T) {
	read, write := seatbeltMissing(Policy{Mode: ReadOnly}, false), seatbeltMissing(Policy{Mode: WorkspaceWrite}, false)
	host := seatbeltMissing(Policy{Mode: WorkspaceWrite, Network: HostNetwork}, false)
	if len(read) == 0 || len(write) <= len(read) || len(host) <= len(write) {
		t.Errorf("what is allowed more leaves no more open:\n%q\n%q\n%q", read, write, host)
	}
	if open := seatbeltMissing(Policy{Mode: ReadOnly}, true); len(open) != len(read)+1 {
		t.Errorf("an environment that can be read is not named: %q", open)
	}
}

// No path ends its own quotes or changes the number of rules.
func TestSeatbeltQuotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + rapid.StringOf(rapid.SampledFrom([]rune("a\"\\()\n\t; #é"))).Draw(t, "path")
		text := seatbelt([]string{"/w"}, nil, []string{path}, path, "")
		plain := seatbelt([]string{"/w"}, nil, []string{"/a"}, "/a", "")
		depth, quoted, forms := 0, false, 0
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '(':
				depth++
			case c == ')':
				if depth--; depth == 0 {
					forms++
				}
			}
		}
		if depth != 0 || quoted || forms != strings.Count(plain, "\n(")+1 || strings.Count(text, "\n") != strings.Count(plain, "\n") {
			t.Errorf("%q: depth %d, quoted %v, %d forms:\n%s", path, depth, quoted, forms, text)
		}
	})
}
