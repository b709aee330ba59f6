package record

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/envelope"
)

var testMasker = NewMasker([]byte("a key"))

// rnd is what secrets are made of in these tests.
const rnd = "0123456789abcdefghijklmnopqrstuvwxyzABCDEF"

// What is masked, and what of it: want is the text with the masked bytes as #.
func TestMask(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                     {`{"a":"the key is under the mat"}`, ``},
		"a key of a provider":         {`key: sk-ant-api03-` + rnd, `key: sk-ant-` + fill("api03-"+rnd)},
		"another one":                 {`OPENAI_API_KEY=sk-proj-` + rnd + ` make`, `OPENAI_API_KEY=sk-proj-` + fill(rnd) + ` make`},
		"in JSON":                     {`{"a":"sk-or-` + rnd + `"}`, `{"a":"sk-or-` + fill(rnd) + `"}`},
		"after an escape":             {`"x\nsk-ant-` + rnd + `\n"`, `"x\nsk-ant-` + fill(rnd) + `\n"`},
		"after a unicode escape":      {`"\u00e9ghp_` + rnd + `"`, `"\u00e9ghp_` + fill(rnd) + `"`},
		"in JSON inside of JSON":      {`"{\"c\":\"\\nghp_` + rnd + `\"}"`, `"{\"c\":\"\\nghp_` + fill(rnd) + `\"}"`},
		"two of them":                 {`xoxb-` + rnd + ` AKIAABCDEFGHIJKLMNOP`, `xoxb-` + fill(rnd) + ` AKIA` + fill("ABCDEFGHIJKLMNOP")},
		"an id that is none":          {`AKIAabcdefghijklmnop AKIAABCDEFGHIJKLMNOPQRS`, ``},
		"too short":                   {`sk-ant-12345 ghp_abc hf_0123`, ``},
		"inside of a word":            {`task-ant-` + rnd, ``},
		"a class of words":            {`sk-circle-fade-dot-and-another-one`, ``},
		"a token":                     {`eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N`, `eyJ` + fill(`hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N`)},
		"base64 of an object":         {`eyJhbGciOiJIUzI1NiJ9eyJzdWIiOiIxMjM0NTY3ODkw`, ``},
		"a header":                    {`-H 'Authorization: Bearer ` + rnd + `+/=='`, `-H 'Authorization: Bearer ` + fill(rnd+"+/==") + `'`},
		"a header in words":           {`the Bearer authenticationandmore of the ring`, ``},
		"basic":                       {`Authorization: Basic dXNlcjpwYXNzd29yZDE=`, `Authorization: Basic ` + fill(`dXNlcjpwYXNzd29yZDE=`)},
		"a password in a URL":         {`git clone https://me:s3cret%21@host/x`, `git clone https://me:` + fill(`s3cret%21`) + `@host/x`},
		"a URL with a port":           {`https://host:8080/a@b`, ``},
		"a variable in a URL":         {`https://me:$TOKEN@host/x`, ``},
		"a private key":               {`-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/\n` + rnd + `==\n-----END RSA PRIVATE KEY-----`, `-----BEGIN RSA PRIVATE KEY-----\n` + fill(`MIIEow+/`) + `\n` + fill(rnd+`==`) + `\n-----END RSA PRIVATE KEY-----`},
		"a certificate":               {`-----BEGIN CERTIFICATE-----\nMIIEow+/\n-----END CERTIFICATE-----`, ``},
		"a private key without end":   {`-----BEGIN PRIVATE KEY-----\nMIIEow`, ``},
		"a seal":                      {`# gp1:` + rnd + rnd, ``},
		"base64 that begins like one": {`data:image/png;base64,sk-` + strings.Repeat("A", 40), ``},
	} {
		t.Run(name, func(t *testing.T) {
			out, spans := testMasker.Mask([]byte(c.in))
			if len(out) != len(c.in) {
				t.Fatalf("%d bytes became %d", len(c.in), len(out))
			}
			shown := append([]byte{}, c.in...)
			for _, s := range spans {
				copy(shown[s.Start:s.End], bytes.Repeat([]byte("#"), s.End-s.Start))
				if s.End-s.Start >= 16 && bytes.Count(out[s.Start:s.End], []byte("*")) != s.End-s.Start-8 {
					t.Errorf("the mask is %s", out[s.Start:s.End])
				}
			}
			want := c.want
			if want == "" {
				want = c.in
			}
			if string(shown) != want {
				t.Fatalf("got  %s\nwant %s", shown, want)
			}
		})
	}
}

