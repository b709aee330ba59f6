package session

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// Facts are fixed at a session's first request and never change after it.
type Facts struct {
	// Mode, Approval and Workspace as the operator stated them; Workspace is
	// an absolute path or "".
	Mode, Approval, Workspace string
	// Approver is true when somebody is there to answer a request.
	Approver bool
	// Generation numbers the configuration that these facts come from: 1 for
	// the one read at the start, one more with each reread.
	Generation uint64
	// Pinned is whatever else the caller fixes for the session together with
	// the facts, such as the rules compiled from that configuration. It must
	// not change once it is here.
	Pinned any
}

// Table holds the sessions that are known. It is safe for concurrent use.
//
// The data structure is a map from id to list element, and a list in the order
// of last use, latest first. Both are guarded by one mutex; the work under it
// is constant, and no callback runs under it.
type Table struct {
	limit   int
	now     func() time.Time
	evicted func(*Session, time.Duration)

	mu   sync.Mutex
	byID map[string]*list.Element // of *Session
	used *list.List               // front: latest use
}

// DefaultLimit is how many sessions a Table holds unless told otherwise.
const DefaultLimit = 4096

// Options of a Table. The zero value is usable.
type Options struct {
	// Limit is the number of sessions kept; 0 means DefaultLimit.
	Limit int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Evicted, if not nil, is called for each session that had to make room,
	// with the time since its last request. It runs outside the lock, on the
	// goroutine whose request needed the room.
	Evicted func(s *Session, idle time.Duration)
}

// NewTable returns an empty table.
func NewTable(o Options) *Table {
	t := &Table{limit: o.Limit, now: o.Now, evicted: o.Evicted, byID: map[string]*list.Element{}, used: list.New()}
	if t.limit <= 0 {
		t.limit = DefaultLimit
	}
	if t.now == nil {
		t.now = time.Now
	}
	return t
}

// Open returns the session of id and marks it as used now. For a session that
// is not in the table, facts is called to fix its facts, and created is true.
// facts runs under the table's lock: it has to be quick and must not use the
// table.
//
// When the table is full, the session that was idle for longest goes. A
// *Session that somebody still holds stays valid after that; the next request
// with its id opens a new one.
func (t *Table) Open(id Identity, facts func() Facts) (s *Session, created bool) {
	s, created, gone, idle := t.open(id, facts)
	if gone != nil && t.evicted != nil {
		t.evicted(gone, idle)
	}
	return s, created
}

func (t *Table) open(id Identity, facts func() Facts) (s *Session, created bool, gone *Session, idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if e, ok := t.byID[id.ID]; ok {
		t.used.MoveToFront(e)
		s = e.Value.(*Session)
		s.last = now
		return s, false, nil, 0
	}
	s = &Session{identity: id, facts: facts(), started: now, last: now}
	if t.used.Len() >= t.limit {
		oldest := t.used.Back()
		gone = t.used.Remove(oldest).(*Session)
		delete(t.byID, gone.identity.ID)
		idle = now.Sub(gone.last)
	}
	t.byID[id.ID] = t.used.PushFront(s)
	return s, true, gone, idle
}

// Lookup returns the session with that id, or nil. It does not count as use.
func (t *Table) Lookup(id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byID[id]; ok {
		return e.Value.(*Session)
	}
	return nil
}

// Len returns the number of sessions in the table.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used.Len()
}

// Session is one conversation of one client. It is safe for concurrent use.
type Session struct {
	identity Identity
	facts    Facts
	started  time.Time
	last     time.Time // guarded by the table's mutex

	mu            sync.Mutex
	refusals      map[Fingerprint]int
	order         []Fingerprint // of refusals: a ring, once it is full
	next          int           // the oldest entry of a full ring
	interventions map[string]uint64
}

// Identity returns who the session is.
func (s *Session) Identity() Identity { return s.identity }

// ID is short for Identity().ID.
func (s *Session) ID() string { return s.identity.ID }

// Facts returns what was fixed at the session's first request.
func (s *Session) Facts() Facts { return s.facts }

// Started returns the time of the session's first request.
func (s *Session) Started() time.Time { return s.started }

// Fingerprint stands for a refusal: equal ones are the same call refused for
// the same reason.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the fingerprint of a refused call: the tool's name,
// the arguments as they were judged, and the cause.
func FingerprintOf(tool string, arguments []byte, cause string) (f Fingerprint) {
	h := sha256.New()
	write(h, tool, string(arguments), cause)
	h.Sum(f[:0])
	return f
}

// maxRefusals bounds what one session can make the table hold: a model that
// varies its call each time must not fill the memory.
const maxRefusals = 256

// Refused counts a refusal and returns how often this one happened in the
// session, this time included. The session remembers the last 256 different
// ones; an older one starts again at 1.
func (s *Session) Refused(f Fingerprint) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.refusals[f]; ok {
		s.refusals[f] = n + 1
		return n + 1
	}
	if s.refusals == nil {
		s.refusals = map[Fingerprint]int{}
	}
	if len(s.order) < maxRefusals {
		s.order = append(s.order, f)
	} else {
		delete(s.refusals, s.order[s.next])
		s.order[s.next] = f
		s.next = (s.next + 1) % maxRefusals
	}
	s.refusals[f] = 1
	return 1
}

// maxKinds bounds the kinds of interventions that a session tells apart. The
// kinds are constants of this program, some with a guard's name; the bound only turns a mistake (a kind
// made from a client's text) into a wrong count instead of a full memory.
const maxKinds = 64

// Intervened counts one intervention of that kind (a narrowed schema, a
// dropped residue, a restored refusal, …) and returns how many there were in
// the session, this one included. A caller logs the first and counts the rest.
// Past 64 kinds, further kinds are counted together.
func (s *Session) Intervened(kind string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interventions == nil {
		s.interventions = map[string]uint64{}
	}
	if _, ok := s.interventions[kind]; !ok && len(s.interventions) >= maxKinds {
		kind = OtherKinds
	}
	s.interventions[kind]++
	return s.interventions[kind]
}

// OtherKinds is the key under which Interventions gives the count of the kinds
// beyond the 64 that are told apart.
const OtherKinds = "other kinds"

// Interventions returns the counts by kind. The map is the caller's.
func (s *Session) Interventions() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[string]uint64, len(s.interventions))
	for kind, n := range s.interventions {
		m[kind] = n
	}
	return m
}
