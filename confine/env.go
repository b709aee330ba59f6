package confine

import "strings"

// dropped are the variables that don't reach a confined command. Each is either
// code that some program runs when it starts, a handle to something outside the
// sandbox, or a credential of the agent itself. What is merely private is left:
// a build may need it, and nothing leaves without a network.
var dropped = map[string]string{
	// code, run before the command's own
	"LD_PRELOAD":      "code",
	"LD_AUDIT":        "code",
	"LD_LIBRARY_PATH": "code",
	"GCONV_PATH":      "code",
	"BASH_ENV":        "code",
	"ENV":             "code",
	"PROMPT_COMMAND":  "code",
	"NODE_OPTIONS":    "code",
	"PYTHONSTARTUP":   "code",
	"PERL5OPT":        "code",
	"RUBYOPT":         "code",
	"GIT_SSH":         "code",
	"GIT_SSH_COMMAND": "code",
	"GIT_ASKPASS":     "code",
	"SSH_ASKPASS":     "code",
	// handles to the outside
	"SSH_AUTH_SOCK":            "handle",
	"SSH_AGENT_PID":            "handle",
	"GPG_AGENT_INFO":           "handle",
	"DBUS_SESSION_BUS_ADDRESS": "handle",
	"DBUS_SYSTEM_BUS_ADDRESS":  "handle",
	"DOCKER_HOST":              "handle",
	"CONTAINER_HOST":           "handle",
	"WAYLAND_DISPLAY":          "handle",
	"DISPLAY":                  "handle",
	"XAUTHORITY":               "handle",
	"XDG_RUNTIME_DIR":          "handle",
	"NOTIFY_SOCKET":            "handle",
	"TMUX":                     "handle",
	// the agent's own credentials
	"ANTHROPIC_API_KEY":       "credential",
	"ANTHROPIC_AUTH_TOKEN":    "credential",
	"CLAUDE_CODE_OAUTH_TOKEN": "credential",
	"OPENAI_API_KEY":          "credential",
	"CODEX_API_KEY":           "credential",
	"AZURE_OPENAI_API_KEY":    "credential",
	"GEMINI_API_KEY":          "credential",
	"GOOGLE_API_KEY":          "credential",
	"DEEPSEEK_API_KEY":        "credential",
	"DASHSCOPE_API_KEY":       "credential",
	"MISTRAL_API_KEY":         "credential",
	"GROQ_API_KEY":            "credential",
	"XAI_API_KEY":             "credential",
	"OPENROUTER_API_KEY":      "credential",
	"AZURE_API_KEY":           "credential",
	"MOONSHOT_API_KEY":        "credential",
	"TOGETHER_API_KEY":        "credential",
	"FIREWORKS_API_KEY":       "credential",
	// a model behind a cloud's gateway takes the cloud's own credentials
	"AWS_ACCESS_KEY_ID":              "credential",
	"AWS_SECRET_ACCESS_KEY":          "credential",
	"AWS_SESSION_TOKEN":              "credential",
	"AWS_BEARER_TOKEN_BEDROCK":       "credential",
	"ANTHROPIC_CUSTOM_HEADERS":       "credential",
	"GOOGLE_APPLICATION_CREDENTIALS": "credential",
}

// Env returns the environment that a confined command gets out of environ
// (name=value, as os.Environ gives): without code that runs at start-up
// (LD_PRELOAD, BASH_ENV, exported bash functions, NODE_OPTIONS and the like),
// handles to the outside (agent and bus sockets, displays), credentials for the
// model API (those of the clouds that serve models, too), and everything named
// GUARDPROXY_…. The order stays; environ is not changed.
func Env(environ []string) []string {
	kept := make([]string, 0, len(environ))
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || dropped[name] != "" || strings.HasPrefix(name, "GUARDPROXY_") || strings.HasPrefix(name, "BASH_FUNC_") {
			continue
		}
		kept = append(kept, kv)
	}
	return kept
}

// setenv returns environ with name set to value, once.
func setenv(environ []string, name, value string) []string {
	out := make([]string, 0, len(environ)+1)
	for _, kv := range environ {
		if n, _, _ := strings.Cut(kv, "="); n != name {
			out = append(out, kv)
		}
	}
	return append(out, name+"="+value)
}
