package record

import (
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strings"
)

// What looks like a credential is masked in its place: not a byte before or
// after it moves, and a body stays the JSON that it was. The masked text keeps
// the prefix that says what kind of secret it was, then comes a tag of eight
// hexadecimal digits that stands for the secret, then stars:
//
//	sk-ant-api03-Zm9v…  →  sk-ant-5d41402a*********…
//
// The tag is keyed, so that nobody can test a guess, and it is the same for
// the same secret: whoever compares two recorded bodies still sees whether
// they differ there. A masked text has nothing left to mask.
//
// A text is searched once, by runs of the characters that tokens are made of.
// It may be JSON, or JSON inside of JSON: the letter of an escape (`\n`)
// belongs to no run.

// Masker masks credentials. It is safe for concurrent use.
type Masker struct {
	key   []byte
	known [][]byte // secrets that are known and have no shape
}

// NewMasker keys the tags with key, which is secret and must not be empty.
func NewMasker(key []byte) *Masker { return &Masker{key: bytes.Clone(key)} }

// minKnown is the length from which on a known secret is looked for: a shorter
// one would be found in words.
const minKnown = 12

// With returns a masker that masks these secrets too, wherever they stand.
func (m *Masker) With(secrets ...string) *Masker {
	out := &Masker{key: m.key, known: m.known}
	for _, s := range secrets {
		if len(s) >= minKnown {
			out.known = append(out.known[:len(out.known):len(out.known)], []byte(s))
		}
	}
	return out
}

// Mask returns text with its credentials masked, of the same length, and the
// places. Without any it is the very same slice; text itself is not changed.
func (m *Masker) Mask(text []byte) ([]byte, []Span) {
	found := m.find(text)
	if len(found) == 0 {
		return text, nil
	}
	out := bytes.Clone(text)
	for _, s := range found {
		m.cover(out[s.Start:s.End], text[s.Start:s.End])
	}
	return out, found
}

// MaskString is Mask for a string, with the number of places.
func (m *Masker) MaskString(text string) (string, int) {
	out, found := m.Mask([]byte(text))
	if len(found) == 0 {
		return text, 0
	}
	return string(out), len(found)
}

// cover fills dst with the mask of secret; both have the same length.
func (m *Masker) cover(dst, secret []byte) {
	n := 0
	if len(dst) >= 16 {
		mac := hmac.New(sha256.New, m.key)
		mac.Write([]byte("mask\x00"))
		mac.Write(secret)
		n = hex.Encode(dst, mac.Sum(nil)[:4])
	}
	for i := n; i < len(dst); i++ {
		if secret[i] == '\\' || i > 0 && secret[i-1] == '\\' {
			dst[i] = secret[i] // the escapes of a JSON string stay what they are
		} else {
			dst[i] = '*'
		}
	}
}

// shape is a kind of secret that is known by how it starts. least is how many
// characters have to follow.
type shape struct {
	prefix string
	least  int
}

// shapes are the prefixes that providers publish for their tokens, so that
// scanners find them. Of two that fit, the longer one comes first.
var shapes = []shape{
	{"sk-ant-", 16}, {"sk-proj-", 16}, {"sk-or-", 16}, {"sk-svcacct-", 16}, {"sk-admin-", 16}, {"sk-", 20},
	{"sk_live_", 16}, {"sk_test_", 16}, {"rk_live_", 16}, {"rk_test_", 16}, {"whsec_", 16},
	{"ghp_", 30}, {"gho_", 30}, {"ghu_", 30}, {"ghs_", 30}, {"ghr_", 30}, {"github_pat_", 20},
	{"glpat-", 16}, {"glrt-", 16}, {"gldt-", 16}, {"gloas-", 16},
	{"xoxb-", 16}, {"xoxp-", 16}, {"xoxa-", 16}, {"xoxr-", 16}, {"xoxs-", 16}, {"xoxe-", 16}, {"xapp-", 16},
	{"AKIA", 16}, {"ASIA", 16}, {"AIza", 30}, {"ya29", 20},
	{"hf_", 24}, {"npm_", 30}, {"pypi-", 30}, {"gsk_", 24}, {"xai-", 24}, {"nvapi-", 24}, {"pplx-", 24}, {"tvly-", 16}, {"r8_", 30},
	{"dop_v1_", 30}, {"doo_v1_", 30}, {"shpat_", 24}, {"dckr_pat_", 20}, {"lin_api_", 24}, {"figd_", 24}, {"SG.", 30}, {"PMAK-", 24},
	{"AGE-SECRET-KEY-1", 30}, {"eyJ", 30},
}

