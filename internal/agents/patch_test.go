package agents

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPatchPaths(t *testing.T) {
	for _, row := range []struct {
		name, patch string
		want        []string
	}{
		{"all kinds", "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** Update File: src/a.go\n*** Move to: src/b.go\n@@ func\n-x\n+y\n*** Delete File: old.txt\n*** End Patch\n",
			[]string{"new.txt", "src/a.go", "src/b.go", "old.txt"}},
		{"no frame, no final newline", "*** Delete File: x", []string{"x"}},
		{"carriage returns", "*** Begin Patch\r\n*** Add File: a\r\n+b\r\n*** End Patch\r\n", []string{"a"}},
		{"in a here document", "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a\n+b\n*** End Patch\nEOF\n", []string{"a"}},
		{"indented, with trailing space", "  *** Add File: a b \n", []string{"a b"}},
		{"no space after the colon", "*** Add File:/etc/passwd\n", []string{"/etc/passwd"}},
		{"a byte order mark", "\ufeff*** Add File: a\n", []string{"a"}},
		{"each path once", "*** Add File: a\n*** Update File: a\n", []string{"a"}},
		{"added lines are content", "*** Add File: a\n+*** Add File: b\n", []string{"a"}},
		{"removed lines are content", "*** Update File: a\n@@\n-*** Delete File: b\n", []string{"a"}},
		{"a quoted marker in a context line is judged in vain", "*** Update File: a\n@@\n *** Delete File: b\n", []string{"a", "b"}},
		{"what a parser that splits at colons reads counts too", "*** Add File: /etc/passwd: notes\n", []string{"/etc/passwd: notes", "/etc/passwd"}},
		{"a carriage return inside", "*** Add File: a\rb\r*** Delete File: c\n", []string{"a\rb\r*** Delete File: c", "a\rb\r*** Delete File", "a", "c"}},
		{"an empty path is none", "*** Add File: \n*** Add File:\n", nil},
		{"markers are exact", "*** add file: a\n** Add File: b\n*** Add  File: c\n", nil},
		{"no patch", "ls -l\n", nil},
		{"nothing", "", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var want []Path
			for _, p := range row.want {
				want = append(want, Path{p, OpWrite})
			}
			if diff := cmp.Diff(want, PatchPaths(row.patch)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A patch built by the grammar gives back exactly its paths.
func TestPatchPathsOfTheGrammar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nl := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "newline")
		path := rapid.StringMatching(`[a-z/.~][a-zA-Z0-9/._ é-]{0,20}[a-z]`)
		line := rapid.StringMatching(`[a-zA-Z*: ]{0,30}`)
		var want []Path
		b := "*** Begin Patch" + nl
		name := func(p string) {
			for _, w := range want {
				if w.Path == p {
					return
				}
			}
			want = append(want, Path{p, OpWrite})
		}
		for range rapid.IntRange(1, 5).Draw(t, "hunks") {
			p := path.Draw(t, "path")
			name(p)
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				b += "*** Add File: " + p + nl + "+" + line.Draw(t, "line") + nl
			case 1:
				b += "*** Delete File: " + p + nl
			case 2:
				b += "*** Update File: " + p + nl
				if rapid.Bool().Draw(t, "move") {
					to := path.Draw(t, "to")
					name(to)
					b += "*** Move to: " + to + nl
				}
				b += "@@" + nl + "-" + line.Draw(t, "old") + nl + "+" + line.Draw(t, "new") + nl
			}
		}
		b += "*** End Patch" + nl
		if diff := cmp.Diff(want, PatchPaths(b)); diff != "" {
			t.Fatalf("%s\n%s", b, diff)
		}
	})
}

func FuzzPatchPaths(f *testing.F) {
	f.Add("*** Begin Patch\n*** Add File: a\n+b\n*** End Patch\n")
	f.Add("*** Update File: a\r*** Move to: b:c")
	f.Add("\ufeff *** Delete File:\u00a0x\u2028")
	f.Fuzz(func(t *testing.T, patch string) {
		got := PatchPaths(patch)
		seen := map[Path]bool{}
		for _, p := range got {
			if seen[p] || p.Op != OpWrite || p.Path == "" || p.Path != strings.TrimSpace(p.Path) || strings.Contains(p.Path, "\n") {
				t.Fatalf("path %+v of %q", p, patch)
			}
			seen[p] = true
			if !strings.Contains(patch, p.Path) {
				t.Fatalf("path %q isn't in %q", p.Path, patch)
			}
		}
		// More text after it never hides a path.
		longer := PatchPaths(patch + "\n+x\n")
		if len(longer) < len(got) {
			t.Fatalf("%v became %v", got, longer)
		}
	})
}
