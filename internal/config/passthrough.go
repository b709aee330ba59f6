package config

import (
	"fmt"
	"strings"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// Passthrough is one kind of request that goes to the upstream and back
// without being looked into.
type Passthrough struct {
	Method string
	// Path is compared with a request's path, which must equal it, or begin
	// with it if Prefix is set.
	Path   string
	Prefix bool
}

func (p Passthrough) String() string {
	if p.Prefix {
		return p.Method + " " + p.Path + "*"
	}
	return p.Method + " " + p.Path
}

// endpoints are paths that clients are known to post to. An entry with a star
// that covers one of them is a mistake, even though the request would be
// guarded all the same.
var endpoints = []string{
	"/messages", "/v1/messages", "/anthropic/messages", "/anthropic/v1/messages",
	"/chat/completions", "/v1/chat/completions",
	"/responses", "/v1/responses", "/backend-api/codex/responses", "/v1/conversations",
	"/v1/models/m:generateContent", "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent",
}

// parsePassthrough reads METHOD PATH, the path perhaps with a star at its end.
func parsePassthrough(s string) (p Passthrough, problem, hint string) {
	const how = "write a method and a path, such as GET /v1/usage; a * at the end of the path stands for any rest"
	method, path, ok := strings.Cut(s, " ")
	if !ok || method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return p, fmt.Sprintf("%s does not begin with a method", show(s)), how
	}
	if method == "CONNECT" {
		return p, "CONNECT is never passed on", how
	}
	path, prefix := strings.CutSuffix(path, "*")
	p = Passthrough{Method: method, Path: path, Prefix: prefix}
	whole := path
	if prefix {
		whole += "x" // what the star stands for
	}
	switch {
	case !plainPath(whole) || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`?#*\%;`, r) }):
		return p, fmt.Sprintf("%s is not a plain absolute path", show(path)), how
	case strings.HasPrefix(whole, "/s/") || strings.HasPrefix(whole, "/u/"):
		return p, "a path with the prefix of a label or an upstream", "write the path as it is without /s/LABEL and /u/NAME"
	case wire.CarriesCalls(path):
		return p, fmt.Sprintf("%s can carry calls", path), "requests of a dialect are always guarded; leave the entry out"
	}
	if prefix {
		for _, e := range endpoints {
			if strings.HasPrefix(e, path) {
				return p, fmt.Sprintf("%s* covers %s, which can carry calls", path, e), "write a longer path before the *"
			}
		}
	}
	return p, "", ""
}
