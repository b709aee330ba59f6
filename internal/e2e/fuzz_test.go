package e2e

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// Fuzzing changes the bytes of streams directly. The seeds are streams by the
// grammar and odd ones.

func seeds(f *testing.F, d wire.Dialect) {
	calls := []call{{"call_0", "Bash", `{"command":"ls"}`}, {"call_1", "Read", `{"file_path":"forbidden"}`}, {"call_2", "lookup", ""}}
	stream := messagesStream
	switch d {
	case wire.Chat:
		stream = chatStream
	case wire.Responses:
		stream = responsesStream
	}
	f.Add([]byte(stream("text", calls, 0)))
	f.Add([]byte(stream("", calls, 3)))
	f.Add([]byte(stream("text", nil, 0)))
	for i := range 12 {
		f.Add(rapid.Custom(func(t *rapid.T) []byte { return drawStream(t, d, i%2 == 1) }).Example(i))
	}
}

func FuzzMessages(f *testing.F) { fuzzDialect(f, wire.Messages) }

func FuzzChat(f *testing.F) { fuzzDialect(f, wire.Chat) }

func FuzzResponses(f *testing.F) { fuzzDialect(f, wire.Responses) }

func fuzzDialect(f *testing.F, d wire.Dialect) {
	seeds(f, d)
	f.Fuzz(func(t *testing.T, stream []byte) {
		if m := mismatch(d, stream, through(d, stream), false); m != "" {
			t.Error(m)
		}
		if m := mismatchWhole(d, stream, throughWhole(d, stream), false); m != "" {
			t.Error(m)
		}
	})
}
