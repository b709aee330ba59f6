// Package agents is the catalogue of known clients: what their tools are
// called, which argument is the command, which are paths, which fields ask for
// more than the session has, and by which headers a client is known.
//
// It is data. Each known client has one file with one value of type Client;
// this file holds the types and the look-ups, merge.go what happens when
// several clients use one name, args.go how an argument is found in a call,
// patch.go the paths inside a patch, guess.go the rule for tools that nobody
// catalogued, rules.go what schema.Narrow is told.
//
// The data structure: a Table is a list of Clients, each a list of Tools, and
// an index from a tool's name to all entries of that name. A look-up goes by
// the tool's name, whoever the client is. Headers never hide an entry; they
// only choose among entries of one name. When the client is unknown, or has no
// tool of that name, all entries of the name count together (Merge), so that
// what would be judged for any of them is judged.
//
// Everything here is pure and a Table never changes after it is built, so all
// of it is safe for concurrent use. Slices and pointers that a Table hands out
// are its own: read them, don't change them.
package agents

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Kind says what running a tool means. The order from most to least watched is
// shell, code, write, read, other.
type Kind string

const (
	// Shell: the command arguments reach a command interpreter.
	Shell Kind = "shell"
	// Code: an argument is a program in another language, which the client
	// runs and which may call further tools out of our sight.
	Code Kind = "code"
	// Write: changes files.
	Write Kind = "write"
	// Read: looks at files.
	Read Kind = "read"
	// Other: touches neither, as far as its arguments tell.
	Other Kind = "other"
)

// rank orders kinds for Merge; an unknown kind ranks highest.
func (k Kind) rank() int {
	switch k {
	case Other:
		return 0
	case Read:
		return 1
	case Write:
		return 2
	case Code:
		return 3
	case Shell:
		return 4
	}
	return 5
}

// Valid says whether k is one of the five kinds.
func (k Kind) Valid() bool { return k.rank() < 5 }

// Form is the set of JSON types that an argument may have.
type Form uint8

const (
	// String is one JSON string.
	String Form = 1 << iota
	// List is an array of strings: for a command its argv.
	List
	// Map is an object of strings: an environment.
	Map
)

// Op is what a call does to a path it names.
type Op string

const (
	OpRead  Op = "read"
	OpWrite Op = "write"
)

// Arg locates one argument of a call.
type Arg struct {
	// Path is the member's name; dots go down into objects and [] stands for
	// each element of an array: "command", "edits[].file_path", "include[]".
	// The text of a freeform (custom) call is found at "input".
	Path string
	// Form is the set of types that count.
	Form Form
	// Required says that a call without it, or with another type, is no call
	// of this tool.
	Required bool
	// Op is set for path arguments only.
	Op Op
}

// Field is an argument that asks for a wider sandbox.
type Field struct {
	Name string
	// Values are the values that ask for more, as the declaration lists them;
	// none for a free-form value.
	Values []string
	// Group names the fields that only make sense together: a client may
	// reject a call that has one of them without the others, so they are
	// dropped together. See Tool.Pair.
	Group string
}

// Refusal is the form that a refused call takes.
type Refusal string

const (
	// ByClient: the client's own form for a tool that is no shell.
	ByClient Refusal = ""
	// Printf: the command is replaced by one that prints the refusal and
	// exits with 126. An argv list takes the same script after bash -c.
	Printf Refusal = "printf"
	// Text: the code is replaced by one call of the code mode's text().
	Text Refusal = "text"
	// UnknownTool: the call's name becomes guardproxy_refused, with reason
	// and sealed as its arguments.
	UnknownTool Refusal = "unknown-tool"
	// Invalid: the call becomes one of the client's tool `invalid` with tool
	// and error, for a client that drops an unknown call's arguments.
	Invalid Refusal = "invalid"
)

// Tool is one tool of one client, or the merge of several of one name.
type Tool struct {
	Name string
	Kind Kind
	// Command holds the arguments that a shell runs. Every one that is
	// present is judged. A shell call in which none is present is opaque.
	Command []Arg
	// Code holds the arguments that are programs in another language.
	Code []Arg
	// Patch holds the arguments that are patches, whose paths are inside the
	// text; see PatchPaths.
	Patch []Arg
	// Paths holds the arguments that are paths.
	Paths []Arg
	// Dir holds the arguments that say where a shell starts.
	Dir []Arg
	// Interpreter holds the arguments that name the program which reads the
	// command; see System.
	Interpreter []Arg
	// Env holds the arguments that are variables of the command's environment.
	Env []Arg
	// Escalation lists the fields that ask for a wider sandbox.
	Escalation []Field
	// Escalates says that the tool as a whole is such a request.
	Escalates bool
	// Opaque says that the command can't be read as a POSIX command of its
	// own: it is typed into a live shell, or is written for another shell.
	Opaque bool
	// Harmless names parameters that look like a command by the general rule
	// (Guess) and are none in this client.
	Harmless []string
	// Refusal is the form of this tool's refusals; see RefusalFor.
	Refusal Refusal
	// Seen says that the declaration was seen on the wire, in the version
	// that the client's entry names. Otherwise it comes from the client's
	// source or from public documents.
	Seen bool
}

