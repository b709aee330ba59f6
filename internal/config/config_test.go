package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/internal/agents"
	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/policy"
	"github.com/guardproxy/guardproxy/internal/wire"
)

var update = flag.Bool("update", false, "write the golden files")

// mistakes are files that must not be accepted. What is said about each is in
// testdata/errors.golden.
var mistakes = []struct{ name, text string }{
	{"unknown key at the top", "lisen: 127.0.0.1:8788\n"},
	{"unknown key, nothing like it", "telemetry: true\n"},
	{"unknown key inside", "policy:\n  mode: read-only\n  aproval: never\n"},
	{"unknown key in a list", "guards:\n  - name: a\n    use: b\n    path: x\n"},
	{"key at the wrong level", "deadline: 1s\n"},
	{"key with another separator", "unknown-tools: pass\n"},
	{"key in another case", "Listen: 127.0.0.1:1\n"},
	{"duplicate key", "listen: 127.0.0.1:1\nkeys: []\nlisten: 127.0.0.1:2\n"},
	{"duplicate key, quoted", "policy: {mode: read-only, \"mode\": danger-full-access}\n"},
	{"duplicate name", "upstreams:\n  a: {url: http://a}\n  a: {url: http://b}\n"},
	{"duplicate key in a guard's configuration", "guards: [{name: a, use: b, config: {x: {y: 1, y: 2}}}]\n"},
	{"not a map at the top", "- listen\n"},
	{"text at the top", "hello\n"},
	{"a list for a text", "listen: [127.0.0.1:1]\n"},
	{"a number for a text", "listen: 8788\n"},
	{"a switch for a text", "policy: {workspace: true}\n"},
	{"a text for a list", "keys: /etc/key\n"},
	{"a text for a map", "policy: never\n"},
	{"a map for a list", "guards: {name: a}\n"},
	{"a list for a map", "tools: [deploy]\n"},
	{"a text for a switch", "audit: {file: a, arguments: yes}\n"},
	{"no value", "guards:\nlisten: 127.0.0.1:1\n"},
	{"no value in a list", "keys:\n  - a\n  -\n"},
	{"null", "listen: ~\n"},
	{"an anchor", "keys: &k [a]\n"},
	{"an alias", "listen: *x\n"},
	{"a merge key", "policy:\n  <<: {mode: read-only}\n"},
	{"a tag", "listen: !!str 127.0.0.1:1\n"},
	{"a tag in a guard's configuration", "guards: [{name: a, use: b, config: {x: !!binary aGk=}}]\n"},
	{"a number without JSON form", "guards: [{name: a, use: b, config: {x: .inf}}]\n"},
	{"a key that is a number", "tools: {1: shell}\n"},
	{"a complex key", "tools: {? [a] : shell}\n"},
	{"two documents", "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n"},
	{"a directive", "%YAML 1.1\n---\nlisten: 127.0.0.1:1\n"},
	{"a tab", "policy:\n\tmode: read-only\n"},
	{"an open bracket", "keys: [a\n"},
	{"a colon too many", "listen: a: b\n"},
	{"not UTF-8", "listen: 127.0.0.1:1 # caf\xe9\n"},
	{"too deep", "guards: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n"},
	{"too deep in a line", strings.Repeat("- ", 40) + "a\n"},

	{"mode", "policy: {mode: readonly}\n"},
	{"mode, nothing like it", "policy: {mode: strict}\n"},
	{"approval", "policy: {approval: on-request}\n"},
	{"relative workspace", "policy:\n  workspace: project\n"},
	{"workspace with a tilde", "policy:\n  workspace: ~/project\n"},
	{"root as workspace", "policy:\n  workspace: /home/..\n"},
	{"workspace of two lines", "policy:\n  workspace: |\n    /a\n    /b\n"},

	{"listen without a port", "listen: 127.0.0.1\n"},
	{"listen with a strange port", "listen: 127.0.0.1:http\n"},
	{"listen with a large port", "listen: 127.0.0.1:70000\n"},
	{"listen on a name", "listen: example.com:80\n"},
	{"listen on all addresses without a token", "keys: []\nlisten: 0.0.0.0:8788\n"},
	{"listen on no address without a token", "listen: :8788\n"},
	{"host with a scheme", "hosts: [\"https://proxy\"]\n"},
	{"host with a star", "hosts:\n  - proxy\n  - \"*.example\"\n"},
	{"token file with a tilde", "token_file: ~/token\n"},
	{"empty path", "keys: [\"\"]\n"},

	{"upstream without a URL", "upstreams:\n  a: {dialects: [openai-chat]}\n"},
	{"upstream by path", "upstreams: {a: {url: /v1}}\n"},
	{"upstream by host", "upstreams: {a: {url: api.example.com}}\n"},
	{"upstream with another scheme", "upstreams: {a: {url: ftp://x}}\n"},
	{"upstream with a password", "upstreams: {a: {url: \"https://me:hunter2@x/v1\"}}\n"},
	{"upstream with a query", "upstreams: {a: {url: \"https://x/v1?key=hunter2\"}}\n"},
	{"upstream with a fragment", "upstreams: {a: {url: \"https://x/v1#hunter2\"}}\n"},
	{"upstream without a host", "upstreams: {a: {url: \"https:///v1\"}}\n"},
	{"upstream with a port too high", "upstreams: {a: {url: \"https://x:99999\"}}\n"},
	{"upstream with dots", "upstreams: {a: {url: \"https://x/a/../b\"}}\n"},
	{"upstream that is an endpoint", "upstreams: {a: {url: \"https://x/v1/messages\"}}\n"},
	{"upstream with a strange name", "upstreams: {a/b: {url: \"https://x\"}}\n"},
	{"upstream dialect", "upstreams: {a: {url: \"https://x\", dialects: [openai]}}\n"},
	{"upstream dialect of later", "upstreams: {a: {url: \"https://x\", dialects: [gemini]}}\n"},
	{"upstream dialect twice", "upstreams: {a: {url: \"https://x\", dialects: [openai-chat, openai-chat]}}\n"},

	{"guard without a name", "guards:\n  - use: a\n"},
	{"guard with a strange name", "guards:\n  - name: \"a b\"\n    use: a\n"},
	{"two guards of one name", "guards:\n  - {name: a, use: x}\n  - {name: a, use: y}\n"},
	{"guard without a module", "guards:\n  - name: a\n"},
	{"guard with two modules", "guards:\n  - name: a\n    file: a.wasm\n    use: a\n"},
	{"guard with a path under use", "guards: [{name: a, use: ./a.wasm}]\n"},
	{"guard mode", "guards: [{name: a, use: b, mode: watch}]\n"},
	{"guard kind", "guards: [{name: a, use: b, match: {kinds: [shel]}}]\n"},
	{"guard client", "guards: [{name: a, use: b, match: {clients: [claude]}}]\n"},
	{"guard tool", "guards: [{name: a, use: b, match: {tools: [\" \"]}}]\n"},
	{"guard configuration that is no map", "guards: [{name: a, use: b, config: [1]}]\n"},

	{"metrics without a port", "metrics: 127.0.0.1\n"},
	{"metrics without an address", "metrics: \"\"\n"},
	{"metrics for everybody", "metrics: 0.0.0.0:9464\n"},
	{"metrics where the client connects", "listen: 127.0.0.1:9464\nmetrics: 127.0.0.1:9464\n"},
	{"deadline without a unit", "wasm: {deadline: 250}\n"},
	{"deadline with a strange unit", "wasm: {deadline: 250 ms!}\n"},
	{"deadline of zero", "wasm: {deadline: 0s}\n"},
	{"deadline of an hour", "wasm: {deadline: 1h}\n"},
	{"memory without a unit", "wasm: {memory: 16}\n"},
	{"memory in another unit", "wasm: {memory: 16MB}\n"},
	{"memory that is no page", "wasm: {memory: 100KiB}\n"},
	{"memory too large", "wasm: {memory: 2GiB}\n"},
	{"memory that overflows", "wasm: {memory: 99999999999GiB}\n"},
	{"negative memory", "wasm: {memory: -64KiB}\n"},
	{"fuel without a unit", "wasm: {fuel: 100000000}\n"},
	{"fuel in another unit", "wasm: {fuel: 100K}\n"},
	{"fuel that is no number", "wasm: {fuel: M}\n"},
	{"no fuel", "wasm: {fuel: 0M}\n"},
	{"too much fuel", "wasm: {fuel: 1001G}\n"},
	{"fuel that overflows", "wasm: {fuel: 9999999999999G}\n"},
	{"negative fuel", "wasm: {fuel: -5M}\n"},

	{"follow", "schema: {follow: yes please}\n"},
	{"residue", "schema: {residue: keep}\n"},
	{"field under add and remove", "schema: {fields: {t: {add: [a, b], remove: [b]}}}\n"},
	{"field twice", "schema: {fields: {t: {add: [a, a]}}}\n"},
	{"field without a name", "schema: {fields: {t: {add: [\"\"]}}}\n"},
	{"kind of a tool", "tools: {deploy: bash}\n"},
	{"tool without a name", "tools: {\"\": shell}\n"},
	{"unknown tools", "unknown_tools: deny\n"},
	{"lane of later", "confine: {lane: adapter}\n"},
	{"lane that does not exist", "confine: {lane: jail}\n"},
	{"lane that is true", "confine: {lane: true}\n"},
	{"runner by its name", "confine: {runner: [bwrap]}\n"},
	{"the whole file system writable", "confine: {writable: [/]}\n"},
	{"a relative writable directory", "confine: {writable: [cache]}\n"},
	{"a secret that is relative", "confine: {secrets: [.ssh]}\n"},
	{"a secret outside of the home directory", "confine: {secrets: [~/../x]}\n"},
	{"a guarded place outside", "confine: {guarded: [\"!../x\"]}\n"},
	{"a guarded place that is absolute", "confine: {guarded: [/etc]}\n"},
	{"a variable with a value", "confine: {env: {keep: [A=b]}}\n"},
	{"a variable by a pattern", "confine: {env: {only: [\"AWS_*\"]}}\n"},
	{"arguments without a log", "audit:\n  arguments: true\n"},
	{"log in the key", "keys: [a]\naudit: {file: ./a}\n"},
	{"log in a guard", "guards: [{name: a, file: g.wasm}]\naudit: {file: g.wasm}\n"},
	{"guard in the token", "token_file: t\nguards: [{name: a, file: t}]\n"},
	{"the same key twice", "keys: [a, b, a]\n"},

	{"passthrough without a method", "passthrough: [/v1/usage]\n"},
	{"passthrough with a small method", "passthrough: [get /v1/usage]\n"},
	{"passthrough with a relative path", "passthrough: [GET v1/usage]\n"},
	{"passthrough with a star inside", "passthrough: [GET /v1/*/usage]\n"},
	{"passthrough with a query", "passthrough: [\"GET /v1/usage?x=1\"]\n"},
	{"passthrough with dots", "passthrough: [GET /v1/../usage]\n"},
	{"passthrough of messages", "passthrough: [POST /v1/messages]\n"},
	{"passthrough of batches", "passthrough: [GET /v1/messages/batches/*]\n"},
	{"passthrough of chat", "passthrough: [POST /chat/completions]\n"},
	{"passthrough of responses", "passthrough: [GET /v1/responses/x]\n"},
	{"passthrough of gemini", "passthrough: [\"POST /v1beta/models/m:streamGenerateContent\"]\n"},
	{"passthrough of everything", "passthrough: [GET /*]\n"},
	{"passthrough of v1", "passthrough: [POST /v1/*]\n"},
	{"passthrough of a beginning", "passthrough: [POST /v1/mess*]\n"},
	{"passthrough with a label", "passthrough: [GET /s/x/v1/usage]\n"},
	{"passthrough that connects", "passthrough: [CONNECT /x]\n"},

	{"dialect of later", "dialects: {gemini: {inert: [x]}}\n"},
	{"dialect that does not exist", "dialects: {openai: {inert: [x]}}\n"},
	{"inert type that carries calls", "dialects: {anthropic-messages: {inert: [x, tool_use]}}\n"},
	{"inert type with a star", "dialects: {openai-chat: {inert: [\"a b\"]}}\n"},
}

