//go:build linux && (amd64 || arm64)

package confine

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// find returns the first rung that passes its probe, and what those before it
// lack.
func find(o Options) (rung, []Missing, error) {
	launcher, err := o.launcher()
	if err == nil {
		if _, err = os.Stat(launcher); err != nil {
			err = fmt.Errorf("the launcher %s can't be used: %s", launcher, reason(err))
		}
	}
	if err != nil {
		advice := "install " + LauncherName + " beside the executable"
		return nil, nil, &Unavailable{Rungs: []Missing{
			{Runner: runBubblewrap, Reason: err.Error(), Advice: advice},
			{Runner: runLandlock, Reason: err.Error()},
		}}
	}
	abi := landlockABI()
	var missing []Missing
	for _, try := range []func() (rung, *Missing){
		func() (rung, *Missing) { return findBubblewrap(o, launcher, abi) },
		func() (rung, *Missing) { return findLandlock(launcher, abi) },
	} {
		r, m := try()
		if m == nil {
			return r, missing, nil
		}
		missing = append(missing, *m)
	}
	return nil, nil, &Unavailable{Rungs: missing}
}

// diagnose looks at each rung.
func diagnose(o Options) (abi int, states []RungState) {
	abi = landlockABI()
	launcher, err := o.launcher()
	if err == nil {
		_, err = os.Stat(launcher)
	}
	if err != nil {
		for _, r := range []string{runBubblewrap, runLandlock} {
			states = append(states, RungState{Runner: r, Reason: "no launcher: " + reason(err)})
		}
		return abi, states
	}
	b, m := findBubblewrap(o, launcher, abi)
	s := state(runBubblewrap, b, m)
	if b, ok := b.(*bubblewrap); ok {
		if !b.freshProc {
			s.Improve = append(s.Improve, procAdvice())
		}
		if b.landlock == 0 {
			s.Improve = append(s.Improve, "enable Landlock as the second layer: add landlock to lsm= on the kernel command line (Linux 5.19 or newer)")
		}
	}
	states = append(states, s)
	l, m := findLandlock(launcher, abi)
	s = state(runLandlock, l, m)
	if m == nil {
		s.Improve = append(s.Improve, landlockAdvice(abi))
	}
	return abi, append(states, s)
}

// landlockABI returns the ABI that this kernel enforces as documented, 0 for
// none. A kernel without the fix of erratum 2 counts as ABI 5: before it,
// scoped signals also hit threads of one process (Linux, landlock(7), "Errata").
// go-landlock draws the same line, and refuses more than it.
func landlockABI() int {
	const version, errata = 1, 2 // LANDLOCK_CREATE_RULESET_VERSION, _ERRATA
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	if e != 0 {
		return 0
	}
	abi := int(v)
	if abi >= 6 {
		if bits, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, errata); e != 0 || bits&(1<<1) == 0 {
			abi = 5
		}
	}
	return min(abi, maxLandlock)
}

// ---- bubblewrap

type bubblewrap struct {
	// command is bwrap, or what the user configured in its place, with
	// arguments of its own.
	command   []string
	launcher  string
	freshProc bool
	userns    bool // root makes a user namespace
	renames   bool // a filter can hold rename calls for an answer
	landlock  int
}

// likely returns the rung that find returns on an ordinary machine, without a
// probe; nil where find has to look closer.
func likely(o Options) rung {
	launcher, err := o.launcher()
	if err != nil || len(o.Runner) > 0 {
		return nil
	}
	bwrap, err := findBwrap(o.Path)
	if err != nil {
		return nil
	}
	best := bestBubblewrap([]string{bwrap}, launcher, landlockABI())
	return &best
}

// bestBubblewrap is the rung with all that it can do.
func bestBubblewrap(command []string, launcher string, abi int) bubblewrap {
	if abi < minLandlock {
		abi = 0 // mounts and namespaces hold; ABI 1 would only forbid moving files
	}
	return bubblewrap{command: command, launcher: resolved(launcher), freshProc: true, renames: true, landlock: abi}
}

