package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards"
)

// What an exchange may hold, drawn with all that a quoter or an index could
// trip over.
var (
	anyText   = rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\/\n\r\t\x00\x01\x1f\x7f\u0085é漢\u2028\u2029\U0001F600{}[]:,<&>")), 0, 30, -1)
	anyBytes  = rapid.OneOf(rapid.Map(anyText, func(s string) []byte { return []byte(s) }), rapid.SliceOfN(rapid.Byte(), 0, 40))
	anyTime   = rapid.OneOf(rapid.Just(time.Time{}), rapid.Map(rapid.Int64Range(0, 4e18), func(n int64) time.Time { return time.Unix(0, n).UTC() }))
	anyJSON   = rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"input_tokens":1e3}`), json.RawMessage(`[{"a":null},{"a":"\u003c\ud800"}]`), json.RawMessage(`null`), json.RawMessage(`{ "b" : 1.0 }`)})
	anyHeader = rapid.MapOfN(anyText, anyText, 0, 3)
	anyPath   = rapid.Custom(func(t *rapid.T) Path {
		return Path{anyText.Draw(t, "path"), rapid.SampledFrom([]string{"read", "write"}).Draw(t, "op")}
	})
	anyCall = rapid.Custom(func(t *rapid.T) Call {
		c := Call{ID: anyText.Draw(t, "id"), Tool: anyText.Draw(t, "tool"), Kind: rapid.SampledFrom([]string{"", "shell", "other"}).Draw(t, "kind"),
			ArgumentsRaw: anyBytes.Draw(t, "raw"), Verdict: rapid.SampledFrom([]string{Allow, AllowEdited, Refuse}).Draw(t, "verdict"),
			Cause: anyText.Draw(t, "cause"), Guard: anyText.Draw(t, "guard"), Masked: rapid.IntRange(0, 3).Draw(t, "masked"),
			Facts: Facts{Judged: rapid.Bool().Draw(t, "judged"), Model: anyText.Draw(t, "model"), Mode: anyText.Draw(t, "mode"), Approval: anyText.Draw(t, "approval"),
				Workspace: anyText.Draw(t, "workspace"), Turn: rapid.IntRange(0, 1e6).Draw(t, "turn"), Calls: rapid.IntRange(0, 99).Draw(t, "calls"), Index: rapid.IntRange(0, 255).Draw(t, "index"),
				Paths: rapid.SliceOfN(anyPath, 0, 2).Draw(t, "paths")}}
		if rapid.Bool().Draw(t, "text") {
			c.Facts.ArgumentsRaw = anyBytes.Draw(t, "judged text")
		}
		if rapid.Bool().Draw(t, "edited") {
			c.Facts.Arguments = anyBytes.Draw(t, "judged arguments")
		}
		if rapid.Bool().Draw(t, "shell") {
			c.Facts.Shell = &Shell{rapid.SliceOfN(rapid.SliceOfN(anyText, 0, 3), 0, 3).Draw(t, "argv"), rapid.Bool().Draw(t, "opaque")}
		}
		return c
	})
	anyExchange = rapid.Custom(func(t *rapid.T) *Exchange {
		x := &Exchange{Start: anyTime.Draw(t, "start"), FirstByte: anyTime.Draw(t, "first"), End: anyTime.Draw(t, "end"),
			Session: anyText.Draw(t, "session"), Agent: anyText.Draw(t, "agent"), Dialect: anyText.Draw(t, "dialect"), Method: "POST", Path: anyText.Draw(t, "path"),
			Credential: anyText.Draw(t, "credential"), RequestHeaders: anyHeader.Draw(t, "request headers"), ResponseHeaders: anyHeader.Draw(t, "response headers"),
			ClientBody: anyBytes.Draw(t, "client body"), ContentEncoding: rapid.SampledFrom([]string{"", "zstd"}).Draw(t, "encoding"),
			Rewrite: Rewrite{rapid.SliceOfN(anyText, 0, 2).Draw(t, "removed"), rapid.IntRange(0, 9).Draw(t, "restored")},
			Status:  rapid.SampledFrom([]int{0, 200, 529}).Draw(t, "status"), ResponseID: anyText.Draw(t, "response id"),
			Usage: anyJSON.Draw(t, "usage"), Diagnostics: anyJSON.Draw(t, "diagnostics"), Proof: anyJSON.Draw(t, "proof"), Calls: rapid.SliceOfN(anyCall, 0, 2).Draw(t, "calls")}
		x.UpstreamBody = x.ClientBody
		if rapid.Bool().Draw(t, "rewritten") {
			x.UpstreamBody = append([]byte{}, anyBytes.Draw(t, "upstream body")...)
		}
		if n := len(x.ClientBody); n > 2 {
			x.Masked.ClientBody = []Span{{0, 1}, {1, n}}
			x.Masked.UpstreamBody = x.Masked.ClientBody
			if x.Rewritten() {
				x.Masked.UpstreamBody = nil
			}
		}
		return x
	})
)

// same compares exchanges as the format holds them: nil is empty.
var same = cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Exchange{}, "Rules", "Header", "Line", "Offset")}

// keep copies what the next Next would overwrite.
func keep(x *Exchange) *Exchange {
	c := *x
	c.ClientBody = bytes.Clone(x.ClientBody)
	c.UpstreamBody = c.ClientBody
	if x.Rewritten() {
		c.UpstreamBody = bytes.Clone(x.UpstreamBody)
	}
	c.Usage, c.Diagnostics, c.Proof = bytes.Clone(x.Usage), bytes.Clone(x.Diagnostics), bytes.Clone(x.Proof)
	c.Calls = append([]Call(nil), x.Calls...)
	for i := range c.Calls {
		c.Calls[i].ArgumentsRaw = bytes.Clone(c.Calls[i].ArgumentsRaw)
		for _, a := range []*[]byte{&c.Calls[i].Facts.ArgumentsRaw, &c.Calls[i].Facts.Arguments} {
			if *a != nil {
				*a = append([]byte{}, *a...)
			}
		}
	}
	return &c
}

func readAll(t interface{ Fatalf(string, ...any) }, src io.Reader) ([]*Exchange, []Skip) {
	r := NewReader(src)
	var out []*Exchange
	for {
		x, err := r.Next()
		if err == io.EOF {
			return out, r.Skipped()
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		out = append(out, keep(x))
	}
}

// For all exchanges: what is written is read, however the file is cut into
// reads, and the line is the same when it is written again.
func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(anyExchange, 0, 4).Draw(t, "exchanges")
		file := AppendHeader(nil, json.RawMessage(`{"tools":{}}`))
		for _, x := range in {
			file = AppendExchange(file, x)
		}
		var src io.Reader = bytes.NewReader(file)
		switch rapid.IntRange(0, 2).Draw(t, "reads") {
		case 1:
			src = iotest.OneByteReader(src)
		case 2:
			src = iotest.DataErrReader(src)
		}
		out, skipped := readAll(t, src)
		if len(skipped) > 0 || len(out) != len(in) {
			t.Fatalf("%d of %d were read, skipped: %v", len(out), len(in), skipped)
		}
		again := AppendHeader(nil, json.RawMessage(`{"tools":{}}`))
		for i, x := range out {
			if d := cmp.Diff(in[i], x, same); d != "" {
				t.Fatalf("exchange %d (-written +read):\n%s", i, d)
			}
			if x.Rewritten() != (in[i].Rewritten()) {
				t.Fatalf("exchange %d: rewritten is %v", i, x.Rewritten())
			}
			again = AppendExchange(again, x)
		}
		if !bytes.Equal(file, again) {
			t.Fatalf("written again:\n%s\n%s", file, again)
		}
	})
}

func line(session string) string {
	return string(AppendExchange(nil, &Exchange{Session: session, ClientBody: []byte(`{"model":"m"}`), UpstreamBody: nil}))
}

func TestDamagedFiles(t *testing.T) {
	const header = `{"v":1,"rules":{"drop":["x"]}}` + "\n"
	a, b := line("a"), line("b")
	for name, c := range map[string]struct {
		file string
		want string // sessions
		skip string
		err  string
	}{
		"whole":                    {file: header + a + b, want: "a b"},
		"no line break at the end": {file: header + a + strings.TrimSpace(b), want: "a b"},
		"blank lines and CRLF":     {file: header + "\n \r\n" + strings.ReplaceAll(a, "\n", "\r\n") + "\n" + b, want: "a b"},
		"only a header":            {file: header},
		"cut last line":            {file: header + a + b[:len(b)/2], want: "a", skip: "cut off 1@3"},
		"cut inside, then on":      {file: header + a[:len(a)/2] + "\n" + header + b, want: "b", skip: "not valid JSON 1@2"},
		"two lines grown together": {file: header + a[:len(a)/2] + b + a, want: "a", skip: "not valid JSON 1@2"},
		"not an object":            {file: header + "[1]\n" + a + "7\n", want: "a", skip: "not an object 2@2"},
		"a key twice":              {file: header + `{"client_body":"","client_body":""}` + "\n", skip: "not valid JSON 1@2"},
		"not UTF-8":                {file: header + "{\"client_body\":\"\xff\"}\n" + a, want: "a", skip: "not valid JSON 1@2"},
		"no body":                  {file: header + "{\"session\":\"s\"}\n" + a, want: "a", skip: "no exchange: client_body is not there 1@2"},
		"a number for a text":      {file: header + `{"session":7,"client_body":""}` + "\n" + a, want: "a", skip: "no exchange: session is not a string 1@2"},
		"no time":                  {file: header + `{"start":"noon","client_body":""}` + "\n" + a, want: "a", skip: "no exchange: start is not a time 1@2"},
		"bad base64":               {file: header + `{"client_body":{"base64":"!"}}` + "\n", skip: "no exchange: client_body is not base64 1@2"},
		"mask outside":             {file: header + `{"client_body":"ab","masked":{"client_body":[[1,3]]}}` + "\n", skip: "no exchange: client_body is not an array of places in the body, in order 1@2"},
		"unknown members":          {file: header + `{"client_body":"","later":{"x":[1]},"session":"s"}` + "\n", want: "s"},
		"lines before a header":    {file: a + header + b, want: "b", skip: "before the first header 1@1"},
		"empty":                    {file: "", err: "not a recording"},
		"something else":           {file: "hello\n{}\n", err: "not a recording", skip: "not valid JSON 1@1, before the first header 1@2"},
		"a later version":          {file: header + a + `{"v":2,"rules":{}}` + "\n" + a + header + b, want: "a b", err: "line 3: version 2", skip: "under a header of another version 1@4"},
		"a version of no number":   {file: `{"v":"1"}` + "\n" + a, err: `version "1"`, skip: "under a header of another version 1@2"},
		"too long":                 {file: header + `{"client_body":"` + strings.Repeat("x", 700<<10) + "\"}\n" + a, want: "a", skip: "longer than 0 MiB 1@2"},
		"too long at the end":      {file: header + a + `{"client_body":"` + strings.Repeat("x", 700<<10), want: "a", skip: "longer than 0 MiB 1@3"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(strings.NewReader(c.file))
			r.max = 600 << 10
			var sessions []string
			failed := ""
			for {
				x, err := r.Next()
				if err == io.EOF || errors.Is(err, ErrNotRecording) {
					if err != io.EOF {
						failed = err.Error()
					}
					break
				}
				if err != nil {
					failed = err.Error()
					continue
				}
				sessions = append(sessions, x.Session)
				if string(x.Rules) != `{"drop":["x"]}` {
					t.Errorf("rules are %s", x.Rules)
				}
				if got := c.file[x.Offset:]; !strings.Contains(got[:strings.IndexAny(got+"\n", "\n")], `"session":"`+x.Session) {
					t.Errorf("offset %d is not where the line of %s starts", x.Offset, x.Session)
				}
			}
			var skips []string
			for _, s := range r.Skipped() {
				skips = append(skips, fmt.Sprintf("%s %d@%d", s.Reason, s.Lines, s.First))
			}
			if got := strings.Join(sessions, " "); got != c.want {
				t.Errorf("read %q, want %q", got, c.want)
			}
			if got := strings.Join(skips, ", "); got != c.skip {
				t.Errorf("skipped %q, want %q", got, c.skip)
			}
			if c.err == "" && failed != "" || !strings.Contains(failed, c.err) {
				t.Errorf("error %q, want %q", failed, c.err)
			}
		})
	}
}

