package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/guardproxy/guardproxy/internal/wire"
)

// Bounds of what the file may set.
const (
	minDeadline, maxDeadline = time.Millisecond, time.Minute
	minFuel, maxFuel         = Fuel(1e6), Fuel(1e12)
	wasmPage                 = 64 << 10
	maxMemory                = 1 << 30
)

// validate checks what the types can't say. It stops at the first mistake.
func (d *decoder) validate(c *Config) error {
	for _, check := range []func(*Config) error{
		d.listener, d.checkUpstreams, d.policy, d.guards, d.wasm, d.fields, d.ownFiles, d.inert, d.confine,
	} {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}

// confine checks paths and names. ~ is the home directory here, alone in the
// file: these paths are for commands of whoever runs exec.
func (d *decoder) confine(c *Config) error {
	if len(c.Confine.Runner) > 0 && !filepath.IsAbs(c.Confine.Runner[0]) {
		return d.fail("confine.runner[0]", fmt.Sprintf("%s is not an absolute path", show(c.Confine.Runner[0])), "name the program by its path: what is found by its name could be another")
	}
	for i, p := range c.Confine.Writable {
		if !filepath.IsAbs(p) || filepath.Clean(p) == "/" {
			return d.fail(fmt.Sprintf("confine.writable[%d]", i), fmt.Sprintf("%s is not a directory that can be given", show(p)), "write an absolute path below the root directory")
		}
		c.Confine.Writable[i] = filepath.Clean(p)
	}
	for i, p := range c.Confine.Secrets {
		p = strings.TrimPrefix(p, "!")
		if !filepath.IsAbs(p) && !(strings.HasPrefix(p, "~/") && filepath.IsLocal(p[2:])) || filepath.Clean(p) == "/" {
			return d.fail(fmt.Sprintf("confine.secrets[%d]", i), fmt.Sprintf("%s is not a place", show(p)), "write an absolute path, or one that begins with ~/")
		}
	}
	for i, p := range c.Confine.Guarded {
		p = strings.TrimPrefix(p, "!")
		if !filepath.IsLocal(p) || filepath.Clean(p) == "." {
			return d.fail(fmt.Sprintf("confine.guarded[%d]", i), fmt.Sprintf("%s does not lie in a workspace", show(p)), "write a path relative to the workspace, such as .envrc")
		}
	}
	for _, list := range []struct {
		key   string
		names []string
	}{{"keep", c.Confine.Env.Keep}, {"only", c.Confine.Env.Only}} {
		for i, name := range list.names {
			if name == "" || strings.ContainsAny(name, "=*\x00") {
				return d.fail(fmt.Sprintf("confine.env.%s[%d]", list.key, i), fmt.Sprintf("%s is not the name of a variable", show(name)), "write one name, without = and without *")
			}
		}
	}
	return nil
}

// fail is an error at the place of a value, or of the nearest value around it
// that is in the file.
func (d *decoder) fail(path, message, hint string) error {
	around := path
	p, ok := d.places[around]
	for !ok && around != "" {
		around = around[:max(0, strings.LastIndexAny(around, ".["))]
		p, ok = d.places[around]
	}
	return d.errorf(p, named(path)+message, hint)
}

func (d *decoder) listener(c *Config) error {
	if problem, hint := CheckListen(c.Listen); problem != "" {
		return d.fail("listen", problem, hint)
	}
	if err := c.CheckToken(c.Listen); err != nil {
		return d.fail("listen", err.Error(), tokenHint)
	}
	if _, set := d.places["metrics"]; set {
		if problem, hint := CheckListen(c.Metrics); problem != "" {
			return d.fail("metrics", problem, hint)
		}
		if err := c.CheckToken(c.Metrics); err != nil {
			return d.fail("metrics", err.Error(), tokenHint)
		}
		if c.Metrics == c.Listen && !strings.HasSuffix(c.Metrics, ":0") {
			return d.fail("metrics", "the address that is listened on already", "give the metrics a port of their own: they are not served where the client connects")
		}
	}
	for i, h := range c.Hosts {
		host, problem := checkHost(h)
		if problem != "" {
			return d.fail(fmt.Sprintf("hosts[%d]", i), problem, "write what stands in the Host header: a name or an address, and perhaps a port, such as proxy.example:8788")
		}
		c.Hosts[i] = host
	}
	return nil
}

// CheckListen says what is wrong with an address to listen on, and what to do;
// both texts are empty when nothing is.
func CheckListen(listen string) (problem, hint string) {
	const how = listenHint
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "not an address to listen on", how
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Sprintf("%s is not a port", show(port)), how
	}
	if host == "" || host == "localhost" {
		return "", ""
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Sprintf("%s is not an address of this machine", show(host)), "write an IP address or localhost before the port"
	}
	return "", ""
}

