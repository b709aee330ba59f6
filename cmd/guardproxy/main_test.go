package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/guardproxy/guardproxy/internal/machine"
)

func TestMain(m *testing.M) {
	// The test binary is what the sandbox starts, since it is the executable;
	// package early has seen to that. And it is what the proof of the rewrite starts.
	if len(os.Args) > 1 && os.Args[1] == rewriterVerb {
		main()
	}
	// Under nohup a process is born deaf to SIGHUP, and so are its children; a
	// signal with a handler is heard by them. Scripts send it to guardproxy.
	if strings.HasSuffix(os.Args[0], ".test") && signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscript.Main(m, map[string]func(){"guardproxy": main, "jobgroup": jobGroup})
}

// jobGroup becomes the command in its arguments as a shell with job control starts
// one: in a process group of its own, in its parent's session. Only such a group
// can be stopped from a terminal.
func jobGroup() {
	if err := syscall.Setpgid(0, 0); err != nil {
		panic(err)
	}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	panic(err)
}

// TestScripts holds the command line's contract: testdata/*.txtar.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:       "testdata",
		Deadline:  time.Now().Add(2 * time.Minute),
		Condition: machine.Has,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("TRANSCRIPTS", root+"/testdata/transcripts")
			e.Setenv("DOCS", root+"/docs")
			e.Setenv("GUARDPROXY_REQUIRE", os.Getenv("GUARDPROXY_REQUIRE"))
			for _, v := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
				e.Setenv(v, "")
			}
			return os.MkdirAll(e.WorkDir+"/home", 0o755)
		},
	})
}
