package agents

// opencode is opencode. Seen is what 1.18.33 declares on Messages and Chat
// (edit, write) and on Responses with OpenAI's models (apply_patch instead).
//
// A call of a tool that it doesn't have comes back in the history as one of
// its internal tool `invalid`, without the arguments. Calling `invalid` itself,
// which is in no request's tools, keeps them. Seen on all three wires.
var opencode = Client{
	ID:         "opencode",
	Versions:   "1.18.33 seen",
	UserAgents: []string{"opencode/"},
	Session:    []string{"X-Session-Id"},
	Parent:     []string{"X-Parent-Session-Id"},
	Refusal:    Invalid,
	Tools: []Tool{
		{Name: "bash", Kind: Shell, Seen: true, Refusal: Printf,
			Command: []Arg{{Path: "command", Form: String, Required: true}},
			Dir:     []Arg{{Path: "workdir", Form: String}}},

		{Name: "write", Kind: Write, Seen: true, Paths: []Arg{{Path: "filePath", Form: String, Required: true, Op: OpWrite}}},
		{Name: "edit", Kind: Write, Seen: true, Paths: []Arg{{Path: "filePath", Form: String, Required: true, Op: OpWrite}}},
		{Name: "apply_patch", Kind: Write, Seen: true, Patch: []Arg{{Path: "patchText", Form: String, Required: true}}},
		{Name: "multiedit", Kind: Write, Paths: []Arg{
			{Path: "edits[].filePath", Form: String, Op: OpWrite},
			{Path: "filePath", Form: String, Required: true, Op: OpWrite}}},
		{Name: "patch", Kind: Write, Patch: []Arg{{Path: "patchText", Form: String, Required: true}}},

		{Name: "read", Kind: Read, Seen: true, Paths: []Arg{{Path: "filePath", Form: String, Required: true, Op: OpRead}}},
		{Name: "glob", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "grep", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "list", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "lsp", Kind: Read, Paths: []Arg{{Path: "filePath", Form: String, Op: OpRead}}},

		{Name: "skill", Kind: Other, Seen: true},
		// Its `command` is the name of the prompt that started it.
		{Name: "task", Kind: Other, Seen: true, Harmless: []string{"command"}},
		{Name: "todowrite", Kind: Other, Seen: true},
		{Name: "webfetch", Kind: Other, Seen: true},
		{Name: "codesearch", Kind: Other},
		{Name: "invalid", Kind: Other},
		{Name: "question", Kind: Other},
		{Name: "todoread", Kind: Other},
		{Name: "websearch", Kind: Other},
	},
}
