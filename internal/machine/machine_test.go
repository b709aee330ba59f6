package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// told is a test that remembers how it ended.
type told struct {
	testing.TB
	end string
}

func (*told) Helper() {}
func (t *told) Fatalf(format string, args ...any) {
	t.end = "failed: " + fmt.Sprintf(format, args...)
}
func (t *told) Skipf(format string, args ...any) {
	t.end = "skipped: " + fmt.Sprintf(format, args...)
}

func TestLacks(t *testing.T) {
	for _, c := range []struct{ name, require, what, want string }{
		{"nothing is required", "", "node", "skipped: needs node: not here"},
		{"others are", "zsh,nodejs", "node", "skipped: needs node: not here"},
		{"it is", "zsh,node", "node", "failed: node is required (GUARDPROXY_REQUIRE): not here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(Env, c.require)
			got := &told{}
			Lacks(got, c.what, "not %s", "here")
			if got.end != c.want {
				t.Errorf("%s, want %s", got.end, c.want)
			}
		})
	}
}

func TestPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		require string
		end     string
		err     bool
	}{{"", "skipped: needs sh: ", false}, {"sh", "failed: sh is required", true}} {
		t.Setenv(Env, c.require)
		got := &told{}
		Needs(got, "sh")
		ok, err := Has("has:sh")
		if !strings.HasPrefix(got.end, c.end) || ok || (err != nil) != c.err {
			t.Errorf("required %q: %s, %v %v", c.require, got.end, ok, err)
		}
	}
	if _, err := Has("hat:sh"); err == nil {
		t.Error("a condition that nobody knows")
	}
}

// TestEveryLackIsRequired: what a test may lack stands in the list of .ci/run,
// and no test is skipped past that list.
func TestEveryLackIsRequired(t *testing.T) {
	const root = "../.."
	run, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`export GUARDPROXY_REQUIRE=(\S+)`).FindSubmatch(run)
	if m == nil {
		t.Fatal(".ci/run requires nothing")
	}
	required := map[string]bool{"root": true}
	for _, what := range strings.Split(string(m[1]), ",") {
		required[what] = true
	}
	named := regexp.MustCompile(`(?i)\b(?:lacks|needs)\(\w+, "([^"]+)"|\[!?(?:has|exec):(\w+)\]`)
	skip := regexp.MustCompile(`\b[tbf]\.Skip(f|Now)?\(`)
	found := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".txtar") || strings.Contains(path, "internal/machine") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				found++
				if what := m[1] + m[2]; !required[what] {
					t.Errorf("%s:%d: %s is not in the list of .ci/run", path, n+1, what)
				}
			}
			if strings.Contains(line, "[!exec:") || skip.MatchString(line) {
				t.Errorf("%s:%d: a skip that .ci/run can't require: use package machine", path, n+1)
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d lacks were found: %v", found, err)
	}
}
