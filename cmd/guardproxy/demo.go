package main

// The demo tells one story three times, once a dialect: a scripted model, the
// real proxy handler and a small agent (demo_agent.go) talk over HTTP on
// loopback, and the agent runs its calls through guardproxy exec.
//
// A step is a claim that the code has just checked. It is printed with `ok`
// when the check held; the first that does not hold ends the demo with an
// error that names it. Nothing is printed that was not observed: sizes, texts
// and errors are those of this run.

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/examples"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/fakemodel"
	"github.com/guardproxy/guardproxy/internal/spawn"
	"github.com/guardproxy/guardproxy/proxy"
	"github.com/guardproxy/guardproxy/schema"
)

// demoCmd is guardproxy demo.
type demoCmd struct {
	Verbose bool `help:"Also print the raw bytes of the narrowed tool and of the refused call."`
}

// Help is the long help.
func (demoCmd) Help() string {
	return `A scripted model, the proxy and a small agent talk to each other on loopback, and
each thing that guardproxy promises is checked and printed. It needs no key and
no network, and leaves nothing behind.

Exit code: 0 if every step was checked, 1 if one was not, with the step and what
was expected on stderr. Where this machine can't confine a command, the step
about confinement checks that the command is not run.`
}

// demoLimit ends a demo that hangs.
const demoLimit = time.Minute

// demoGuard is the bundled guard that refuses a call of the story.
const demoGuard = "no-root-delete"

// Run is the verb.
func (c *demoCmd) Run(ctx context.Context, io stdio) error {
	self, err := os.Executable()
	if err != nil {
		return withCode(exitFound, fmt.Errorf("demo: the running executable has no path: %w", err))
	}
	return runDemo(ctx, io.out, demoSettings{verbose: c.Verbose, colour: isTerminal(io.out), shell: execShell(self)})
}

// demoSettings are what tests change.
type demoSettings struct {
	verbose bool
	colour  bool
	shell   demoShell
	cache   string // for the compiled guard; "" compiles it anew
}

// demoShell runs a command of the agent in workspace, confined. state is the
// demo's own state directory. The error is nil whenever there is a report,
// also one of a command that failed or was not run.
type demoShell func(ctx context.Context, workspace, state, command string) (demoResult, error)

// demoResult is how a command ended.
type demoResult struct {
	spawn.Report
	// Unavailable says that the command was not run because this machine can't
	// confine it.
	Unavailable bool
}

// execShell runs commands through the exec verb of the executable self.
func execShell(self string) demoShell {
	return func(ctx context.Context, workspace, state, command string) (demoResult, error) {
		shell := "bash"
		if _, err := exec.LookPath(shell); err != nil {
			shell = "sh"
		}
		cmd := exec.CommandContext(ctx, self, "exec", "--json", "--mode", "workspace-write", "--workspace", workspace, "--", shell, "-c", command)
		cmd.Dir = workspace
		// The demo reads the errors of the shell, so they have to be English.
		cmd.Env = append(os.Environ(), "LC_ALL=C", "XDG_STATE_HOME="+state)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 5 * time.Second
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		var exited *exec.ExitError
		if err != nil && !errors.As(err, &exited) {
			return demoResult{}, fmt.Errorf("guardproxy exec: %w", err)
		}
		if ctx.Err() != nil {
			return demoResult{}, ctx.Err()
		}
		var r demoResult
		if err := json.Unmarshal(out, &r.Report); err != nil {
			return demoResult{}, fmt.Errorf("guardproxy exec: expected a report in JSON, got %q and on stderr %q", demoCut(string(out), 200), demoCut(stderr.String(), 200))
		}
		if r.Runner == "" && r.ExitCode == nil {
			// What is left is to tell a machine that can't from a run that
			// went wrong: ask the same question here.
			prepared, err := spawn.Chain(nil).Confine([]string{"true"}, confine.Policy{Mode: confine.WorkspaceWrite, Workspace: workspace})
			prepared.Close()
			var none *confine.Unavailable
			r.Unavailable = errors.As(err, &none)
		}
		return r, nil
	}
}

