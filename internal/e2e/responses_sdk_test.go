package e2e

// The Responses dialect behind the face of the other SDKs, and what it has
// beyond them.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/guardproxy/guardproxy/internal/fakemodel"
	"github.com/guardproxy/guardproxy/proxy"
)

// secret is what stands for encrypted reasoning.
const secret = "ZmFrZW1vZGVsIHNpZ25hdHVyZQ=="

// responded renders a reply: reasoning, text, functions.
func responded(text string, calls []call, n int, stream bool) string {
	items := []fakemodel.Item{fakemodel.Thinking("hm")}
	if text != "" {
		items = append(items, fakemodel.Text(text))
	}
	for _, c := range calls {
		items = append(items, fakemodel.Call{Tool: c.name, Args: c.args, ID: c.id})
	}
	m := fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{{Items: items}}}, fakemodel.Options{Fragment: n})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("POST", "/v1/responses", strings.NewReader(fmt.Sprintf(`{"model":"gpt-test","stream":%v,"input":"go"}`, stream))))
	return w.Body.String()
}

type openaiResponses struct {
	client  openai.Client
	stream  bool
	history responses.ResponseInputParam
}

func openResponses(url string, stream bool, retries int) conversation {
	return &openaiResponses{
		client:  openai.NewClient(ooption.WithBaseURL(url+"/v1"), ooption.WithAPIKey("test-key"), ooption.WithMaxRetries(retries)),
		stream:  stream,
		history: responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("go", responses.EasyInputMessageRoleUser)},
	}
}

func (c *openaiResponses) params() responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: "gpt-test", Store: openai.Bool(false), Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: c.history}}
	for _, d := range declared("bash") {
		tool := responses.ToolParamOfFunction(d.name, map[string]any{"type": "object", "properties": d.properties, "required": d.required}, false)
		tool.OfFunction.Description = openai.String("A tool of the test.")
		p.Tools = append(p.Tools, tool)
	}
	return p
}

// ask takes a call when its item is done, as Codex does, and expects the same
// items in the last response.
func (c *openaiResponses) ask(ctx context.Context) (turn, error) {
	var out []responses.ResponseOutputItemUnion
	var t turn
	if c.stream {
		s := c.client.Responses.NewStreaming(ctx, c.params())
		defer s.Close()
		ended := false
		last := int64(-1)
		for s.Next() {
			ev := s.Current()
			if ev.Type != "error" && ev.SequenceNumber <= last {
				return t, fmt.Errorf("event %d after %d", ev.SequenceNumber, last)
			}
			last = ev.SequenceNumber
			switch e := ev.AsAny().(type) {
			case responses.ResponseTextDeltaEvent:
				t.text += e.Delta
			case responses.ResponseOutputItemDoneEvent:
				if e.OutputIndex != int64(len(out)) {
					return t, fmt.Errorf("item %d, where %d is next", e.OutputIndex, len(out))
				}
				out = append(out, e.Item)
				t.take(e.Item)
			case responses.ResponseErrorEvent:
				return t, errors.New(e.Message)
			case responses.ResponseCompletedEvent:
				ended, t.stop = true, string(e.Response.Status)
				same := slices.EqualFunc(out, e.Response.Output, func(a, b responses.ResponseOutputItemUnion) bool { return a.RawJSON() == b.RawJSON() })
				if !same {
					return t, fmt.Errorf("the items are %s, and in the end %s", raws(out), raws(e.Response.Output))
				}
			}
		}
		if err := s.Err(); err != nil {
			return t, err
		}
		if !ended {
			return t, io.ErrUnexpectedEOF
		}
	} else {
		got, err := c.client.Responses.New(ctx, c.params())
		if err != nil {
			return turn{}, err
		}
		out = got.Output
		t.text, t.stop = got.OutputText(), string(got.Status)
		for _, it := range out {
			t.take(it)
		}
	}
	for _, it := range out {
		var in responses.ResponseInputItemUnionParam
		switch it := it.AsAny().(type) {
		case responses.ResponseOutputMessage:
			p := it.ToParam()
			in.OfOutputMessage = &p
		case responses.ResponseFunctionToolCall:
			p := it.ToParam()
			in.OfFunctionCall = &p
		case responses.ResponseReasoningItem:
			p := it.ToParam()
			in.OfReasoning = &p
			if it.EncryptedContent != secret {
				return t, fmt.Errorf("reasoning is %s", it.RawJSON())
			}
		default:
			return t, fmt.Errorf("an item of type %s", it)
		}
		c.history = append(c.history, in)
	}
	return t, nil
}

