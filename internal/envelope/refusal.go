package envelope

import (
	"bytes"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire"
)

// Form is how a client is told that a call was refused. The values stand in
// seals: they never change.
type Form string

// The forms of a refusal.
const (
	ShellForm   Form = "shell"   // the command prints the text and fails with 126
	ArrayForm   Form = "array"   // the same, as ["bash","-c",command]
	CodeForm    Form = "code"    // JavaScript that prints the text
	UnknownForm Form = "unknown" // a call of a tool that no client has
	InvalidForm Form = "invalid" // a call of opencode's tool for broken calls
	// Actions of the shell tools that the Responses API defines.
	LocalShellForm Form = "local_shell" // one argv
	CommandsForm   Form = "commands"    // a list of scripts
	// The shell or array form as a call of another tool, a shell: where upstream
	// holds the history, what runs and prints the text is all that the model will
	// ever read of a refusal.
	BorrowedForm      Form = "borrowed"
	BorrowedArrayForm Form = "borrowed_array"
)

// Names of the tools that refusals call.
const (
	RefusedTool = "guardproxy_refused"
	InvalidTool = "invalid"
)

// maxInline is the largest refusal, in bytes of its arguments, that a shell or
// code form holds: a command line over 128 KiB does not start on Linux.
const maxInline = 64 << 10

// Target says how the tool of a refused call takes a refusal.
type Target struct {
	Form Form
	// Argument is the argument that holds the command or the code. "" means that
	// the arguments are plain text, which the code form then is.
	Argument string
	// Keep are the other arguments that the tool's schema requires. Their
	// values go on as the model wrote them; all others go.
	Keep []string
	// Fallback is the form taken when the refusal is too large for Form:
	// UnknownForm or InvalidForm.
	Fallback Form
	// Tool is the shell that a borrowed form calls.
	Tool string
	// Item is the type of the call's item, where a refusal of the unknown form
	// takes another one (tools that the Responses API defines), else "".
	Item string
}

// Call is what a seal holds.
type Call struct {
	Name string // the tool's name, as the model wrote it
	Args []byte // the bytes of its arguments, as the model wrote them
	Text string // the refusal
}

// Refuse returns the name and the arguments (one JSON object, or the text of a
// code form without an argument) of the call that takes the place of c. The text is reduced to the alphabet of Plain.
func (k *Keyring) Refuse(c Call, t Target) (name string, args []byte) {
	c.Text = Plain(c.Text)
	name, args = k.refuse(c, t)
	if len(args) > maxInline && t.Form != t.Fallback {
		name, args = k.refuse(c, Target{Form: t.Fallback, Item: t.Item})
	}
	return name, args
}

func (k *Keyring) refuse(c Call, t Target) (string, []byte) {
	fields := [][]byte{[]byte(t.Form), []byte(c.Name), c.Args, []byte(c.Text), []byte(t.Argument)}
	switch t.Form {
	case UnknownForm, InvalidForm:
		fields[4] = []byte(t.Item) // there is no argument to name
	case BorrowedForm, BorrowedArrayForm:
		fields = append(fields, []byte(t.Tool))
	default:
		for _, key := range t.Keep {
			fields = append(fields, []byte(key))
		}
	}
	return generate(c, t, k.seal(Refusal, fields))
}

// generate writes the form that a seal belongs to. It is a function of the
// seal and what it holds, so that a history can be compared with it.
func generate(c Call, t Target, seal string) (name string, args []byte) {
	command := `printf '%s\n' '` + c.Text + `' >&2; (exit 126) # ` + seal
	array := func() []byte { return append(tape.Quote([]byte(`["bash","-c",`), command), ']') }
	member := func(value []byte) []byte {
		return append(append(tape.Quote([]byte{'{'}, t.Argument), ':'), value...)
	}
	switch t.Form {
	case ShellForm:
		return c.Name, append(keep(member(tape.Quote(nil, command)), c.Args, t), '}')
	case ArrayForm:
		return c.Name, append(keep(member(array()), c.Args, t), '}')
	case BorrowedForm:
		return t.Tool, append(member(tape.Quote(nil, command)), '}')
	case BorrowedArrayForm:
		return t.Tool, append(member(array()), '}')
	case LocalShellForm:
		return c.Name, append(append([]byte(`{"type":"exec","command":`), array()...), `,"env":{}}`...)
	case CommandsForm:
		return c.Name, append(tape.Quote([]byte(`{"commands":[`), command), `],"timeout_ms":null,"max_output_length":null}`...)
	case CodeForm:
		code := `text("` + c.Text + `") // ` + seal
		if t.Argument == "" {
			return c.Name, []byte(code)
		}
		return c.Name, append(keep(member(tape.Quote(nil, code)), c.Args, t), '}')
	case InvalidForm:
		args = append(args, `{"tool":`...)
		args = tape.Quote(args, c.Name)
		args = append(args, `,"error":`...)
		return InvalidTool, append(tape.Quote(args, c.Text+" "+seal), '}')
	}
	args = append(args, `{"reason":`...)
	args = tape.Quote(args, c.Text)
	args = append(args, `,"sealed":`...)
	return RefusedTool, append(tape.Quote(args, seal), '}')
}

