//go:build (linux || darwin) && (amd64 || arm64)

package confine

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/guardproxy/guardproxy/confine/ward"
)

// The rung of macOS. sandbox-exec applies the profile and becomes the launcher,
// which checks it from inside and becomes the command. Nothing here needs macOS
// but that program: so all of it is built on Linux, too, where tests put a
// stand-in in its place.

type seatbeltRung struct {
	command  string // sandbox-exec
	launcher string
	// environ says that the probe could read the environment of another process,
	// or did not try.
	environ bool
}

// findSeatbelt returns the rung if it proves itself.
func findSeatbelt(command, launcher string) (rung, *Missing) {
	if err := systemProgram(command); err != nil {
		return nil, &Missing{runSeatbelt, err.Error(), "use a macOS that has " + command}
	}
	return proveSeatbelt(command, launcher)
}

// proveSeatbelt returns the rung with command as its sandbox-exec if the probe
// finds that it confines.
func proveSeatbelt(command, launcher string) (rung, *Missing) {
	r := &seatbeltRung{command: command, launcher: resolved(launcher)}
	if err := probe(r); err != nil {
		return nil, &Missing{runSeatbelt, "the probe failed: " + err.Error(), seatbeltAdvice(err.Error())}
	}
	return r, nil
}

// systemProgram returns an error unless path is an executable of root's that
// nobody else may write.
func systemProgram(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return errors.New(path + ": " + reason(err))
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Uid != 0 || !st.Mode().IsRegular() || st.Mode()&0o022 != 0 || st.Mode()&0o111 == 0 {
		return errors.New(path + " is not used: it is no program of root's alone")
	}
	return nil
}

// runners begins with the launcher: see launcherFor.
func (s *seatbeltRung) runners() []string { return []string{s.launcher, s.command} }

func (s *seatbeltRung) prepare(argv []string, p Policy) (_ Prepared, err error) {
	prepared := Prepared{policy: p, word: rand.Text(), Pipes: []Pipe{LauncherPipe, InstructionsPipe}}
	defer func() {
		if err != nil {
			prepared.Close()
		}
	}()
	temp, err := prepared.makeTemp()
	if err != nil {
		return Prepared{}, err
	}
	var w *ward.Ward
	var grants []string
	if p.Mode == WorkspaceWrite {
		if w, grants, err = guard(p, false); err != nil {
			return Prepared{}, err
		}
		prepared.ward, prepared.guarded = w, w.Guarded()
	}
	roots := slices.Concat(WritableRoots(p), grants)
	hidden := seatbeltHidden(slices.Concat(p.Masks, p.Hidden))
	spec := LaunchSpec{
		Same:     identity(roots),
		FileSize: fileSizeLimit,
		Env:      p.Env,
		StatusFD: fd(prepared.Pipes, LauncherPipe),
		Check: CheckSpec{
			Word:    prepared.word,
			Outside: outside(append(slices.Clone(roots), temp), nil),
			Inside:  inside(roots),
			Temp:    temp,
			Covered: slices.DeleteFunc(seatbeltNames(hidden), func(path string) bool { return !exists(path) }),
			Mounts:  true,
		},
	}
	prepared.checked = spec.Check.Outside != ""
	if prepared.Instructions, err = json.Marshal(spec); err != nil {
		return Prepared{}, err
	}
	prepared.Dir = p.Dir
	if prepared.Dir == "" {
		prepared.Dir = p.Workspace
	}
	launch := append([]string{s.launcher, LaunchArg, strconv.Itoa(fd(prepared.Pipes, InstructionsPipe))}, argv...)
	prepared.Argv = seatbeltArgs(s.command, seatbelt(roots, prepared.guarded, hidden, temp, p.Network), launch)
	// C is the one locale for messages that every macOS has.
	prepared.Env = setenv(plainMessages(withTemp(Env(os.Environ(), p.Env), temp, roots)), "LC_MESSAGES", "C")
	prepared.Enforcement = Enforcement{Level: Partial, Missing: seatbeltMissing(p, s.environ), Runner: runSeatbelt, OwnFilesMasked: true, Writable: roots}
	if !prepared.checked {
		prepared.Enforcement.Missing = append(prepared.Enforcement.Missing, "no place outside can be tried before the command starts")
	}
	return prepared, nil
}

// seatbeltHidden returns what paths are and what they lead to: also what does
// not exist can be denied, and a link can't be replaced.
func seatbeltHidden(paths []string) []string {
	var all []string
	for _, path := range paths {
		// The last part as it is, which may be a link, without those before it.
		all = append(all, filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path)), resolved(path))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
