// Package terminal holds the rules of the terminal: lower case, no full stop;
// `guardproxy: error: …` says what went wrong and where, `guardproxy: hint: …`
// what to do next. Results go to stdout, everything else to stderr.
package terminal

import (
	"errors"
	"fmt"
	"io"
)

// Exit codes that are the same for every verb.
const (
	Done  = 0
	Found = 1 // the verb ran and found something
	Usage = 2
	Input = 3
)

// Streams are what a verb reads and writes, so that tests can hold them.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// CodeError carries an exit code with an error. A nil Err exits silently.
type CodeError struct {
	Code int
	Err  error
}

func (e *CodeError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}
func (e *CodeError) Unwrap() error { return e.Err }

// WithCode gives err the exit code that the process ends with.
func WithCode(code int, err error) error { return &CodeError{code, err} }

// hintError carries advice with an error; library errors do the same by
// having a Hint method.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }
func (e *hintError) Hint() string  { return e.hint }

// WithHint gives err advice.
func WithHint(err error, hint string) error { return &hintError{err, hint} }

// Hint is the advice that an error carries, "" when it has none.
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Report prints err as the rules ask and returns the exit code.
func Report(w io.Writer, err error) int {
	if err == nil {
		return Done
	}
	code := Found
	var ce *CodeError
	if errors.As(err, &ce) {
		code = ce.Code
		if ce.Err == nil {
			return code
		}
	}
	fmt.Fprintf(w, "guardproxy: error: %v\n", err)
	if hint := Hint(err); hint != "" {
		fmt.Fprintf(w, "guardproxy: hint: %s\n", hint)
	}
	return code
}
