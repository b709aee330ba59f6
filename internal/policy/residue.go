package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Action is what becomes of the escalation fields in one call's arguments.
type Action uint8

const (
	// Leave: the arguments go on untouched; the client and its approver see
	// the request, or there was none.
	Leave Action = iota
	// Drop: all escalation fields that are present are removed together, and
	// the call goes on under the mode it has.
	Drop
	// Refuse: the call does not run.
	Refuse
)

func (a Action) String() string {
	switch a {
	case Leave:
		return "leave"
	case Drop:
		return "drop"
	case Refuse:
		return "refuse"
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

// justification is the one escalation field that asks for nothing by itself:
// it gives the reason for what the others ask.
const justification = "justification"

// Arguments is what one call's arguments say about an escalation.
type Arguments struct {
	// Present lists the escalation fields that are there, whatever they hold,
	// in the order of the catalogue. They are dropped together or not at all:
	// a client that gets half of a pair rejects the call.
	Present []string
	// Asks holds one entry for each field that asks for something: the text
	// of a string, else the compact JSON of the value.
	Asks []string
	// Justified is true when there is a reason that is not blank.
	Justified bool
	// NeedsReason is true for a tool whose client rejects a request without
	// a justification. The caller sets it from what it knows of the tool.
	NeedsReason bool
}

// ErrNotObject is returned by ReadArguments for anything but one JSON object.
var ErrNotObject = errors.New("arguments are not a JSON object")

// ReadArguments reads the escalation fields of a call. raw is the call's
// arguments, one JSON object that was already screened (no duplicate keys);
// fields are the tool's escalation fields of the catalogue. Names are compared
// byte by byte. NeedsReason is left false.
//
// A value asks for nothing when it is null, false, blank, "use_default", or an
// empty list or object: models write these where they mean "as usual".
func ReadArguments(raw []byte, fields []string) (Arguments, error) {
	var a Arguments
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return a, fmt.Errorf("%w: %v", ErrNotObject, err)
	}
	if members == nil { // the JSON text null
		return a, ErrNotObject
	}
	for _, name := range fields {
		value, ok := members[name]
		if !ok || slices.Contains(a.Present, name) {
			continue
		}
		a.Present = append(a.Present, name)
		ask := asks(value)
		switch {
		case name == justification:
			a.Justified = ask != ""
		case ask != "":
			a.Asks = append(a.Asks, ask)
		}
	}
	return a, nil
}

// asks returns what a value asks for, "" for nothing. The value is valid JSON.
func asks(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		if s = strings.TrimSpace(s); s == "use_default" {
			return ""
		}
		return s
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return string(value)
	}
	switch text := compact.String(); text {
	case "null", "false", "[]", "{}":
		return ""
	default:
		return text
	}
}

// Option is the operator's schema.residue: what to do with a request that
// asks for something and can't be granted.
type Option string

const (
	OptionDrop   Option = "drop"
	OptionRefuse Option = "refuse"
)

// Reason says why Residue chose its action. The texts are stable.
type Reason string

const (
	// ReasonNone goes with Leave.
	ReasonNone Reason = ""
	// ReasonRedundant: nothing is asked beyond what the session has: blank
	// values, a justification alone, the same or a narrower mode, or
	// anything at all in the widest mode.
	ReasonRedundant Reason = "redundant"
	// ReasonUnpaired: the tool's client wants a justification and there is
	// none, so that it would reject the call instead of asking.
	ReasonUnpaired Reason = "unpaired"
	// ReasonNever: something wider is asked and can never be granted here;
	// Never names why.
	ReasonNever Reason = "never"
)

// Residue decides about the escalation fields in one call's arguments. f.Mode
// is the mode in force for this call. An option other than OptionRefuse counts
// as OptionDrop.
//
// A request that asks for nothing is dropped even under OptionRefuse: it is
// the commonest mistake of a model, removing it changes nothing that the call
// may do, and refusing it makes an unattended run spin. Only a request for
// something wider is refused, and only where the operator chose that.
//
// A value that is no mode's name ("require_escalated", true) counts as a
// request for the widest mode.
func Residue(a Arguments, f Facts, o Option) (Action, Reason) {
	if len(a.Present) == 0 {
		return Leave, ReasonNone
	}
	if !wants(a.Asks, f.Mode) {
		return Drop, ReasonRedundant
	}
	if never, _ := Never(f); never {
		if o == OptionRefuse {
			return Refuse, ReasonNever
		}
		return Drop, ReasonNever
	}
	if a.NeedsReason && !a.Justified {
		return Drop, ReasonUnpaired
	}
	return Leave, ReasonNone
}

// wants reports whether any of asks goes beyond mode. In an unknown mode every
// request does: there is no rung to compare with.
func wants(asks []string, mode string) bool {
	return slices.ContainsFunc(asks, func(ask string) bool {
		switch {
		case mode == DangerFullAccess:
			return false
		case Known(ask) && Known(mode):
			return Wider(ask, mode)
		}
		return true
	})
}