// fill stands for a masked text.
func fill(s string) string { return strings.Repeat("#", len(s)) }

// For all texts with secrets in them: the length stays, JSON stays JSON with
// the same structure, no secret is left, a mask has nothing to mask, equal
// secrets have equal masks and others don't.
func TestMaskProperties(t *testing.T) {
	secret := rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom(shapes[:30]).Draw(t, "shape").prefix
		if s == "AKIA" || s == "ASIA" {
			return s + rapid.StringMatching(`[A-Z0-9]{16}`).Draw(t, "id")
		}
		return s + rapid.StringMatching(`[A-Z0-9]{10}`).Draw(t, "a") + rapid.StringMatching(`[a-zA-Z0-9_]{30,60}`).Draw(t, "b")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := secret.Draw(t, "one"), secret.Draw(t, "other")
		between := rapid.SampledFrom([]string{"\n", " ", "é", "\\", `"`, "=", "\t\"", "\U0001F600", "/"})
		text := between.Draw(t, "1") + a + between.Draw(t, "2") + b + between.Draw(t, "3") + a + between.Draw(t, "4")
		if rapid.Bool().Draw(t, "nested") {
			inner, _ := json.Marshal(map[string]string{"command": text})
			text = string(inner)
		}
		body, _ := json.Marshal(map[string]any{"messages": []any{text}, "n": 1})
		original := bytes.Clone(body)
		out, spans := testMasker.Mask(body)
		if !bytes.Equal(body, original) {
			t.Fatal("the text itself was changed")
		}
		if len(out) != len(body) || !json.Valid(out) {
			t.Fatalf("no longer the same JSON: %s", out)
		}
		for _, s := range []string{a, b} {
			if bytes.Contains(out, []byte(s)) {
				t.Fatalf("%s is left in %s (%v)", s, out, spans)
			}
		}
		if again, more := testMasker.Mask(out); len(more) > 0 || !bytes.Equal(again, out) {
			t.Fatalf("masked again: %s", again)
		}
		at := 0
		for i, s := range spans {
			if s.Start < at || s.End <= s.Start || !bytes.Equal(out[at:s.Start], body[at:s.Start]) {
				t.Fatalf("span %d of %v", i, spans)
			}
			at = s.End
		}
		if !bytes.Equal(out[at:], body[at:]) {
			t.Fatal("bytes behind the last span differ")
		}
		mask := func(s string) string { m, _ := testMasker.MaskString("x " + s); return m[2:] }
		if mine, _ := testMasker.MaskString(a); mine != mask(a) || a != b && strings.HasPrefix(a, b[:4]) && len(a) == len(b) && mask(a) == mask(b) {
			t.Fatalf("masks of %s and %s", a, b)
		}
	})
}

