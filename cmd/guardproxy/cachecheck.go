package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/guardproxy/guardproxy/cachecheck"
)

// exitNothing: everything could be read, and nothing could be compared.
const exitNothing = 4

type cachecheckCmd struct {
	Paths   []string `arg:"" name:"path" help:"Recordings: files or folders; - is stdin."`
	JSON    bool     `name:"json" help:"One JSON object a request, instead of the table."`
	SARIF   bool     `name:"sarif" help:"A SARIF 2.1.0 log, instead of the table."`
	All     bool     `help:"In the table, a line for requests that only grew, too."`
	FailOn  string   `name:"fail-on" enum:"waste,any,none" default:"waste" placeholder:"WHAT" help:"What exit code 1 stands for: waste, any (every finding), or none. Default: waste."`
	Planned string   `type:"path" placeholder:"FILE" help:"A list of changes that were meant, each with a reason: they are no waste."`
	proveFlags
}

func (cachecheckCmd) Help() string {
	return `Says where a recorded session moved the provider's prompt cache, and why. Reads
guardproxy's recordings, folders of request bodies (*.json in name order) or
JSON lines of them, HAR, mitmproxy flows, VCR cassettes, and the folder that
Claude Code writes with OTEL_LOG_RAW_API_BODIES=file:DIR; what a file is is told
by its content. Nothing leaves this machine.

Exit codes: 0 stable, 1 a finding at or over --fail-on, 2 usage, 3 something that
could not be read or is not supported (or Ctrl-C), 4 nothing that could be
compared.`
}

func (c *cachecheckCmd) Run(ctx context.Context, std stdio) error {
	if c.JSON && c.SARIF {
		return withCode(exitUsage, withHint(errors.New("--json and --sarif can't both be written to stdout"), "choose one of them"))
	}
	if c.Prove {
		return c.proveFlags.run(ctx, std, c)
	}
	var opts cachecheck.Options
	if c.Planned != "" {
		text, err := os.ReadFile(c.Planned)
		if err != nil {
			return withCode(exitInput, withHint(err, "name a file with a list of planned changes"))
		}
		if opts.Planned, err = cachecheck.ReadPlans(text); err != nil {
			return withCode(exitInput, withHint(fmt.Errorf("%s: %w", c.Planned, err), "each entry needs label: and reason:, and may have session:, file: and request:"))
		}
	}
	out := bufio.NewWriter(std.out)
	run := cacheRun{cmd: c, std: std, out: out, checker: cachecheck.New(opts), table: cachecheck.NewTable(out)}
	run.table.All = c.All
	run.progress = newProgress(std.err)
	for _, path := range c.Paths {
		if ctx.Err() != nil {
			break
		}
		run.path(ctx, path)
	}
	run.progress.clear()
	return run.finish(ctx)
}

// cacheRun is one run over all paths.
type cacheRun struct {
	cmd      *cachecheckCmd
	std      stdio
	out      *bufio.Writer
	checker  *cachecheck.Checker
	table    *cachecheck.Table
	sarif    cachecheck.SARIF
	progress *progress
	failed   []error // paths that could not be read to their end
	broken   error   // stdout
}

// path checks one file or folder.
func (r *cacheRun) path(ctx context.Context, path string) {
	if path == "-" {
		r.read(ctx, "stdin", untilDone(ctx, r.std.in))
		return
	}
	fi, err := os.Stat(path)
	if err != nil {
		r.failed = append(r.failed, withHint(err, "name files or folders that exist"))
		return
	}
	if fi.IsDir() {
		src, err := cachecheck.OpenFolder(filepath.ToSlash(path), &countedFS{os.DirFS(path), r.progress})
		if err != nil {
			r.failed = append(r.failed, withHint(err, "the folder must be readable"))
			return
		}
		r.progress.start(path, 0)
		r.drain(ctx, src)
		return
	}
	if !fi.Mode().IsRegular() && fi.Mode()&os.ModeNamedPipe == 0 {
		r.failed = append(r.failed, withHint(fmt.Errorf("%s: neither a file nor a folder", path), "name a recording"))
		return
	}
	f, err := os.Open(path)
	if err != nil {
		r.failed = append(r.failed, withHint(err, "the file must be readable"))
		return
	}
	defer f.Close()
	r.progress.start(path, fi.Size())
	r.read(ctx, filepath.ToSlash(path), &countedReader{untilDone(ctx, f), r.progress})
}

