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
// the shell would change its text.
func ShellPatch(command string, argv [][]string) (paths []Path, whole bool) {
	given, n := applied(argv)
	if n == 0 {
		return nil, true
	}
	text := command
	if len(given) == 1 {
		text = given[0] // the shell has taken off its quotes
	} else if scripts := carriers(argv); len(scripts) == 1 {
		text = scripts[0]
	} else if len(scripts) > 1 {
		n = len(scripts)
	}
	paths = PatchPaths(command)
	for _, p := range PatchPaths(text) {
		if !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		if strings.ContainsAny(p.Path, "$`") {
			return paths, false
		}
	}
	switch {
	case n > 1:
		return paths, false
	case len(given) == 1:
		return paths, CheckPatch(text) == nil
	}
	return paths, len(given) == 0 && fromHere(text)
}

const patchBegin, patchEnd = "*** Begin Patch", "*** End Patch"

// fromHere reports whether what a script applies is the one patch in it: it is
// in the only here-document, or the only here-string, and nothing else could be
// the input of a command.
func fromHere(script string) bool {
	from, to := strings.Index(script, patchBegin), strings.LastIndex(script, patchEnd)
	if from < 0 || to < from || CheckPatch(script[from:to]+patchEnd) != nil {
		return false
	}
	patch, around := script[from:to], script[:from]+script[to+len(patchEnd):]
	if strings.Contains(strings.ReplaceAll(around, "||", ""), "|") {
		return false
	}
	_, word, here := strings.Cut(script[:from], "<<")
	word = strings.TrimLeft(strings.TrimPrefix(word, "-"), " \t")
	switch inputs := strings.Count(around, "<"); {
	case !here || word == "":
		return false
	case inputs == 3 && word[0] == '<':
		return !strings.ContainsAny(patch, "'\"\\$`")
	case inputs != 2:
		return false
	}
	// Without quotes around its end, what stands in it is expanded, and lines of it
	// may become others.
	return strings.IndexByte(`'"\`, word[0]) >= 0 || !strings.ContainsAny(patch, "\\$`")
}

// applied is what follows apply_patch in the last of the commands that run it,
// and how many do. A command that was found behind another one is the same.
func applied(argv [][]string) (given []string, n int) {
	wrapped := 0
	var behind []string
	for _, words := range argv {
		switch at := applies(words); {
		case at == 0:
			n++
			given = words[1:]
		case at > 0:
			wrapped++
			behind = words[at+1:]
		}
	}
	if n == 0 {
		return behind, wrapped
	}
	return given, n
}

// carriers are the words, each once, that hold a patch and are no argument of
// apply_patch: scripts for another shell, mostly.
func carriers(argv [][]string) (out []string) {
	for _, words := range argv {
		for _, w := range words {
			if strings.Contains(w, patchBegin) && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// applies is the place of apply_patch in a simple command that runs it: first, or
// behind a command that runs what stands behind it; −1 for none. As a word of
// any other command it is only a word.
func applies(words []string) int {
	for i, w := range words {
		switch name := w[strings.LastIndexByte(w, '/')+1:]; name {
		case "apply_patch", "applypatch":
			return i
		case "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "time", "timeout", "stdbuf", "setsid", "xargs":
		default:
			if i == 0 {
				return -1
			}
		}
	}
	return -1
}
