package confine

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSeatbelt(t *testing.T) {
	p := Policy{Mode: WorkspaceWrite, Workspace: "/w", WritableRoots: []string{"/more"}, Masks: []string{"/h/own"}, Hidden: []string{"/h/.ssh"}}
	guarded := []string{"/w/.git/hooks", "/w/.envrc"}
	with := func(change func(*Policy)) Policy { q := p; change(&q); return q }
	for _, c := range []struct {
		name, line string
		has        bool
		policy     Policy
	}{
		{"everything is denied first", "(version 1)\n(deny default)\n", true, p},
		{"the workspace", `(allow file-write* (subpath "/w"))`, true, p},
		{"a further root", `(allow file-write* (subpath "/more"))`, true, p},
		{"the temporary directory", `(allow file-write* (subpath "/t"))`, true, p},
		{"read-only writes no root", `(allow file-write* (subpath "/w"))`, false, with(func(p *Policy) { p.Mode = ReadOnly })},
		{"and keeps its temporary directory", `(allow file-write* (subpath "/t"))`, true, with(func(p *Policy) { p.Mode = ReadOnly })},
		{"a guarded place, also where nothing is", `(deny file-write* (subpath "/w/.envrc"))`, true, p},
		{"the way to one can't be moved", `(deny file-write-unlink (literal "/w/.git"))`, true, p},
		{"own files", `(deny file-read* file-write* (subpath "/h/own"))`, true, p},
		{"secrets", `(deny file-read* file-write* (subpath "/h/.ssh"))`, true, p},
		{"no network", "network", false, p},
		{"the host's network", "(allow network*)", true, with(func(p *Policy) { p.Network = HostNetwork })},
		{"and no sockets of the file system", "(deny network* (remote unix-socket))", true, with(func(p *Policy) { p.Network = HostNetwork })},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := seatbelt(c.policy, "/t", guarded)
			if strings.Contains(got, c.line) != c.has {
				t.Errorf("%q: want it %v in\n%s", c.line, c.has, got)
			}
		})
	}
	// The last rule that matches decides: what is taken away stands after what
	// is given.
	text := seatbelt(p, "/t", guarded)
	if strings.Index(text, "(deny file-write*") < strings.LastIndex(text, "(allow file-write* (subpath") ||
		strings.Index(text, "(deny file-read*") < strings.LastIndex(text, "(allow file-read*") {
		t.Errorf("a denial is overridden:\n%s", text)
	}
	if got := seatbeltArgs("x", []string{"a", "-b"}); !slices.Equal(got, []string{"/usr/bin/sandbox-exec", "-p", "x", "--", "a", "-b"}) {
		t.Errorf("arguments %q", got)
	}
}

// No path ends its own quotes or changes the number of rules.
func TestSeatbeltQuotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + rapid.StringOf(rapid.SampledFrom([]rune("a\"\\()\n\t; #é"))).Draw(t, "path")
		text := seatbelt(Policy{Mode: WorkspaceWrite, Workspace: "/w", Hidden: []string{path}}, "/t", nil)
		plain := seatbelt(Policy{Mode: WorkspaceWrite, Workspace: "/w", Hidden: []string{"/a"}}, "/t", nil)
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