// An error of the source is not the end of the file.
func TestSourceErrorsAreReturned(t *testing.T) {
	boom := errors.New("boom")
	r := NewReader(io.MultiReader(strings.NewReader("{\"v\":1,\"rules\":{}}\n"+line("a")+"{\"client"), iotest.ErrReader(boom)))
	if x, err := r.Next(); err != nil || x.Session != "a" {
		t.Fatalf("first: %v, %v", x, err)
	}
	if _, err := r.Next(); err != boom {
		t.Fatalf("got %v", err)
	}
}

// For all calls: the document that the guards were given can be built again
// from the record of the call.
func TestJudgedCallsAreRebuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.SampledFrom([]string{"", "{}", `{"command":"ls \u003c x"}`, `{"a":1.0,"b":["é"]}`})
		g := &guards.Call{ID: anyText.Draw(t, "id"), Name: anyText.Draw(t, "name"), ArgumentsRaw: object.Draw(t, "judged"), Kind: "shell", Client: "codex", Dialect: "openai-chat", Model: anyText.Draw(t, "model"),
			Session: guards.Session{ID: "s", Mode: "read-only", Approval: "never", Workspace: anyText.Draw(t, "workspace"), Turn: rapid.IntRange(0, 9).Draw(t, "turn"), Calls: 3, Index: 1}}
		g.Arguments = json.RawMessage(g.ArgumentsRaw)
		switch {
		case rapid.Bool().Draw(t, "a text"):
			g.ArgumentsRaw = anyText.Draw(t, "text")
			text, _ := json.Marshal(g.ArgumentsRaw)
			g.Arguments = json.RawMessage(`{"input":` + string(text) + `}`)
		case g.ArgumentsRaw == "":
			g.Arguments = json.RawMessage("{}")
		}
		if rapid.Bool().Draw(t, "shell") {
			g.Shell = &guards.Shell{Argv: rapid.SliceOfN(rapid.SliceOfN(anyText, 0, 3), 0, 3).Draw(t, "argv"), Opaque: rapid.Bool().Draw(t, "opaque")}
		}
		for _, p := range rapid.SliceOfN(anyPath, 0, 2).Draw(t, "paths") {
			g.Paths = append(g.Paths, guards.Path{Path: p.Path, Op: p.Op})
		}
		x := &Exchange{Session: "s", Agent: "codex", Dialect: "openai-chat", Calls: []Call{NewCall(g, []byte(object.Draw(t, "raw")))}}
		file := AppendExchange(AppendHeader(nil, nil), x)
		r := NewReader(bytes.NewReader(file))
		back, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		h, ok := back.Judged(&back.Calls[0])
		if !ok {
			t.Fatal("the call was not judged")
		}
		if a, b := g.Document(nil), h.Document(nil); !bytes.Equal(a, b) {
			t.Fatalf("given:   %s\nrebuilt: %s", a, b)
		}
		if g.Client != h.Client {
			t.Fatalf("client %q", h.Client)
		}
	})
}

