package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/guardproxy/guardproxy/internal/config"
	"github.com/guardproxy/guardproxy/internal/policy"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/proxy"
	"github.com/guardproxy/guardproxy/schema"
)

type schemaCmd struct {
	Narrow narrowCmd `cmd:"" help:"Narrow the tools of a request body: stdin to stdout."`
	Diff   diffCmd   `cmd:"" help:"Show what narrowing takes out of a request body, for people."`
}

// narrowing is what both verbs do.
type narrowing struct {
	Dialect  string `enum:"auto,anthropic-messages,openai-chat,openai-responses" default:"auto" help:"Wire format of the body: auto, anthropic-messages, openai-chat or openai-responses. auto decides by its shape."`
	Approval string `enum:"never,ask," default:"" placeholder:"POLICY" help:"Approval policy: never, or ask, which says that somebody is there to ask. Default: the configuration's, else never."`
	Mode     string `placeholder:"MODE" help:"Sandbox mode: read-only, workspace-write or danger-full-access; in an unknown mode nothing can be granted. Default: the configuration's, else workspace-write."`
	Config   string `type:"path" placeholder:"FILE" help:"Take policy and schema from this configuration."`
}

// narrowed is a body and what narrowing does to it.
type narrowed struct {
	body    []byte
	dialect wire.Dialect
	why     policy.Why
	res     rewrite.Result
	tools   []string // the tools of the body, as they came
}

func (c *narrowing) narrow(ctx context.Context, in io.Reader) (*narrowed, error) {
	body, err := io.ReadAll(io.LimitReader(untilDone(ctx, in), proxy.MaxBody+1))
	if ctx.Err() != nil {
		return nil, withCode(exitInput, errInterrupted)
	}
	if err != nil {
		return nil, withCode(exitInput, fmt.Errorf("read the body: %w", err))
	}
	if len(body) > proxy.MaxBody {
		return nil, withCode(exitInput, fmt.Errorf("the body is larger than %d MiB", proxy.MaxBody>>20))
	}
	if len(body) == 0 {
		return nil, withCode(exitInput, withHint(errors.New("request body: stdin is empty"), "pipe one request body, as the client sends it, into guardproxy schema"))
	}
	cfg := config.Default()
	if c.Config != "" {
		if cfg, err = config.Load(c.Config); err != nil {
			return nil, withCode(exitInput, err)
		}
	}
	fields := map[string]proxy.Fields{}
	for name, f := range cfg.Schema.Fields {
		fields[name] = proxy.Fields{Add: f.Add, Remove: f.Remove}
	}
	n := &narrowed{body: body, dialect: wire.Dialect(c.Dialect)}
	if c.Dialect == "auto" {
		n.dialect = wire.Guess(body)
	}
	q, err := wire.Read(wire.Route{Dialect: n.dialect}, body, nil)
	if err != nil {
		return nil, withCode(exitInput, withHint(err, "pipe one request body, as the client sends it, into guardproxy schema"))
	}
	mode, approval := cmp.Or(c.Mode, cfg.Policy.Mode), cmp.Or(c.Approval, cfg.Policy.Approval)
	never, why := policy.Never(policy.Facts{Mode: mode, Approval: approval, Approver: approval == policy.ApprovalAsk, Ceiling: cfg.Schema.Ceiling})
	n.why = why
	rules := schema.Rules{}
	if never {
		rules = proxy.Rules(fields)
	}
	n.res = rewrite.Apply(q, body, rewrite.NewNarrower(rules, rewrite.Options{KeepTexts: !cfg.Schema.Texts, KeepHints: !cfg.Schema.Hints}), nil)
	for _, t := range q.Tools {
		n.tools = append(n.tools, string(body[t.Start:t.End]))
	}
	return n, nil
}

type narrowCmd struct {
	narrowing
	Report string `type:"path" placeholder:"FILE" help:"Write what was removed, and what looked suspicious and stayed, as JSON."`
}

func (narrowCmd) Help() string {
	return `Does to a body what serve would do to its tools and texts, and nothing else:
bytes are deleted, none is added or moved. JSON without tools passes through
unchanged.

Exit codes: 0 whether or not something was removed, 1 output that can't be
written, 2 usage, 3 a body that is not JSON or a configuration that can't be
used.`
}

func (c *narrowCmd) Run(ctx context.Context, std stdio) error {
	n, err := c.narrow(ctx, std.in)
	if err != nil {
		return err
	}
	if c.Report != "" {
		if err := n.report(c.Report); err != nil {
			return withHint(fmt.Errorf("report: %w", err), "name a file in a directory that exists and can be written")
		}
	}
	_, err = std.out.Write(n.res.Body)
	return err
}

// narrowReport is the JSON of --report.
type narrowReport struct {
	Dialect string         `json:"dialect"`
	Why     string         `json:"why"` // nothing can be granted; "" when something can
	Bytes   int            `json:"bytes_removed"`
	Removed []string       `json:"removed"` // JSON pointers into the body
	Tools   []narrowedItem `json:"tools"`
	Texts   []narrowedItem `json:"texts"`
	Stayed  int            `json:"texts_that_had_to_stay"`
}

type narrowedItem struct {
	Tool       string       `json:"tool,omitempty"`
	Role       string       `json:"role,omitempty"`
	Dropped    bool         `json:"dropped,omitempty"`
	Cuts       []schema.Cut `json:"cuts"`
	Suspicious []string     `json:"suspicious"`
}