func (t *turn) take(it responses.ResponseOutputItemUnion) {
	if c, ok := it.AsAny().(responses.ResponseFunctionToolCall); ok {
		t.calls = append(t.calls, call{c.CallID, c.Name, c.Arguments})
	}
}

func raws(items []responses.ResponseOutputItemUnion) (s []string) {
	for _, it := range items {
		s = append(s, it.RawJSON())
	}
	return s
}

func (c *openaiResponses) answer(results []result) {
	for _, r := range results {
		out := responses.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(r.id), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(r.text)}}
		c.history = append(c.history, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &out})
	}
}

// past reads the calls of a Responses request.
func pastItems(t fatal, input json.RawMessage) (past []pastCall) {
	var items []struct {
		Type, Name, Arguments string
		CallID                string `json:"call_id"`
		Output                json.RawMessage
		EncryptedContent      string `json:"encrypted_content"`
	}
	if err := json.Unmarshal(input, &items); err != nil {
		t.Fatalf("upstream got no items: %v\n%s", err, input)
	}
	for _, it := range items {
		switch it.Type {
		case "function_call":
			past = append(past, pastCall{call: call{it.CallID, it.Name, it.Arguments}})
		case "function_call_output":
			for i := range past {
				if past[i].id == it.CallID && past[i].result.id == "" {
					past[i].result = result{it.CallID, plainText(it.Output), false}
				}
			}
		case "reasoning":
			if it.EncryptedContent != secret {
				t.Errorf("upstream reads reasoning %q", it.EncryptedContent)
			}
		}
	}
	return past
}

