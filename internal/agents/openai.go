package agents

// openai holds the tools that OpenAI's Responses API defines and a client
// runs: a request declares them by type, without a name or a schema. They
// stand here under the types of the items that call them, with the arguments
// as the item has them in its action or operation. It is no client and is
// never detected. Source: the Responses API reference.
var openai = Client{
	ID:       "openai-tools",
	Versions: "Responses API reference, not run",
	Refusal:  UnknownTool,
	Tools: []Tool{
		// One argv, with an environment and a user of its own.
		{Name: "local_shell_call", Kind: Shell, Refusal: Printf,
			Command: []Arg{{Path: "command", Form: String | List, Required: true}},
			Dir:     []Arg{{Path: "working_directory", Form: String}},
			Env:     []Arg{{Path: "env", Form: Map}}},
		// Scripts, each for a shell of its own.
		{Name: "shell_call", Kind: Shell, Refusal: Printf,
			Command: []Arg{{Path: "commands[]", Form: String, Required: true}}},
		// create_file, update_file or delete_file; a diff names no files.
		{Name: "apply_patch_call", Kind: Write, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "computer_call", Kind: Other},
		{Name: "tool_search_call", Kind: Other},
		{Name: "mcp_approval_request", Kind: Other},
	},
}