const listenHint = "write HOST:PORT, such as 127.0.0.1:8788; port 0 picks a free one"

const tokenHint = "name a file that holds a token under token_file, or listen on 127.0.0.1"

// TokenError is returned by CheckToken.
type TokenError struct{ Listen string }

func (e *TokenError) Error() string {
	return fmt.Sprintf("%s can be reached from other machines, and there is no token", e.Listen)
}

// Hint says what to do about it.
func (e *TokenError) Hint() string { return tokenHint }

// CheckToken returns a *TokenError if a listener on that address needs a token
// and the configuration has none. Parse calls it for the file's own address;
// who listens elsewhere (a flag) calls it again.
func (c *Config) CheckToken(listen string) error {
	if c.TokenFile != "" {
		return nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err == nil && loopback(host) {
		return nil
	}
	return &TokenError{listen}
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// splitHost splits the value of a Host header. port is "" if there is none.
func splitHost(value string) (host, port string, ok bool) {
	host = value
	if !strings.Contains(value, ":") || strings.HasSuffix(value, "]") {
		if len(value) > 2 && value[0] == '[' && value[len(value)-1] == ']' {
			host = value[1 : len(value)-1]
		}
	} else {
		var err error
		if host, port, err = net.SplitHostPort(value); err != nil || port == "" {
			return "", "", false
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "", "", false
		}
	}
	return strings.ToLower(host), port, host != ""
}

func checkHost(value string) (normal, problem string) {
	host, port, ok := splitHost(value)
	if !ok {
		return "", fmt.Sprintf("%s is not a host", show(value))
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
		if addr.Is6() {
			host = "[" + host + "]"
		}
	} else if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return "", fmt.Sprintf("%s is not a host", show(value))
	}
	if port != "" {
		host += ":" + port
	}
	return host, ""
}

// validName is what names of upstreams and guards look like: they stand in
// paths, in log lines and in front of a refusal's text.
func validName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

const nameHint = "use up to 64 letters, digits, dots, hyphens and underscores, the first a letter or a digit"

func (d *decoder) checkUpstreams(c *Config) error {
	for _, u := range c.Upstreams {
		path := join(join("upstreams", u.Name), "url")
		if problem, hint := CheckURL(u.URL); problem != "" {
			return d.fail(path, problem, hint)
		}
		if path := join(join("upstreams", u.Name), "dialects"); hasDuplicate(u.Dialects) {
			return d.fail(path, "a dialect stands twice in the list", "keep one of them")
		}
	}
	return nil
}

// CheckURL says what is wrong with an upstream's URL, and what to do; both
// texts are empty when nothing is. Neither quotes the URL, which may hold a
// secret.
func CheckURL(s string) (problem, hint string) {
	const how = "write the base URL, such as https://api.example.com or https://api.example.com/v1"
	if s == "" {
		return "no URL", how
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "not a URL", how
	case u.Scheme != "http" && u.Scheme != "https":
		return "not an absolute http or https URL", how
	case u.User != nil:
		return "a URL with a user name or password", "leave it out: the client's own credential is sent on"
	case u.Hostname() == "":
		return "a URL without a host", how
	case strings.ContainsAny(s, "?"):
		return "a URL with a query", how
	case strings.ContainsAny(s, "#"):
		return "a URL with a fragment", how
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return "a URL with a port that does not exist", how
		}
	}
	if u.Path == "" {
		return "", ""
	}
	if u.RawPath != "" || strings.ContainsAny(u.Path, "\\%;") || !plainPath("/"+strings.Trim(u.Path, "/")) || strings.HasPrefix(u.Path, "//") || strings.HasSuffix(u.Path, "//") {
		return "a URL whose path is not plain", "leave out //, dots as segments, and percent signs"
	}
	if wire.CarriesCalls(strings.TrimSuffix(u.Path, "/")) {
		return "the URL of one endpoint", "write the base URL: the path of each request is added to it"
	}
	return "", ""
}

