//go:build unix

package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
	"github.com/guardproxy/guardproxy/guards/wasm/meter"
	"github.com/guardproxy/guardproxy/internal/machine"
)

var I = assemble.I

// constant is a guard that returns n.
func constant(n int64) []byte {
	m := &assemble.Module{}
	f := m.Func(":i", "", I("i32.const", n))
	m.Memory(1, 1)
	m.Export("memory", assemble.Memory, 0)
	m.Export("guard_check_v1", assemble.Func, f)
	return m.Bytes()
}

// bomb is a guard within all limits that keeps the optimiser busy: each of its
// functions has as many locals as it may, and merges of control in which all of
// them may have two values.
func bomb(functions, merges int) []byte {
	m := &assemble.Module{}
	var code []byte
	for i := range merges {
		code = append(code, I("local.get", int64(i%1999))...)
		code = append(code, I("if")...)
		for j := range 8 {
			n := int64((i*37 + j*251) % 1999)
			code = append(code, I("local.get", n)...)
			code = append(code, I("i32.const", int64(j))...)
			code = append(code, I("i32.add")...)
			code = append(code, I("local.set", n)...)
		}
		code = append(code, I("end")...)
	}
	locals := strings.Repeat("i", 1999)
	for range functions {
		m.Func("i:", locals, I("loop"), code, I("local.get", 0), I("br_if", 0), I("end"))
	}
	f := m.Func(":i", "", I("i32.const", 1))
	m.Memory(1, 1)
	m.Export("memory", assemble.Memory, 0)
	m.Export("guard_check_v1", assemble.Func, f)
	return m.Bytes()
}

