package cachecheck

import (
	"strings"

	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/tape"
)

// Exchange is one request to a model API, and what is known of the reply. A
// Reader yields it; its slices are valid until the Reader's next Next.
type Exchange struct {
	// File names the file, as it was given to Open. Line counts lines from 1,
	// 0 where the format has none; Entry counts the exchanges of the file from
	// 1; Offset is the byte in the file at which the exchange's text starts.
	File   string
	Line   int
	Entry  int
	Offset int64

	// Start is when the request was sent, FirstByte when the first byte of the
	// reply's body came: nanoseconds since 1970 UTC, 0 when unknown.
	Start, FirstByte int64

	// Session is the client's own id of the session, Agent that of the
	// sub-agent within it; "" when nothing names one.
	Session, Agent string
	// Scope is what requests without a session share: the file, or the folder
	// of bodies. Those of different scopes are never taken for one
	// conversation.
	Scope string
	// Credential tells credentials apart and is none; "" when unknown.
	Credential string
	// Host is the API's host, Path its path, both "" when unknown.
	Host, Path string
	// Dialect is anthropic-messages, openai-chat, openai-responses, gemini or
	// bedrock-converse. "" lets the body decide.
	Dialect string
	// Betas is the request's anthropic-beta header.
	Betas string

	// Body is what went upstream, decoded; Client what the client sent, nil
	// when that is the same or unknown.
	Body, Client []byte
	// Lossy marks a body that was decoded and encoded again by whoever wrote
	// the recording: its white space and escapes say nothing.
	Lossy bool

	// Status is the reply's, 0 when unknown.
	Status     int
	ResponseID string
	Upstream   string // the provider that a router chose, as it says
	Usage      Usage
	// Diagnostics is what the provider itself says of its cache: JSON, nil
	// when it says nothing.
	Diagnostics []byte

	// Odd says why this can't be compared, "" when it can. Note is the same
	// for people.
	Odd  Odd
	Note string
}

// Odd is a reason for which an exchange is not compared.
type Odd string

// The reasons. Each is counted and none is an error.
const (
	OddCut      Odd = "cut"          // the file ends inside of it
	OddNotJSON  Odd = "not_json"     // the body, or the line, is no JSON
	OddNoBody   Odd = "no_body"      // a request without a body
	OddNotModel Odd = "not_model"    // no request for a reply of a model
	OddEncoding Odd = "encoding"     // a content encoding that we can't undo
	OddTooLarge Odd = "too_large"    // over MaxBody
	OddStateful Odd = "stateful"     // the prefix lives at the provider's
	OddCount    Odd = "count_tokens" // counts tokens, caches nothing
	OddFailed   Odd = "failed"       // the reply was an error: nothing was stored
	OddShape    Odd = "shape"        // JSON, but of no dialect that we know
	OddDamaged  Odd = "damaged"      // the recording itself is broken here
)

// MaxBody is the largest decoded body that is compared, in bytes.
const MaxBody = 64 << 20

// Dialects of requests.
const (
	dialectMessages  = "anthropic-messages"
	dialectChat      = "openai-chat"
	dialectResponses = "openai-responses"
	dialectGemini    = "gemini"
	dialectConverse  = "bedrock-converse"
)

// dialectOf decides by the path's last segments, else by the body's shape: ""
// when neither says anything.
func dialectOf(path string, t *tape.Tape) string {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(strings.ToLower(path), "/")
	switch {
	case strings.HasSuffix(path, "/messages"), strings.Contains(path, ":rawpredict"), strings.Contains(path, ":streamrawpredict"):
		return dialectMessages
	case strings.HasSuffix(path, "chat/completions"):
		return dialectChat
	case strings.HasSuffix(path, "/responses"), strings.HasSuffix(path, "/responses/compact"):
		return dialectResponses
	case strings.HasSuffix(path, ":generatecontent"), strings.HasSuffix(path, ":streamgeneratecontent"):
		return dialectGemini
	case strings.HasSuffix(path, "/converse"), strings.HasSuffix(path, "/converse-stream"):
		return dialectConverse
	}
	return guessDialect(t)
}

