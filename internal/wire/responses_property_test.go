package wire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// drawResponses draws a legal stream of n items at most, with odd spellings,
// and says which items are calls. The arguments of call k hold the word
// secret-k-.
func drawResponses(r *rapid.T, most int) (data []string) {
	var out []string
	var output []string
	out = append(out, rCreated)
	var ends []string
	noIndex, called := rapid.IntRange(0, 3).Draw(r, "no index") == 0, false
	together := rapid.IntRange(0, 3).Draw(r, "end together") == 0
	end := func(data string) {
		if together {
			ends = append(ends, data)
		} else {
			out = append(out, data)
		}
	}
	split := func(s string, kind string, i int, id string) {
		for len(s) > 0 {
			n := rapid.IntRange(1, len(s)).Draw(r, "fragment")
			for n < len(s) && s[n]&0xC0 == 0x80 {
				n++
			}
			out = append(out, rDelta(kind, i, id, s[:n]))
			if rapid.IntRange(0, 5).Draw(r, "keep-alive") == 0 {
				out = append(out, `{"type":"keepalive","n":0}`)
			}
			s = s[n:]
		}
	}
	for i := range rapid.IntRange(0, most).Draw(r, "items") {
		id := fmt.Sprint("i", i)
		secret := fmt.Sprintf("secret-%d-", i)
		kinds := []string{"text", "reasoning", "function", "function", "custom", "shell", "local", "patch"}
		if together {
			kinds = kinds[:5]
		}
		if noIndex { // at most one call, a function
			kinds = kinds[:3]
			if called {
				kinds = kinds[:2]
			}
		}
		switch rapid.SampledFrom(kinds).Draw(r, "kind") {
		case "text":
			for _, d := range rText(i)[:4] {
				out = append(out, strings.ReplaceAll(d, "msg_1", "msg_"+id))
			}
			end(strings.Replace(rText(i)[4], "msg_1", "msg_"+id, 1))
			output = append(output, strings.Replace(rMessage, "msg_1", "msg_"+id, 1))
		case "reasoning":
			item := strings.NewReplacer("gAAA", "gAAA"+id, "rs_1", "rs_"+id).Replace(rReasoning)
			out = append(out, rAdded(i, item))
			end(rDone(i, item))
			output = append(output, item)
		case "function":
			called = true
			args := strings.Replace(rapid.SampledFrom([]string{`{"x":"S"}`, `{ "command" : "S \"é\" 😀" , "n":1.0}`, `S no json`}).Draw(r, "arguments"), "S", secret, 1)
			out = append(out, rAdded(i, rFunc(id, "T", "")))
			fragments := rapid.Bool().Draw(r, "fragments")
			if fragments {
				split(args, "function_call_arguments", i, "fc_"+id)
			}
			if together && !fragments || rapid.Bool().Draw(r, "joined") {
				out = append(out, rArgsDone(i, "fc_"+id, args))
			}
			end(rDone(i, rFunc(id, "T", args)))
			output = append(output, rFunc(id, "T", args))
		case "custom":
			text := secret + "\n*** é"
			out = append(out, rAdded(i, rCustom(id, "T", "")))
			split(text, "custom_tool_call_input", i, "ctc_"+id)
			out = append(out, rInputDone(i, "ctc_"+id, text))
			end(rDone(i, rCustom(id, "T", text)))
			output = append(output, rCustom(id, "T", text))
		case "shell":
			item := strings.NewReplacer(`"sh_1"`, `"sh_`+id+`"`, `"call_id":"s"`, `"call_id":"`+id+`"`, `"ls","pwd"`, `"`+secret+`"`).Replace(rShell)
			out = append(out, rAdded(i, strings.Replace(item, `["`+secret+`"]`, `[]`, 1)),
				fmt.Sprintf(`{"type":"response.shell_call_command.added","n":0,"output_index":%d,"command_index":0,"command":%q}`, i, secret))
			end(rDone(i, item))
			output = append(output, item)
		case "local":
			item := strings.NewReplacer(`"lsh_1"`, `"lsh_`+id+`"`, `"call_id":"l"`, `"call_id":"`+id+`"`, `"ls"`, `"`+secret+`"`).Replace(rLocal)
			out = append(out, rAdded(i, item))
			end(rDone(i, item))
			output = append(output, item)
		case "patch":
			item := strings.NewReplacer(`"apc_1"`, `"apc_`+id+`"`, `"call_id":"p"`, `"call_id":"`+id+`"`, `+y`, secret).Replace(rPatch)
			out = append(out, rAdded(i, strings.Replace(item, "@@\\n-x\\n"+secret+"\\n", "", 1)))
			split("@@\n-x\n"+secret+"\n", "apply_patch_call_operation_diff", i, "apc_"+id)
			end(rDone(i, item))
			output = append(output, item)
		}
	}
	if together {
		ends = rapid.Permutation(ends).Draw(r, "ends")
	}
	out = append(out, ends...)
	last := rapid.SampledFrom([]string{"completed", "completed", "incomplete", "failed"}).Draw(r, "end")
	if rapid.Bool().Draw(r, "output at the end") {
		out = append(out, rEnd(last, output...))
	} else {
		out = append(out, rEnd(last))
	}
	if noIndex {
		return bare(out)
	}
	return out
}

