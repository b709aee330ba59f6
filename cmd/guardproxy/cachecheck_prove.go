package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/guardproxy/guardproxy/cachecheck"
	"github.com/guardproxy/guardproxy/internal/envelope"
	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/rewrite"
	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/proxy"
)

// proveFlags are the part of cachecheck that proves the rewrite.
type proveFlags struct {
	Prove     bool     `help:"Prove from guardproxy's own recordings that its rewrite moved no prompt cache, instead: P1 to P7 of docs/recordings.md."`
	Key       []string `type:"path" placeholder:"FILE" help:"With --prove: a key file whose seals are opened, beside the installation's own key. Repeat it for several."`
	Processes int      `default:"3" placeholder:"N" help:"With --prove: in how many fresh processes each rewrite is repeated, up to 64. Default: ${default}."`
}

// run proves the recordings at paths.
func (c *proveFlags) run(ctx context.Context, std stdio, all *cachecheckCmd) error {
	if all.SARIF || all.Planned != "" || all.All {
		return withCode(exitUsage, withHint(errors.New("--prove goes with --json and --fail-on alone"), "run cachecheck without --prove for --sarif, --planned and --all"))
	}
	if c.Processes < 0 || c.Processes > 64 {
		return withCode(exitUsage, withHint(fmt.Errorf("--processes %d is not between 0 and 64", c.Processes), "leave it out to get 3"))
	}
	secrets, err := c.keys()
	if err != nil {
		return withCode(exitInput, err)
	}
	ring, err := ringOf(secrets)
	if err != nil {
		return withCode(exitInput, err)
	}
	files, err := recordingsIn(all.Paths)
	if err != nil {
		return withCode(exitInput, err)
	}
	o := cachecheck.ProofOptions{Rewrite: rewriter(ring, false)}
	var workers []*rewriterProcess
	for n := range c.Processes {
		w, err := startRewriter(ctx, secrets, n%2 == 1)
		if err != nil {
			return withCode(exitInput, fmt.Errorf("a fresh process for the proof: %w", err))
		}
		defer w.stop()
		workers = append(workers, w)
		o.Fresh = append(o.Fresh, w.rewrite)
	}
	p := cachecheck.NewProver(o)
	var failed []error
	shown := newProgress(std.err)
	for _, path := range files {
		if err := proveFile(ctx, p, path, std, shown); err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	shown.clear()
	if ctx.Err() != nil {
		return withCode(exitInput, withHint(errors.New("interrupted: nothing is proved"), "run it again, or on fewer recordings"))
	}
	if err := unanswered(workers); err != nil {
		return withCode(exitInput, err)
	}
	proof := p.Proof()
	if err := printProof(std, proof, all.JSON); err != nil {
		return withCode(exitInput, fmt.Errorf("write the proof: %w", err))
	}
	switch {
	case len(failed) > 0:
		return withCode(exitInput, reportAllButLast(std.err, failed))
	case proof.Requests == 0:
		return withCode(exitNothing, withHint(errors.New("there is no exchange in it"), "record some with guardproxy serve --record DIR"))
	case all.FailOn == "none":
		return nil
	case !proof.Holds():
		return withCode(exitFound, nil)
	case proof.Unverifiable > 0:
		return withCode(exitFound, withHint(fmt.Errorf("%s unverifiable, which is no pass", counted(proof.Unverifiable, "request")), "calls that were put back need the key that sealed them: give it with --key"))
	}
	return nil
}

func proveFile(ctx context.Context, p *cachecheck.Prover, path string, std stdio, shown *progress) error {
	in := std.in
	if path == "-" {
		shown.start("stdin", 0)
	} else {
		f, err := os.Open(path)
		if err != nil {
			return withHint(err, "name recordings, or the directory that they are in")
		}
		defer f.Close()
		var size int64
		if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() {
			size = fi.Size()
		}
		shown.start(path, size)
		in = f
	}
	return p.Add(path, &countedReader{untilDone(ctx, in), shown})
}

// recordingsIn are the files that paths name: of a directory the *.jsonl in it,
// in the order of their names.
func recordingsIn(paths []string) (out []string, err error) {
	for _, path := range paths {
		fi, err := os.Stat(path)
		switch {
		case path == "-" || err == nil && !fi.IsDir():
			out = append(out, path)
			continue
		case err != nil:
			return nil, withHint(err, "name recordings, or the directory that they are in")
		}
		files, err := filepath.Glob(filepath.Join(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path), "*.jsonl"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, withHint(fmt.Errorf("%s: no recordings (*.jsonl) in it", path), "record some with guardproxy serve --record DIR")
		}
		out = append(out, files...)
	}
	return out, nil
}

// printProof writes the verdict in one line, then the findings.
func printProof(std stdio, p *cachecheck.Proof, asJSON bool) error {
	out := bufio.NewWriter(std.out)
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(struct {
			Verdict string `json:"verdict"`
			Holds   bool   `json:"holds"`
			*cachecheck.Proof
		}{p.Verdict(), p.Holds() && p.Unverifiable == 0, p}); err != nil {
			return err
		}
		return out.Flush()
	}
	fmt.Fprintln(out, p.Verdict())
	for _, f := range p.Findings {
		also := ""
		if f.Also {
			also = "also "
		}
		fmt.Fprintf(out, "%s%s %s:%d", also, f.Property, f.File, f.Line)
		if f.Against > 0 {
			fmt.Fprint(out, " against ")
			if f.AgainstFile != "" {
				fmt.Fprint(out, f.AgainstFile, ":")
			}
			fmt.Fprint(out, f.Against)
		}
		if f.Where != "" {
			fmt.Fprint(out, " ", f.Where)
		}
		if f.In >= 0 {
			fmt.Fprintf(out, " (client's byte %d", f.In)
			if f.Out >= 0 {
				fmt.Fprintf(out, ", upstream's %d", f.Out)
			}
			fmt.Fprint(out, ")")
		} else if f.Out >= 0 {
			fmt.Fprintf(out, " (upstream's byte %d)", f.Out)
		}
		fmt.Fprintf(out, ": %s\n", strings.Map(printableRune, f.Text))
	}
	if p.Live > 0 {
		fmt.Fprintf(out, "masked, and proved when recorded: %d\n", p.Live)
	}
	for _, s := range p.Skipped {
		fmt.Fprintf(out, "skipped: %s: %s, from line %d on: %s\n", s.File, counted(s.Lines, "line"), s.First, s.Reason)
	}
	return out.Flush()
}