func findBubblewrap(o Options, launcher string, abi int) (rung, *Missing) {
	command := o.Runner
	if len(command) == 0 {
		bwrap, err := findBwrap(o.Path)
		if err != nil {
			return nil, &Missing{runBubblewrap, err.Error(), installAdvice()}
		}
		command = []string{bwrap}
	} else if st, err := os.Stat(command[0]); !filepath.IsAbs(command[0]) || err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return nil, &Missing{runBubblewrap, fmt.Sprintf("the configured runner %q can't be executed", command[0]), "correct confine.runner"}
	}
	best := bestBubblewrap(command, launcher, abi)
	// A container may cover parts of /proc; the kernel then refuses a fresh
	// one. Everything else may still work. Root in a container may have to
	// make a user namespace, as users do, to be allowed the others.
	variants := []bubblewrap{best, best}
	variants[1].freshProc = false
	if os.Geteuid() == 0 {
		variants = append(variants, variants...)
		variants[2].userns, variants[3].userns = true, true
	}
	var err error
	for i := range variants {
		e := probe(&variants[i])
		if e == nil {
			return &variants[i], nil
		}
		err = cmp.Or(err, e)
	}
	return nil, &Missing{runBubblewrap, "the probe failed: " + err.Error(), namespaceAdvice(err.Error(), sysctl)}
}

