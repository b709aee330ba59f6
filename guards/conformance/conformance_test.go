package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards"
)

const good = `{"name":"a","call":{"name":"bash","arguments":{"command":"ls"}},"want":"pass"}`

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, file, err string }{
		{"one", good, ""},
		{"blank lines and white space", "\n  " + good + "  \r\n\n", ""},
		{"everything", `{"name":"a","call":{"id":"x","name":"bash","arguments":{},"kind":"shell"},"session":{"id":"s","mode":"read-only","approval":"never","workspace":"/w","turn":1,"calls":2,"index":3},"config":{"x":1},"dialect":"d","model":"m","want":"deny","reason":"r"}`, ""},
		{"nothing", "", "there is no case"},
		{"only blank lines", "\n\n", "there is no case"},
		{"not JSON", good + "\n{", "line 2:"},
		{"two on a line", good + good, "line 1:"},
		{"an array", "[" + good + "]", "a case is an object"},
		{"unknown member", `{"name":"a","call":{"name":"bash"},"want":"pass","wnat":1}`, "wnat"},
		{"unknown member of call", `{"name":"a","call":{"name":"bash","args":{}},"want":"pass"}`, "args"},
		{"unknown member of session", `{"name":"a","call":{"name":"bash"},"session":{"cwd":"/"},"want":"pass"}`, "cwd"},
		{"a member in other letters", `{"name":"a","call":{"name":"bash"},"Want":"pass"}`, "unknown member"},
		{"a member of call in other letters", `{"name":"a","call":{"Name":"bash"},"want":"pass"}`, "unknown member"},
		{"a member twice", `{"name":"a","name":"b","call":{"name":"bash"},"want":"pass"}`, "line 1:"},
		{"a member of arguments twice", `{"name":"a","call":{"name":"bash","arguments":{"x":1,"x":2}},"want":"pass"}`, "line 1:"},
		{"invalid UTF-8", "{\"name\":\"\xff\",\"call\":{\"name\":\"bash\"},\"want\":\"pass\"}", "line 1:"},
		{"no name", `{"call":{"name":"bash"},"want":"pass"}`, "has no name"},
		{"no tool", `{"name":"a","call":{},"want":"pass"}`, "call has no name"},
		{"no call", `{"name":"a","want":"pass"}`, "call has no name"},
		{"call of another type", `{"name":"a","call":"bash","want":"pass"}`, "call is not an object"},
		{"no want", `{"name":"a","call":{"name":"bash"}}`, `want is ""`},
		{"another want", `{"name":"a","call":{"name":"bash"},"want":"allow"}`, `want is "allow"`},
		{"a reason for a pass", `{"name":"a","call":{"name":"bash"},"want":"pass","reason":"x"}`, "a pass has no reason"},
		{"another kind", `{"name":"a","call":{"name":"bash","kind":"sh"},"want":"pass"}`, "kind is"},
		{"arguments that are no object", `{"name":"a","call":{"name":"bash","arguments":[]},"want":"pass"}`, "call.arguments is not an object"},
		{"config that is no object", `{"name":"a","call":{"name":"bash"},"config":"x","want":"pass"}`, "config is not an object"},
		{"a negative count", `{"name":"a","call":{"name":"bash"},"session":{"calls":-1},"want":"pass"}`, "negative"},
		{"a fraction for a count", `{"name":"a","call":{"name":"bash"},"session":{"calls":1.5},"want":"pass"}`, "calls"},
		{"a name twice", good + "\n" + good, `line 2: the name "a" is that of line 1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cases, err := Parse([]byte(tc.file))
			switch {
			case tc.err == "" && (err != nil || len(cases) != 1):
				t.Errorf("%d cases, %v", len(cases), err)
			case tc.err != "":
				var e *Error
				if err == nil || !strings.Contains(err.Error(), tc.err) || !errors.As(err, &e) || e.Hint() == "" {
					t.Errorf("got %v, want %q", err, tc.err)
				}
			}
		})
	}
}

// What is read is what stands in the file, and nothing else is read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{good, good + "\n\n", `{"name":"a","call":{"name":"x","arguments":{"a":[1,{"b":null}]},"kind":"other"},"session":{"turn":1},"config":{},"want":"ask","reason":"y"}`, `{"name":"a"`, "[]", "{}", "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		cases, err := Parse(file)
		if (err == nil) == (len(cases) == 0) {
			t.Fatalf("%d cases and %v", len(cases), err)
		}
		names := map[string]bool{}
		for _, c := range cases {
			if c.Name == "" || names[c.Name] || c.Call.Name == "" || c.line == 0 {
				t.Fatalf("%+v", c)
			}
			names[c.Name] = true
			c.Judged()
			var plain struct{ Name, Want string }
			if err := json.Unmarshal(bytes.Split(file, []byte("\n"))[c.line-1], &plain); err != nil || plain.Name != c.Name || plain.Want != c.Want {
				t.Fatalf("%+v is read as %+v (%v)", plain, c, err)
			}
		}
	})
}

// The call is made as the proxy makes it.
func TestJudged(t *testing.T) {
	for _, tc := range []struct {
		name, call, kind, argv, paths string
		ok                            bool
	}{
		{"shell", `{"name":"Bash","arguments":{"command":"sudo ls >x"}}`, "shell", `[["sudo","ls"],["ls"]]`, "[{x write}]", true},
		{"argv", `{"name":"shell","arguments":{"command":["bash","-lc","ls"]}}`, "shell", `[["bash","-lc","ls"],["ls"]]`, "[]", true},
		{"a tool of no catalogue with a command", `{"name":"frob","arguments":{"cmd":"ls"}}`, "shell", `[["ls"]]`, "[]", true},
		{"a tool of no catalogue", `{"name":"frob","arguments":{"x":"ls"}}`, "other", "", "[]", true},
		{"write", `{"name":"Write","arguments":{"file_path":"/a","content":""}}`, "write", "", "[{/a write}]", true},
		{"read", `{"name":"Read","arguments":{"file_path":"/a"}}`, "read", "", "[{/a read}]", true},
		{"patch", `{"name":"apply_patch","arguments":{"input":"*** Begin Patch\n*** Update File: b\n*** End Patch"}}`, "write", "", "[{b write}]", true},
		{"another kind", `{"name":"Bash","arguments":{"command":"ls"},"kind":"other"}`, "other", "", "[]", true},
		{"a known argument of another type", `{"name":"Bash","arguments":{"command":7}}`, "shell", "", "[]", false},
		{"nothing", `{"name":"frob"}`, "other", "", "[]", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Case
			if err := json.Unmarshal([]byte(`{"call":`+tc.call+`}`), &c); err != nil {
				t.Fatal(err)
			}
			got, ok := c.Judged()
			argv := ""
			if got.Shell != nil && got.Shell.Argv != nil {
				b, _ := json.Marshal(got.Shell.Argv)
				argv = string(b)
			}
			paths := "["
			for i, p := range got.Paths {
				paths += strings.Repeat(" ", min(i, 1)) + "{" + p.Path + " " + p.Op + "}"
			}
			if paths += "]"; ok != tc.ok || got.Kind != tc.kind || argv != tc.argv || paths != tc.paths {
				t.Errorf("ok %v, kind %s, argv %s, paths %s", ok, got.Kind, argv, paths)
			}
		})
	}
}

// For all JSON values, every spelling is valid and means the same; and text
// with letters, slashes and objects in it does get other spellings.
func TestSpellingsMeanTheSame(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any { return draw(t, 3) })
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(map[string]any{"command": rapid.String().Draw(t, "command"), "x": value.Draw(t, "x")})
		if err != nil {
			t.Fatal(err)
		}
		spellings := Spellings(text)
		if len(spellings) == 0 {
			t.Fatalf("no spellings of %s", text)
		}
		for _, s := range spellings {
			var want, got any
			if json.Unmarshal(text, &want) != nil || json.Unmarshal(s.JSON, &got) != nil || !cmp.Equal(want, got) {
				t.Fatalf("%s: %s is not %s", s.Name, s.JSON, text)
			}
		}
	})
	seen := map[string]bool{}
	for _, s := range Spellings([]byte(`{"command":"rm -rf /é","a":[1.50,{"b":"c"}]}`)) {
		if !json.Valid(s.JSON) || seen[string(s.JSON)] {
			t.Errorf("%s: %s", s.Name, s.JSON)
		}
		seen[string(s.JSON)] = true
		if !bytes.Contains(s.JSON, []byte("1.50")) {
			t.Errorf("%s: a number was written anew: %s", s.Name, s.JSON)
		}
	}
	if Spellings([]byte(`{"a":1,"a":2}`)) != nil || Spellings([]byte(`{`)) != nil {
		t.Error("spellings of what is no strict JSON")
	}
}

func draw(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case n == 0 && depth > 0:
		out := map[string]any{}
		for _, k := range rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "keys") {
			out[k] = draw(t, depth-1)
		}
		return out
	case n == 1 && depth > 0:
		out := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			out = append(out, draw(t, depth-1))
		}
		return out
	case n == 2:
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case n == 3:
		return rapid.Bool().Draw(t, "bool")
	case n == 4:
		return nil
	}
	return rapid.String().Draw(t, "string")
}

type guardFunc func(*guards.Call) guards.Verdict

func (f guardFunc) Check(_ context.Context, c *guards.Call) guards.Verdict { return f(c) }

func denied(why string) guards.Verdict {
	return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: why}
}

// What a guard does wrong is found, by the check that is for it.
func TestRunFindsFaults(t *testing.T) {
	file := `{"name":"denied","call":{"name":"bash","arguments":{"command":"rm -rf /"}},"want":"deny","reason":"root"}
{"name":"passed","call":{"name":"bash","arguments":{"command":"ls /"}},"want":"pass"}`
	isRm := func(c *guards.Call) bool {
		return c.Shell != nil && slices.ContainsFunc(c.Shell.Argv, func(a []string) bool { return a[0] == "rm" })
	}
	right := func(c *guards.Call) guards.Verdict {
		if isRm(c) {
			return denied("the root directory")
		}
		return guards.Verdict{}
	}
	for _, tc := range []struct {
		name  string
		guard func() guardFunc
		check string // that fails; "" for none
		stops bool
	}{
		{"right", func() guardFunc { return right }, "", false},
		{"passes all", func() guardFunc { return func(*guards.Call) guards.Verdict { return guards.Verdict{} } }, CheckCases, false},
		{"denies all", func() guardFunc { return func(*guards.Call) guards.Verdict { return denied("the root") } }, CheckCases, false},
		{"gives no reason", func() guardFunc {
			return func(c *guards.Call) guards.Verdict {
				v := right(c)
				v.Reason = ""
				return v
			}
		}, CheckCases, false},
		{"looks for a text in the raw arguments", func() guardFunc {
			return func(c *guards.Call) guards.Verdict {
				if strings.Contains(c.ArgumentsRaw, "rm -rf /") {
					return denied("the root directory")
				}
				return guards.Verdict{}
			}
		}, CheckSpellings, false},
		{"counts", func() guardFunc {
			n := 0
			return func(c *guards.Call) guards.Verdict {
				if n++; n > 60 {
					return denied("the root directory")
				}
				return right(c)
			}
		}, CheckState, false},
		{"answers every other time", func() guardFunc {
			n := 0
			return func(c *guards.Call) guards.Verdict {
				if n++; n%2 == 0 {
					return guards.Verdict{}
				}
				return right(c)
			}
		}, CheckRepeat, false},
		{"tells what it saw before", func() guardFunc {
			last := ""
			return func(c *guards.Call) guards.Verdict {
				v := right(c)
				if v.Decision == guards.Deny {
					v.Reason += last
				}
				last = " after " + c.Name
				return v
			}
		}, CheckRepeat, false},
		{"traps", func() guardFunc {
			return func(*guards.Call) guards.Verdict { return guards.Fault(guards.CauseTrap, "unreachable") }
		}, CheckCases, true},
		{"panics at a large call", func() guardFunc {
			return func(c *guards.Call) guards.Verdict {
				if len(c.Arguments) > 1<<17 {
					panic("too much")
				}
				return right(c)
			}
		}, CheckHostile, true},
		{"gives no verdict for other tools", func() guardFunc {
			return func(c *guards.Call) guards.Verdict {
				if c.Shell == nil {
					return guards.Verdict{Decision: 9}
				}
				return right(c)
			}
		}, CheckHostile, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cases, err := Parse([]byte(file))
			if err != nil {
				t.Fatal(err)
			}
			g := tc.guard()
			r, err := Run(t.Context(), func(json.RawMessage) (guards.Guard, error) { return g, nil }, cases)
			if err != nil {
				t.Fatal(err)
			}
			failed := slices.ContainsFunc(r.Failures, func(f Failure) bool { return f.Check == tc.check })
			if r.OK != (tc.check == "") || failed != (tc.check != "") || (r.Stopped != "") != tc.stops {
				t.Errorf("%+v", r)
			}
			if tc.stops && len(r.Failures) != 1 {
				t.Errorf("it went on after the guard broke: %+v", r.Failures)
			}
			for _, c := range r.Checks {
				if tc.check == "" && c.Made == 0 {
					t.Errorf("%s was not made", c.Name)
				}
			}
		})
	}
}

// A case that no guard would ever see is a failure and not a pass.
func TestRunRefusedCase(t *testing.T) {
	cases, err := Parse([]byte(`{"name":"a","call":{"name":"Bash","arguments":{"command":7}},"want":"deny"}`))
	if err != nil {
		t.Fatal(err)
	}
	deny := guardFunc(func(*guards.Call) guards.Verdict { return denied("x") })
	r, err := Run(t.Context(), func(json.RawMessage) (guards.Guard, error) { return deny, nil }, cases)
	if err != nil || r.OK || len(r.Failures) != 1 || r.Failures[0].Got != "refused before any guard" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunErrors(t *testing.T) {
	cases, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("bad configuration")
	_, err = Run(t.Context(), func(json.RawMessage) (guards.Guard, error) { return nil, bad }, cases)
	var config *ErrConfig
	if !errors.Is(err, bad) || !errors.As(err, &config) || config.Case != "a" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := Run(ctx, func(json.RawMessage) (guards.Guard, error) {
		return guardFunc(func(*guards.Call) guards.Verdict { return guards.Verdict{} }), nil
	}, cases)
	if err != nil || r.OK || r.Stopped != "the time was up" {
		t.Errorf("%+v, %v", r, err)
	}
}
