package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	dshFields    = []string{"sandbox_permissions", "justification"}
	codexFields  = []string{"sandbox_permissions", "justification", "prefix_rule", "additional_permissions", "with_escalated_permissions"}
	claudeFields = []string{"dangerouslyDisableSandbox"}
)

func TestReadArguments(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		fields    []string
		want      Arguments
	}{
		{"none of the fields", `{"command":"ls"}`, dshFields, Arguments{}},
		{"a pair", `{"command":"ls","sandbox_permissions":"danger-full-access","justification":"to install"}`, dshFields,
			Arguments{Present: dshFields, Asks: []string{DangerFullAccess}, Justified: true}},
		{"null and empty", `{"sandbox_permissions":null,"justification":""}`, dshFields, Arguments{Present: dshFields}},
		{"blank", `{"sandbox_permissions":" \n","justification":"\t"}`, dshFields, Arguments{Present: dshFields}},
		{"use_default", `{"sandbox_permissions":"use_default"}`, codexFields, Arguments{Present: []string{"sandbox_permissions"}}},
		{"justification alone", `{"justification":"because"}`, dshFields, Arguments{Present: []string{"justification"}, Justified: true}},
		{"codex, the lot", `{"sandbox_permissions":"require_escalated","prefix_rule":["git", "push"],"additional_permissions":{"network": true},"with_escalated_permissions":true}`, codexFields,
			Arguments{Present: []string{"sandbox_permissions", "prefix_rule", "additional_permissions", "with_escalated_permissions"},
				Asks: []string{"require_escalated", `["git","push"]`, `{"network":true}`, "true"}}},
		{"codex, all empty", `{"prefix_rule":[ ],"additional_permissions":{ },"with_escalated_permissions":false}`, codexFields,
			Arguments{Present: []string{"prefix_rule", "additional_permissions", "with_escalated_permissions"}}},
		{"claude, on", `{"dangerouslyDisableSandbox":true}`, claudeFields, Arguments{Present: claudeFields, Asks: []string{"true"}}},
		{"claude, off", `{"dangerouslyDisableSandbox":false}`, claudeFields, Arguments{Present: claudeFields}},
		{"a number", `{"sandbox_permissions":0}`, dshFields, Arguments{Present: []string{"sandbox_permissions"}, Asks: []string{"0"}}},
		{"another case is another name", `{"Sandbox_Permissions":"danger-full-access"}`, dshFields, Arguments{}},
		{"not at the top level", `{"env":{"sandbox_permissions":"danger-full-access"}}`, dshFields, Arguments{}},
		{"escaped name and value", `{"sandbox\u005fpermissions":"danger\u002dfull-access"}`, dshFields,
			Arguments{Present: []string{"sandbox_permissions"}, Asks: []string{DangerFullAccess}}},
		{"an honest justification of another tool", `{"justification":"x"}`, nil, Arguments{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadArguments([]byte(c.raw), c.fields)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{"a":1`, `{} {}`} {
		if _, err := ReadArguments([]byte(raw), dshFields); !errors.Is(err, ErrNotObject) {
			t.Errorf("%q: error %v, want ErrNotObject", raw, err)
		}
	}
}

// What becomes of an escalation, row by row: session, request, option.
func TestResidue(t *testing.T) {
	var (
		never    = Facts{Mode: WorkspaceWrite, Approval: ApprovalNever}
		headless = Facts{Mode: WorkspaceWrite, Approval: ApprovalAsk}
		ask      = Facts{Mode: WorkspaceWrite, Approval: ApprovalAsk, Approver: true}
		askRead  = Facts{Mode: ReadOnly, Approval: ApprovalAsk, Approver: true}
		full     = Facts{Mode: DangerFullAccess, Approval: ApprovalAsk, Approver: true}
		fullHead = Facts{Mode: DangerFullAccess, Approval: ApprovalNever}
		unknown  = Facts{Mode: "yolo", Approval: ApprovalAsk, Approver: true}
	)
	const (
		wider  = `{"sandbox_permissions":"danger-full-access","justification":"to install"}`
		same   = `{"sandbox_permissions":"workspace-write","justification":"to write"}`
		narrow = `{"sandbox_permissions":"read-only","justification":"to look"}`
		bare   = `{"sandbox_permissions":"danger-full-access"}`
		blank  = `{"sandbox_permissions":"danger-full-access","justification":"  "}`
		alone  = `{"justification":"because"}`
		empty  = `{"sandbox_permissions":"","justification":""}`
		codex  = `{"sandbox_permissions":"require_escalated","justification":"network"}`
		deflt  = `{"sandbox_permissions":"use_default","justification":"x"}`
	)
	for _, c := range []struct {
		name   string
		raw    string
		f      Facts
		o      Option
		action Action
		reason Reason
	}{
		{"no escalation", `{"command":"ls"}`, never, OptionRefuse, Leave, ReasonNone},
		{"grantable and paired", wider, ask, OptionDrop, Leave, ReasonNone},
		{"grantable, from read-only one rung", same, askRead, OptionDrop, Leave, ReasonNone},
		{"grantable, codex value", codex, ask, OptionDrop, Leave, ReasonNone},
		{"grantable, no justification", bare, ask, OptionDrop, Drop, ReasonUnpaired},
		{"grantable, blank justification", blank, ask, OptionRefuse, Drop, ReasonUnpaired},

		{"same mode", same, ask, OptionDrop, Drop, ReasonRedundant},
		{"narrower mode", narrow, ask, OptionDrop, Drop, ReasonRedundant},
		{"justification alone", alone, ask, OptionDrop, Drop, ReasonRedundant},
		{"both empty", empty, ask, OptionDrop, Drop, ReasonRedundant},
		{"use_default", deflt, ask, OptionDrop, Drop, ReasonRedundant},

		{"never, wider", wider, never, OptionDrop, Drop, ReasonNever},
		{"never, wider, refused by option", wider, never, OptionRefuse, Refuse, ReasonNever},
		{"never, wider without a reason, refused by option", bare, never, OptionRefuse, Refuse, ReasonNever},
		{"never, same mode is dropped even so", same, never, OptionRefuse, Drop, ReasonRedundant},
		{"never, use_default is dropped even so", deflt, never, OptionRefuse, Drop, ReasonRedundant},
		{"headless, wider", wider, headless, OptionDrop, Drop, ReasonNever},
		{"headless, wider, refused by option", codex, headless, OptionRefuse, Refuse, ReasonNever},
		{"unknown option counts as drop", wider, never, "", Drop, ReasonNever},

		{"at the ceiling nothing is wider", wider, full, OptionRefuse, Drop, ReasonRedundant},
		{"at the ceiling, codex value", codex, full, OptionDrop, Drop, ReasonRedundant},
		{"at the ceiling, never", wider, fullHead, OptionRefuse, Drop, ReasonRedundant},
		{"unknown mode, any request", narrow, unknown, OptionDrop, Drop, ReasonNever},
		{"unknown mode, refused by option", narrow, unknown, OptionRefuse, Refuse, ReasonNever},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ReadArguments([]byte(c.raw), dshFields)
			if err != nil {
				t.Fatal(err)
			}
			a.NeedsReason = true
			action, reason := Residue(a, c.f, c.o)
			if action != c.action || reason != c.reason {
				t.Errorf("Residue = %v, %q; want %v, %q", action, reason, c.action, c.reason)
			}
		})
	}
}

func TestResidueWithoutPairing(t *testing.T) {
	f := Facts{Mode: WorkspaceWrite, Approval: ApprovalAsk, Approver: true}
	a, err := ReadArguments([]byte(`{"dangerouslyDisableSandbox":true}`), claudeFields)
	if err != nil {
		t.Fatal(err)
	}
	if action, _ := Residue(a, f, OptionDrop); action != Leave {
		t.Errorf("a grantable request of a tool without a justification: %v, want leave", action)
	}
}

// For all arguments, facts and options: what is left goes strictly beyond the
// mode and can be granted; nothing is refused unless the operator said so; and
// an answer depends only on its inputs.
func TestResidueProperties(t *testing.T) {
	value := rapid.OneOf(
		rapid.Map(rapid.SampledFrom(append(Modes(), "", " ", "use_default", "require_escalated")), quote),
		rapid.SampledFrom([]string{"null", "true", "false", "[]", "{}", "0", `["a"]`, `{"b":null}`}),
		rapid.Map(rapid.String(), quote))
	rapid.Check(t, func(t *rapid.T) {
		members := map[string]json.RawMessage{}
		for _, name := range append(slices.Clone(codexFields), "command") {
			if rapid.Bool().Draw(t, "has "+name) {
				members[name] = json.RawMessage(value.Draw(t, name))
			}
		}
		raw, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ReadArguments(raw, codexFields)
		if err != nil {
			t.Fatal(err)
		}
		a.NeedsReason = rapid.Bool().Draw(t, "needs reason")
		f := anyFacts().Draw(t, "facts")
		o := rapid.SampledFrom([]Option{OptionDrop, OptionRefuse, "", "other"}).Draw(t, "option")

		action, reason := Residue(a, f, o)
		if again, r := Residue(a, f, o); again != action || r != reason {
			t.Fatal("two answers to one question")
		}
		never, _ := Never(f)
		switch action {
		case Leave:
			if len(a.Present) > 0 && (never || f.Mode == DangerFullAccess || len(a.Asks) == 0) {
				t.Fatalf("left %+v in %+v", a, f)
			}
		case Refuse:
			if o != OptionRefuse || !never {
				t.Fatalf("refused with option %q in %+v", o, f)
			}
		}
		if (action == Leave) != (reason == ReasonNone) {
			t.Fatalf("%v for the reason %q", action, reason)
		}
		if len(a.Asks) == 0 && action == Refuse {
			t.Fatalf("refused though nothing was asked: %+v", a)
		}
	})
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func FuzzReadArguments(f *testing.F) {
	for _, s := range []string{`{}`, `{"sandbox_permissions":"x"}`, `{"justification":{"a":[1,2]}}`, `null`, `{"a`, "{\"sandbox_permissions\":\"\\ud800\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := ReadArguments(raw, codexFields)
		if err == nil && !json.Valid(raw) {
			t.Fatalf("read invalid JSON %q", raw)
		}
		if len(a.Asks) > len(a.Present) {
			t.Fatalf("%d requests from %d fields", len(a.Asks), len(a.Present))
		}
	})
}
