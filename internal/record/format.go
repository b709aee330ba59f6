// Package record keeps what went through the proxy, and reads it again.
//
// A recording is a directory with one file a session. A file is lines of JSON:
// a header, {"v":1,"rules":{…}}, and after it one object an exchange, in the
// order in which exchanges ended. A header holds for the lines up to the next
// one: a restart begins with a header of its own, and so do changed rules.
// docs/recordings.md describes every member.
//
// [AppendHeader] and [AppendExchange] write lines, a [Reader] reads them one
// by one, and a [Recorder] is the directory that a running proxy writes to.
// [Mask] takes the credentials out of a text without moving a byte.
package record

import (
	"encoding/json"
	"time"
)

// Version is the version of the format that this package writes, and the only
// one that it reads.
const Version = 1

// Exchange is one request and what became of it. Bodies and raw texts are
// slices that the maker owns: those of a Reader are valid until its next Next.
type Exchange struct {
	// Start is when the request came, FirstByte when the first byte of the
	// reply's body came from upstream, End when the last one had gone to the
	// client. Zero: it never happened.
	Start, FirstByte, End time.Time
	// Session is the hashed id of the session, fit for a file name.
	Session string
	// Agent is the id of the known client, "" when unknown.
	Agent   string
	Dialect string
	Method  string
	// Path is path and query as the client sent them, without the prefixes
	// that are guardproxy's; values of the query are masked but for those
	// known to be harmless.
	Path string
	// Credential stands for the credential that the request carried: equal
	// ones are equal, and nothing else can be learned from it. "" for none.
	Credential string
	// RequestHeaders and ResponseHeaders map lower-case names to values, those
	// of an allow-list; several values of a name are joined with ", ".
	RequestHeaders, ResponseHeaders map[string]string
	// ClientBody is the body as the client meant it, decoded, and UpstreamBody
	// the body that went upstream: the very same slice when nothing was
	// changed.
	ClientBody, UpstreamBody []byte
	// ContentEncoding is the encoding in which the client sent the body; ""
	// for none.
	ContentEncoding string
	Rewrite         Rewrite
	// Status is upstream's, 0 when it gave none.
	Status     int
	ResponseID string
	// Usage is what the reply says of its tokens: its object, byte for byte.
	// Where a stream says it at its start and at its end, an array of the
	// two, and a member of the second counts over one of the first.
	Usage json.RawMessage
	// Diagnostics is what the provider says about its cache: its value, byte
	// for byte.
	Diagnostics json.RawMessage
	Calls       []Call
	// Masked says where bodies were masked. Offsets are bytes of the body.
	Masked Masked
	// Proof is what was found when the exact bytes were at hand: what the
	// writer was given for it. Absent: nothing was.
	Proof json.RawMessage

	// What follows is a Reader's, and is not written with an exchange.

	// Rules are those of the header that holds for this line.
	Rules json.RawMessage
	// Header counts the headers up to this line, from 1.
	Header int
	// Line counts lines from 1, Offset is the line's first byte in the file.
	Line   int
	Offset int64
}

// Rewritten reports whether the body that went upstream is another one than
// the client's.
func (x *Exchange) Rewritten() bool {
	a, b := x.ClientBody, x.UpstreamBody
	return len(a) != len(b) || len(a) > 0 && &a[0] != &b[0]
}

// Rewrite is what the way up did to a body.
type Rewrite struct {
	// Removed are JSON pointers into the client's body.
	Removed []string
	// Restored counts calls of the history that were put back.
	Restored int
}

// Masked are the places at which a credential was masked.
type Masked struct {
	ClientBody, UpstreamBody []Span
}

// Span is a range of bytes.
type Span struct{ Start, End int }

// What became of a call.
const (
	Allow       = "allow"
	AllowEdited = "allow_edited" // without residue that can't be granted
	Refuse      = "refuse"
)

// Call is a tool call of a reply, and what was decided.
type Call struct {
	ID, Tool string
	// Kind is shell, write, read, code or other, "" when unknown.
	Kind string
	// ArgumentsRaw are the bytes that the model wrote; empty for none.
	ArgumentsRaw []byte
	// Facts are what else the guards were told.
	Facts Facts
	// Verdict is Allow, AllowEdited or Refuse; Cause says why not Allow, and
	// Guard is the guard that decided, if one did.
	Verdict, Cause, Guard string
	// Masked counts the credentials that are masked in this call.
	Masked int
}

// Facts is the part of a guards.Call that an exchange and a call don't already
// say. See [Call.Judged].
type Facts struct {
	// Judged says that the call came before the guards. The others were
	// refused before, and have the session's facts alone.
	Judged bool
	Model  string
	// ArgumentsRaw are the bytes as they were judged, nil when they are the
	// call's ArgumentsRaw.
	ArgumentsRaw []byte
	// Arguments are the object that was judged, nil when it is those bytes
	// ({} for none): a custom tool takes a text, and the guards see an object
	// that holds it.
	Arguments []byte
	Shell     *Shell
	Paths     []Path
	// Mode, Approval and Workspace are pinned by the session.
	Mode, Approval, Workspace string
	// Turn, Calls and Index are those of guards.Session.
	Turn, Calls, Index int
}

// Shell is the parsed command of a shell call.
type Shell struct {
	Argv   [][]string
	Opaque bool
}

// Path is a path that a call names, with the operation "read" or "write".
type Path struct{ Path, Op string }
