package main

import (
	"context"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/internal/config"
	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/spawn"
	"github.com/guardproxy/guardproxy/internal/terminal"
)

// execCmd is guardproxy exec, for the command lines that package spawn does not
// read by itself: those with a configuration, with an error, or in need of help.
type execCmd struct{ spawn.Command }

// Run is the verb.
func (c *execCmd) Run(ctx context.Context, io stdio) error {
	return c.Command.Run(ctx, terminal.Streams{In: io.in, Out: io.out, Err: io.err}, settings)
}

// settings is what a configuration file says about commands.
func settings(file string) (spawn.Settings, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return spawn.Settings{}, err
	}
	c := cfg.Confine
	return spawn.Settings{
		Own:      cfg.OwnFiles(home.Dirs{}),
		Runner:   c.Runner,
		Writable: c.Writable,
		Secrets:  c.Secrets,
		Guarded:  c.Guarded,
		Env:      confine.EnvRules{Keep: c.Env.Keep, Only: c.Env.Only},
	}, nil
}
