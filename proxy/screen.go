package proxy

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/codemode"
	"github.com/guardproxy/guardproxy/internal/command"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/policy"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/session"
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire"
)

// maxDepth is the deepest nesting, in containers, of a call's arguments.
const maxDepth = 128

// judgement is one call on its way through the screen.
type judgement struct {
	x    *exchange
	call *wire.Call
	args tape.Tape // of the arguments, {} for none, {"input": text} for a text
	tool *rewrite.Declared
	spec agents.Tool
	kind agents.Kind

	commands []agents.Value
	programs []codemode.Program
	paths    []agents.Path
	env      []string     // NAME=VALUE
	opaque   bool         // the commands are not the whole truth
	given    *guards.Call // what the guards were given
	outcome  guards.Outcome
	start    time.Time
}

// refusal says why a call does not run.
type refusal struct {
	cause  string // stable, for logs
	why    string // what is wrong, for the model
	accept string // what would be accepted
	guard  string // of a guard's denial
	reason string // the guard's own words
}

// screenAll judges the calls of a step, in order.
func (x *exchange) screenAll(ctx context.Context, calls []wire.Call) []wire.Ruling {
	rulings := make([]wire.Ruling, len(calls))
	for i := range calls {
		x.calls++
		rulings[i] = x.screen(ctx, &calls[i])
	}
	return rulings
}

// screen judges one call. The order of the steps is part of the contract: a
// step may rely on what the ones before it have established.
func (x *exchange) screen(ctx context.Context, c *wire.Call) wire.Ruling {
	j := &judgement{x: x, call: c, start: time.Now()}
	ref := j.declared()
	if ref == nil {
		ref = j.wellFormed()
	}
	if ref == nil {
		ref = j.noSeal()
	}
	if ref == nil {
		ref = j.catalogued()
	}
	if ref == nil {
		ref = j.ownFiles()
	}
	var edited []byte
	var dropped policy.Reason
	if ref == nil {
		edited, dropped, ref = j.residue()
	}
	judged := c.Args
	if edited != nil {
		judged = edited
	}
	if ref == nil {
		ref = j.guards(ctx, judged)
	}
	j.record(ref, judged, edited != nil, string(dropped))
	switch {
	case ref != nil:
		return j.refuse(ref)
	case edited != nil:
		x.once("residue dropped", "tool", c.Name, "why", string(dropped))
		return wire.Ruling{Replace: true, Name: c.Name, Args: edited}
	}
	return wire.Ruling{}
}

// declared: the name is byte for byte one that this request declares, for calls
// of this kind. Clients repair and fold names, each in its own way.
func (j *judgement) declared() *refusal {
	c := j.call
	responses := j.x.route.Dialect == wire.Responses
	var element *rewrite.Tool
	elsewhere, groups := (*rewrite.Declared)(nil), 0
	for _, e := range j.x.tools {
		for i := range e.Declared {
			d := &e.Declared[i]
			switch {
			case d.Item != c.Item:
				continue
			case d.Item == wire.McpApprovalRequest: // the tools are the server's
				if d.Namespace != c.Namespace {
					continue
				}
			case d.Name != c.Name || d.Name == "":
				continue
			case group(d.Namespace) != group(c.Namespace):
				if c.Namespace == "" && (elsewhere == nil || elsewhere.Namespace != d.Namespace) {
					elsewhere = merged(nil, d)
					groups++
				}
				continue
			}
			if j.tool != nil && !responses && !bytes.Equal(element.Narrowed, e.Narrowed) {
				// Which of them the client runs is not known.
				return &refusal{cause: "ambiguous_tool", why: "this request declares the tool twice, in different ways", accept: "Use another tool."}
			}
			// In Responses a history may declare tools again and again, as they
			// change; a name and a namespace are still one tool of the client's.
			j.tool, element = merged(j.tool, d), e
		}
	}
	if j.tool == nil && groups == 1 {
		j.tool = elsewhere // models and servers leave out a group that is clear
	}
	if j.tool != nil {
		return nil
	}
	return &refusal{cause: "undeclared_tool",
		why:    fmt.Sprintf("this request declares no tool named %s", envelope.Cut(c.Name, 64)),
		accept: "Call a declared tool by its exact name."}
}

