// Package config reads guardproxy's one configuration file.
//
// The struct [Config] is the table of what the file may say: the tags of its
// fields name the keys, the allowed values and the values that this version
// knows of but can't do yet. A strict decoder (decode.go) walks the YAML tree
// along that struct; what must hold between several values is checked after it
// (validate.go). Every error names file, line and column and has a Hint.
//
// Parse is pure. Load reads the one file and nothing else: whether a file that
// the configuration names exists is found out by whoever opens it.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/guardproxy/guardproxy/internal/policy"
)

// The tags that the decoder reads:
//
//	yaml   the key
//	one    the allowed texts, separated by spaces; for a list or a map those of
//	       its values
//	keys   the allowed keys of a map
//	later  texts (or, for a switch, true) that are planned and not
//	       supported by this version: an error that says so
//	file   the text is a path, relative to the configuration file

// Config is a checked configuration. It must not be changed while in use by
// several goroutines; reading it from several is safe.
type Config struct {
	// Listen is the address HOST:PORT; port 0 picks a free one.
	Listen string `yaml:"listen"`
	// Hosts are further values of the Host header that are answered, in lower
	// case, with or without a port.
	Hosts []string `yaml:"hosts"`
	// TokenFile holds the listener's token; an absolute path or "".
	TokenFile string `yaml:"token_file" file:"yes"`
	// Upstreams in the order of the file. In the file they are a map by name.
	Upstreams []Upstream `yaml:"upstreams"`
	Policy    Policy     `yaml:"policy"`
	Guards    []Guard    `yaml:"guards"`
	Wasm      Wasm       `yaml:"wasm"`
	Schema    Schema     `yaml:"schema"`
	// Tools gives a tool's name its kind.
	Tools        map[string]string `yaml:"tools" one:"shell write read code other"`
	UnknownTools string            `yaml:"unknown_tools" one:"pass refuse"`
	Confine      Confine           `yaml:"confine"`
	Audit        Audit             `yaml:"audit"`
	// Metrics is the address HOST:PORT of the listener for Prometheus, "" for
	// none; port 0 picks a free one.
	Metrics string `yaml:"metrics"`
	// Keys are files, as absolute paths, that hold keys shared by several
	// instances.
	Keys []string `yaml:"keys" file:"yes"`
	// Passthrough are requests that go on without being a known dialect.
	Passthrough []Passthrough `yaml:"passthrough"`
	// Dialects extends what may flow, by dialect.
	Dialects map[string]Dialect `yaml:"dialects" keys:"anthropic-messages openai-chat openai-responses" later:"gemini"`

	// File is the absolute path of the file that was read, "" for none.
	File string `yaml:"-"`
}

// Upstream is one model API.
type Upstream struct {
	Name string `yaml:"-"`
	// URL is the base URL: http or https, a host, perhaps a path.
	URL string `yaml:"url"`
	// Dialects it is for; empty means all.
	Dialects []string `yaml:"dialects" one:"anthropic-messages openai-chat openai-responses" later:"gemini"`
}

// Policy holds the facts that are pinned at a session's first request.
type Policy struct {
	Mode     string `yaml:"mode" one:"read-only workspace-write danger-full-access"`
	Approval string `yaml:"approval" one:"never ask"`
	// Workspace is an absolute path or "".
	Workspace string `yaml:"workspace"`
}

// Guard is one entry of the chain of guards.
type Guard struct {
	Name string `yaml:"name"`
	// File is the module's absolute path, Use the name of a bundled guard:
	// exactly one is set.
	File  string `yaml:"file" file:"yes"`
	Use   string `yaml:"use"`
	Mode  string `yaml:"mode" one:"enforce observe"`
	Match Match  `yaml:"match"`
	// Config is the guard's own configuration: one JSON object, its members
	// in the order of the file.
	Config json.RawMessage `yaml:"config"`
}

// Match says which calls a guard is asked about. An empty list matches all.
type Match struct {
	Tools   []string `yaml:"tools"`
	Kinds   []string `yaml:"kinds" one:"shell write read code other"`
	Clients []string `yaml:"clients" one:"claude-code codex crush dsh gemini-cli opencode pi qwen-code"`
}

// Wasm bounds a guard module.
type Wasm struct {
	Reload   bool     `yaml:"reload"`
	Deadline Duration `yaml:"deadline"`
	Memory   Size     `yaml:"memory"`
	Fuel     Fuel     `yaml:"fuel"`
}

