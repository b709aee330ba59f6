// Package policy decides, from facts alone, what may be granted to a session
// and what becomes of an escalation that a model asked for anyway.
//
// Everything here is a pure function: no clock, no state, no logging. There
// are two questions. [Never] is asked once a session, and its answer fixes
// which schema fields the model sees; so it must not depend on the call at
// hand, or the bytes of the prompt would move inside the session. [Residue] is
// asked once a call, when arguments carry escalation fields, and may look at
// the mode of that moment.
//
// Nothing in this package widens. The answers are "hide it", "drop it",
// "refuse it" and "leave it to the client's approver"; an escalation is granted
// by that approver only, and for one call.
package policy

import (
	"slices"

	"github.com/guardproxy/guardproxy/confine"
)

// The three modes, narrowest first, as the texts that clients and the
// configuration use. Any other text is an unknown mode: facts may hold one,
// which is why they are texts here. Their order is that of package confine.
const (
	ReadOnly         = string(confine.ReadOnly)
	WorkspaceWrite   = string(confine.WorkspaceWrite)
	DangerFullAccess = string(confine.FullAccess)
)

// ladder lists the modes; a mode's index is its rung.
var ladder = []string{ReadOnly, WorkspaceWrite, DangerFullAccess}

// Modes returns the known modes, narrowest first. The slice is the caller's.
func Modes() []string { return slices.Clone(ladder) }

// Known reports whether mode is one of the three.
func Known(mode string) bool {
	_, err := confine.ParseMode(mode)
	return err == nil
}

// Wider reports whether mode is strictly wider than than. It is false when
// either is unknown: what can't be placed on the ladder is never above
// anything.
func Wider(mode, than string) bool {
	return Known(mode) && Known(than) && confine.Mode(mode).Wider(confine.Mode(than))
}

// Grantable returns the modes that may be granted for one call in a session of
// the given mode: the strictly wider ones. It is empty at the ceiling and for
// an unknown mode. The slice is the caller's.
func Grantable(mode string) []string {
	i := slices.Index(ladder, mode)
	if i < 0 {
		return nil
	}
	return slices.Clone(ladder[i+1:])
}

// Narrower returns the narrower of two modes. An unknown mode counts as
// narrower than any known one, and of two unknown ones the first is returned:
// a mode nobody can place must not end up with rights that somebody gave.
func Narrower(a, b string) string {
	if !Known(a) {
		return a
	}
	if !Known(b) || Wider(a, b) {
		return b
	}
	return a
}

// The two approval policies. Any other text is an unknown policy.
const (
	ApprovalNever = "never"
	ApprovalAsk   = "ask"
)

// Facts are what a session's first request pinned.
type Facts struct {
	// Mode is the sandbox mode the session runs in.
	Mode string
	// Approval says whether the client asks somebody ("ask") or not ("never").
	Approval string
	// Approver is true when somebody is there to answer. A client may have
	// the policy "ask" and nobody behind it: a headless run.
	Approver bool
	// Ceiling is the operator's option schema.ceiling: the mode is pinned for
	// the whole session, so that being at the widest mode counts as a reason
	// to hide the escalation fields.
	Ceiling bool
}

// Why names the reason for which no escalation can be granted. The texts are
// stable: they are used as causes in logs.
type Why string

const (
	WhyNone          Why = ""
	WhyApprovalNever Why = "approval_never"
	WhyNoApprover    Why = "no_approver"
	WhyUnknownMode   Why = "unknown_mode"
	// WhyUnknownApproval: an approval policy that is neither never nor ask.
	// Nobody can be asked under rules that nobody knows.
	WhyUnknownApproval Why = "unknown_approval"
	// WhyCeiling: already in the widest mode.
	WhyCeiling Why = "at_ceiling"
)

// Never reports whether no escalation can ever be granted in a session with
// these facts, and the first reason that holds, in the order of the constants.
//
// The ceiling counts only with the option that pins the mode: otherwise the
// mode may be changed by the user between two turns, and the schema would have
// to change with it.
func Never(f Facts) (bool, Why) {
	switch {
	case f.Approval == ApprovalNever:
		return true, WhyApprovalNever
	case f.Approval != ApprovalAsk:
		return true, WhyUnknownApproval
	case !f.Approver:
		return true, WhyNoApprover
	case !Known(f.Mode):
		return true, WhyUnknownMode
	case f.Ceiling && f.Mode == DangerFullAccess:
		return true, WhyCeiling
	}
	return false, WhyNone
}

// Delegate returns the facts of a child that was started by a session with the
// facts of parent. Approval is pinned to never, for there is nobody in front
// of a child. The mode is the parent's, or override where the parent stated
// one explicitly; an override that is unknown or wider than the parent's own
// mode does not count.
func Delegate(parent Facts, override string) Facts {
	child := parent
	child.Approval = ApprovalNever
	child.Approver = false
	if Known(override) {
		child.Mode = Narrower(override, parent.Mode)
	}
	return child
}