// metered is what Load gives to the compiler.
func metered(t testing.TB, module []byte) []byte {
	t.Helper()
	out, _, err := meter.Meter(module, meter.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verdict loads a guard and lets it judge a call.
func verdict(t testing.TB, module []byte, o Options) (guards.Decision, error) {
	t.Helper()
	o.Deadline = 10 * time.Second
	g, err := Load(t.Context(), module, o)
	if err != nil {
		return 0, err
	}
	defer g.Close()
	return g.Check(t.Context(), &guards.Call{Name: "bash"}).Decision, nil
}

func wantVerdict(t testing.TB, module []byte, o Options, want guards.Decision) {
	t.Helper()
	if got, err := verdict(t, module, o); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

// within makes the compiler's limits smaller for a test.
func within(t *testing.T, l compileLimits) {
	old := compileBounds
	compileBounds = l
	t.Cleanup(func() { compileBounds = old })
}

// counting is a compiler that writes a line to a log each time it is started,
// and then does what the shell lines say; "$@" is the real compiler.
func counting(t *testing.T, lines string) (command []string, started func() int) {
	t.Helper()
	sh := machine.Needs(t, "sh")
	log := filepath.Join(t.TempDir(), "log")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{sh, "-c", "echo $$ >> '" + log + "'\n" + lines, "sh", self}, func() int {
		b, _ := os.ReadFile(log)
		return strings.Count(string(b), "\n")
	}
}

// This process never compiles a guest: without the code in the cache, the
// engine stops before it begins.
func TestMissIsAnError(t *testing.T) {
	for name, module := range map[string][]byte{"one function": constant(1), "many functions": bomb(50, 20)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cache, err := wazero.NewCompilationCacheWithDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			r := wazero.NewRuntimeWithConfig(t.Context(), engineConfig(cache))
			defer r.Close(t.Context())
			if _, err := fromCache(t.Context(), r, metered(t, module)); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if files, _ := filepath.Glob(dir + "/*/*"); len(files) > 0 {
				t.Errorf("it compiled into %v", files)
			}
		})
	}
}

// What runs is what lies in the cache: two guards whose code was exchanged
// there give each other's verdicts. So nothing of a module is compiled on a hit.
func TestHitCompilesNothing(t *testing.T) {
	dir := t.TempDir()
	pass, deny := constant(1), constant(2)
	wantVerdict(t, pass, Options{CacheDir: dir}, guards.Pass)
	wantVerdict(t, deny, Options{CacheDir: dir}, guards.Deny)
	d := &cacheDir{path: dir}
	code := func(module []byte) string {
		files, _ := filepath.Glob(filepath.Join(d.entry(metered(t, module)), "*", "*"))
		if len(files) != 1 {
			t.Fatalf("files %v", files)
		}
		return files[0]
	}
	b, err := os.ReadFile(code(deny))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(code(pass), b, 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := hashFile(code(pass))
	if err != nil {
		t.Fatal(err)
	}
	entry := d.entry(metered(t, pass))
	name, err := filepath.Rel(entry, code(pass))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(entry, sumFile), []byte(sum+" "+name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, pass, Options{CacheDir: dir}, guards.Deny)
}

func TestCacheSurvivesRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	compiler, started := counting(t, `exec "$@"`)
	for range 3 {
		wantVerdict(t, constant(2), Options{CacheDir: dir, Compiler: compiler}, guards.Deny)
	}
	if n := started(); n != 1 {
		t.Errorf("compiled %d times", n)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
}

// For every kind of damage: the entry is deleted, made once more, and works.
func TestDamagedEntries(t *testing.T) {
	module := metered(t, constant(2))
	edit := func(change func(b []byte) []byte) func(t *testing.T, code string) {
		return func(t *testing.T, code string) {
			b, err := os.ReadFile(code)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(code, change(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(from int) func(t *testing.T, code string) {
		return edit(func(b []byte) []byte {
			if from < 0 {
				from += len(b)
			}
			b[from] ^= 0xff
			return b
		})
	}
	replace := func(with func(path string) error) func(t *testing.T, code string) {
		return func(t *testing.T, code string) {
			if err := errors.Join(os.RemoveAll(code), with(code)); err != nil {
				t.Fatal(err)
			}
		}
	}
	entryOf := func(code string) string { return filepath.Dir(filepath.Dir(code)) }
	for name, damage := range map[string]func(t *testing.T, code string){
		"truncated":       edit(func(b []byte) []byte { return b[:len(b)/2] }),
		"empty":           edit(func(b []byte) []byte { return nil }),
		"longer":          edit(func(b []byte) []byte { return append(b, 0) }),
		"magic":           flip(0),
		"version":         flip(7),
		"function count":  edit(func(b []byte) []byte { copy(b[7+int(b[6]):], "\xff\xff\xff\x7f"); return b }),
		"function offset": edit(func(b []byte) []byte { b[7+int(b[6])+4]++; return b }),
		"code":            edit(func(b []byte) []byte { b[len(b)*2/3] ^= 1; return b }),
		"end":             flip(-1),
		"gone":            replace(func(string) error { return nil }),
		"a directory":     replace(func(p string) error { return os.Mkdir(p, 0o700) }),
		"a link":          replace(func(p string) error { return os.Symlink("/dev/zero", p) }),
		"a pipe":          replace(func(p string) error { return syscall.Mkfifo(p, 0o600) }),
		"sum gone":        func(t *testing.T, code string) { os.Remove(filepath.Join(entryOf(code), sumFile)) },
		"sum of another": func(t *testing.T, code string) {
			os.WriteFile(filepath.Join(entryOf(code), sumFile), []byte(strings.Repeat("0", 64)+" x/y\n"), 0o600)
		},
		"sum leads outside": func(t *testing.T, code string) {
			os.WriteFile(filepath.Join(entryOf(code), sumFile), []byte(strings.Repeat("0", 64)+" ../y\n"), 0o600)
		},
		"sum is a link": func(t *testing.T, code string) {
			sum := filepath.Join(entryOf(code), sumFile)
			os.Rename(sum, sum+"2")
			os.Symlink("sum2", sum)
		},
		"entry is a file": func(t *testing.T, code string) {
			os.RemoveAll(entryOf(code))
			os.WriteFile(entryOf(code), nil, 0o600)
		},
		"entry is a link": func(t *testing.T, code string) {
			os.Rename(entryOf(code), entryOf(code)+"2")
			os.Symlink(entryOf(code)+"2", entryOf(code))
		},
		"entry is open": func(t *testing.T, code string) { os.Chmod(entryOf(code), 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			compiler, started := counting(t, `exec "$@"`)
			o := Options{CacheDir: dir, Compiler: compiler}
			wantVerdict(t, constant(2), o, guards.Deny)
			files, _ := filepath.Glob(filepath.Join((&cacheDir{path: dir}).entry(module), "*", "*"))
			if len(files) != 1 {
				t.Fatalf("files %v", files)
			}
			damage(t, files[0])
			wantVerdict(t, constant(2), o, guards.Deny)
			if n := started(); n != 2 {
				t.Errorf("compiled %d times, it must be 2", n)
			}
			wantVerdict(t, constant(2), o, guards.Deny)
			if n := started(); n != 2 {
				t.Errorf("the entry that was made anew is not used")
			}
		})
	}
}

// A compiler that makes what the engine can't read is asked twice.
func TestUselessCompilers(t *testing.T) {
	for _, tc := range []struct {
		name, lines, want string
		times             int
	}{
		{"nothing", `exit 0`, "0 files", 1},
		{"fails", `echo broken >&2; exit 1`, "broken", 1},
		{"killed", `kill -9 $$`, "killed", 1},
		{"two files", `mkdir "$3/v"; : > "$3/v/a"; : > "$3/v/b"`, "2 files", 1},
		{"a link", `mkdir "$3/v"; ln -s /etc/passwd "$3/v/a"`, "not a file", 1},
		{"of another version", `mkdir "$3/v"; : > "$3/v/a"`, "not what this program looks for", 2},
		{"not a compiler", `exec true`, "0 files", 1},
		{"garbage", `"$@" && for f in "$3"/*/*; do echo garbage > "$f"; done`, "invalid header", 2},
		{"other code", `"$@" && for f in "$3"/*/*; do head -c 60 "$f" > "$f.x"; mv "$f.x" "$f"; done`, "compilationcache", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			compiler, started := counting(t, tc.lines)
			dir := t.TempDir()
			_, err := verdict(t, constant(2), Options{CacheDir: dir, Compiler: compiler})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if n := started(); n != tc.times {
				t.Errorf("started %d times, want %d", n, tc.times)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		if _, err := verdict(t, constant(2), Options{Compiler: []string{"/nonexistent"}}); err == nil || !strings.Contains(err.Error(), "start the compiler") {
			t.Errorf("got %v", err)
		}
	})
}

// A program that did not say that it can be started as the compiler is not
// started: it would do again whatever it does.
func TestNoCompiler(t *testing.T) {
	compilerMain.Store(false)
	defer compilerMain.Store(true)
	_, err := verdict(t, constant(2), Options{})
	var le *LoadError
	if !errors.As(err, &le) || !strings.Contains(err.Error(), "there is no compiler") || !strings.Contains(le.Hint(), "CompilerMain") {
		t.Errorf("got %v", err)
	}
}

func TestCacheDirMustBePrivate(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"open to all", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o777)) }, "can be written by others"},
		{"open to the group", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o770)) }, "can be written by others"},
		{"a link", func(p string) error { return errors.Join(os.Mkdir(p+"2", 0o700), os.Symlink(p+"2", p)) }, "symbolic link"},
		{"a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, "not a directory"},
		{"another user's", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chown(p, 65534, 65534)) }, "another user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			if err := tc.make(path); err != nil {
				machine.Lacks(t, machine.Root, "to make such a directory: %v", err)
			}
			_, err := verdict(t, constant(2), Options{CacheDir: path})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCacheDirBecomesPrivate(t *testing.T) {
	path := t.TempDir()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, constant(2), Options{CacheDir: path}, guards.Deny)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestNothingIsLeftWithoutCacheDir(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	wantVerdict(t, constant(2), Options{}, guards.Deny)
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A module within all limits that would take minutes is refused in time, and
// nothing of it is left: no process, no file, no goroutine.
func TestCompileBombs(t *testing.T) {
	for _, tc := range []struct {
		name   string
		module []byte
		bounds compileLimits
		want   string
	}{
		{"time", bomb(10, 800), compileLimits{time: time.Second, memory: CompileMemory}, "takes more than 1s"},
		{"memory", bomb(2, 1500), compileLimits{time: time.Minute, memory: 96 << 20}, "takes more than 96 MiB of memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "memory" && runtime.GOOS != "linux" {
				machine.Lacks(t, "linux", "memory is not bounded elsewhere")
			}
			within(t, tc.bounds)
			goroutines := runtime.NumGoroutine()
			dir := t.TempDir()
			compiler, started := counting(t, `exec "$@"`)
			_, err := verdict(t, tc.module, Options{CacheDir: dir, Compiler: compiler})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v", err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 || started() != 1 {
				t.Errorf("left %v after %d runs", left, started())
			}
			settle(t, func() bool { return runtime.NumGoroutine() <= goroutines })
			// What is refused does not stand in the way of others.
			compileBounds = compileLimits{CompileTime, CompileMemory}
			wantVerdict(t, constant(1), Options{CacheDir: dir}, guards.Pass)
		})
	}
}

