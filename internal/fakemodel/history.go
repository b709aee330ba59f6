package fakemodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// History is what a request says about the conversation so far.
type History struct {
	Dialect string // anthropic-messages, openai-chat or openai-responses
	Model   string
	Tools   []string // the names of the declared tools
	Round   int      // replies since the last message that a user wrote
	Replies int      // replies in the whole conversation
	Results []Result // of the calls of the last reply, in the order of the request
}

// Result is what a client says became of a call.
type Result struct {
	ID    string
	Text  string // text blocks are joined
	Error bool   // Messages only: the others have no mark for it
}

// ask is a request for a reply.
type ask struct {
	History
	stream, usage bool
	size          int    // bytes of the body
	tools         string // as they were declared (Responses repeats them)
}

// read is the part of a request that a reply depends on. Messages and Chat
// have the same outline; roles and blocks tell what is what.
func read(d dialect, body []byte) (ask, error) {
	if _, ok := d.(responses); ok {
		return readResponses(d, body)
	}
	var q struct {
		Model   string
		Stream  bool
		Options struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []message
		Tools    []struct {
			Name     string
			Function struct{ Name string }
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return ask{}, fmt.Errorf("the request is no JSON: %w", err)
	}
	if len(q.Messages) == 0 {
		return ask{}, errors.New("the request has no messages")
	}
	a := ask{stream: q.Stream, usage: q.Options.IncludeUsage, size: len(body)}
	a.Dialect, a.Model = d.name(), q.Model
	for _, t := range q.Tools {
		name := t.Name
		if t.Function.Name != "" {
			name = t.Function.Name
		}
		a.Tools = append(a.Tools, name)
	}
	speaking := false // in a run of assistant messages, which is one reply
	for _, m := range q.Messages {
		switch results := m.results(); {
		case m.Role == "assistant":
			if !speaking {
				a.Round, a.Replies = a.Round+1, a.Replies+1
			}
			speaking, a.Results = true, nil
			continue
		case len(results) > 0:
			a.Results = append(a.Results, results...)
		case m.Role == "user":
			a.Round, a.Results = 0, nil
		}
		speaking = false
	}
	return a, nil
}

type message struct {
	Role    string
	Content json.RawMessage
	CallID  string `json:"tool_call_id"`
}

type block struct {
	Type, Text string
	ID         string `json:"tool_use_id"`
	Content    json.RawMessage
	Error      bool `json:"is_error"`
}

// results are the tool results in a message: a Chat message of role tool, or
// the tool_result blocks of a user's message.
func (m message) results() []Result {
	if m.Role == "tool" {
		return []Result{{ID: m.CallID, Text: text(m.Content)}}
	}
	var blocks []block
	if m.Role != "user" || json.Unmarshal(m.Content, &blocks) != nil {
		return nil
	}
	var out []Result
	for _, b := range blocks {
		if b.Type == "tool_result" {
			out = append(out, Result{b.ID, text(b.Content), b.Error})
		}
	}
	return out
}

// text is the text of content, which is a string or a list of blocks.
func text(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []block
	json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		s += b.Text
	}
	return s
}

// quote is s as a JSON string, without the escapes that encoding/json adds for
// HTML: model APIs don't write them.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
