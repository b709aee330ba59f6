package confine

import (
	"path/filepath"
	"slices"
	"strings"
)

// How a denial is told from a failure of the command's own. Without an observer
// in the kernel there is what the command said, and what it says can be
// anybody's words: `ssh` complains of "Permission denied" about a key. So a
// message counts only together with a counterfactual: it names a path, the
// policy keeps the command from that path, and the user could have done the
// same without confinement.
//
// What guardproxy itself refused (a change of a repository's configuration) and
// what it held is known without any message.

// Verdict says whether a command failed because it was confined.
type Verdict string

const (
	Denied    Verdict = "denied"    // the confinement kept it from something
	Suspected Verdict = "suspected" // it may have: nothing proves it
	None      Verdict = "none"      // nothing points to it
)

// Denial is a verdict with what it rests on.
type Denial struct {
	Verdict  Verdict    `json:"verdict"`
	Evidence []Evidence `json:"evidence"` // empty if the verdict is None
}

// Evidence is one thing that points to a denial.
type Evidence struct {
	// Signature is the kind of message, by the error that it stands for:
	// EROFS, EACCES, EPERM, EBUSY, EXDEV, ENOENT, network; or "guardproxy" for
	// what was refused without one.
	Signature string `json:"signature"`
	// Line is the message, as the command printed it.
	Line string `json:"line"`
	// Path is what it is about, absolute, "" if it names none.
	Path string `json:"path,omitempty"`
	// Counterfactual says why the command would not have failed without
	// confinement, "" if that is not known.
	Counterfactual string `json:"counterfactual,omitempty"`
}

// signatures are the messages of the C library's errors, in lower case.
var signatures = []struct{ name, text string }{
	{"EROFS", "read-only file system"},
	{"EACCES", "permission denied"},
	{"EPERM", "operation not permitted"},
	{"EBUSY", "device or resource busy"},
	{"EXDEV", "invalid cross-device link"},
	{"ENOENT", "no such file or directory"},
	{"EROFS", "unable to open database file"},
	{"network", "network is unreachable"},
	{"network", "temporary failure in name resolution"},
	{"network", "could not resolve host"},
	{"network", "eai_again"},
	{"network", "name or service not known"},
	{"network", "nodename nor servname provided"},
}

// Outcome is what is known of a command that has ended.
type Outcome struct {
	ExitCode int
	Stderr   string // its end is enough
	// Refused is what guardproxy refused while the command ran.
	Refused []error
	// Could says whether the user may write (or, if write is false, read) a
	// path without confinement. It is asked of paths that the command named.
	Could func(path string, write bool) bool
}

const (
	maxLines    = 200 // of stderr, from its end
	maxLine     = 300 // bytes of a line that is kept as evidence
	maxEvidence = 5
)

// Classify says whether a command that was prepared as p failed because it was
// confined.
func (p Prepared) Classify(o Outcome) Denial {
	d := Denial{Verdict: None, Evidence: []Evidence{}}
	for _, err := range o.Refused {
		d.add(Denied, Evidence{Signature: "guardproxy", Line: err.Error(), Counterfactual: "guardproxy refused it"})
	}
	if o.ExitCode == 0 {
		return d
	}
	lines := strings.Split(strings.TrimRight(o.Stderr, "\n"), "\n")
	if len(lines) > maxLines {
		lines = lines[len(lines)-maxLines:]
	}
	for _, line := range lines {
		lower := strings.ToLower(line)
		for _, s := range signatures {
			at := strings.Index(lower, s.text)
			if at < 0 {
				continue
			}
			v, e := p.weigh(s.name, line, o.Could)
			e.Line = strings.ToValidUTF8(line[:min(len(line), maxLine)], "\uFFFD")
			d.add(v, e)
			break
		}
	}
	return d
}

func (d *Denial) add(v Verdict, e Evidence) {
	if v == None {
		return
	}
	if v == Denied || d.Verdict == None {
		d.Verdict = v
	}
	if len(d.Evidence) < maxEvidence && !slices.Contains(d.Evidence, e) {
		d.Evidence = append(d.Evidence, e)
	}
}

