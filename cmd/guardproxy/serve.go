package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/internal/audit"
	"github.com/guardproxy/guardproxy/internal/config"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/metrics"
	"github.com/guardproxy/guardproxy/proxy"
)

type serveCmd struct {
	Upstream string        `placeholder:"URL" help:"Base URL of the model API, for every dialect; overrides the upstreams of the configuration. Without either: https://api.anthropic.com for Messages, https://api.openai.com for Chat and Responses."`
	Listen   string        `placeholder:"HOST:PORT" help:"Address to listen on; port 0 picks a free one. Default: the configuration's, else 127.0.0.1:8788."`
	Config   string        `type:"path" placeholder:"FILE" help:"Configuration file (YAML); see docs/configuration.md."`
	Record   string        `type:"path" placeholder:"DIR" help:"Record every guarded exchange in this directory, one file a session, for cachecheck and guard replay. Holds whole conversations; see docs/recordings.md."`
	LogLevel string        `enum:"debug,info,warn,error" default:"info" help:"Least level of the log on stderr: debug, info, warn or error."`
	Drain    time.Duration `default:"30s" help:"How long a SIGTERM waits for running exchanges."`
}

func (serveCmd) Help() string {
	return `Point a client's base URL at the address of the ready line. SIGTERM and Ctrl-C
stop listening and let running exchanges end; a second one ends at once. SIGHUP
reopens the decision log and reads the configuration again: hosts, upstreams and
passthrough hold at once, all else for new sessions; listen, token_file, keys,
audit and metrics take a restart.

Exit codes: 0 stopped, 1 running exchanges were cut, 2 usage, 3 a configuration,
key or guard that can't be used, or an address that can't be listened on.`
}

// Upstreams of a serve that was given none.
var defaultUpstreams = []proxy.Upstream{
	{Name: "anthropic", URL: "https://api.anthropic.com", Dialects: []string{"anthropic-messages"}},
	{Name: "openai", URL: "https://api.openai.com", Dialects: []string{"openai-chat", "openai-responses"}},
}

func (c *serveCmd) Run(ctx context.Context, io stdio) error {
	if err := c.usage(); err != nil {
		return withCode(exitUsage, err)
	}
	var level slog.Level
	level.UnmarshalText([]byte(c.LogLevel))
	log := slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: level}))

	dirs, err := home.Find(os.LookupEnv)
	if err != nil {
		return withCode(exitInput, err)
	}
	cfg, err := c.read()
	if err != nil {
		return withCode(exitInput, err)
	}
	var counts *metrics.Metrics
	if cfg.Metrics != "" {
		counts = metrics.New(version())
	}
	set := newGuardSet(dirs, log, counts)
	opts, err := c.options(ctx, cfg, dirs, set, log)
	if err != nil {
		return withCode(exitInput, err)
	}
	if opts.Keys, err = keys(cfg, dirs); err != nil {
		return withCode(exitInput, err)
	}
	if cfg.TokenFile != "" {
		if opts.Token, err = readToken(cfg.TokenFile); err != nil {
			return withCode(exitInput, err)
		}
	}
	decisions, err := openAudit(cfg, opts.Keys, log)
	if err != nil {
		return withCode(exitInput, err)
	}
	defer decisions.Close()
	opts.Log = log
	opts.Decided = func(d proxy.Decision) { decisions.Write(auditRecord(d)) }
	ring, err := envelope.NewKeyring(opts.Keys...)
	if err != nil {
		return withCode(exitInput, err)
	}
	rec, err := c.openRecorder(ring, dirs, log)
	if err != nil {
		return withCode(exitInput, err)
	}
	defer closeRecorder(rec, log)
	opts.Recorded = recorded(rec, ring)
	if counts != nil {
		count(&opts, counts)
	}
	h, err := proxy.New(opts)
	if err != nil {
		return withCode(exitInput, err)
	}
	var measured string // what the ready line says about metrics
	if counts != nil {
		countHeld(counts, h, set, decisions, rec)
		srv, addr, err := serveMetrics(cfg, opts.Token, counts, log)
		if err != nil {
			return withCode(exitInput, err)
		}
		defer srv.Close()
		measured = fmt.Sprintf("; metrics on http://%s/metrics", addr)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go set.watch(watching)

	// Before the ready line: whoever waited for it may send one at once.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	addr := cfg.Listen
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return withCode(exitInput, withHint(fmt.Errorf("listen on %s: %w", addr, barred(err)), "choose another address with --listen; port 0 picks a free one"))
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	fmt.Fprintf(io.err, "guardproxy: listening on http://%s%s\n", ln.Addr(), notInForce(opts)+measured)

	for {
		select {
		case err := <-served:
			return err
		case <-hup:
			counts.Reloaded(c.reload(ctx, h, decisions, opts, cfg, dirs, set, log))
			continue
		case <-ctx.Done():
		}
		break
	}
	log.Info("draining: waiting for running exchanges", "at_most", c.Drain)
	// From here on the default action of a second signal ends the process.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	wait, cancel := context.WithTimeout(context.Background(), c.Drain)
	defer cancel()
	if err := srv.Shutdown(wait); err != nil {
		srv.Close()
		return fmt.Errorf("running exchanges were cut after %v", c.Drain)
	}
	return nil
}

