package agents

// qwen is qwen-code, a descendant of gemini-cli whose arguments differ. Seen is
// what 0.15.10 declares with the approval mode yolo, on Chat and Messages;
// the rest is the list of tool names in its source.
var qwen = Client{
	ID:         "qwen-code",
	Versions:   "0.15.10 seen",
	UserAgents: []string{"QwenCode/"},
	Refusal:    UnknownTool,
	Tools: []Tool{
		{Name: "run_shell_command", Kind: Shell, Seen: true, Refusal: Printf,
			Command: []Arg{{Path: "command", Form: String, Required: true}},
			Dir:     []Arg{{Path: "directory", Form: String}}},
		{Name: "monitor", Kind: Shell, Seen: true, Refusal: Printf,
			Command: []Arg{{Path: "command", Form: String, Required: true}},
			Dir:     []Arg{{Path: "directory", Form: String}}},

		{Name: "write_file", Kind: Write, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "edit", Kind: Write, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},

		// Older versions called the path absolute_path, so neither is required.
		{Name: "read_file", Kind: Read, Seen: true, Paths: []Arg{
			{Path: "absolute_path", Form: String, Op: OpRead},
			{Path: "file_path", Form: String, Op: OpRead}}},
		{Name: "list_directory", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpRead}}},
		{Name: "glob", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "grep_search", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "lsp", Kind: Read, Paths: []Arg{{Path: "filePath", Form: String, Op: OpRead}}},

		{Name: "agent", Kind: Other, Seen: true},
		{Name: "send_message", Kind: Other, Seen: true},
		{Name: "skill", Kind: Other, Seen: true},
		{Name: "task_stop", Kind: Other, Seen: true},
		{Name: "todo_write", Kind: Other, Seen: true},
		{Name: "tool_search", Kind: Other, Seen: true},
		{Name: "web_fetch", Kind: Other, Seen: true},
		{Name: "ask_user_question", Kind: Other},
		{Name: "cron_create", Kind: Other},
		{Name: "cron_delete", Kind: Other},
		{Name: "cron_list", Kind: Other},
		{Name: "exit_plan_mode", Kind: Other},
		{Name: "save_memory", Kind: Other},
		{Name: "structured_output", Kind: Other},
	},
}