// byFirst has the shapes that begin with a byte.
var byFirst = func() (t [256][]shape) {
	for _, s := range shapes {
		t[s.prefix[0]] = append(t[s.prefix[0]], s)
	}
	return t
}()

// inToken are the characters of a run.
var inToken = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	return t
}()

// find returns the places of secrets, in order, without overlaps.
func (m *Masker) find(text []byte) (out []Span) {
	add := func(from, to int) {
		if n := len(out); n > 0 && from < out[n-1].End {
			from = out[n-1].End
		}
		if from < to {
			out = append(out, Span{from, to})
		}
	}
	for i := 0; i < len(text); {
		if c := text[i]; !inToken[c] {
			if c == ':' {
				if to := userinfo(text, i); to > 0 {
					add(to-passwordLen(text, i, to), to)
				}
			}
			i++
			continue
		}
		from := i
		for i < len(text) && inToken[text[i]] {
			i++
		}
		if i-from < 5 {
			continue
		}
		// Behind a backslash the first letter may be that of an escape. What
		// stands there says which: a text of JSON, or a path of Windows.
		for _, skip := range [...]int{0, escaped(text, from)} {
			if to := m.run(text, from+skip, i, add); to > 0 {
				i = to
				break
			}
		}
	}
	for _, k := range m.known {
		out = merge(out, text, k)
	}
	return out
}

// run looks at the run text[from:i]. If it is a secret, or leads into one, the
// place is added, and where to go on is returned; else 0.
func (m *Masker) run(text []byte, from, i int, add func(from, to int)) int {
	run := text[from:i]
	switch {
	case len(run) >= 16 && bytes.HasSuffix(text[:from], []byte("gp1:")):
		if m.sealed(run) {
			add(from, i)
		}
		return i
	case bytes.Equal(run, []byte("-----BEGIN")):
		return m.pem(text, i, add)
	case len(run) == 6 && bytes.EqualFold(run, []byte("bearer")), len(run) == 5 && bytes.EqualFold(run, []byte("basic")):
		// An Authorization header in a text: what follows has no shape.
		to := i + 1
		for to < len(text) && (inToken[text[to]] || strings.IndexByte("+/=~", text[to]) >= 0) {
			to++
		}
		if i < len(text) && text[i] == ' ' && to-i > 16 && bytes.ContainsAny(text[i+1:to], "0123456789") {
			add(i+1, to)
			return to
		}
	case len(run) >= 16:
		if skip := shaped(run); skip > 0 {
			add(from+skip, i)
			return i
		}
	}
	return 0
}

// escaped is how much of a run at from may belong to an escape before it.
func escaped(text []byte, from int) int {
	switch {
	case from == 0 || text[from-1] != '\\':
	case strings.IndexByte("bfnrt", text[from]) >= 0:
		return 1
	case text[from] == 'u' && len(text) >= from+5:
		return 5
	}
	return 0
}

// escapeLen is the length of the escape at the start of text.
func escapeLen(text []byte) int {
	switch {
	case len(text) < 2:
		return 1
	case text[1] == '\\': // an escaped backslash: what follows may be an escape of the JSON inside
		return 1
	case text[1] == 'u' && len(text) >= 6:
		return 6
	}
	return 2
}