// group is a namespace, "" for the one that OpenAI's models know all tools by
// that are in no other.
func group(namespace string) string {
	if namespace == "functions" {
		return ""
	}
	return namespace
}

// merged is a declaration that gives away what either of the two does.
func merged(a, b *rewrite.Declared) *rewrite.Declared {
	if a == nil || len(a.Params) == 0 || bytes.Equal(a.Schema, b.Schema) {
		return b
	}
	m := *b
	m.Params = slices.Concat(b.Params, a.Params)
	return &m
}

// wellFormed: the arguments are one JSON object that every client reads alike.
func (j *judgement) wellFormed() *refusal {
	bad := func(why string, args ...any) *refusal {
		return &refusal{cause: "bad_arguments", why: fmt.Sprintf(why, args...), accept: "Send the arguments as one JSON object that fits the schema of the tool."}
	}
	if j.call.Malformed != "" {
		return bad("the arguments can't be read: %s", j.call.Malformed)
	}
	text := j.call.Args
	switch {
	case j.call.Text:
		text = append(tape.Quote([]byte(`{"input":`), string(text)), '}')
	case len(text) == 0:
		text = []byte("{}")
	}
	if err := j.args.Parse(text); err != nil {
		return bad("the arguments are not valid JSON: %v", err)
	}
	t := &j.args
	switch {
	case t.Kind(0) != tape.Object:
		return bad("the arguments are %v, not an object", t.Kind(0))
	case t.LoneSurrogate():
		return bad("the arguments hold half of a surrogate pair")
	case t.NUL():
		return bad("the arguments hold a NUL character")
	case t.Depth() > maxDepth:
		return bad("the arguments are nested more than %d deep", maxDepth)
	}
	keys := map[string]bool{}
	for k := 1; k < t.After(0); k = t.After(k + 1) {
		key := folded(t.Str(k))
		if keys[key] {
			return bad("the arguments name %s twice, in upper and lower case", envelope.Cut(t.Str(k), 64))
		}
		keys[key] = true
	}
	for o := range t.Len() {
		// An assignment to it changes what the object inherits, so that
		// clients which copy arguments see members that are not there.
		if t.Get(o, "__proto__") >= 0 {
			return bad("the arguments name __proto__")
		}
	}
	return nil
}

