package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	goio "io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/examples"
	"github.com/guardproxy/guardproxy/guards/wasm"
	"github.com/guardproxy/guardproxy/internal/config"
	"github.com/guardproxy/guardproxy/internal/home"
	"github.com/guardproxy/guardproxy/internal/metrics"
)

// guardSet holds the guards of the configuration in force. A configuration that
// is read again takes over those that did not change, so that nothing is
// compiled twice and no state is built up beside the old one. Guards that are
// left out live as long as a session has them pinned; then the collector
// closes them.
type guardSet struct {
	cache   string // directory for compiled code
	log     *slog.Logger
	metrics *metrics.Metrics // nil for none

	mu     sync.Mutex
	loaded map[guardKey]*loadedGuard

	inForce atomic.Pointer[[]*wasm.Live] // for who must not wait for a guard that is being loaded
}

// guardKey is what a guard was made from. With wasm.reload the module's hash is
// not part of it: the guard follows its file.
type guardKey struct {
	name, file, use, config string
	wasm                    config.Wasm
	sum                     [sha256.Size]byte
}

// loadedGuard is a guard and what its file was like when it was last looked at.
type loadedGuard struct {
	entry config.Guard
	wasm  config.Wasm
	live  *wasm.Live
	sum   [sha256.Size]byte // of the module that was tried last
	seen  os.FileInfo
	// failed is why the newest module is not in force, as it was logged.
	failed string
}

// baseProcs is how many processors the Go scheduler would use without guards.
var baseProcs = runtime.GOMAXPROCS(0)

// load makes the chain of a configuration. On an error the set stays as it was.
func (s *guardSet) load(ctx context.Context, cfg *config.Config) (guards.Chain, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[guardKey]*loadedGuard{}
	var chain guards.Chain
	for _, g := range cfg.Guards {
		module, seen, err := readModule(g)
		if err != nil {
			return nil, err
		}
		key := guardKey{name: g.Name, file: g.File, use: g.Use, config: string(g.Config), wasm: cfg.Wasm}
		sum := sha256.Sum256(module)
		if !cfg.Wasm.Reload {
			key.sum = sum
		}
		lg := s.loaded[key]
		if lg == nil {
			guard, err := s.compile(ctx, g, cfg.Wasm, module)
			if err != nil {
				return nil, err
			}
			lg = &loadedGuard{entry: g, wasm: cfg.Wasm, live: wasm.NewLive(guard), sum: sum, seen: seen}
			s.log.Debug("guard loaded", "guard", g.Name)
		} else if lg.sum != sum || lg.failed != "" {
			if err := s.replace(ctx, lg, module, sum, seen); err != nil {
				return nil, err
			}
		}
		next[key] = lg
		chain = append(chain, guards.Entry{Name: g.Name, Guard: lg.live, Observe: g.Mode == "observe",
			Match: guards.Match{Tools: g.Match.Tools, Kinds: g.Match.Kinds, Clients: g.Match.Clients}})
	}
	s.loaded = next
	lives := []*wasm.Live{}
	for _, lg := range next {
		lives = append(lives, lg.live)
	}
	s.inForce.Store(&lives)
	if len(chain) > 0 && os.Getenv("GOMAXPROCS") == "" {
		// A guest keeps its processor while it runs: what else there is to do
		// needs others.
		runtime.GOMAXPROCS(baseProcs + wasm.ProcessSlots())
	}
	return chain, nil
}

func (s *guardSet) compile(ctx context.Context, g config.Guard, w config.Wasm, module []byte) (*wasm.Guard, error) {
	guard, err := wasm.Load(ctx, module, wasm.Options{Name: g.Name, Config: g.Config, Deadline: time.Duration(w.Deadline), Memory: int64(w.Memory), Fuel: int64(w.Fuel), CacheDir: s.cache})
	if ctx.Err() != nil {
		if err == nil {
			guard.Close()
		}
		return nil, errors.New("interrupted while the guards were loaded")
	}
	return guard, err
}

// replace puts a changed module in the place of the old one.
func (s *guardSet) replace(ctx context.Context, lg *loadedGuard, module []byte, sum [sha256.Size]byte, seen os.FileInfo) error {
	// A module that failed is not tried again before it changes again.
	lg.sum, lg.seen = sum, seen
	guard, err := s.compile(ctx, lg.entry, lg.wasm, module)
	if ctx.Err() == nil {
		s.metrics.GuardReloaded(lg.entry.Name, err)
	}
	if err != nil {
		return err
	}
	lg.live.Replace(guard)
	lg.failed = ""
	s.log.Info("a changed guard module is in force, for running sessions too", "guard", lg.entry.Name, "file", lg.entry.File, "sha256", fmt.Sprintf("%x", sum))
	return nil
}

// look replaces the guards whose files have changed. What can't be used leaves
// the old guard in force.
func (s *guardSet) look(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lg := range s.loaded {
		if !lg.wasm.Reload || lg.entry.File == "" {
			continue
		}
		seen, err := os.Stat(lg.entry.File)
		if err == nil && lg.seen != nil && os.SameFile(seen, lg.seen) && seen.Size() == lg.seen.Size() && seen.ModTime().Equal(lg.seen.ModTime()) {
			continue
		}
		var module []byte
		if err == nil {
			module, seen, err = readModule(lg.entry)
		}
		if err == nil {
			sum := sha256.Sum256(module)
			if sum == lg.sum {
				lg.seen = seen
				continue
			}
			err = s.replace(ctx, lg, module, sum, seen)
		} else {
			lg.seen = nil
		}
		if err != nil && ctx.Err() == nil && lg.failed != err.Error() {
			lg.failed = err.Error()
			s.log.Error("a changed guard module can't be used: the old one stays in force", "guard", lg.entry.Name, "file", lg.entry.File, "error", err, "hint", hintOf(err))
		}
	}
}

// lookEvery is how often files are looked at with wasm.reload.
const lookEvery = time.Second

// watch looks after the files until ctx ends.
func (s *guardSet) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.look(ctx)
		}
	}
}

// stats sums up what the guards in force count.
func (s *guardSet) stats() (sum wasm.Stats) {
	lives := s.inForce.Load()
	if lives == nil {
		return sum
	}
	for _, l := range *lives {
		st := l.Guard().Stats()
		sum.Calls += st.Calls
		sum.Instances += st.Instances
		sum.Discarded += st.Discarded
	}
	return sum
}

// readModule reads the module of a configured guard. seen is nil for a bundled
// one.
func readModule(g config.Guard) (module []byte, seen os.FileInfo, err error) {
	if g.Use != "" {
		module, ok := examples.Module(g.Use)
		if !ok {
			return nil, nil, withHint(fmt.Errorf("guard %s: no bundled guard is called %q", g.Name, g.Use), "the bundled guards are "+strings.Join(examples.Names(), ", "))
		}
		return module, nil, nil
	}
	if module, seen, err = readRegular(g.File); err != nil {
		return nil, nil, withHint(fmt.Errorf("guard %s: %w", g.Name, err), "file is relative to the configuration file; the bundled guards are taken with use")
	}
	return module, seen, nil
}

// readRegular reads a file, and gives an error for a pipe in its place instead
// of waiting.
func readRegular(path string) ([]byte, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	b, err := goio.ReadAll(goio.LimitReader(f, wasm.MaxModule+1))
	return b, fi, err
}

func newGuardSet(dirs home.Dirs, log *slog.Logger, m *metrics.Metrics) *guardSet {
	return &guardSet{cache: filepath.Join(dirs.Cache, "wasm"), log: log, metrics: m}
}
