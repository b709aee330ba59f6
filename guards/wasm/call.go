package wasm

import (
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/guardproxy/guardproxy/guards"
)

// Limits of what one call may leave behind.
const (
	maxNotes = 8
	maxNote  = 1 << 10 // bytes a note
	maxLog   = 4 << 10 // bytes of standard error
)

const pageSize = 64 << 10

// call is the state of one run of a guest: the host functions find it in the
// context. It lives as long as the instance and no longer.
type call struct {
	doc      document
	reason   string
	notes    []string
	log      []byte
	random   uint64
	exitCode uint32
	function string // the host function that was called last
	fault    fault  // why a host function stopped the guest
	memLimit uint64
	memFull  bool // the guest asked for more memory than the limit
}

type callKey struct{}

// fault is a panic by which a host function stops the guest. The engine hands
// it back as an error; the cause is read from the call, whatever the engine
// makes of it.
type fault string

const (
	faultMisuse   = fault(guards.CauseHostMisuse)
	faultExit     = fault(guards.CauseExit)
	faultDeadline = fault(guards.CauseDeadline)
)

func (f fault) Error() string { return "guest stopped: " + string(f) }

func (c *call) fail(f fault) {
	c.fault = f
	panic(f)
}

// memory is a range of the guest's memory, to be used at once. A range
// outside of it stops the guest.
func (c *call) memory(m api.Module, ptr, size uint64) []byte {
	mem := m.Memory()
	if mem == nil {
		c.fail(faultMisuse)
	}
	ptr = uint64(uint32(ptr))
	if size > 1<<32-1 {
		c.fail(faultMisuse)
	}
	b, ok := mem.Read(uint32(ptr), uint32(size))
	if !ok {
		c.fail(faultMisuse)
	}
	return b
}

const guardModule = "guardproxy"

// guardFuncs are the three functions of guard/1.
var guardFuncs = map[string]hostFunc{
	"get":    {"iiii:i", hostGet},
	"reason": {"ii:", hostReason},
	"note":   {"ii:", hostNote},
}

// hostGet is get(path_ptr, path_len, dst, cap) -> length, or -1.
func hostGet(c *call, m api.Module, s []uint64) {
	ptr := string(c.memory(m, s[0], uint64(uint32(s[1]))))
	value, found, ok := c.doc.get(ptr)
	if !ok {
		// Answering "absent" could turn a misspelt path into a pass.
		c.fail(faultMisuse)
	}
	if !found {
		s[0] = api.EncodeI32(-1)
		return
	}
	if len(value) <= int(uint32(s[3])) {
		copy(c.memory(m, s[2], uint64(len(value))), value)
	}
	s[0] = uint64(len(value))
}

// hostReason is reason(ptr, len). The last one counts.
func hostReason(c *call, m api.Module, s []uint64) {
	b := c.memory(m, s[0], uint64(uint32(s[1])))
	c.reason = guards.ClipReason(string(b[:min(len(b), 4*guards.MaxReason+4)]))
}

// hostNote is note(ptr, len). What exceeds the limits is dropped.
func hostNote(c *call, m api.Module, s []uint64) {
	b := c.memory(m, s[0], uint64(uint32(s[1])))
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, strings.ToValidUTF8(string(b[:min(len(b), maxNote)]), "\uFFFD"))
	}
}

// Allocate makes the guest's memory, and so learns when it wants too much:
// the engine's own limit would only tell the guest.
func (c *call) Allocate(_, _ uint64) experimental.LinearMemory { return &linear{c: c} }

// linear is a guest's memory on the Go heap.
type linear struct {
	c   *call
	buf []byte
}

func (l *linear) Reallocate(size uint64) []byte {
	if size > l.c.memLimit {
		l.c.memFull = true
		return nil
	}
	if size > uint64(len(l.buf)) {
		grown := make([]byte, size)
		copy(grown, l.buf)
		l.buf = grown
	}
	return l.buf
}

func (l *linear) Free() { l.buf = nil }
