package e2e

// The same claim for replies in one JSON body.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// throughWhole judges a whole reply the way the proxy does; a refused reply
// delivers nothing.
func throughWhole(d wire.Dialect, body []byte) passage {
	var p passage
	rep, err := wire.ReadReply(wire.Route{Dialect: d}, body, nil, wire.DefaultLimits)
	if err != nil {
		p.refused = err
		return p
	}
	p.withheld = len(rep.Withheld) > 0
	var rulings []wire.Ruling
	for _, c := range rep.Calls {
		r := judge(c)
		rulings = append(rulings, r)
		p.want = append(p.want, seenAs(c, r))
		if !r.Replace {
			p.allowed = append(p.allowed, p.want[len(p.want)-1])
		}
	}
	p.out = rep.Release(rulings)
	return p
}

func wholeReaders(d wire.Dialect) []reader {
	model := func(k keys, first, elsewhere bool) func([]byte) ([]call, error) {
		return func(body []byte) ([]call, error) {
			v, err := k.parse(string(body))
			o, ok := v.(obj)
			if err != nil || !ok {
				return nil, fmt.Errorf("no JSON object")
			}
			var out []call
			for _, e := range list(o, "content") {
				if b, _ := e.(obj); d == wire.Messages && str(b, "type") == "tool_use" {
					out = append(out, call{str(b, "id"), str(b, "name"), encode(b["input"])})
				}
			}
			for _, e := range list(o, "output") {
				it, _ := e.(obj)
				if c, ok := itemCall(it); ok && d == wire.Responses {
					out = append(out, c)
				}
			}
			choices := list(o, "choices")
			if d != wire.Chat {
				choices = nil
			}
			if first && len(choices) > 1 {
				choices = choices[:1]
			}
			for _, e := range choices {
				c, _ := e.(obj)
				from := []obj{sub(c, "message")}
				if elsewhere {
					from = append(from, sub(c, "delta"))
				}
				for _, m := range from {
					if f := sub(m, "function_call"); f != nil && elsewhere {
						out = append(out, call{"", str(f, "name"), str(f, "arguments")})
					}
					for _, t := range list(m, "tool_calls") {
						p, _ := t.(obj)
						out = append(out, call{str(p, "id"), str(sub(p, "function"), "name"), str(sub(p, "function"), "arguments")})
					}
				}
			}
			return out, nil
		}
	}
	sdk := reader{name: "Anthropic's Go SDK", read: func(body []byte) ([]call, error) {
		var m anthropic.Message
		err := json.Unmarshal(body, &m)
		return anthropicTurn(&m).calls, err
	}}
	if d == wire.Chat {
		sdk = reader{name: "OpenAI's Go SDK", read: func(body []byte) ([]call, error) {
			var m openai.ChatCompletion
			err := json.Unmarshal(body, &m)
			return openaiTurn(&m).calls, err
		}}
	}
	if d == wire.Responses {
		sdk = reader{name: "OpenAI's Go SDK", read: func(body []byte) ([]call, error) {
			var r responses.Response
			err := json.Unmarshal(body, &r)
			var calls []call
			for _, it := range r.Output {
				if c, ok := sdkItem(it); ok {
					calls = append(calls, c)
				}
			}
			return calls, err
		}}
	}
	return []reader{sdk,
		{name: "the last of equal keys", read: model(lastKey, true, false)},
		{name: "the first of equal keys", read: model(firstKey, false, true)},
		{name: "keys without case", read: model(foldKey, false, true)},
	}
}

// drawWhole is a whole reply; an odd one had something done to its text.
func drawWhole(t *rapid.T, d wire.Dialect, odd bool) []byte {
	var calls []call
	for _, c := range drawCalls(t, odd) {
		if d == wire.Messages && !(c.args == "" || json.Valid([]byte(c.args))) {
			c.args = `{"command":"ls"}`
		}
		calls = append(calls, c)
	}
	var body string
	switch d {
	case wire.Messages:
		body = messagesWhole("text", calls)
	case wire.Responses:
		body = responsesWhole("text", calls)
	default:
		body = chatWhole("text", calls)
	}
	if chance(t, "indented", 20) {
		var b bytes.Buffer
		if json.Indent(&b, []byte(body), "", "\t") == nil {
			body = b.String() + "\n"
		}
	}
	if !odd {
		return []byte(body)
	}
	one := []item{{data: body}}
	for range rapid.IntRange(0, 3).Draw(t, "oddities") {
		switch pick(t, "kind", "generic", "generic", "swap") {
		case "generic":
			one = makeOdd(t, one, []item{{data: body}})
			if len(one) == 0 {
				return nil
			}
			one = one[:1]
		case "swap":
			from := pick(t, "from", `"message":{`, `"content":[`, `"type":"tool_use"`, `"tool_calls":[`, `"choices":[`, `"finish_reason":`, `"index":0,`, `"input":`, `"type":"function"`, `"output":[`, `"type":"function_call"`, `"call_id":`)
			to := pick(t, "to", `"delta":{`, `"message":{"function_call":{"name":"Bash","arguments":"{}"},`, `"type":"new_use"`, `"Content":[`, `"choices":[{"index":1,"message":{"tool_calls":[{"id":"z","function":{"name":"Bash","arguments":"{}"}}]}},`,
				`"index":1,`, ``, `"input":null,"Input":`, `"input":"{}","x":`, `"type":"custom"`, `"content":[{"type":"tool_use","id":"z","name":"Bash","input":{}},`,
				`"Output":[`, `"output":[{"type":"function_call","id":"z","call_id":"z","name":"Bash","arguments":"{}"},`, `"type":"message"`, `"id":`)
			one[0].data = strings.Replace(one[0].data, from, to, 1)
		}
	}
	return []byte(one[0].data)
}

func mismatchWhole(d wire.Dialect, body []byte, p passage, legal bool) string {
	if legal && p.refused != nil {
		return fmt.Sprintf("a legal reply is refused: %v", p.refused)
	}
	for _, c := range p.allowed {
		if r := readings(c.args); len(r) != 1 {
			return fmt.Sprintf("allowed arguments can be read in two ways: %q", r)
		}
	}
	if p.refused != nil {
		return ""
	}
	for _, r := range wholeReaders(d) {
		got, err := r.read(p.out)
		var want, have []call
		for _, c := range p.want {
			want = append(want, canonical(c))
		}
		for _, c := range got {
			if runnable(c, err) {
				have = append(have, canonical(c))
			}
		}
		bad := false
		for _, c := range have {
			bad = bad || !slices.Contains(want, c)
		}
		if bad || legal && (err != nil || !slices.Equal(want, have)) {
			return fmt.Sprintf("%s (error %v)\nreleased: %q\nit has:   %q\nbody: %q\ndelivered: %q", r.name, err, want, have, body, p.out)
		}
	}
	return ""
}

func TestEveryReaderOfAWholeReply(t *testing.T) {
	for _, d := range allDialects {
		for _, odd := range []bool{false, true} {
			name := string(d) + "/legal"
			if odd {
				name = string(d) + "/odd"
			}
			t.Run(name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					body := drawWhole(t, d, odd)
					p := throughWhole(d, body)
					if m := mismatchWhole(d, body, p, !odd); m != "" {
						t.Fatal(m)
					}
					if p.refused == nil && !p.withheld && len(p.allowed) == len(p.want) && !bytes.Equal(p.out, body) {
						t.Fatalf("an allowed reply is not upstream's:\n%q\n%q", body, p.out)
					}
				})
			})
		}
	}
}
