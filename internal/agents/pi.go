package agents

// pi is the pi coding agent. Seen is what 0.73.1 declares with all of its tools
// switched on; read, bash, edit and write are its default.
//
// It sends its SDK's User-Agent and nothing of its own, so it is never
// detected. session_id comes on Responses only, and DSH sends it there too.
var pi = Client{
	ID:       "pi",
	Versions: "0.73.1 seen",
	Session:  []string{"session_id"},
	Refusal:  UnknownTool,
	Tools: []Tool{
		{Name: "bash", Kind: Shell, Seen: true, Refusal: Printf,
			Command: []Arg{{Path: "command", Form: String, Required: true}}},

		{Name: "write", Kind: Write, Seen: true, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "edit", Kind: Write, Seen: true, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpWrite}}},

		{Name: "read", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpRead}}},
		{Name: "find", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "grep", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "ls", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
	},
}