// runDemo sets the stage, plays the story in each dialect, and clears up.
func runDemo(ctx context.Context, out io.Writer, s demoSettings) error {
	began := time.Now()
	ctx, stop := context.WithTimeout(ctx, demoLimit)
	defer stop()
	st, err := openStage(ctx, s)
	switch {
	case ctx.Err() != nil:
		return withCode(exitFound, errors.New("demo: interrupted before the first step"))
	case err != nil:
		return withCode(exitFound, fmt.Errorf("demo: setting the stage: %w", err))
	}
	defer st.close()

	story := &demoStory{demoStage: st, out: out, speech: demoMessages{}}
	fmt.Fprintf(out, `guardproxy demo: a model, the proxy and an agent, all on this machine

  model   %s, plays a script
  proxy   %s, mode workspace-write, approval never
  agent   a loop with a tool named bash, as the DeepSeek Harness declares it
  task    %s
`, st.modelURL, st.proxyURL, demoTask)
	err = story.tell(ctx)
	for _, other := range []struct {
		api    string
		speech demoSpeech
	}{{"OpenAI Chat Completions", demoChat{}}, {"OpenAI Responses", demoResponses{}}} {
		if err != nil {
			break
		}
		err = story.step("The same holds over "+other.api, func() error {
			again := &demoStory{demoStage: st, out: io.Discard, speech: other.speech}
			if err := again.tell(ctx); err != nil {
				return err
			}
			story.say("The story was played again in this wire format: %d requests, steps 1 to %d checked.", again.requests, again.steps)
			return nil
		})
	}
	if err == nil {
		if err = st.close(); err == nil {
			_, left := os.Lstat(st.dir)
			if !errors.Is(left, os.ErrNotExist) {
				err = expected("that "+st.dir+" is gone", left)
			}
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return withCode(exitFound, fmt.Errorf("demo: interrupted in step %d", story.steps))
	case ctx.Err() != nil:
		return withCode(exitFound, fmt.Errorf("demo: not done after %v: %w", demoLimit, err))
	case err != nil:
		return withCode(exitFound, withHint(fmt.Errorf("demo: %w", err),
			"guardproxy demo --verbose shows the bytes, guardproxy exec --verbose -- true what confines commands here"))
	}
	if _, err := fmt.Fprintf(out, "\nAll %d steps were checked, in %.1f s. Nothing was left behind.\n", story.steps, time.Since(began).Seconds()); err != nil {
		return withCode(exitFound, fmt.Errorf("demo: %w", err))
	}
	return nil
}

// demoStage is what the story is played on.
type demoStage struct {
	demoSettings
	dir       string // holds the others; not below /tmp, which is replaced inside of the sandbox
	workspace string
	outside   string // a file beside the workspace, where this user can write
	state     string // as $XDG_STATE_HOME
	model     *fakemodel.Model
	modelURL  string
	proxyURL  string
	client    *http.Client
	undo      []func() error
}

func openStage(ctx context.Context, s demoSettings) (_ *demoStage, err error) {
	st := &demoStage{demoSettings: s}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if st.dir, err = demoDir(); err != nil {
		return nil, err
	}
	st.undo = append(st.undo, func() error { return os.RemoveAll(st.dir) })
	st.workspace = filepath.Join(st.dir, "project")
	st.outside = filepath.Join(st.dir, demoOutside)
	st.state = filepath.Join(st.dir, "state")
	for _, dir := range []string{st.workspace, filepath.Dir(st.outside), st.state} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}

	module, ok := examples.Module(demoGuard)
	if !ok {
		return nil, fmt.Errorf("the guard %s is not bundled", demoGuard)
	}
	guard, err := wasm.Load(ctx, module, wasm.Options{Name: demoGuard, CacheDir: s.cache})
	if err != nil {
		return nil, err
	}
	st.undo = append(st.undo, func() error { return guard.Close() })

	// Nothing here goes through a proxy of the environment.
	transport := &http.Transport{DisableCompression: true}
	st.client = &http.Client{Transport: transport}
	st.undo = append(st.undo, func() error { transport.CloseIdleConnections(); return nil })

	st.model = fakemodel.New(demoScript, fakemodel.Options{})
	if st.modelURL, err = st.listen(st.model); err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	rand.Read(key)
	h, err := proxy.New(proxy.Options{
		Upstreams: []proxy.Upstream{{Name: "model", URL: st.modelURL}},
		Keys:      [][]byte{key},
		Policy:    proxy.Policy{Mode: "workspace-write", Approval: "never", Workspace: st.workspace},
		Guards:    guards.Chain{{Name: demoGuard, Guard: guard}},
		OwnFiles:  []string{st.state},
		Transport: transport,
	})
	if err != nil {
		return nil, err
	}
	st.proxyURL, err = st.listen(h)
	return st, err
}

