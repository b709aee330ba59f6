package session

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	key     = []byte("a key for tests")
	threads = Headers{Session: []string{"thread-id", "session-id"}, Parent: []string{"x-parent-thread-id"}}
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestIdentify(t *testing.T) {
	base := Identify(header("thread-id", "T"), threads, "", key)
	for _, c := range []struct {
		name   string
		h      http.Header
		names  Headers
		label  string
		source Source
		same   bool // the same session as base
	}{
		{"the same id", header("thread-id", "T"), threads, "", FromHeader, true},
		{"header names have no case", header("Thread-Id", "T"), threads, "", FromHeader, true},
		{"blanks around the id", header("thread-id", " T "), threads, "", FromHeader, true},
		{"the credential does not matter then", header("thread-id", "T", "authorization", "Bearer s"), threads, "", FromHeader, true},
		{"the best header counts", header("thread-id", "T", "session-id", "S"), threads, "", FromHeader, true},
		{"a blank best header does not count", header("thread-id", " ", "session-id", "T"), threads, "", FromHeader, true},
		{"another id", header("thread-id", "U"), threads, "", FromHeader, false},
		{"ids keep their case", header("thread-id", "t"), threads, "", FromHeader, false},
		{"the same id under a label", header("thread-id", "T"), threads, "ci", FromHeader, false},
		{"no id, a credential", header("authorization", "T"), threads, "", FromCredential, false},
		{"a client without such headers", header("thread-id", "T", "x-api-key", "k"), Headers{}, "", FromCredential, false},
		{"nothing at all", header(), threads, "", FromNothing, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Identify(c.h, c.names, c.label, key)
			if got.Source != c.source {
				t.Errorf("source %q, want %q", got.Source, c.source)
			}
			if (got.ID == base.ID) != c.same {
				t.Errorf("same session: %v, want %v", got.ID == base.ID, c.same)
			}
			if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(got.ID) {
				t.Errorf("id %q is not 32 hex digits", got.ID)
			}
		})
	}
}

func TestIdentifyParent(t *testing.T) {
	parent := Identify(header("thread-id", "P"), threads, "x", key)
	child := Identify(header("thread-id", "C", "x-parent-thread-id", "P"), threads, "x", key)
	if child.Parent != parent.ID || !child.Child() {
		t.Errorf("child's parent %q, want %q", child.Parent, parent.ID)
	}
	if parent.Child() {
		t.Error("a session without a parent's header is a child")
	}
	if other := Identify(header("thread-id", "C", "x-parent-thread-id", "P"), threads, "y", key); other.Parent == parent.ID {
		t.Error("a label leaked into another one through the parent")
	}
	if self := Identify(header("thread-id", "P", "x-parent-thread-id", "P"), threads, "x", key); self.Child() {
		t.Error("a session is its own child")
	}
	if orphan := Identify(header("x-parent-thread-id", "P"), threads, "x", key); orphan.Child() {
		t.Error("a request without an id of its own has a parent")
	}
}

// A client that tells agents inside one session apart.
func TestIdentifyAgents(t *testing.T) {
	names := Headers{Session: []string{"session-id"}, Agent: []string{"agent-id"}, Parent: []string{"parent-agent-id"}}
	id := func(pairs ...string) Identity { return Identify(header(pairs...), names, "", key) }
	main := id("session-id", "S")
	one := id("session-id", "S", "agent-id", "1")
	two := id("session-id", "S", "agent-id", "2", "parent-agent-id", "1")
	if main.ID == one.ID || one.ID == two.ID {
		t.Error("agents of one session are not told apart")
	}
	if main.Child() || one.Child() || two.Parent != one.ID {
		t.Errorf("parents: %q, %q, %q", main.Parent, one.Parent, two.Parent)
	}
	if other := id("session-id", "T", "agent-id", "2", "parent-agent-id", "1"); other.Parent == one.ID {
		t.Error("the parent is an agent of another session")
	}
	if self := id("session-id", "S", "agent-id", "1", "parent-agent-id", "1"); self.Child() {
		t.Error("an agent is its own child")
	}
}

