package agents

import (
	"fmt"
	"slices"
	"strings"
)

// CheckPatch reports why a text is no patch that can be read to its end, nil
// if it is one. What it can read is exactly what PatchPaths finds the paths
// of: a text in another format (a unified diff, say) has none for PatchPaths,
// and must not pass for a patch that touches nothing.
//
// The grammar is the one that Codex declares for apply_patch, with what its
// parser and those made after it forgive: spaces around a marker, carriage
// returns, empty lines inside a change, a here document around the whole, and
// text before and behind it.
//
//	patch  = "*** Begin Patch" { hunk } "*** End Patch"
//	hunk   = "*** Add File: " path { "+" line }
//	       | "*** Delete File: " path
//	       | "*** Update File: " path [ "*** Move to: " path ] { change }
//	change = "@@" [ text ] | ( "+" | "-" | " " ) line | "" | "*** End of File"
//
// Errors wrap ErrArgument and name the line, from 1.
func CheckPatch(patch string) error {
	const (
		before = iota // the frame has not begun
		between
		adding
		updating // right behind the marker
		changing
		behind
	)
	state, hunks := before, 0
	bad := func(n int, why string) error {
		return fmt.Errorf("%w: the patch can't be read: line %d %s", ErrArgument, n, why)
	}
	n := 0
	for line := range strings.SplitSeq(patch, "\n") {
		n++
		line = strings.TrimSuffix(line, "\r")
		if strings.Contains(line, "\r") && strings.Contains(line, "***") {
			return bad(n, "holds a carriage return, which some readers take for its end")
		}
		marker := strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		first := byte(0)
		if line != "" {
			first = line[0]
		}
		switch state {
		case before:
			if marker == "*** Begin Patch" {
				state = between
			} else if strings.HasPrefix(marker, "*** ") {
				return bad(n, "stands before *** Begin Patch")
			}
			continue
		case behind:
			if strings.HasPrefix(marker, "*** ") {
				return bad(n, "stands behind *** End Patch")
			}
			continue
		case adding:
			if first == '+' {
				continue
			}
		case updating, changing:
			// A line of the file may look like a marker: readers differ about
			// indented ones, and PatchPaths counts them.
			if first == '+' || first == '-' || first == ' ' || strings.HasPrefix(marker, "@@") || marker == "" || marker == "*** End of File" {
				state = changing
				continue
			}
			if state == updating && pathOf(marker, "*** Move to:") {
				state = changing
				continue
			}
		}
		switch {
		case marker == "*** End Patch":
			if hunks == 0 {
				return bad(n, "ends a patch that changes nothing")
			}
			state = behind
		case pathOf(marker, "*** Add File:"):
			state = adding
		case pathOf(marker, "*** Delete File:"):
			state = between
		case pathOf(marker, "*** Update File:"):
			state = updating
		case marker == "" && state != adding:
			continue
		default:
			return bad(n, "is none of its grammar")
		}
		hunks++
	}
	switch state {
	case before:
		return fmt.Errorf("%w: there is no patch: it starts with *** Begin Patch", ErrArgument)
	case behind:
		return nil
	}
	return fmt.Errorf("%w: the patch has no end: it ends with *** End Patch", ErrArgument)
}

// pathOf reports whether a line is a marker with a path behind it.
func pathOf(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && strings.TrimSpace(rest) != ""
}

// ShellPatch returns the paths of a patch that a shell command applies, as in
//
//	apply_patch <<'EOF'
//
// which some clients run themselves instead of a shell. command is the whole
// command, argv what it was parsed to. whole is false when a patch is applied
// whose paths may not all be there: it comes from elsewhere, can't be read, or
// the shell would expand one of its paths.
func ShellPatch(command string, argv [][]string) (paths []Path, whole bool) {
	if !slices.ContainsFunc(argv, applies) {
		return nil, true
	}
	paths = PatchPaths(command)
	from := strings.Index(command, "*** Begin Patch")
	to := strings.LastIndex(command, "*** End Patch")
	if from < 0 || to < from || CheckPatch(command[from:to]+"*** End Patch") != nil {
		return paths, false
	}
	for _, p := range paths {
		if strings.ContainsAny(p.Path, "$`\\") {
			return paths, false
		}
	}
	return paths, true
}

// applies reports whether a simple command runs apply_patch, which stands first
// or behind a command that runs what stands behind it. As a word of any other
// command it is only a word.
func applies(words []string) bool {
	for i, w := range words {
		switch name := w[strings.LastIndexByte(w, '/')+1:]; name {
		case "apply_patch", "applypatch":
			return true
		case "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "time", "timeout", "stdbuf", "setsid", "xargs":
		default:
			if i == 0 {
				return false
			}
		}
	}
	return false
}
