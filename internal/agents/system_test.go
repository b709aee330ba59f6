package agents

import "testing"

func TestSystem(t *testing.T) {
	for shell, want := range map[string][2]bool{
		"/bin/bash": {true, true}, "/usr/bin/zsh": {true, true}, "/bin/sh": {true, true}, "/usr/local/bin/bash": {true, true},
		"/usr/bin/fish": {true, false}, "/opt/homebrew/bin/pwsh": {true, false},
		"": {}, "bash": {}, "./bash": {}, "/tmp/bash": {}, "/bin/bash.sh": {}, "/bin/../tmp/bash": {}, "/bin//bash": {}, "//bin/bash": {}, "/bin/./bash": {},
		"/bin/bash/": {}, "/bin": {}, "/bin/": {}, "/bin/python3": {}, "/bin/BASH": {}, "/usr/bin/bash -x": {}, "bin/bash": {}, "/home/u/bin/bash": {}, "/proc/self/cwd/bash": {},
	} {
		if known, posix := System(shell); known != want[0] || posix != want[1] {
			t.Errorf("System(%q) = %v, %v", shell, known, posix)
		}
	}
}
