package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/proxy"
)

// Text flows while upstream is still writing; a call does not, however long
// upstream takes, and meanwhile the client hears that the stream is alive.
// Every step waits for the one before it, so that nothing depends on time.
func TestACallIsHeldAndTheRestFlows(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		if !d.streaming {
			return
		}
		s := d.stream("Some text.", []call{{"c1", d.shell(), `{"command":"echo one"}`}}, 6)
		inCall := before(s, "echo", 1)
		inCall = inCall[:strings.LastIndex(inCall, "\n\n")+2]
		text := before(s, "c1", 1)
		text = text[:strings.LastIndex(text, "\n\n")+2]
		parts := []string{text, inCall[len(text):], s[len(inCall):]}

		next := make(chan struct{})
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			for i, p := range parts {
				if i > 0 {
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
				}
				io.WriteString(w, p)
				http.NewResponseController(w).Flush()
			}
		})
		slow := quiet(mux, &lockedBuffer{})
		defer slow.Close()
		r := start(t, func(o *proxy.Options) {
			o.Upstreams[0].URL = slow.URL
			o.KeepAlive = 2 * time.Millisecond
		})
		of := d.wire()
		client := http.Client{Timeout: 30 * time.Second}
		resp, err := client.Post(r.url+d.path, "application/json", strings.NewReader(d.bare()+toolsOf(of, d.shell())+`}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		defer client.CloseIdleConnections()
		got, buf := "", make([]byte, 4096)
		until := func(mark string) {
			t.Helper()
			for !strings.Contains(got, mark) {
				n, err := resp.Body.Read(buf)
				got += string(buf[:n])
				if err != nil {
					t.Fatalf("no %q in %q: %v", mark, got, err)
				}
			}
		}
		until("Some text.")
		next <- struct{}{}
		alive := string(wire.KeepAlive(of))
		until(text + alive + alive)
		if rest := strings.ReplaceAll(strings.TrimPrefix(got, text), alive, ""); rest != "" {
			t.Errorf("while a call is held the client gets %q", rest)
		}
		next <- struct{}{}
		for {
			n, err := resp.Body.Read(buf)
			got += string(buf[:n])
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if strings.ReplaceAll(strings.TrimPrefix(got, text), alive, "") != strings.ReplaceAll(s[len(text):], alive, "") || !strings.HasPrefix(got, text) {
			t.Errorf("upstream wrote\n%q\nand the client has\n%q", s, got)
		}
		if m := mismatch(of, []byte(s), passage{out: []byte(got), want: []call{d.read(call{"c1", d.shell(), `{"command":"echo one"}`})}}, true); m != "" {
			t.Error(m)
		}
	})
}

// deliberate is a guard that takes as long as a test wants.
type deliberate struct{ asked, verdict chan struct{} }

func (g *deliberate) Check(ctx context.Context, c *guards.Call) guards.Verdict {
	g.asked <- struct{}{}
	select {
	case <-g.verdict:
		return guards.Verdict{}
	case <-ctx.Done():
		return guards.Fault(guards.CauseCanceled, "")
	}
}

// Upstream has sent everything, and the guard still thinks: the client has all
// that stands before the first call, and of a call nothing until its verdict.
func TestNothingOfACallBeforeItsVerdict(t *testing.T) {
	every(t, func(t *testing.T, d dialect) {
		if !d.streaming {
			return
		}
		s := d.stream("Some text.", []call{{"c1", d.shell(), `{"command":"echo alpha"}`}, {"c2", d.shell(), `{"command":"echo omega"}`}}, 6)
		g := &deliberate{make(chan struct{}), make(chan struct{})}
		r := start(t, func(o *proxy.Options) {
			o.Guards = guards.Chain{{Name: "deliberate", Guard: g}}
			o.KeepAlive = 2 * time.Millisecond
		})
		r.up.then(reply{header: sseHeader, body: s})
		client := http.Client{Timeout: 30 * time.Second}
		resp, err := client.Post(r.url+d.path, "application/json", strings.NewReader(d.bare()+toolsOf(d.wire(), d.shell())+`}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		defer client.CloseIdleConnections()
		alive := string(wire.KeepAlive(d.wire()))
		got, buf := "", make([]byte, 4096)
		read := func() error {
			n, err := resp.Body.Read(buf)
			got += string(buf[:n])
			return err
		}
		// Chat's calls are whole at the end of the reply alone, and judged there.
		for i, id := range []string{"c1", "c2"} {
			<-g.asked
			for before := strings.Count(got, alive); strings.Count(got, alive) < before+2; {
				if err := read(); err != nil {
					t.Fatal(err)
				}
			}
			if strings.Contains(got, id) || strings.Contains(got, []string{"alpha", "omega"}[i]) {
				t.Errorf("before the verdict on %s the client has %q", id, got)
			}
			if !strings.Contains(got, "Some text.") {
				t.Errorf("the text waits for a call: %q", got)
			}
			g.verdict <- struct{}{}
		}
		for {
			err := read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if strings.ReplaceAll(got, alive, "") != strings.ReplaceAll(s, alive, "") {
			t.Errorf("upstream wrote\n%q\nand the client has\n%q", s, got)
		}
	})
}