// plainPath reports whether p is absolute and has neither empty segments nor
// dots for segments.
func plainPath(p string) bool {
	if p == "/" {
		return true
	}
	if !strings.HasPrefix(p, "/") {
		return false
	}
	for _, segment := range strings.Split(p[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

func hasDuplicate(list []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list)
}

func (d *decoder) policy(c *Config) error {
	w := c.Policy.Workspace
	if _, set := d.places["policy.workspace"]; !set {
		return nil
	}
	switch {
	case !filepath.IsAbs(w):
		return d.fail("policy.workspace", fmt.Sprintf("%s is not an absolute path", show(w)), "write the whole path, from / on; ~ and variables are not expanded")
	case filepath.Clean(w) == "/":
		return d.fail("policy.workspace", "the root directory can't be a workspace", "name the directory of the project")
	}
	c.Policy.Workspace = filepath.Clean(w)
	return nil
}

func (d *decoder) guards(c *Config) error {
	byName := map[string]int{}
	for i, g := range c.Guards {
		path := fmt.Sprintf("guards[%d]", i)
		first, taken := byName[g.Name]
		switch {
		case g.Name == "":
			return d.fail(path, "a guard without a name", "give it a name: it stands in front of the guard's reason")
		case !validName(g.Name):
			return d.fail(path+".name", fmt.Sprintf("%s can't be a name", show(g.Name)), nameHint)
		case taken:
			return d.fail(path+".name", fmt.Sprintf("%s is the name of guards[%d] already", show(g.Name), first), "names of guards are unique")
		case g.File == "" && g.Use == "":
			return d.fail(path, fmt.Sprintf("guard %s has no module", g.Name), "give it file, the path of a module, or use, the name of a bundled guard")
		case g.File != "" && g.Use != "":
			return d.fail(path+".use", fmt.Sprintf("guard %s has both file and use", g.Name), "keep one: file for a module of your own, use for a bundled guard")
		case g.Use != "" && !validName(g.Use):
			return d.fail(path+".use", fmt.Sprintf("%s can't be a bundled guard", show(g.Use)), "write the name of a bundled guard; a path belongs under file")
		}
		byName[g.Name] = i
		for j, tool := range g.Match.Tools {
			if strings.TrimSpace(tool) == "" {
				return d.fail(fmt.Sprintf("%s.match.tools[%d]", path, j), "an empty name", "write the name of a tool, or leave the list out to match all")
			}
		}
	}
	return nil
}

func (d *decoder) wasm(c *Config) error {
	if t := time.Duration(c.Wasm.Deadline); t < minDeadline || t > maxDeadline {
		return d.fail("wasm.deadline", fmt.Sprintf("%v is out of bounds", t), "write a duration from 1ms to 1m")
	}
	if m := c.Wasm.Memory; m < wasmPage || m > maxMemory || m%wasmPage != 0 {
		return d.fail("wasm.memory", fmt.Sprintf("%v is out of bounds", m), "write a multiple of 64KiB, from 64KiB to 1GiB")
	}
	if f := c.Wasm.Fuel; f < minFuel || f > maxFuel {
		return d.fail("wasm.fuel", fmt.Sprintf("%v is out of bounds", f), "write an amount from 1M to 1000G")
	}
	return nil
}

func (d *decoder) fields(c *Config) error {
	for _, tool := range slices.Sorted(maps.Keys(c.Schema.Fields)) {
		edit := c.Schema.Fields[tool]
		path := join("schema.fields", tool)
		for _, list := range []struct {
			key   string
			names []string
		}{{"add", edit.Add}, {"remove", edit.Remove}} {
			for i, name := range list.names {
				if strings.TrimSpace(name) == "" {
					return d.fail(fmt.Sprintf("%s.%s[%d]", path, list.key, i), "an empty name", "write the name of a field of this tool")
				}
			}
			if hasDuplicate(list.names) {
				return d.fail(path+"."+list.key, "a field stands twice in the list", "keep one of them")
			}
		}
		for i, name := range edit.Remove {
			if slices.Contains(edit.Add, name) {
				return d.fail(fmt.Sprintf("%s.remove[%d]", path, i), fmt.Sprintf("%s is under add too", show(name)), "keep it in one of the two lists")
			}
		}
	}
	return nil
}

// ownFiles checks that one path does not serve two purposes: a log that is
// appended to a key makes both useless.
func (d *decoder) ownFiles(c *Config) error {
	roles := map[string]string{}
	claim := func(file, key string) error {
		if file == "" {
			return nil
		}
		if other, ok := roles[file]; ok {
			return d.fail(key, "the same file as "+other, "one file serves one purpose")
		}
		roles[file] = key
		return nil
	}
	for i, k := range c.Keys {
		if err := claim(k, fmt.Sprintf("keys[%d]", i)); err != nil {
			return err
		}
	}
	if err := claim(c.TokenFile, "token_file"); err != nil {
		return err
	}
	for i, g := range c.Guards {
		if other, ok := roles[g.File]; ok && g.File != "" {
			return d.fail(fmt.Sprintf("guards[%d].file", i), "the same file as "+other, "one file serves one purpose")
		}
	}
	for i, g := range c.Guards { // two guards may share a module
		if g.File != "" {
			roles[g.File] = fmt.Sprintf("guards[%d].file", i)
		}
	}
	if err := claim(c.Audit.File, "audit.file"); err != nil {
		return err
	}
	if c.Audit.Arguments && c.Audit.File == "" {
		return d.fail("audit.arguments", "there is no log to write arguments to", "name one under audit.file")
	}
	return nil
}

// carriers are names of types that carry a call, or the events that hold one
// together, in the dialects' own documents (Anthropic Messages streaming,
// OpenAI Chat Completions and Responses). Letting one flow would let a call
// through unjudged.
var carriers = []string{
	"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
	"tool_use", "input_json_delta",
	"tool_calls", "tool_call", "function_call", "function", "custom", "custom_tool_call",
	"local_shell_call", "shell_call", "apply_patch_call", "computer_call", "message", "delta",
	"tool_search_call", "mcp_approval_request", "additional_tools",
	"response.created", "response.queued", "response.in_progress", "response.completed", "response.incomplete", "response.failed",
	"response.output_item.added", "response.output_item.done",
	"response.function_call_arguments.delta", "response.function_call_arguments.done",
	"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
}

func (d *decoder) inert(c *Config) error {
	for _, dialect := range slices.Sorted(maps.Keys(c.Dialects)) {
		for i, name := range c.Dialects[dialect].Inert {
			path := fmt.Sprintf("dialects.%s.inert[%d]", dialect, i)
			switch {
			case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
				return d.fail(path, fmt.Sprintf("%s is not the name of a type", show(name)), "write the type as it stands in the stream; there are no wildcards")
			case slices.Contains(carriers, name):
				return d.fail(path, fmt.Sprintf("%s can carry a call", name), "only types that carry no call may flow unjudged")
			}
		}
	}
	return nil
}
