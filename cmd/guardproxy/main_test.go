package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/guardproxy/guardproxy/confine/launch"
)

func TestMain(m *testing.M) {
	// The test binary is what the sandbox starts, since it is the executable.
	if launch.Is(os.Args) {
		launch.Main()
	}
	// And what the proof of the rewrite starts.
	if len(os.Args) > 1 && os.Args[1] == rewriterVerb {
		main()
	}
	testscript.Main(m, map[string]func(){"guardproxy": main})
}

// TestScripts holds the command line's contract: testdata/*.txtar.
func TestScripts(t *testing.T) {
	transcripts, err := filepath.Abs("../../testdata/transcripts")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:      "testdata",
		Deadline: time.Now().Add(2 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("TRANSCRIPTS", transcripts)
			for _, v := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
				e.Setenv(v, "")
			}
			return os.MkdirAll(e.WorkDir+"/home", 0o755)
		},
	})
}