// findBwrap looks bwrap up in a search path: absolute entries only, system
// directories first, and only a file of root's that nobody else may write. A
// confined command can put a file of that name in a directory of the
// workspace, and such directories are often in $PATH.
func findBwrap(path string) (string, error) {
	system := []string{"/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"}
	dirs := filepath.SplitList(path)
	if path == "" {
		dirs = filepath.SplitList(os.Getenv("PATH"))
		if os.Geteuid() == 0 {
			// What a command of root's wrote belongs to root, too: to whom a
			// file belongs says nothing here.
			dirs = slices.DeleteFunc(dirs, func(d string) bool { return !slices.Contains(system, filepath.Clean(d)) })
		}
	}
	slices.SortStableFunc(dirs, func(a, b string) int {
		rank := func(d string) int {
			if slices.Contains(system, d) {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	err := errors.New("bwrap is not in PATH")
	for _, d := range dirs {
		if !filepath.IsAbs(d) {
			continue
		}
		file := resolved(filepath.Join(d, "bwrap"))
		st, e := os.Stat(file)
		if e != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || sys.Uid != 0 || st.Mode()&0o022 != 0 {
			err = fmt.Errorf("%s is not used: it does not belong to root, or others may write it", file)
			continue
		}
		return file, nil
	}
	return "", err
}

func (b *bubblewrap) runners() []string { return []string{b.command[0], b.launcher} }

func (b *bubblewrap) prepare(argv []string, p Policy) (_ Prepared, err error) {
	s, unplaced := b.look(p)
	prepared := Prepared{policy: p, word: rand.Text()}
	defer func() {
		if err != nil {
			prepared.Close()
		}
	}()
	if p.Mode == WorkspaceWrite {
		if prepared.ward, s.grants, err = guard(p, true); err != nil {
			return Prepared{}, err
		}
		s.pins, s.guarded = prepared.ward.Pins(), prepared.ward.ReadOnly()
		s.renames = b.renames && len(prepared.ward.Configs()) > 0
		for path, id := range identity(s.grants) {
			s.same[path] = id
		}
	}
	temp, err := p.sessionTemp(time.Now())
	if err != nil {
		return Prepared{}, err
	}
	// A mount below /tmp would need a directory there, and in one that an
	// earlier command wrote it could be a link.
	if !slices.ContainsFunc(slices.Concat(WritableRoots(p), s.grants, s.kept, []string{p.Workspace}), func(r string) bool { return Within(r, "/tmp") }) {
		s.temp = temp
	}
	prepared.places = placed([]string{p.Workspace}, WritableRoots(p), s.emptied, s.kept, s.pins, s.guarded, s.grants, s.sockets, s.maskFiles, s.maskDirs)
	args, spec := bwrapArgs(s, p, argv)
	spec.Check = CheckSpec{
		Word:    prepared.word,
		Outside: outside(spec.Write, s.emptied),
		Inside:  inside(slices.Concat(WritableRoots(p), s.grants)),
		Temp:    "/tmp",
		Covered: slices.Concat(s.maskDirs, s.maskFiles),
		Mounts:  true,
	}
	prepared.checked = spec.Check.Outside != ""
	if prepared.Instructions, err = json.Marshal(spec); err != nil {
		return Prepared{}, err
	}
	e := Enforcement{Level: Full, Runner: runBubblewrap, OwnFilesMasked: true, Writable: slices.Concat(WritableRoots(p), s.grants)}
	if !b.freshProc {
		e.Missing = append(e.Missing, "a fresh /proc: other processes of the user are visible")
	}
	if b.landlock == 0 {
		e.Missing = append(e.Missing, "landlock as the second layer: the kernel lacks it")
	}
	if p.host() && b.landlock < 6 {
		e.Missing = append(e.Missing, "abstract sockets can be connected to")
	}
	if len(unplaced) > 0 {
		e.Missing = append(e.Missing, fmt.Sprintf("sockets that listen on a relative path can be connected to: %q", unplaced))
	}
	if len(e.Missing) > 0 {
		e.Level = Partial
	}
	prepared.Argv = slices.Concat(b.command, args)
	prepared.Env = plainMessages(withTemp(Env(os.Environ(), p.Env), "/tmp", e.Writable))
	prepared.Dir = "/"
	prepared.Pipes = bwrapPipes(s)
	prepared.Enforcement = e
	return prepared, nil
}

// launcherFor is where the launcher is found by what r runs under p.
func launcherFor(r rung, p Policy) string {
	if b, ok := r.(*bubblewrap); ok {
		s, _ := b.look(p)
		return s.inside
	}
	return r.runners()[0]
}

// look gathers what the profile needs to know at the moment of one call.
// unplaced are sockets bound by a relative path: nobody knows where to cover
// them.
func (b *bubblewrap) look(p Policy) (s scene, unplaced []string) {
	s = scene{launcher: b.launcher, root: os.Geteuid() == 0, userns: b.userns, freshProc: b.freshProc, landlock: b.landlock, same: identity(WritableRoots(p))}
	// What a user may not write there stays so by its mode; root keeps the
	// right to write files of any.
	cover := []string{"/proc/sys"}
	if s.root {
		cover = append(cover, "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi")
	}
	for _, f := range cover {
		if s.landlock == 0 && exists(f) {
			s.procFiles = append(s.procFiles, f)
		}
	}
	for _, d := range []string{"/run", "/var/run", os.Getenv("XDG_RUNTIME_DIR")} {
		if !filepath.IsAbs(d) {
			continue
		}
		d = resolved(d)
		st, err := os.Stat(d)
		if err != nil || !st.IsDir() || d == "/" || unreachable(d, s.emptied, nil) || slices.Contains(s.emptied, d) {
			continue
		}
		if slices.ContainsFunc(append(WritableRoots(p), p.Workspace), func(r string) bool { return Within(d, r) }) {
			continue // the user keeps sockets in a workspace; it is theirs
		}
		s.emptied = append(s.emptied, d)
	}
	if p.host() {
		// Often a link into /run, and without it no name resolves.
		if f := resolved("/etc/resolv.conf"); isFile(f) && unreachable(f, s.emptied, nil) {
			s.kept = append(s.kept, f)
		}
	}
	roots := WritableRoots(p)
	paths, unplaced := listening()
	for _, f := range paths {
		if !unreachable(f, s.emptied, roots) && !slices.ContainsFunc(roots, func(r string) bool { return Within(f, r) }) {
			s.sockets = append(s.sockets, f)
		}
	}
	for _, m := range hideable(slices.Concat(p.Masks, p.Hidden)) {
		switch {
		case unreachable(m, s.emptied, roots):
		case isDir(m):
			s.maskDirs = append(s.maskDirs, m)
		case isFile(m):
			s.maskFiles = append(s.maskFiles, m)
		}
	}
	s.inside = launcherInside
	if shown(b.launcher) && !slices.ContainsFunc(slices.Concat(roots, s.emptied, s.sockets, s.maskDirs, s.maskFiles, []string{p.Workspace}, privateDirs),
		func(d string) bool { return Within(b.launcher, d) }) {
		s.inside = b.launcher // a mount less
	}
	return s, unplaced
}

// unreachable says whether path is hidden by the profile's own layers, so that
// covering it would only create it in an empty directory.
func unreachable(path string, emptied []string, roots []string) bool {
	if slices.ContainsFunc(roots, func(r string) bool { return Within(path, r) }) {
		return false
	}
	return slices.ContainsFunc(append([]string{"/tmp", "/dev"}, emptied...), func(d string) bool {
		return Within(path, d) && filepath.Clean(path) != filepath.Clean(d)
	})
}

// placed notes what is at each path, for Stale. What is missing by now is stale.
func placed(paths ...[]string) map[string]fs.FileInfo {
	places := map[string]fs.FileInfo{}
	for _, path := range slices.Concat(paths...) {
		places[path], _ = os.Lstat(path)
	}
	return places
}

// privateDirs are those that a command under bubblewrap has its own of.
var privateDirs = []string{"/tmp", "/dev", "/proc", "/sys"}

// shown says whether anybody may execute the file at path, whatever user and
// capabilities are left inside.
func shown(path string) bool {
	for at, need := path, fs.FileMode(0o005); ; at, need = filepath.Dir(at), 0o001 {
		if st, err := os.Lstat(at); err != nil || st.Mode()&need != need {
			return false
		}
		if at == "/" || at == "." {
			return at == "/"
		}
	}
}

// identity notes what is at each path now, without following a link: the
// launcher compares. A path that is missing or a link gets what nothing has.
func identity(paths []string) map[string][2]uint64 {
	same := map[string][2]uint64{}
	for _, path := range paths {
		same[path] = [2]uint64{}
		var st unix.Stat_t
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			continue
		}
		if unix.Fstat(fd, &st) == nil {
			same[path] = [2]uint64{st.Dev, st.Ino}
		}
		unix.Close(fd)
	}
	return same
}

// listening returns the sockets with a path in the file system that
// /proc/net/unix lists. Connecting to one passes a read-only mount, so each
// would be a way out: a container daemon, an agent with keys.
func listening() (paths, relative []string) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	paths, relative = readSockets(f)
	for i, path := range paths {
		paths[i] = resolved(path)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		st, err := os.Lstat(path)
		return err != nil || st.Mode()&os.ModeSocket == 0
	})
	slices.Sort(paths)
	return slices.Compact(paths), relative
}

// readSockets reads the format of /proc/net/unix (proc_net_unix(5)): the
// absolute paths that sockets are bound to, and the relative ones on which
// something listens. Where the latter lie only their makers know.
func readSockets(r io.Reader) (paths, relative []string) {
	for sc := bufio.NewScanner(r); sc.Scan(); {
		// Num RefCount Protocol Flags Type St Inode Path; a path can hold spaces
		rest := sc.Text()
		var columns [7]string
		for i := range columns {
			columns[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		}
		flags, err := strconv.ParseUint(columns[3], 16, 64)
		const acceptsConnections = 1 << 16 // __SO_ACCEPTCON, linux/net.h
		datagrams := columns[4] == "0002"  // SOCK_DGRAM: whoever is bound can be written to
		switch {
		case err != nil || rest == "" || rest[0] == '@': // the heading; unbound; abstract
		case rest[0] == '/':
			paths = append(paths, rest)
		case flags&acceptsConnections != 0 || datagrams:
			relative = append(relative, rest)
		}
	}
	slices.Sort(relative)
	return paths, slices.Compact(relative)
}

// threads counts the threads of a user's processes, as the kernel does for
// RLIMIT_NPROC; 0 if /proc does not say.
func threads(uid int) uint64 {
	var n uint64
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended
		}
		owner, count := "", uint64(0)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
				owner = f[1] // the real one
			} else if len(f) > 1 && f[0] == "Threads:" {
				count, _ = strconv.ParseUint(f[1], 10, 32)
			}
		}
		if owner == strconv.Itoa(uid) {
			n += count
		}
	}
	return n
}