// weigh says what one line proves.
func (p Prepared) weigh(signature, line string, could func(string, bool) bool) (Verdict, Evidence) {
	e := Evidence{Signature: signature}
	if signature == "network" {
		if p.policy.host() {
			return None, e
		}
		e.Counterfactual = "the command has no network"
		return Suspected, e
	}
	dir := p.policy.Dir
	if dir == "" {
		dir = p.policy.Workspace
	}
	for _, path := range namedPaths(line, dir) {
		if p.Enforcement.Runner == runSeatbelt {
			path = resolved(path) // what is said to be in /tmp is in /private/tmp
		}
		hidden := slices.ContainsFunc(slices.Concat(p.policy.Hidden, p.policy.Masks), func(h string) bool { return Within(path, h) || Within(path, resolved(h)) })
		inRoots := slices.ContainsFunc(p.Enforcement.Writable, func(r string) bool { return Within(path, r) })
		guarded := slices.ContainsFunc(p.denied(), func(g string) bool { return Within(path, g) })
		switch {
		case hidden && could(path, false):
			e.Counterfactual = "it is hidden from the command, and you can read it"
		case !inRoots && p.Enforcement.Runner == runBubblewrap && Within(path, "/tmp") && could(path, false):
			e.Counterfactual = "it lies in /tmp, where the command has its own files, and you can read it"
		case signature == "ENOENT":
			continue
		case guarded && could(path, true):
			e.Counterfactual = "it runs code outside of the workspace and is guarded, and you can write it"
		case !inRoots && !p.private(path) && could(path, true):
			e.Counterfactual = "it lies outside of every writable root, and you can write it"
		default:
			continue
		}
		e.Path = path
		return Denied, e
	}
	if signature == "EROFS" {
		return Suspected, e // few file systems are, but for ours
	}
	return None, e
}

// denied are the guarded places that the command could not change.
func (p Prepared) denied() []string {
	if p.guarded != nil || p.ward == nil {
		return p.guarded
	}
	return p.ward.ReadOnly()
}

// private says whether path lies where the command has something of its own.
func (p Prepared) private(path string) bool {
	own := []string{"/dev", "/proc"}
	if p.temp != "" {
		own = append(own, p.temp)
	}
	if p.Enforcement.Runner == runBubblewrap {
		own = append(own, "/tmp")
	}
	return slices.ContainsFunc(own, func(d string) bool { return Within(path, d) })
}

// namedPaths returns what in a line may be a path, absolute, each once: what
// stands in quotes, and words.
func namedPaths(line, dir string) []string {
	var paths []string
	add := func(s string) {
		s = strings.TrimRight(strings.TrimSpace(s), ".,;:)]")
		s = strings.TrimLeft(s, "([")
		if s == "" || len(s) > 4096 || strings.ContainsRune(s, 0) || !strings.ContainsAny(s, "/.") && len(s) < 2 {
			return
		}
		if !filepath.IsAbs(s) {
			s = filepath.Join(dir, s)
		}
		if s = filepath.Clean(s); !slices.Contains(paths, s) {
			paths = append(paths, s)
		}
	}
	for _, q := range []struct{ open, close string }{{"'", "'"}, {`"`, `"`}, {"‘", "’"}, {"`", "'"}} {
		rest := line
		for {
			_, after, ok := strings.Cut(rest, q.open)
			if !ok {
				break
			}
			in, next, ok := strings.Cut(after, q.close)
			if !ok {
				break
			}
			add(in)
			rest = next
		}
	}
	for part := range strings.SplitSeq(line, ": ") {
		if strings.Contains(part, "/") && !strings.ContainsAny(part, "'\"‘") {
			add(part) // a path with spaces in it
		}
		for _, word := range strings.Fields(part) {
			word = strings.Trim(word, `'"‘’`+"`")
			if strings.ContainsAny(word, "/.") {
				add(word)
			}
		}
	}
	return paths
}
