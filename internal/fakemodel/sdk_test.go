package fakemodel_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/guardproxy/guardproxy/internal/fakemodel"
)

// The providers' own libraries read the same message from a stream and from a
// whole reply.

func TestAnthropicSDK(t *testing.T) {
	srv := httptest.NewServer(fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{full}}, fakemodel.Options{Pings: true, Comments: true}))
	defer srv.Close()
	c := anthropic.NewClient(anthropicoption.WithBaseURL(srv.URL), anthropicoption.WithAPIKey("none"))
	params := anthropic.MessageNewParams{Model: "m-1", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}}
	whole, err := c.Messages.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	var streamed anthropic.Message
	s := c.Messages.NewStreaming(context.Background(), params)
	for s.Next() {
		if err := streamed.Accumulate(s.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	for name, m := range map[string]*anthropic.Message{"whole": whole, "stream": &streamed} {
		var got []string
		for _, b := range m.Content {
			got = append(got, b.Type+" "+b.Thinking+b.Text+b.ID+" "+string(b.Input))
		}
		want := []string{
			"thinking The user wants a list.\nI have ls. ",
			"text I look <first> & then say: “done”. ",
			`tool_use toolu_fake_00_0 {"command": "ls -la /tmp && echo \"a  b\"", "note": "päth"}`,
			"tool_use given {}",
		}
		if diff := cmp.Diff(want, got); diff != "" || m.StopReason != "tool_use" || m.ID != "msg_fake_00" {
			t.Errorf("%s: id %s, stop %s (-want +got):\n%s", name, m.ID, m.StopReason, diff)
		}
	}
	page, err := c.Models.List(context.Background(), anthropic.ModelListParams{})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "fake-model" {
		t.Errorf("models: %v, %+v", err, page)
	}
}

func TestOpenAISDK(t *testing.T) {
	srv := httptest.NewServer(fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{full}}, fakemodel.Options{Comments: true}))
	defer srv.Close()
	c := openai.NewClient(openaioption.WithBaseURL(srv.URL+"/v1"), openaioption.WithAPIKey("none"))
	params := openai.ChatCompletionNewParams{Model: "m-1", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}}
	s := c.Chat.Completions.NewStreaming(context.Background(), params)
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			t.Fatalf("the accumulator refuses %s", s.Current().RawJSON())
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	whole, err := c.Chat.Completions.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*openai.ChatCompletion{"whole": whole, "stream": &acc.ChatCompletion} {
		choice := m.Choices[0]
		got := []string{choice.Message.Content}
		for _, call := range choice.Message.ToolCalls {
			got = append(got, call.ID+" "+call.Function.Name+" "+call.Function.Arguments)
		}
		want := []string{
			"I look <first> & then say: “done”.",
			`call_fake_00_0 bash {"command": "ls -la /tmp && echo \"a  b\"", "note": "päth"}`,
			"given now ",
		}
		if diff := cmp.Diff(want, got); diff != "" || choice.FinishReason != "tool_calls" || m.ID != "chatcmpl-fake-00" || m.Usage.TotalTokens == 0 {
			t.Errorf("%s: id %s, finish %s, usage %+v (-want +got):\n%s", name, m.ID, choice.FinishReason, m.Usage, diff)
		}
	}
	page, err := c.Models.List(context.Background())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "fake-model" {
		t.Errorf("models: %v, %+v", err, page)
	}
}

func TestOpenAIResponsesSDK(t *testing.T) {
	round := fakemodel.Round{Items: append(slices.Clone(full.Items), fakemodel.Call{Tool: "exec", Item: "custom_tool_call", Args: "text(`ü`)"},
		fakemodel.Call{Tool: "local_shell", Item: "local_shell_call", Args: `{"type":"exec","command":["ls"],"env":{}}`})}
	srv := httptest.NewServer(fakemodel.New(fakemodel.Script{Rounds: []fakemodel.Round{round}}, fakemodel.Options{Comments: true}))
	defer srv.Close()
	c := openai.NewClient(openaioption.WithBaseURL(srv.URL+"/v1"), openaioption.WithAPIKey("none"))
	params := responses.ResponseNewParams{Model: "m-1", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
	whole, err := c.Responses.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Responses.NewStreaming(context.Background(), params)
	streamed := &responses.Response{}
	var last int64 = -1
	said := ""
	for s.Next() {
		ev := s.Current()
		if ev.SequenceNumber != last+1 {
			t.Errorf("event %d after %d", ev.SequenceNumber, last)
		}
		last = ev.SequenceNumber
		switch ev := ev.AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			said += ev.Delta
		case responses.ResponseCompletedEvent:
			streamed = &ev.Response
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	for name, m := range map[string]*responses.Response{"whole": whole, "stream": streamed} {
		var got []string
		for _, it := range m.Output {
			switch it := it.AsAny().(type) {
			case responses.ResponseReasoningItem:
				got = append(got, it.Summary[0].Text)
			case responses.ResponseFunctionToolCall:
				got = append(got, it.CallID+" "+it.Name+" "+it.Arguments)
			case responses.ResponseCustomToolCall:
				got = append(got, it.CallID+" "+it.Name+" "+it.Input)
			case responses.ResponseOutputItemLocalShellCall:
				got = append(got, it.CallID+" "+strings.Join(it.Action.Command, " "))
			}
		}
		want := []string{
			"The user wants a list.\nI have ls.",
			`call_fake_00_0 bash {"command": "ls -la /tmp && echo \"a  b\"", "note": "päth"}`,
			"given now ",
			"call_fake_00_2 exec text(`ü`)",
			"call_fake_00_3 ls",
		}
		if diff := cmp.Diff(want, got); diff != "" || m.OutputText() != "I look <first> & then say: “done”." || said != m.OutputText() || m.Status != "completed" || m.ID != "resp_fake_00" || m.Usage.TotalTokens == 0 {
			t.Errorf("%s: id %s, status %s, said %q (-want +got):\n%s", name, m.ID, m.Status, said, diff)
		}
	}
}