// listen serves h on a free port of loopback.
func (st *demoStage) listen(h http.Handler) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	st.undo = append(st.undo, func() error {
		err := srv.Close()
		<-done
		return err
	})
	return "http://" + l.Addr().String(), nil
}

// close takes down what was set up, last things first. It may be called twice.
func (st *demoStage) close() error {
	var all error
	for len(st.undo) > 0 {
		last := len(st.undo) - 1
		if err := st.undo[last](); err != nil && all == nil {
			all = fmt.Errorf("clearing up: %w", err)
		}
		st.undo = st.undo[:last]
	}
	return all
}

// demoDir makes a directory for the demo. A command in the sandbox has a /tmp
// of its own, so what it is denied could not be shown there.
func demoDir() (string, error) {
	var candidates []string
	if t := os.Getenv("TMPDIR"); t != "" {
		candidates = append(candidates, t)
	}
	candidates = append(candidates, "/var/tmp")
	if h, err := os.UserHomeDir(); err == nil {
		candidates = append(candidates, h)
	}
	for _, c := range candidates {
		real, err := filepath.EvalSymlinks(c)
		if err != nil || !filepath.IsAbs(real) || confine.Within(real, "/tmp") || confine.Within(real, "/dev") || confine.Within(real, "/run") {
			continue
		}
		if dir, err := os.MkdirTemp(real, "guardproxy-demo-"); err == nil {
			return dir, nil
		}
	}
	return "", withHint(fmt.Errorf("none of %s is a directory outside of /tmp in which files can be made", strings.Join(candidates, ", ")), "set TMPDIR to one")
}

// The story.
const (
	demoTask    = "Clear the build directory and note the version in version.txt."
	demoRefused = "rm -rf / build"
	demoInside  = "rm -rf ./build && echo 1.4.0 > version.txt && cat version.txt"
	demoBeside  = "echo 1.4.0 > ../" + demoOutside
	demoOutside = "elsewhere/version.txt" // in the directory that the workspace is in
)

var demoScript = fakemodel.Script{Rounds: []fakemodel.Round{
	{Items: []fakemodel.Item{fakemodel.Thinking("The build directory has to go."), fakemodel.Text("First I clear the build."), demoBash(demoRefused)}},
	{Items: []fakemodel.Item{fakemodel.Text("A stray space. Once more, with the path of what was built."), demoBash(demoInside)}},
	{Items: []fakemodel.Item{fakemodel.Text("The release notes want the version, too."), demoBash(demoBeside)}},
	fakemodel.Say("I have done what can be done from here."),
}}

func demoBash(command string) fakemodel.Call {
	return fakemodel.Call{Tool: "bash", Args: demoArgs(command)}
}

// demoArgs are arguments as the model writes them: with a space that a client
// which parses them does not send back.
func demoArgs(command string) string { return `{"command": ` + demoQuote(command) + `}` }

// demoStory is one telling.
type demoStory struct {
	*demoStage
	out      io.Writer
	speech   demoSpeech
	steps    int
	requests int
	lines    []string // of the step that is being checked
}

// step checks one claim and prints what check said.
func (d *demoStory) step(claim string, check func() error) error {
	d.steps++
	d.lines = nil
	err := check()
	mark := "ok"
	if err != nil {
		mark = "--"
	}
	shown := mark
	if d.colour {
		shown = map[string]string{"ok": "\x1b[32mok\x1b[0m", "--": "\x1b[31m--\x1b[0m"}[mark]
	}
	fmt.Fprintf(d.out, "\n%s  %d. %s\n", shown, d.steps, claim)
	for _, l := range d.lines {
		fmt.Fprintln(d.out, strings.TrimRight("       "+l, " "))
	}
	if err != nil {
		return fmt.Errorf("step %d (%s): %w", d.steps, claim, err)
	}
	return nil
}

