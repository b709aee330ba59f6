package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/guardproxy/guardproxy/internal/config"
	"github.com/guardproxy/guardproxy/internal/policy"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/proxy"
	"github.com/guardproxy/guardproxy/schema"
)

type schemaCmd struct {
	Narrow narrowCmd `cmd:"" help:"Narrow the tools of a request body: stdin to stdout."`
}

type narrowCmd struct {
	Dialect  string `enum:"auto,anthropic-messages,openai-chat" default:"auto" help:"Wire format of the body: auto, anthropic-messages or openai-chat. auto decides by the shape of the tools."`
	Approval string `enum:"never,ask," default:"" placeholder:"POLICY" help:"Approval policy: never, or ask, which says that somebody is there to ask. Default: the configuration's, else never."`
	Mode     string `placeholder:"MODE" help:"Sandbox mode: read-only, workspace-write or danger-full-access; in an unknown mode nothing can be granted. Default: the configuration's, else workspace-write."`
	Config   string `type:"path" placeholder:"FILE" help:"Take policy and schema.fields from this configuration."`
	Report   string `type:"path" placeholder:"FILE" help:"Write what was removed, and what looked suspicious and stayed, as JSON."`
}

func (narrowCmd) Help() string {
	return `Does to a body what serve would do to its tools, and nothing else: bytes are
deleted, none is added or moved. JSON without tools passes through unchanged.

Exit codes: 0 whether or not something was removed, 1 output that can't be
written, 2 usage, 3 a body that is not JSON or a configuration that can't be
used.`
}

// narrowReport is the JSON of --report.
type narrowReport struct {
	Dialect string             `json:"dialect"`
	Why     string             `json:"why"` // nothing can be granted; "" when something can
	Removed []string           `json:"removed"`
	Tools   []narrowReportTool `json:"tools"`
}

type narrowReportTool struct {
	Tool       string   `json:"tool"`
	Removed    []string `json:"removed"`
	Prose      []string `json:"prose"`
	Suspicious []string `json:"suspicious"`
}

func (c *narrowCmd) Run(std stdio) error {
	body, err := io.ReadAll(io.LimitReader(std.in, proxy.MaxBody+1))
	if err != nil {
		return withCode(exitInput, fmt.Errorf("read the body: %w", err))
	}
	if len(body) > proxy.MaxBody {
		return withCode(exitInput, fmt.Errorf("the body is larger than %d MiB", proxy.MaxBody>>20))
	}
	fields := map[string]proxy.Fields{}
	cfg := config.Default()
	if c.Config != "" {
		if cfg, err = config.Load(c.Config); err != nil {
			return withCode(exitInput, err)
		}
		for name, f := range cfg.Schema.Fields {
			fields[name] = proxy.Fields{Add: f.Add, Remove: f.Remove}
		}
	}
	dialect := wire.Dialect(c.Dialect)
	if c.Dialect == "auto" {
		dialect = wire.Guess(body)
	}
	q, err := wire.Read(wire.Route{Dialect: dialect}, body, nil)
	if err != nil {
		return withCode(exitInput, withHint(err, "pipe one request body, as the client sends it, into guardproxy schema narrow"))
	}
	mode, approval := cmp.Or(c.Mode, cfg.Policy.Mode), cmp.Or(c.Approval, cfg.Policy.Approval)
	never, why := policy.Never(policy.Facts{Mode: mode, Approval: approval, Approver: approval == policy.ApprovalAsk})
	rules := schema.Rules{}
	if never {
		rules = proxy.Rules(fields)
	}
	res := rewrite.Apply(q, body, rewrite.NewNarrower(rules), nil)
	if c.Report != "" {
		if err := writeReport(c.Report, dialect, why, &res); err != nil {
			return withHint(fmt.Errorf("report: %w", err), "name a file in a directory that exists and can be written")
		}
	}
	_, err = std.out.Write(res.Body)
	return err
}

func writeReport(path string, d wire.Dialect, why policy.Why, res *rewrite.Result) error {
	rep := narrowReport{Dialect: string(d), Why: string(why), Removed: list(res.Removed()), Tools: []narrowReportTool{}}
	for _, t := range res.Tools {
		if r := t.Report; len(r.Removed)+len(r.Prose)+len(r.Suspicious) > 0 {
			rep.Tools = append(rep.Tools, narrowReportTool{t.Name, list(r.Removed), list(r.Prose), list(r.Suspicious)})
		}
	}
	out, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(out, '\n'), 0o666)
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
