package proxy

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

// shared is a pooled buffer that several readers use: the handler, and the
// transport, which may still read a request's body after the reply has begun.
// It goes back to the pool when the last of them lets go.
type shared struct {
	pool *sync.Pool
	buf  *bytes.Buffer
	refs atomic.Int32
}

// keepBuffer is the largest buffer, in bytes, that is kept for the next
// request.
const keepBuffer = 4 << 20

func newShared(pool *sync.Pool) *shared {
	buf, _ := pool.Get().(*bytes.Buffer)
	if buf == nil {
		buf = new(bytes.Buffer)
	}
	s := &shared{pool: pool, buf: buf}
	s.refs.Store(1)
	return s
}

func (s *shared) release() {
	if s.refs.Add(-1) == 0 && s.buf.Cap() <= keepBuffer {
		s.buf.Reset()
		s.pool.Put(s.buf)
	}
}

// reader returns a reader of data that holds on to s until it is closed.
func (s *shared) reader(data []byte) io.ReadCloser {
	s.refs.Add(1)
	return &sharedReader{s: s, data: data}
}

type sharedReader struct {
	mu     sync.Mutex // a transport may close the body while it is read
	s      *shared
	data   []byte
	closed bool
}

func (r *sharedReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, io.ErrClosedPipe
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

func (r *sharedReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed, r.data = true, nil
		r.s.release()
	}
	return nil
}
