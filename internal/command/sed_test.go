package command

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/machine"
)

func TestSed(t *testing.T) {
	for _, c := range []struct {
		script string
		opaque bool
	}{
		{`sed -n 5,10p x`, false},
		{`sed 's/a/b/' x`, false},
		{`sed -i 's/exe/e/g' x`, false},
		{`sed -i.bak -e 's|a/b|c|gI' -e '/e/d' x`, false},
		{`sed -i '' 's/x/e/' y`, false},
		{`sed '$!N;s/\n/ /;P;D' x`, false},
		{`sed '/^#/!{s/e$/x/;t end};:end' x`, false},
		{`sed '1i\
exit e' x`, false},
		{`sed 'y/abc/efg/' x`, false},
		{`sed -E 's/([a-z]+) e/\1/w out' x`, false},
		{`sed -f x.sed y`, false},
		{`sed --version`, false},
		{`sed s/a/b/ e`, false},
		{`sed '1e rm x' y`, true},
		{`sed e y`, true},
		{`sed -n '/a/,/b/e' y`, true},
		{`sed 's/a/rm x/e' y`, true},
		{`sed 's/a/rm x/2ge' y`, true},
		{`sed -ne 's,a,rm x,Me' y`, true},
		{`sed -n -es/a/b/e y`, true},
		{`sed --expr='s/a/b/e' y`, true},
		{`sed -e 's/a/b/' --expression 1e y`, true},
		{`sed -i '' 's/a/b/e' y`, true},
		{`sed -s -- 1e y`, true},
		{`sed 's/[/]x/e/' y`, true},
		{`sed 's/[]/]x/e' y`, true},
		{`sed '{p;e
}' y`, true},
		{`sed 'frob' y`, true},
		{`gsed 1e y`, true},
		{`sudo sed 1e y`, true},
	} {
		if got := Parse(c.script); got.Opaque != c.opaque {
			t.Errorf("%s: opaque %v", c.script, got.Opaque)
		}
	}
}

// GNU sed is the judge: in its sandbox it runs no script with a command that
// runs others, and says so.
func TestSedAgainstItself(t *testing.T) {
	if out, err := exec.Command("sed", "--sandbox", "-n", "p", "/dev/null").CombinedOutput(); err != nil {
		machine.Lacks(t, "sed", "it is not GNU's: %v %s", err, out)
	}
	pieces := []string{"s", "y", "/", "/", "/", "|", "e", "e", "a", "b", "[", "]", "^", "[:alpha:]", `\`, "\n", ";", "{", "}", "1", "$", ",", "!", " ", "g", "I", "M", "p", "d", "i", "c", "n", "x", "#", "t", ":", "=", "s/x/y/", "0~2", "+3", `\n`, `\/`}
	rapid.Check(t, func(t *rapid.T) {
		script := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 12).Draw(t, "script"), "")
		if sedRuns([]string{"-n", "-e", script}) {
			return
		}
		out, _ := exec.Command("sed", "--sandbox", "-n", "-e", script, "/dev/null").CombinedOutput()
		if strings.Contains(string(out), "sandbox") {
			t.Fatalf("%q runs a command: %s", script, out)
		}
	})
}