func printableRune(r rune) rune {
	if r < 0x20 || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}

// keys are the given key files, and the installation's own key if there is one.
func (c *proveFlags) keys() ([][]byte, error) {
	var out [][]byte
	for _, f := range c.Key {
		k, err := readKey(f)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	dirs, err := home.Find(os.LookupEnv)
	if err != nil {
		return out, nil // then there is no key of an installation
	}
	own, err := readKey(filepath.Join(dirs.State, "key"))
	switch {
	case err == nil:
		out = append(out, own)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return out, nil
}

func ringOf(secrets [][]byte) (*envelope.Keyring, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	return envelope.NewKeyring(secrets...)
}

// rewriter is the way up as a function. A cold one remembers nothing from one
// body to the next. ring may be nil: then nothing is put back.
func rewriter(ring *envelope.Keyring, cold bool) cachecheck.Rewrite {
	known := map[string]*rewrite.Narrower{}
	return func(dialect string, rules, body []byte) (cachecheck.Rewritten, error) {
		n := known[string(rules)]
		if n == nil || cold {
			r, err := rewrite.ParseRules(rules)
			if err != nil {
				return cachecheck.Rewritten{}, err
			}
			n = r.Narrower()
			known[string(rules)] = n
		}
		q, err := wire.Read(wire.Route{Dialect: wire.Dialect(dialect)}, body, nil)
		if err != nil {
			return cachecheck.Rewritten{}, err
		}
		res := rewrite.Apply(q, body, n, ring)
		return cachecheck.Rewritten{Body: res.Body, Restored: res.Restored.Calls, Foreign: res.Restored.Foreign}, nil
	}
}

// A process for the proof is this executable with the verb rewriterVerb. It
// reads the keys, then one request after the other, from stdin, and answers on
// stdout. Everything is a list of texts with their lengths before them.
//
//	keys:     count, key…
//	request:  dialect, rules, body
//	answer:   error ("" for none), body, numbers of restored and foreign calls
const rewriterVerb = "rewriter"

type rewriterCmd struct {
	Cold bool `help:"Remember nothing from one body to the next."`
}

// Run is the process's side.
func (c *rewriterCmd) Run(std stdio) error {
	in, out := bufio.NewReaderSize(std.in, 1<<20), bufio.NewWriterSize(std.out, 1<<20)
	count, err := readFrame(in)
	if err != nil {
		return withCode(exitInput, withHint(errors.New("rewriter: no keys on stdin"), "guardproxy cachecheck --prove starts this; it is not for people"))
	}
	var secrets [][]byte
	for range count {
		k, err := readFrame(in)
		if err != nil {
			return withCode(exitInput, err)
		}
		secrets = append(secrets, k)
	}
	ring, err := ringOf(secrets)
	if err != nil {
		return withCode(exitInput, err)
	}
	rw := rewriter(ring, c.Cold)
	for {
		var req [3][]byte
		for i := range req {
			if req[i], err = readFrame(in); err != nil {
				if i == 0 && err == io.EOF {
					return nil
				}
				return withCode(exitInput, err)
			}
		}
		got, err := rw(string(req[0]), req[1], req[2])
		text := ""
		if err != nil {
			text = err.Error()
		}
		writeFrame(out, []byte(text))
		writeFrame(out, got.Body)
		writeFrame(out, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(got.Restored)), uint32(got.Foreign)))
		if err := out.Flush(); err != nil {
			return withCode(exitInput, err)
		}
	}
}

