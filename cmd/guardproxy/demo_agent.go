package main

// The demo's agent: a loop that any coding agent has. It sends its tools and
// the history, reads the stream, runs the calls, appends the results, and goes
// on. It knows nothing of guardproxy; that it works is the point.
//
// A message of the history is kept as the bytes that it was first sent as, so
// an agent that is well-behaved towards the prompt cache is what the proxy has
// to live up to.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// demoAgent is one conversation.
type demoAgent struct {
	client  *http.Client
	base    string // the proxy's URL
	speech  demoSpeech
	history [][]byte // messages; in Responses runs of items, with commas between them
	sent    [][]byte // request bodies
}

// demoReply is what the agent understood of one reply.
type demoReply struct {
	message []byte // as it goes into the history
	calls   []demoCall
	raw     []byte // the stream
}

type demoCall struct {
	id, name string
	args     []byte
}

// command is the one argument of bash that the agent runs.
func (c demoCall) command() (string, error) {
	var a struct{ Command *string }
	if c.name != "bash" {
		return "", fmt.Errorf("expected a call of bash, got one of %s", c.name)
	}
	if err := json.Unmarshal(c.args, &a); err != nil || a.Command == nil {
		return "", fmt.Errorf("expected arguments with a command, got %s", demoCut(string(c.args), 200))
	}
	return *a.Command, nil
}

// ask sends the history and takes the reply into it.
func (a *demoAgent) ask(ctx context.Context) (demoReply, error) {
	body := a.speech.body(a.history)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+a.speech.path(), bytes.NewReader(body))
	if err != nil {
		return demoReply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "guardproxy-demo")
	req.Header.Set("X-Deepseek-Harness-Session-Id", "demo-"+a.speech.name())
	a.sent = append(a.sent, body)
	resp, err := a.client.Do(req)
	if err != nil {
		return demoReply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return demoReply{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return demoReply{}, fmt.Errorf("expected a reply, got status %d: %s", resp.StatusCode, demoCut(string(raw), 300))
	}
	reply, err := a.speech.read(raw)
	if err != nil {
		return demoReply{}, fmt.Errorf("%w in the reply\n%s", err, raw)
	}
	a.history = append(a.history, reply.message)
	return reply, nil
}

// answer appends what became of a call.
func (a *demoAgent) answer(c demoCall, text string, failed bool) {
	a.history = append(a.history, a.speech.result(c, text, failed))
}

// demoSpeech is one dialect, from the agent's side, and as the demo looks at
// what arrived upstream.
type demoSpeech interface {
	name() string
	path() string
	tools() []string // the declared tools, bash first
	body(messages [][]byte) []byte
	user(text string) []byte
	read(stream []byte) (demoReply, error)
	result(c demoCall, text string, failed bool) []byte
	// past is the call in a message of the history, and the text that another
	// message answers it with.
	past(call, result []byte) (name, args, text string, err error)
}

// What all dialects declare. The tool takes what the bash tool of the
// DeepSeek Harness takes.
const (
	demoSystem = "You are a coding agent. You work in a project's directory with the tools that you have."

	demoDescription = "Runs a command line with bash and returns its output. It starts in the workspace; nothing is kept from one call to the next. " +
		"The sandbox may deny a command that reaches out of the workspace. " +
		"In that case call again with sandbox_permissions set to danger-full-access and say in justification why the user should allow it."

	demoParameters = `{"type":"object","properties":{` +
		`"command":{"type":"string","description":"The command line."},` +
		`"timeout":{"type":"integer","description":"Milliseconds after which it is stopped."},` +
		`"sandbox_permissions":{"type":"string","enum":["workspace-write","danger-full-access"],"description":"A wider mode to ask for."},` +
		`"justification":{"type":"string","description":"Why the wider mode is needed."}},` +
		`"required":["command"],"additionalProperties":false}`

	demoReadDescription = "Returns the text of a file."
	demoReadParameters  = `{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}`
)

