package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/guards/sdk"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// The worked examples of docs/guard-abi.md build with the commands that stand
// below them, and pass the whole kit with the limits that an operator gets by
// default, the program with a general JSON parser among them.
func TestDocumentedGuards(t *testing.T) {
	page, err := os.ReadFile("../../docs/guard-abi.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page2, _ := strings.Cut(string(page), "\n## Worked examples\n")
	examples := regexp.MustCompile("(?s)\n### ([^\n]*)\n.*?```(\\w+)\n(.*?)```\n\n```\n(.*?)\n```").FindAllStringSubmatch(page2, -1)
	if len(examples) != 6 {
		t.Fatalf("%d worked examples, want 6", len(examples))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		title, language, source, build := e[1], e[2], e[3], e[4]
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			name := map[string]string{"go": "guard.go", "rust": "guard.rs", "c": "guard.c", "ts": "guard.ts", "wat": "guard.wat"}[language]
			files := map[string]string{name: source, "cases.jsonl": `{"name":"denied","call":{"name":"bash","arguments":{"command":"frob x"}},"want":"deny","reason":"grind"}
{"name":"passed","call":{"name":"bash","arguments":{"command":"grind frob"}},"want":"pass"}
{"name":"no command","call":{"name":"Read","arguments":{"file_path":"frob"}},"want":"pass"}`}
			if new, err := sdk.New(map[string]string{"ts": "assemblyscript"}[language] + map[bool]string{true: language}[language == "rust" || language == "c"]); err == nil {
				for name, b := range new {
					if strings.HasPrefix(name, "guardproxy.") {
						files[name] = string(b)
					}
				}
			}
			for name, content := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			in := dir
			switch language {
			case "go": // the package is found from inside of the module
				in = root
				build = strings.Replace(build, "-o guard.wasm", "-buildvcs=false -o "+dir+"/guard.wasm "+dir+"/guard.go", 1)
			case "rust":
				build = "PATH=/usr/bin:$PATH; for l in wasm-ld wasm-ld-14 wasm-ld-19; do command -v $l && break; done; [ -d \"$(rustc --print target-libdir --target wasm32-unknown-unknown)\" ] || exit 77; " + build + " -C linker=$l"
			case "c":
				build = "for c in clang clang-14 clang-19; do command -v $c && break; done; " + strings.Replace(build, "clang ", "$c ", 1)
			case "ts":
				asc := os.Getenv("ASC")
				if asc == "" {
					machine.Lacks(t, "assemblyscript", "name the compiler asc in ASC")
				}
				build = strings.Replace(build, "npx asc", asc, 1)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", build)
			cmd.Dir = in
			if out, err := cmd.CombinedOutput(); err != nil {
				if language != "go" && (cmd.ProcessState.ExitCode() == 127 || cmd.ProcessState.ExitCode() == 77) {
					machine.Lacks(t, "toolchains", "%s", out)
				}
				t.Fatalf("%s: %v\n%s", build, err, out)
			}
			code, stdout, stderr := verbRun(t, "guard", "test", filepath.Join(dir, "guard.wasm"), filepath.Join(dir, "cases.jsonl"), "--within", "120s", "--deadline", "20s")
			if code != 0 {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}
