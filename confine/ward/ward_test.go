//go:build linux || darwin

package ward

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// field is a workspace to guard.
type field struct {
	t    interface{ Fatal(...any) }
	ws   string
	hold string
}

func newField(t *testing.T) *field {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &field{t: t, ws: filepath.Join(base, "ws"), hold: filepath.Join(base, "hold")}
	if err := os.Mkdir(f.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

// put writes files ("path" to content, "path/" for a directory, "path ->" for a
// link).
func (f *field) put(files map[string]string) {
	for path, text := range files {
		link := strings.TrimSuffix(path, " ->")
		full := filepath.Join(f.ws, link)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		switch {
		case err != nil:
		case link != path:
			err = os.Symlink(text, full)
		case strings.HasSuffix(path, "/"):
			err = os.MkdirAll(full, 0o755)
		default:
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// tree lists what is there: files with content, links with their target.
func (f *field) tree() map[string]string {
	found := map[string]string{}
	filepath.WalkDir(f.ws, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(f.ws, path)
		switch {
		case err != nil || rel == ".":
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			found[rel+" ->"] = target
		case d.IsDir():
			found[rel+"/"] = ""
		case d.Type().IsRegular():
			text, _ := os.ReadFile(path)
			found[rel] = string(text)
		default:
			found[rel] = "special"
		}
		return nil
	})
	return found
}

func files(tree map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range tree {
		if !strings.HasSuffix(name, "/") {
			out[name] = text
		}
	}
	return out
}

func equal(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if g, ok := got[name]; !ok || g != text {
			t.Errorf("%s: got %q (there: %v), want %q", name, g, ok, text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is left: %q", name, got[name])
		}
	}
}

const repoConfig = "[core]\n\tbare = false\n"

func repo(more map[string]string) map[string]string {
	m := map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": repoConfig, ".git/objects/x": "", ".git/hooks/a.sample": "s"}
	for k, v := range more {
		m[k] = v
	}
	return m
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name   string
		before map[string]string
		do     string            // a script in the workspace
		after  map[string]string // nil: as before
		held   []string          // base names of what is held, sorted
	}{
		{"nothing", repo(nil), "echo x > file", repo(map[string]string{"file": "x\n"}), nil},
		{"a new place", repo(nil), "echo x > .envrc; mkdir .vscode; echo x > .vscode/tasks.json; echo y > .vscode/settings.json",
			repo(map[string]string{".vscode/settings.json": "y\n"}), []string{".envrc", ".vscode_tasks.json"}},
		{"a changed place", repo(map[string]string{".envrc": "a"}), "echo x > .envrc", nil, []string{".envrc"}},
		{"a changed place, by a new file", repo(map[string]string{".envrc": "a"}), "echo x > y; mv y .envrc", nil, []string{".envrc"}},
		{"a removed place", repo(map[string]string{".vscode/tasks.json": "a"}), "rm -r .vscode", nil, nil},
		{"a removed place, its directory now a link", repo(map[string]string{".vscode/tasks.json": "a", "other/tasks.json": "b"}),
			"rm -r .vscode; ln -s other .vscode", nil, []string{".vscode"}},
		{"a place moved away and another there", repo(map[string]string{".vscode/tasks.json": "a"}),
			"mv .vscode v; mkdir .vscode; echo x > .vscode/tasks.json",
			repo(map[string]string{".vscode/tasks.json": "a", "v/tasks.json": "a"}), []string{".vscode_tasks.json"}},
		{"a link as a place", repo(nil), "ln -s /etc/passwd .envrc", nil, []string{".envrc"}},
		{"a directory as a place", repo(nil), "mkdir -p .envrc/x", nil, []string{".envrc"}},
		{"a pipe as a place", repo(nil), "mkfifo .envrc", nil, []string{".envrc"}},
		{"a directory that is a place", repo(nil), "mkdir -p .claude/hooks; echo x > .claude/hooks/a", nil, []string{".claude_hooks"}},
		{"a place behind a link", repo(map[string]string{".claude ->": "shared", "shared/settings.json": "a"}), "echo x > shared/settings.json",
			nil, []string{"shared_settings.json"}},
		{"a hook", repo(nil), "echo x > .git/hooks/pre-commit; echo y > .git/hooks/pre-commit.sample",
			repo(map[string]string{".git/hooks/pre-commit.sample": "y\n"}), []string{".git_hooks_pre-commit"}},
		{"a changed hook", repo(map[string]string{".git/hooks/pre-push": "a"}), "echo x >> .git/hooks/pre-push", nil, []string{".git_hooks_pre-push"}},
		{"the hooks are a link", map[string]string{".git/HEAD": "", ".git/config": repoConfig, ".git/hooks/pre-push": "a"}, "rm -r .git/hooks; mkdir h; echo x > h/pre-commit; ln -s ../h .git/hooks",
			map[string]string{".git/HEAD": "", ".git/config": repoConfig, ".git/hooks/pre-push": "a", "h/pre-commit": "x\n"}, []string{".git_hooks"}},
		{"hooks where none were", map[string]string{".git/HEAD": "", ".git/config": ""}, "mkdir .git/hooks; echo x > .git/hooks/a",
			nil, []string{".git_hooks_a"}},
		{"another repository", repo(nil), "mv .git .git2; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", nil, []string{".git"}},
		{"a link as the repository", repo(nil), "mv .git .git2; ln -s .git2 .git", nil, []string{".git"}},
		{"a repository elsewhere", map[string]string{"a": ""}, "mkdir r; echo gitdir: r > .git", nil, []string{".git"}},
		{"a new repository", map[string]string{"a": ""}, "mkdir -p .git/hooks; echo x > .git/HEAD; echo '[core]' > .git/config; echo fsmonitor=x >> .git/config; echo y > .git/hooks/a",
			map[string]string{"a": "", ".git/HEAD": "x\n", ".git/config": "[core]\n"}, []string{".git_config", ".git_hooks_a"}},
		{"a linked worktree", map[string]string{".git": "gitdir: /x\n"}, "echo gitdir: y > .git", nil, []string{".git"}},
		{"configuration that describes", repo(nil), "printf '[remote \"o\"]\\n\\turl = x\\n' >> .git/config",
			repo(map[string]string{".git/config": repoConfig + "[remote \"o\"]\n\turl = x\n"}), nil},
		{"configuration that runs", repo(nil), "printf '\\thooksPath = x\\n\\tautocrlf = true\\n' >> .git/config",
			repo(map[string]string{".git/config": repoConfig + "\tautocrlf = true\n"}), []string{".git_config"}},
		{"configuration that is not understood", repo(nil), "echo '[' >> .git/config", nil, []string{".git_config"}},
		{"configuration elsewhere", repo(nil), "mkdir evil; echo evil > .git/commondir", nil, []string{".git_commondir"}},
		{"a hooks directory that the configuration names", repo(map[string]string{".git/config": "[core]\nhooksPath = .husky\n", ".husky/a": "a"}),
			"echo x > .husky/b; echo y > .husky/a", nil, []string{".husky_a", ".husky_b"}},
		{"a submodule's hook", repo(map[string]string{".git/modules/a/b/HEAD": ""}), "mkdir .git/modules/a/b/hooks; echo x > .git/modules/a/b/hooks/post-checkout; echo '[core]\nfsmonitor=x' > .git/modules/a/b/config",
			repo(map[string]string{".git/modules/a/b/HEAD": "", ".git/modules/a/b/config": "[core]\n"}), []string{".git_modules_a_b_config", ".git_modules_a_b_hooks_post-checkout"}},
		{"a new submodule", repo(nil), "mkdir -p .git/modules/s/hooks; echo x > .git/modules/s/hooks/post-checkout; printf '[core]\\n\\tworktree = ../../../s\\n' > .git/modules/s/config",
			repo(map[string]string{".git/modules/s/config": "[core]\n\tworktree = ../../../s\n"}), []string{".git_modules_s_hooks_post-checkout"}},
		{"a new submodule that works elsewhere", repo(nil), "mkdir -p .git/modules/s/hooks; printf '[core]\\n\\tworktree = ../../../../s\\n' > .git/modules/s/config",
			repo(map[string]string{".git/modules/s/config": "[core]\n"}), []string{".git_modules_s_config"}},
		{"a new worktree", repo(nil), "mkdir -p .git/worktrees/w; echo ../.. > .git/worktrees/w/commondir",
			repo(map[string]string{".git/worktrees/w/commondir": "../..\n"}), nil},
		{"a worktree led elsewhere", repo(nil), "mkdir -p .git/worktrees/w; echo ../../../evil > .git/worktrees/w/commondir",
			repo(map[string]string{".git/worktrees/w/commondir": "../..\n"}), []string{".git_worktrees_w_commondir"}},
		{"an executable bit", repo(map[string]string{".git/hooks/pre-push": "a"}), "chmod +x .git/hooks/pre-push", nil, []string{".git_hooks_pre-push"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newField(t)
			f.put(c.before)
			w, err := Look(Options{Bases: []string{f.ws}})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", c.do)
			cmd.Dir = f.ws
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			settled := w.Settle(f.hold)
			want := c.after
			if want == nil {
				want = c.before
			}
			equal(t, files(f.tree()), files(want))
			var held []string
			for _, h := range settled {
				if h.Err != nil {
					t.Error(h)
				}
				if h.To != "" {
					held = append(held, filepath.Base(h.To))
					if _, err := os.Lstat(h.To); err != nil {
						t.Errorf("%v: %v", h, err)
					}
				}
			}
			slices.Sort(held)
			if !slices.Equal(held, c.held) {
				t.Errorf("held %q, want %q: %v", held, c.held, settled)
			}
		})
	}
}

// Without a directory to hold things in, they lose the name that counts.
func TestHeldBeside(t *testing.T) {
	f := newField(t)
	w, err := Look(Options{Bases: []string{f.ws}})
	if err != nil {
		t.Fatal(err)
	}
	f.put(map[string]string{".envrc": "x", ".envrc.held-by-guardproxy": "y"})
	w.Settle("")
	equal(t, f.tree(), map[string]string{".envrc.held-by-guardproxy": "y", ".envrc.held-by-guardproxy.2": "x"})
}

// Nothing that another process puts in the way leads Settle out of the
// workspace.
func TestSettleStaysInside(t *testing.T) {
	f := newField(t)
	f.put(map[string]string{".vscode/tasks.json": "a", "../outside/tasks.json": "b"})
	w, err := Look(Options{Bases: []string{f.ws}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.ws, ".vscode")); err != nil {
		t.Fatal(err)
	}
	f.put(map[string]string{".vscode ->": filepath.Join(f.ws, "..", "outside")})
	b, p := w.bases[0], w.bases[0].places[0]
	for _, q := range w.bases[0].places {
		if q.rel == ".vscode/tasks.json" {
			p = q
		}
	}
	// as if the link came between the look and the step
	w.hold = func() (string, error) { return "", nil }
	w.replace(b, p.rel, p.before, &entry{kind: isFile})
	if text, err := os.ReadFile(filepath.Join(f.ws, "../outside/tasks.json")); string(text) != "b" {
		t.Errorf("changed outside: %q, %v", text, err)
	}
}

func TestMounts(t *testing.T) {
	f := newField(t)
	f.put(map[string]string{".git/HEAD": "", ".git/config": "", ".envrc": "", ".claude/settings.json": "", ".vscode/": "",
		".git/modules/s/HEAD": "", ".git/modules/s/hooks/": "", ".mcp.json ->": "elsewhere"})
	w, err := Look(Options{Bases: []string{f.ws}, Mounts: true})
	if err != nil {
		t.Fatal(err)
	}
	rel := func(paths []string) string {
		var out []string
		for _, p := range paths {
			r, _ := filepath.Rel(f.ws, p)
			out = append(out, r)
		}
		return strings.Join(out, " ")
	}
	if got, want := rel(w.ReadOnly()), ".claude/settings.json .envrc .git/config .git/hooks .git/modules/s/hooks"; got != want {
		t.Errorf("read-only %q, want %q", got, want)
	}
	if got, want := rel(w.Pins()), ".claude .git .git/modules .git/modules/s"; got != want {
		t.Errorf("pinned %q, want %q", got, want)
	}
	if got := w.Settle(f.hold); len(got) != 0 {
		t.Errorf("held %v", got)
	}
	if _, err := os.Lstat(filepath.Join(f.ws, ".git/hooks")); err == nil {
		t.Error("the directory that was made is left")
	}
}

// What can be denied by its path is every place, also where nothing is, and a
// link besides what it leads to.
func TestGuarded(t *testing.T) {
	f := newField(t)
	f.put(repo(map[string]string{".claude/settings.json": "{}", "real/": "", ".codex ->": "real"}))
	w, err := Look(Options{Bases: []string{f.ws}, Places: []string{".envrc", ".claude/settings.json", ".codex/config.toml"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	got := w.Guarded()
	for _, rel := range []string{".envrc", ".claude/settings.json", ".codex", ".codex/config.toml", ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir"} {
		if !slices.Contains(got, filepath.Join(f.ws, rel)) {
			t.Errorf("%s is missing in %q", rel, got)
		}
	}
	if !slices.IsSorted(got) || slices.Contains(got, f.ws) || slices.Contains(got, filepath.Join(f.ws, ".git")) {
		t.Errorf("got %q", got)
	}
}

func TestPropose(t *testing.T) {
	for _, c := range []struct {
		name, lock string
		link       bool
		ok         bool
	}{
		{"a remote", repoConfig + "[remote \"o\"]\n\turl = x\n", false, true},
		{"shorter", "[core]\n", false, true},
		{"a program", repoConfig + "[core]\n\tfsmonitor = x\n", false, false},
		{"rubbish", "[", false, false},
		{"a link to elsewhere", "", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newField(t)
			f.put(repo(nil))
			if c.link {
				f.put(map[string]string{".git/config.lock ->": "/etc/passwd"})
			} else {
				f.put(map[string]string{".git/config.lock": c.lock})
			}
			w, err := Look(Options{Bases: []string{f.ws}, Mounts: true})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if got := w.Configs(); len(got) != 1 || got[0] != filepath.Join(f.ws, ".git/config") {
				t.Fatalf("configurations %q", got)
			}
			err = w.Propose(w.Configs()[0])
			want := repoConfig
			if c.ok {
				want = c.lock
			}
			text, _ := os.ReadFile(w.Configs()[0])
			_, left := os.Lstat(filepath.Join(f.ws, ".git/config.lock"))
			if (err == nil) != c.ok || string(text) != want || (left != nil) != c.ok {
				t.Errorf("error %v, config %q, lock file gone: %v", err, text, left != nil)
			}
			if held := w.Settle(f.hold); len(held) > 0 {
				t.Errorf("held: %v", held)
			}
		})
	}
}

// Whatever a command does to the places, afterwards none of them is new and
// each that was there is as it was.
func TestSettleIsWhole(t *testing.T) {
	names := []string{".envrc", ".vscode", ".vscode/tasks.json", ".git", ".git/hooks", ".git/hooks/pre-commit", ".git/commondir", ".claude/hooks", ".claude/hooks/a", "other", "other/tasks.json"}
	rapid.Check(t, func(t *rapid.T) {
		base, err := os.MkdirTemp("", "ward-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		if base, err = filepath.EvalSymlinks(base); err != nil {
			t.Fatal(err)
		}
		f := &field{t: t, ws: filepath.Join(base, "ws"), hold: filepath.Join(base, "hold")}
		os.Mkdir(f.ws, 0o755)
		step := func(label string) {
			at := filepath.Join(f.ws, rapid.SampledFrom(names).Draw(t, label))
			switch rapid.IntRange(0, 4).Draw(t, label+" what") {
			case 0:
				os.RemoveAll(at)
			case 1:
				os.MkdirAll(filepath.Dir(at), 0o755)
				os.WriteFile(at, []byte(label), 0o644)
			case 2:
				os.MkdirAll(at, 0o755)
			case 3:
				os.Symlink(filepath.Join(f.ws, rapid.SampledFrom(names).Draw(t, label+" target")), at)
			case 4:
				os.Rename(at, filepath.Join(f.ws, rapid.SampledFrom(names).Draw(t, label+" to")))
			}
		}
		for range rapid.IntRange(0, 8).Draw(t, "before") {
			step("before")
		}
		if st, err := os.Lstat(filepath.Join(f.ws, ".git")); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return // refused before anything runs
		}
		w, err := Look(Options{Bases: []string{f.ws}})
		if err != nil {
			t.Fatal(err)
		}
		was := map[string]*entry{}
		for _, p := range w.bases[0].places {
			was[p.rel] = p.before
		}
		for range rapid.IntRange(1, 8).Draw(t, "after") {
			step("after")
		}
		held := w.Settle(f.hold)
		root, err := os.OpenRoot(f.ws)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		b := newBase(f.ws, root)
		for rel, before := range was {
			at, now := b.look(rel)
			if strings.HasSuffix(rel, "hooks") && before.kind == missing && now.kind == isDir && len(now.children) == 0 {
				continue
			}
			if !before.same(now) {
				t.Errorf("%s (%s): was %+v, is %+v; held %v", rel, at, before, now, held)
			}
		}
	})
}

func newBase(path string, root *os.Root) *base { return &base{path: path, root: root} }
