package agents

// codexEscalation are the fields by which a command asks to leave the sandbox.
// Codex rejects some of them without the others, so they go together.
var codexEscalation = []Field{
	{Name: "additional_permissions", Group: "sandbox"},
	{Name: "justification", Group: "sandbox"},
	{Name: "prefix_rule", Group: "sandbox"},
	{Name: "sandbox_permissions", Group: "sandbox", Values: []string{"require_escalated", "with_additional_permissions"}},
	{Name: "with_escalated_permissions", Group: "sandbox"},
}

// codex is OpenAI's Codex. Seen is what codex-cli 0.171.0 declares: exec_command
// and apply_patch with gpt-5.5, the tools of namespaces (exec, wait, …) with
// its default model, request_permissions and additional_permissions with
// features.request_permissions_tool and features.exec_permission_approvals.
// The older shell tools are from its public source.
var codex = Client{
	ID:       "codex",
	Versions: "0.171.0 seen; shell tools of older versions",
	// codex_exec/, codex_cli_rs/, codex-tui/, codex_vscode/, Codex Desktop/
	UserAgents: []string{"codex_", "codex-", "codex/", "codex "},
	Headers:    []string{"X-Codex-Turn-Metadata", "X-Codex-Window-Id"},
	Session:    []string{"Session-Id"},
	Agent:      []string{"Thread-Id"},
	Parent:     []string{"X-Codex-Parent-Thread-Id", "X-Openai-Subagent"},
	Refusal:    UnknownTool,
	Tools: []Tool{
		{Name: "exec_command", Kind: Shell, Seen: true, Refusal: Printf, Escalation: codexEscalation,
			Command:     []Arg{{Path: "cmd", Form: String, Required: true}},
			Dir:         []Arg{{Path: "workdir", Form: String}},
			Interpreter: []Arg{{Path: "shell", Form: String}}},
		{Name: "shell_command", Kind: Shell, Refusal: Printf, Escalation: codexEscalation,
			Command: []Arg{{Path: "command", Form: String, Required: true}},
			Dir:     []Arg{{Path: "workdir", Form: String}}},
		{Name: "shell", Kind: Shell, Refusal: Printf, Escalation: codexEscalation,
			Command: []Arg{{Path: "command", Form: String | List, Required: true}},
			Dir:     []Arg{{Path: "workdir", Form: String}}},
		{Name: "container.exec", Kind: Shell, Refusal: Printf, Escalation: codexEscalation,
			Command: []Arg{{Path: "command", Form: String | List, Required: true}},
			Dir:     []Arg{{Path: "workdir", Form: String}}},
		// local_shell has no declared parameters; its call carries an action.
		{Name: "local_shell", Kind: Shell, Refusal: Printf, Escalation: codexEscalation,
			Command: []Arg{{Path: "action.command", Form: String | List}, {Path: "command", Form: String | List}},
			Dir:     []Arg{{Path: "action.working_directory", Form: String}, {Path: "workdir", Form: String}}},
		// Empty chars only wait for output.
		{Name: "write_stdin", Kind: Shell, Seen: true, Opaque: true,
			Command: []Arg{{Path: "chars", Form: String}}},

		// exec is the code mode: a freeform call whose text is JavaScript. The
		// escalation fields are lines of TypeScript in its description.
		{Name: "exec", Kind: Code, Seen: true, Refusal: Text, Escalation: codexEscalation,
			Code: []Arg{{Path: "input", Form: String, Required: true}}},

		// A freeform call whose text is the patch, or a function of some
		// models with the same argument.
		{Name: "apply_patch", Kind: Write, Seen: true,
			Patch: []Arg{{Path: "input", Form: String, Required: true}}},
		{Name: "view_image", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpRead}}},

		{Name: "request_permissions", Kind: Other, Seen: true, Escalates: true},

		{Name: "create_goal", Kind: Other, Seen: true},
		{Name: "followup_task", Kind: Other, Seen: true},
		{Name: "get_goal", Kind: Other, Seen: true},
		{Name: "interrupt_agent", Kind: Other, Seen: true},
		{Name: "list_agents", Kind: Other, Seen: true},
		{Name: "request_user_input", Kind: Other, Seen: true},
		{Name: "request_user_input_async", Kind: Other, Seen: true},
		{Name: "send_message", Kind: Other, Seen: true},
		{Name: "send_message_to_user_async", Kind: Other, Seen: true},
		{Name: "sleep", Kind: Other, Seen: true},
		{Name: "spawn_agent", Kind: Other, Seen: true},
		{Name: "tool_search", Kind: Other, Seen: true},
		{Name: "update_goal", Kind: Other, Seen: true},
		{Name: "wait", Kind: Other, Seen: true},
		{Name: "wait_agent", Kind: Other, Seen: true},
		{Name: "web_search", Kind: Other, Seen: true},
		{Name: "update_plan", Kind: Other},
	},
}
