package agents

// provider holds the tools that Anthropic's API defines and a client runs: a
// request declares them by type (bash_20250124, text_editor_20250728,
// memory_20250818 and their predecessors) without a schema, so a program that
// uses an SDK has them under these names. It is no client and is never
// detected. Source: the tool reference of the Messages API.
var provider = Client{
	ID:       "anthropic-tools",
	Versions: "Messages API tool reference, not run",
	Refusal:  UnknownTool,
	Tools: []Tool{
		// A live shell that keeps its state; {"restart": true} has no command.
		{Name: "bash", Kind: Shell, Refusal: Printf, Command: []Arg{{Path: "command", Form: String}}},
		// In the next three, `command` chooses among a few verbs.
		{Name: "str_replace_based_edit_tool", Kind: Write, Harmless: []string{"command"}, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "str_replace_editor", Kind: Write, Harmless: []string{"command"}, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "memory", Kind: Write, Harmless: []string{"command"}, Paths: []Arg{
			{Path: "new_path", Form: String, Op: OpWrite},
			{Path: "old_path", Form: String, Op: OpWrite},
			{Path: "path", Form: String, Op: OpWrite}}},
	},
}
