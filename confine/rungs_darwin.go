//go:build amd64 || arm64

package confine

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// sandboxExec is the system's program that runs another under a profile
// (sandbox-exec(1)).
const sandboxExec = "/usr/bin/sandbox-exec"

// find returns the one rung of this system if it passes its probe.
func find(o Options) (rung, []Missing, error) {
	var passed []Missing
	if len(o.Runner) > 0 {
		passed = append(passed, Missing{Runner: runBubblewrap, Reason: "the configured runner takes bwrap's place, and bwrap needs Linux", Advice: "take confine.runner out of the configuration"})
	}
	launcher, err := o.launcher()
	if err == nil {
		if _, err = os.Stat(launcher); err != nil {
			err = fmt.Errorf("the launcher %s can't be used: %s", launcher, reason(err))
		}
	}
	if err != nil {
		return nil, nil, &Unavailable{Rungs: append(passed, Missing{runSeatbelt, err.Error(), "install " + LauncherName + " beside the executable"})}
	}
	r, m := findSeatbelt(sandboxExec, launcher)
	if m != nil {
		return nil, nil, &Unavailable{Rungs: append(passed, *m)}
	}
	return r, passed, nil
}

// likely returns nothing: here every process probes, before it runs anything.
func likely(Options) rung { return nil }

// diagnose looks at the rung.
func diagnose(o Options) (abi int, states []RungState) {
	r, passed, err := find(o)
	if unavailable, ok := err.(*Unavailable); ok {
		passed = unavailable.Rungs
	}
	for _, m := range passed {
		states = append(states, state(m.Runner, nil, &m))
	}
	if err == nil {
		states = append(states, state(runSeatbelt, r, nil))
	}
	return 0, states
}

// launcherFor is where the launcher is found by what r runs under p.
func launcherFor(r rung, _ Policy) string { return r.runners()[0] }

// identity notes what is at each path now: the launcher compares. A path that is
// missing or leads through a link gets what nothing has.
func identity(paths []string) map[string][2]uint64 {
	same := map[string][2]uint64{}
	for _, path := range paths {
		same[path] = [2]uint64{}
		st, err := os.Lstat(path)
		if err != nil || resolved(path) != path {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			same[path] = [2]uint64{uint64(sys.Dev), sys.Ino}
		}
	}
	return same
}

// memoryFile returns a file that holds text and has no name any more.
func memoryFile(text []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "guardproxy-instructions-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
