package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/guardproxy/guardproxy/confine/launch"
	"github.com/guardproxy/guardproxy/internal/machine"
)

func TestMain(m *testing.M) {
	// The test binary is what the sandbox starts, since it is the executable.
	if launch.Is(os.Args) {
		launch.Main()
	}
	testscript.Main(m, map[string]func(){
		"guardproxy-exec": main,
		// stands in for the program beside it
		"guardproxy": func() { fmt.Println("guardproxy: " + strings.Join(os.Args[1:], "|")) },
	})
}

// TestScripts holds the contract of this program, testdata/*.txtar. That of
// guardproxy exec is held by the scripts of cmd/guardproxy.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:       "testdata",
		Deadline:  time.Now().Add(2 * time.Minute),
		Condition: machine.Has,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			for _, v := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
				e.Setenv(v, "")
			}
			return os.MkdirAll(e.WorkDir+"/home", 0o755)
		},
	})
}