// guessDialect decides by what only one dialect has.
func guessDialect(t *tape.Tape) string {
	switch {
	case t.Kind(0) != tape.Object:
		return ""
	case t.Get(0, "contents") >= 0:
		return dialectGemini
	case t.Get(0, "input") >= 0, t.Get(0, "previous_response_id") >= 0:
		return dialectResponses
	case t.Get(0, "messages") < 0:
		return ""
	case t.Get(0, "toolConfig") >= 0, t.Get(0, "inferenceConfig") >= 0:
		return dialectConverse
	case t.Get(0, "system") >= 0, t.Get(0, "anthropic_version") >= 0:
		if s := t.Get(0, "system"); t.Kind(s) == tape.Array && t.After(s) > s+1 && t.Get(s+1, "type") < 0 {
			return dialectConverse
		}
		return dialectMessages
	}
	if tools := t.Get(0, "tools"); t.Kind(tools) == tape.Array {
		for i := tools + 1; i < t.After(tools); i = t.After(i) {
			switch {
			case t.Kind(t.Get(i, "function")) == tape.Object:
				return dialectChat
			case t.Get(i, "input_schema") >= 0:
				return dialectMessages
			}
		}
	}
	ms := t.Get(0, "messages")
	if t.Kind(ms) != tape.Array {
		return ""
	}
	for m := ms + 1; m < t.After(ms); m = t.After(m) {
		role := t.Get(m, "role")
		if t.Is(role, "tool") || t.Is(role, "developer") || t.Is(role, "system") || t.Get(m, "tool_calls") >= 0 {
			return dialectChat
		}
		c := t.Get(m, "content")
		if t.Kind(c) != tape.Array {
			continue
		}
		for b := c + 1; b < t.After(c); b = t.After(b) {
			switch typ := t.Get(b, "type"); {
			case t.Is(typ, "tool_use"), t.Is(typ, "tool_result"), t.Is(typ, "thinking"), t.Is(typ, "image"), t.Is(typ, "document"):
				return dialectMessages
			case t.Is(typ, "image_url"), t.Is(typ, "input_audio"):
				return dialectChat
			case typ < 0 && t.Get(b, "text") >= 0:
				return dialectConverse
			}
		}
	}
	// Only Messages requires max_tokens; the model's name decides the rest.
	if strings.Contains(t.Str(t.Get(0, "model")), "claude") && t.Get(0, "max_tokens") >= 0 {
		return dialectMessages
	}
	return dialectChat
}

// isModelPath reports whether a path may ask for a model's reply; "" may.
func isModelPath(path string) bool {
	if path == "" {
		return true
	}
	path, _, _ = strings.Cut(strings.ToLower(path), "?")
	for s := range strings.SplitSeq(path, "/") {
		switch s {
		case "messages", "completions", "responses", "converse", "converse-stream", "invoke", "invoke-with-response-stream":
			return true
		}
		if _, verb, ok := strings.Cut(s, ":"); ok && (strings.HasSuffix(verb, "generatecontent") || strings.HasSuffix(verb, "rawpredict")) {
			return true
		}
	}
	return false
}

// headers takes out of a request's headers what lineage needs. get wants
// lower-case names and gives "" for what is not there.
func (x *Exchange) headers(get func(string) string) {
	first := func(names []string) string {
		for _, n := range names {
			if v := get(n); v != "" {
				return v
			}
		}
		return ""
	}
	table := agents.Builtin()
	client := table.Detect(get)
	x.Session = first(append(table.SessionHeaders(client), table.SessionHeaders(nil)...))
	x.Agent = first(append(table.AgentHeaders(client), table.AgentHeaders(nil)...))
	if x.Session == "" {
		x.Session = first([]string{"x-claude-code-session-id", "session-id", "thread-id", "x-session-id", "session_id", "x-deepseek-harness-session-id", "x-grok-conv-id"})
	}
	x.Betas = get("anthropic-beta")
	for _, h := range []string{"authorization", "x-api-key", "api-key", "x-goog-api-key"} {
		if v := get(h); v != "" {
			x.Credential = fingerprint(v)
			break
		}
	}
}
