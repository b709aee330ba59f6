// Package audit writes the decision log: one line of JSON for each tool call
// that was judged.
//
// A line says who asked, for what kind of call, what was decided and why. By
// default nothing in it is a model's or a guard's free text: the arguments are
// there as a keyed hash only, which tells two equal calls from two different
// ones and nothing else; a guard's reason and notes may quote the arguments,
// and are left out with them. What must be quoted to be useful (the name of
// the tool, the call's id, the model) is cut to a fixed length.
//
// The log never stops a call. When a line can't be written, that is reported
// once and then counted.
package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// Decision is what became of a call.
type Decision string

const (
	Allow Decision = "allow"
	// AllowEdited: the call went on, but with residue dropped or wrapped.
	AllowEdited Decision = "allow_edited"
	Refuse      Decision = "refuse"
)

// Record is one judged call. A Log keeps no slice of it.
type Record struct {
	Time time.Time
	// Session is the hashed id of the session.
	Session string
	// Client is the known client's name, "" when unknown.
	Client         string
	Dialect, Model string
	CallID, Tool   string
	// Kind is shell, write, read, code or other; "" when unknown.
	Kind     string
	Decision Decision
	// Cause is the stable name of the reason, such as policy or no_approver;
	// "" for an allowed call.
	Cause string
	// Guard is the name of the guard that decided, if one did.
	Guard string
	// Reason is guardproxy's own text about the cause. It must quote neither
	// the call nor a guard.
	Reason string
	// Arguments are the argument bytes as they were judged.
	Arguments []byte
	// GuardReason and Notes are a guard's own words. They are written only
	// where arguments are.
	GuardReason string
	Notes       []string
	// Verdicts are those of guards that did not pass the call, in
	// configuration order.
	Verdicts []Verdict
}

// Verdict is what one guard said about a call.
type Verdict struct {
	Guard    string `json:"guard"`
	Verdict  string `json:"verdict"` // ask or deny
	Cause    string `json:"cause"`
	Observed bool   `json:"observed,omitempty"` // it did not count
	// Detail is the host's own account of a guard that broke. It quotes
	// neither the call nor the guard.
	Detail string `json:"detail,omitempty"`
	// Reason and Stderr are the guard's own words. They are written only where
	// arguments are.
	Reason string `json:"reason,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// line is the shape of a line, in the order of its members.
type line struct {
	Time          string          `json:"time"`
	Session       string          `json:"session"`
	Client        string          `json:"client,omitempty"`
	Dialect       string          `json:"dialect"`
	Model         string          `json:"model,omitempty"`
	CallID        string          `json:"call_id"`
	Tool          string          `json:"tool"`
	Kind          string          `json:"kind,omitempty"`
	Decision      Decision        `json:"decision"`
	Cause         string          `json:"cause,omitempty"`
	Guard         string          `json:"guard,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	ArgumentsHMAC string          `json:"arguments_hmac"`
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	GuardReason   string          `json:"guard_reason,omitempty"`
	Notes         []string        `json:"notes,omitempty"`
	Verdicts      []Verdict       `json:"verdicts,omitempty"`
}

// maxText is the longest text, in bytes, that is quoted from a client or a
// model in a line.
const maxText = 256

// Options of a Log.
type Options struct {
	// Key keys the hash of the arguments. It is secret, it should be used for
	// nothing else, and it must not be empty.
	Key []byte
	// Arguments turns on the raw arguments, the guards' reasons and notes.
	Arguments bool
	// Failed, if not nil, is called when a line could not be written: once,
	// and again only after a Reopen. It runs on the goroutine that wrote, and
	// outside the lock.
	Failed func(error)
}

// Log is an open decision log. It is safe for concurrent use; a nil *Log
// discards what is written to it.
type Log struct {
	path string
	o    Options

	mu       sync.Mutex
	w        io.WriteCloser
	torn     bool // the last write left a part of a line behind
	reported bool
	dropped  uint64
}

// Open opens the log at path for appending and creates it with mode 0600 if
// there is none; an existing file is brought to that mode. The last element of
// the path must not be a symlink, and the file must be a regular one. The
// directory is not created.
func Open(path string, o Options) (*Log, error) {
	if len(o.Key) == 0 {
		return nil, errors.New("audit log: no key for the hash of arguments")
	}
	o.Key = bytes.Clone(o.Key)
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return &Log{path: path, o: o, w: f}, nil
}

