package confine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Options say where a [Chain] looks. The zero value is what a program needs
// that is installed with guardproxy-launch beside it.
type Options struct {
	// Launcher is the absolute path of the launcher. "" means
	// guardproxy-launch beside the running executable and then, if Self is
	// set, the running executable.
	Launcher string
	// Self says that the running executable hands over to launch.Main when
	// launch.Is says so, at the very top of main. Without that hook a
	// re-executed program would start itself over and over.
	Self bool
	// Path is the search path for bwrap, taken as it is; "" for $PATH, of
	// which uid 0 gets the system's directories only.
	Path string
	// Runner takes bwrap's place: an absolute path, and arguments that stand
	// before bwrap's own. It is the user's choice and not checked for who may
	// write it, but probed like bwrap. nil for bwrap itself.
	Runner []string
	// Homes returns home directories of the user besides $HOME, such as that
	// of the user database: no writable root may be or hold one. nil for none.
	// It is called at each Confine.
	Homes func() []string
}

// LauncherName is the file name of the launcher beside the executable.
const LauncherName = "guardproxy-launch"

// Chain is the [Confiner] of this operating system: its rungs in order of
// preference, and which of them has proved itself. The search and the probe
// happen at the first Confine, once; make one Chain a process and keep it.
// It is safe for concurrent use.
type Chain struct {
	opts   Options
	once   sync.Once
	found  atomic.Bool // once is done
	rung   rung        // the first that passed its probe
	passed []Missing   // the rungs before it
	err    error       // *Unavailable if none did
}

// rung is one way of confining a command.
type rung interface {
	// prepare builds the profile for a policy that has passed its check.
	prepare(argv []string, p Policy) (Prepared, error)
	// runners are the executables that must not be replaceable from inside.
	runners() []string
}

// New returns a chain that has not looked at the machine yet.
func New(o Options) *Chain { return &Chain{opts: o} }

// Confine implements [Confiner].
func (c *Chain) Confine(argv []string, p Policy) (Prepared, error) {
	if err := c.check(argv, p); err != nil {
		return Prepared{}, err
	}
	c.once.Do(func() {
		c.rung, c.passed, c.err = find(c.opts)
		c.found.Store(true)
	})
	if c.err != nil {
		return Prepared{}, c.err
	}
	prepared, err := prepare(c.rung, argv, p)
	prepared.Enforcement.Passed = slices.Clone(c.passed)
	return prepared, err
}

// Attempt is Confine without the probe, for a program that runs one command and
// ends. What it prepares is the best profile of the first rung, which nothing
// has tried here yet: the launcher tries it, for this very command, before it
// becomes the command. If package confine/run then says that the runner failed,
// the command has not run, and Confine finds out what works here.
//
// Where there is nothing to expect of the first rung, or no place to try it at,
// Attempt is Confine; [Prepared.Unproven] tells the two apart.
func (c *Chain) Attempt(argv []string, p Policy) (Prepared, error) {
	if !c.found.Load() {
		if err := c.check(argv, p); err != nil {
			return Prepared{}, err
		}
		if r := likely(c.opts); r != nil {
			if prepared, err := prepare(r, argv, p); err == nil {
				if prepared.checked {
					prepared.unproven = true
					return prepared, nil
				}
				prepared.Close()
			}
		}
	}
	return c.Confine(argv, p)
}

// prepare prepares a command that has passed check.
func prepare(r rung, argv []string, p Policy) (Prepared, error) {
	if err := p.checkRunners(r.runners()); err != nil {
		return Prepared{}, err
	}
	return r.prepare(argv, p)
}

// check refuses a command or a policy that no rung can hold.
func (c *Chain) check(argv []string, p Policy) error {
	if len(argv) == 0 || argv[0] == "" {
		return &Refused{Reason: "no command given"}
	}
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			return &Refused{Reason: "a NUL byte in an argument can't be passed to a command"}
		}
	}
	// A policy is refused on every machine alike, whatever it can run.
	homes := []string{os.Getenv("HOME")}
	if c.opts.Homes != nil {
		homes = append(homes, c.opts.Homes()...)
	}
	return p.check(homes, nil)
}

// launcher returns the launcher's absolute path.
func (o Options) launcher() (string, error) {
	if o.Launcher != "" {
		return o.Launcher, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", errors.New("the running executable has no path: " + reason(err))
	}
	exe = resolved(exe)
	beside := filepath.Join(filepath.Dir(exe), LauncherName)
	if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
		return beside, nil
	}
	if o.Self {
		return exe, nil
	}
	return "", errors.New("no " + LauncherName + " beside " + exe)
}

func removeTemp(dir string) error { return os.RemoveAll(dir) }