func TestIdentifyCredential(t *testing.T) {
	id := func(h http.Header, label string, key []byte) string { return Identify(h, threads, label, key).ID }
	a := id(header("authorization", "Bearer one"), "", key)
	for name, other := range map[string]string{
		"another credential":            id(header("authorization", "Bearer two"), "", key),
		"the same text, another header": id(header("x-api-key", "Bearer one"), "", key),
		"another label":                 id(header("authorization", "Bearer one"), "l", key),
		"another key":                   id(header("authorization", "Bearer one"), "", []byte("other")),
	} {
		if other == a {
			t.Errorf("%s gives the same session", name)
		}
	}
	if id(header("authorization", "Bearer one", "x-api-key", "k"), "", key) != a {
		t.Error("a second credential header changed the session")
	}
	secret := "sk-ant-very-secret"
	got := Identify(header("x-api-key", secret), threads, "", key)
	if s := fmt.Sprintf("%+v", got); strings.Contains(s, secret) {
		t.Errorf("the identity holds the credential: %s", s)
	}
}

// For all ids and labels: two requests are one session only if both agree.
// (Lengths are hashed too, so that no shift between the parts collides.)
func TestIdentifyIsInjective(t *testing.T) {
	text := rapid.StringMatching(`[a-c:/]{1,3}`)
	rapid.Check(t, func(t *rapid.T) {
		v1, l1 := text.Draw(t, "v1"), text.Draw(t, "l1")
		v2, l2 := text.Draw(t, "v2"), text.Draw(t, "l2")
		one := Identify(header("thread-id", v1), threads, l1, key)
		two := Identify(header("thread-id", v2), threads, l2, key)
		if (one.ID == two.ID) != (v1 == v2 && l1 == l2) {
			t.Fatalf("(%q, %q) and (%q, %q): same session %v", v1, l1, v2, l2, one.ID == two.ID)
		}
	})
}

func TestValidLabel(t *testing.T) {
	for label, want := range map[string]bool{
		"ci": true, "a.b_c-9": true, strings.Repeat("a", 64): true,
		"": false, ".": false, "..": false, ".x": false, "a/b": false, "a b": false, "é": false, "a%2e": false, strings.Repeat("a", 65): false,
	} {
		if ValidLabel(label) != want {
			t.Errorf("ValidLabel(%q) = %v", label, !want)
		}
	}
}

// clock is a time that moves only when told to.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func newClock() *clock { return &clock{time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)} }

func named(id string) Identity { return Identity{ID: id, Source: FromHeader} }

func TestFactsArePinned(t *testing.T) {
	table := NewTable(Options{})
	mode := "read-only"
	facts := func() Facts { return Facts{Mode: mode, Generation: 1} }
	s, created := table.Open(named("a"), facts)
	if !created {
		t.Fatal("the first request did not create the session")
	}
	mode = "danger-full-access"
	again, created := table.Open(named("a"), func() Facts { t.Error("facts asked again"); return Facts{} })
	if created || again != s || again.Facts().Mode != "read-only" {
		t.Errorf("second request: created %v, mode %q", created, again.Facts().Mode)
	}
	other, _ := table.Open(named("b"), facts)
	if other.Facts().Mode != "danger-full-access" {
		t.Error("a new session did not take the facts of its moment")
	}
}

func TestOldestIdleIsEvictedFirst(t *testing.T) {
	c := newClock()
	var log []string
	table := NewTable(Options{Limit: 2, Now: c.now, Evicted: func(s *Session, idle time.Duration) {
		log = append(log, fmt.Sprintf("%s idle %s", s.ID(), idle))
	}})
	open := func(id string) *Session {
		c.advance(time.Second)
		s, _ := table.Open(named(id), func() Facts { return Facts{} })
		return s
	}
	a := open("a")
	open("b")
	open("a") // b is now the one that is idle for longest
	open("c")
	if want := []string{"b idle 2s"}; !slices.Equal(log, want) {
		t.Errorf("evicted %q, want %q", log, want)
	}
	if table.Len() != 2 || table.Lookup("b") != nil || table.Lookup("a") != a {
		t.Errorf("the table holds %d sessions", table.Len())
	}
	table.Lookup("a") // looking is not using
	open("d")
	if want := []string{"b idle 2s", "a idle 2s"}; !slices.Equal(log, want) {
		t.Errorf("evicted %q, want %q", log, want)
	}
	if a.Refused(FingerprintOf("x", nil, "y")) != 1 {
		t.Error("an evicted session is not usable any more")
	}
	if back := open("a"); back == a {
		t.Error("an evicted session came back")
	}
}

