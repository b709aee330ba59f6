// Package session knows which requests belong together, what was fixed at the
// first of them, and what has been counted since.
//
// [Identify] turns the headers of a request into an [Identity]: pure, and it
// keeps no raw value. A [Table] maps identities to [Session]s, in memory and
// bounded. Nothing is written to disk: after a restart, or after an eviction,
// a session is new, and the facts of that moment are pinned.
package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
)

// Headers names the request headers in which one client states who it is.
// What belongs here for which client is data of the agents table.
type Headers struct {
	// Session: the headers that hold the session's id, best first. The first
	// one that is there and not blank counts; so in the other lists.
	Session []string
	// Agent: the headers that hold the id of a thread or an agent inside the
	// session, for clients that tell several apart. Each is a session of its
	// own here: one of them may have another policy than the rest.
	Agent []string
	// Parent: the headers that name who started this one: an agent of the
	// same session for a client with Agent headers, else a session.
	Parent []string
}

// Source says what an identity was made from.
type Source string

const (
	// FromHeader: the client stated an id.
	FromHeader Source = "header"
	// FromCredential: no id, so that all requests with one credential are
	// one session.
	FromCredential Source = "credential"
	// FromNothing: neither; all such requests (of one label) are one session.
	FromNothing Source = "none"
)

// Identity is who sent a request. It holds hashes only and may be logged.
type Identity struct {
	// ID is 32 lower-case hex digits, fit for a file name.
	ID string
	// Parent is the ID of the session that started this one, or "". It may be
	// one that was never seen: some clients send a mark in the place of an id.
	Parent string
	Source Source
}

// Child reports whether another session started this one.
func (i Identity) Child() bool { return i.Parent != "" }

// credentials are the headers in which the known clients send a credential.
// The first one that is there counts.
var credentials = []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// Identify returns the identity behind h. label is the LABEL of a path
// /s/LABEL/…, or "": equal ids under different labels are different sessions.
// key is secret and keys the hash of a credential, so that nobody who reads a
// log can test a guessed credential against it; it must not be empty.
//
// A session's id is a name, not a secret and not a proof: whoever sends the
// same id joins the session. That is harmless, since a session's facts come
// from the operator's configuration and never from the client.
func Identify(h http.Header, names Headers, label string, key []byte) Identity {
	if value := first(h, names.Session); value != "" {
		id := Identity{ID: hashed("session", label, value, first(h, names.Agent)), Source: FromHeader}
		// A parent's id is made the way its own requests make it, so that the
		// child's Parent equals the parent's ID. A client that names itself
		// as its parent is nobody's child.
		if parent := first(h, names.Parent); parent != "" {
			hash := hashed("session", label, parent, "")
			if len(names.Agent) > 0 {
				hash = hashed("session", label, value, parent)
			}
			if hash != id.ID {
				id.Parent = hash
			}
		}
		return id
	}
	for _, name := range credentials {
		if value := h.Get(name); value != "" {
			mac := hmac.New(sha256.New, key)
			write(mac, "credential", label, name, value)
			return Identity{ID: digits(mac), Source: FromCredential}
		}
	}
	return Identity{ID: hashed("none", label), Source: FromNothing}
}

func first(h http.Header, names []string) string {
	for _, name := range names {
		if value := strings.TrimSpace(h.Get(name)); value != "" {
			return value
		}
	}
	return ""
}

func hashed(parts ...string) string {
	h := sha256.New()
	write(h, parts...)
	return digits(h)
}

func digits(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// write feeds each part with its length before it: no two lists of parts give
// the same bytes.
func write(h hash.Hash, parts ...string) {
	var n [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
}

// ValidLabel reports whether label may stand in a path as /s/LABEL/: 1 to 64
// letters, digits, dots, underscores and hyphens, not starting with a dot.
func ValidLabel(label string) bool {
	if label == "" || len(label) > 64 || label[0] == '.' {
		return false
	}
	for i := range len(label) {
		switch c := label[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