// A compiler that gets no processor, or does nothing with it, is ended too.
func TestSleepingCompiler(t *testing.T) {
	within(t, compileLimits{time: 500 * time.Millisecond, memory: CompileMemory})
	pid := filepath.Join(t.TempDir(), "pid")
	_, err := verdict(t, constant(2), Options{Compiler: []string{"sh", "-c", "echo $$ > '" + pid + "'; exec sleep 1000"}})
	if err == nil || !strings.Contains(err.Error(), "takes more than 500ms") {
		t.Fatalf("got %v", err)
	}
	if n := processID(t, pid); syscall.Kill(n, 0) == nil {
		t.Errorf("process %d runs on", n)
	}
}

// settle waits for what must come soon.
func settle(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Error("it does not come to rest")
			return
		}
	}
}

func TestCompilerEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pid := filepath.Join(t.TempDir(), "pid")
	self, _ := os.Executable()
	command := []string{"sh", "-c", "echo $$ > '" + pid + "'; exec \"$@\"", "sh", self}
	go func() {
		settle(t, func() bool { b, _ := os.ReadFile(pid); return strings.HasSuffix(string(b), "\n") })
		cancel()
	}()
	_, err := Load(ctx, bomb(10, 800), Options{Compiler: command})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if n := processID(t, pid); syscall.Kill(n, 0) == nil {
		t.Errorf("process %d runs on", n)
	}
}