// The SDK's accumulator makes the same response of a stream through the proxy
// as without it, whatever the items are.
func TestSDKAccumulatesTheSameResponse(t *testing.T) {
	items := []fakemodel.Item{
		fakemodel.Thinking("I think\nof it."), fakemodel.Text("Now: “this”."),
		fakemodel.Call{Tool: "bash", Args: `{ "command": "echo \u00e9 é \/ 1.0" }`},
		fakemodel.Call{Tool: "frob", Item: "custom_tool_call", Args: "free\ntext `é`"},
		fakemodel.Call{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","command":["ls"],"env":{}}`},
		fakemodel.Text("Then."), fakemodel.Call{Tool: "lookup"},
	}
	body := fakemodel.New(fakemodel.Script{Choose: func(fakemodel.History) fakemodel.Round { return fakemodel.Round{Items: items} }}, fakemodel.Options{Fragment: 5})
	direct := quiet(body, &lockedBuffer{})
	defer direct.Close()
	accumulate := func(url string) (snapshot responses.ResponseAccumulatorDetails, whole string) {
		client := openai.NewClient(ooption.WithBaseURL(url+"/v1"), ooption.WithAPIKey("test-key"), ooption.WithMaxRetries(0))
		p := (&openaiResponses{history: responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("go", responses.EasyInputMessageRoleUser)}}).params()
		p.Tools = append(p.Tools, responses.ToolParamOfCustom("frob"), responses.ToolUnionParam{OfLocalShell: &responses.ToolLocalShellParam{}})
		s := client.Responses.NewStreaming(t.Context(), p)
		defer s.Close()
		var acc responses.ResponseAccumulator
		for s.Next() {
			var ev responses.ResponsesServerEventUnion
			if err := json.Unmarshal([]byte(s.Current().RawJSON()), &ev); err != nil {
				t.Fatal(err)
			}
			if err := acc.AddEvent(ev); err != nil {
				t.Fatal(err)
			}
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		made, err := acc.ReconstructedResponse()
		if err != nil {
			t.Fatal(err)
		}
		return acc.DetailedSnapshot(), made.RawJSON()
	}
	// Upstream's answer repeats the tools that it reads, so nothing is narrowed.
	p := start(t, withUpstream(direct.URL), func(o *proxy.Options) { o.Policy.Approval = "ask" })
	want, wantWhole := accumulate(direct.URL)
	got, gotWhole := accumulate(p.url)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if gotWhole != wantWhole || len(p.guard.calls()) != 4 {
		t.Errorf("%d judged:\n%s\n%s", len(p.guard.calls()), gotWhole, wantWhole)
	}
}

// A refusal first, in the middle and last, among calls of every kind and
// reasoning: the client has every item in its place, and only the refused ones
// differ.
func TestRefusalsAmongItems(t *testing.T) {
	kinds := []struct{ item, tool, ok, no string }{
		{"", "bash", `{"command":"echo one"}`, `{"command":"echo forbidden"}`},
		{"custom_tool_call", "frob", "text", "forbidden text"},
		{"local_shell_call", "local_shell", `{"type":"exec","command":["ls"],"env":{}}`, `{"type":"exec","command":["ls","forbidden"],"env":{}}`},
	}
	for at := range 5 {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint("place ", at, " stream ", stream), func(t *testing.T) {
				items := []fakemodel.Item{fakemodel.Thinking("a")}
				for i := range 5 {
					k := kinds[(i+at)%len(kinds)]
					args := k.ok
					if i == at {
						args = k.no
					}
					items = append(items, fakemodel.Call{Tool: k.tool, Item: k.item, Args: args, ID: fmt.Sprint("c", i)}, fakemodel.Thinking(fmt.Sprint("b", i)))
				}
				m := fakemodel.New(fakemodel.Script{Choose: func(fakemodel.History) fakemodel.Round { return fakemodel.Round{Items: items} }}, fakemodel.Options{Fragment: 4})
				up := quiet(m, &lockedBuffer{})
				defer up.Close()
				r := start(t, withUpstream(up.URL))
				body := fmt.Sprintf(`{"model":"m","store":false,"stream":%v,"input":"go","tools":[{"type":"function","name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}},{"type":"custom","name":"frob"},{"type":"local_shell"}]}`, stream)
				_, _, got, err := post(t, r.url+"/v1/responses", body)
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				m.ServeHTTP(w, httptest.NewRequest("POST", "/v1/responses", bytes.NewReader(m.Requests()[0].Body)))
				have, sent := lastOutput(t, got), lastOutput(t, w.Body.String())
				if len(have) != len(sent) {
					t.Fatalf("%d items of %d", len(have), len(sent))
				}
				for i := range have {
					refused := i == 1+2*at
					if (have[i] == sent[i]) == refused {
						t.Errorf("item %d is %s\nwas %s", i, have[i], sent[i])
					}
					if refused != strings.Contains(have[i], "guardproxy: not executed") {
						t.Errorf("item %d is %s", i, have[i])
					}
				}
				if strings.Contains(got, forbidden) && !strings.Contains(got, "nothing that holds forbidden") || strings.Contains(strings.ReplaceAll(got, "nothing that holds forbidden", ""), forbidden) {
					t.Errorf("the refused call is still there:\n%s", got)
				}
			})
		}
	}
}

// lastOutput are the items of a reply, raw.
func lastOutput(t *testing.T, body string) (items []string) {
	t.Helper()
	if i := strings.LastIndex(body, "data: "); i >= 0 {
		body = body[i+6:]
	}
	var r struct {
		Output   []json.RawMessage
		Response struct{ Output []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	for _, it := range append(r.Output, r.Response.Output...) {
		items = append(items, string(it))
	}
	return items
}

// read is a call as the differential tests name it.
func (d dialect) read(c call) call {
	if d.responses() {
		c.name = "function_call " + c.name
	}
	return c
}
