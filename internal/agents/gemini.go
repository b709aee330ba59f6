package agents

// gemini is gemini-cli. Seen is what 0.61.0 declares with the approval mode
// yolo; the rest is from its source and from older versions.
//
// additional_permissions is declared only when the client's own tool sandbox
// is on. The same tool runs PowerShell on Windows.
var gemini = Client{
	ID:         "gemini-cli",
	Versions:   "0.61.0 seen",
	UserAgents: []string{"GeminiCLI/", "GeminiCLI-"},
	Refusal:    UnknownTool,
	Tools: []Tool{
		{Name: "run_shell_command", Kind: Shell, Seen: true, Refusal: Printf,
			Command:    []Arg{{Path: "command", Form: String, Required: true}},
			Dir:        []Arg{{Path: "dir_path", Form: String}, {Path: "directory", Form: String}},
			Escalation: []Field{{Name: "additional_permissions"}}},

		{Name: "write_file", Kind: Write, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "replace", Kind: Write, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},

		// Older versions called the path absolute_path, so neither is required.
		{Name: "read_file", Kind: Read, Seen: true, Paths: []Arg{
			{Path: "absolute_path", Form: String, Op: OpRead},
			{Path: "file_path", Form: String, Op: OpRead}}},
		{Name: "read_many_files", Kind: Read, Paths: []Arg{
			{Path: "include[]", Form: String, Op: OpRead},
			{Path: "paths[]", Form: String, Op: OpRead}}},
		{Name: "list_directory", Kind: Read, Seen: true, Paths: []Arg{
			{Path: "dir_path", Form: String, Op: OpRead},
			{Path: "path", Form: String, Op: OpRead}}},
		{Name: "glob", Kind: Read, Seen: true, Paths: []Arg{
			{Path: "dir_path", Form: String, Op: OpRead},
			{Path: "path", Form: String, Op: OpRead}}},
		{Name: "grep_search", Kind: Read, Seen: true, Paths: []Arg{
			{Path: "dir_path", Form: String, Op: OpRead},
			{Path: "path", Form: String, Op: OpRead}}},
		{Name: "search_file_content", Kind: Read, Paths: []Arg{
			{Path: "dir_path", Form: String, Op: OpRead},
			{Path: "path", Form: String, Op: OpRead}}},

		{Name: "activate_skill", Kind: Other, Seen: true},
		{Name: "enter_plan_mode", Kind: Other, Seen: true},
		{Name: "google_web_search", Kind: Other, Seen: true},
		{Name: "invoke_agent", Kind: Other, Seen: true},
		{Name: "list_background_processes", Kind: Other, Seen: true},
		{Name: "read_background_output", Kind: Other, Seen: true},
		{Name: "update_topic", Kind: Other, Seen: true},
		{Name: "web_fetch", Kind: Other, Seen: true},
		{Name: "ask_user", Kind: Other},
		{Name: "complete_task", Kind: Other},
		{Name: "exit_plan_mode", Kind: Other},
		{Name: "get_internal_docs", Kind: Other},
		{Name: "list_mcp_resources", Kind: Other},
		{Name: "read_mcp_resource", Kind: Other},
		{Name: "save_memory", Kind: Other},
		{Name: "tracker_add_dependency", Kind: Other},
		{Name: "tracker_create_task", Kind: Other},
		{Name: "tracker_get_task", Kind: Other},
		{Name: "tracker_list_tasks", Kind: Other},
		{Name: "tracker_update_task", Kind: Other},
		{Name: "tracker_visualize", Kind: Other},
		{Name: "write_todos", Kind: Other},
	},
}
