package guard

import (
	"encoding/json"
	"slices"
	"testing"
)

func read(text string) (out [][]string, failed any) {
	defer func() { failed = recover() }()
	out = [][]string{}
	for words := range lists(text) {
		out = append(out, append([]string{}, words...))
	}
	return out, nil
}

// FuzzLists: what is read is what a JSON decoder reads, and what a decoder
// refuses is not read to the end.
func FuzzLists(f *testing.F) {
	for _, s := range []string{
		`[]`, `[[]]`, `[["ls"]]`, `[["a","b"],["c"]]`, ` [ [ "a" , "b" ] , [ ] ] `,
		`[["\"\\\/\b\f\n\r\t\u0041\u00e9é\ud83d\ude00"]]`, `[["\ud83d"]]`, `[["\ud83dx\ude00"]]`, `[["\ud83d\u0041"]]`, `[["\ud83d\ud83d\ude00"]]`,
		``, `[`, `[[`, `[["`, `[["a`, `[["a"`, `[["a"]`, `[["a\`, `[["\u00`, `[["\x"]]`, `[["\u00g0"]]`, `[["\u+123"]]`, `[["a",]]`, `[["a"],]`, `[["a" "b"]]`,
		`[1]`, `[[1]]`, `["a"]`, `{}`, `null`, `[[["a"]]]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, failed := read(text)
		var want [][]*string
		if !json.Valid([]byte(text)) {
			return // the host gives valid JSON
		}
		if json.Unmarshal([]byte(text), &want) != nil || want == nil || slices.ContainsFunc(want, func(l []*string) bool { return l == nil || slices.Contains(l, nil) }) {
			if failed == nil {
				t.Fatalf("%s is read as %q", text, got)
			}
			return
		}
		if failed != nil {
			t.Fatalf("%s: %v", text, failed)
		}
		same := slices.EqualFunc(got, want, func(g []string, w []*string) bool {
			return slices.EqualFunc(g, w, func(g string, w *string) bool { return valid(g) == *w })
		})
		if !same {
			t.Fatalf("%s is read as %q", text, got)
		}
	})
}

// valid is s as a decoder has it: bytes that are not UTF-8, which the host
// never gives, become U+FFFD.
func valid(s string) string { return string([]rune(s)) }

// Broken text ends in a panic rather than in fewer words.
func TestListsBroken(t *testing.T) {
	for _, text := range []string{"", "[", "[[", `[["a`, `[["a"`, `[["a"]`, `[["a\`, `[["\u00`, `[["\x"]]`, `[["\u00g0"]]`, `[["\u+123"]]`, `[["a" "b"]]`} {
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
