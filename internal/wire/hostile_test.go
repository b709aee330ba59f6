package wire

import (
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// TestArgumentsInOtherDeltas: some gateways append partial_json of any delta to
// the last call, whatever the delta's type.
func TestArgumentsInOtherDeltas(t *testing.T) {
	ev := func(data string) string {
		typ, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
		return "event: " + typ + "\ndata: " + data + "\n\n"
	}
	for _, typ := range []string{"thinking_delta", "signature_delta", "citations_delta", "text_delta"} {
		in := ev(`{"type":"message_start","message":{"content":[]}}`) +
			ev(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"run","input":{}}}`) +
			ev(`{"type":"content_block_stop","index":0}`) +
			ev(`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":""}}`) +
			ev(`{"type":"content_block_delta","index":1,"delta":{"type":"`+typ+`","partial_json":"{\"command\":\"evil\"}"}}`)
		rd := sse.NewReader(strings.NewReader(in), 1<<20)
		st := NewStream(Messages, nil, DefaultLimits)
		var out strings.Builder
		for {
			e, err := rd.Next()
			if err != nil {
				break
			}
			step, err := st.Feed(e)
			if err != nil {
				break
			}
			out.Write(step.Flow)
			if step.Calls != nil {
				out.Write(st.Release(make([]Ruling, len(step.Calls))))
			}
		}
		if strings.Contains(out.String(), "evil") {
			t.Errorf("arguments in a %s flowed", typ)
		}
	}
}
