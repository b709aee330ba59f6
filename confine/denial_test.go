package confine

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestClassify(t *testing.T) {
	p := Prepared{
		policy:      Policy{Mode: WorkspaceWrite, Workspace: "/w", Dir: "/w/sub", Hidden: []string{"/h/.ssh"}, Masks: []string{"/h/own"}},
		Enforcement: Enforcement{Runner: runBubblewrap, Writable: []string{"/w"}},
	}
	could := func(path string, write bool) bool {
		return Within(path, "/h") || Within(path, "/w") || path == "/tmp/theirs"
	}
	for _, c := range []struct {
		name   string
		exit   int
		stderr string
		want   Verdict
		path   string
	}{
		{"success", 0, "touch: cannot touch '/h/x': Read-only file system", None, ""},
		{"no word", 1, "", None, ""},
		{"touch", 1, "touch: cannot touch '/h/x': Read-only file system\n", Denied, "/h/x"},
		{"a shell", 2, "sh: 1: cannot create /h/x: Permission denied\n", Denied, "/h/x"},
		{"bash", 1, "bash: line 1: /h/x: Read-only file system\n", Denied, "/h/x"},
		{"python", 1, "Traceback\nPermissionError: [Errno 13] Permission denied: '/h/a b'\n", Denied, "/h/a b"},
		{"node", 1, "Error: EROFS: read-only file system, open '/h/n'\n", Denied, "/h/n"},
		{"go", 1, "go: open /h/x: read-only file system\n", Denied, "/h/x"},
		{"relative, outside", 1, "tee: ../../h/x: Read-only file system\n", Denied, "/h/x"},
		{"git", 128, "error: could not lock config file /h/.gitconfig: Read-only file system\n", Denied, "/h/.gitconfig"},
		{"moving", 1, "mv: cannot move 'a' to '/h/b': Invalid cross-device link\n", Denied, "/h/b"},
		{"a path that the user can't write, either", 1, "touch: cannot touch '/etc/x': Permission denied\n", None, ""},
		{"a key", 255, "git@host: Permission denied (publickey).\n", None, ""},
		{"a file of the workspace", 1, "sh: ./x: Permission denied\n", None, ""},
		{"its own /tmp", 1, "touch: cannot touch '/tmp/x/y': Permission denied\n", None, ""},
		{"a secret", 1, "cat: /h/.ssh/id: No such file or directory\n", Denied, "/h/.ssh/id"},
		{"own files", 1, "cat: /h/own/key: No such file or directory\n", Denied, "/h/own/key"},
		{"another's file in /tmp", 1, "cat: /tmp/theirs: No such file or directory\n", Denied, "/tmp/theirs"},
		{"a missing file", 1, "cat: /h/x: No such file or directory\n", None, ""},
		{"a read-only file system, nobody knows where", 1, "write failed: Read-only file system\n", Suspected, ""},
		{"the network", 6, "curl: (6) Could not resolve host: example.com\n", Suspected, ""},
		{"long ago", 1, "touch: cannot touch '/h/x': Read-only file system\n" + strings.Repeat("x\n", 300), None, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := p.Classify(Outcome{ExitCode: c.exit, Stderr: c.stderr, Could: could})
			path := ""
			for _, e := range got.Evidence {
				path = e.Path
			}
			if got.Verdict != c.want || path != c.path {
				t.Errorf("got %+v, want %s about %q", got, c.want, c.path)
			}
			if (len(got.Evidence) == 0) != (got.Verdict == None) {
				t.Errorf("verdict without evidence, or the other way round: %+v", got)
			}
		})
	}
	if got := p.Classify(Outcome{Refused: []error{errors.New("x")}}); got.Verdict != Denied {
		t.Errorf("refused, and exit code 0: %+v", got)
	}
	p.policy.Network = HostNetwork
	if got := p.Classify(Outcome{ExitCode: 6, Stderr: "Could not resolve host", Could: could}); got.Verdict != None {
		t.Errorf("with a network: %+v", got)
	}
}

// Without a counterfactual nothing a command says is a denial.
func TestWordsAloneAreNoDenial(t *testing.T) {
	p := Prepared{policy: Policy{Workspace: "/w"}, Enforcement: Enforcement{Writable: []string{"/w"}}}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{"touch", "'/h/x'", "/h/x", ": ", "\n", "Permission denied", "Read-only file system", "‘", "’", "\"", "No such file or directory", "\x00", "(", "é"})).Draw(t, "words")
		got := p.Classify(Outcome{ExitCode: 1, Stderr: strings.Join(words, rapid.SampledFrom([]string{"", " ", ": "}).Draw(t, "between")), Could: func(string, bool) bool { return false }})
		if got.Verdict == Denied {
			t.Errorf("%q: %+v", words, got)
		}
	})
}