// folded is the same for exactly those texts that strings.EqualFold calls
// equal.
func folded(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

// noSeal: a call that carries a seal of ours wants to be taken for us.
func (j *judgement) noSeal() *refusal {
	for i := range j.args.Len() {
		if j.args.Kind(i) != tape.String {
			continue
		}
		if s := j.args.Str(i); strings.Contains(s, envelope.Prefix) && j.x.h.keys.Holds(s) {
			return &refusal{cause: "seal_in_call", why: "the arguments hold a seal of guardproxy", accept: "Leave out everything from gp1 on."}
		}
	}
	return nil
}

// catalogued: a known tool has its known arguments in their types.
func (j *judgement) catalogued() *refusal {
	x := j.x
	spec, known := x.g.table.Classify(j.key(), x.client, j.tool.Params)
	if !known || spec.Kind != agents.Shell {
		// A member that no declaration names may be the command all the same:
		// schemas leave members open, and clients read more than they declare.
		if params := j.undeclared(); len(params) > 0 && j.key() == j.call.Name {
			spec, known = x.g.table.Classify(j.call.Name, x.client, append(params, j.tool.Params...))
		}
	}
	j.spec, j.kind = spec, spec.Kind
	if !known {
		j.kind = agents.Other
		if x.g.opts.RefuseUnknownTools {
			return &refusal{cause: "unknown_tool", why: "the operator allows catalogued tools only, and this is none", accept: "Use another tool."}
		}
		if j.call.Text {
			// Whatever reads it: text of no declared shape may be a program.
			j.kind = agents.Code
		}
		return nil
	}
	var shells []agents.Value
	text := j.argsFor(spec)
	err := first(
		func() (err error) { j.commands, err = spec.Commands(text); return },
		func() (err error) { _, err = spec.Dirs(text); return },
		func() (err error) { shells, err = spec.Interpreters(text); return },
		func() (err error) { j.env, err = spec.Environment(text); return },
		func() (err error) { j.paths, err = spec.PathsIn(text); return },
		func() error { return j.readPrograms(text) },
	)
	if err == nil && spec.Kind == agents.Shell && len(j.commands) == 0 && slices.ContainsFunc(spec.Command, func(a agents.Arg) bool { return a.Required }) {
		err = fmt.Errorf("%w: there is no command", agents.ErrArgument)
	}
	if err != nil {
		return &refusal{cause: "bad_arguments", why: err.Error(), accept: "Send the arguments that the schema of the tool asks for."}
	}
	for _, v := range shells {
		if ref := j.interpreter(v.Text); ref != nil {
			return ref
		}
	}
	if j.kind == agents.Shell {
		j.patches()
	}
	if len(j.paths) > maxPaths {
		return &refusal{cause: "bad_arguments", why: fmt.Sprintf("the call names more than %d files", maxPaths), accept: "Split it into smaller calls."}
	}
	return nil
}

// key is the name under which the catalogue has the tool: where the API itself
// defines it, the type of the items that call it, which no function can have.
func (j *judgement) key() string {
	switch j.call.Item {
	case "", wire.FunctionCall, wire.CustomToolCall:
		return j.call.Name
	}
	return j.call.Item
}

// argsFor are the arguments as the catalogue's entry looks for them: a text is
// the one argument that its tool is about.
func (j *judgement) argsFor(spec agents.Tool) []byte {
	if j.call.Text {
		for _, list := range [][]agents.Arg{spec.Code, spec.Patch, spec.Command} {
			if len(list) > 0 && list[0].Path != "input" && !strings.ContainsAny(list[0].Path, ".[") {
				out := append(tape.Quote([]byte{'{'}, list[0].Path), ':')
				return append(append(out, j.args.Raw(j.args.Get(0, "input"))...), '}')
			}
		}
	}
	return j.args.Src()
}

// first runs steps up to the first error.
func first(steps ...func() error) error {
	for _, f := range steps {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// interpreter: a shell that a call asks for is one of the system's.
func (j *judgement) interpreter(path string) *refusal {
	known, posix := agents.System(path)
	if !known {
		return &refusal{cause: "unknown_shell", why: fmt.Sprintf("the shell %s is not one of the system, named by its path", envelope.Cut(path, 64)),
			accept: "Leave the shell out, or name one such as /bin/bash."}
	}
	j.opaque = j.opaque || !posix
	return nil
}

// patches: a command that applies a patch writes the patch's files.
func (j *judgement) patches() {
	for _, c := range j.commands {
		j.patched(c, j.own())
	}
}

// patched takes over the files of a patch that a command applies in dir.
func (j *judgement) patched(c agents.Value, dir string) {
	text := c.Text
	if c.List != nil {
		text = strings.Join(c.List, "\n")
	}
	paths, whole := agents.ShellPatch(text, parsed(c).Argv)
	for _, p := range paths {
		p.Path = under(dir, p.Path)
		j.paths = append(j.paths, p)
	}
	j.opaque = j.opaque || !whole
}

// own is the directory of a call that guards can't find among its arguments: they
// know the names that functions give it, and not an action's.
func (j *judgement) own() string {
	if j.call.Item != wire.LocalShellCall {
		return ""
	}
	if dirs, err := j.spec.Dirs(j.args.Src()); err == nil && len(dirs) == 1 {
		return dirs[0].Text
	}
	return ""
}

// undeclared are the members of the arguments that could be a command and that
// the tool's schema does not speak of.
func (j *judgement) undeclared() (out []agents.Param) {
	t := &j.args
	for k := 1; k < t.After(0); k = t.After(k + 1) {
		if kind := t.Kind(k + 1); kind != tape.String && kind != tape.Array {
			continue
		}
		key := t.Str(k)
		if !slices.ContainsFunc(j.tool.Params, func(p agents.Param) bool { return strings.EqualFold(p.Name, key) }) {
			out = append(out, agents.Param{Name: key, Text: true})
		}
	}
	return out
}

// ownFiles: no argument names guardproxy's own files.
func (j *judgement) ownFiles() *refusal {
	own := j.x.g.own
	hit := own.inText(&j.args)
	for _, p := range j.paths {
		if hit == "" {
			hit = own.holds(p.Path)
		}
	}
	// Any string may be a path, whoever declared the tool. The disk is asked
	// for a bounded number of them.
	n := 0
	look := func(s string) {
		if hit == "" && len(s) <= maxPath && n < maxPaths && (strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~/") || strings.HasPrefix(s, "file:") || strings.Contains(s, "../")) {
			n++
			hit = own.holds(s)
		}
	}
	for i := 0; i < j.args.Len() && hit == ""; i++ {
		if j.args.Kind(i) == tape.String && len(j.args.Raw(i)) <= 6*maxPath {
			look(j.args.Str(i))
		}
	}
	for _, p := range j.programs {
		for _, s := range p.Strings {
			if hit == "" {
				hit = own.inString(s)
			}
			look(s)
		}
	}
	dirs := append(j.dirs(), "")
	for _, c := range j.commands {
		p := parsed(c)
		words := slices.Concat(p.Argv...)
		for _, f := range p.Files {
			words = append(words, f.Path)
		}
		for _, word := range words {
			for _, dir := range dirs {
				if p := under(dir, word); hit == "" && strings.Contains(word, "/") && (dir == "" || p != word) {
					hit = own.holds(p)
				}
			}
		}
	}
	if hit == "" {
		return nil
	}
	return &refusal{cause: "own_files", why: "the call names files of guardproxy itself, which no tool may touch", accept: "Work on other files."}
}

// dirs are the directories in which the commands of the call may start, beside
// that of the session.
func (j *judgement) dirs() (out []string) {
	found, _ := j.spec.Dirs(j.argsFor(j.spec))
	for _, p := range j.programs {
		for i := range p.Calls {
			if spec, known := j.x.g.table.ByName(p.Calls[i].Tool, j.x.client); known {
				in, _ := spec.Dirs(innerArgs(&p.Calls[i]))
				found = append(found, in...)
			}
		}
	}
	for _, d := range found {
		if d.Text != "" && !slices.Contains(out, d.Text) && len(out) < maxDirs {
			out = append(out, d.Text)
		}
	}
	return out
}

const maxDirs = 16 // that the words of a call's commands are looked at from

const maxPaths = 4096 // that a call may name, and strings of it that are looked at as paths

func parsed(v agents.Value) command.Parsed {
	if v.List != nil {
		return command.FromArgv(v.List)
	}
	return command.Parse(v.Text)
}

// residue: fields that ask for a wider sandbox where none can be granted are
// dropped together, or refused.
func (j *judgement) residue() (edited []byte, why policy.Reason, ref *refusal) {
	x := j.x
	g := x.schema
	facts := g.facts
	if x.child {
		facts = policy.Delegate(facts, "") // there is nobody in front of a child
	}
	if never, _ := policy.Never(facts); never && slices.Contains(g.rules.Drop, j.call.Name) {
		return nil, "", &refusal{cause: "escalation", why: "this tool asks for permissions, and none can be granted in this session", accept: "Go on within the permissions that you have."}
	}
	// By the tool's name, whoever the client is: what narrowing takes out.
	names := x.fieldsOf(j.call.Name)
	for k, t := 1, &j.args; k < t.After(0); k = t.After(k + 1) {
		// Clients written in Go fold the case of keys.
		if key := t.Str(k); !slices.Contains(names, key) && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, key) }) {
			names = append(names, key)
		}
	}
	if len(j.programs) > 0 {
		if edited, why, ref := j.codeResidue(facts); ref != nil || j.call.Text {
			return edited, why, ref
		}
	}
	if len(names) == 0 || len(j.call.Args) == 0 || j.call.Text {
		return nil, "", nil
	}
	a, err := policy.ReadArguments(j.call.Args, names)
	if err != nil {
		return nil, "", &refusal{cause: "bad_arguments", why: err.Error(), accept: "Send one JSON object."}
	}
	a.NeedsReason = x.client != nil && x.client.NeedsReason
	option := policy.OptionDrop
	if g.opts.RefuseResidue {
		option = policy.OptionRefuse
	}
	action, why := policy.Residue(a, facts, option)
	switch action {
	case policy.Drop:
		return cutMembers(&j.args, a.Present), why, nil
	case policy.Refuse:
		return nil, why, &refusal{cause: "escalation",
			why:    fmt.Sprintf("the mode of this session is %s and no value of %s can be granted", facts.Mode, strings.Join(a.Present, " or ")),
			accept: "Send the call again without " + strings.Join(a.Present, " and ") + "."}
	}
	return nil, "", nil
}