func (r *cacheRun) read(ctx context.Context, name string, in io.Reader) {
	src, err := cachecheck.Open(name, in)
	if err != nil {
		r.failed = append(r.failed, err)
		return
	}
	r.drain(ctx, src)
}

// drain checks all exchanges of a source.
func (r *cacheRun) drain(ctx context.Context, src *cachecheck.Reader) {
	for ctx.Err() == nil && r.broken == nil {
		x, err := src.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			r.failed = append(r.failed, err)
			return
		}
		res := r.checker.Add(x)
		r.progress.requests++
		switch {
		case r.cmd.JSON:
			r.broken = cachecheck.WriteJSON(r.out, &res)
		case r.cmd.SARIF:
			r.sarif.Add(&res)
		default:
			if r.progress.on && res.Break {
				r.progress.clear()
			}
			r.broken = r.table.Add(&res)
		}
	}
}

// finish writes what comes last and decides on the exit code.
func (r *cacheRun) finish(ctx context.Context) error {
	s := r.checker.Summary()
	switch {
	case r.broken != nil:
	case r.cmd.SARIF:
		r.broken = r.sarif.Write(r.out, version())
	case r.cmd.JSON:
		for odd, n := range s.Odd {
			fmt.Fprintf(r.std.err, "guardproxy: not compared: %d (%s)\n", n, odd)
		}
	default:
		r.broken = r.table.Close(r.checker)
	}
	if err := r.out.Flush(); r.broken == nil {
		r.broken = err
	}
	if r.broken != nil {
		return withCode(exitInput, fmt.Errorf("write the report: %w", r.broken))
	}
	if ctx.Err() != nil {
		return withCode(exitInput, withHint(fmt.Errorf("interrupted after %s", counted(s.Requests, "request")), "what is above covers these alone"))
	}
	if len(r.failed) > 0 {
		return withCode(exitInput, reportAllButLast(r.std.err, r.failed))
	}
	switch {
	case r.cmd.FailOn == "waste" && s.Waste > 0, r.cmd.FailOn == "any" && s.Findings > 0:
		return withCode(exitFound, nil)
	case s.Requests == 0:
		return withCode(exitNothing, withHint(errors.New("there is no request in it"), "name recordings: files, or the folder that they are in"))
	case s.Compared == 0 && s.Findings == 0:
		return withCode(exitNothing, withHint(errors.New("nothing could be compared"), "a recording needs two requests of one conversation; the reasons for what was left out are above"))
	}
	return nil
}

// progress shows on a terminal how far a long input has been read.
type progress struct {
	on       bool
	w        io.Writer
	name     string
	size     int64
	read     int64
	requests int
	next     time.Time
	shown    bool
}

func newProgress(w io.Writer) *progress {
	return &progress{on: isTerminal(w), w: w, next: time.Now().Add(time.Second)}
}

func (p *progress) start(name string, size int64) {
	p.name, p.size, p.read = filepath.Base(name), size, 0
}

// add counts bytes, and shows the count at most five times a second.
func (p *progress) add(n int) {
	p.read += int64(n)
	if !p.on {
		return
	}
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(200 * time.Millisecond)
	p.shown = true
	part := fmt.Sprintf("%d MB", p.read>>20)
	if p.size > 0 {
		part = fmt.Sprintf("%d%% of %d MB", 100*p.read/p.size, p.size>>20)
	}
	if p.requests > 0 {
		part += ", " + counted(p.requests, "request")
	}
	fmt.Fprintf(p.w, "\r\x1b[Kguardproxy: %s: %s", strings.Map(printable, p.name), part)
}

func printable(r rune) rune {
	if r < 0x20 || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// countedReader tells progress what was read.
type countedReader struct {
	r io.Reader
	p *progress
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.p.add(n)
	return n, err
}

// countedFS does the same for the files of a folder.
type countedFS struct {
	fs.FS
	p *progress
}

func (c *countedFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil || name == "." {
		return f, err
	}
	return &countedFile{f, c.p}, nil
}

// ReadDir and ReadFile keep what os.DirFS can do.
func (c *countedFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }

type countedFile struct {
	fs.File
	p *progress
}

func (c *countedFile) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	c.p.add(n)
	return n, err
}