// spelled writes events in one of the ways that are legal.
func spelled(r *rapid.T, data []string) string {
	in := numbered(data...)
	if rapid.Bool().Draw(r, "no event lines") {
		var b strings.Builder
		for line := range strings.Lines(in) {
			if !strings.HasPrefix(line, "event: ") {
				b.WriteString(line)
			}
		}
		in = b.String()
	}
	if rapid.IntRange(0, 3).Draw(r, "CRLF") == 0 {
		in = strings.ReplaceAll(in, "\n", "\r\n")
	}
	if rapid.IntRange(0, 3).Draw(r, "[DONE]") == 0 {
		in += "data: [DONE]\n\n"
	}
	return in
}

// chunks reads a text in pieces of drawn sizes.
type chunks struct {
	text  string
	sizes []int
}

func (c *chunks) Read(p []byte) (int, error) {
	n := 1 << 20
	if len(c.sizes) > 0 {
		n, c.sizes = c.sizes[0], c.sizes[1:]
	}
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n = copy(p, c.text[:min(n, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

// TestResponsesInPieces: an allowed reply is identical, however it arrives, and
// nothing of a call flows before it was given out for judgement.
func TestResponsesInPieces(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := spelled(r, drawResponses(r, 5))
		st := NewStream(Responses, nil, DefaultLimits)
		rd := sse.NewReader(&chunks{in, rapid.SliceOfN(rapid.IntRange(1, 90), 0, 40).Draw(r, "reads")}, 1<<20)
		var out, judged bytes.Buffer
		leaked := func(b []byte) {
			for k := range 5 {
				if s := fmt.Appendf(nil, "secret-%d-", k); bytes.Contains(b, s) && !bytes.Contains(judged.Bytes(), s) {
					r.Fatalf("%s flowed before it was judged: %s", s, b)
				}
			}
		}
		for {
			ev, err := rd.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				r.Fatal(err)
			}
			step, err := st.Feed(ev)
			if err != nil {
				r.Fatalf("%v\n%s", err, in)
			}
			leaked(step.Flow)
			out.Write(step.Flow)
			if step.Calls != nil {
				for _, c := range step.Calls {
					judged.Write(c.Args)
				}
				out.Write(st.Release(make([]Ruling, len(step.Calls))))
			}
			if st.Holding() && step.Flow != nil {
				r.Fatalf("an event flowed while others are held: %s", step.Flow)
			}
		}
		if err := st.End(); err != nil || out.String() != in {
			r.Fatalf("%v\ngot  %s\nwant %s", err, out.String(), in)
		}
	})
}

// TestResponsesRefusedAnywhere: whichever calls are refused, and in whatever
// way, nothing of them is left, everything else is as it was, and what the
// client gets is a legal stream with the same places.
func TestResponsesRefusedAnywhere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		data := drawResponses(r, 5)
		in := spelled(r, data)
		var rulings []Ruling
		rule := func(c Call) Ruling {
			v := rapid.SampledFrom([]Ruling{{}, {},
				{Replace: true, Name: c.Name, Args: []byte(`{"refused":"in kind"}`)},
				{Replace: true, Name: "no", Args: []byte(`{"refused":"\"other\""}`)},
				{Replace: true, Message: "refused"}}).Draw(r, "ruling")
			rulings = append(rulings, v)
			return v
		}
		out, calls, err := play(Responses, in, nil, DefaultLimits, rule)
		if err != nil {
			r.Fatalf("%v\n%s", err, in)
		}
		// What is left, and what is not.
		all := out
		for i, v := range rulings {
			var at int
			for k := range 6 {
				if strings.Contains(calls[i], fmt.Sprintf("secret-%d-", k)) {
					at = k
				}
			}
			word := fmt.Sprintf("secret-%d-", at)
			if v.Replace && strings.Contains(all, word) {
				r.Fatalf("%s was refused and is there: %s", word, all)
			}
			if !v.Replace && strings.Count(all, word) != strings.Count(in, word) {
				r.Fatalf("%s was allowed and is not there as often: %s", word, all)
			}
		}
		for _, d := range strings.SplitAfter(strings.ReplaceAll(in, "\r", ""), "\n\n") {
			if !strings.Contains(d, "secret") && !strings.Contains(d, "_call") && !strings.Contains(d, `response.c`) && !strings.Contains(strings.ReplaceAll(out, "\r", ""), d) {
				r.Fatalf("an event without a call is gone: %s", d)
			}
		}
		// The places.
		rd, last, next := sse.NewReader(strings.NewReader(out), 1<<20), -1, 0
		for ev, err := rd.Next(); err == nil; ev, err = rd.Next() {
			var t tape.Tape
			if t.Parse(ev.Data) != nil {
				continue
			}
			if n, ok := t.Int(t.Get(0, "sequence_number")); ok {
				if n <= last {
					r.Fatalf("sequence number %d after %d", n, last)
				}
				last = n
			}
			if t.Is(t.Get(0, "type"), "response.output_item.added") {
				if n, ok := t.Int(t.Get(0, "output_index")); ok && n != next {
					r.Fatalf("output_index %d, want %d", n, next)
				}
				next++
			}
		}
		// What came out is legal, and has the calls that were ruled to be there.
		var want, got []string
		for i, v := range rulings {
			id := strings.Fields(calls[i])[1]
			switch {
			case v.Message != "":
			case v.Replace:
				want = append(want, fmt.Sprintf("%s %s %s", id, v.Name, v.Args))
			default:
				_, rest, _ := strings.Cut(calls[i], " ")
				want = append(want, rest)
			}
		}
		again, calls2, err := play(Responses, out, nil, DefaultLimits, allow)
		for _, c := range calls2 {
			_, rest, _ := strings.Cut(c, " ")
			got = append(got, rest)
		}
		if err != nil || again != out || strings.Join(got, "\n") != strings.Join(want, "\n") {
			r.Fatalf("%v\ncalls %q\nwant  %q\n%s", err, got, want, out)
		}
	})
}

