package main

import (
	"context"
	"errors"
	"io"
	"os"
)

// Ctrl-C ends a verb that waits for its input. A read of a terminal or a pipe
// can't be taken back, so it is left behind in a goroutine that ends with the
// process.

// errInterrupted is what a verb says that has nothing else to say.
var errInterrupted = errors.New("interrupted")

// untilDone reads from a file or a stream until ctx is done.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	u := &interruptible{ctx: ctx, r: r}
	if f, ok := r.(*os.File); ok {
		fi, err := f.Stat()
		u.direct = err == nil && fi.Mode().IsRegular() // never waits
	}
	return u
}

type interruptible struct {
	ctx    context.Context
	r      io.Reader
	direct bool
	buf    []byte    // what the goroutine reads into; not ours while it reads
	read   chan span // its answers
	gone   bool      // a read was left behind
}

type span struct {
	n   int
	err error
}

func (u *interruptible) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil || u.gone {
		return 0, errInterrupted
	}
	if u.direct {
		return u.r.Read(b)
	}
	if len(u.buf) < len(b) {
		u.buf = make([]byte, len(b))
	}
	if u.read == nil {
		u.read = make(chan span, 1)
	}
	into := u.buf[:len(b)]
	go func() {
		n, err := u.r.Read(into)
		u.read <- span{n, err}
	}()
	select {
	case s := <-u.read:
		return copy(b, into[:s.n]), s.err
	case <-u.ctx.Done():
		u.gone = true
		return 0, errInterrupted
	}
}
