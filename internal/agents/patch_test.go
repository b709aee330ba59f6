package agents

import (
	"errors"
	"slices"
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
		if err := CheckPatch(b); err != nil {
			t.Fatalf("%s\n%v", b, err)
		}
		// What is cut off, or has a line of another grammar, is no patch.
		lines := strings.SplitAfter(b, "\n")
		n := rapid.IntRange(1, len(lines)-2).Draw(t, "line")
		if err := CheckPatch(strings.Join(lines[:n], "")); !errors.Is(err, ErrArgument) {
			t.Fatalf("%q: %v", lines[:n], err)
		}
		if odd := strings.Join(slices.Insert(lines, n, "?"+nl), ""); CheckPatch(odd) == nil {
			t.Fatalf("%q", odd)
		}
	})
}

func TestCheckPatch(t *testing.T) {
	for _, row := range []struct{ name, patch, err string }{
		{"all kinds", "*** Begin Patch\n*** Add File: new.txt\n+hello\n+\n*** Update File: a\n*** Move to: b\n@@ func\n x\n-x\n+y\n@@\n\n+z\n*** End of File\n*** Delete File: old.txt\n*** End Patch\n", ""},
		{"an empty file", "*** Begin Patch\n*** Add File: a\n*** End Patch", ""},
		{"only moved", "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch", ""},
		{"in a here document", "<<'EOF'\n*** Begin Patch\n*** Add File: a\n+b\n*** End Patch\nEOF\n", ""},
		{"spaces around markers", " *** Begin Patch \n *** Delete File: a \n\n*** End Patch ", ""},
		{"a line of the file like a marker", "*** Begin Patch\n*** Update File: a\n *** x\n *** End Patch\n*** End Patch", ""},
		{"nothing", "", "there is no patch"},
		{"a unified diff", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "there is no patch"},
		{"a unified diff in the frame", "*** Begin Patch\n--- a/x\n+++ b/x\n*** End Patch", "line 2 is none"},
		{"no end", "*** Begin Patch\n*** Delete File: a\n", "has no end"},
		{"no hunk", "*** Begin Patch\n*** End Patch", "line 2 ends a patch that changes nothing"},
		{"before the frame", "*** Delete File: a\n*** Begin Patch\n*** Delete File: b\n*** End Patch", "line 1 stands before"},
		{"behind the frame", "*** Begin Patch\n*** Delete File: b\n*** End Patch\n*** Begin Patch", "line 4 stands behind"},
		{"an added line without its mark", "*** Begin Patch\n*** Add File: a\nb\n*** End Patch", "line 3 is none"},
		{"an empty path", "*** Begin Patch\n*** Delete File: \n*** End Patch", "line 2 is none"},
		{"an unknown marker", "*** Begin Patch\n*** Rename File: a\n*** End Patch", "line 2 is none"},
		{"a move of nothing", "*** Begin Patch\n*** Delete File: a\n*** Move to: b\n*** End Patch", "line 3 is none"},
		{"a late move", "*** Begin Patch\n*** Update File: a\n@@\n*** Move to: b\n*** End Patch", "line 4 is none"},
		{"a marker behind a carriage return", "*** Begin Patch\n*** Update File: a\n x\r*** Delete File: b\n*** End Patch", "line 3 holds a carriage return"},
	} {
		err := CheckPatch(row.patch)
		if row.err == "" && err != nil || row.err != "" && (!errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func TestShellPatch(t *testing.T) {
	here := "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a/b\n+$x\n*** End Patch\nEOF\n"
	for _, row := range []struct {
		name, command string
		argv          [][]string
		want          []string
		whole         bool
	}{
		{"a word", "rg apply_patch '*** Add File: x'", [][]string{{"rg", "apply_patch", "*** Add File: x"}}, nil, true},
		{"behind options of a wrapper", "timeout 5 " + here, [][]string{{"timeout", "5", "apply_patch"}}, []string{"a/b"}, true},
		{"no patch", "ls '*** Add File: x'", [][]string{{"ls", "*** Add File: x"}}, nil, true},
		{"a here document", here, [][]string{{"apply_patch"}}, []string{"a/b"}, true},
		{"in a directory", "cd src && " + here, [][]string{{"cd", "src"}, {"/usr/bin/apply_patch"}}, []string{"a/b"}, true},
		{"behind a wrapper", "sudo " + here, [][]string{{"sudo", "apply_patch"}}, []string{"a/b"}, true},
		{"an argument", "applypatch '*** Begin Patch\n*** Delete File: a\n*** End Patch'", [][]string{{"applypatch", "*** Begin Patch\n*** Delete File: a\n*** End Patch"}}, []string{"a"}, true},
		{"from a file", "apply_patch < x", [][]string{{"apply_patch"}}, nil, false},
		{"no grammar", "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a\nb\n*** End Patch\nEOF", [][]string{{"apply_patch"}}, []string{"a"}, false},
		{"an expanded path", "apply_patch <<EOF\n*** Begin Patch\n*** Delete File: $HOME/a\n*** End Patch\nEOF", [][]string{{"apply_patch"}}, []string{"$HOME/a"}, false},
		{"quotes in an argument", "apply_patch '*** Begin Patch\n*** Delete File: /e''tc/a\n*** End Patch'", [][]string{{"apply_patch", "*** Begin Patch\n*** Delete File: /etc/a\n*** End Patch"}}, []string{"/e''tc/a", "/etc/a"}, true},
		{"an argument that is another", "apply_patch x # " + here, [][]string{{"apply_patch", "x"}}, []string{"a/b"}, false},
		{"a script", "bash\n-c\n" + here, [][]string{{"bash", "-c", here}, {"apply_patch"}}, []string{"a/b"}, true},
		{"a script that is spelled in another way", `bash -c "` + strings.ReplaceAll(here, "a/b", `a\"\"/b`) + `"`, [][]string{{"bash", "-c", strings.ReplaceAll(here, "a/b", `a""/b`)}, {"apply_patch"}}, []string{`a\"\"/b`, `a""/b`}, true},
		{"one patch here and one from a file", here + "apply_patch < x", [][]string{{"apply_patch"}, {"apply_patch"}}, []string{"a/b"}, false},
		{"a patch for somebody else", ": " + here[len("apply_patch "):] + "apply_patch < x", [][]string{{":"}, {"apply_patch"}}, []string{"a/b"}, false},
		{"a patch for somebody else, and a pipe", ": " + here[len("apply_patch "):] + "cat x | apply_patch", [][]string{{":"}, {"cat", "x"}, {"apply_patch"}}, []string{"a/b"}, false},
		{"a patch in a variable", "x='" + here[len("apply_patch <<'EOF'\n"):] + "'; apply_patch", [][]string{{"apply_patch"}}, []string{"a/b"}, false},
		{"or else", "cd x || exit; " + here, [][]string{{"cd", "x"}, {"exit"}, {"apply_patch"}}, []string{"a/b"}, true},
		{"a line that is expanded", strings.Replace(here, "'EOF'", "EOF", 1), [][]string{{"apply_patch"}}, []string{"a/b"}, false},
		{"nothing to expand", "apply_patch <<EOF\n*** Begin Patch\n*** Add File: a\n+b\n*** End Patch\nEOF", [][]string{{"apply_patch"}}, []string{"a"}, true},
		{"a here string", "apply_patch <<< '*** Begin Patch\n*** Add File: a\n+b\n*** End Patch'", [][]string{{"apply_patch"}}, []string{"a"}, true},
		{"a here string with quotes in it", "apply_patch <<< '*** Begin Patch\n*** Add File: /e''tc/a\n+b\n*** End Patch'", [][]string{{"apply_patch"}}, []string{"/e''tc/a"}, false},
		{"two patches", here + here, [][]string{{"apply_patch"}, {"apply_patch"}}, []string{"a/b"}, false},
	} {
		paths, whole := ShellPatch(row.command, row.argv)
		var want []Path
		for _, p := range row.want {
			want = append(want, Path{p, OpWrite})
		}
		if diff := cmp.Diff(want, paths); diff != "" || whole != row.whole {
			t.Errorf("%s: whole %v, %s", row.name, whole, diff)
		}
	}
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
		// A patch that is read to its end names a path.
		if err := CheckPatch(patch); err == nil && len(got) == 0 {
			t.Fatalf("no path in %q", patch)
		} else if err != nil && !errors.Is(err, ErrArgument) {
			t.Fatal(err)
		}
		// More text after it never hides a path.
		longer := PatchPaths(patch + "\n+x\n")
		if len(longer) < len(got) {
			t.Fatalf("%v became %v", got, longer)
		}
	})
}