const maxFrame = 2*proxy.MaxBody + 1<<20

func writeFrame(w *bufio.Writer, text []byte) {
	w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
	w.Write(text) // an error stays for Flush
}

func readFrame(r *bufio.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > maxFrame {
		return nil, fmt.Errorf("rewriter: a text of %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return text, nil
}

// rewriterProcess is the other side.
type rewriterProcess struct {
	cmd  *exec.Cmd
	in   *bufio.Writer
	end  io.Closer
	out  *bufio.Reader
	gone error // why it can't be asked any more
}

func startRewriter(ctx context.Context, secrets [][]byte, cold bool) (*rewriterProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{rewriterVerb}
	if cold {
		args = append(args, "--cold")
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	// Ctrl-C is for this process alone, which then ends the others: one that
	// dies first would look like a rewrite that fails.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &rewriterProcess{cmd: cmd, in: bufio.NewWriterSize(in, 1<<20), end: in, out: bufio.NewReaderSize(out, 1<<20)}
	// The keys go through a pipe: arguments and the environment can be seen.
	writeFrame(p.in, make([]byte, len(secrets)))
	for _, k := range secrets {
		writeFrame(p.in, k)
	}
	// Now, since there may be no request after them. A process that is gone says
	// so at its first request.
	p.in.Flush()
	return p, nil
}

// rewrite asks the process.
func (p *rewriterProcess) rewrite(dialect string, rules, body []byte) (cachecheck.Rewritten, error) {
	writeFrame(p.in, []byte(dialect))
	writeFrame(p.in, rules)
	writeFrame(p.in, body)
	if err := p.in.Flush(); err != nil {
		return p.lost(err)
	}
	var ans [3][]byte
	for i := range ans {
		var err error
		if ans[i], err = readFrame(p.out); err != nil {
			return p.lost(err)
		}
	}
	if len(ans[0]) > 0 {
		return cachecheck.Rewritten{}, errors.New(string(ans[0]))
	}
	if len(ans[2]) != 8 {
		return p.lost(errors.New("a broken answer"))
	}
	return cachecheck.Rewritten{Body: ans[1], Restored: int(binary.BigEndian.Uint32(ans[2])), Foreign: int(binary.BigEndian.Uint32(ans[2][4:]))}, nil
}

// lost notes that the process gave no answer.
func (p *rewriterProcess) lost(err error) (cachecheck.Rewritten, error) {
	if p.gone == nil {
		p.gone = err
	}
	return cachecheck.Rewritten{}, fmt.Errorf("the process is gone: %w", err)
}

// unanswered is the error of a process that ended too early: what it did not
// answer says nothing about the rewrite.
func unanswered(processes []*rewriterProcess) error {
	for n, p := range processes {
		if p.gone != nil {
			return withHint(fmt.Errorf("nothing is proved: fresh process %d ended before its work was done: %w", n+1, p.gone), "look for what ended it, such as a lack of memory; --processes 1 needs less")
		}
	}
	return nil
}

func (p *rewriterProcess) stop() {
	p.end.Close()
	p.cmd.Wait()
}
