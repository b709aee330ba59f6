package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The matrix of when an escalation can never be approved, one row a case.
func TestNever(t *testing.T) {
	ask := func(mode string, approver, ceiling bool) Facts {
		return Facts{Mode: mode, Approval: ApprovalAsk, Approver: approver, Ceiling: ceiling}
	}
	for _, c := range []struct {
		name string
		f    Facts
		why  Why
	}{
		{"somebody answers, read-only", ask(ReadOnly, true, false), WhyNone},
		{"somebody answers, workspace-write", ask(WorkspaceWrite, true, false), WhyNone},
		{"full access: the mode may change again", ask(DangerFullAccess, true, false), WhyNone},
		{"full access, pinned by the option", ask(DangerFullAccess, true, true), WhyCeiling},
		{"the option alone, below the ceiling", ask(WorkspaceWrite, true, true), WhyNone},
		{"policy never, with an approver", Facts{Mode: ReadOnly, Approval: ApprovalNever, Approver: true}, WhyApprovalNever},
		{"policy never, headless", Facts{Mode: ReadOnly, Approval: ApprovalNever}, WhyApprovalNever},
		{"headless: policy ask, nobody there", ask(WorkspaceWrite, false, false), WhyNoApprover},
		{"mode of another product", ask("yolo", true, false), WhyUnknownMode},
		{"no mode", ask("", true, false), WhyUnknownMode},
		{"mode in another case", ask("Read-Only", true, false), WhyUnknownMode},
		{"approval of another product", Facts{Mode: ReadOnly, Approval: "on-request", Approver: true}, WhyUnknownApproval},
		{"no approval", Facts{Mode: ReadOnly, Approver: true}, WhyUnknownApproval},
		{"nothing is known", Facts{}, WhyUnknownApproval},
	} {
		t.Run(c.name, func(t *testing.T) {
			never, why := Never(c.f)
			if why != c.why || never != (c.why != WhyNone) {
				t.Errorf("Never(%+v) = %v, %q; want %q", c.f, never, why, c.why)
			}
		})
	}
}

func TestLadder(t *testing.T) {
	for _, c := range []struct {
		mode string
		want []string
	}{
		{ReadOnly, []string{WorkspaceWrite, DangerFullAccess}},
		{WorkspaceWrite, []string{DangerFullAccess}},
		{DangerFullAccess, nil},
		{"", nil},
		{"full", nil},
	} {
		if got := Grantable(c.mode); !slices.Equal(got, c.want) {
			t.Errorf("Grantable(%q) = %q, want %q", c.mode, got, c.want)
		}
	}
	for i, mode := range Modes() {
		if !Known(mode) || i > 0 && !Wider(mode, Modes()[i-1]) {
			t.Errorf("%q is not on its rung", mode)
		}
	}
	Modes()[0] = "changed"
	Grantable(ReadOnly)[0] = "changed"
	if ladder[0] != ReadOnly || ladder[1] != WorkspaceWrite {
		t.Error("a caller changed the ladder through a returned slice")
	}
}

func TestDelegate(t *testing.T) {
	parent := Facts{Mode: WorkspaceWrite, Approval: ApprovalAsk, Approver: true, Ceiling: true}
	for _, c := range []struct{ name, override, mode string }{
		{"no override: the parent's mode", "", WorkspaceWrite},
		{"narrower override", ReadOnly, ReadOnly},
		{"equal override", WorkspaceWrite, WorkspaceWrite},
		{"wider override does not count", DangerFullAccess, WorkspaceWrite},
		{"unknown override does not count", "root", WorkspaceWrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			child := Delegate(parent, c.override)
			want := Facts{Mode: c.mode, Approval: ApprovalNever, Ceiling: true}
			if child != want {
				t.Errorf("Delegate = %+v, want %+v", child, want)
			}
			if _, why := Never(child); why != WhyApprovalNever {
				t.Errorf("a child's escalation is hidden because of %q, want %q", why, WhyApprovalNever)
			}
		})
	}
}

func anyMode() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(ladder), rapid.SampledFrom([]string{"", "READ-ONLY", "full", "read-only "}), rapid.String())
}

func anyFacts() *rapid.Generator[Facts] {
	return rapid.Custom(func(t *rapid.T) Facts {
		return Facts{
			Mode:     anyMode().Draw(t, "mode"),
			Approval: rapid.OneOf(rapid.SampledFrom([]string{ApprovalAsk, ApprovalNever, "", "on-request"}), rapid.String()).Draw(t, "approval"),
			Approver: rapid.Bool().Draw(t, "approver"),
			Ceiling:  rapid.Bool().Draw(t, "ceiling"),
		}
	})
}

// For all modes: wider is a strict order, and what is grantable is exactly
// what is strictly wider.
func TestLadderIsAStrictOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyMode().Draw(t, "a"), anyMode().Draw(t, "b"), anyMode().Draw(t, "c")
		if Wider(a, a) {
			t.Fatalf("%q is wider than itself", a)
		}
		if Wider(a, b) && Wider(b, a) {
			t.Fatalf("%q and %q are wider than each other", a, b)
		}
		if Wider(a, b) && Wider(b, c) && !Wider(a, c) {
			t.Fatalf("not transitive: %q, %q, %q", a, b, c)
		}
		if got := slices.Contains(Grantable(b), a); got != Wider(a, b) {
			t.Fatalf("grantable %v, wider %v for %q in %q", got, Wider(a, b), a, b)
		}
		if Known(a) && Known(b) && a != b && Wider(a, b) == Wider(b, a) {
			t.Fatalf("%q and %q can't be compared", a, b)
		}
		if n := Narrower(a, b); n != a && n != b || Wider(n, a) || Wider(n, b) {
			t.Fatalf("Narrower(%q, %q) = %q", a, b, n)
		}
	})
}

// For all facts: only a known mode with the policy ask and an approver can
// ever grant, and taking the approver away never makes something grantable.
func TestNeverOnlyLetsTheOneCaseThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts().Draw(t, "facts")
		never, why := Never(f)
		if never == (why == WhyNone) {
			t.Fatalf("never %v without a matching reason %q", never, why)
		}
		open := f.Approval == ApprovalAsk && f.Approver && Known(f.Mode) && !(f.Ceiling && f.Mode == DangerFullAccess)
		if never == open {
			t.Fatalf("Never(%+v) = %v", f, never)
		}
		for _, less := range []Facts{
			{f.Mode, f.Approval, false, f.Ceiling},
			{f.Mode, ApprovalNever, f.Approver, f.Ceiling},
			Delegate(f, anyMode().Draw(t, "override")),
		} {
			if got, _ := Never(less); !got {
				t.Fatalf("grantable with less: %+v", less)
			}
		}
	})
}

// For all parents and overrides: a child is never wider than its parent.
func TestDelegateNeverWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent, override := anyFacts().Draw(t, "parent"), anyMode().Draw(t, "override")
		child := Delegate(parent, override)
		if Wider(child.Mode, parent.Mode) {
			t.Fatalf("child %q of %q with override %q", child.Mode, parent.Mode, override)
		}
		if !Known(parent.Mode) && child.Mode != parent.Mode {
			t.Fatalf("a parent in the unknown mode %q has a child in %q", parent.Mode, child.Mode)
		}
	})
}
