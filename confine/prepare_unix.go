//go:build (linux || darwin) && (amd64 || arm64)

package confine

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/guardproxy/guardproxy/confine/ward"
)

// What the rungs of both systems do when they prepare a command.

// makeTemp makes the temporary directory of a rung that can't give the command
// a /tmp of its own: that of the session, or one for p alone, which Close
// removes.
func (p *Prepared) makeTemp() (string, error) {
	temp, err := p.policy.sessionTemp(time.Now())
	if err == nil && temp == "" {
		if temp, err = os.MkdirTemp("", "guardproxy-"); err == nil {
			temp = resolved(temp)
			p.temp = temp
		}
	}
	if err != nil {
		return "", fmt.Errorf("make a temporary directory for the command: %w", err)
	}
	return temp, nil
}

// guard looks at what runs code later in the directories that p lets a command
// write. It returns the directories of a repository elsewhere that git writes,
// too.
func guard(p Policy, mounts bool) (*ward.Ward, []string, error) {
	at := linkedRepository(p.Workspace)
	o := ward.Options{Bases: []string{p.Workspace}, Places: p.Guarded, Mounts: mounts}
	for _, r := range WritableRoots(p) {
		if r != p.Workspace && isDir(r) {
			o.Bases = append(o.Bases, r)
		}
	}
	if at.dir != "" {
		for _, m := range slices.Concat(p.Masks, p.Hidden) {
			if m = resolved(m); Within(at.dir, m) || Within(m, at.dir) {
				return guardAll(o, linked{})
			}
		}
	}
	return guardAll(o, at)
}

func guardAll(o ward.Options, at linked) (*ward.Ward, []string, error) {
	if at.dir != "" && !slices.ContainsFunc(o.Bases, func(b string) bool { return Within(at.dir, b) }) {
		o.GitDirs = append(o.GitDirs, at.dir)
	}
	w, err := ward.Look(o)
	if err != nil {
		return nil, nil, fmt.Errorf("look at the workspace before the command: %w", err)
	}
	return w, at.write, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
