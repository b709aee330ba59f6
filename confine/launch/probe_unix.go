//go:build (linux || darwin) && (amd64 || arm64)

package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

// probe tries what text (a confine.ProbeSpec) names and prints the outcome. It
// runs inside, as a command; whoever asked compares it with what happened
// outside.
func probe(text string) int {
	var spec confine.ProbeSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintf(os.Stderr, "guardproxy: fatal: the probe can't read its instructions: %v\n", err)
		return ExitFatal
	}
	write := func(path string, flags int) error {
		f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString("by the probe")
		return errors.Join(err, f.Close())
	}
	try := func(path string, do func(string) error) string {
		if path == "" {
			return "skipped"
		}
		err := do(path)
		if err == nil {
			return "ok"
		}
		if e := unix.Errno(0); errors.As(err, &e) {
			return unix.ErrnoName(e)
		}
		return err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(confine.ProbeReport{
		Inside:  try(spec.Inside, func(p string) error { return write(p, os.O_CREATE|os.O_EXCL) }),
		Change:  try(spec.Change, func(p string) error { return write(p, 0) }),
		Create:  try(spec.Create, func(p string) error { return write(p, os.O_CREATE|os.O_EXCL) }),
		Covered: try(spec.Covered, func(p string) error { _, err := os.ReadFile(p); return err }),
		Link: try(spec.Link, func(p string) error {
			err := os.Link(spec.Covered, p)
			if err == nil {
				_, err = os.ReadFile(p)
			}
			return err
		}),
		Way:     try(spec.Way, func(p string) error { return os.Rename(p, p+"-moved") }),
		Environ: try(environOf, func(name string) error { return readEnviron(name, os.Getppid()) }),
	})
	return 0
}
