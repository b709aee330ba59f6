package wasm

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// The memory of a guest, and how it is put back.
//
//	reservation  [ in use ............ | to grow into ....... ]
//	image        [ as of the snapshot  ]
//
// A reservation of address space is taken once, as large as the guest may ever
// get, so that the memory grows without moving. After the guest has started
// and has taken its configuration, its memory is written down: the image. On
// Linux the image is a sealed file in memory, mapped over the used part,
// private and copy-on-write: putting the memory back means to drop the pages
// that a call has written, whose number is small whatever the memory's size
// (memory_linux.go). Elsewhere, and where the kernel refuses, the image is copied.
//
// The mapping is not Go memory. It may be unmapped only when no guest runs in
// it: instances are closed by the goroutine that has taken them, and by nobody
// else.

// linear is the memory of one instance. It is used by one goroutine at a time.
type linear struct {
	room  []byte // the reservation; nil when the memory is on the Go heap
	heap  []byte
	size  uint64 // in use
	limit uint64 // most that the guest may have
	full  bool   // the guest asked for more than the limit
}

// Allocate makes the guest's memory, for the engine. The limit is ours and not
// the engine's, which would tell the guest alone that it was refused.
func (l *linear) Allocate(_, most uint64) experimental.LinearMemory {
	if reserveRoom {
		l.room = reserve(min(most, l.limit))
	}
	reserved.Add(int64(len(l.room)))
	return l
}

// Reallocate sets the size in use. What is added is zero.
func (l *linear) Reallocate(size uint64) []byte {
	if size > l.limit {
		l.full = true
		return nil
	}
	if l.room == nil {
		if size > uint64(len(l.heap)) {
			grown := make([]byte, size)
			copy(grown, l.heap)
			l.heap = grown
		}
		l.size = size
		return l.heap[:size:size]
	}
	if size > uint64(len(l.room)) {
		return nil // more than the module's own maximum
	}
	l.size = size
	return l.room[:size:size]
}

// Free gives the memory back. The engine calls it when the instance is closed.
func (l *linear) Free() {
	if l.room != nil {
		reserved.Add(-int64(len(l.room)))
		unreserve(l.room)
	}
	l.room, l.heap, l.size = nil, nil, 0
}

// reserved is how much address space guests hold, in bytes.
var reserved atomic.Int64

// bytes is the part in use.
func (l *linear) bytes() []byte {
	if l.room != nil {
		return l.room[:l.size]
	}
	return l.heap[:l.size]
}

// image is what a memory holds when a call begins. It is safe for concurrent
// use, each time with another memory.
type image interface {
	// size is that of every memory that shows the image, in bytes.
	size() uint64
	// attach lays the image over a memory of its size.
	attach(*linear) error
	// reset puts a memory back that was attached and still has its size.
	reset(*linear) error
	// close frees the image. Memories that are attached stay as they are.
	close() error
}

// Both are false in tests of what other systems do.
var shareImages, reserveRoom = true, true

// newImage writes a memory down. The memory itself is not attached yet.
func newImage(l *linear) (image, error) {
	if shareImages && l.room != nil && l.size > 0 {
		if im, err := newSharedImage(l.bytes()); err == nil {
			return im, nil
		}
	}
	return newCopiedImage(l), nil
}

// copiedImage is an image on the Go heap.
type copiedImage []byte

func newCopiedImage(l *linear) copiedImage { return append(copiedImage{}, l.bytes()...) }

func (im copiedImage) size() uint64 { return uint64(len(im)) }

func (im copiedImage) attach(l *linear) error {
	copy(l.bytes(), im)
	return nil
}

func (im copiedImage) reset(l *linear) error { return im.attach(l) }

func (im copiedImage) close() error { return nil }