// demoLines gives the data of each event of a stream.
func demoLines(stream []byte, each func(data string) error) error {
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := each(data); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// demoMessages speaks Anthropic Messages.
type demoMessages struct{}

func (demoMessages) name() string { return "messages" }
func (demoMessages) path() string { return "/v1/messages" }

func (demoMessages) tools() []string {
	return []string{
		`{"name":"bash","description":` + demoQuote(demoDescription) + `,"input_schema":` + demoParameters + `}`,
		`{"name":"read","description":"` + demoReadDescription + `","input_schema":` + demoReadParameters + `,"cache_control":{"type":"ephemeral"}}`,
	}
}

func (s demoMessages) body(messages [][]byte) []byte {
	return []byte(`{"model":"demo","max_tokens":1024,"stream":true,"system":[{"type":"text","text":` + demoQuote(demoSystem) + `}],` +
		`"messages":[` + string(bytes.Join(messages, []byte(","))) + `],"tools":[` + strings.Join(s.tools(), ",") + `]}`)
}

func (demoMessages) user(text string) []byte {
	return []byte(`{"role":"user","content":` + demoQuote(text) + `}`)
}

func (demoMessages) result(c demoCall, text string, failed bool) []byte {
	return []byte(`{"role":"user","content":[{"type":"tool_result","tool_use_id":` + demoQuote(c.id) + `,"content":` + demoQuote(text) + `,"is_error":` + strconv.FormatBool(failed) + `}]}`)
}

func (demoMessages) read(stream []byte) (demoReply, error) {
	type block struct {
		Type, ID, Name            string
		Text, Thinking, Signature string
		input                     string
	}
	var blocks []*block
	stopped := false
	err := demoLines(stream, func(data string) error {
		var e struct {
			Type  string
			Block *block `json:"content_block"`
			Delta struct {
				Text, Thinking, Signature string
				Part                      string `json:"partial_json"`
			}
			Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		switch e.Type {
		case "content_block_start":
			blocks = append(blocks, e.Block)
		case "content_block_delta":
			if len(blocks) == 0 {
				return errors.New("a delta without a block")
			}
			b := blocks[len(blocks)-1]
			b.Text += e.Delta.Text
			b.Thinking += e.Delta.Thinking
			b.Signature += e.Delta.Signature
			b.input += e.Delta.Part
		case "message_stop":
			stopped = true
		case "error":
			return fmt.Errorf("an error: %s", e.Error)
		}
		return nil
	})
	if err == nil && !stopped {
		err = errors.New("no end")
	}
	if err != nil {
		return demoReply{}, err
	}
	reply := demoReply{raw: stream}
	var content []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			content = append(content, `{"type":"text","text":`+demoQuote(b.Text)+`}`)
		case "thinking":
			content = append(content, `{"type":"thinking","thinking":`+demoQuote(b.Thinking)+`,"signature":`+demoQuote(b.Signature)+`}`)
		case "tool_use":
			// As clients of this API do, the agent parses the arguments and
			// writes them anew: what it sends back has other bytes.
			var again bytes.Buffer
			if err := json.Compact(&again, []byte(b.input)); err != nil {
				return demoReply{}, err
			}
			content = append(content, `{"type":"tool_use","id":`+demoQuote(b.ID)+`,"name":`+demoQuote(b.Name)+`,"input":`+again.String()+`}`)
			reply.calls = append(reply.calls, demoCall{b.ID, b.Name, []byte(b.input)})
		default:
			return demoReply{}, fmt.Errorf("a block of type %s", b.Type)
		}
	}
	reply.message = []byte(`{"role":"assistant","content":[` + strings.Join(content, ",") + `]}`)
	return reply, nil
}

func (demoMessages) past(call, result []byte) (name, args, text string, err error) {
	var m, r struct {
		Content []struct {
			Type, Name string
			Input      json.RawMessage
			Content    string
			Error      bool `json:"is_error"`
		}
	}
	if err := json.Unmarshal(call, &m); err != nil {
		return "", "", "", err
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return "", "", "", err
	}
	for _, b := range m.Content {
		if b.Type == "tool_use" {
			name, args = b.Name, string(b.Input)
		}
	}
	for _, b := range r.Content {
		if b.Type == "tool_result" {
			text = b.Content
			if !b.Error {
				err = errors.New("expected a result marked as an error, got one that is not")
			}
		}
	}
	return name, args, text, err
}

// demoChat speaks OpenAI Chat Completions.
type demoChat struct{}

func (demoChat) name() string { return "chat" }
func (demoChat) path() string { return "/chat/completions" }

func (demoChat) tools() []string {
	return []string{
		`{"type":"function","function":{"name":"bash","description":` + demoQuote(demoDescription) + `,"parameters":` + demoParameters + `}}`,
		`{"type":"function","function":{"name":"read","description":"` + demoReadDescription + `","parameters":` + demoReadParameters + `}}`,
	}
}

func (s demoChat) body(messages [][]byte) []byte {
	return []byte(`{"model":"demo","messages":[{"role":"system","content":` + demoQuote(demoSystem) + `},` + string(bytes.Join(messages, []byte(","))) +
		`],"stream":true,"stream_options":{"include_usage":true},"tools":[` + strings.Join(s.tools(), ",") + `]}`)
}

func (demoChat) user(text string) []byte {
	return []byte(`{"role":"user","content":` + demoQuote(text) + `}`)
}

func (demoChat) result(c demoCall, text string, _ bool) []byte {
	return []byte(`{"role":"tool","tool_call_id":` + demoQuote(c.id) + `,"content":` + demoQuote(text) + `}`)
}