// ---- landlock

type landlock struct {
	launcher string
	abi      int
}

func findLandlock(launcher string, abi int) (rung, *Missing) {
	const advice = "use Linux 5.19 or newer with Landlock enabled: add landlock to lsm= on the kernel command line"
	switch {
	case abi == 0:
		return nil, &Missing{runLandlock, "the kernel has no Landlock, or it is disabled", advice}
	case abi < minLandlock:
		return nil, &Missing{runLandlock, fmt.Sprintf("the kernel's Landlock ABI %d is too old, %d is needed", abi, minLandlock), advice}
	}
	r := &landlock{launcher: resolved(launcher), abi: abi}
	if err := probe(r); err != nil {
		return nil, &Missing{runLandlock, "the probe failed: " + err.Error(), launcherAdvice(err.Error())}
	}
	return r, nil
}

func (l *landlock) runners() []string { return []string{l.launcher} }

func (l *landlock) prepare(argv []string, p Policy) (_ Prepared, err error) {
	// /tmp is shared with every program of the user, so the command gets a
	// directory in it instead.
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
	var grants []string
	if p.Mode == WorkspaceWrite {
		if prepared.ward, grants, err = guard(p, false); err != nil {
			return Prepared{}, err
		}
	}
	roots := slices.Concat(WritableRoots(p), grants)
	spec := LaunchSpec{
		Landlock:      l.abi,
		Write:         append(slices.Clone(roots), temp),
		Same:          identity(roots),
		Hide:          hideable(slices.Concat(p.Masks, p.Hidden)),
		Inet:          p.host(),
		FileSize:      fileSizeLimit,
		DieWithParent: true,
		Env:           p.Env,
		StatusFD:      fd(prepared.Pipes, LauncherPipe),
		Alone:         true,
	}
	if os.Geteuid() == 0 {
		spec.Caps = rootCapNumbers()
	} else if n := threads(os.Getuid()); n > 0 {
		// Leaves guardproxy room for threads of its own after a fork bomb: the
		// limit is the command's, the count is the user's.
		spec.Processes = n + processLimit
	}
	spec.Check = CheckSpec{
		Word:    prepared.word,
		Outside: outside(spec.Write, nil),
		Inside:  inside(roots),
		Temp:    temp,
		Covered: slices.DeleteFunc(slices.Clone(spec.Hide), func(h string) bool {
			return slices.ContainsFunc(roots, func(r string) bool { return Within(h, r) }) // and listed as readable
		}),
	}
	prepared.checked = spec.Check.Outside != ""
	if prepared.Instructions, err = json.Marshal(spec); err != nil {
		return Prepared{}, err
	}
	prepared.Dir = p.Dir
	if prepared.Dir == "" {
		prepared.Dir = p.Workspace
	}
	prepared.Argv = append([]string{l.launcher, LaunchArg, strconv.Itoa(fd(prepared.Pipes, InstructionsPipe))}, argv...)
	prepared.Env = plainMessages(withTemp(Env(os.Environ(), p.Env), temp, roots))
	prepared.Enforcement = Enforcement{Level: Partial, Missing: landlockMissing(l.abi), Runner: runLandlock, OwnFilesMasked: true, Writable: roots}
	for _, h := range spec.Hide {
		if slices.ContainsFunc(roots, func(r string) bool { return Within(h, r) }) {
			prepared.Enforcement.Missing = append(prepared.Enforcement.Missing, "what is hidden inside of a writable root is readable: "+h)
		}
	}
	return prepared, nil
}

// hideable returns the real paths of what exists, none inside another.
func hideable(paths []string) []string {
	var out []string
	for _, path := range paths {
		if _, err := os.Lstat(path); err != nil {
			continue // most do not exist, and that is found out quickest
		}
		if path = resolved(path); exists(path) {
			out = append(out, path)
		}
	}
	// What lies in another one is hidden with it; a cover has nothing in it
	// that could be covered.
	slices.Sort(out)
	var outer []string
	for _, path := range out {
		if !slices.ContainsFunc(outer, func(o string) bool { return Within(path, o) }) {
			outer = append(outer, path)
		}
	}
	return outer
}

// memoryFile returns a file that holds text and has no name.
func memoryFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("instructions", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "instructions")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