// FuzzResponses: no input makes a stream panic, lets through what is no prefix
// of it, or is seen in another way when its calls are replaced; and a whole
// reply that is read at all is legal again when its calls are replaced.
func FuzzResponses(f *testing.F) {
	f.Add(numbered(rStream(rText(0), rCall(1, "a", "bash", `{"x":1}`), rEnd("completed", rMessage, rFunc("a", "bash", `{"x":1}`)))...))
	f.Add(numbered(rStream(rAdded(0, rUnknown), rDone(0, rUnknown), rAdded(1, rShell), rDone(1, rShell), rEnd("failed", rUnknown, rShell))...))
	f.Add(numbered(rStream(rDone(0, rPatch), rDone(1, rComputer), rDone(2, rSearch), rDone(3, rApproval), rEnd("incomplete"))...))
	f.Add(numbered(rEnd("completed", rCustom("a", "exec", "text"), rLocal)))
	f.Add(numbered(rDelta("output_text", 1, "msg_1", "i"), rDone(1, rMessage), rAdded(2, rFunc("a", "A", "{}")), `{"type":"error","n":0}`))
	f.Add(`{"id":"r","output":[` + rFunc("a", "A", "{}") + `,` + rUnknown + `,` + rLocal + `]}`)
	f.Fuzz(func(t *testing.T, in string) {
		replaceWhole(t, in)
		out, calls, err := play(Responses, in, nil, DefaultLimits, allow)
		if err == nil && !strings.Contains(in, "error") && !strings.Contains(in, "failed") && !strings.Contains(in, "incomplete") && !strings.Contains(out, "withheld") && !strings.HasPrefix(in, out) {
			t.Fatalf("what flowed is no prefix of the stream:\n%q\n%q", in, out)
		}
		out2, calls2, err2 := play(Responses, in, nil, DefaultLimits, replace)
		if fmt.Sprint(calls, err) != fmt.Sprint(calls2, err2) {
			t.Fatalf("replacing calls changes what is seen: %q %v, %q %v", calls, err, calls2, err2)
		}
		if err != nil {
			return
		}
		_, calls3, err3 := play(Responses, out2, nil, DefaultLimits, allow)
		if err3 != nil || len(calls3) != len(calls) {
			t.Fatalf("the replaced stream is not legal: %v\n%q\n%q", err3, in, out2)
		}
		for _, c := range calls3 {
			if !strings.HasSuffix(c, ` no {"why":"\""}`) {
				t.Fatalf("a call that was not replaced: %s", c)
			}
		}
	})
}

