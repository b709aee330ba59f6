package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Dialect
		in   string
		want string
	}{
		{"messages", Messages, `{"model":"m","stream":true,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"1","name":"A","input":{"x":1}},{"type":"tool_use","id":"2","name":"B","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"},{"type":"text","text":"reminder"}]}],"tools":[{"name":"A"},{"type":"web_search_20250305","name":"web_search"},{"type":"mcp_toolset"}]}`,
			`m true turns=1 calls=2 tools=[A web_search ] past=[A {"x":1} B {}]`},
		{"a new turn", Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"A","input":{}}]},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`,
			` false turns=2 calls=0 tools=[] past=[A {}]`},
		{"a system message inside", Messages, `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"assistant","content":"plain"}]}`, ` false turns=1 calls=0 tools=[] past=[]`},
		{"chat", Chat, `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"A","arguments":"{\"x\": \"\\u00e9\"}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}],"tools":[{"type":"function","function":{"name":"A"}},{"type":"custom","custom":{"name":"C"}}]}`,
			`m false turns=1 calls=1 tools=[A ] past=[A {"x": "\u00e9"}]`},
		{"nothing that we know", Messages, `{"x":1}`, ` false turns=0 calls=0 tools=[] past=[]`},
		{"odd types everywhere", Messages, `{"model":1,"stream":"yes","messages":[1,{"role":2},{"role":"assistant","content":[3,{"type":"tool_use"}]}],"tools":[4,{"name":5}]}`, ` false turns=0 calls=1 tools=[ ] past=[ ]`},
		{"odd types in chat", Chat, `{"messages":[{"role":"assistant","tool_calls":[1,{"function":2}]},{"role":"assistant","tool_calls":{}}],"tools":{}}`, ` false turns=0 calls=2 tools=[] past=[   ]`},
	} {
		q, err := Read(Route{Dialect: c.d}, []byte(c.in), nil)
		if err != nil {
			t.Fatal(c.name, err)
		}
		var tools, past []string
		for _, tool := range q.Tools {
			tools = append(tools, tool.Name)
			if !json.Valid([]byte(c.in[tool.Start:tool.End])) {
				t.Errorf("%s: tool %q is no JSON", c.name, c.in[tool.Start:tool.End])
			}
		}
		for _, p := range q.Past {
			past = append(past, q.Name(p)+" "+string(q.Arguments(p)))
		}
		if got := fmt.Sprint(q.Model, " ", q.Stream, " turns=", q.Turns, " calls=", q.Calls, " tools=", tools, " past=", past); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestMentions(t *testing.T) {
	for args, want := range map[string]bool{`{"a":"gp1:x"}`: true, `{"a":"\u0067p1:x"}`: true, `{"a":"gp2:"}`: false, `{"a":"\u4e2d"}`: false} {
		for _, d := range Dialects {
			in := `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"A","input":` + args + `}]}]}`
			if d == Chat {
				quoted, _ := json.Marshal(args)
				in = `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"A","arguments":` + string(quoted) + `}}]}]}`
			}
			if d == Responses {
				quoted, _ := json.Marshal(args)
				in = `{"input":[{"type":"function_call","call_id":"1","name":"A","arguments":` + string(quoted) + `}]}`
			}
			q, err := Read(Route{Dialect: d}, []byte(in), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := q.Mentions(q.Past[0], "gp1:"); got != want {
				t.Errorf("%s %s: %v", d, args, got)
			}
		}
	}
}

func TestGuess(t *testing.T) {
	for in, want := range map[string]Dialect{
		`{"tools":[{"name":"a","input_schema":{}}]}`:              Messages,
		`{"tools":[{"type":"function","function":{"name":"a"}}]}`: Chat,
		`{"tools":[{"type":"x"},{"function":{}}]}`:                Chat,
		`{"messages":[]}`: Messages, `no json`: Messages, `[]`: Messages,
	} {
		if got := Guess([]byte(in)); got != want {
			t.Errorf("Guess(%s) = %s", in, got)
		}
	}
}

// FuzzRead: no body makes Read or what follows it panic, and restoring any
// past call leaves a body that is JSON and says what was put there.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"A","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"}]}]}],"tools":[{"name":"A"}]}`), false)
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"A","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1"}],"tools":[{"function":{"name":"A"}}]}`), true)
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"A","input":{}},{"type":"tool_use","id":"1","name":"A","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":null,"is_error":0}]}]}`), false)
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		d := Messages
		if chat {
			d = Chat
		}
		q, err := Read(Route{Dialect: d}, body, nil)
		if err != nil {
			return
		}
		for _, tool := range q.Tools {
			Declare(d, body[tool.Start:tool.End])
		}
		for i, p := range q.Past {
			q.Mentions(p, "gp1:")
			edits, answered := q.Restore(p, "restored", []byte(`{"back":true}`), `the "text"`)
			out := Splice(bytes.Clone(body), edits)
			if len(edits) == 0 {
				continue
			}
			again, err := Read(Route{Dialect: d}, out, nil)
			if err != nil {
				t.Fatalf("restoring call %d breaks the body: %v\n%s\n%s", i, err, body, out)
			}
			if got := again.Past[i]; again.Name(got) != "restored" || string(again.Arguments(got)) != `{"back":true}` {
				t.Fatalf("call %d is %s %s", i, again.Name(got), again.Arguments(got))
			}
			if answered && !strings.Contains(string(out), `the \"text\"`) {
				t.Fatalf("the result is not there: %s", out)
			}
		}
	})
}

// A result belongs to the latest call before it: servers that count ids anew in
// each reply repeat them, and what comes later must not change what was said.
func TestToolOfARepeatedID(t *testing.T) {
	for name, c := range map[string]struct {
		route Route
		body  string
		want  []string
	}{
		"Messages": {Route{Dialect: Messages}, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"0","name":"a","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"0","content":"x"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"0","name":"b","input":{}},{"type":"tool_use","id":"1","name":"c","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"0","content":"x"},{"type":"tool_result","tool_use_id":"1","content":"x"},{"type":"tool_result","tool_use_id":"2","content":"x"}]}]}`, []string{"a", "b", "c", ""}},
		"twice in one message":    {Route{Dialect: Messages}, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"0","name":"a","input":{}},{"type":"tool_use","id":"0","name":"b","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"0","content":"x"}]}]}`, []string{""}},
		"a call that comes later": {Route{Dialect: Chat}, `{"messages":[{"role":"tool","tool_call_id":"0","content":"x"},{"role":"assistant","tool_calls":[{"id":"0","function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"0","content":"x"}]}`, []string{"", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := Read(c.route, []byte(c.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range q.Texts {
				if x.Role == "tool" {
					got = append(got, q.Tool(x))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
