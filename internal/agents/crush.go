package agents

// crush is Charm's Crush. It was not run; the entry is from its public source
// (internal/agent/tools and the list of tools in internal/config). Its shell is
// an interpreter for POSIX shell inside the process. It decodes arguments with
// Go's encoding/json, which folds the case of keys.
var crush = Client{
	ID:         "crush",
	Versions:   "public source, not run",
	UserAgents: []string{"Charm-Crush/"},
	Refusal:    UnknownTool,
	Tools: []Tool{
		{Name: "bash", Kind: Shell, Refusal: Printf,
			Command: []Arg{{Path: "command", Form: String, Required: true}},
			Dir:     []Arg{{Path: "working_dir", Form: String}}},

		{Name: "write", Kind: Write, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "edit", Kind: Write, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "multiedit", Kind: Write, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "download", Kind: Write, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},

		{Name: "view", Kind: Read, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpRead}}},
		{Name: "glob", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "grep", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "ls", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "lsp_diagnostics", Kind: Read, Paths: []Arg{{Path: "file_path", Form: String, Op: OpRead}}},
		{Name: "lsp_references", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},

		{Name: "agent", Kind: Other},
		{Name: "agentic_fetch", Kind: Other},
		{Name: "fetch", Kind: Other},
		{Name: "job_kill", Kind: Other},
		{Name: "job_output", Kind: Other},
		{Name: "sourcegraph", Kind: Other},
		{Name: "todos", Kind: Other},
	},
}
