package proxy

// Code calls: the arguments are a program that calls the client's tools, out of
// our sight. Of a program whose calls are all literals (package codemode) the
// guards see the commands as those of a shell call; every other one is opaque,
// with what could be read of it.

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/codemode"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/policy"
)

// readPrograms reads the programs of a call in the code mode that codemode
// knows, and takes over the paths and commands in them.
func (j *judgement) readPrograms(args []byte) error {
	found, err := j.spec.Programs(args)
	if err != nil || j.spec.Kind != agents.Code || agents.RefusalFor(j.spec, j.x.client) != agents.Text {
		return err
	}
	for _, v := range found {
		p := codemode.Read(v.Text)
		j.programs = append(j.programs, p)
		for i := range p.Calls {
			c := &p.Calls[i]
			spec, known := j.x.g.table.ByName(c.Tool, j.x.client)
			if !known {
				continue
			}
			args := innerArgs(c)
			if shells, err := spec.Interpreters(args); err == nil {
				for _, s := range shells {
					if known, posix := agents.System(s.Text); !known {
						return fmt.Errorf("%w: the shell %s of tools.%s is not one of the system, named by its path", agents.ErrArgument, envelope.Cut(s.Text, 64), envelope.Cut(c.Tool, 64))
					} else if !posix {
						j.opaque = true
					}
				}
			}
			if paths, err := spec.PathsIn(args); err == nil {
				j.paths = append(j.paths, paths...)
			}
			commands, err := spec.Commands(args)
			if err != nil {
				continue
			}
			j.commands = append(j.commands, commands...)
			dirs, err := spec.Dirs(args)
			if err != nil || len(dirs) == 0 {
				dirs = []agents.Value{{}}
			}
			for _, d := range dirs { // each of them counts where they are several
				for _, command := range commands {
					j.patched(command, d.Text)
				}
			}
		}
	}
	return nil
}

// innerArgs are the arguments of a call in a program as the catalogue looks for
// them.
func innerArgs(c *codemode.Call) []byte {
	if len(c.Args) > 0 && c.Args[0] == '"' {
		return append(append([]byte(`{"input":`), c.Args...), '}')
	}
	return c.Args
}

// codeShell is what a program runs, as far as it can be read.
func (j *judgement) codeShell() (sh *guards.Shell, opened []agents.Path) {
	s := scripts{workspace: j.x.g.opts.Policy.Workspace, opaque: j.opaque || len(j.programs) == 0}
	for _, p := range j.programs {
		s.opaque = s.opaque || !p.Whole
		for i := range p.Calls {
			c := &p.Calls[i]
			spec, known := j.x.g.table.ByName(c.Tool, j.x.client)
			args := innerArgs(c)
			commands, err := spec.Commands(args)
			dirs, err2 := spec.Dirs(args)
			if !known || spec.Kind != agents.Shell || spec.Opaque || err != nil || err2 != nil || len(commands) == 0 || len(dirs) > 1 {
				s.opaque = true
				continue
			}
			dir := ""
			if len(dirs) == 1 {
				dir = dirs[0].Text
			}
			for _, command := range commands {
				s.add(command, dir)
			}
		}
	}
	return &guards.Shell{Argv: s.argv, Opaque: s.opaque}, s.opened
}

// scripts joins the commands of several shells to one list. Each shell starts
// in the directory of the session or in one of its own; a guard reads the list
// in order, so a cd stands where the directory is another than a guard that
// follows it would think.
type scripts struct {
	workspace string
	argv      [][]string
	opened    []agents.Path // by redirections
	opaque    bool
	moved     bool // the shell before may have gone elsewhere
	shared    bool // perhaps it is one shell for all of them
}

func (s *scripts) add(command agents.Value, dir string) {
	p := parsed(command)
	switch {
	case dir != "":
		if s.moved && !strings.HasPrefix(dir, "/") {
			s.home()
		}
		s.argv = append(s.argv, []string{"cd", dir})
		s.moved = true
	case s.moved && s.shared:
		s.opaque = true
	case s.moved:
		s.home()
		s.moved = false
	}
	s.argv = append(s.argv, p.Argv...)
	s.opaque = s.opaque || p.Opaque
	for _, f := range p.Files {
		o := agents.Path{Path: under(dir, f.Path), Op: agents.OpRead}
		if f.Write {
			o.Op = agents.OpWrite
		}
		s.opened = append(s.opened, o)
	}
	s.moved = s.moved || slices.ContainsFunc(p.Argv, func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return w == "cd" || w == "pushd" || w == "popd" })
	})
}

// under is a path as it is seen from outside of the directory that a command
// starts in, "" for that of the session.
func under(dir, p string) string {
	if dir == "" || strings.ContainsAny(p[:min(1, len(p))], "/~$") {
		return p
	}
	return path.Join(dir, p)
}

// home goes back to where a shell starts.
func (s *scripts) home() {
	if s.workspace == "" {
		s.opaque = true // nobody knows where that is
		return
	}
	s.argv = append(s.argv, []string{"cd", s.workspace})
}

// codeResidue is residue for the calls in a program. Out of one that can be
// read whole the fields are dropped like out of arguments. In any other, a name
// of theirs is a reason to refuse: it can't be told what a deletion would leave.
func (j *judgement) codeResidue(facts policy.Facts) (edited []byte, why policy.Reason, ref *refusal) {
	x := j.x
	refuse := func(fields []string) *refusal {
		return &refusal{cause: "escalation",
			why:    fmt.Sprintf("the mode of this session is %s and no value of %s can be granted", facts.Mode, strings.Join(fields, " or ")),
			accept: "Send the program again without " + strings.Join(fields, " and ") + "."}
	}
	never, _ := policy.Never(facts)
	for i := range j.programs {
		p := &j.programs[i]
		gone := make([][]string, len(p.Calls))
		drop := false
		for i := range p.Calls {
			fields := x.fieldsOf(p.Calls[i].Tool)
			if len(fields) == 0 || len(p.Calls[i].Members) == 0 {
				continue
			}
			a, err := policy.ReadArguments(p.Calls[i].Args, fields)
			if err != nil {
				continue
			}
			a.NeedsReason = x.client != nil && x.client.NeedsReason
			option := policy.OptionDrop
			if x.schema.opts.RefuseResidue {
				option = policy.OptionRefuse
			}
			switch action, reason := policy.Residue(a, facts, option); action {
			case policy.Drop:
				gone[i], why, drop = a.Present, reason, true
			case policy.Refuse:
				return nil, reason, refuse(a.Present)
			}
		}
		if drop && p.Whole && j.call.Text {
			if source, ok := p.Without(gone); ok {
				*p = codemode.Read(source)
				return []byte(source), why, nil
			}
		}
		if !never {
			continue // whoever approves sees it
		}
		var found []string
		for _, name := range x.schema.rules.Drop {
			if p.Mentions(name) {
				found = append(found, name)
			}
		}
		if drop || !p.Whole {
			for _, name := range x.fieldsOf(j.call.Name) {
				// A justification asks for nothing, and is a common word.
				if name != "justification" && p.Mentions(name) {
					found = append(found, name)
				}
			}
		}
		if len(found) > 0 {
			return nil, policy.ReasonNever, refuse(found)
		}
	}
	return nil, "", nil
}

// fieldsOf are the fields that a tool's calls lose where nothing can be granted.
func (x *exchange) fieldsOf(tool string) (names []string) {
	for _, f := range x.schema.rules.Tools[tool] {
		if len(f.DeadValues) == 0 {
			names = append(names, f.Name)
		}
	}
	return names
}
