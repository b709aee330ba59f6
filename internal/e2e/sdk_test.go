package e2e

// The SDKs behind one face, so that a claim is stated once and holds for all
// dialects, streaming or not.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// toolDecl is a tool that a client declares.
type toolDecl struct {
	name       string
	properties map[string]any
	required   []string
}

func text(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

// turn is what a client has after one reply.
type turn struct {
	text  string
	calls []call
	stop  string
}

// result answers one call.
type result struct {
	id, text string
	failed   bool
}

// conversation is one client that talks through the proxy and keeps its
// history the way its SDK does.
type conversation interface {
	// ask sends the history and adds the reply to it.
	ask(ctx context.Context) (turn, error)
	answer(results []result)
}

// dialect is how a claim gets at one SDK.
type dialect struct {
	name      string
	path      string
	stream    func(text string, calls []call, n int) string
	whole     func(text string, calls []call) string
	open      func(url string, stream bool, retries int) conversation
	streaming bool
}

func (d dialect) reply(text string, calls []call, n int) reply {
	if d.streaming {
		return reply{header: sseHeader, body: d.stream(text, calls, n)}
	}
	return reply{header: jsonHeader, body: d.whole(text, calls)}
}

func (d dialect) messages() bool { return d.path == "/v1/messages" }

func (d dialect) responses() bool { return d.path == "/v1/responses" }

// wire is the dialect's name.
func (d dialect) wire() wire.Dialect {
	switch {
	case d.messages():
		return wire.Messages
	case d.responses():
		return wire.Responses
	}
	return wire.Chat
}

// stop is how a turn with calls ends.
func (d dialect) stop() string {
	return map[wire.Dialect]string{wire.Messages: "tool_use", wire.Chat: "tool_calls", wire.Responses: "completed"}[d.wire()]
}

// bare is a request without a history.
func (d dialect) bare() string {
	if d.responses() {
		return `{"model":"m","stream":true,"store":false,"input":[],`
	}
	return `{"model":"m","stream":true,"messages":[],`
}

// every runs a claim for all SDKs, streaming and not.
func every(t *testing.T, claim func(t *testing.T, d dialect)) {
	for _, d := range []dialect{
		{name: "anthropic", path: "/v1/messages", stream: messagesStream, whole: messagesWhole, open: openAnthropic},
		{name: "openai", path: "/v1/chat/completions", stream: chatStream, whole: chatWhole, open: openOpenAI},
		{name: "openai responses", path: "/v1/responses", open: openResponses,
			stream: func(text string, calls []call, n int) string { return responded(text, calls, n, true) },
			whole:  func(text string, calls []call) string { return responded(text, calls, 0, false) }},
	} {
		for _, d.streaming = range []bool{true, false} {
			name := d.name + "/whole"
			if d.streaming {
				name = d.name + "/stream"
			}
			t.Run(name, func(t *testing.T) { claim(t, d) })
		}
	}
}

// The tools that clients of these tests declare. The shell tool's name is one
// that the catalogue knows for the dialect's clients.
func declared(shell string) []toolDecl {
	return []toolDecl{
		{shell, map[string]any{
			"command":                   text("The command."),
			"dangerouslyDisableSandbox": map[string]any{"type": "boolean", "description": "Set to true to run without the sandbox."},
			"sandbox_permissions":       map[string]any{"type": "string", "enum": []string{"workspace-write", "danger-full-access"}},
			"justification":             text("Why sandbox_permissions are needed."),
		}, []string{"command"}},
		{"Read", map[string]any{"file_path": text("The file.")}, []string{"file_path"}},
		{"lookup", map[string]any{"q": text("What to look up.")}, []string{"q"}},
	}
}

// shell is the name of the shell tool, and residue a field of it that asks for
// more than the session has.
func (d dialect) shell() string {
	if d.messages() {
		return "Bash"
	}
	return "bash"
}

type anthropicChat struct {
	client  anthropic.Client
	stream  bool
	history []anthropic.MessageParam
}

func openAnthropic(url string, stream bool, retries int) conversation {
	return &anthropicChat{
		client:  anthropic.NewClient(aoption.WithBaseURL(url), aoption.WithAPIKey("test-key"), aoption.WithMaxRetries(retries)),
		stream:  stream,
		history: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("go"))},
	}
}

