package shell

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSigns(t *testing.T) {
	for _, tc := range []struct {
		text, words string
		want        bool
	}{
		{"sudo ls", "sudo", true}, {"x; SUDO ls", "sudo", true}, {"pseudo", "sudo", false}, {"sudoers", "sudo", false}, {"['sudo', 'ls']", "sudo ls", true},
		{"npm   publish", "npm publish", true}, {`["npm","publish"]`, "npm publish", true}, {"npmpublish", "npm publish", false}, {"npm publisher", "npm publish", false},
		{"cat .env", ".env", true}, {"process.env.X", ".env", false}, {".environment", ".env", false}, {"/x/.env", ".env", true}, {"F=--force", "--force", true},
		{"", "x", false}, {"x", "xy", false},
	} {
		if got := NewSigns(tc.words).In(tc.text) != ""; got != tc.want {
			t.Errorf("%q mentions %q: %v", tc.text, tc.words, got)
		}
	}
}

func TestUnseen(t *testing.T) {
	for _, script := range []string{"$X", "`x`", "/bin/r?", "{}", "sh", "bash -s", "bash $F", "bash <(x)", "sh /dev/stdin", "python3", "python3 -", "python3 -c x", "node -e x", "deno eval x", "perl -ne x", "source $F", ". <(x)", "alias a=b", "xargs rm", "fish -c x", "ssh h x"} {
		if argv := strings.Fields(script); !Look(argv[0]).Unseen(argv) {
			t.Errorf("%s: its words say what it runs?", script)
		}
	}
	for _, script := range []string{"ls", "[ -f x", "/bin/ls $X", "sh -c x", "bash -lc x", "bash build.sh", "bash -x build.sh", "python3 x.py", "python3 -m pytest", "node x.js", "node --env-file=.env x.js", "python3 -u x.py", "python3 --version", "source venv/bin/activate", ". ./env", "alias", "ssh"} {
		if argv := strings.Fields(script); Look(argv[0]).Unseen(argv) {
			t.Errorf("%s: its words don't say what it runs?", script)
		}
	}
}

func TestLook(t *testing.T) {
	for _, tc := range []struct {
		word, name string
		kind       Kind
	}{{"/bin/SH", "sh", IsShell}, {"bash.exe", "bash", IsShell}, {"xargs", "xargs", Wrapper | Foreign}, {"python3.12", "python3.12", Interpret}, {"", "", 0}, {"ls", "ls", 0}} {
		for range 2 { // out of the memory the second time
			if p := Look(tc.word); p.Name != tc.name || p.Kind != tc.kind {
				t.Errorf("%q is %q of kind %b", tc.word, p.Name, p.Kind)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		dir, word, want string
	}{
		{"/w", "a", "/w/a"}, {"/w", "./a/../b", "/w/b"}, {"/w", "..", "/"}, {"/w", "../../..", "/"}, {"/w", "/a//b/.", "/a/b"}, {"/w", ".", "/w"},
		{"/w", "~", Home}, {"/w", "~/a", Home + "/a"}, {"/w", "$HOME/a", Home + "/a"}, {"/w", "${HOME}", Home}, {"/w", "~root/a", "/home/root/a"},
		{"/w", "$PWD/a", "/w/a"}, {"/w", "$(pwd)/a", "/w/a"}, {"/w", "*", "/w/*"}, {"", "/a", "/a"},
		{"", "a", ""}, {"/w", "$X/a", ""}, {"/w", "a$X", ""}, {"/w", "$HOMER", ""}, {"/w", "`x`", ""},
	} {
		if got, ok := Resolve(tc.dir, tc.word); got != tc.want || ok != (tc.want != "") {
			t.Errorf("%q from %q is %q, %v; want %q", tc.word, tc.dir, got, ok, tc.want)
		}
	}
}

// For all paths, a cleaned one stays as it is, and is absolute without dots.
func TestClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := "/" + strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"", ".", "..", "a", "b", "..."})).Draw(t, "parts"), "/")
		c := Clean(p)
		if Clean(c) != c || c[0] != '/' || slices.ContainsFunc(strings.Split(c, "/"), func(s string) bool { return s == "." || s == ".." }) {
			t.Fatalf("%q is cleaned to %q", p, c)
		}
	})
}

func TestSettings(t *testing.T) {
	document := func(config string, values map[string]string) Get {
		return func(pointer string) (string, bool) {
			if pointer == "/config" {
				return config, true
			}
			v, ok := values[pointer]
			return v, ok
		}
	}
	for _, tc := range []struct {
		config string
		values map[string]string
		want   bool
	}{
		{`{}`, nil, true},
		{`{"opaque":"ask"}`, map[string]string{"/config/opaque": "ask"}, true},
		{`{"opaque":"ask","allow":["a"]}`, map[string]string{"/config/opaque": "ask", "/config/allow": `["a"]`}, true},
		{`{"allow":"a"}`, map[string]string{"/config/allow": "a"}, false},
		{`{"alow":["a"]}`, nil, false},
		{`{"allow":["a"],"x":1}`, map[string]string{"/config/allow": `["a"]`}, false},
	} {
		if got := OnlySettings(document(tc.config, tc.values), "allow"); got != tc.want {
			t.Errorf("%s: %v", tc.config, got)
		}
	}
}
