package record

import (
	"slices"

	"github.com/guardproxy/guardproxy/guards"
)

// Judged rebuilds what the guards were given for call c of x: its Document
// has the same bytes, unless a credential is masked in it (then c.Masked says
// so). False: the call was refused before it came to the guards. The result
// shares the memory of x and c.
func (x *Exchange) Judged(c *Call) (*guards.Call, bool) {
	f := &c.Facts
	if !f.Judged {
		return nil, false
	}
	raw := c.ArgumentsRaw
	if f.ArgumentsRaw != nil {
		raw = f.ArgumentsRaw
	}
	g := &guards.Call{ID: c.ID, Name: c.Tool, Arguments: raw, ArgumentsRaw: string(raw), Kind: c.Kind, Client: x.Agent, Dialect: x.Dialect, Model: f.Model,
		Session: guards.Session{ID: x.Session, Mode: f.Mode, Approval: f.Approval, Workspace: f.Workspace, Turn: f.Turn, Calls: f.Calls, Index: f.Index}}
	switch {
	case f.Arguments != nil:
		g.Arguments = f.Arguments
	case len(raw) == 0:
		g.Arguments = []byte("{}")
	}
	if f.Shell != nil {
		g.Shell = &guards.Shell{Argv: f.Shell.Argv, Opaque: f.Shell.Opaque}
	}
	for _, p := range f.Paths {
		g.Paths = append(g.Paths, guards.Path{Path: p.Path, Op: p.Op})
	}
	return g, true
}

// NewCall is the record of a call with arguments raw, as the model wrote them,
// that the guards were given as g.
func NewCall(g *guards.Call, raw []byte) Call {
	c := Call{ID: g.ID, Tool: g.Name, Kind: g.Kind, ArgumentsRaw: raw, Facts: Facts{Judged: true, Model: g.Model,
		Mode: g.Session.Mode, Approval: g.Session.Approval, Workspace: g.Session.Workspace, Turn: g.Session.Turn, Calls: g.Session.Calls, Index: g.Session.Index}}
	if g.ArgumentsRaw != string(raw) {
		c.Facts.ArgumentsRaw = append([]byte{}, g.ArgumentsRaw...)
	}
	if same := g.ArgumentsRaw == "" && string(g.Arguments) == "{}" || g.ArgumentsRaw == string(g.Arguments); !same {
		c.Facts.Arguments = append([]byte{}, g.Arguments...)
	}
	if g.Shell != nil {
		c.Facts.Shell = &Shell{Argv: slices.Clone(g.Shell.Argv), Opaque: g.Shell.Opaque}
	}
	for _, p := range g.Paths {
		c.Facts.Paths = append(c.Facts.Paths, Path{Path: p.Path, Op: p.Op})
	}
	return c
}