// cutMembers deletes members of the object that t holds, each with one of the
// commas beside it. No other byte moves.
func cutMembers(t *tape.Tape, names []string) []byte {
	src := t.Src()
	var edits []wire.Edit
	_, end := t.Span(0)
	kept := -1 // where the last member that stays ends
	for k := 1; k < t.After(0); k = t.After(k + 1) {
		from, _ := t.Span(k)
		_, to := t.Span(k + 1)
		if !slices.Contains(names, t.Str(k)) {
			kept = to
			continue
		}
		if next := t.After(k + 1); next < t.After(0) {
			to, _ = t.Span(next) // up to the next key
		} else if kept >= 0 {
			from = kept // the last member: the comma before it goes
		} else if from > 1 {
			to = end - 1
		}
		if n := len(edits); n > 0 && edits[n-1].End >= from {
			edits[n-1].Start = min(edits[n-1].Start, from)
			edits[n-1].End = to
			continue
		}
		edits = append(edits, wire.Edit{Start: from, End: to})
	}
	return wire.Splice(src, edits)
}

// guards: every guard that matches judges the call as it would be delivered.
func (j *judgement) guards(ctx context.Context, args []byte) *refusal {
	x := j.x
	raw := args
	switch {
	case j.call.Text:
		args = append(tape.Quote([]byte(`{"input":`), string(args)), '}')
	case len(args) == 0:
		args = []byte("{}")
	}
	call := &guards.Call{
		ID: j.call.ID, Name: j.call.Name, Arguments: args, ArgumentsRaw: string(raw),
		Kind: string(j.kind), Client: x.clientID(), Dialect: string(x.route.Dialect), Model: x.model,
		Session: guards.Session{ID: x.session.ID(), Mode: x.g.opts.Policy.Mode, Approval: x.g.opts.Policy.Approval,
			Workspace: x.g.opts.Policy.Workspace, Turn: x.turn, Calls: x.calls, Index: j.call.Index},
	}
	var opened []agents.Path
	switch j.kind {
	case agents.Shell:
		call.Shell, opened = j.shell()
	case agents.Code:
		call.Shell, opened = j.codeShell()
	}
	for _, p := range slices.Concat(j.paths, opened) {
		call.Paths = append(call.Paths, guards.Path{Path: p.Path, Op: string(p.Op)})
	}
	j.given = call
	j.outcome = x.g.opts.Guards.Check(ctx, call)
	j.noteVerdicts()
	if j.outcome.Decision == guards.Pass {
		return nil
	}
	ref := &refusal{cause: string(j.outcome.Cause)}
	for _, v := range j.outcome.Deciding() {
		ref.guard, ref.reason = v.Guard, v.Reason
		break
	}
	switch {
	case j.outcome.Decision == guards.Ask:
		ref.cause = "no_approver"
		ref.why = "guard " + ref.guard + " wants somebody to be asked, and guardproxy has nobody to ask"
		if ref.reason != "" {
			ref.why += ": " + ref.reason
		}
		ref.accept = "Take another way that needs no approval."
	case j.outcome.Cause == guards.CausePolicy:
		ref.why = "guard " + ref.guard + " says: " + ref.reason
		ref.accept = "Take another way to reach the goal within the rules."
	default:
		ref.why = "guard " + ref.guard + " could not judge the call (" + ref.cause + "), and what is not judged does not run"
		ref.accept = "Try another way; the operator finds the cause in the log."
	}
	return ref
}

