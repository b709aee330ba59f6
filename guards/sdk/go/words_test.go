package guard

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards"
)

// written is the list as the host writes it.
func written(t interface{ Fatal(...any) }, argv [][]string) string {
	var doc struct {
		Call struct {
			Shell struct{ Argv json.RawMessage }
		}
	}
	if err := json.Unmarshal((&guards.Call{Shell: &guards.Shell{Argv: argv}}).Document(nil), &doc); err != nil {
		t.Fatal(err)
	}
	return string(doc.Call.Shell.Argv)
}

func read(text string) (out [][]string, failed any) {
	defer func() { failed = recover() }()
	out = [][]string{}
	for words := range lists(text) {
		out = append(out, append([]string{}, words...))
	}
	return out, nil
}

// For all lists of words, what the host writes is read as the same words.
func TestListsReadWhatTheHostWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a[]{},\"\\/nrtu0\n\r\t\x00\x01\x1f\x7fé\u2028😀"))))
		want := rapid.SliceOf(rapid.SliceOfN(word, 0, 6)).Draw(t, "argv")
		text := written(t, want)
		got, failed := read(text)
		if failed != nil {
			t.Fatalf("%s: %v", text, failed)
		}
		for i := range want {
			want[i] = append([]string{}, want[i]...)
		}
		if d := cmp.Diff(append([][]string{}, want...), got); d != "" {
			t.Fatalf("%s is not read as it was written (-want +got):\n%s", text, d)
		}
	})
}

// Other text ends in a panic rather than in fewer words, and nothing else does.
func FuzzLists(f *testing.F) {
	for _, s := range []string{
		`[]`, `[[]]`, `[["ls"]]`, `[["a","b"],["c"]]`, `[["\"\\\n\r\t\u001f\u0000é"]]`,
		``, `[`, `[[`, `[["`, `[["a`, `[["a"`, `[["a"]`, `[["a\`, `[["\u00`, `[["a" "b"]]`, `[1]`, `[[1]]`, `["a"]`, `{}`, `null`, `[[["a"]]]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, failed := read(text)
		var want [][]string
		if json.Unmarshal([]byte(text), &want) == nil && text != "null" && written(t, want) == text {
			if d := cmp.Diff(want, got); failed != nil || d != "" {
				t.Fatalf("%s: %v (-want +got):\n%s", text, failed, d)
			}
		}
	})
}

// Broken text ends in a panic.
func TestListsBroken(t *testing.T) {
	for _, text := range []string{"", "[", "[[", `[["a`, `[["a"`, `[["a"]`, `[["a\`, `[["\u00`, `[["a" "b"]]`, `[1]`, `[[1]]`, `["a"]`, `[null]`, `[[["a"]]]`} {
		if got, failed := read(text); failed == nil {
			t.Errorf("%s is read as %q", text, got)
		}
	}
}

func TestListsStop(t *testing.T) {
	n := 0
	for words := range lists(`[["a"],["b"],["c"]]`) {
		if n++; words[0] == "b" {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d lists were yielded, want 2", n)
	}
}