// A refused call's seal is packed, not encrypted: one that holds a secret is
// masked with it.
func TestSealsOfSecretsAreMasked(t *testing.T) {
	ring, err := envelope.NewKeyring(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{`{"command":"ls -la"}`: 0, `{"command":"curl -u x:ghp_` + rnd + `"}`: 1} {
		_, sealed := ring.Refuse(envelope.Call{Name: "Bash", Args: []byte(args), Text: "no"}, envelope.Target{Form: envelope.ShellForm, Argument: "command", Fallback: envelope.UnknownForm})
		out, spans := testMasker.Mask(sealed)
		if len(spans) != want || !json.Valid(out) {
			t.Errorf("%s: %d places in %s", args, len(spans), out)
		}
		if held := ring.Holds(string(out)); held != (want == 0) {
			t.Errorf("%s: the seal still opens: %v", args, held)
		}
	}
}

// The request's own credential is masked wherever it stands, whatever it looks
// like.
func TestTheRequestsOwnCredentialIsMasked(t *testing.T) {
	h := http.Header{}
	h.Set("Authorization", "Bearer my-own-gateway-password")
	id, secrets := testMasker.Credential(h)
	x := &Exchange{ClientBody: []byte(`{"a":"my-own-gateway-password"}`), Calls: []Call{{ArgumentsRaw: []byte(`{"command":"echo my-own-gateway-password"}`),
		Facts: Facts{ArgumentsRaw: []byte(`my-own-gateway-password`), Arguments: []byte(`my-own-gateway-password`), Shell: &Shell{Argv: [][]string{{"echo", "my-own-gateway-password"}}}, Paths: []Path{{Path: "/my-own-gateway-password"}}}}}}
	x.UpstreamBody = x.ClientBody
	argv := x.Calls[0].Facts.Shell
	testMasker.MaskExchange(x, secrets...)
	text := AppendExchange(nil, x)
	if bytes.Contains(text, []byte("gateway")) {
		t.Errorf("left in %s", text)
	}
	if x.Calls[0].Masked != 5 || len(x.Masked.ClientBody) != 1 || x.Rewritten() {
		t.Errorf("%+v", x)
	}
	if argv.Argv[0][1] != "my-own-gateway-password" {
		t.Error("what the guards were given was changed")
	}
	if again, _ := testMasker.Credential(h); again != id || len(id) != 32 {
		t.Errorf("ids %s %s", id, again)
	}
	h.Set("Authorization", "Bearer another")
	if other, _ := testMasker.Credential(h); other == id {
		t.Error("another credential has the same id")
	}
	if none, _ := testMasker.Credential(http.Header{}); none != "" {
		t.Errorf("without a credential: %q", none)
	}
}

func TestHeadersAndPathsAreAnAllowList(t *testing.T) {
	h := http.Header{"Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "X-Claude-Code-Session-Id": {"abc"}, "User-Agent": {"one", "two"}, "Anthropic-Beta": {"a,b"},
		"Thread-Id": {"sk-ant-" + rnd}, "Set-Cookie": {"c"}, "Anthropic-Ratelimit-Tokens-Remaining": {"7"}, "Request-Id": {"r"}, "X-Unknown": {"?"}}
	mask, _ := testMasker.MaskString("sk-ant-" + rnd)
	if d := cmp.Diff(map[string]string{"x-claude-code-session-id": "abc", "user-agent": "one, two", "anthropic-beta": "a,b", "thread-id": mask}, testMasker.RequestHeaders(h)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"anthropic-ratelimit-tokens-remaining": "7", "request-id": "r"}, testMasker.ResponseHeaders(h)); d != "" {
		t.Error(d)
	}
	for in, want := range map[[2]string]string{
		{"/v1/messages", ""}:                          "/v1/messages",
		{"/v1/messages", "beta=true"}:                 "/v1/messages?beta=true",
		{"/v1/messages", "key=abc&beta=true&x=&flag"}: "/v1/messages?key=***&beta=true&x=&flag",
		{"/v1/" + "sk-ant-" + rnd + "/messages", "?"}: "/v1/" + mask + "/messages?",
	} {
		if got := testMasker.Path(in[0], in[1]); got != want {
			t.Errorf("%v: %s, want %s", in, got, want)
		}
	}
}

// For all texts: masking ends, keeps the length and has nothing left to do.
func FuzzMask(f *testing.F) {
	f.Add([]byte(`{"a":"sk-ant-` + rnd + `\nBearer ` + rnd + `"}`))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\\nAAAA\\\\n\\u00e9-----END https://a:b@c gp1:AAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, spans := testMasker.Mask(text)
		if len(out) != len(text) {
			t.Fatalf("%d bytes became %d", len(text), len(out))
		}
		if json.Valid(text) && !json.Valid(out) {
			t.Fatalf("JSON became %q at %v", out, spans)
		}
		if again, more := testMasker.Mask(out); len(more) > 0 {
			t.Fatalf("masked again: %q at %v", again, more)
		}
	})
}