// shell is what a shell call runs. Several commands are each for a shell of its
// own, and an environment stands before a command as env writes it. opened are
// the files that redirections name.
func (j *judgement) shell() (sh *guards.Shell, opened []agents.Path) {
	s := scripts{workspace: j.x.g.opts.Policy.Workspace, opaque: j.spec.Opaque || j.opaque || len(j.commands) == 0,
		// The API does not say whether the commands of one call share a shell.
		shared: j.call.Item == wire.ShellCall}
	dir := j.own()
	for _, c := range j.commands {
		if len(j.env) > 0 && c.List != nil {
			c.List = slices.Concat([]string{"env"}, j.env, c.List)
		} else if len(j.env) > 0 {
			s.opaque = true
		}
		s.add(c, dir)
	}
	return &guards.Shell{Argv: s.argv, Opaque: s.opaque}, s.opened
}

// noteVerdicts logs what the decision does not show: guards that broke, and what
// guards would have said that only observe.
func (j *judgement) noteVerdicts() {
	for _, v := range j.outcome.Verdicts {
		if v.Decision == guards.Pass {
			continue
		}
		if v.Cause != guards.CausePolicy && v.Cause != guards.CauseCanceled {
			j.x.onceEach(v.Guard, "guard broke: "+string(v.Cause), "guard", v.Guard, "tool", j.call.Name, "detail", v.Detail, "observed", v.Observed)
		} else if v.Observed {
			j.x.onceEach(v.Guard, "guard observed: "+v.Decision.String(), "guard", v.Guard, "tool", j.call.Name)
		}
	}
}

