package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goio "io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/record"
)

type guardReplayCmd struct {
	Recording string `arg:"" help:"A recording: a file of a session, or the directory of serve --record."`
	moduleArg
	Name string `placeholder:"NAME" help:"The name of the guard in the configuration, by which the recording knows its refusals. Default: the module's."`
	With string `placeholder:"JSON" help:"The guard's configuration, as a JSON object. Default: {}."`
	JSON bool   `name:"json" help:"Print one JSON object instead of the list, see above."`
}

func (guardReplayCmd) Help() string {
	return `Gives the guard every recorded call that guards were asked about, with the very
document that they were given, and compares.

  refused now   the call went through, and this guard would refuse it
  allowed now   this guard had refused it, and would pass it

A call that another guard refused stays refused, whatever this one says. A call
that was refused before any guard is not judged. Where a credential is masked in
the recording, the guard sees the mask.

--json prints guard, sha256, exchanges, calls (judged), not_judged, masked,
unreadable (lines), and changes: line, file, session, id, tool, before, after
(pass, deny or ask), cause, reason.

Exit codes: 0 nothing would change, 1 something would, 2 usage, 3 a module that
is refused or a recording that can't be read (or Ctrl-C).`
}

// replayed is the JSON of --json.
type replayed struct {
	Guard      string           `json:"guard"`
	SHA256     string           `json:"sha256"`
	Exchanges  int              `json:"exchanges"`
	Calls      int              `json:"calls"`
	NotJudged  int              `json:"not_judged"`
	Masked     int              `json:"masked"`
	Unreadable int              `json:"unreadable"`
	Changes    []replayedChange `json:"changes"`
}

type replayedChange struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Session string `json:"session"`
	ID      string `json:"id"`
	Tool    string `json:"tool"`
	Before  string `json:"before"`
	After   string `json:"after"`
	Cause   string `json:"cause,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func (c *guardReplayCmd) Run(ctx context.Context, std stdio) error {
	m, err := c.read()
	if err != nil {
		return err
	}
	if c.Name != "" {
		m.name = c.Name
	}
	if c.With != "" && (!json.Valid([]byte(c.With)) || !strings.HasPrefix(strings.TrimSpace(c.With), "{")) {
		return withCode(exitUsage, withHint(errors.New("guard replay: --with is not a JSON object"), `write it as in --with '{"allow":["x"]}'`))
	}
	files, err := recordings(c.Recording)
	if err != nil {
		return withCode(exitInput, err)
	}
	g, err := wasm.Load(ctx, m.bytes, wasm.Options{Name: m.name, Config: json.RawMessage(c.With), CacheDir: cacheDir()})
	if err != nil {
		return refused(ctx, err)
	}
	defer g.Close()
	r := replayed{Guard: m.name, SHA256: m.sha256(), Changes: []replayedChange{}}
	for _, file := range files {
		if err := c.replay(ctx, file, guards.Chain{{Name: m.name, Guard: g}}, &r); err != nil {
			return err
		}
	}
	if c.JSON {
		err = printJSON(std.out, r)
	} else {
		err = r.list(std)
	}
	if err == nil && len(r.Changes) > 0 {
		err = withCode(exitFound, nil)
	}
	return err
}

// recordings lists the files of a recording.
func recordings(path string) ([]string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, withHint(err, "name a recording: a file of a session, or the directory of serve --record; the module comes after it")
	}
	if !fi.IsDir() {
		return []string{path}, nil
	}
	files, err := fs.Glob(os.DirFS(path), "*.jsonl")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, withHint(fmt.Errorf("there is no recording in %s", path), "recordings are files that end in .jsonl; serve --record makes them")
	}
	for i := range files {
		files[i] = filepath.Join(path, files[i])
	}
	return files, nil
}

// replay judges the calls of one file.
func (c *guardReplayCmd) replay(ctx context.Context, file string, chain guards.Chain, r *replayed) error {
	f, err := os.Open(file)
	if err != nil {
		return withCode(exitInput, err)
	}
	defer f.Close()
	in := record.NewReader(untilDone(ctx, f))
	for {
		x, err := in.Next()
		if errors.Is(err, goio.EOF) {
			break
		}
		if ctx.Err() != nil {
			return withCode(exitInput, errInterrupted)
		}
		if err != nil {
			return withCode(exitInput, fmt.Errorf("%s: %w", file, err))
		}
		r.Exchanges++
		for i := range x.Calls {
			call := &x.Calls[i]
			judged, ok := x.Judged(call)
			if !ok {
				r.NotJudged++
				continue
			}
			r.Calls++
			if call.Masked > 0 {
				r.Masked++
			}
			o := chain.Check(ctx, judged)
			if ctx.Err() != nil {
				return withCode(exitInput, errInterrupted)
			}
			went := call.Verdict != record.Refuse
			// Only its own refusal can be lifted by this guard.
			own := !went && call.Guard == chain[0].Name
			if went && o.Decision != guards.Pass || own && o.Decision == guards.Pass {
				r.Changes = append(r.Changes, replayedChange{File: file, Line: x.Line, Session: x.Session, ID: call.ID, Tool: call.Tool,
					Before: map[bool]string{true: guards.Pass.String(), false: guards.Deny.String()}[went], After: o.Decision.String(),
					Cause: string(o.Cause), Reason: o.Verdicts[0].Reason})
			}
		}
	}
	r.Unreadable += len(in.Skipped())
	return nil
}

// list is the report for people.
func (r *replayed) list(std stdio) error {
	var b strings.Builder
	for _, ch := range r.Changes {
		what := "allowed now"
		if ch.Before == guards.Pass.String() {
			what = "refused now"
		}
		fmt.Fprintf(&b, "%s  %s:%d  %s %s", what, shown(ch.File), ch.Line, shown(ch.Tool), shown(ch.ID))
		if ch.Cause != "" && ch.Cause != string(guards.CausePolicy) {
			fmt.Fprintf(&b, " (the guard broke: %s)", ch.Cause)
		}
		if ch.Reason != "" {
			fmt.Fprintf(&b, "\n             %s: %s", ch.After, shown(ch.Reason))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "guard %s: %s in %s judged again, %d would change", shown(r.Guard), counted(r.Calls, "call"), counted(r.Exchanges, "exchange"), len(r.Changes))
	for _, n := range []struct {
		n    int
		what string
	}{{r.NotJudged, "refused before any guard"}, {r.Masked, "with a masked credential"}, {r.Unreadable, "unreadable lines"}} {
		if n.n > 0 {
			fmt.Fprintf(&b, "; %s: %d", n.what, n.n)
		}
	}
	b.WriteByte('\n')
	_, err := goio.WriteString(std.out, b.String())
	return err
}