func (demoChat) read(stream []byte) (demoReply, error) {
	var said, thought string
	var calls []demoCall
	done := false
	err := demoLines(stream, func(data string) error {
		if data == "[DONE]" {
			done = true
			return nil
		}
		var e struct {
			Choices []struct {
				Delta struct {
					Content  string
					Thinking string `json:"reasoning_content"`
					Calls    []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
			Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		if e.Error != nil {
			return fmt.Errorf("an error: %s", e.Error)
		}
		for _, c := range e.Choices {
			said += c.Delta.Content
			thought += c.Delta.Thinking
			for _, p := range c.Delta.Calls {
				if p.Index == len(calls) {
					calls = append(calls, demoCall{id: p.ID, name: p.Function.Name})
				}
				if p.Index != len(calls)-1 {
					return fmt.Errorf("a piece of call %d where call %d is open", p.Index, len(calls)-1)
				}
				calls[p.Index].args = append(calls[p.Index].args, p.Function.Arguments...)
			}
		}
		return nil
	})
	if err == nil && !done {
		err = errors.New("no end")
	}
	if err != nil {
		return demoReply{}, err
	}
	message := `{"role":"assistant","content":` + demoQuote(said)
	if thought != "" {
		message += `,"reasoning_content":` + demoQuote(thought)
	}
	var list []string
	for _, c := range calls {
		list = append(list, `{"id":`+demoQuote(c.id)+`,"type":"function","function":{"name":`+demoQuote(c.name)+`,"arguments":`+demoQuote(string(c.args))+`}}`)
	}
	if len(list) > 0 {
		message += `,"tool_calls":[` + strings.Join(list, ",") + `]`
	}
	return demoReply{message: []byte(message + `}`), calls: calls, raw: stream}, nil
}

func (demoChat) past(call, result []byte) (name, args, text string, err error) {
	var m struct {
		Calls []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	var r struct{ Content string }
	if err := json.Unmarshal(call, &m); err != nil {
		return "", "", "", err
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return "", "", "", err
	}
	for _, c := range m.Calls {
		name, args = c.Function.Name, c.Function.Arguments
	}
	return name, args, r.Content, nil
}

// demoResponses speaks OpenAI Responses. What the other dialects hold in one
// message is several items here; the agent sends them back as they came.
type demoResponses struct{}

func (demoResponses) name() string { return "responses" }
func (demoResponses) path() string { return "/v1/responses" }

func (demoResponses) tools() []string {
	return []string{
		`{"type":"function","name":"bash","description":` + demoQuote(demoDescription) + `,"parameters":` + demoParameters + `,"strict":false}`,
		`{"type":"function","name":"read","description":"` + demoReadDescription + `","parameters":` + demoReadParameters + `,"strict":false}`,
	}
}

func (s demoResponses) body(messages [][]byte) []byte {
	return []byte(`{"model":"demo","instructions":` + demoQuote(demoSystem) + `,"input":[` + string(bytes.Join(messages, []byte(","))) +
		`],"stream":true,"store":false,"tools":[` + strings.Join(s.tools(), ",") + `]}`)
}

func (demoResponses) user(text string) []byte {
	return []byte(`{"type":"message","role":"user","content":` + demoQuote(text) + `}`)
}

func (demoResponses) result(c demoCall, text string, _ bool) []byte {
	return []byte(`{"type":"function_call_output","call_id":` + demoQuote(c.id) + `,"output":` + demoQuote(text) + `}`)
}

func (demoResponses) read(stream []byte) (demoReply, error) {
	reply := demoReply{raw: stream}
	var items []string
	completed := false
	err := demoLines(stream, func(data string) error {
		var e struct {
			Type, Message string
			Item          json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		switch e.Type {
		case "error":
			return fmt.Errorf("an error: %s", e.Message)
		case "response.completed":
			completed = true
		case "response.output_item.done":
			var it struct {
				Type, Name, Arguments string
				CallID                string `json:"call_id"`
			}
			if err := json.Unmarshal(e.Item, &it); err != nil {
				return err
			}
			switch it.Type {
			case "message", "reasoning":
			case "function_call":
				reply.calls = append(reply.calls, demoCall{it.CallID, it.Name, []byte(it.Arguments)})
			default:
				return fmt.Errorf("an item of type %s", it.Type)
			}
			items = append(items, string(e.Item))
		}
		return nil
	})
	if err == nil && !completed {
		err = errors.New("no end")
	}
	if err != nil {
		return demoReply{}, err
	}
	reply.message = []byte(strings.Join(items, ","))
	return reply, nil
}

func (demoResponses) past(call, result []byte) (name, args, text string, err error) {
	var c struct{ Name, Arguments string }
	var r struct{ Output string }
	if err := errors.Join(json.Unmarshal(call, &c), json.Unmarshal(result, &r)); err != nil {
		return "", "", "", err
	}
	return c.Name, c.Arguments, r.Output, nil
}

func demoQuote(s string) string { return string(tape.Quote(nil, s)) }

// demoCut shortens s to about n characters and says how long it was.
func demoCut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return fmt.Sprintf("%s… (%d bytes)", string(r[:n]), len(s))
	}
	return s
}
