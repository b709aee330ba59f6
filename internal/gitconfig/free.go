package gitconfig

import "strings"

// free lists the variables that may change, by section: what describes the
// repository or how git prints. Nothing in it names a program, a file to be
// read, or a directory to work on. Sections in withSub have a subsection, in
// all others a subsection makes a variable one that is not free (diff.NAME
// names a driver's program where diff.renames does not).
var free = map[string][]string{
	"core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
		"symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "compression", "loosecompression",
		"bigfilethreshold", "sparsecheckout", "sparsecheckoutcone", "untrackedcache", "trustctime", "checkstat",
		"preloadindex", "whitespace", "longpaths", "protecthfs", "protectntfs", "splitindex", "commitgraph",
		"multipackindex", "commentchar", "warnambiguousrefs", "createobject", "fsync", "sharedrepository"},
	"user":        {"name", "email"},
	"author":      {"name", "email"},
	"committer":   {"name", "email"},
	"extensions":  {"objectformat", "refstorage", "partialclone", "worktreeconfig", "relativeworktrees"},
	"pull":        {"rebase", "ff"},
	"push":        {"default", "autosetupremote", "followtags"},
	"fetch":       {"prune", "prunetags", "parallel", "recursesubmodules", "fsckobjects", "writecommitgraph"},
	"merge":       {"ff", "conflictstyle", "renames", "renamelimit", "log", "autostash"},
	"rebase":      {"autosquash", "autostash", "updaterefs", "stat", "missingcommitscheck"},
	"init":        {"defaultbranch"},
	"commit":      {"verbose", "cleanup", "status"},
	"tag":         {"sort"},
	"log":         {"date", "decorate", "abbrevcommit", "follow", "showroot"},
	"status":      {"short", "branch", "showuntrackedfiles", "relativepaths", "showstash", "submodulesummary"},
	"diff":        {"renames", "renamelimit", "algorithm", "noprefix", "mnemonicprefix", "colormoved", "context", "submodule"},
	"gc":          {"auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire", "writecommitgraph", "packrefs"},
	"pack":        {"threads", "window", "depth", "windowmemory", "packsizelimit", "compression", "usesparse"},
	"index":       {"version", "threads", "skiphash", "sparse"},
	"feature":     {"manyfiles"},
	"rerere":      {"enabled", "autoupdate"},
	"worktree":    {"guessremote", "userelativepaths"},
	"checkout":    {"defaultremote", "guess", "workers"},
	"branch":      {"autosetupmerge", "autosetuprebase", "sort"},
	"submodule":   {"active", "recurse", "fetchjobs", "propagatebranches"},
	"lfs":         {"repositoryformatversion"},
	"http":        {"postbuffer"},
	"maintenance": {"auto"},
}

var withSub = map[string][]string{
	"branch": {"remote", "merge", "rebase", "pushremote", "description"},
	"remote": {"url", "pushurl", "fetch", "push", "mirror", "prune", "prunetags", "tagopt", "skipdefaultupdate",
		"skipfetchall", "promisor", "partialclonefilter", "followremotehead"},
	"submodule": {"url", "active", "branch", "ignore", "shallow", "fetchrecursesubmodules", "update"},
}

// wholly free sections: how git prints.
var printing = []string{"color", "advice", "column"}

// free says whether e may be added, changed and removed.
func (e Entry) free() bool {
	for _, s := range printing {
		if e.Section == s {
			return true
		}
	}
	keys := free[e.Section]
	if e.Sub != "" {
		keys = withSub[e.Section]
	}
	ok := false
	for _, k := range keys {
		ok = ok || k == e.Key
	}
	if !ok {
		return false
	}
	switch e.Key {
	case "url", "pushurl":
		// transport::address runs git-remote-transport, and what begins with
		// a dash is read as an option by what gets it.
		head, _, helper := strings.Cut(e.Value, "::")
		return !strings.HasPrefix(e.Value, "-") && (!helper || strings.ContainsAny(head, "/[]@"))
	case "update":
		return strings.Contains(" checkout rebase merge none ", " "+e.Value+" ")
	}
	return true
}
