package agents

import "strings"

// The line markers of the patch format that Codex and clients after its model
// use. The grammar is in the declaration of Codex's apply_patch tool.
var patchMarkers = []string{"*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"}

// PatchPaths returns the paths that a patch would write, delete or move, in
// the order in which they first appear, each once. All have OpWrite.
//
// It reads the markers wherever a line starts with one, in or out of a
// begin/end frame, indented or not, so a text with a patch in it (a shell
// command with a here document) may be given as well. It never finds less
// than a client's parser would: where parsers differ it returns what each of
// them reads, and a context line that quotes a marker counts too. A path that
// is not a file's is judged in vain; a path that is missed is not judged.
func PatchPaths(patch string) []Path {
	var out []Path
	seen := map[string]bool{}
	add := func(p string) {
		if p = strings.TrimSpace(p); p != "" && !seen[p] {
			seen[p] = true
			out = append(out, Path{p, OpWrite})
		}
	}
	read := func(line string) {
		// Some parsers trim a line before they look at it.
		line = strings.TrimLeft(strings.TrimSpace(line), "\ufeff")
		for _, m := range patchMarkers {
			rest, ok := strings.CutPrefix(line, m)
			if !ok {
				continue
			}
			add(rest)
			// Older parsers split the line at its colons and took the second part.
			if short, _, more := strings.Cut(rest, ":"); more {
				add(short)
			}
		}
	}
	for line := range strings.SplitSeq(patch, "\n") {
		read(line)
		// A carriage return inside a line belongs to a path for some and ends
		// the line for others.
		if inner := strings.TrimRight(line, "\r"); strings.Contains(inner, "\r") {
			for part := range strings.SplitSeq(inner, "\r") {
				read(part)
			}
		}
	}
	return out
}
