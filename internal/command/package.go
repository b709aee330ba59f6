package command

import (
	"slices"
	"strings"
)

// Programs that fetch a package and run a program of it: `npx npm@latest
// publish` is as much an npm as any other. What stands there is a package with
// a version, an origin or a path before the program's name, each in the way of
// its language; guards compare with the name.

// fetchers have, by name, the words after which a package follows; nil for those
// whose first word it is. All but go and nix are wrappers, too.
var fetchers = map[string][]string{
	"npx": nil, "bunx": nil, "pnpx": nil, "uvx": nil, "corepack": nil,
	"npm": {"exec", "x"}, "pnpm": {"exec", "dlx"}, "yarn": {"exec", "dlx"}, "bun": {"x"}, "pipx": {"run"}, "uv": {"run", "x", "tool"}, "go": {"run"}, "nix": {"run"},
}

// goFlags are the flags of go run that have their value in the next word.
var goFlags = []string{"asmflags", "buildmode", "C", "compiler", "cover", "coverpkg", "exec", "gccgoflags", "gcflags", "installsuffix", "ldflags", "mod", "modfile", "overlay", "p", "pgo", "pkgdir", "tags", "toolexec"}

// fetched returns what go run and nix run run; a part of args.
func fetched(program string, args []string) []string {
	if len(args) < 2 || args[0] != "run" {
		return nil
	}
	for i := 1; i < len(args); i++ {
		flag, dashed := strings.CutPrefix(args[i], "-")
		if args[i] == "." {
			return nil // the program of this directory, which has no name here
		}
		if !dashed {
			return args[i:]
		}
		if program == "go" && slices.Contains(goFlags, strings.TrimPrefix(flag, "-")) {
			i++
		}
	}
	return nil
}

// unpacked is a command whose program is a package, with the program's name in
// its place. Other commands are returned as they are.
func unpacked(argv []string) []string {
	bare := packaged(argv[0])
	if bare == argv[0] || bare == "" {
		return argv
	}
	args := argv[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:] // it parts the fetcher's words from the program's
	}
	return append([]string{bare}, args...)
}

// packaged is the program's name in a package's: lerna in lerna@8, create-x in
// @scope/create-x@1, twine in twine==6 and in nixpkgs#twine, x in
// example.com/x/v2@latest.
func packaged(word string) string {
	if i := strings.LastIndexByte(word, '#'); i >= 0 {
		word = word[i+1:]
		return word[strings.LastIndexByte(word, '.')+1:] // legacyPackages.x86_64-linux.twine
	}
	slash := strings.LastIndexByte(word, '/')
	if i := strings.IndexAny(word[slash+1:], "@=<>~![;"); i > 0 {
		word = word[:slash+1+i]
	} else if !strings.Contains(word, "@") && !strings.Contains(word, ".") {
		return word
	}
	last := word[slash+1:]
	if len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" && slash > 0 {
		word = word[:slash]
		return word[strings.LastIndexByte(word, '/')+1:]
	}
	return last
}