// For all sequences of requests: the table never exceeds its limit and holds
// exactly the latest distinct ids.
func TestTableKeepsTheLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		table := NewTable(Options{Limit: limit, Now: newClock().now})
		var latest []string
		for _, id := range rapid.SliceOf(rapid.SampledFrom(strings.Split("abcdefgh", ""))).Draw(t, "requests") {
			_, created := table.Open(named(id), func() Facts { return Facts{} })
			if created == slices.Contains(latest, id) {
				t.Fatalf("%q: created %v with %q known", id, created, latest)
			}
			latest = slices.DeleteFunc(latest, func(s string) bool { return s == id })
			latest = append(latest, id)
			if len(latest) > limit {
				latest = latest[1:]
			}
		}
		if table.Len() != len(latest) {
			t.Fatalf("%d sessions, want %q", table.Len(), latest)
		}
		for _, id := range latest {
			if table.Lookup(id) == nil {
				t.Fatalf("%q is missing", id)
			}
		}
	})
}

func TestDefaultLimit(t *testing.T) {
	table := NewTable(Options{})
	for i := range DefaultLimit + 10 {
		table.Open(named(fmt.Sprint(i)), func() Facts { return Facts{} })
	}
	if table.Len() != DefaultLimit {
		t.Errorf("%d sessions, want %d", table.Len(), DefaultLimit)
	}
}

func TestRefused(t *testing.T) {
	s := &Session{}
	f := FingerprintOf("bash", []byte(`{"command":"rm"}`), "policy")
	for want := 1; want <= 3; want++ {
		if got := s.Refused(f); got != want {
			t.Errorf("refusal %d counted as %d", want, got)
		}
	}
	for name, other := range map[string]Fingerprint{
		"tool":      FingerprintOf("sh", []byte(`{"command":"rm"}`), "policy"),
		"arguments": FingerprintOf("bash", []byte(`{"command": "rm"}`), "policy"),
		"cause":     FingerprintOf("bash", []byte(`{"command":"rm"}`), "trap"),
	} {
		if s.Refused(other) != 1 {
			t.Errorf("another %s counts as the same refusal", name)
		}
	}
	// f is the oldest: 252 more leave it the only one to go with the next.
	for i := range maxRefusals - 4 {
		s.Refused(FingerprintOf(fmt.Sprint(i), nil, ""))
	}
	if got := s.Refused(f); got != 4 {
		t.Errorf("with the ring just full, the oldest counts %d, want 4", got)
	}
	s.Refused(FingerprintOf("one more", nil, ""))
	if got := s.Refused(f); got != 1 {
		t.Errorf("a forgotten refusal counts %d, want 1", got)
	}
	if len(s.refusals) != maxRefusals || len(s.order) != maxRefusals {
		t.Errorf("%d refusals are remembered, want %d", len(s.refusals), maxRefusals)
	}
}

func TestIntervened(t *testing.T) {
	s := &Session{}
	if s.Intervened("narrowed") != 1 || s.Intervened("narrowed") != 2 || s.Intervened("restored") != 1 {
		t.Error("kinds are not counted one by one")
	}
	for i := range 100 {
		s.Intervened(fmt.Sprint("kind ", i))
	}
	counts := s.Interventions()
	if counts["narrowed"] != 2 || counts[OtherKinds] != 100-(maxKinds-2) {
		t.Errorf("counts: %v", counts)
	}
	counts["narrowed"] = 99
	if s.Interventions()["narrowed"] != 2 {
		t.Error("the caller's map is the session's own")
	}
}

// Many clients at once: each session is created once, no count is lost.
func TestConcurrentUse(t *testing.T) {
	table := NewTable(Options{Limit: 8, Evicted: func(*Session, time.Duration) {}})
	const workers, rounds = 8, 200
	f := FingerprintOf("bash", nil, "policy")
	pinned, _ := table.Open(named("shared"), func() Facts { return Facts{Generation: 1} })
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				s, _ := table.Open(named("shared"), func() Facts { return Facts{Generation: 2} })
				if g := s.Facts().Generation; g != 1 && g != 2 {
					t.Errorf("generation %d", g)
				}
				pinned.Refused(f)
				pinned.Intervened("narrowed")
				table.Open(named(fmt.Sprint(w, i%3)), func() Facts { return Facts{} })
				table.Lookup("shared")
				pinned.Interventions()
			}
		})
	}
	wg.Wait()
	if n := pinned.Refused(f); n != workers*rounds+1 {
		t.Errorf("%d refusals, want %d", n, workers*rounds+1)
	}
	if n := pinned.Interventions()["narrowed"]; n != workers*rounds {
		t.Errorf("%d interventions, want %d", n, workers*rounds)
	}
	if table.Len() > 8 {
		t.Errorf("%d sessions in a table of 8", table.Len())
	}
}