func (n *narrowed) report(path string) error {
	rep := narrowReport{Dialect: string(n.dialect), Why: string(n.why), Bytes: len(n.body) - len(n.res.Body),
		Removed: list(n.res.Removed), Tools: []narrowedItem{}, Texts: []narrowedItem{}, Stayed: n.res.Stayed}
	for _, t := range n.res.Tools {
		if r := t.Report; r.Dropped || len(r.Cuts)+len(r.Suspicious) > 0 {
			rep.Tools = append(rep.Tools, narrowedItem{Tool: t.Name, Dropped: r.Dropped, Cuts: list(r.Cuts), Suspicious: list(r.Suspicious)})
		}
	}
	for _, t := range n.res.Texts {
		rep.Texts = append(rep.Texts, narrowedItem{Tool: t.Tool, Role: t.Role, Cuts: list(t.Report.Cuts), Suspicious: list(t.Report.Suspicious)})
	}
	out, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(out, '\n'), 0o666)
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

type diffCmd struct{ narrowing }

func (diffCmd) Help() string {
	return `Prints every tool that loses something, before and after, line by line: "-" goes,
"+" is what a line becomes. In colour on a terminal, unless NO_COLOR is set.

Exit codes: 0 nothing is removed, 1 something is, 2 usage, 3 a body that is not
JSON or a configuration that can't be used.`
}

func (c *diffCmd) Run(ctx context.Context, std stdio) error {
	n, err := c.narrow(ctx, std.in)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, t := range n.res.Tools {
		switch {
		case t.Report.Dropped:
			fmt.Fprintf(&b, "tool %s: goes as a whole\n", t.Name)
			writeDiff(&b, lines(n.tools[i]), nil)
		case t.Changed:
			fmt.Fprintf(&b, "tool %s: %d of %d bytes go\n", t.Name, len(n.tools[i])-len(t.Narrowed), len(n.tools[i]))
			writeDiff(&b, lines(n.tools[i]), lines(string(t.Narrowed)))
		}
	}
	for _, t := range n.res.Texts {
		if len(t.Report.Prose) == 0 {
			continue
		}
		who := "a text of role " + t.Role
		if t.Tool != "" {
			who = "a result of " + t.Tool
		}
		fmt.Fprintf(&b, "%s:\n", who)
		for _, p := range t.Report.Prose {
			for l := range strings.Lines(strings.TrimSpace(p)) {
				fmt.Fprintf(&b, "- %s\n", strings.TrimRight(l, "\n"))
			}
		}
	}
	out := b.String()
	if isTerminal(std.out) {
		out = colour(out)
	}
	if _, err := io.WriteString(std.out, out); err != nil {
		return err
	}
	if len(n.body) != len(n.res.Body) {
		return withCode(exitFound, nil)
	}
	fmt.Fprintln(std.err, "guardproxy: nothing is removed")
	return nil
}

func colour(diff string) string {
	var b strings.Builder
	for l := range strings.Lines(diff) {
		code := map[byte]string{'-': "31", '+': "32", 't': "1", 'a': "1"}[l[0]]
		if code == "" {
			b.WriteString(l)
			continue
		}
		b.WriteString("\x1b[" + code + "m" + strings.TrimRight(l, "\n") + "\x1b[0m\n")
	}
	return b.String()
}

// lines lays a tool out for people: indented JSON, and its description as the
// text that it is.
func lines(tool string) []string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(tool), "", "  ") != nil {
		return []string{tool}
	}
	var all []string
	for l := range strings.Lines(out.String()) {
		l = strings.TrimRight(l, "\n")
		indent := l[:len(l)-len(strings.TrimLeft(l, " "))]
		rest, isText := strings.CutPrefix(strings.TrimSpace(l), `"description": `)
		var text string
		if !isText || json.Unmarshal([]byte(strings.TrimSuffix(rest, ",")), &text) != nil || !strings.ContainsAny(text, "\n.") {
			all = append(all, strings.TrimSuffix(l, ","))
			continue
		}
		all = append(all, indent+`"description":`)
		for s := range strings.Lines(strings.ReplaceAll(text, ". ", ".\n")) {
			all = append(all, indent+"  "+strings.TrimRight(s, "\n"))
		}
	}
	return all
}

// writeDiff writes the lines that differ with two lines around them, by the
// longest common subsequence: what is narrowed is short.
func writeDiff(b *strings.Builder, x, y []string) {
	n := make([][]int, len(x)+1)
	for i := range n {
		n[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				n[i][j] = n[i+1][j+1] + 1
			} else {
				n[i][j] = max(n[i+1][j], n[i][j+1])
			}
		}
	}
	type line struct {
		mark byte
		text string
	}
	var all []line
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			all = append(all, line{' ', x[i]})
			i, j = i+1, j+1
		case i < len(x) && (j == len(y) || n[i+1][j] >= n[i][j+1]):
			all = append(all, line{'-', x[i]})
			i++
		default:
			all = append(all, line{'+', y[j]})
			j++
		}
	}
	skipped := false
	for k, l := range all {
		near := false
		for d := max(0, k-2); d <= min(len(all)-1, k+2); d++ {
			near = near || all[d].mark != ' '
		}
		switch {
		case near:
			fmt.Fprintf(b, "%c %s\n", l.mark, l.text)
			skipped = false
		case !skipped:
			b.WriteString("  …\n")
			skipped = true
		}
	}
}