// refuse puts a refusal in the place of the call.
func (j *judgement) refuse(ref *refusal) wire.Ruling {
	x := j.x
	text := "guardproxy: not executed. " + sentence(ref.why) + " " + ref.accept
	n := x.session.Refused(session.FingerprintOf(j.call.Name, j.call.Args, ref.cause))
	if n >= 3 {
		text += fmt.Sprintf(" This very call was refused %d times in this session: it will not be accepted, so do not repeat it.", n)
	}
	if x.held {
		x.once(heldUpstream)
	}
	x.onceEach(ref.guard, "call refused: "+ref.cause, "tool", j.call.Name, "guard", ref.guard)
	name, args := x.h.keys.Refuse(envelope.Call{Name: j.call.Name, Args: j.call.Args, Text: text}, j.target())
	return wire.Ruling{Replace: true, Name: name, Args: args}
}

func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// The required arguments that the refusal of a shell call keeps: none of them
// says what runs, or where, or with what environment. A tool that requires
// anything else takes the form that runs nothing.
var kept = []string{"description", "timeout", "timeout_ms", "is_background", "run_in_background", "persistent", "max_output_tokens", "yield_time_ms"}

// target says how the client takes a refusal of this call.
func (j *judgement) target() envelope.Target {
	x := j.x
	other := envelope.UnknownForm
	if x.client != nil && x.client.Refusal == agents.Invalid && !j.call.Text {
		other = envelope.InvalidForm
	}
	t := envelope.Target{Form: other, Fallback: other}
	if j.key() != j.call.Name {
		t.Item, t.Form, t.Fallback = j.call.Item, envelope.UnknownForm, envelope.UnknownForm
	}
	switch {
	case j.tool == nil:
		return j.borrow(t)
	case j.call.Item == wire.LocalShellCall:
		t.Form = envelope.LocalShellForm
		return t
	case j.call.Item == wire.ShellCall:
		t.Form = envelope.CommandsForm
		return t
	}
	var from []agents.Arg
	switch agents.RefusalFor(j.spec, x.client) {
	case agents.Printf:
		t.Form, from = envelope.ShellForm, j.spec.Command
	case agents.Text:
		t.Form, from = envelope.CodeForm, j.spec.Code
	}
	if j.call.Text {
		if t.Form != envelope.CodeForm {
			t.Form = other
		}
		return t
	}
	if len(from) == 0 || strings.ContainsAny(from[0].Path, ".[") {
		t.Form = other
		return j.borrow(t)
	}
	if !hasParam(j.tool, from[0].Path) && j.tool.Schema != nil {
		// The catalogue's argument is none of this tool's: it runs something else.
		t.Form = other
		return j.borrow(t)
	}
	t.Argument = from[0].Path
	if t.Form == envelope.ShellForm && (from[0].Form == agents.List || len(j.commands) > 0 && j.commands[0].List != nil) {
		t.Form = envelope.ArrayForm
	}
	for _, r := range j.tool.Required {
		if r == t.Argument {
			continue
		}
		if kind := j.args.Kind(j.args.Get(0, r)); !slices.Contains(kept, r) || kind == tape.Object || kind == tape.Array {
			t.Form, t.Keep = other, nil
			return j.borrow(t)
		}
		if !slices.Contains(t.Keep, r) {
			t.Keep = append(t.Keep, r)
		}
	}
	return t
}

