package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/guardproxy/guardproxy/internal/agents"
)

// What is recorded of headers and of a query is an allow-list. A header that
// nobody has heard of may hold a secret; what a checker needs is known.

// Request headers beside those in which clients name their sessions. A star
// stands for the rest of a name.
var requestHeaders = []string{
	"accept", "anthropic-beta", "anthropic-version", "content-encoding", "content-type", "openai-beta", "originator", "user-agent", "x-app",
	"x-stainless-arch", "x-stainless-helper-method", "x-stainless-lang", "x-stainless-os", "x-stainless-package-version", "x-stainless-retry-count",
	"x-stainless-runtime", "x-stainless-runtime-version", "x-stainless-timeout",
}

var responseHeaders = []string{
	"anthropic-ratelimit-*", "cf-ray", "content-encoding", "content-type", "date", "openai-model", "openai-processing-ms", "openai-version", "request-id",
	"retry-after", "retry-after-ms", "x-ratelimit-*", "x-request-id", "x-should-retry",
}

// Values of the query that say how to answer, not who asks.
var queryValues = []string{"alt", "api-version", "beta", "limit", "order", "stream"}

// sessionHeaders are those in which some client names its session, an agent in
// it, or what started it.
var sessionHeaders = sync.OnceValue(func() (out []string) {
	t := agents.Builtin()
	for _, names := range [][]string{t.SessionHeaders(nil), t.AgentHeaders(nil), t.ParentHeaders(nil)} {
		for _, n := range names {
			out = append(out, strings.ToLower(n))
		}
	}
	return out
})

// RequestHeaders is what is recorded of a request's headers.
func (m *Masker) RequestHeaders(h http.Header) map[string]string {
	return m.headers(h, requestHeaders, sessionHeaders())
}

// ResponseHeaders is what is recorded of a response's headers.
func (m *Masker) ResponseHeaders(h http.Header) map[string]string {
	return m.headers(h, responseHeaders, nil)
}

func (m *Masker) headers(h http.Header, lists ...[]string) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		name = strings.ToLower(name)
		for _, list := range lists {
			if slices.ContainsFunc(list, func(a string) bool {
				start, rest := strings.CutSuffix(a, "*")
				return name == a || rest && strings.HasPrefix(name, start)
			}) {
				out[name], _ = m.MaskString(strings.Join(values, ", "))
			}
		}
	}
	return out
}

// Path is what is recorded of a path and its query: values are masked with as
// many stars, but for those of an allow-list.
func (m *Masker) Path(path, query string) string {
	path, _ = m.MaskString(path)
	switch query {
	case "":
		return path
	case "?": // nothing stood behind it
		return path + "?"
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, value, ok := strings.Cut(part, "="); ok && !slices.Contains(queryValues, name) {
			parts[i] = name + "=" + strings.Repeat("*", len(value))
		} else {
			parts[i], _ = m.MaskString(part)
		}
	}
	return path + "?" + strings.Join(parts, "&")
}

// credentialHeaders are those in which clients send a credential. The first
// that is there counts.
var credentialHeaders = []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// Credential stands for the credential that a request carries, "" for none: 32
// hexadecimal digits of an HMAC, so that nobody can test a guess. secrets are
// the credential's own texts, for With.
func (m *Masker) Credential(h http.Header) (id string, secrets []string) {
	for _, name := range credentialHeaders {
		v := h.Get(name)
		if v == "" {
			continue
		}
		if _, token, ok := strings.Cut(v, " "); ok {
			secrets = append(secrets, strings.TrimSpace(token))
		} else {
			secrets = append(secrets, v)
		}
		if id == "" {
			mac := hmac.New(sha256.New, m.key)
			mac.Write([]byte("credential\x00" + name + "\x00" + v))
			id = hex.EncodeToString(mac.Sum(nil)[:16])
		}
	}
	return id, secrets
}
