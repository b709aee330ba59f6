package guards

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

func fullCall() *Call {
	raw := `{"command": "ls \u0026\u0026 rm \/x", "n": 12345678901234567890.000, "z": 1E400, "a": "é\ud83d\ude00<>&"}`
	return &Call{
		ID: "toolu_1", Name: "bash",
		Arguments: json.RawMessage(raw), ArgumentsRaw: raw,
		Kind:   "shell",
		Shell:  &Shell{Argv: [][]string{{"ls"}, {"rm", "/x", "\"\\\n\t\x01<é"}}, Opaque: true},
		Paths:  []Path{{"/abs/x", "write"}, {"/abs/y", "read"}},
		Client: "claude-code", Dialect: "anthropic-messages", Model: "m-1",
		Session: Session{ID: "s", Mode: "workspace-write", Approval: "never", Workspace: "/abs", Turn: 3, Calls: 7, Index: 1},
	}
}

func TestDocumentGolden(t *testing.T) {
	for _, tc := range []struct {
		name   string
		call   *Call
		config string
	}{
		{"full", fullCall(), ` { "limit" : 1.50, "paths" : [ "/a" ] } `},
		{"zero", &Call{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := "testdata/document_" + tc.name + ".json"
			got := append(tc.call.Document(json.RawMessage(tc.config)), '\n')
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("%s (-want +got; -update writes it anew):\n%s", file, d)
			}
		})
	}
}

func TestDocumentRefusesInvalidJSON(t *testing.T) {
	for _, tc := range []struct{ name, args, config string }{
		{"arguments", `{"a":`, ""},
		{"two values", `{} {}`, ""},
		{"configuration", `{}`, `{`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Call{Arguments: json.RawMessage(tc.args)}
			if got := c.Document(json.RawMessage(tc.config)); got != nil {
				t.Errorf("got %s", got)
			}
		})
	}
}

// For all calls the document is valid JSON, the same twice, and its strings
// decode to what they were.
func TestDocumentProperties(t *testing.T) {
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		args, err := json.Marshal(rapid.MapOf(text, text).Draw(t, "arguments"))
		if err != nil {
			t.Fatal(err)
		}
		c := Call{
			ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: args,
			ArgumentsRaw: string(rapid.SliceOf(rapid.Byte()).Draw(t, "raw")), Kind: "shell",
			Shell: &Shell{Argv: rapid.SliceOf(rapid.SliceOf(text)).Draw(t, "argv")},
		}
		doc := c.Document(nil)
		if !bytes.Equal(doc, c.Document(nil)) {
			t.Fatal("two documents of one call differ")
		}
		var got struct {
			Call struct {
				ID, Name  string
				Arguments json.RawMessage
				Raw       string `json:"arguments_raw"`
				Shell     struct{ Argv [][]string }
			}
		}
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		if got.Call.ID != c.ID || got.Call.Name != c.Name || string(got.Call.Arguments) != string(args) {
			t.Fatalf("changed: %s", doc)
		}
		if utf8.ValidString(c.ArgumentsRaw) && got.Call.Raw != c.ArgumentsRaw {
			t.Fatalf("raw arguments are %q, want %q", got.Call.Raw, c.ArgumentsRaw)
		}
		for i, argv := range c.Shell.Argv {
			if !slices.Equal(got.Call.Shell.Argv[i], argv) {
				t.Fatalf("argv %d is %q, want %q", i, got.Call.Shell.Argv[i], argv)
			}
		}
	})
}

// says is a guard with one answer.
type says Verdict

func (s says) Check(context.Context, *Call) Verdict { return Verdict(s) }

type guardFunc func(context.Context, *Call) Verdict

func (f guardFunc) Check(ctx context.Context, c *Call) Verdict { return f(ctx, c) }