// Pair returns the names of all fields that go when field goes, sorted, field
// among them. The slice is new.
func (t Tool) Pair(field string) []string {
	out := []string{field}
	i := slices.IndexFunc(t.Escalation, func(f Field) bool { return f.Name == field })
	if i < 0 || t.Escalation[i].Group == "" {
		return out
	}
	for _, f := range t.Escalation {
		if f.Group == t.Escalation[i].Group && f.Name != field {
			out = append(out, f.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Client is one known client.
type Client struct {
	// ID is the name that configuration and guards use.
	ID string
	// Versions says where the entry comes from and which versions it fits.
	Versions string
	// UserAgents are prefixes of the User-Agent header, compared without case.
	UserAgents []string
	// Headers identify the client when one of them is present. They must be
	// names that no other client sends.
	Headers []string
	// Session, Agent and Parent name the headers that carry the session's id,
	// the id of a thread or agent in it, and the mark of a child: of several
	// the first that is present counts. None of them identifies the client.
	Session, Agent, Parent []string
	// Refusal is the form for calls that are no shell call: UnknownTool or
	// Invalid.
	Refusal Refusal
	// Contexts are the beginnings of user messages in which the client itself
	// states its policy to the model.
	Contexts []string
	// NeedsReason says that the client rejects a call that asks for more
	// without a justification, instead of asking its user.
	NeedsReason bool
	// Tools has one entry a name.
	Tools []Tool
}

// tool finds the client's own entry.
func (c *Client) tool(name string) (Tool, bool) {
	for _, t := range c.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// RefusalFor says which form a refused call of t takes in client c, which may
// be nil for an unknown client. It never returns ByClient.
func RefusalFor(t Tool, c *Client) Refusal {
	if t.Refusal != ByClient {
		return t.Refusal
	}
	if c != nil && c.Refusal != ByClient {
		return c.Refusal
	}
	return UnknownTool
}

// Table is the catalogue. The zero value knows nothing; Builtin has what this
// package knows.
type Table struct {
	clients []Client
	// byName lists the entries of a name, in the order of clients.
	byName map[string][]Tool
	// fixed holds the kinds that the operator chose, by tool name.
	fixed map[string]Kind
}

var builtin = sync.OnceValue(func() *Table {
	return build([]Client{claude, codex, crush, dsh, gemini, openai, opencode, pi, qwen, provider}, nil)
})

// Builtin is the catalogue of this version.
func Builtin() *Table { return builtin() }

func build(clients []Client, fixed map[string]Kind) *Table {
	t := &Table{byName: map[string][]Tool{}, fixed: maps.Clone(fixed)}
	for _, c := range clients {
		tools := make([]Tool, len(c.Tools))
		for i, tool := range c.Tools {
			tools[i] = canonical(refix(tool, fixed))
			t.byName[tool.Name] = append(t.byName[tool.Name], tools[i])
		}
		c.Tools = tools
		t.clients = append(t.clients, c)
	}
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		if len(t.byName[name]) == 0 {
			t.byName[name] = []Tool{canonical(refix(Tool{Name: name, Kind: Other}, fixed))}
		}
	}
	return t
}

// refix gives a tool the kind that the operator chose. A tool that becomes a
// shell without a known command gets the arguments of the general rule, and a
// refusal that doesn't depend on which shell reads it.
func refix(t Tool, fixed map[string]Kind) Tool {
	k, ok := fixed[t.Name]
	if !ok || k == t.Kind {
		return t
	}
	t.Kind, t.Refusal = k, ByClient
	if k == Shell && len(t.Command) == 0 {
		for _, name := range guessed {
			t.Command = append(t.Command, Arg{Path: name, Form: String | List})
		}
	}
	return t
}

// WithKinds returns a table in which the named tools have the given kinds,
// known or not: the operator's word stands over ours. Kinds must be Valid.
// The receiver stays as it is.
func (t *Table) WithKinds(kinds map[string]Kind) *Table {
	all := maps.Clone(t.fixed)
	if all == nil {
		all = map[string]Kind{}
	}
	maps.Copy(all, kinds)
	return build(t.clients, all)
}

// Clients returns all clients in the order of their ids.
func (t *Table) Clients() []Client {
	out := slices.Clone(t.clients)
	slices.SortFunc(out, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Client finds a client by its id; nil if there is none.
func (t *Table) Client(id string) *Client {
	for i := range t.clients {
		if t.clients[i].ID == id {
			return &t.clients[i]
		}
	}
	return nil
}

// Detect finds the client that sent a request, or nil. get returns a header's
// first value, or "" (http.Header.Get does). The User-Agent decides; else the
// headers that only one client sends; if they point at several, none does.
// The answer is advice from the wire: it may choose among entries of a name
// and may never widen anything.
func (t *Table) Detect(get func(string) string) *Client {
	ua := get("User-Agent")
	for i := range t.clients {
		for _, p := range t.clients[i].UserAgents {
			if len(ua) >= len(p) && strings.EqualFold(ua[:len(p)], p) {
				return &t.clients[i]
			}
		}
	}
	var found *Client
	for i := range t.clients {
		if !slices.ContainsFunc(t.clients[i].Headers, func(h string) bool { return get(h) != "" }) {
			continue
		}
		if found != nil {
			return nil
		}
		found = &t.clients[i]
	}
	return found
}

// Contexts returns the beginnings of user messages in which some client states
// its policy, sorted. The slice is new.
func (t *Table) Contexts() []string {
	var out []string
	for i := range t.clients {
		out = append(out, t.clients[i].Contexts...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SessionHeaders returns every header in which some client carries the
// session's id: those of c first, the others after it, each once. c may be
// nil. The slice is new.
func (t *Table) SessionHeaders(c *Client) []string {
	return t.headers(c, func(c *Client) []string { return c.Session })
}

// AgentHeaders is the same for the ids of threads and agents.
func (t *Table) AgentHeaders(c *Client) []string {
	return t.headers(c, func(c *Client) []string { return c.Agent })
}

// ParentHeaders is the same for the marks of a child.
func (t *Table) ParentHeaders(c *Client) []string {
	return t.headers(c, func(c *Client) []string { return c.Parent })
}

func (t *Table) headers(c *Client, of func(*Client) []string) []string {
	var out []string
	add := func(names []string) {
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	if c != nil {
		add(of(c))
	}
	for i := range t.clients {
		add(of(&t.clients[i]))
	}
	return out
}

// ByName looks a tool up by its name, compared byte for byte. The entry of
// client c is the answer if it has one; c may be nil. Otherwise all entries of
// the name are merged. False: no entry.
func (t *Table) ByName(name string, c *Client) (Tool, bool) {
	tool, _, ok := t.byNameOwn(name, c)
	return tool, ok
}

// byNameOwn also says whether the answer is c's own.
func (t *Table) byNameOwn(name string, c *Client) (tool Tool, own, ok bool) {
	if c != nil {
		if mine := t.Client(c.ID); mine != nil {
			if tool, ok := mine.tool(name); ok {
				return tool, true, true
			}
		}
	}
	if all := t.byName[name]; len(all) > 0 {
		return Merge(all...), false, true
	}
	return Tool{}, false, false
}

// Classify is the whole rule for a declared tool: what the catalogue knows
// under its name, merged with what the declared parameters give away (Guess).
// In the client's own entry only parameters that the entry doesn't explain can
// give anything away, so an entry holds for the versions it was made from and
// a later version's new command is judged all the same. A kind that the
// operator chose is final. params come from Params. False: nothing is known,
// the tool is uncatalogued and takes no command.
func (t *Table) Classify(name string, c *Client, params []Param) (Tool, bool) {
	tool, own, known := t.byNameOwn(name, c)
	if _, fixed := t.fixed[name]; fixed {
		return tool, true
	}
	switch {
	case own:
		params = slices.DeleteFunc(slices.Clone(params), func(p Param) bool { return tool.explains(p.Name) })
	case known && tool.Kind == Shell:
		// Every entry of the name is a shell with that command, or the merge
		// took its forms from those that are: there is nothing to give away.
		params = slices.DeleteFunc(slices.Clone(params), func(p Param) bool {
			return slices.ContainsFunc(tool.Command, func(a Arg) bool { return a.Path == p.Name })
		})
	}
	guess, found := Guess(name, params)
	switch {
	case known && found:
		return Merge(tool, guess), true
	case found:
		return guess, true
	}
	return tool, known
}

// explains says whether the entry knows what a top-level parameter is.
func (t Tool) explains(param string) bool {
	is := func(a Arg) bool {
		first, _, _ := strings.Cut(a.Path, ".")
		return strings.TrimSuffix(first, "[]") == param
	}
	return slices.Contains(t.Harmless, param) ||
		slices.ContainsFunc(slices.Concat(t.Command, t.Code, t.Patch, t.Paths, t.Dir, t.Interpreter, t.Env), is)
}
