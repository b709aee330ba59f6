package agents

// dshEscalation is the pair that asks for a wider mode.
var dshEscalation = []Field{
	{Name: "justification", Group: "sandbox"},
	{Name: "sandbox_permissions", Group: "sandbox", Values: []string{"danger-full-access", "workspace-write"}},
}

// dsh is the DeepSeek Harness. Seen is what 0.1.0-rc.8 declares in its headless
// profile, and run_code in code mode (DSH_TOOLS_MODE=code), where the other
// tools' types are in the system prompt and their calls stay inside the
// client. The rest is from the tool packages that it ships.
var dsh = Client{
	ID:         "dsh",
	Versions:   "0.1.0-rc.8 seen",
	UserAgents: []string{"deepseek-harness/"},
	Headers:    []string{"X-Deepseek-Harness-Session-Id"},
	// session_id is what its Responses route sends instead.
	Session: []string{"X-Deepseek-Harness-Session-Id", "session_id"},
	Refusal: UnknownTool, NeedsReason: true,
	Contexts: []string{"Current runtime context."},
	Tools: []Tool{
		{Name: "bash", Kind: Shell, Seen: true, Refusal: Printf, Escalation: dshEscalation,
			Command: []Arg{{Path: "command", Form: String, Required: true}},
			Dir:     []Arg{{Path: "workdir", Form: String}}},
		{Name: "pwsh", Kind: Shell, Opaque: true, Escalation: dshEscalation,
			Command: []Arg{{Path: "command", Form: String, Required: true}},
			Dir:     []Arg{{Path: "workdir", Form: String}}},

		{Name: "run_code", Kind: Code, Seen: true, Escalation: dshEscalation,
			Code: []Arg{{Path: "code", Form: String, Required: true}}},
		{Name: "workflow", Kind: Code, Seen: true,
			Code: []Arg{{Path: "script", Form: String, Required: true}}},
		// cordis_define loads a plugin into the host.
		{Name: "cordis_define", Kind: Code,
			Code: []Arg{{Path: "code.client", Form: String}, {Path: "code.host", Form: String}}},
		{Name: "cordis_run", Kind: Code},

		{Name: "write", Kind: Write, Seen: true, Escalation: dshEscalation,
			Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		{Name: "edit", Kind: Write, Seen: true, Escalation: dshEscalation,
			Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpWrite}}},
		// Its `command` chooses among view, create, str_replace and insert: no
		// command line.
		{Name: "str_replace_editor", Kind: Write, Seen: true, Harmless: []string{"command"},
			Paths: []Arg{{Path: "path", Form: String, Required: true, Op: OpWrite}}},

		{Name: "read", Kind: Read, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpRead}}},
		{Name: "read_image", Kind: Read, Seen: true, Paths: []Arg{{Path: "file_path", Form: String, Required: true, Op: OpRead}}},
		{Name: "glob", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},
		{Name: "grep", Kind: Read, Seen: true, Paths: []Arg{{Path: "path", Form: String, Op: OpRead}}},

		{Name: "create_goal", Kind: Other, Seen: true},
		{Name: "exit_plan_mode", Kind: Other, Seen: true},
		{Name: "get_goal", Kind: Other, Seen: true},
		{Name: "interrupt_agent", Kind: Other, Seen: true},
		{Name: "job_kill", Kind: Other, Seen: true},
		{Name: "job_list", Kind: Other, Seen: true},
		{Name: "job_output", Kind: Other, Seen: true},
		{Name: "list_agents", Kind: Other, Seen: true},
		{Name: "ralph", Kind: Other, Seen: true},
		{Name: "send_message", Kind: Other, Seen: true},
		{Name: "skill", Kind: Other, Seen: true},
		{Name: "subagent", Kind: Other, Seen: true},
		{Name: "subagent_fork", Kind: Other, Seen: true},
		{Name: "todo_write", Kind: Other, Seen: true},
		{Name: "update_goal", Kind: Other, Seen: true},
		{Name: "web_search", Kind: Other, Seen: true},
		{Name: "ask_user_question", Kind: Other},
		{Name: "cordis_inspect_list", Kind: Other},
		{Name: "cordis_inspect_query", Kind: Other},
		{Name: "cordis_inspect_self", Kind: Other},
		{Name: "cordis_stop", Kind: Other},
		{Name: "cordis_undefine", Kind: Other},
		{Name: "report", Kind: Other},
		{Name: "web_fetch", Kind: Other},
	},
}