func TestChain(t *testing.T) {
	pass, ask, deny := says{}, says{Decision: Ask, Reason: "sure?"}, says{Decision: Deny, Reason: "no"}
	bad := Fault(CauseTrap, "unreachable")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	big := &Call{Arguments: json.RawMessage("{}"), ArgumentsRaw: strings.Repeat(" ", MaxInput) + "{}"}
	call := &Call{Name: "bash", Kind: "shell", Client: "codex", Arguments: json.RawMessage(` {"command":"ls"}`)}

	for _, tc := range []struct {
		name    string
		chain   Chain
		ctx     context.Context
		call    *Call
		want    Decision
		cause   Cause
		reasons string // of the deciding verdicts
	}{
		{"no guards", nil, nil, call, Pass, "", ""},
		{"all pass", Chain{{Guard: pass}, {Guard: pass}}, nil, call, Pass, "", ""},
		{"ask over pass", Chain{{Guard: ask}, {Guard: pass}}, nil, call, Ask, CausePolicy, "sure?"},
		{"deny over ask", Chain{{Guard: deny}, {Guard: ask}, {Guard: pass}}, nil, call, Deny, CausePolicy, "no"},
		{"reasons in order", Chain{{Guard: says{Decision: Deny, Reason: "b"}}, {Guard: says{Decision: Deny, Reason: "a"}}}, nil, call, Deny, CausePolicy, "b a"},
		{"a fault denies", Chain{{Guard: pass}, {Guard: says(bad)}}, nil, call, Deny, CauseTrap, bad.Reason},
		{"a panic denies", Chain{{Guard: guardFunc(func(context.Context, *Call) Verdict { panic("x") })}, {Guard: pass}}, nil, call, Deny, CausePanic, faultReasons[CausePanic]},
		{"an unknown decision denies", Chain{{Guard: says{Decision: 3}}}, nil, call, Deny, CauseUnknownVerdict, faultReasons[CauseUnknownVerdict]},
		{"a missing guard denies", Chain{{}}, nil, call, Deny, CauseLoad, faultReasons[CauseLoad]},
		{"cancelled", Chain{{Guard: pass}}, canceled, call, Deny, CauseCanceled, faultReasons[CauseCanceled]},
		{"expired", Chain{{Guard: pass}}, expired, call, Deny, CauseDeadline, faultReasons[CauseDeadline]},
		{"too large", Chain{{Guard: pass}}, nil, big, Deny, CauseInputTooLarge, faultReasons[CauseInputTooLarge]},
		{"not an object", Chain{{Guard: pass}}, nil, &Call{Arguments: json.RawMessage(`[1]`)}, Deny, CauseInputInvalid, faultReasons[CauseInputInvalid]},
		{"not JSON", Chain{{Guard: pass}}, nil, &Call{Arguments: json.RawMessage(`{"a"}`)}, Deny, CauseInputInvalid, faultReasons[CauseInputInvalid]},
		{"observing decides nothing", Chain{{Guard: deny, Observe: true}, {Guard: ask}}, nil, call, Ask, CausePolicy, "sure?"},
		{"another tool", Chain{{Guard: deny, Match: Match{Tools: []string{"write"}}}}, nil, call, Pass, "", ""},
		{"this tool", Chain{{Guard: deny, Match: Match{Tools: []string{"write", "bash"}}}}, nil, call, Deny, CausePolicy, "no"},
		{"tools by exact name", Chain{{Guard: deny, Match: Match{Tools: []string{"Bash"}}}}, nil, call, Pass, "", ""},
		{"all conditions must hold", Chain{{Guard: deny, Match: Match{Tools: []string{"bash"}, Kinds: []string{"read"}}}}, nil, call, Pass, "", ""},
		{"another client", Chain{{Guard: deny, Match: Match{Clients: []string{"claude-code"}}}}, nil, call, Pass, "", ""},
		{"unknown kind and client match", Chain{{Guard: deny, Match: Match{Kinds: []string{"read"}, Clients: []string{"x"}}}}, nil, &Call{Name: "frob"}, Deny, CausePolicy, "no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := tc.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			o := tc.chain.Check(ctx, tc.call)
			var reasons []string
			for _, v := range o.Deciding() {
				reasons = append(reasons, v.Reason)
			}
			if o.Decision != tc.want || o.Cause != tc.cause || strings.Join(reasons, " ") != tc.reasons {
				t.Errorf("got %v, cause %q, reasons %q; want %v, %q, %q", o.Decision, o.Cause, reasons, tc.want, tc.cause, tc.reasons)
			}
		})
	}
}

func TestObservedVerdictIsReported(t *testing.T) {
	o := Chain{{Name: "watch", Guard: says{Decision: Deny, Reason: "no"}, Observe: true}}.Check(t.Context(), &Call{})
	want := Outcome{Verdicts: []Verdict{{Decision: Deny, Cause: CausePolicy, Guard: "watch", Reason: "no", Observed: true}}}
	for i := range o.Verdicts {
		if o.Verdicts[i].Took <= 0 {
			t.Error("the time is not measured")
		}
		o.Verdicts[i].Took = 0
	}
	if d := cmp.Diff(want, o); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// entries draws a chain of guards that pass, ask, deny, fail or panic.
func entries() *rapid.Generator[Chain] {
	return rapid.Custom(func(t *rapid.T) Chain {
		var ch Chain
		for range rapid.IntRange(0, 6).Draw(t, "guards") {
			e := Entry{Name: rapid.StringMatching("[a-c]").Draw(t, "name"), Observe: rapid.Bool().Draw(t, "observe")}
			switch k := rapid.IntRange(0, 5).Draw(t, "kind"); k {
			case 4:
				e.Guard = guardFunc(func(context.Context, *Call) Verdict { panic("x") })
			case 5:
				e.Match.Tools = []string{"another"}
				e.Guard = says{Decision: Deny}
			default:
				e.Guard = says{Decision: Decision(k)}
			}
			ch = append(ch, e)
		}
		return ch
	})
}

// For all chains, the order of the guards does not change the decision.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ch := entries().Draw(t, "chain")
		shuffled := Chain(rapid.Permutation([]Entry(ch)).Draw(t, "shuffled"))
		a, b := ch.Check(context.Background(), &Call{}), shuffled.Check(context.Background(), &Call{})
		if a.Decision != b.Decision {
			t.Fatalf("%v in one order, %v in another", a.Decision, b.Decision)
		}
	})
}

// For all chains, adding a guard anywhere never makes the decision milder and
// never removes a reason.
func TestAddingNeverWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ch, more := entries().Draw(t, "chain"), entries().Draw(t, "more")
		at := rapid.IntRange(0, len(ch)).Draw(t, "at")
		a := ch.Check(context.Background(), &Call{})
		b := slices.Insert(slices.Clone(ch), at, more...).Check(context.Background(), &Call{})
		if b.Decision < a.Decision {
			t.Fatalf("%v became %v", a.Decision, b.Decision)
		}
		if b.Decision == a.Decision && len(b.Deciding()) < len(a.Deciding()) {
			t.Fatal("a deciding verdict was lost")
		}
	})
}

// For all strings, a clipped reason is valid UTF-8, a prefix in characters,
// and no longer than the limit.
func TestClipReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "bytes")) + strings.Repeat(rapid.String().Draw(t, "text"), 20)
		got := ClipReason(s)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > MaxReason {
			t.Fatalf("%d characters of %q", utf8.RuneCountInString(got), got)
		}
		if utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Fatalf("%q is no prefix of %q", got, s)
		}
		if utf8.ValidString(s) && got != s && utf8.RuneCountInString(got) != MaxReason {
			t.Fatalf("cut to %d characters", utf8.RuneCountInString(got))
		}
	})
}
