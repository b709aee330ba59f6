package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/spawn"
)

// byKong reads a command line as the program does that package spawn leaves to it.
func byKong(t interface{ Fatal(...any) }, args []string) (spawn.Command, error) {
	var grammar execCLI
	parser, err := kong.New(&grammar, kong.Name("guardproxy"), kong.Exit(func(int) {}), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return grammar.Exec.Command, err
}

// Whatever line package spawn reads by itself, it reads as kong would have.
func TestExecArgumentsAgree(t *testing.T) {
	word := rapid.SampledFrom([]string{
		"exec", "--", "-", "-j", "--json", "--verbose", "--stdin", "--no-stdin", "--json=true", "--no-json", "--help", "--version",
		"--mode", "--mode=read-only", "read-only", "workspace-write", "--mode=other", "--network", "--network=host", "none", "host",
		"--workspace", "--workspace=/w", "/w", "w x", "--session=", "--session", "s", "-s", "--session=-s", "--session==", "--sess=x", "--timeout=1m", "--timeout", "90s",
		"-5s", "5", "--timeout=5", "--timeout=-1s", "--config=f", "--config", "--netwrok", "true", "ls", "", "=", "a=b", "--=", "--json=", "\x00", "{", "${enum}", "@f", "'q'", "a,b",
	})
	rapid.Check(t, func(t *rapid.T) {
		args := append([]string{"exec"}, rapid.SliceOfN(word, 0, 6).Draw(t, "args")...)
		got, plain := spawn.Parse(args[1:])
		if !plain {
			return
		}
		want, err := byKong(t, args)
		if err != nil {
			t.Fatalf("%q is an error: %v", args, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-kong +ours):\n%s", args, diff)
		}
	})
}

// What a wrapper writes is read without kong; the rest is not.
func TestExecArgumentsPlain(t *testing.T) {
	for _, c := range []struct {
		line  string // behind exec
		plain bool
	}{
		{"-- true", true},
		{"true", true},
		{"--mode read-only --workspace /w --session s --network host --timeout 90s --json --stdin --verbose -- true -x", true},
		{"--mode=workspace-write --no-stdin true -- -x", true},
		{"", false},
		{"--help", false},
		{"--config f -- true", false},
		{"--mode danger-full-access -- true", false},
		{"--netwrok=none true", false},
		{"--json --json -- true", false},
		{"--stdin --no-stdin -- true", false},
		{"--workspace -- true", false},
	} {
		args := strings.Fields(c.line)
		if _, plain := spawn.Parse(args); plain != c.plain {
			t.Errorf("%q: plain %v", args, plain)
		}
	}
}