// Schema changes what is removed from tool schemas.
type Schema struct {
	Fields map[string]FieldEdit `yaml:"fields"`
	// Texts and Hints: whether system, developer and context messages, and
	// what clients append to results, are narrowed too.
	Texts   bool   `yaml:"texts"`
	Hints   bool   `yaml:"hints"`
	Follow  bool   `yaml:"follow"`
	Ceiling bool   `yaml:"ceiling"`
	Residue string `yaml:"residue" one:"drop refuse"`
}

// FieldEdit changes the catalogue's list of escalation fields of one tool.
type FieldEdit struct {
	Add    []string `yaml:"add"`
	Remove []string `yaml:"remove"`
}

// Confine chooses how surviving shell calls are confined, and what a confined
// command may touch beyond what guardproxy knows.
type Confine struct {
	Lane string `yaml:"lane" one:"off" later:"adapter hook call"`
	// Runner is the command that takes bwrap's place, with the arguments that
	// stand before bwrap's own. The first is an absolute path.
	Runner []string `yaml:"runner"`
	// Writable are further directories that workspace-write may change:
	// absolute paths.
	Writable []string `yaml:"writable"`
	// Secrets change the list of places that can't be read, as
	// confine.Secrets takes it.
	Secrets []string `yaml:"secrets"`
	// Guarded change the list of places in a workspace that can't be changed:
	// paths relative to it, with "!" before one that is taken out.
	Guarded []string `yaml:"guarded"`
	Env     Env      `yaml:"env"`
}

// Env are exceptions from what of the environment reaches a confined command.
type Env struct {
	Keep []string `yaml:"keep"`
	// Only are the only names that reach it, if there are any.
	Only []string `yaml:"only"`
}

// Audit configures the decision log.
type Audit struct {
	// File is an absolute path, "" for no log.
	File      string `yaml:"file" file:"yes"`
	Arguments bool   `yaml:"arguments"`
}

// Dialect extends the allow-list of one dialect.
type Dialect struct {
	// Inert are further names of event, block, item or delta types that
	// can't carry a call and may flow.
	Inert []string `yaml:"inert"`
}

// Duration is a length of time, written with a unit: "250ms".
type Duration time.Duration

// Size is a number of bytes, written with a unit: "16MiB".
type Size int64

// Fuel is how many steps a guard may take, as package guards/wasm counts them,
// written in millions or thousands of millions: "100M", "2G".
type Fuel int64

// Default returns the configuration of an empty file. It belongs to the
// caller.
func Default() *Config {
	return &Config{
		Listen:       "127.0.0.1:8788",
		Policy:       Policy{Mode: policy.WorkspaceWrite, Approval: policy.ApprovalNever},
		Wasm:         Wasm{Deadline: Duration(250 * time.Millisecond), Memory: 16 << 20, Fuel: 100_000_000},
		Schema:       Schema{Texts: true, Hints: true, Residue: string(policy.OptionDrop)},
		UnknownTools: "pass",
		Confine:      Confine{Lane: "off"},
	}
}

// defaultGuard is what a guard entry is before its keys are read.
func defaultGuard() Guard { return Guard{Mode: "enforce", Config: json.RawMessage("{}")} }

// maxFile is the largest configuration file, in bytes. The YAML parser's time
// grows with the square of some inputs; up to here it is seconds at the worst.
const maxFile = 128 << 10

// Load reads and checks the file at path.
func Load(path string) (*Config, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fileError(path, err)
	}
	c, err := parse(path, filepath.Dir(abs), data)
	if err != nil {
		return nil, err
	}
	c.File = abs
	return c, nil
}

func fileError(path string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) { // the path would stand there twice
		err = pe.Err
	}
	return &Error{File: path, Message: fmt.Sprintf("can't be read: %v", err), Err: err,
		hint: "name a readable YAML file with --config, or leave the flag out to use the defaults"}
}

// Parse checks a configuration that was read from a file called name. Paths in
// it are taken relative to name's directory; give an absolute name to get
// absolute paths. File is set to name.
func Parse(name string, data []byte) (*Config, error) {
	c, err := parse(name, filepath.Dir(name), data)
	if err != nil {
		return nil, err
	}
	c.File = name
	return c, nil
}

// Error is a mistake in a configuration.
type Error struct {
	File string
	// Line and Column count from 1; both are 0 when the mistake has no place.
	Line, Column int
	Message      string
	// Err is the cause from outside, if there is one.
	Err  error
	hint string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Unwrap returns the cause from outside, or nil.
func (e *Error) Unwrap() error { return e.Err }

// Hint says what to write instead.
func (e *Error) Hint() string { return e.hint }
