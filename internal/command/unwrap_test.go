package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The command that a program runs out of its words is a command of its own.
func TestUnwrap(t *testing.T) {
	for _, tc := range []struct{ script, want string }{
		{"sudo rm x", "rm x"},
		{"sudo -u root -H rm x", "rm x"},
		{"sudo -uroot -- rm x", "rm x"},
		{"sudo --user root A=1 rm x", "rm x"},
		{"sudo -nE rm x", "rm x"},
		{"/usr/bin/sudo rm x", "rm x"},
		{"SUDO rm x", "rm x"},
		{"sudo -l", ""},
		{"sudo -v", ""},
		{"doas -u root rm x", "rm x"},
		{"env -i A=1 rm x", "rm x"},
		{"env -u A -C /tmp rm x", "rm x"},
		{"env", ""},
		{"command -p rm x", "rm x"},
		{"command -v rm", ""},
		{"exec -a name rm x", "rm x"},
		{"nice -n 5 rm x", "rm x"},
		{"nice -5 rm x", "rm x"},
		{"ionice -c 3 rm x", "rm x"},
		{"timeout -k 5 10 rm x", "rm x"},
		{"timeout --signal=KILL 10 rm x", "rm x"},
		{"timeout --preserve-status 10 rm x", "rm x"},
		{"stdbuf -oL rm x", "rm x"},
		{"setsid -f rm x", "rm x"},
		{"nohup rm x", "rm x"},
		{"busybox rm x", "rm x"},
		{"chroot /mnt rm x", "rm x"},
		{"flock /tmp/lock rm x", "rm x"},
		{"unshare -r rm x", "rm x"},
		{"strace -f -o log rm x", "rm x"},
		{"xargs rm x", "rm x"},
		{"xargs -0 -n 1 -P4 rm x", "rm x"},
		{"xargs -I {} rm {}", "rm {}"},
		{"xargs --no-run-if-empty rm x", "rm x"},
		{"xargs", ""},
		{"find . -name '*.o' -exec rm {} +", "rm {}"},
		{"find . -exec a {} \\; -o -execdir b {} \\;", "a {} ; b {}"},
		{"find . -exec echo + a \\;", "echo + a"},
		{"find . -delete", ""},
		{"fd -e o -x rm", "rm"},
		{"npx -y rimraf x", "rimraf x"},
		{"npm exec -- rimraf x", "rimraf x"},
		// A package stands for its program.
		{"npx --yes npm@latest publish", "npm publish"},
		{"npx @scope/create-x@1.2 y", "create-x y"},
		{"npx @scope/x y", "x y"},
		{"npx ./x.js y", "x.js y"},
		{"pnpm dlx lerna@^8 publish", "lerna publish"},
		{"uvx twine==6.0 upload x", "twine upload x"},
		{"uvx --from build pyproject-build[uv]", "pyproject-build"},
		{"pipx run 'twine>=5' upload x", "twine upload x"},
		{"go run -tags x -ldflags=-s example.com/cmd/x/v2@v2.3.4 y -z", "x y -z"},
		{"go run ./cmd/x y", "x y"},
		{"go run . y", ""},
		{"go run -C /x main.go", "main.go"},
		{"go run", ""},
		{"go build ./cmd/x y", ""},
		{"nix run nixpkgs#twine -- upload x", "twine upload x"},
		{"nix run --impure .#packages.x86_64-linux.x", "x"},
		{"npm install x@1", ""},
		{"npm install x", ""},
		{"uv run --with x rm y", "rm y"},
		{"poetry run rm x", "rm x"},
		{"bundle exec rm x", "rm x"},
		{"/usr/bin/time -f %e rm x", "rm x"},
		// An option that nobody knows: both readings.
		{"sudo --frob x rm y", "x rm y ; rm y"},
		{"env -i -- A=1 rm x", "rm x"},
		{"env - A=1 rm x", "rm x"},
		{"bwrap --ro-bind / / --unshare-all --dev /dev rm x", "rm x"},
		{"bwrap --bind / / -- rm x", "rm x"},
		{"perf stat -r 5 rm x", "rm x"},
		{"npm --prefix y exec rm x", "rm x"},
		{"uv --directory y run rm x", "rm x"},
		{"mise exec node@20 -- rm x", "rm x ; node@20 -- rm x"},
		{"/lib64/ld-linux-x86-64.so.2 --library-path /x /bin/rm x", "/bin/rm x"},
		{"run0 --user root rm x", "rm x"},
		{"ssh-agent rm x", "rm x"},
		{"setarch -R rm x", "rm x ; x"},
		{"setarch x86_64 rm x", "x86_64 rm x ; rm x"},
		{"choom -n 5 -- rm x", "rm x"},
		{"npm install exec", ""},
		{"time -f %e -o x rm y", "rm y"},
		{"time -- rm x", "rm x"},
		{"cmake -E env A=1 rm x", "env A=1 rm x ; rm x"},
		{"cmake -S . -B build", ""},
		{"ls sudo rm x", ""},
		{"git commit", ""},
	} {
		t.Run(tc.script, func(t *testing.T) {
			got := Parse(tc.script)
			got.Argv = got.Argv[1:]
			if d := cmp.Diff(tc.want, list(got)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// For all stacks of wrappers, the command inside is found, or the script is
// opaque.
func TestWrappersHideNothing(t *testing.T) {
	stack := []string{"sudo", "sudo -u x", "env A=b", "nohup", "nice -n 3", "timeout 5", "xargs", "command", "exec", "stdbuf -o0", "setsid", "busybox", "ionice -c2 -n 1", "find . -exec"}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom(stack), 0, MaxWrappers+3).Draw(t, "wrappers")
		p := Parse(strings.Join(append(words, "rm -rf x"), " "))
		found := slices.ContainsFunc(p.Argv, func(a []string) bool { return slices.Equal(a, []string{"rm", "-rf", "x"}) })
		if !found && (!p.Opaque || len(words) <= MaxWrappers) {
			t.Fatalf("not found in %q", p.Argv)
		}
	})
}

func TestFiles(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   []File
	}{
		{"a >b", []File{{"b", true}}},
		{"a >>'b c'", []File{{"b c", true}}},
		{"a >|b &>c &>>d", []File{{"b", true}, {"c", true}, {"d", true}}},
		{"a <b", []File{{"b", false}}},
		{"a <>b", []File{{"b", false}, {"b", true}}},
		{"a 2>&1 >&2 2>&- <&3", nil},
		{"a >&b", []File{{"b", true}}},
		{"a >$X/b", []File{{"$X/b", true}}},
		{">b", []File{{"b", true}}},
		{"{ a; } >b; (c) >d; while e; do f; done <g", []File{{"b", true}, {"d", true}, {"g", false}}},
		{"a >b | c >b", []File{{"b", true}}},
		{"sh -c 'a >b'", []File{{"b", true}}},
		{"x=$(a <b)", []File{{"b", false}}},
		{"x=$(<b)", []File{{"b", false}}},
		{"a <<E\n>b\nE", nil},
		{"a <<<b", nil},
		{"a b", nil},
	} {
		t.Run(tc.script, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Parse(tc.script).Files); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if p := Parse("a >b" + strings.Repeat("; a >b >c", 10)); len(p.Files) != 2 {
		t.Errorf("the same file many times: %v", p.Files)
	}
}