func anthropicTools() []anthropic.ToolUnionParam {
	var tools []anthropic.ToolUnionParam
	for _, d := range declared("Bash") {
		p := anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: d.properties, Required: d.required}, d.name)
		p.OfTool.Description = anthropic.String("A tool of the test.")
		tools = append(tools, p)
	}
	tools[len(tools)-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
	return tools
}

func (c *anthropicChat) ask(ctx context.Context) (turn, error) {
	params := anthropic.MessageNewParams{Model: "claude-test", MaxTokens: 1024, Messages: c.history, Tools: anthropicTools()}
	var m anthropic.Message
	if c.stream {
		s := c.client.Messages.NewStreaming(ctx, params)
		defer s.Close()
		for s.Next() {
			if err := m.Accumulate(s.Current()); err != nil {
				return turn{}, err
			}
		}
		if err := s.Err(); err != nil {
			return anthropicTurn(&m), err
		}
	} else {
		got, err := c.client.Messages.New(ctx, params)
		if err != nil {
			return turn{}, err
		}
		m = *got
	}
	c.history = append(c.history, m.ToParam())
	return anthropicTurn(&m), nil
}

func anthropicTurn(m *anthropic.Message) turn {
	t := turn{stop: string(m.StopReason)}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			t.text += b.Text
		case "tool_use":
			t.calls = append(t.calls, call{b.ID, b.Name, string(b.Input)})
		}
	}
	return t
}

func (c *anthropicChat) answer(results []result) {
	var blocks []anthropic.ContentBlockParamUnion
	for _, r := range results {
		blocks = append(blocks, anthropic.NewToolResultBlock(r.id, r.text, r.failed))
	}
	c.history = append(c.history, anthropic.NewUserMessage(blocks...))
}

type openaiChat struct {
	client  openai.Client
	stream  bool
	history []openai.ChatCompletionMessageParamUnion
}

func openOpenAI(url string, stream bool, retries int) conversation {
	return &openaiChat{
		client:  openai.NewClient(ooption.WithBaseURL(url+"/v1"), ooption.WithAPIKey("test-key"), ooption.WithMaxRetries(retries)),
		stream:  stream,
		history: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("go")},
	}
}

func (c *openaiChat) ask(ctx context.Context) (turn, error) {
	params := openai.ChatCompletionNewParams{Model: "gpt-test", Messages: c.history}
	for _, d := range declared("bash") {
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: d.name, Description: openai.String("A tool of the test."),
			Parameters: shared.FunctionParameters{"type": "object", "properties": d.properties, "required": d.required},
		}))
	}
	var m openai.ChatCompletion
	if c.stream {
		s := c.client.Chat.Completions.NewStreaming(ctx, params)
		defer s.Close()
		var acc openai.ChatCompletionAccumulator
		for s.Next() {
			if !acc.AddChunk(s.Current()) {
				return turn{}, errors.New("the accumulator refused a chunk")
			}
		}
		if err := s.Err(); err != nil {
			return openaiTurn(&acc.ChatCompletion), err
		}
		m = acc.ChatCompletion
	} else {
		got, err := c.client.Chat.Completions.New(ctx, params)
		if err != nil {
			return turn{}, err
		}
		m = *got
	}
	if len(m.Choices) == 0 {
		return turn{}, fmt.Errorf("a reply without choices: %s", m.RawJSON())
	}
	c.history = append(c.history, m.Choices[0].Message.ToParam())
	return openaiTurn(&m), nil
}

func openaiTurn(m *openai.ChatCompletion) turn {
	var t turn
	for _, ch := range m.Choices {
		t.text += ch.Message.Content
		t.stop = ch.FinishReason
		for _, tc := range ch.Message.ToolCalls {
			t.calls = append(t.calls, call{tc.ID, tc.Function.Name, tc.Function.Arguments})
		}
	}
	return t
}

func (c *openaiChat) answer(results []result) {
	for _, r := range results {
		c.history = append(c.history, openai.ToolMessage(r.text, r.id))
	}
}

// sameJSON reports whether two texts are the same JSON value. Nothing counts
// as an object without members.
func sameJSON(a, b string) bool {
	var x, y any
	if a == "" {
		a = "{}"
	}
	if b == "" {
		b = "{}"
	}
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
