package spawn

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/guardproxy/guardproxy/internal/terminal"
)

// Most command lines of this verb are plain, and package kong takes longer to
// start than it takes to read them. So the plain ones are read here; what is in
// any way unusual, an error and a call for help among it, is left to kong, which
// reads the tags of [Command]. Where both read a line, they agree (a test of the
// command shows it).

// Main is c as a whole process. It does not return.
func (c *Command) Main() {
	err := c.Run(context.Background(), terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, nil)
	os.Exit(terminal.Report(os.Stderr, err))
}

// Parse reads flags and the command. It says whether the line is plain; only then
// the result counts, and then its Config is "".
func Parse(args []string) (Command, bool) {
	c := Command{Mode: "workspace-write", Network: "none"}
	seen := map[string]bool{}
	for ; len(args) > 0; args = args[1:] {
		if args[0] == "--" || !strings.HasPrefix(args[0], "-") {
			break
		}
		name, value, joined := strings.Cut(args[0], "=")
		if seen[name] {
			return c, false
		}
		seen[name] = true
		switch name {
		case "--json", "--verbose", "--stdin", "--no-stdin":
			if joined || seen["--stdin"] && seen["--no-stdin"] {
				return c, false
			}
			yes := name == "--stdin"
			switch name {
			case "--json":
				c.JSON = true
			case "--verbose":
				c.Verbose = true
			default:
				c.Stdin = &yes
			}
			continue
		}
		if !joined {
			if len(args) == 1 {
				return c, false
			}
			args = args[1:]
			value = args[0]
		}
		if value == "" || strings.HasPrefix(value, "-") {
			return c, false
		}
		switch name {
		case "--mode":
			if c.Mode = value; !slices.Contains([]string{"read-only", "workspace-write"}, value) {
				return c, false
			}
		case "--network":
			if c.Network = value; !slices.Contains([]string{"none", "host"}, value) {
				return c, false
			}
		case "--workspace":
			c.Workspace = value
		case "--session":
			c.Session = value
		case "--timeout":
			var err error
			if c.Timeout, err = time.ParseDuration(value); err != nil {
				return c, false
			}
		default:
			return c, false
		}
	}
	c.Argv = slices.Clone(args)
	return c, len(args) > 0
}
