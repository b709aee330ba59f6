package proxy

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// What happens to a request is told once, when it is over. The writer that the
// request's handlers have is wrapped for it: what they say about the exchange
// is noted there, and they need not know whether anybody listens.

// Events are called as things happen, if they are not nil. They must be quick
// and safe for concurrent use.
type Events struct {
	// Began is called when a request arrives, Ended when its reply is over.
	Began func()
	Ended func(Traffic)
	// Streaming is called with 1 when a streamed reply begins, and with -1 when
	// it ends.
	Streaming func(delta int)
}

// Traffic is one request and its reply.
type Traffic struct {
	Dialect, Upstream, Client string // "" when not known
	Status                    int    // as the client got it, 0 when none was sent
	Refused                   string // the code of the proxy's own error, "" when there was none

	FirstByte, Took time.Duration // since the request arrived; FirstByte is 0 when there was none
	// Bytes of bodies: from the client, to the upstream, from the upstream, to
	// the client. Encoded bodies count as they are on the wire.
	Received, Sent, Returned, Delivered int64
}

// told is a ResponseWriter that notes what goes through it.
type told struct {
	http.ResponseWriter
	x     Traffic
	start time.Time
	// The transport may still read a body when the reply is over.
	received, returned atomic.Int64
}

// tell wraps a request; end has to be called when the reply is over.
func (h *Handler) tell(w http.ResponseWriter, r *http.Request) (out http.ResponseWriter, end func()) {
	if h.events.Ended == nil {
		return w, func() {}
	}
	t := &told{ResponseWriter: w, start: time.Now()}
	if r.Body != nil && r.Body != http.NoBody { // the transport looks for NoBody
		r.Body = &countedBody{r.Body, &t.received}
	}
	if h.events.Began != nil {
		h.events.Began()
	}
	return t, func() {
		t.x.Took = time.Since(t.start)
		t.x.Received, t.x.Returned = t.received.Load(), t.returned.Load()
		h.events.Ended(t.x)
	}
}

// Unwrap lets http.ResponseController find the writer below.
func (t *told) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *told) WriteHeader(status int) {
	if t.x.Status == 0 && status >= 200 {
		t.x.Status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *told) Write(b []byte) (int, error) {
	if t.x.Status == 0 {
		t.x.Status = http.StatusOK
	}
	if t.x.FirstByte == 0 {
		t.x.FirstByte = time.Since(t.start)
	}
	n, err := t.ResponseWriter.Write(b)
	t.x.Delivered += int64(n)
	return n, err
}

// noted is where a request's handlers say what they learn. It is never nil.
func noted(w http.ResponseWriter) *Traffic {
	if t, ok := w.(*told); ok {
		return &t.x
	}
	return &Traffic{}
}

// noteUp says where the request goes and how large it is.
func noteUp(w http.ResponseWriter, dialect wire.Dialect, up upstream, size int64) {
	x := noted(w)
	x.Dialect, x.Upstream = string(dialect), up.name
	x.Sent = max(size, 0)
}

// countDown counts what comes from the upstream.
func countDown(w http.ResponseWriter, resp *http.Response) {
	if t, ok := w.(*told); ok {
		resp.Body = &countedBody{resp.Body, &t.returned}
	}
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