// demoWidth is what fits in 80 columns behind the indent of a step's lines.
const demoWidth = 73

// say adds a sentence to the step.
func (d *demoStory) say(format string, args ...any) {
	d.lines = append(d.lines, demoWrap(fmt.Sprintf(format, args...), demoWidth)...)
}

// row adds a label and a text.
func (d *demoStory) row(label, format string, args ...any) {
	for i, l := range demoWrap(fmt.Sprintf(format, args...), demoWidth-17) {
		if i > 0 {
			label = ""
		}
		d.lines = append(d.lines, fmt.Sprintf("%-17s%s", label, l))
	}
}

// cite adds a text that was observed.
func (d *demoStory) cite(text string) {
	for _, l := range demoWrap(strings.TrimSpace(text), demoWidth-2) {
		d.lines = append(d.lines, "| "+l)
	}
}

// raw adds bytes as they are, in verbose mode.
func (d *demoStory) raw(what string, b []byte) {
	if d.verbose {
		d.say("%s, %d bytes:", what, len(b))
		d.lines = append(d.lines, strings.Split(strings.TrimSpace(string(b)), "\n")...)
	}
}

// demoWrap breaks text into lines of at most n characters, where it can.
func demoWrap(text string, n int) []string {
	var out []string
	for _, paragraph := range strings.Split(text, "\n") {
		line := ""
		for _, w := range strings.Fields(paragraph) {
			if line != "" && len([]rune(line))+1+len([]rune(w)) > n {
				out = append(out, line)
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += w
		}
		out = append(out, line)
	}
	return out
}

// expected is the error of a check that did not hold.
func expected(what string, got any) error {
	return fmt.Errorf("expected %s, got %s", what, demoCut(fmt.Sprint(got), 400))
}

// tell plays the session and checks the steps as they come.
func (d *demoStory) tell(ctx context.Context) error {
	// The workspace as the task finds it.
	if err := os.MkdirAll(filepath.Join(d.workspace, "build"), 0o700); err != nil {
		return err
	}
	os.Remove(filepath.Join(d.workspace, "version.txt"))

	before := len(d.model.Sent())
	agent := &demoAgent{client: d.client, base: d.proxyURL, speech: d.speech, history: [][]byte{d.speech.user(demoTask)}}
	var reply demoReply
	if err := d.step("What can never be granted is never offered", func() (err error) {
		if reply, err = agent.ask(ctx); err != nil {
			return err
		}
		return d.narrowed(agent.sent[0], d.model.Sent()[before])
	}); err != nil {
		return err
	}
	var refusal string
	if err := d.step("A call that must not run is refused, and the agent goes on", func() (err error) {
		refusal, reply, err = d.refused(ctx, agent, reply)
		return err
	}); err != nil {
		return err
	}
	if err := d.step("A call runs confined, or not at all", func() error {
		return d.confined(ctx, agent, reply)
	}); err != nil {
		return err
	}
	sent := d.model.Sent()[before:]
	d.requests = len(sent)
	if err := d.step("The model finds its own words in the history", func() error {
		return d.restored(agent.sent, sent, refusal)
	}); err != nil {
		return err
	}
	return d.step("The prompt cache sees the same bytes every time", func() error { return d.stable(sent) })
}

// narrowed: the model was shown bash without the fields that ask for more, and
// nothing else of the request has changed.
func (d *demoStory) narrowed(sent, got []byte) error {
	declared := d.speech.tools()
	want, report := schema.Narrow([]byte(declared[0]), proxy.Rules(nil))
	seen, err := demoLook(got)
	if err != nil {
		return err
	}
	if len(seen.tools) != len(declared) || !bytes.Equal(seen.tools[0], want) {
		return expected("bash as "+string(want), string(seen.toolsRaw))
	}
	had, has := demoFields([]byte(declared[0])), demoFields(seen.tools[0])
	if !slices.Equal(has, []string{"command", "timeout"}) {
		return expected("the fields command and timeout", has)
	}
	for _, word := range []string{"sandbox_permissions", "justification", "danger-full-access"} {
		if bytes.Contains(got, []byte(word)) {
			return expected("no "+word+" in the request", string(got))
		}
	}
	if back := bytes.Replace(got, seen.tools[0], []byte(declared[0]), 1); !bytes.Equal(back, sent) {
		return expected("no other change of the request than of bash", string(got))
	}
	gone := slices.DeleteFunc(slices.Clone(had), func(f string) bool { return slices.Contains(has, f) })
	d.row("declared", "%s", strings.Join(had, ", "))
	d.row("the model saw", "%s", strings.Join(has, ", "))
	d.say("Nobody could approve more, so bash lost %s, and with them the prose about them:", strings.Join(gone, " and "))
	for _, p := range report.Prose {
		d.cite(p)
	}
	d.say("It has %d bytes instead of %d. No other byte of the request was touched.", len(seen.tools[0]), len(declared[0]))
	d.raw("bash as declared", []byte(declared[0]))
	d.raw("bash as the model saw it", seen.tools[0])
	return nil
}

// refused: the call that the model made is not the call that the agent ran,
// what it ran says why, and the session goes on.
func (d *demoStory) refused(ctx context.Context, agent *demoAgent, reply demoReply) (text string, next demoReply, err error) {
	call, command, err := demoOnly(reply)
	if err != nil {
		return "", next, err
	}
	inner, isRefusal := demoRefusal(command)
	if !isRefusal {
		return "", next, expected("a command that prints a refusal", command)
	}
	if want := "guardproxy: not executed. guard " + demoGuard + " says: "; !strings.HasPrefix(inner, want) {
		return "", next, expected("a refusal that starts with "+want, inner)
	}
	r, err := d.run(ctx, command)
	if err != nil {
		return "", next, err
	}
	switch {
	case r.Unavailable:
		// Not even the refusal can be printed here; the history will have it.
	case r.ExitCode == nil || *r.ExitCode != 126 || strings.TrimSpace(r.Stderr) != inner:
		return "", next, expected("exit code 126 and the refusal on stderr", demoOutcome(r))
	}
	agent.answer(call, demoText(r), true)
	if next, err = agent.ask(ctx); err != nil {
		return "", next, err
	}
	_, then, err := demoOnly(next)
	if err != nil {
		return "", next, err
	}
	if then != demoInside {
		return "", next, expected("the model's next call, "+demoInside, then)
	}
	d.row("the model asked", "%s", demoRefused)
	if r.Unavailable {
		d.row("the agent got", "a command that prints this and fails:")
	} else {
		d.row("the agent read", "as the output of its call, exit code %d:", *r.ExitCode)
	}
	d.cite(inner)
	d.row("and went on with", "%s", then)
	d.raw("the reply as the agent got it", reply.raw)
	return inner, next, nil
}

// confined: the agent's commands run in the sandbox, where a write in the
// workspace works and one beside it does not; without a sandbox nothing runs.
func (d *demoStory) confined(ctx context.Context, agent *demoAgent, reply demoReply) error {
	call, command, err := demoOnly(reply)
	if err != nil {
		return err
	}
	in, err := d.run(ctx, command)
	if err != nil {
		return err
	}
	agent.answer(call, demoText(in), in.ExitCode == nil || *in.ExitCode != 0)

	if reply, err = agent.ask(ctx); err != nil {
		return err
	}
	if call, command, err = demoOnly(reply); err != nil {
		return err
	}
	if command != demoBeside {
		return expected(demoBeside, command)
	}
	// The same user may write there, or a denial would prove nothing.
	if err := os.WriteFile(d.outside, nil, 0o600); err != nil {
		return err
	}
	if err := os.Remove(d.outside); err != nil {
		return err
	}
	out, err := d.run(ctx, command)
	if err != nil {
		return err
	}
	agent.answer(call, demoText(out), out.ExitCode == nil || *out.ExitCode != 0)
	if reply, err = agent.ask(ctx); err != nil {
		return err
	}
	if len(reply.calls) > 0 {
		return expected("the end of the model's turn", string(reply.message))
	}

	written, _ := os.ReadFile(filepath.Join(d.workspace, "version.txt"))
	_, build := os.Stat(filepath.Join(d.workspace, "build"))
	_, escaped := os.Stat(d.outside)
	if !errors.Is(escaped, os.ErrNotExist) {
		return expected("nothing at "+d.outside, "a file, after "+demoOutcome(out))
	}
	if in.Unavailable || out.Unavailable {
		if len(written) > 0 || build != nil || !in.Unavailable || !out.Unavailable {
			return expected("that no command was run", demoOutcome(in)+" and "+demoOutcome(out))
		}
		d.say("This machine can't confine a command, so none was run, and the agent was told so:")
		d.cite("guardproxy: error: " + in.Error)
		if in.Hint != "" {
			d.cite("guardproxy: hint: " + in.Hint)
		}
		return nil
	}
	if in.ExitCode == nil || *in.ExitCode != 0 || string(written) != "1.4.0\n" || !errors.Is(build, os.ErrNotExist) {
		return expected("exit code 0, no build and 1.4.0 in version.txt", fmt.Sprintf("%s and %q in version.txt", demoOutcome(in), written))
	}
	if out.ExitCode == nil || *out.ExitCode == 0 || *out.ExitCode >= 125 || !demoDenied(out.Stderr) {
		return expected("a write that the kernel denies", demoOutcome(out))
	}
	level := out.Enforcement
	if n := len(out.NotEnforced); n > 0 {
		level += ": " + counted(n, "thing") + " not enforced; guardproxy exec --verbose -- true says more"
	}
	d.row("confined by", "%s", out.Runner)
	d.row("enforcement", "%s", level)
	d.say("In the project (exit code %d):", *in.ExitCode)
	d.cite("$ " + demoInside + "\n" + in.Stdout)
	d.say("Beside it, where this user can write (exit code %d):", *out.ExitCode)
	d.cite("$ " + demoBeside + "\n" + out.Stderr)
	return nil
}

// restored: what the agent sent back is the refusal; what arrived upstream is
// the model's own call, byte for byte, and the refusal as its result.
func (d *demoStory) restored(sent, got [][]byte, refusal string) error {
	if len(got) != 4 || len(sent) != 4 {
		return expected("4 requests", fmt.Sprintf("%d of the agent, %d at the model", len(sent), len(got)))
	}
	var name, args, text string
	for i := 1; i < len(got); i++ {
		mine, err := demoLook(sent[i])
		if err != nil {
			return err
		}
		theirs, err := demoLook(got[i])
		if err != nil {
			return err
		}
		at := slices.IndexFunc(mine.messages, func(m json.RawMessage) bool { return bytes.Contains(m, []byte("gp1:")) })
		if at < 0 || at+1 >= len(theirs.messages) {
			return expected("the refused call in the history that the agent sends", string(sent[i]))
		}
		if name, args, text, err = d.speech.past(theirs.messages[at], theirs.messages[at+1]); err != nil {
			return err
		}
		if name != "bash" || args != demoArgs(demoRefused) {
			return expected("bash "+demoArgs(demoRefused), name+" "+args)
		}
		if text != refusal {
			return expected("as the result "+refusal, text)
		}
		if bytes.Contains(got[i], []byte("gp1:")) {
			return expected("no trace of a seal", string(got[i]))
		}
	}
	mine, err := demoLook(sent[1])
	if err != nil {
		return err
	}
	for _, m := range mine.messages {
		if bytes.Contains(m, []byte("gp1:")) {
			_, a, _, _ := d.speech.past(m, []byte("{}"))
			d.row("the agent sent", "%s", demoCut(a, 34))
		}
	}
	d.row("the model got", "%s", args)
	d.say("and as the result of that call:")
	d.cite(text)
	d.say("So in each of the %d requests since. Nothing was remembered for that: the seal in the agent's history holds it all.", len(got)-1)
	return nil
}

// stable: of two requests of a session, the later one starts with all of the
// earlier one. The order is that of the cache: tools, system, messages.
func (d *demoStory) stable(got [][]byte) error {
	var shared []string
	var last demoSeen
	for i, body := range got {
		seen, err := demoLook(body)
		if err != nil {
			return err
		}
		if i > 0 {
			if !bytes.Equal(seen.toolsRaw, last.toolsRaw) || !bytes.Equal(seen.system, last.system) {
				return expected(fmt.Sprintf("in request %d the tools and system prompt of request %d", i+1, i), string(seen.toolsRaw)+string(seen.system))
			}
			if len(seen.messages) <= len(last.messages) {
				return expected(fmt.Sprintf("a longer history in request %d", i+1), len(seen.messages))
			}
			n := len(seen.toolsRaw) + len(seen.system)
			for j, m := range last.messages {
				if !bytes.Equal(seen.messages[j], m) {
					return expected(fmt.Sprintf("message %d of request %d as before: %s", j+1, i+1, m), string(seen.messages[j]))
				}
				n += len(m)
			}
			shared = append(shared, fmt.Sprint(n))
		}
		last = seen
	}
	d.say("%d requests arrived. The tools were the same %d bytes in each, and each began with all that stood in the one before it, byte for byte: %s bytes.",
		len(got), len(last.toolsRaw), strings.Join(shared, ", then "))
	return nil
}

// run runs a command of the agent, if it is one that belongs here: should a
// refusal ever fail, the demo must not be what runs the call.
func (d *demoStory) run(ctx context.Context, command string) (demoResult, error) {
	if _, ok := demoRefusal(command); !ok && command != demoInside && command != demoBeside {
		return demoResult{}, expected("a command of the story", command)
	}
	return d.shell(ctx, d.workspace, d.state, command)
}

// demoRefusal takes the text out of a command that only prints a refusal.
func demoRefusal(command string) (text string, ok bool) {
	rest, ok := strings.CutPrefix(command, `printf '%s\n' '`)
	if !ok {
		return "", false
	}
	text, rest, _ = strings.Cut(rest, "'")
	seal, ok := strings.CutPrefix(rest, ` >&2; (exit 126) # gp1:`)
	return text, ok && !strings.ContainsAny(seal, "\n\r")
}

// demoOnly is the one call of a reply and its command.
func demoOnly(r demoReply) (demoCall, string, error) {
	if len(r.calls) != 1 {
		return demoCall{}, "", expected("one call", string(r.message))
	}
	command, err := r.calls[0].command()
	return r.calls[0], command, err
}

// demoText is what the agent tells the model about a command.
func demoText(r demoResult) string {
	if r.ExitCode == nil {
		return "error: " + r.Error
	}
	return fmt.Sprintf("exit code %d\n%s%s", *r.ExitCode, r.Stdout, r.Stderr)
}

// demoOutcome is the same for an error message.
func demoOutcome(r demoResult) string {
	return strings.Join(strings.Fields(demoText(r)), " ")
}

// demoDenied recognises the errors with which the kernel denies a write:
// EROFS, EACCES, EPERM.
func demoDenied(stderr string) bool {
	return strings.Contains(stderr, "Read-only file system") || strings.Contains(stderr, "Permission denied") || strings.Contains(stderr, "Operation not permitted")
}

// demoSeen is a request body, cut into the parts of the cache's prefix.
type demoSeen struct {
	toolsRaw []byte
	tools    []json.RawMessage
	system   []byte
	messages []json.RawMessage
}

func demoLook(body []byte) (demoSeen, error) {
	var q struct {
		Tools    json.RawMessage
		System   json.RawMessage
		Messages []json.RawMessage
		// In Responses.
		Instructions json.RawMessage
		Input        []json.RawMessage
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return demoSeen{}, fmt.Errorf("the request: %w", err)
	}
	s := demoSeen{toolsRaw: q.Tools, system: q.System, messages: q.Messages}
	if q.Input != nil {
		s.system, s.messages = q.Instructions, q.Input
	}
	if err := json.Unmarshal(q.Tools, &s.tools); err != nil {
		return demoSeen{}, fmt.Errorf("the request's tools: %w", err)
	}
	return s, nil
}

// demoFields lists the parameters that a declared tool has, in order.
func demoFields(tool []byte) []string {
	var t struct {
		Messages   struct{ Properties json.RawMessage } `json:"input_schema"`
		Parameters struct{ Properties json.RawMessage } // in Responses
		Function   struct {
			Parameters struct{ Properties json.RawMessage }
		}
	}
	if json.Unmarshal(tool, &t) != nil {
		return nil
	}
	properties := t.Messages.Properties
	for _, p := range []json.RawMessage{t.Parameters.Properties, t.Function.Parameters.Properties} {
		if properties == nil {
			properties = p
		}
	}
	var names []string
	dec := json.NewDecoder(bytes.NewReader(properties))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil
		}
		names = append(names, fmt.Sprint(key))
	}
	return names
}

// isTerminal says whether colours are in place.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