func replaceWhole(t *testing.T, in string) {
	route := Route{Dialect: Responses}
	rep, err := ReadReply(route, []byte(in), nil, DefaultLimits)
	if err != nil {
		return
	}
	var rulings []Ruling
	for _, c := range rep.Calls {
		rulings = append(rulings, replace(c))
	}
	out := rep.Release(rulings)
	again, err := ReadReply(route, out, nil, DefaultLimits)
	if err != nil || len(again.Calls) != len(rep.Calls) || len(again.Withheld) > 0 {
		t.Fatalf("the replaced reply is not legal: %v\n%q\n%q", err, in, out)
	}
	for _, c := range again.Calls {
		if c.Name != "no" || string(c.Args) != `{"why":"\""}` {
			t.Fatalf("a call that was not replaced: %+v", c)
		}
	}
}

// BenchmarkFlow is the cost of an event of text that passes, in each dialect:
// split, judged not to be a call, handed on.
func BenchmarkFlow(b *testing.B) {
	for _, c := range []struct {
		d             Dialect
		before, event string
	}{
		{Messages, messagesEvents(mStart, mText), messagesEvents(mDelta)},
		{Chat, chatEvents(cRole), chatEvents(cText)},
		{Responses, numbered(rStream(rText(0)[:2])...), numbered(strings.Replace(rDelta("output_text", 0, "msg_1", "hi"), `"n":0`, `"sequence_number":9,"content_index":0,"logprobs":[],"obfuscation":"Xb2jz"`, 1))},
	} {
		b.Run(string(c.d), func(b *testing.B) {
			st := NewStream(c.d, nil, DefaultLimits)
			rd := sse.NewReader(strings.NewReader(c.before), 1<<20)
			for ev, err := rd.Next(); err == nil; ev, err = rd.Next() {
				if _, err := st.Feed(ev); err != nil {
					b.Fatal(err)
				}
			}
			rd.Reset(&endless{text: strings.Repeat(c.event, 100)})
			b.SetBytes(int64(len(c.event)))
			b.ReportAllocs()
			for b.Loop() {
				ev, err := rd.Next()
				if err != nil {
					b.Fatal(err)
				}
				if step, err := st.Feed(ev); err != nil || step.Flow == nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// endless reads a text again and again.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}
