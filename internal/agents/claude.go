package agents

// claude is Claude Code. Seen is what version 2.1.332 declares, its deferred
// tools among them (ENABLE_TOOL_SEARCH=false declares all at once); the rest
// is from the type declarations that the package ships and from the tools
// that older versions had.
var claude = Client{
	ID:         "claude-code",
	Versions:   "2.1.332 seen; names of 1.0 to 2.1",
	UserAgents: []string{"claude-cli/", "claude-code/"},
	Headers:    []string{"X-Claude-Code-Session-Id"},
	Session:    []string{"X-Claude-Code-Session-Id"},
	Agent:      []string{"X-Claude-Code-Agent-Id"},
	Parent:     []string{"X-Claude-Code-Parent-Agent-Id"},
	Refusal:    UnknownTool,
	Tools: []Tool{
		{Name: "Bash", Kind: Shell, Seen: true, Refusal: Printf,
			Command:    []Arg{{Path: "command", Form: String, Required: true}},
			Escalation: []Field{{Name: "dangerouslyDisableSandbox"}}},
		// Monitor watches the output of a command, or of a socket (ws): then
		// there is no command.
		{Name: "Monitor", Kind: Shell, Seen: true, Refusal: Printf,
			Command:    []Arg{{Path: "command", Form: String}},
			Escalation: []Field{{Name: "dangerouslyDisableSandbox"}}},
		{Name: "PowerShell", Kind: Shell, Opaque: true,
			Command:    []Arg{{Path: "command", Form: String, Required: true}},
			Escalation: []Field{{Name: "dangerouslyDisableSandbox"}}},

		// Workflow runs a script that starts agents, or one from a file.
		{Name: "Workflow", Kind: Code, Seen: true,
			Code:  []Arg{{Path: "script", Form: String}},
			Paths: []Arg{{Path: "scriptPath", Form: String, Op: OpRead}}},

		{Name: "Write", Kind: Write, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "Edit", Kind: Write, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "MultiEdit", Kind: Write, Paths: []Arg{
			{Path: "edits[].file_path", Form: String, Op: OpWrite},
			{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "NotebookEdit", Kind: Write, Seen: true, Paths: []Arg{{Path: "notebook_path", Form: String, Required: true, Op: OpWrite}}},

		{Name: "Read", Kind: Read, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpRead}}},
		{Name: "NotebookRead", Kind: Read, Paths: []Arg{{Path: "notebook_path", Form: String, Required: true, Op: OpRead}}},
		{Name: "Glob", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "Grep", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "LS", Kind: Read, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpRead}}},
		{Name: "LSP", Kind: Read, Paths: []Arg{{Path: "filePath", Form: String, Op: OpRead}}},
		{Name: "EnterWorktree", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},

		{Name: "Agent", Kind: Other, Seen: true},
		{Name: "CronCreate", Kind: Other, Seen: true},
		{Name: "CronDelete", Kind: Other, Seen: true},
		{Name: "CronList", Kind: Other, Seen: true},
		{Name: "DeferredToolPlaceholder", Kind: Other, Seen: true},
		{Name: "ExitWorktree", Kind: Other, Seen: true},
		{Name: "ListAgents", Kind: Other, Seen: true},
		{Name: "ReportFindings", Kind: Other, Seen: true},
		{Name: "ScheduleWakeup", Kind: Other, Seen: true},
		{Name: "SendMessage", Kind: Other, Seen: true},
		{Name: "Skill", Kind: Other, Seen: true},
		{Name: "TaskStop", Kind: Other, Seen: true},
		{Name: "ToolSearch", Kind: Other, Seen: true},
		{Name: "WebFetch", Kind: Other, Seen: true},
		{Name: "WebSearch", Kind: Other, Seen: true},
		{Name: "AskUserQuestion", Kind: Other},
		{Name: "BashOutput", Kind: Other},
		{Name: "EnterPlanMode", Kind: Other},
		{Name: "ExitPlanMode", Kind: Other},
		{Name: "KillShell", Kind: Other},
		{Name: "ListMcpResourcesTool", Kind: Other},
		{Name: "PushNotification", Kind: Other},
		{Name: "ReadMcpResourceTool", Kind: Other},
		{Name: "SlashCommand", Kind: Other},
		{Name: "Task", Kind: Other},
		{Name: "TaskCreate", Kind: Other},
		{Name: "TaskGet", Kind: Other},
		{Name: "TaskList", Kind: Other},
		{Name: "TaskOutput", Kind: Other},
		{Name: "TaskUpdate", Kind: Other},
		{Name: "TodoWrite", Kind: Other},
	},
}
