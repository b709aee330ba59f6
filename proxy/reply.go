package proxy

import (
	"bufio"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

// down is the way down: from upstream's reply to the client's.
func (x *exchange) down(w http.ResponseWriter, r *http.Request, u *url.URL, resp *http.Response) {
	d := x.route.Dialect
	switch {
	case resp.StatusCode < 200 || resp.StatusCode >= 600:
		// Some clients take what is no error that they know for a success.
		x.refuseReply(w, "odd_status", fmt.Sprintf("the upstream answered with the status %d", resp.StatusCode))
		return
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		writeError(w, d, http.StatusBadGateway, "redirect", redirectText(u, resp))
		return
	case resp.StatusCode >= 400:
		// Errors carry no calls. They pass unchanged, retry-after and all.
		copyHeader(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		if _, err := io.Copy(w, resp.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	for _, v := range resp.Header.Values("Content-Type") { // of several, clients take any
		if charset := foreignCharset(v); charset != "" {
			// A client that honours it would read other text than we judge.
			x.refuseReply(w, "charset", fmt.Sprintf("the upstream's reply says that its charset is %q, and only UTF-8 can be judged", charset))
			return
		}
	}
	src, release, err := decoder(resp.Body, strings.Join(resp.Header.Values("Content-Encoding"), ", "))
	if err != nil {
		x.refuseReply(w, "undecodable", "the upstream's reply can't be read: "+err.Error())
		return
	}
	defer release()
	copyHeader(w.Header(), resp.Header)
	w.Header().Del("Content-Encoding")

	// What the bytes are decides, not what the header says: a client may
	// parse either way.
	c := &client{w: w, status: resp.StatusCode, flusher: http.NewResponseController(w)}
	in := bufio.NewReaderSize(src, 16<<10)
	first, err := firstByte(in)
	x.rec.arrived(err)
	switch {
	case err == io.EOF:
		w.WriteHeader(resp.StatusCode) // nothing at all
	case err != nil:
		x.broken(w, r, c, err)
	case first == '{' || first == '[' || first == '<':
		x.whole(w, r, c, in)
	default:
		x.stream(w, r, c, in)
	}
}

// foreignCharset is the charset of a Content-Type, "" for none or UTF-8 or a
// part of it.
func foreignCharset(contentType string) string {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil && strings.Contains(strings.ToLower(contentType), "charset") {
		return contentType
	}
	switch charset := params["charset"]; strings.ToLower(charset) {
	case "utf-8", "utf8", "us-ascii", "ascii":
		return ""
	default:
		return charset
	}
}

// firstByte looks at the first byte that is no white space, without taking it.
func firstByte(in *bufio.Reader) (byte, error) {
	for n := 1; ; n++ {
		b, err := in.Peek(n)
		if len(b) < n {
			if err == bufio.ErrBufferFull {
				return ' ', nil
			}
			return 0, err
		}
		if c := b[n-1]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, nil
		}
	}
}

// whole handles a reply in JSON.
func (x *exchange) whole(w http.ResponseWriter, r *http.Request, c *client, in io.Reader) {
	body, err := io.ReadAll(io.LimitReader(in, MaxBody+1))
	if err != nil {
		x.broken(w, r, c, err)
		return
	}
	if len(body) > MaxBody {
		x.refuseReply(w, "reply_too_large", fmt.Sprintf("the upstream's reply is larger than %d MiB", MaxBody>>20))
		return
	}
	rep, err := wire.ReadReply(x.route, body, x.g.inert[x.route.Dialect], wire.DefaultLimits)
	if err != nil {
		text := fmt.Sprintf("the upstream's reply is not one that can be judged: %v", err)
		if body[0] == '<' {
			text = fmt.Sprintf("the upstream answered with %s, not with a reply of %s: is the upstream's URL right?", orUnknown(w.Header().Get("Content-Type")), x.route.Dialect)
		}
		x.refuseReply(w, "reply_refused", text)
		return
	}
	x.declare(rep.Tools)
	x.withheld(rep.Withheld)
	x.rec.reply(x.route.Dialect, body)
	out := rep.Release(x.screenAll(r.Context(), rep.Calls))
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	w.WriteHeader(c.status)
	w.Write(out)
}

// withheld tells of items that no client got to see.
func (x *exchange) withheld(types []string) {
	for _, t := range types {
		x.once("reply: an item of an unknown type was withheld; if it can carry no call, list the type under dialects in the configuration", "type", t)
	}
}

func orUnknown(contentType string) string {
	if contentType == "" {
		return "content of no stated type"
	}
	return contentType
}

// stream handles a reply of server-sent events.
func (x *exchange) stream(w http.ResponseWriter, r *http.Request, c *client, in io.Reader) {
	d := x.route.Dialect
	st := wire.NewStream(d, x.g.inert[d], wire.DefaultLimits)
	if f := x.h.events.Streaming; f != nil {
		f(1)
		defer f(-1)
	}
	// What was written is flushed before upstream is waited for: events that
	// came together leave together.
	rd := sse.NewReader(&flushFirst{in, c}, wire.DefaultLimits.Call+1<<20)
	defer c.stopKeepAlive()
	held := false
	for {
		ev, err := rd.Next()
		if err == io.EOF {
			if err := st.End(); err != nil {
				x.refuseStream(w, c, err)
				return
			}
			break
		}
		if err != nil {
			if _, grammar := err.(*sse.Error); grammar || err == sse.ErrTooLarge {
				x.refuseStream(w, c, err)
			} else {
				x.broken(w, r, c, err)
			}
			return
		}
		step, err := st.Feed(ev)
		if err != nil {
			x.refuseStream(w, c, err)
			return
		}
		x.declare(step.Tools)
		x.withheld(step.Withheld)
		x.rec.event(st, ev)
		out := step.Flow
		if step.Calls != nil {
			out = st.Release(x.screenAll(r.Context(), step.Calls))
		}
		if err := c.write(out); err != nil {
			return // the client is gone: the request's context cancels upstream
		}
		if h := st.Holding(); h != held {
			if held = h; held {
				c.holding(x.h.keepAlive, wire.KeepAlive(d))
			} else {
				c.notHolding()
			}
		}
	}
	if held {
		x.once("upstream ended inside a call: the call was dropped")
	}
	c.end()
}

// refuseReply answers in the place of a reply that can't be judged.
func (x *exchange) refuseReply(w http.ResponseWriter, code, text string) {
	x.once("reply refused", "code", code, "why", text)
	for k := range w.Header() {
		w.Header().Del(k)
	}
	writeError(w, x.route.Dialect, http.StatusBadGateway, code, text)
}

// refuseStream ends a stream that can't be judged any further. What was held
// is dropped.
func (x *exchange) refuseStream(w http.ResponseWriter, c *client, err error) {
	c.stopKeepAlive() // or it writes while this does
	text := fmt.Sprintf("the upstream's reply is not one that can be judged: %v", err)
	if !c.started() {
		x.refuseReply(w, "reply_refused", text)
		return
	}
	x.once("reply refused", "code", "reply_refused", "why", text)
	noted(w).Refused = "reply_refused"
	c.write(errorEvent(x.route.Dialect, "reply_refused", text))
	c.flush()
}

// broken ends a reply whose upstream failed in the middle: before the first
// byte with an error, after it as upstream did, so that the client tries
// again.
func (x *exchange) broken(w http.ResponseWriter, r *http.Request, c *client, err error) {
	c.stopKeepAlive()
	if r.Context().Err() == nil {
		x.once("upstream failed in the middle of a reply", "error", err.Error())
		if !c.started() {
			x.refuseReply(w, "upstream_failed", fmt.Sprintf("the upstream failed in the middle of its reply: %v", err))
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// client writes to the client: the events, and keep-alives while something is
// held. Its methods may be called from two goroutines.
type client struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	flusher *http.ResponseController
	status  int
	begun   bool
	dirty   bool // written, not flushed
	err     error

	hold bool
	last time.Time // of the last byte written
	stop chan struct{}
	done chan struct{}
}

// write sends bytes; the first byte sends the header before it.
func (c *client) write(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.put(b)
}

func (c *client) put(b []byte) error {
	if c.err != nil || len(b) == 0 {
		return c.err
	}
	c.begin()
	_, c.err = c.w.Write(b)
	c.dirty = true
	if c.hold {
		c.last = time.Now()
	}
	return c.err
}

func (c *client) begin() {
	if !c.begun {
		c.begun = true
		c.w.WriteHeader(c.status)
	}
}

func (c *client) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirty {
		c.dirty = false
		if err := c.flusher.Flush(); err != nil && c.err == nil {
			c.err = err
		}
	}
}

// end sends the header of a reply without a byte, and all that is left.
func (c *client) end() {
	c.mu.Lock()
	c.begin()
	c.mu.Unlock()
	c.flush()
}

func (c *client) started() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun
}

// holding says that events are held back from now on: something is written at
// least every silence.
func (c *client) holding(silence time.Duration, event []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold, c.last = true, time.Now()
	if c.stop != nil {
		return
	}
	c.stop, c.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.done)
		tick := time.NewTicker(max(silence/2, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-tick.C:
			}
			c.mu.Lock()
			if c.hold && time.Since(c.last) >= silence/2 && c.put(event) == nil {
				c.dirty = false
				c.err = c.flusher.Flush()
			}
			c.mu.Unlock()
		}
	}()
}

func (c *client) notHolding() {
	c.mu.Lock()
	c.hold = false
	c.mu.Unlock()
}

// stopKeepAlive ends the goroutine that holding started.
func (c *client) stopKeepAlive() {
	if c.stop != nil {
		close(c.stop)
		<-c.done
		c.stop = nil
	}
}

// flushFirst flushes the client before it waits for upstream.
type flushFirst struct {
	src io.Reader
	c   *client
}

func (f *flushFirst) Read(p []byte) (int, error) {
	f.c.flush()
	return f.src.Read(p)
}