// usage says what is wrong with the flags by themselves.
func (c *serveCmd) usage() error {
	if c.Listen != "" {
		if problem, hint := config.CheckListen(c.Listen); problem != "" {
			return withHint(fmt.Errorf("--listen: %s", problem), hint)
		}
	}
	if c.Upstream != "" {
		if problem, hint := config.CheckURL(c.Upstream); problem != "" {
			return withHint(fmt.Errorf("--upstream: %s", problem), hint)
		}
	}
	if c.Drain < 0 {
		return withHint(fmt.Errorf("--drain: %v is less than nothing", c.Drain), "write a duration, such as 30s; 0s cuts running exchanges at once")
	}
	return nil
}

// barred is why an address can't be listened on, without the address, which
// the caller names.
func barred(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// read reads the configuration and puts the flags over it.
func (c *serveCmd) read() (*config.Config, error) {
	cfg := config.Default()
	if c.Config != "" {
		var err error
		if cfg, err = config.Load(c.Config); err != nil {
			return nil, err
		}
	}
	if c.Listen != "" {
		cfg.Listen = c.Listen
		if err := cfg.CheckToken(c.Listen); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// options compiles what a configuration says; keys, token and log are added
// by the caller.
func (c *serveCmd) options(ctx context.Context, cfg *config.Config, dirs home.Dirs, set *guardSet, log *slog.Logger) (proxy.Options, error) {
	o := proxy.Options{
		Policy:             proxy.Policy{Mode: cfg.Policy.Mode, Approval: cfg.Policy.Approval, Workspace: cfg.Policy.Workspace},
		Tools:              cfg.Tools,
		RefuseUnknownTools: cfg.UnknownTools == "refuse",
		RefuseResidue:      cfg.Schema.Residue == "refuse",
		KeepTexts:          !cfg.Schema.Texts,
		KeepHints:          !cfg.Schema.Hints,
		Ceiling:            cfg.Schema.Ceiling,
		Follow:             cfg.Schema.Follow,
		OwnFiles:           cfg.OwnFiles(dirs),
		Hosts:              cfg.Hosts,
		Fields:             map[string]proxy.Fields{},
		Inert:              map[string][]string{},
	}
	for name, f := range cfg.Schema.Fields {
		o.Fields[name] = proxy.Fields{Add: f.Add, Remove: f.Remove}
	}
	for name, d := range cfg.Dialects {
		o.Inert[name] = d.Inert
	}
	for _, p := range cfg.Passthrough {
		o.Passthrough = append(o.Passthrough, p.String())
	}
	switch {
	case c.Upstream != "":
		o.Upstreams = []proxy.Upstream{{Name: "default", URL: c.Upstream}}
	case len(cfg.Upstreams) > 0:
		for _, u := range cfg.Upstreams {
			o.Upstreams = append(o.Upstreams, proxy.Upstream{Name: u.Name, URL: u.URL, Dialects: u.Dialects})
		}
	default:
		o.Upstreams = defaultUpstreams
	}
	if c.Record != "" {
		o.OwnFiles = append(o.OwnFiles, c.Record)
	}
	if w := o.Policy.Workspace; w != "" {
		if fi, err := os.Stat(w); err != nil || !fi.IsDir() {
			log.Warn("policy.workspace is no directory", "path", w)
		}
	}
	if err := ownFilesApart(o); err != nil {
		return o, err
	}
	var err error
	o.Guards, err = set.load(ctx, cfg)
	return o, err
}

// ownFilesApart refuses a workspace in which the agent could write our files.
func ownFilesApart(o proxy.Options) error {
	p := confine.Policy{Mode: confine.Mode(o.Policy.Mode), Workspace: o.Policy.Workspace}
	if o.Policy.Workspace == "" || p.Mode == confine.FullAccess {
		return nil
	}
	for _, root := range confine.WritableRoots(p) {
		for _, own := range o.OwnFiles {
			for _, f := range []string{own, home.Resolve(own)} {
				for _, r := range []string{root, home.Resolve(root)} {
					if f == r || strings.HasPrefix(f, strings.TrimSuffix(r, "/")+"/") {
						return withHint(fmt.Errorf("%s is guardproxy's own and lies inside the writable root %s", own, root),
							"keep state, configuration, guards, keys, logs and recordings outside of the workspace: what the agent can write there decides what it may do")
					}
				}
			}
		}
	}
	return nil
}

// keys are the configured key files, and behind them the installation's own
// key: it opens what was sealed before others were configured.
func keys(cfg *config.Config, dirs home.Dirs) ([][]byte, error) {
	var out [][]byte
	for _, f := range cfg.Keys {
		k, err := readKey(f)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	own, err := installationKey(dirs.State)
	if err != nil {
		return nil, err
	}
	return append(out, own), nil
}

func openAudit(cfg *config.Config, secrets [][]byte, log *slog.Logger) (*audit.Log, error) {
	if cfg.Audit.File == "" {
		return nil, nil
	}
	ring, err := envelope.NewKeyring(secrets...)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Audit.File), 0o700); err != nil {
		return nil, withHint(fmt.Errorf("audit.file: %w", err), "name a file in a directory that you can write")
	}
	return audit.Open(cfg.Audit.File, audit.Options{
		Key: ring.Key(envelope.Audit), Arguments: cfg.Audit.Arguments,
		Failed: func(err error) {
			log.Error("the decision log can't be written; further failures are counted", "file", cfg.Audit.File, "error", err)
		},
	})
}

func decision(d proxy.Decision) audit.Decision {
	switch {
	case d.Allowed && d.Edited:
		return audit.AllowEdited
	case d.Allowed:
		return audit.Allow
	}
	return audit.Refuse
}

func auditRecord(d proxy.Decision) audit.Record {
	r := audit.Record{Time: d.Time, Session: d.Session, Client: d.Client, Dialect: d.Dialect, Model: d.Model, CallID: d.CallID, Tool: d.Tool,
		Kind: d.Kind, Decision: decision(d), Cause: d.Cause, Guard: d.Guard, Arguments: d.Arguments, GuardReason: d.GuardReason, Notes: d.Notes}
	for _, v := range d.Verdicts {
		if v.Decision == guards.Pass {
			continue
		}
		r.Verdicts = append(r.Verdicts, audit.Verdict{Guard: v.Guard, Verdict: v.Decision.String(), Cause: string(v.Cause), Observed: v.Observed, Detail: v.Detail, Reason: v.Reason, Stderr: v.Stderr})
	}
	return r
}

// reload reopens the decision log and reads the configuration again. On an
// error the old configuration stays; the error was logged.
func (c *serveCmd) reload(ctx context.Context, h *proxy.Handler, decisions *audit.Log, old proxy.Options, started *config.Config, dirs home.Dirs, set *guardSet, log *slog.Logger) error {
	if err := decisions.Reopen(); err != nil {
		log.Error("the decision log could not be reopened: it goes on in the old file", "error", err, "hint", hintOf(err))
	}
	if c.Config == "" {
		log.Info("nothing to read again: there is no configuration file")
		return nil
	}
	var o proxy.Options
	cfg, err := c.read()
	if fi, e := os.Stat(c.Config); err == nil && e == nil && fi.Size() == 0 {
		// Valid at the start; now it is an editor that has not written yet.
		err = withHint(errors.New("the file is empty"), "send SIGHUP again when it is written")
	}
	if err == nil {
		if o, err = c.options(ctx, cfg, dirs, set, log); err == nil {
			o.Keys, o.Token = old.Keys, old.Token
			// What takes a restart is still in use, so it is still ours.
			o.OwnFiles = append(o.OwnFiles, old.OwnFiles...)
			err = h.Reload(o)
		}
	}
	if err != nil {
		log.Error("the configuration was not taken: the old one stays in force", "file", c.Config, "error", err, "hint", hintOf(err))
		return err
	}
	log.Info("configuration read again: hosts, upstreams and passthrough hold now, the rest for new sessions", "file", c.Config, "guards", len(o.Guards), "not_in_force", strings.TrimPrefix(notInForce(o), "; "))
	for _, k := range []struct {
		key     string
		changed bool
	}{
		{"listen", cfg.Listen != started.Listen},
		{"token_file", cfg.TokenFile != started.TokenFile},
		{"keys", !slices.Equal(cfg.Keys, started.Keys)},
		{"audit", cfg.Audit != started.Audit},
		{"metrics", cfg.Metrics != started.Metrics},
	} {
		if k.changed {
			log.Warn("a changed key takes a restart", "key", k.key)
		}
	}
	return nil
}

// notInForce ends the ready line with what an operator may believe to be on
// and is not.
func notInForce(o proxy.Options) string {
	out := "; calls are judged but not confined (confine.lane is off)"
	if len(o.Guards) == 0 {
		out += "; no guards are configured"
	}
	var watching []string
	for _, g := range o.Guards {
		if g.Observe {
			watching = append(watching, g.Name)
		}
	}
	if len(watching) > 0 {
		out += "; guards that only observe: " + strings.Join(watching, ", ")
	}
	if o.Policy.Approval == "ask" {
		out += "; escalation fields stay in the schemas (approval is ask)"
	}
	return out
}
