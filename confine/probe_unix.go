//go:build (linux || darwin) && (amd64 || arm64)

package confine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// probeTime bounds a probe: a runner that hangs is no runner.
const probeTime = 10 * time.Second

// probe says whether r works here. What vanishes from the machine while it is
// looked at says nothing about r: then it is tried again.
func probe(r rung) error {
	for tries := 1; ; tries++ {
		stale, err := probeOnce(r)
		if err == nil || !stale || tries == maxStale {
			return err
		}
	}
}

// maxStale is how often a runner is tried whose profile went stale. Each time
// something has to vanish in the few milliseconds after it was looked at.
const maxStale = 10

// probeOnce runs the launcher's own probe under the profile that r gives to
// commands, and returns nil if the profile held: what it must forbid failed and
// left no trace outside, what it must allow happened. stale says that an error
// may be due to what has vanished meanwhile.
func probeOnce(r rung) (stale bool, err error) {
	base, err := probeDir()
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(base)
	workspace, own := filepath.Join(base, "workspace"), filepath.Join(base, "own")
	want := ProbeSpec{
		Inside:  filepath.Join(workspace, "inside"),
		Change:  filepath.Join(base, "change"),
		Create:  filepath.Join(base, "create"),
		Covered: filepath.Join(own, "secret"),
		Link:    filepath.Join(workspace, "link"),
	}
	const before = "as it was"
	for _, err := range []error{
		os.Mkdir(workspace, 0o700), os.Mkdir(own, 0o700),
		os.WriteFile(want.Change, []byte(before), 0o600),
		os.WriteFile(want.Covered, []byte(before), 0o600),
	} {
		if err != nil {
			return false, err
		}
	}
	p := Policy{Mode: WorkspaceWrite, Workspace: workspace, Masks: []string{own}}
	if _, ok := r.(*seatbeltRung); ok { // where paths are denied, and no mounts pin them
		want.Way = filepath.Join(workspace, "way")
		if err := os.Mkdir(want.Way, 0o700); err != nil {
			return false, err
		}
		p.Guarded = []string{"way/place"}
	}
	text, err := json.Marshal(want)
	if err != nil {
		return false, err
	}
	prepared, err := r.prepare([]string{launcherFor(r, p), ProbeArg, string(text)}, p)
	if err != nil {
		return false, err
	}
	defer prepared.Close()
	got, err := runProbe(prepared)
	if err != nil {
		return prepared.Stale(), err
	}

	if made, err := os.ReadFile(want.Inside); err != nil || len(made) == 0 || got.Inside != "ok" {
		return false, fmt.Errorf("a write inside the workspace was denied (%s)", got.Inside)
	}
	after, err := os.ReadFile(want.Change)
	if err != nil || string(after) != before || got.Change == "ok" || got.Change == "" {
		return false, errors.New("a write outside the workspace was not denied")
	}
	if _, err := os.Lstat(want.Create); err == nil || got.Create == "ok" || got.Create == "" {
		return false, errors.New("a file was created outside the workspace")
	}
	if prepared.Enforcement.OwnFilesMasked && (got.Covered == "ok" || got.Covered == "") {
		return false, errors.New("a masked file was readable")
	}
	if prepared.Enforcement.OwnFilesMasked && (got.Link == "ok" || got.Link == "") {
		return false, errors.New("a masked file was readable by another name")
	}
	if want.Way != "" && (got.Way == "ok" || got.Way == "" || got.Way == "skipped") {
		return false, errors.New("the directory of a guarded place could be moved")
	}
	if s, ok := r.(*seatbeltRung); ok {
		s.environ = got.Environ == "ok" || got.Environ == "skipped" || got.Environ == ""
	}
	return false, nil
}

// probeDir makes a directory for the probe, where possible not in /tmp: there
// the profile would hide the outside instead of denying it, which proves less.
func probeDir() (string, error) {
	var first error
	for _, d := range []string{"/var/tmp", os.Getenv("HOME"), os.TempDir()} {
		if !filepath.IsAbs(d) {
			continue
		}
		dir, err := os.MkdirTemp(resolved(d), ".guardproxy-probe-")
		if err == nil {
			return dir, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", fmt.Errorf("no place for the probe: %w", first)
}

// runProbe starts a prepared probe and reads its report. It is not package
// confine/run, which stands above this one and needs less: no output to stream,
// no tree to kill.
func runProbe(prepared Prepared) (ProbeReport, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, prepared.Argv[0], prepared.Argv[1:]...)
	cmd.Env, cmd.Dir = prepared.Env, prepared.Dir
	cmd.WaitDelay = 300 * time.Millisecond
	var stdout, stderr, status bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	r, w, err := os.Pipe()
	if err != nil {
		return ProbeReport{}, err
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		w.Close()
		return ProbeReport{}, err
	}
	defer null.Close()
	instructions, err := memoryFile(prepared.Instructions)
	if err != nil {
		w.Close()
		return ProbeReport{}, err
	}
	defer instructions.Close()
	for _, p := range prepared.Pipes {
		switch p {
		case LauncherPipe:
			cmd.ExtraFiles = append(cmd.ExtraFiles, w)
		case InstructionsPipe:
			cmd.ExtraFiles = append(cmd.ExtraFiles, instructions)
		default:
			cmd.ExtraFiles = append(cmd.ExtraFiles, null)
		}
	}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return ProbeReport{}, err
	}
	// The launcher's texts are shorter than a pipe's buffer, so they can be
	// read after the end.
	err = cmd.Wait()
	r.SetReadDeadline(time.Now().Add(cmd.WaitDelay))
	status.ReadFrom(r)

	var report ProbeReport
	if text, ok := strings.CutPrefix(firstLine(status.String()), "fatal: "); ok {
		return report, errors.New(text)
	}
	if err == nil && json.Unmarshal(stdout.Bytes(), &report) == nil {
		return report, nil
	}
	if text := firstLine(stderr.String()); text != "" {
		return report, errors.New(text)
	}
	if err == nil {
		err = errors.New("no report")
	}
	return report, err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