func processID(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The compiler limits itself before it reads a byte of the module, and has
// nothing of its parent's environment.
func TestCompilerLimitsItself(t *testing.T) {
	if runtime.GOOS != "linux" {
		machine.Lacks(t, "linux", "there are no limits elsewhere")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, compileVerb, t.TempDir(), compileLimits{time.Second, 64 << 20}.String())
	in, err := cmd.StdinPipe() // nothing is written to it
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	want := map[string]bool{"Max address space": true, "Max cpu time": true, "Max file size": true, "Max core file size": true}
	settle(t, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
		if err != nil {
			return false
		}
		bounded := 0
		for _, line := range strings.Split(string(b), "\n") {
			for name := range want {
				if strings.HasPrefix(line, name) && !strings.Contains(line, "unlimited") {
					bounded++
				}
			}
		}
		return bounded == len(want)
	})
}

func TestCompilerHasNoEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	out := filepath.Join(t.TempDir(), "env")
	compiler, _ := counting(t, "cat /proc/$$/environ > '"+out+"'; exec \"$@\"")
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		machine.Lacks(t, "/proc", "%v", err)
	}
	compiler[2] = "PATH=/usr/bin:/bin; " + compiler[2]
	wantVerdict(t, constant(2), Options{Compiler: compiler}, guards.Deny)
	if b, err := os.ReadFile(out); err != nil || strings.Contains(string(b), "SECRET") {
		t.Errorf("environment %q, %v", b, err)
	}
}

// A compiler does not outlive the process that started it.
func TestCompilerEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		machine.Lacks(t, "linux", "elsewhere nothing binds a process to its parent")
	}
	pid := filepath.Join(t.TempDir(), "pid")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), orphanEnv+"="+pid)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	settle(t, func() bool { b, _ := os.ReadFile(pid); return strings.HasSuffix(string(b), "\n") })
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	child := processID(t, pid)
	settle(t, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

// orphanEnv makes this test binary compile for ever; the compiler's process id
// goes to the file that it names.
const orphanEnv = "GUARDPROXY_TEST_ORPHAN"

func orphan(pid string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	command := []string{"sh", "-c", "echo $$ > '" + pid + "'; exec \"$@\"", "sh", self}
	Load(context.Background(), bomb(10, 800), Options{Compiler: command})
}

func TestConcurrentLoads(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			wantVerdict(t, constant(int64(1+i%2)), Options{CacheDir: dir}, []guards.Decision{guards.Pass, guards.Deny}[i%2])
		})
	}
	wg.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("the cache has %v", entries)
	}
}

func TestPrune(t *testing.T) {
	d := &cacheDir{path: t.TempDir()}
	name := func(i int) string { return filepath.Join(d.path, fmt.Sprintf("%064d", i)) }
	at := func(path string, age time.Duration) {
		t.Helper()
		when := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(path, 0o700), os.Chtimes(path, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxEntries + 3 {
		at(name(i), time.Duration(i)*time.Minute)
	}
	at(filepath.Join(d.path, "new-old"), 2*time.Hour)
	at(filepath.Join(d.path, "new-now"), 0)
	at(filepath.Join(d.path, "something else"), 1000*time.Hour)
	d.prune()
	left := map[string]bool{}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left[e.Name()] = true
	}
	for path, want := range map[string]bool{name(0): true, name(maxEntries - 1): true, name(maxEntries): false, name(maxEntries + 2): false,
		"new-old": false, "new-now": true, "something else": true} {
		if left[filepath.Base(path)] != want {
			t.Errorf("%s is left: %v", path, !want)
		}
	}
}