// shaped is the length of the prefix of a secret that a run is, 0 when it is
// none.
func shaped(run []byte) int {
	for _, s := range byFirst[run[0]] {
		if len(run) < len(s.prefix)+s.least || string(run[:len(s.prefix)]) != s.prefix {
			continue
		}
		rest := run[len(s.prefix):]
		switch s.prefix {
		case "AKIA", "ASIA":
			if len(rest) != s.least || bytes.ContainsFunc(rest, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') }) {
				continue
			}
		case "eyJ": // a JSON Web Token: three parts, the second an object too
			if bytes.Count(rest, []byte(".")) < 2 || !bytes.Contains(rest, []byte(".eyJ")) {
				continue
			}
		case "sk-", "hf_", "xai-", "pplx-", "r8_":
			if !bytes.ContainsAny(rest, "0123456789") { // a name of words
				continue
			}
		}
		return len(s.prefix)
	}
	return 0
}

// sealed reports whether a seal of a refused call holds a secret: it is packed,
// not encrypted. Masked, it can't be verified any more.
func (m *Masker) sealed(run []byte) bool {
	raw, err := base64.RawURLEncoding.DecodeString(string(run))
	if err != nil || len(raw) <= 16 {
		return false
	}
	text, _ := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw[16:])), 1<<20))
	return len(text) > 0 && len(m.find(text)) > 0
}

// pem masks the body of a private key whose first line goes on at i, and
// returns where its last line starts.
func (m *Masker) pem(text []byte, i int, add func(from, to int)) int {
	head := text[i:min(i+64, len(text))]
	end := bytes.Index(head, []byte("-----"))
	if end < 0 || !bytes.Contains(head[:end], []byte("PRIVATE KEY")) {
		return i
	}
	from := i + end + 5
	to := bytes.Index(text[from:], []byte("-----END"))
	if to < 0 || to > 64<<10 {
		return from
	}
	for j := from; j < from+to; {
		switch c := text[j]; {
		case c == '\\':
			j += escapeLen(text[j:])
		case inToken[c] || c == '+' || c == '/' || c == '=':
			start := j
			for j < from+to && (inToken[text[j]] || text[j] == '+' || text[j] == '/' || text[j] == '=') {
				j++
			}
			add(start, j)
		default:
			j++
		}
	}
	return from + to
}

// userinfo returns where the user information of a URL ends whose scheme ends
// at the colon text[i], 0 when it has no password.
func userinfo(text []byte, i int) int {
	if !bytes.HasPrefix(text[i:], []byte("://")) {
		return 0
	}
	colon := false
	for j := i + 3; j < len(text) && j < i+256; j++ {
		switch c := text[j]; {
		case c == '@':
			if colon {
				return j
			}
			return 0
		case c == ':':
			colon = true
		case inToken[c] || strings.IndexByte("!$&'()*+,;=~%", c) >= 0:
		default:
			return 0
		}
	}
	return 0
}

// passwordLen is the length of the password in the user information.
func passwordLen(text []byte, i, to int) int {
	info := text[i+3 : to]
	password := info[bytes.IndexByte(info, ':')+1:]
	if len(bytes.Trim(password, "*")) == 0 || bytes.HasPrefix(password, []byte("$")) {
		return 0 // masked before, or a variable
	}
	return len(password)
}

// merge adds the places of a known secret to spans in order.
func merge(spans []Span, text, secret []byte) []Span {
	for at := 0; ; {
		i := bytes.Index(text[at:], secret)
		if i < 0 {
			return spans
		}
		s := Span{at + i, at + i + len(secret)}
		at = s.End
		var out []Span
		placed := false
		for _, o := range spans {
			switch {
			case o.End <= s.Start:
				out = append(out, o)
			case o.Start >= s.End:
				if !placed {
					out, placed = append(out, s), true
				}
				out = append(out, o)
			default: // they overlap: one place
				s.Start, s.End = min(s.Start, o.Start), max(s.End, o.End)
			}
		}
		if !placed {
			out = append(out, s)
		}
		spans = out
	}
}