// keep appends the members of the original arguments that stay.
func keep(args, original []byte, t Target) []byte {
	if len(t.Keep) == 0 {
		return args
	}
	var o tape.Tape
	if o.Parse(original) != nil {
		return args
	}
	for _, key := range t.Keep {
		if i := o.Get(0, key); i >= 0 && key != t.Argument {
			args = append(args, ',')
			args = tape.Quote(args, key)
			args = append(args, ':')
			args = append(args, o.Raw(i)...)
		}
	}
	return args
}

// open gives the call and the target that a refusal's seal holds.
func (k *Keyring) open(seal string) (c Call, t Target, ok bool) {
	f, ok := k.unseal(Refusal, seal)
	if !ok || len(f) < 5 {
		return c, t, false
	}
	c = Call{string(f[1]), f[2], string(f[3])}
	t = Target{Form: Form(f[0]), Argument: string(f[4])}
	switch t.Form {
	case UnknownForm, InvalidForm:
		t.Item, t.Argument = t.Argument, ""
	case BorrowedForm, BorrowedArrayForm:
		if len(f) != 6 {
			return c, t, false
		}
		t.Tool = string(f[5])
	default:
		for _, key := range f[5:] {
			t.Keep = append(t.Keep, string(key))
		}
	}
	return c, t, true
}

// Restored says what Restore did.
type Restored struct {
	Calls      int // put back
	Unanswered int // of these, whose result stayed as it was
	Foreign    int // calls that mention a seal which is not ours, or not theirs
}

// Restore returns the edits that put the model's own calls back in the place
// of refusals in a request's history, and the refusals' texts in the place of
// what the client got from running them. A call is put back only when the
// whole of it equals, as a JSON value, what its own seal generates; so the
// answer depends on the history and the keys alone, and is the same after a
// restart.
func (k *Keyring) Restore(q *wire.Request) (edits []wire.Edit, did Restored) {
	for _, p := range q.Past {
		if !q.Mentions(p, Prefix) {
			continue
		}
		c, item, ok := k.original(q.Name(p), q.Arguments(p), q.Text(p))
		if !ok {
			did.Foreign++
			continue
		}
		var more []wire.Edit
		var answered bool
		if item != "" {
			more, answered = q.RestoreItem(p, item, c.Name, c.Args, c.Text)
		} else {
			more, answered = q.Restore(p, c.Name, c.Args, c.Text)
		}
		if len(more) == 0 {
			did.Foreign++
			continue
		}
		if !answered {
			did.Unanswered++
		}
		did.Calls++
		edits = append(edits, more...)
	}
	return edits, did
}

// original gives the call that was refused, and the type of its item if it was
// another one, when name and args are the form that its seal generates. text
// says that args may be plain text.
func (k *Keyring) original(name string, args []byte, text bool) (c Call, item string, ok bool) {
	var t tape.Tape
	if t.Parse(args) != nil || t.Kind(0) != tape.Object {
		at := bytes.LastIndex(args, []byte(Prefix))
		if !text || at < 0 {
			return Call{}, "", false
		}
		seal := string(args[at:])
		c, target, ok := k.open(seal)
		if !ok {
			return Call{}, "", false
		}
		wantName, want := generate(c, target, seal)
		return c, target.Item, name == wantName && bytes.Equal(args, want)
	}
	for i := range t.Len() {
		if t.Kind(i) != tape.String {
			continue
		}
		s := t.Str(i)
		at := strings.LastIndex(s, Prefix)
		if at < 0 {
			continue
		}
		c, target, ok := k.open(s[at:])
		if !ok {
			continue
		}
		wantName, wantArgs := generate(c, target, s[at:])
		var w tape.Tape
		if name == wantName && w.Parse(wantArgs) == nil && tape.Equal(&t, 0, &w, 0) {
			return c, target.Item, true
		}
	}
	return Call{}, "", false
}