// borrow turns the refusal of a function call into a call of a shell, if the
// request declares one that needs nothing but a command, where upstream holds
// the history. What upstream remembers is the call as the model made it, and
// what the client sends for it is all that the model reads: the output of the
// shell is the refusal, while the client's words about a tool that it does not
// have would hide it.
func (j *judgement) borrow(t envelope.Target) envelope.Target {
	x := j.x
	if !x.held || j.call.Item != wire.FunctionCall {
		return t
	}
	for _, e := range x.tools {
		for i := range e.Declared {
			d := &e.Declared[i]
			if d.Item != wire.FunctionCall || group(d.Namespace) != group(j.call.Namespace) || e.Report.Dropped {
				continue
			}
			spec, known := x.g.table.Classify(d.Name, x.client, d.Params)
			if !known || spec.Kind != agents.Shell || agents.RefusalFor(spec, x.client) != agents.Printf || len(spec.Command) == 0 {
				continue
			}
			arg := spec.Command[0]
			if strings.ContainsAny(arg.Path, ".[") || !hasParam(d, arg.Path) || slices.ContainsFunc(d.Required, func(r string) bool { return r != arg.Path }) || arg.Form == agents.String|agents.List {
				continue
			}
			t.Form, t.Tool, t.Argument = envelope.BorrowedForm, d.Name, arg.Path
			if arg.Form == agents.List {
				t.Form = envelope.BorrowedArrayForm
			}
			return t
		}
	}
	return t
}

func hasParam(d *rewrite.Declared, name string) bool {
	return slices.ContainsFunc(d.Params, func(p agents.Param) bool { return p.Name == name })
}

// record tells the decision log, and the recording.
func (j *judgement) record(ref *refusal, judged []byte, edited bool, cause string) {
	x := j.x
	if x.h.decided == nil && x.rec == nil {
		return
	}
	d := Decision{Time: time.Now(), Session: x.session.ID(), Client: x.clientID(), Dialect: string(x.route.Dialect), Model: x.model,
		CallID: j.call.ID, Tool: j.call.Name, Kind: string(j.kind), Allowed: ref == nil, Edited: edited && ref == nil, Cause: cause, Arguments: judged,
		Verdicts: j.outcome.Verdicts, Took: time.Since(j.start)}
	for _, v := range j.outcome.Verdicts {
		d.Notes = append(d.Notes, v.Notes...)
	}
	if ref != nil {
		d.Cause, d.Guard, d.GuardReason = ref.cause, ref.guard, ref.reason
	}
	x.rec.judged(j, d)
	if x.h.decided != nil {
		x.h.decided(d)
	}
}
