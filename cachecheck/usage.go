package cachecheck

import (
	"bytes"
	"strconv"

	"github.com/guardproxy/guardproxy/internal/tape"
)

// Usage is what a reply says of its input, in tokens. Read, Written and
// Uncached are disjoint and make up Total.
type Usage struct {
	// Counted says that the reply gave a number of input tokens, Reported that
	// it said how many of them were read from a cache. Without the latter,
	// nothing may be called a miss.
	Counted  bool `json:"counted"`
	Reported bool `json:"reported"`
	Read     int  `json:"read"`
	Written  int  `json:"written"`
	Uncached int  `json:"uncached"`
	Total    int  `json:"total"`
}

// merge takes a usage object of any dialect; members that it lacks stay as
// they were, as in streams that report in two steps.
//
// Sources: Anthropic "Prompt caching" and OpenAI "Prompt caching" on usage,
// DeepSeek "Context caching", Gemini's UsageMetadata, Bedrock's TokenUsage.
func (u *Usage) merge(t *tape.Tape, o int) {
	if t.Kind(o) == tape.Array { // a recording's start and end of a stream
		for i := o + 1; i < t.After(o); i = t.After(i) {
			u.merge(t, i)
		}
		return
	}
	if t.Kind(o) != tape.Object {
		return
	}
	num := func(i int) (int, bool) {
		if t.Kind(i) != tape.Number {
			return 0, false
		}
		n, err := strconv.Atoi(string(t.Raw(i)))
		return n, err == nil && n >= 0 && n < 1<<31
	}
	get := func(path ...string) (int, bool) {
		i := o
		for _, p := range path {
			i = t.Get(i, p)
		}
		return num(i)
	}
	read, haveRead := get("cache_read_input_tokens")
	written, haveWritten := get("cache_creation_input_tokens")
	if in, ok := get("input_tokens"); ok && (haveRead || haveWritten || t.Get(o, "input_tokens_details") < 0 && t.Get(o, "total_tokens") < 0) {
		// Anthropic: input_tokens is what stands behind the last marker. A
		// stream's last event may repeat some of the counters.
		u.Counted, u.Uncached = true, in
		if haveRead {
			u.Read, u.Reported = read, true
		}
		if haveWritten {
			u.Written = written
		}
		u.Total = u.Read + u.Written + u.Uncached
		return
	}
	if haveRead || haveWritten {
		if haveRead {
			u.Read, u.Reported = read, true
		}
		if haveWritten {
			u.Written = written
		}
		u.Total = u.Read + u.Written + u.Uncached
		return
	}
	if in, ok := get("inputTokens"); ok { // Bedrock Converse
		u.Counted, u.Uncached = true, in
		if n, ok := get("cacheReadInputTokens"); ok {
			u.Read, u.Reported = n, true
		}
		if n, ok := get("cacheWriteInputTokens"); ok {
			u.Written = n
		}
		u.Total = u.Read + u.Written + u.Uncached
		return
	}
	// The others count what was cached within the total.
	for _, k := range [][]string{{"prompt_tokens"}, {"input_tokens"}, {"promptTokenCount"}, {"total_input_tokens"}} {
		if n, ok := get(k...); ok {
			u.Counted, u.Total = true, n
			break
		}
	}
	for _, k := range [][]string{{"prompt_tokens_details", "cached_tokens"}, {"input_tokens_details", "cached_tokens"}, {"prompt_cache_hit_tokens"}, {"cachedContentTokenCount"}, {"total_cached_tokens"}, {"cached_tokens"}} {
		if n, ok := get(k...); ok {
			u.Read, u.Reported = n, true
			break
		}
	}
	for _, k := range [][]string{{"prompt_tokens_details", "cache_write_tokens"}, {"input_tokens_details", "cache_write_tokens"}} {
		if n, ok := get(k...); ok {
			u.Written = n
			break
		}
	}
	u.Uncached = max(0, u.Total-u.Read-u.Written)
}

// reply takes from a reply what concerns the cache: JSON, or a stream of
// events. t is scratch.
func (x *Exchange) reply(t *tape.Tape, body []byte) {
	trimmed := bytes.TrimLeft(body, " \r\n\t")
	if len(trimmed) == 0 {
		return
	}
	if trimmed[0] == '{' || trimmed[0] == '[' {
		if t.ParseRepeats(body) != nil {
			return
		}
		if t.Kind(0) == tape.Array { // some gateways and SDKs keep a stream as a list
			for i := 1; i < t.After(0); i = t.After(i) {
				x.event(t, i)
			}
			return
		}
		x.event(t, 0)
		return
	}
	for line := range bytes.Lines(body) {
		line, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok || !bytes.Contains(line, []byte("sage")) && !bytes.Contains(line, []byte("diagnostics")) && !bytes.Contains(line, []byte(`"id"`)) {
			continue // neither usage, usageMetadata nor message
		}
		if t.ParseRepeats(bytes.TrimSpace(line)) == nil {
			x.event(t, 0)
		}
	}
}

// event takes what one object of a reply says.
func (x *Exchange) event(t *tape.Tape, o int) {
	for _, k := range []string{"message", "response"} { // where events wrap the reply
		if i := t.Get(o, k); t.Kind(i) == tape.Object {
			x.event(t, i)
		}
	}
	if typ := t.Get(o, "type"); t.Kind(typ) != tape.String || t.Is(typ, "message") || t.Get(o, "object") >= 0 {
		for _, k := range []string{"id", "responseId"} {
			if id := t.Str(t.Get(o, k)); id != "" && x.ResponseID == "" {
				x.ResponseID = id
			}
		}
	}
	for _, k := range []string{"usage", "usageMetadata"} {
		if u := t.Get(o, k); u >= 0 {
			x.Usage.merge(t, u)
		}
	}
	if p := t.Str(t.Get(o, "provider")); p != "" {
		x.Upstream = p
	}
	for _, k := range []string{"diagnostics", "prompt_cache_diagnostics"} {
		if d := t.Get(o, k); t.Kind(d) == tape.Object {
			x.Diagnostics = bytes.Clone(t.Raw(d))
		}
	}
}