// For all files: the reader comes to an end without reading beyond its input,
// counts every line once, and what it read is read again from what is written.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"rules\":{}}\n" + line("a")))
	f.Add([]byte("{\"v\":1}\n{\"client_body\":{\"base64\":\"AAE=\"},\"upstream_body\":\"\\ud800\",\"calls\":[{\"facts\":{\"shell\":{\"argv\":[[\"a\"]]}}}]}\n{\"v\":2}\nx"))
	f.Add([]byte("{\"v\":1}\n{\"client_body\":\"a\\\\\\\"\",\"masked\":{\"client_body\":[[0,1]]},\"usage\":{\"a\":1}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		read, headers := 0, 0
		var out []byte
		var kept []*Exchange
		for {
			x, err := r.Next()
			if _, ok := err.(*VersionError); ok {
				continue
			}
			if err != nil {
				break
			}
			if x.Header != headers {
				headers = x.Header
				out = AppendHeader(out, x.Rules)
			}
			read++
			out = AppendExchange(out, x)
			kept = append(kept, keep(x))
		}
		lines := read + r.headers
		for _, s := range r.Skipped() {
			lines += s.Lines
		}
		want := 0
		for _, l := range bytes.Split(data, []byte("\n")) {
			if len(bytes.TrimSpace(l)) > 0 {
				want++
			}
		}
		if lines != want {
			t.Fatalf("%d lines are accounted for, of %d", lines, want)
		}
		if read == 0 {
			return
		}
		again, skipped := readAll(t, bytes.NewReader(out))
		if len(skipped) > 0 {
			t.Fatalf("what was written is not read: %v\n%s", skipped, out)
		}
		if d := cmp.Diff(kept, again, same, cmpopts.EquateApproxTime(0)); d != "" {
			t.Fatalf("(-first +again):\n%s", d)
		}
	})
}
