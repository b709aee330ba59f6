package sdk

import (
	"os"
	"strings"
	"testing"
)

// An SDK is read before it is trusted: each has under 100 lines of code, with
// comments and blank lines left out.
func TestSDKsAreShort(t *testing.T) {
	for language, sources := range sources {
		lines, comments, inside := 0, 0, false
		for name := range sources {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(b)) {
				line = strings.TrimSpace(line)
				switch {
				case inside || strings.HasPrefix(line, "/*"):
					inside = !strings.HasSuffix(line, "*/") && !strings.Contains(line, "*/")
					comments++
				case line == "":
				case strings.HasPrefix(line, "//"):
					comments++
				default:
					lines++
				}
			}
		}
		t.Logf("%s: %d lines of code, %d of comments", language, lines, comments)
		if lines >= 100 {
			t.Errorf("%s: %d lines of code", language, lines)
		}
		if comments < 10 {
			t.Errorf("%s: %d lines of comments", language, comments)
		}
		if page, err := os.ReadFile(language + "/README.md"); err != nil || len(page) < 500 {
			t.Errorf("%s: no page: %v", language, err)
		}
	}
}

func TestNew(t *testing.T) {
	for _, language := range Languages() {
		files, err := New(language)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"README.md", "cases.jsonl", "build.sh"} {
			if len(files[name]) == 0 {
				t.Errorf("%s: no %s", language, name)
			}
		}
		for name := range files {
			if strings.HasSuffix(name, ".tmpl") {
				t.Errorf("%s: %s", language, name)
			}
		}
	}
	if _, err := New("cobol"); err == nil || !strings.Contains(err.Error(), "assemblyscript, c, go, rust") {
		t.Errorf("got %v", err)
	}
}
