package confine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWider(t *testing.T) {
	for _, c := range []struct {
		name    string
		m, than Mode
		want    bool
	}{
		{"a mode is not wider than itself", WorkspaceWrite, WorkspaceWrite, false},
		{"workspace-write is wider than read-only", WorkspaceWrite, ReadOnly, true},
		{"read-only is wider than nothing", ReadOnly, WorkspaceWrite, false},
		{"danger is wider than all", FullAccess, WorkspaceWrite, true},
		{"an unknown request is wider", "admin", FullAccess, true},
		{"anything is wider than an unknown mode", ReadOnly, "admin", true},
		{"no mode is unknown", "", ReadOnly, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.m.Wider(c.than); got != c.want {
				t.Errorf("%q wider than %q: got %v, want %v", c.m, c.than, got, c.want)
			}
		})
	}
}

// Among the three modes, wider is a strict total order.
func TestWiderIsAnOrder(t *testing.T) {
	mode := rapid.SampledFrom(ladder)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := mode.Draw(t, "a"), mode.Draw(t, "b"), mode.Draw(t, "c")
		if a.Wider(a) {
			t.Error("wider than itself")
		}
		if a != b && a.Wider(b) == b.Wider(a) {
			t.Error("not decided")
		}
		if a.Wider(b) && b.Wider(c) && !a.Wider(c) {
			t.Error("not transitive")
		}
	})
}

func TestParseMode(t *testing.T) {
	for _, m := range ladder {
		if got, err := ParseMode(string(m)); err != nil || got != m {
			t.Errorf("%q: got %q, %v", m, got, err)
		}
	}
	for _, s := range []string{"", "write", "Read-Only", " read-only"} {
		if _, err := ParseMode(s); err == nil {
			t.Errorf("%q was taken for a mode", s)
		}
	}
}

var pathGen = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "..", ".", ""}), 0, 5).Draw(t, "parts")
	return "/" + strings.Join(parts, "/")
})

func policyGen(mode Mode) *rapid.Generator[Policy] {
	return rapid.Custom(func(t *rapid.T) Policy {
		return Policy{Mode: mode, Workspace: pathGen.Draw(t, "workspace"),
			WritableRoots: rapid.SliceOfN(pathGen, 0, 4).Draw(t, "roots")}
	})
}

// What may be written is exactly what was granted, said once.
func TestWritableRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policyGen(WorkspaceWrite).Draw(t, "policy")
		path := pathGen.Draw(t, "path")
		roots := WritableRoots(p)
		inRoots := slices.ContainsFunc(roots, func(r string) bool { return Within(path, r) })
		granted := slices.ContainsFunc(append(p.WritableRoots, p.Workspace), func(r string) bool { return Within(path, r) })
		if inRoots != granted {
			t.Errorf("%s: writable %v, granted %v (roots %q)", path, inRoots, granted, roots)
		}
		if !slices.IsSorted(roots) {
			t.Errorf("not sorted: %q", roots)
		}
		for i, a := range roots {
			for j, b := range roots {
				if i != j && Within(a, b) {
					t.Errorf("%s is inside %s", a, b)
				}
			}
		}
	})
}

// A narrower mode never writes where a wider one does not.
func TestWritableRootsFollowTheLadder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policyGen("").Draw(t, "policy")
		path := pathGen.Draw(t, "path")
		before := false
		for _, m := range ladder {
			p.Mode = m
			may := slices.ContainsFunc(WritableRoots(p), func(r string) bool { return Within(path, r) })
			if before && !may {
				t.Errorf("%s: writable below %s, not in it", path, m)
			}
			before = may
		}
	})
	for _, m := range []Mode{ReadOnly, "", "admin"} {
		if r := WritableRoots(Policy{Mode: m, Workspace: "/w"}); len(r) != 0 {
			t.Errorf("mode %q writes %q", m, r)
		}
	}
}

