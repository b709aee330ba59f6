// Package envelope writes refusals in the place of calls, and puts the calls
// back when a history brings the refusals again.
//
// A refused call keeps its place and id. For a shell tool its command becomes
// one that prints the refusal and fails, so that every client goes on and the
// model reads why. For any other tool it becomes a call of a tool that no
// client has. Both carry a seal: the call as the model made it and the text of
// the refusal, with a MAC. When a later request repeats the refusal in its
// history, the seal alone gives the original back, with no state kept between
// requests or restarts:
//
//	seal  = "gp1:" base64url( mac[16] deflate(payload) )
//	mac   = HMAC-SHA-256(key of the type, type 0 deflated payload), cut to 16 bytes
//
// The key of a type is derived from the installation's key, and the type is
// inside the MAC as well, so that a seal of one type never passes as another.
// A seal is inflated only after its MAC was verified.
//
// Everything here is pure. A Keyring is safe for concurrent use.
package envelope

import (
	"bytes"
	"compress/flate"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Type is what a key is used for.
type Type string

// The types of keys.
const (
	Refusal    Type = "refusal"
	Wrap       Type = "wrap"
	Credential Type = "credential"
	Audit      Type = "audit"
)

// Prefix starts every seal.
const Prefix = "gp1:"

const (
	macSize    = 16
	maxPayload = 32 << 20 // a call is capped at 16 MiB, and the text is small
)

// Keyring holds the keys of an installation: the first one seals, all of them
// open, so that several instances can share them and a key can be replaced.
type Keyring struct{ keys []map[Type][]byte }

// MinKey is the least length of a key, in bytes.
const MinKey = 32

// NewKeyring makes a keyring of secrets of at least MinKey bytes each.
func NewKeyring(secrets ...[]byte) (*Keyring, error) {
	if len(secrets) == 0 {
		return nil, errors.New("no key")
	}
	k := &Keyring{}
	for i, s := range secrets {
		if len(s) < MinKey {
			return nil, fmt.Errorf("key %d has %d bytes, fewer than %d", i+1, len(s), MinKey)
		}
		m := map[Type][]byte{}
		for _, t := range []Type{Refusal, Wrap, Credential, Audit} {
			d, err := hkdf.Key(sha256.New, s, nil, "guardproxy "+string(t)+" 1", sha256.Size)
			if err != nil {
				return nil, err
			}
			m[t] = d
		}
		k.keys = append(k.keys, m)
	}
	return k, nil
}

// Key is the sealing key of a type, for MACs of the caller's own.
func (k *Keyring) Key(t Type) []byte { return k.keys[0][t] }

func mac(key []byte, t Type, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(t))
	h.Write([]byte{0})
	h.Write(data)
	return h.Sum(nil)[:macSize]
}

// seal packs fields.
func (k *Keyring) seal(t Type, fields [][]byte) string {
	var payload []byte
	for _, f := range fields {
		payload = binary.AppendUvarint(payload, uint64(len(f)))
		payload = append(payload, f...)
	}
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	w.Write(payload)
	w.Close()
	return Prefix + base64.RawURLEncoding.EncodeToString(append(mac(k.keys[0][t], t, b.Bytes()), b.Bytes()...))
}

// unseal gives the fields of a seal, or false when no key of the ring made it.
func (k *Keyring) unseal(t Type, seal string) ([][]byte, bool) {
	body, ok := strings.CutPrefix(seal, Prefix)
	if !ok || len(body) < 4*macSize/3 || strings.ContainsAny(body, "\r\n") { // base64 skips line breaks
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(raw) < macSize {
		return nil, false
	}
	verified := false
	for _, m := range k.keys {
		verified = verified || hmac.Equal(raw[:macSize], mac(m[t], t, raw[macSize:]))
	}
	if !verified {
		return nil, false
	}
	payload, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw[macSize:])), maxPayload))
	if err != nil {
		return nil, false
	}
	var fields [][]byte
	for len(payload) > 0 {
		n, w := binary.Uvarint(payload)
		if w <= 0 || n > uint64(len(payload)-w) {
			return nil, false
		}
		fields = append(fields, payload[w:w+int(n)])
		payload = payload[w+int(n):]
	}
	return fields, true
}

// Holds reports whether text holds a seal, of any type, that a key of the ring
// made. A model that repeats one in a call wants to be taken for us.
func (k *Keyring) Holds(text string) bool {
	for {
		i := strings.Index(text, Prefix)
		if i < 0 {
			return false
		}
		text = text[i:]
		n := len(Prefix)
		for n < len(text) && isBase64URL(text[n]) {
			n++
		}
		// A seal may be followed by more characters of the alphabet only in a
		// text that was glued together; then it is no seal any more.
		for t := range k.keys[0] {
			if _, ok := k.unseal(t, text[:n]); ok {
				return true
			}
		}
		text = text[len(Prefix):]
	}
}

func isBase64URL(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
