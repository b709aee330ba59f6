//go:build wasip1

package guard

import (
	"iter"
	"unsafe"
)

// Pass is the verdict of a guard that has no objection.
const Pass int32 = 1

const deny, ask int32 = 2, 3

// Deny gives the reason and returns the verdict to deny. The reason is shown
// to the model, at most 300 characters of it: say what would be accepted.
func Deny(why string) int32 {
	reason(unsafe.StringData(why), uint32(len(why)))
	return deny
}

// Ask gives the reason and returns the verdict to ask an approver.
func Ask(why string) int32 {
	reason(unsafe.StringData(why), uint32(len(why)))
	return ask
}

// Note writes text to the audit log: at most 8 notes of 1 KiB.
func Note(text string) { note(unsafe.StringData(text), uint32(len(text))) }

// buffer holds most answers; a longer one gets memory of its own.
var buffer [4 << 10]byte

// Get returns the value at a JSON Pointer (RFC 6901) in the input document: a
// string decoded, anything else as compact JSON. It reports false if there is
// none. A malformed pointer ends the guard, which denies the call.
func Get(pointer string) (string, bool) {
	at, length := unsafe.StringData(pointer), uint32(len(pointer))
	n := get(at, length, &buffer[0], uint32(len(buffer)))
	if int(n) <= len(buffer) {
		return string(buffer[:max(n, 0)]), n >= 0
	}
	b := make([]byte, n) // what is written into memory of its own needs no copy
	get(at, length, &b[0], uint32(n))
	return unsafe.String(&b[0], n), true
}

// Commands goes through /call/shell/argv: the words of each simple command, in
// order. There are none if the call is no shell call. It asks the host once,
// which is far quicker for a long script than a Get for each word. The slice
// is valid until the next step, the words in it for ever.
func Commands() iter.Seq[[]string] {
	argv, ok := Get("/call/shell/argv")
	if !ok {
		argv = "[]"
	}
	return lists(argv)
}

//go:wasmimport guardproxy get
func get(path *byte, pathLen uint32, dst *byte, capacity uint32) int32

//go:wasmimport guardproxy reason
func reason(ptr *byte, n uint32)

//go:wasmimport guardproxy note
func note(ptr *byte, n uint32)