func TestOwnFiles(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(name string) string {
			for _, s := range kv {
				if n, v, _ := strings.Cut(s, "="); n == name {
					return v
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		name string
		env  func(string) string
		want []string
	}{
		{"the defaults", env("HOME=/h"), []string{"/h/.cache/guardproxy", "/h/.config/guardproxy", "/h/.local/state/guardproxy", "/x"}},
		{"the variables", env("HOME=/h", "XDG_STATE_HOME=/s", "XDG_CONFIG_HOME=/c", "XDG_CACHE_HOME=/k"), []string{"/c/guardproxy", "/k/guardproxy", "/s/guardproxy", "/x"}},
		{"a relative variable is ignored", env("HOME=/h", "XDG_STATE_HOME=s"), []string{"/h/.cache/guardproxy", "/h/.config/guardproxy", "/h/.local/state/guardproxy", "/x"}},
		{"no home", env(), []string{"/x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := OwnFiles(c.env, "/x", "/x"); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMasks(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   map[string]string
		homes []string
		want  []string // nil: refused
	}{
		{"the defaults", map[string]string{"HOME": "/h"}, nil,
			[]string{"/h/.cache/guardproxy", "/h/.config/guardproxy", "/h/.local/state/guardproxy", "/x"}},
		{"a variable does not uncover the default", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s"}, nil,
			[]string{"/h/.cache/guardproxy", "/h/.config/guardproxy", "/h/.local/state/guardproxy", "/s/guardproxy", "/x"}},
		{"the user database", nil, []string{"/h"},
			[]string{"/h/.cache/guardproxy", "/h/.config/guardproxy", "/h/.local/state/guardproxy", "/x"}},
		{"both homes", map[string]string{"HOME": "/a"}, []string{"/b", "/a"},
			[]string{"/a/.cache/guardproxy", "/a/.config/guardproxy", "/a/.local/state/guardproxy",
				"/b/.cache/guardproxy", "/b/.config/guardproxy", "/b/.local/state/guardproxy", "/x"}},
		{"no home, all variables", map[string]string{"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k"}, nil,
			[]string{"/c/guardproxy", "/k/guardproxy", "/s/guardproxy", "/x"}},
		{"no home, a variable short", map[string]string{"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, nil, nil},
		{"no home that is absolute", map[string]string{"HOME": "h"}, []string{""}, nil},
		{"nothing", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Masks(func(name string) string { return c.env[name] }, c.homes, "/x")
			var refused *Refused
			if errors.As(err, &refused) != (c.want == nil) || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestEnv(t *testing.T) {
	in := []string{"PATH=/bin", "LD_PRELOAD=/x.so", "LD_DEBUG=all", "GUARDPROXY_KEY=1", "HOME=/h", "ANTHROPIC_API_KEY=k",
		"BASH_FUNC_ls%%=() { x; }", "SSH_AUTH_SOCK=/s", "AWS_SECRET_ACCESS_KEY=k", "AWS_REGION=here", "MY_TOKEN=k", "EMPTY=", "BASH_ENV=/x", "noequals"}
	for _, c := range []struct {
		name  string
		rules EnvRules
		want  []string
	}{
		{"by default", EnvRules{}, []string{"PATH=/bin", "HOME=/h", "AWS_REGION=here", "EMPTY="}},
		{"one kept", EnvRules{Keep: []string{"MY_TOKEN", "LD_PRELOAD", "GUARDPROXY_KEY"}}, []string{"PATH=/bin", "HOME=/h", "AWS_REGION=here", "MY_TOKEN=k", "EMPTY="}},
		{"a list", EnvRules{Only: []string{"PATH", "ANTHROPIC_API_KEY"}}, []string{"PATH=/bin"}},
		{"a list and one kept", EnvRules{Only: []string{"PATH"}, Keep: []string{"MY_TOKEN"}}, []string{"PATH=/bin", "MY_TOKEN=k"}},
		{"an empty list", EnvRules{Only: []string{}}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Env(in, c.rules); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"GITHUB_TOKEN": true, "PGPASSWORD": true, "npm_config__authToken": true, "DB_PASS": true, "SIGNING_KEY": true,
		"STRIPE_SECRET_KEY": true, "OPENAI_API_KEY": true, "HF_TOKEN": true, "TOKEN": true, "CLIENT_SECRET": true, "REGISTRY_AUTH": true,
		"TOKENIZERS_PARALLELISM": false, "PATH": false, "PWD": false, "OLDPWD": false, "KEYBOARD": false, "GIT_CONFIG_KEY_0": false,
		"PASSENGER_APP": false, "XDG_SESSION_ID": false, "AUTHOR": false,
	} {
		if got := SecretName(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// What denials are recognised by is in one language; all else of the locale
// stays.
func TestPlainMessages(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{[]string{"A=1"}, []string{"A=1", "LC_MESSAGES=C.UTF-8"}},
		{[]string{"LANG=de_DE.UTF-8", "LANGUAGE=de", "LC_MESSAGES=fr"}, []string{"LANG=de_DE.UTF-8", "LC_MESSAGES=C.UTF-8"}},
		{[]string{"LC_ALL=de_DE.UTF-8", "LANG=fr", "LC_TIME=it", "A=1"}, []string{"A=1", "LANG=de_DE.UTF-8", "LC_MESSAGES=C.UTF-8"}},
	} {
		if got := plainMessages(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestSecrets(t *testing.T) {
	got := Secrets([]string{"/h", "", "relative"}, "~/.mine", "/etc/keys/", "!~/.npmrc", "!/h/.ssh")
	for path, want := range map[string]bool{"/h/.aws": true, "/h/.config/gh": true, "/h/.mine": true, "/etc/keys": true, "/h/.npmrc": false, "/h/.ssh": false} {
		if slices.Contains(got, path) != want {
			t.Errorf("%s: want %v in %q", path, want, got)
		}
	}
	for _, p := range got {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			t.Errorf("%q is not a clean absolute path", p)
		}
	}
}

func TestSessionTemp(t *testing.T) {
	state := filepath.Join(resolved(t.TempDir()), "state")
	now := time.Now()
	temp := func(session string) string {
		t.Helper()
		dir, err := Policy{State: state, Session: session}.sessionTemp(now)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	a := temp("a/../../b")
	if a != temp("a/../../b") || a == temp("b") || !Within(a, state) {
		t.Errorf("one session's directory is %s, another's %s", a, temp("b"))
	}
	if temp("") != "" {
		t.Error("no session has a directory")
	}
	if err := os.Chtimes(a, now.Add(-8*24*time.Hour), now.Add(-8*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	temp("b")
	if _, err := os.Lstat(a); err == nil {
		t.Error("a session that ended long ago has its directory")
	}
	// A command can change the mode of its /tmp.
	for _, mode := range []os.FileMode{0o755, 0} {
		if err := os.Chmod(temp("b"), mode); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(temp("b")); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("after a change to %v: %v, %v", mode, st.Mode(), err)
		}
	}
	// Nobody knows what others did where they could go.
	for _, dir := range []string{temp("b"), filepath.Join(state, "sessions")} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (Policy{State: state, Session: "b"}).sessionTemp(now); err == nil {
		t.Error("a directory that others can read was taken")
	}
}

func TestLinkedRepository(t *testing.T) {
	base := tree(t, "main/.git/objects/", "main/.git/refs/", "main/.git/hooks/", "main/.git/worktrees/w/", "w/", "main/sub/", "main/.git/modules/sub/",
		"evil/", "other/.git/objects/")
	at := func(s string) string { return filepath.Join(base, s) }
	write := func(path, text string) {
		if err := os.WriteFile(at(path), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("w/.git", "gitdir: "+at("main/.git/worktrees/w"))
	write("main/.git/worktrees/w/gitdir", at("w/.git"))
	write("main/.git/worktrees/w/commondir", "../..")
	write("main/sub/.git", "gitdir: ../.git/modules/sub")
	write("main/.git/modules/sub/config", "[core]\n\tworktree = ../../../sub")
	write("evil/.git", "gitdir: "+at("main/.git/worktrees/w"))
	for _, c := range []struct {
		name, workspace string
		want            []string
	}{
		{"a worktree", "w", []string{at("main/.git/worktrees/w"), at("main/.git/objects"), at("main/.git/refs")}},
		{"a submodule", "main/sub", []string{at("main/.git/modules/sub")}},
		{"a repository of its own", "main", nil},
		{"another's repository", "evil", nil},
		{"no repository", "other", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := linkedRepository(at(c.workspace)); !slices.Equal(got.write, c.want) {
				t.Errorf("got %q, want %q", got.write, c.want)
			}
		})
	}
	write("w/.git", "gitdir: "+at("other/.git"))
	if got := linkedRepository(at("w")); got.dir != "" {
		t.Errorf("a repository that does not agree: %+v", got)
	}
}

// The page for users names each variable that a command does not get.
func TestDroppedVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/exec.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range dropped {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/exec.md does not name %s", name)
		}
	}
}

// tree makes directories and files ("dir/", "file", "link -> target") below a
// fresh directory without symbolic links in its path.
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	base := resolved(t.TempDir())
	for _, e := range entries {
		link, target, isLink := strings.Cut(e, " -> ")
		path := filepath.Join(base, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case isLink:
			err = os.Symlink(filepath.Join(base, target), path)
		case strings.HasSuffix(e, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, nil, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func TestRefused(t *testing.T) {
	base := tree(t, "home/project/", "home/.config/guardproxy/sub/", "project/bin/runner", "linked/.git -> project",
		"link -> project", "behind -> home", "file", "other/", "second/")
	at := func(s string) string { return filepath.Join(base, s) }
	home, runners := at("home"), []string{at("project/bin/runner")}
	homes := []string{"", at("home"), at("second")}
	masks := []string{at("home/.config/guardproxy"), at("home/.local/state/guardproxy")}
	good := Policy{Mode: WorkspaceWrite, Workspace: at("home/project"), Masks: masks}
	with := func(change func(*Policy)) Policy { p := good; change(&p); return p }
	workspace := func(w string) Policy { return with(func(p *Policy) { p.Workspace = w }) }

	if err := good.check(homes, runners); err != nil {
		t.Fatalf("a good policy was refused: %v", err)
	}
	for _, c := range []struct {
		name   string
		policy Policy
		says   string
	}{
		{"no workspace", workspace(""), "absolute"},
		{"a relative workspace", workspace("home/project"), "absolute"},
		{"a symbolic link", workspace(at("link")), "symbolic link"},
		{"behind a symbolic link", workspace(at("behind/project")), "symbolic link"},
		{"a missing workspace", workspace(at("nothing")), "no such file"},
		{"a file", workspace(at("file")), "not a directory"},
		{"the whole file system", workspace("/"), "whole file system"},
		{"a directory of the system", workspace("/tmp"), "/tmp"},
		{"everybody's data", workspace("/var"), "/var"},
		{"everybody's temporary files", workspace("/var/tmp"), "/var/tmp"},
		{"what is installed", workspace("/usr"), "/usr"},
		{"the programs", workspace("/usr/bin"), "/bin"},
		{"what is installed here", workspace("/usr/local"), "/usr/local"},
		{"the settings", workspace("/etc"), "/etc"},
		{"the kernel's settings", workspace("/sys/kernel"), "/sys"},
		{"the home directory", workspace(home), "home"},
		{"above the home directory", workspace(base), "home"},
		{"the other home directory", workspace(at("second")), "home"},
		{"own files inside", workspace(at("home/.config")), "own files"},
		{"inside own files", workspace(at("home/.config/guardproxy/sub")), "own files"},
		{"the runner inside", workspace(at("project")), "runner"},
		{"a .git that is a link", workspace(at("linked")), ".git"},
		{"a bad writable root", with(func(p *Policy) { p.WritableRoots = []string{home} }), "home"},
		{"the runner in a writable root", with(func(p *Policy) { p.WritableRoots = []string{at("project/bin")} }), "runner"},
		{"a mask that is not absolute", with(func(p *Policy) { p.Masks = []string{"x"} }), "absolute"},
		{"inside of what is hidden", with(func(p *Policy) { p.Hidden = []string{home} }), "secrets"},
		{"a hidden path that is not absolute", with(func(p *Policy) { p.Hidden = []string{"x"} }), "absolute"},
		{"a state directory that is not absolute", with(func(p *Policy) { p.State = "x" }), "absolute"},
		{"danger-full-access", with(func(p *Policy) { p.Mode = FullAccess }), "absence of confinement"},
		{"no mode", with(func(p *Policy) { p.Mode = "" }), "unknown mode"},
		{"an unknown network", with(func(p *Policy) { p.Network = "lan" }), "unknown network"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.policy.check(homes, runners)
			var refused *Refused
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want it refused", err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
		})
	}
	for _, d := range sharedDirs {
		real, err := filepath.EvalSymlinks(d)
		if err != nil {
			continue // not on this machine
		}
		// Whatever it is called, and by whatever it is held.
		for ; real != "/"; real = filepath.Dir(real) {
			var refused *Refused
			if err := workspace(real).check(nil, nil); !errors.As(err, &refused) {
				t.Errorf("%s (%s) as a workspace: got %v, want it refused", real, d, err)
			}
		}
	}
	t.Run("the runner is safe in a workspace that can't be written", func(t *testing.T) {
		p := workspace(at("project"))
		p.Mode = ReadOnly
		if err := p.check(homes, runners); err != nil {
			t.Error(err)
		}
	})
}

func TestUnavailableNamesEachRung(t *testing.T) {
	err := &Unavailable{Rungs: []Missing{{"bubblewrap", "bwrap is not in PATH", "install it"}, {"landlock", "no Landlock", "enable it"}}}
	if got, want := err.Error(), "no confinement is available: bubblewrap: bwrap is not in PATH; landlock: no Landlock"; got != want {
		t.Errorf("got %q", got)
	}
	if got, want := err.Hint(), "install it, or enable it"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestProfile(t *testing.T) {
	s := scene{
		launcher: "/opt/l", inside: launcherInside, freshProc: true, procFiles: []string{"/proc/sys"}, emptied: []string{"/run"},
		sockets: []string{"/opt/d.sock"}, pins: []string{"/tmp/w/.git"}, guarded: []string{"/tmp/w/.git/hooks"}, grants: []string{"/r/objects"},
		maskDirs: []string{"/h/own"}, maskFiles: []string{"/h/key"}, landlock: 7,
	}
	p := Policy{Mode: WorkspaceWrite, Workspace: "/tmp/w"}
	line := func(s scene, p Policy) string {
		a, _ := bwrapArgs(s, p, []string{"cmd", "--flag"})
		return " " + strings.Join(a, " ") + " "
	}
	// in this order: a later mount covers an earlier one
	order := []string{" --ro-bind / / ", " --dev /dev ", " --proc /proc ", " --remount-ro /proc ", " --tmpfs /tmp ",
		" --tmpfs /run ", " --ro-bind /opt/l /dev/guardproxy-launch ", " --bind /tmp/w /tmp/w ", " --bind /r/objects /r/objects ", " --bind /tmp/w/.git /tmp/w/.git ",
		" --ro-bind /tmp/w/.git/hooks /tmp/w/.git/hooks ", " --ro-bind /dev/null /opt/d.sock ", " --ro-bind /dev/null /h/key ",
		" --tmpfs /h/own ", " --chdir /tmp/w ", " cmd --flag "}
	rest := line(s, p)
	for _, want := range order {
		i := strings.Index(rest, want)
		if i < 0 {
			t.Fatalf("%q is missing or too early in%s", want, line(s, p))
		}
		rest = rest[i+len(want)-1:]
	}
	for _, c := range []struct {
		name string
		text string
		has  bool
		line func() string
	}{
		{"no network by default", " --unshare-net ", true, func() string { return line(s, p) }},
		{"the host's network on request", " --unshare-net ", false, func() string { q := p; q.Network = HostNetwork; return line(s, q) }},
		{"a user gets a user namespace", " --unshare-user ", true, func() string { return line(s, p) }},
		{"root gets none", " --unshare-user ", false, func() string { r := s; r.root = true; return line(r, p) }},
		{"root keeps what writing others' files takes", " --cap-add CAP_DAC_OVERRIDE ", true, func() string { r := s; r.root = true; return line(r, p) }},
		{"read-only binds nothing writable", " --bind ", false, func() string { q := p; q.Mode = ReadOnly; return line(s, q) }},
		{"read-only shows the workspace", " --ro-bind /tmp/w /tmp/w ", true, func() string { q := p; q.Mode = ReadOnly; return line(s, q) }},
		{"an empty /tmp for each call", " --tmpfs /tmp ", true, func() string { return line(s, p) }},
		{"a session's /tmp", " --bind /s/tmp /tmp ", true, func() string { r := s; r.temp = "/s/tmp"; return line(r, p) }},
		{"without Landlock a process may write about itself", " --remount-ro /proc ", false, func() string { r := s; r.landlock = 0; return line(r, p) }},
		{"where Landlock is not, a flag keeps covers empty", " --tmpfs /h/own --remount-ro /run --remount-ro /h/own ", true, func() string { r := s; r.landlock = 0; return line(r, p) }},
		{"and not about the kernel", " --ro-bind /proc/sys /proc/sys ", true, func() string { r := s; r.landlock = 0; return line(r, p) }},
		{"a launcher that is seen inside is not bound", " --ro-bind /opt/l ", false, func() string { r := s; r.inside = r.launcher; return line(r, p) }},
		{"and started by its own path", " -- /opt/l " + LaunchArg + " ", true, func() string { r := s; r.inside = r.launcher; return line(r, p) }},
		{"the old /proc is left where a fresh one is refused", " --proc ", false, func() string { r := s; r.freshProc = false; return line(r, p) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.line(); strings.Contains(got, c.text) != c.has {
				t.Errorf("%q in it: want %v:%s", c.text, c.has, got)
			}
		})
	}
}

// Every older Landlock misses at least what a newer one does.
func TestLandlockMissesLessAndLess(t *testing.T) {
	for abi := minLandlock; abi < maxLandlock; abi++ {
		older, newer := landlockMissing(abi), landlockMissing(abi+1)
		for _, m := range newer {
			if !slices.Contains(older, m) {
				t.Errorf("abi %d misses %q, abi %d does not", abi+1, m, abi)
			}
		}
	}
	if len(landlockMissing(maxLandlock)) == 0 {
		t.Error("landlock alone is never full")
	}
}

// What holds all users' files, or the system, is no workspace on a Mac, either.
func TestSharedOnMacOS(t *testing.T) {
	mac, linux := sharedOn("darwin"), sharedOn("linux")
	for _, d := range []string{"/", "/Users", "/System", "/Library", "/private", "/opt/homebrew"} {
		holds := func(dirs []string) bool {
			return slices.ContainsFunc(dirs, func(s string) bool { return Within(s, d) })
		}
		if !holds(mac) {
			t.Errorf("%s could be a workspace", d)
		}
		if d != "/" && holds(linux) {
			t.Errorf("%s could be none on Linux", d)
		}
	}
	for i, d := range mac { // what realSharedDirs needs
		if up := filepath.Dir(d); up != "/" && !slices.Contains(mac[:i], up) {
			t.Errorf("%s stands before the directory that it is in", d)
		}
	}
}

// What is noted of the system's directories is what looking each of them up says.
func TestRealSharedDirs(t *testing.T) {
	for i, d := range sharedDirs {
		if got, want := realSharedDirs()[i], resolved(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}