func TestMistakes(t *testing.T) {
	const file = "testdata/errors.golden"
	var got bytes.Buffer
	fmt.Fprintln(&got, "Every mistake of TestMistakes: the file, then what is said about it.")
	for _, m := range mistakes {
		_, err := Parse("g.yaml", []byte(m.text))
		if err == nil {
			t.Errorf("%s: accepted", m.name)
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %T, want an *Error", m.name, err)
			continue
		}
		if e.Hint() == "" {
			t.Errorf("%s: no hint with %q", m.name, err)
		}
		if strings.Contains(err.Error()+e.Hint(), "hunter2") {
			t.Errorf("%s: the error quotes a secret: %v", m.name, err)
		}
		fmt.Fprintf(&got, "\n== %s\n%serror: %v\nhint: %s\n", m.name, strings.ToValidUTF8(m.text, "?"), err, e.Hint())
	}
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("run go test -update and read the difference:\n%s", d)
	}
}

func parseText(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Parse("/etc/gp/config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An empty file, in each of its forms, is the default.
func TestDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "\ufeff", "{}\n"} {
		got := parseText(t, text)
		got.File = ""
		if d := cmp.Diff(Default(), got); d != "" {
			t.Errorf("%q is not the default:\n%s", text, d)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       func(*Config)
	}{
		{"lane off, unquoted", "confine: {lane: off}\n", func(c *Config) {}},
		{"lane off, turned into a switch", "confine:\n  lane: false\n", func(c *Config) {}},
		{"a byte order mark and CRLF", "\ufefflisten: 127.0.0.1:1\r\nunknown_tools: refuse\r\n", func(c *Config) { c.Listen, c.UnknownTools = "127.0.0.1:1", "refuse" }},
		{"upstreams keep the file's order", "upstreams:\n  z: {url: https://z}\n  a: {url: \"http://[::1]:80/v1/\"}\n  m: {url: https://m/x}\n", func(c *Config) {
			c.Upstreams = []Upstream{{Name: "z", URL: "https://z"}, {Name: "a", URL: "http://[::1]:80/v1/"}, {Name: "m", URL: "https://m/x"}}
		}},
		{"relative and absolute files", "keys: [k, /etc/./k]\ntoken_file: ../t\naudit: {file: log/a.jsonl}\n", func(c *Config) {
			c.Keys, c.TokenFile, c.Audit.File = []string{"/etc/gp/k", "/etc/k"}, "/etc/t", "/etc/gp/log/a.jsonl"
		}},
		{"all addresses, with a token", "listen: 0.0.0.0:8788\ntoken_file: t\n", func(c *Config) { c.Listen, c.TokenFile = "0.0.0.0:8788", "/etc/gp/t" }},
		{"hosts in their normal form", "hosts: [Proxy.Example, \"[FD00::01]:8788\", 10.0.0.1]\n", func(c *Config) {
			c.Hosts = []string{"proxy.example", "[fd00::1]:8788", "10.0.0.1"}
		}},
		{"durations, sizes and fuel", "wasm: {deadline: 1.5s, memory: 64 KiB, fuel: 2 G}\n", func(c *Config) {
			c.Wasm = Wasm{Deadline: Duration(1500 * time.Millisecond), Memory: 65536, Fuel: 2_000_000_000}
		}},
		{"a guard's configuration keeps its order", "guards:\n- name: a\n  use: b\n  config:\n    z: [1, 0x10, -3, 1.5, true, ~, \"<&>\"]\n    a: {\"\": yes}\n    t: |\n      two\n      lines\n", func(c *Config) {
			c.Guards = []Guard{{Name: "a", Use: "b", Mode: "enforce",
				Config: json.RawMessage(`{"z":[1,16,-3,1.5,true,null,"<&>"],"a":{"":"yes"},"t":"two\nlines\n"}`)}}
		}},
		{"two guards share a module", "guards: [{name: a, file: g.wasm}, {name: b, file: g.wasm}]\n", func(c *Config) {
			g := Guard{Name: "a", File: "/etc/gp/g.wasm", Mode: "enforce", Config: json.RawMessage("{}")}
			c.Guards = []Guard{g, g}
			c.Guards[1].Name = "b"
		}},
		{"passthrough", "passthrough: [GET /v1/usage, DELETE /v1/files/*, HEAD /, GET /v1/org*]\n", func(c *Config) {
			c.Passthrough = []Passthrough{{"GET", "/v1/usage", false}, {"DELETE", "/v1/files/", true}, {"HEAD", "/", false}, {"GET", "/v1/org", true}}
		}},
		{"names of tools with dots", "tools: {\"mcp.server.run\": shell}\nschema: {fields: {a.b: {add: [x]}}}\n", func(c *Config) {
			c.Tools = map[string]string{"mcp.server.run": "shell"}
			c.Schema.Fields = map[string]FieldEdit{"a.b": {Add: []string{"x"}}}
		}},
		{"switches that are off by name", "wasm: {reload: false}\nschema: {follow: false, ceiling: false}\n", func(c *Config) {}},
		{"inert", "dialects: {anthropic-messages: {inert: [x_delta]}}\n", func(c *Config) {
			c.Dialects = map[string]Dialect{"anthropic-messages": {Inert: []string{"x_delta"}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Default()
			want.File = "/etc/gp/config.yaml"
			c.want(want)
			if d := cmp.Diff(want, parseText(t, c.text)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("g.yaml", []byte("keys: [k]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load("g.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.File != filepath.Join(dir, "g.yaml") || c.Keys[0] != filepath.Join(dir, "k") {
		t.Errorf("file %q, key %q: not absolute", c.File, c.Keys[0])
	}

	if err := os.WriteFile("big.yaml", bytes.Repeat([]byte("# \n"), maxFile/2), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{"none.yaml", "none.yaml: can't be read: no such file or directory"},
		{".", ".: can't be read: is a directory"},
		{"big.yaml", "big.yaml: longer than 128 KiB"},
	} {
		_, err := Load(c.name)
		var e *Error
		if !errors.As(err, &e) || err.Error() != c.want || e.Hint() == "" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Load("none.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestCheckToken(t *testing.T) {
	without, with := Default(), Default()
	with.TokenFile = "/t"
	for listen, open := range map[string]bool{
		"127.0.0.1:1": false, "[::1]:1": false, "localhost:1": false, "[::ffff:127.0.0.1]:1": false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "192.168.0.1:1": true, "name:1": true, "nonsense": true,
	} {
		var te *TokenError
		if got := errors.As(without.CheckToken(listen), &te); got != open {
			t.Errorf("%s without a token: error %v", listen, got)
		}
		if err := with.CheckToken(listen); err != nil {
			t.Errorf("%s with a token: %v", listen, err)
		}
	}
}

// For all sizes: what is written reads as what it was.
func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Min(0), rapid.Map(rapid.Int64Range(0, 1<<20), func(n int64) int64 { return n << 16 })).Draw(t, "bytes")
		if got, ok := parseSize(Size(n).String()); !ok || got != n {
			t.Fatalf("%d is written %v and read %d, %v", n, Size(n), got, ok)
		}
	})
}

// For all misspellings of one letter: the hint names the key that was meant.
func TestSuggestionFindsTheKey(t *testing.T) {
	keys := keysOf(reflect.TypeFor[Config]())
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom(keys).Draw(t, "key")
		at := rapid.IntRange(0, len(key)-1).Draw(t, "at")
		wrong := key[:at] + key[at+1:]
		if rapid.Bool().Draw(t, "double") {
			wrong = key[:at] + key[at:at+1] + key[at:]
		}
		if slices.Contains(keys, wrong) {
			return
		}
		_, err := Parse("g.yaml", []byte(wrong+": x\n"))
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Hint(), "did you mean "+key+"?") {
			t.Fatalf("%q: %v, hint %q", wrong, err, e.Hint())
		}
	})
}

func TestOwnFiles(t *testing.T) {
	env := map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s"}
	d, err := home.Find(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	c := parseText(t, "token_file: t\nkeys: [k, /shared]\naudit: {file: /log/a}\nguards: [{name: a, file: g.wasm}, {name: b, use: x}, {name: c, file: g.wasm}]\n")
	got := c.OwnFiles(d)
	want := []string{"/etc/gp/config.yaml", "/etc/gp/g.wasm", "/etc/gp/k", "/etc/gp/t", "/h/.cache/guardproxy", "/h/.config/guardproxy", "/log/a", "/s/guardproxy", "/shared"}
	if !slices.Equal(got, want) {
		t.Errorf("own files %q, want %q", got, want)
	}
	// What the confinement hides by itself is among them.
	for _, p := range confine.OwnFiles(func(k string) string { return env[k] }) {
		if !slices.Contains(got, p) {
			t.Errorf("confine hides %s, which is not an own file here", p)
		}
	}
	if got := Default().OwnFiles(d); len(got) != 3 {
		t.Errorf("own files of the default: %q", got)
	}
}

// The words of the tags are those of the packages that use them.
func TestWordsAgree(t *testing.T) {
	words := func(typ reflect.Type, key, tag string) []string {
		f, ok := fieldOf(typ, key)
		if !ok {
			t.Fatalf("no key %s", key)
		}
		return slices.Sorted(slices.Values(strings.Fields(f.Tag.Get(tag))))
	}
	var clients, dialects []string
	for _, c := range agents.Builtin().Clients() {
		if c.ID != "anthropic-tools" && c.ID != "openai-tools" { // tools that an API defines, no client
			clients = append(clients, c.ID)
		}
	}
	for _, d := range wire.Dialects {
		dialects = append(dialects, string(d))
	}
	slices.Sort(dialects)
	if got := words(reflect.TypeFor[Match](), "clients", "one"); !slices.Equal(got, clients) {
		t.Errorf("clients %q, the catalogue has %q", got, clients)
	}
	if got := words(reflect.TypeFor[Upstream](), "dialects", "one"); !slices.Equal(got, dialects) {
		t.Errorf("dialects of an upstream %q, want %q", got, dialects)
	}
	if got := words(reflect.TypeFor[Config](), "dialects", "keys"); !slices.Equal(got, dialects) {
		t.Errorf("dialects %q, want %q", got, dialects)
	}
	if got := words(reflect.TypeFor[Policy](), "mode", "one"); !slices.Equal(got, slices.Sorted(slices.Values(policy.Modes()))) {
		t.Errorf("modes %q, want %q", got, policy.Modes())
	}
	for _, kind := range words(reflect.TypeFor[Config](), "tools", "one") {
		if !agents.Kind(kind).Valid() {
			t.Errorf("the catalogue does not know the kind %s", kind)
		}
	}
}

// For all inputs: an error of our own with a place inside the file, or a
// configuration that keeps what the other checks promise.
func FuzzParse(f *testing.F) {
	for _, m := range mistakes {
		f.Add([]byte(m.text))
	}
	if b, err := os.ReadFile(page); err == nil {
		if m := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindSubmatch(b); m != nil {
			f.Add(m[1])
		}
	}
	for _, s := range []string{"a: [{}, {b: [", "? ? ? a", "- - - a", "\"\\x", "'", "|\n", ">-\n  a", "{a: b, ? c}", "!!", "&a *a", "a: |\n\t", "%", "---\n...\n---\n", "\x00", "a:\n - b\n-c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("/d/g.yaml", data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error of the type %T", err)
			}
			if lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 2; e.Line < 0 || e.Line > lines {
				t.Fatalf("line %d of %d: %v", e.Line, lines, err)
			}
			return
		}
		for _, p := range append(c.OwnFiles(home.Dirs{}), c.Keys...) {
			if !filepath.IsAbs(p) {
				t.Fatalf("a relative path %q", p)
			}
		}
		for _, g := range c.Guards {
			if (g.File == "") == (g.Use == "") || !json.Valid(g.Config) || g.Config[0] != '{' || !validName(g.Name) {
				t.Fatalf("guard %+v", g)
			}
		}
		for _, p := range c.Passthrough {
			if wire.CarriesCalls(p.Path) {
				t.Fatalf("passes %v", p)
			}
		}
		if c.Wasm.Reload || c.Schema.Follow || c.Schema.Ceiling || c.Confine.Lane != "off" {
			t.Fatalf("accepted what this version does not do: %+v", c)
		}
		if err := c.CheckToken(c.Listen); err != nil {
			t.Fatal(err)
		}
	})
}
