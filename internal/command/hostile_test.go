package command

import (
	"runtime"
	"strings"
	"testing"
)

// TestHostileScripts: a script of some 100 KB, which a model can write, takes
// no more memory than its size explains.
func TestHostileScripts(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"brace1k", strings.Repeat("{", 1000)},
		{"brace2k", strings.Repeat("{", 2000)},
		{"brace4k", strings.Repeat("{", 4000)},
		{"brace8k", strings.Repeat("{", 8000)},
		{"brace-comma", "echo " + strings.Repeat("{a,", 4000)},
		{"lines", strings.Repeat("ls"+strings.Repeat(" /a/b", 20)+"\n", 2000)},
		{"xab40", strings.Repeat("x{a,b}", 40)},
		{"seq", "echo {1..100000000}"},
		{"seqs", strings.Repeat("echo {1..64} ", 10000)},
		{"ab500", strings.Repeat("{a,b}", 500)},
		{"ab3000", strings.Repeat("{a,b}", 3000)},
		{"dollar", strings.Repeat("$(", 50000)},
		{"bashc", strings.Repeat("bash -c ", 500)},
		{"bashc2", strings.Repeat("bash -c ", 2000)},
		{"sudo", strings.Repeat("sudo -s ", 500)},
		{"sudo2", strings.Repeat("sudo -s ", 2000)},
		{"evalsudo", "eval " + strings.Repeat("sudo -s ", 2000)},
		{"env", strings.Repeat("env -S ", 2000)},
		{"sh", strings.Repeat("sh x ", 20000)},
		{"shc", strings.Repeat("sh -c x ", 20000)},
		{"quotes", strings.Repeat("'", 99999)},
		{"hdoc", strings.Repeat("cat <<a\n", 10000)},
		{"parens", strings.Repeat("(", 100000)},
		{"bq", strings.Repeat("`", 99999)},
		{"nestedq", strings.Repeat("\"$(", 20000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a, b runtime.MemStats
			runtime.ReadMemStats(&a)
			p := Parse(c.script)
			runtime.ReadMemStats(&b)
			n := 0
			for _, v := range p.Argv {
				for _, w := range v {
					n += len(w)
				}
			}
			if mb := (b.TotalAlloc - a.TotalAlloc) >> 20; mb > 256 || n > 16<<20 || len(p.Argv) > MaxCommands {
				t.Errorf("%d bytes of script took %d MiB and gave %d argv lists of %d bytes", len(c.script), mb, len(p.Argv), n)
			}
		})
	}
}