// OpenError says why the log could not be opened.
type OpenError struct {
	Path string
	Err  error
	hint string
}

func (e *OpenError) Error() string { return fmt.Sprintf("audit log %s: %v", e.Path, e.Err) }
func (e *OpenError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *OpenError) Hint() string { return e.hint }

var errNotRegular = errors.New("not a regular file")

func openFile(path string) (*os.File, error) {
	// O_NONBLOCK: a pipe in this place must give an error and not wait for a
	// reader.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		hint := "audit.file must name a file that this user may create or append to"
		switch {
		case errors.Is(err, os.ErrNotExist):
			hint = "create the directory first, or change audit.file"
		case errors.Is(err, syscall.ELOOP):
			hint = "symlinks are not followed here; name the real file in audit.file"
		}
		var pe *os.PathError
		if errors.As(err, &pe) { // the path is in OpenError already
			err = pe.Err
		}
		return nil, &OpenError{path, err, hint}
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err == nil && info.Mode().Perm() != 0o600 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		f.Close()
		return nil, &OpenError{path, err, "audit.file must name a regular file that belongs to this user"}
	}
	return f, nil
}

// Reopen opens the path again and goes on there: what a log rotation that has
// moved the file asks for with SIGHUP. On an error the log goes on in the old
// file. After a Reopen that worked, the next failed write is reported again.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	f, err := openFile(l.path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	old := l.w
	l.w, l.torn, l.reported = f, false, false
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return nil
}

// Close closes the file. Lines written after it are counted as dropped.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return nil
	}
	w := l.w
	l.w = nil
	return w.Close()
}

// Dropped returns how many lines could not be written since Open.
func (l *Log) Dropped() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Write appends one line, in one write to the file.
func (l *Log) Write(r Record) {
	if l == nil {
		return
	}
	if err := l.append(encode(r, l.o)); err != nil && l.o.Failed != nil {
		l.o.Failed(fmt.Errorf("audit log %s: %w", l.path, err))
	}
}

// append returns the error only when it is to be reported.
func (l *Log) append(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := 0, os.ErrClosed
	if l.w != nil {
		if l.torn {
			// End the part of a line that is there, so that only that one
			// is lost to a reader.
			text = append([]byte{'\n'}, text...)
		}
		n, err = l.w.Write(text)
	}
	switch {
	case err == nil:
		l.torn = false
		return nil
	case n > 0:
		l.torn = text[n-1] != '\n'
	}
	l.dropped++
	if l.reported {
		return nil
	}
	l.reported = true
	return err
}

// encode returns the line of r, its line break included.
func encode(r Record, o Options) []byte {
	mac := hmac.New(sha256.New, o.Key)
	mac.Write(r.Arguments)
	out := line{
		Time:          r.Time.Format(time.RFC3339Nano),
		Session:       clip(r.Session),
		Client:        clip(r.Client),
		Dialect:       clip(r.Dialect),
		Model:         clip(r.Model),
		CallID:        clip(r.CallID),
		Tool:          clip(r.Tool),
		Kind:          clip(r.Kind),
		Decision:      r.Decision,
		Cause:         clip(r.Cause),
		Guard:         clip(r.Guard),
		Reason:        r.Reason,
		ArgumentsHMAC: hex.EncodeToString(mac.Sum(nil)),
	}
	if o.Arguments {
		out.Arguments = quoted(r.Arguments)
		out.GuardReason = r.GuardReason
		out.Notes = r.Notes
	}
	for _, v := range r.Verdicts {
		v.Cause, v.Detail = clip(v.Cause), clip(v.Detail)
		if !o.Arguments {
			v.Reason, v.Stderr = "", ""
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		// Texts and one RawMessage that quoted made: there is nothing in a
		// line that has no JSON.
		panic(err)
	}
	return b.Bytes()
}

// quoted returns arguments as a JSON string, or, where they are not valid
// UTF-8 and a string would lose bytes, as {"base64": …}.
func quoted(arguments []byte) json.RawMessage {
	var v any = string(arguments)
	if !utf8.Valid(arguments) {
		v = map[string]string{"base64": base64.StdEncoding.EncodeToString(arguments)}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // a string, or a map of one
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// clip cuts s to maxText bytes, at a character's start, and marks the cut.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
