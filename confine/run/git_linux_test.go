package run_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/guardproxy/guardproxy/confine/run"
	"github.com/guardproxy/guardproxy/internal/machine"
)

// git does its ordinary work under every rung, and what it would run later stays
// as it was.

func needGit(t *testing.T) {
	t.Helper()
	machine.Needs(t, "git")
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
}

// git runs git unconfined.
func (f *field) git(dir string, args ...string) {
	f.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("git %q: %v: %s", args, err, out)
	}
}

func TestGitWorks(t *testing.T) {
	needGit(t)
	each(t, func(t *testing.T, f *field) {
		base := filepath.Dir(f.workspace)
		f.git(base, "init", "-q", f.workspace)
		f.git(f.workspace, "commit", "-q", "--allow-empty", "-m", "first")
		lib := filepath.Join(base, "lib")
		f.git(base, "init", "-q", lib)
		f.git(lib, "commit", "-q", "--allow-empty", "-m", "lib")
		for _, c := range []struct{ name, script string }{
			{"its configuration", "git config user.email a@b && git config user.name a && git config core.autocrlf false && test $(git config user.name) = a"},
			{"a setting is taken back", "git config --unset core.autocrlf && ! git config core.autocrlf"},
			{"a commit", "echo a > a && git add a && git commit -qm a && test $(git log --oneline | wc -l) = 2"},
			{"a remote", "git remote add o ./x && git remote set-url o ./y && test $(git remote get-url o) = ./y && git remote rename o p && git remote remove p"},
			{"a branch with an upstream", "git branch b && git checkout -q b && git branch -u $(git rev-parse --abbrev-ref @{-1}) && git checkout -q - && git branch -D b"},
			{"a worktree", "git worktree add -q wt && cd wt && echo q > q && git add q && git commit -qm q && cd .. && git worktree remove wt && git branch -d wt 2>/dev/null || git branch -D wt"},
			{"a submodule", "git -c protocol.file.allow=always submodule --quiet add " + lib + " sub && git commit -qm sub && cd sub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m s && git config user.name b"},
			{"and it is still one", "cd sub && git status && git config user.email c && test $(git config user.name) = b"},
			{"a rebase and a stash", "git checkout -qb r HEAD~1 && echo r > r && git add r && git stash -q && git stash pop -q && git commit -qm r && git rebase -q - && git gc -q"},
		} {
			t.Run(c.name, func(t *testing.T) {
				f.t = t
				out := f.sh("set -e; " + c.script)
				if out.ExitCode != 0 || len(out.Held) > 0 || len(out.Refused) > 0 {
					t.Errorf("%+v", out)
				}
			})
		}
		f.git(f.workspace, "fsck", "--no-progress")
	})
}

func TestGitKeepsWhatRuns(t *testing.T) {
	needGit(t)
	each(t, func(t *testing.T, f *field) {
		f.git(filepath.Dir(f.workspace), "init", "-q", f.workspace)
		f.git(f.workspace, "config", "core.editor", "true")
		before := f.read(filepath.Join(f.workspace, ".git/config"))
		for _, c := range []struct{ name, script string }{
			{"a program", "git config core.fsmonitor ./evil"},
			{"hooks elsewhere", "git config core.hooksPath ./evil"},
			{"a setting of the user's", "git config --unset core.editor"},
			{"another file", "git config include.path ../evil"},
			{"a program and a setting at once", "printf '[core]\\n\\tpager = x\\n\\tautocrlf = input\\n' > .git/config.lock && mv .git/config.lock .git/config"},
			{"in place", "printf '[core]\\n\\tpager = x\\n' >> .git/config"},
			{"another file in its place", "printf '[core]\\n\\tpager = x\\n' > c && mv -f c .git/config; ln -f c .git/config"},
			{"nothing in its place", "rm -f .git/config"},
			{"by its directory", "mv .git g; cp -r g .git; printf '[core]\\n\\tpager = x\\n' >> .git/config"},
		} {
			t.Run(c.name, func(t *testing.T) {
				f.t = t
				out := f.sh(c.script)
				list := listed(f.read(filepath.Join(f.workspace, ".git/config")))
				if !slices.Contains(list, "core.editor=true") || slices.ContainsFunc(list, func(s string) bool {
					return strings.HasPrefix(s, "core.fsmonitor") || strings.HasPrefix(s, "core.pager") || strings.HasPrefix(s, "core.hookspath") || strings.HasPrefix(s, "include")
				}) {
					t.Errorf("the configuration is now %q, was %q: %+v", list, before, out)
				}
				if f.runner == "bubblewrap" && len(out.Held) > 0 {
					t.Errorf("it was changed while the command ran: %v", out.Held)
				}
				os.RemoveAll(filepath.Join(f.workspace, ".git/config.lock"))
				f.write(filepath.Join(f.workspace, ".git/config"), before)
			})
		}
	})
}

// listed is what a configuration says.
func listed(config string) []string {
	cmd := exec.Command("git", "config", "--file", "-", "--list")
	cmd.Stdin = strings.NewReader(config)
	text, _ := cmd.Output()
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// A refused change tells git, at once.
func TestGitIsTold(t *testing.T) {
	needGit(t)
	each(t, func(t *testing.T, f *field) {
		if f.runner != "bubblewrap" {
			return // landlock puts it back afterwards
		}
		f.git(filepath.Dir(f.workspace), "init", "-q", f.workspace)
		out := f.sh("git config core.fsmonitor ./evil")
		if out.ExitCode == 0 || !strings.Contains(out.stderr, "could not write config file") || len(out.Refused) != 1 ||
			!strings.Contains(out.Refused[0].Error(), "core.fsmonitor can run code outside") {
			t.Errorf("%+v", out)
		}
		if out := f.sh("git config user.name a"); out.ExitCode != 0 {
			t.Errorf("after that: %+v", out)
		}
	})
}

// A workspace that is a linked worktree commits into the repository it belongs
// to, and changes nothing else there.
func TestLinkedWorktree(t *testing.T) {
	needGit(t)
	each(t, func(t *testing.T, f *field) {
		main := filepath.Join(filepath.Dir(f.workspace), "main")
		f.git(filepath.Dir(main), "init", "-q", main)
		f.git(main, "commit", "-q", "--allow-empty", "-m", "first")
		if err := os.Remove(f.workspace); err != nil {
			t.Fatal(err)
		}
		f.git(main, "worktree", "add", "-q", f.workspace)
		out := f.sh("echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && git branch c && git log --oneline | wc -l")
		if out.ExitCode != 0 || strings.TrimSpace(out.stdout) != "2" {
			t.Errorf("a commit: %+v", out)
		}
		for _, script := range []string{
			"echo x > " + main + "/.git/hooks/pre-commit",
			"echo x >> " + main + "/.git/config",
			"echo x > " + main + "/file",
			"git config core.fsmonitor x",
			"echo gitdir: elsewhere > .git",
			"echo elsewhere > $(git rev-parse --git-dir)/commondir",
		} {
			f.sh(script)
			if st, err := exec.Command("git", "-C", f.workspace, "status", "--porcelain").CombinedOutput(); err != nil || string(st) != "" {
				t.Errorf("%s: status %q, %v", script, st, err)
			}
			for _, path := range []string{"/.git/hooks/pre-commit", "/file"} {
				if _, err := os.Lstat(main + path); err == nil {
					t.Errorf("%s: %s was made", script, path)
				}
			}
			if strings.Contains(f.read(main+"/.git/config"), "x") {
				t.Errorf("%s: the configuration was changed", script)
			}
		}
		f.git(main, "fsck", "--no-progress")
	})
}

func TestGuardedPlaces(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		if err := os.MkdirAll(filepath.Join(f.workspace, ".claude"), 0o755); err != nil {
			t.Fatal(err)
		}
		settings := filepath.Join(f.workspace, ".claude/settings.json")
		f.write(settings, "mine")
		out := f.sh("echo x > .envrc; mkdir .vscode; echo x > .vscode/tasks.json; echo x > .claude/settings.json; rm -rf .claude; mkdir -p .claude; echo x > .claude/settings.json; exit 0")
		for _, name := range []string{".envrc", ".vscode/tasks.json"} {
			if _, err := os.Lstat(filepath.Join(f.workspace, name)); err == nil {
				t.Errorf("%s is left", name)
			}
		}
		if got := f.read(settings); got != "mine" {
			t.Errorf("the settings are %q", got)
		}
		if len(out.Held) < 2 {
			t.Errorf("held: %v", out.Held)
		}
		for _, h := range out.Held {
			if h.Err != nil || f.read(h.To) != "x\n" || !strings.HasPrefix(h.To, f.policy.State) {
				t.Errorf("held: %+v: %q", h, f.read(h.To))
			}
		}
		// what is not guarded stays
		f.policy.Guarded = []string{}
		if out := f.sh("echo x > .envrc"); f.read(filepath.Join(f.workspace, ".envrc")) != "x\n" || len(out.Held) > 0 {
			t.Errorf("not guarded: %+v", out)
		}
	})
}

// The calls of a session share their temporary files, and no others do.
func TestSession(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		f.policy.Session = "one"
		if out := f.sh("echo kept > $TMPDIR/file; echo cached > $GOCACHE.x || mkdir -p $GOCACHE"); out.ExitCode != 0 {
			t.Errorf("first: %+v", out)
		}
		if out := f.sh("cat $TMPDIR/file"); out.stdout != "kept\n" {
			t.Errorf("second: %+v", out)
		}
		f.policy.Session = "two"
		if out := f.sh("ls $TMPDIR"); out.stdout != "" || out.ExitCode != 0 {
			t.Errorf("another session: %+v", out)
		}
		f.policy.Session = "one"
		f.policy.Mode = "read-only"
		out, err := f.try(context.Background(), run.Options{}, "cat", filepath.Join("/tmp", "file"))
		if f.runner == "bubblewrap" && (err != nil || out.stdout != "kept\n") {
			t.Errorf("read-only: %+v, %v", out, err)
		}
	})
}

// What is hidden can't be read, with all that is in it, and everything beside it
// can.
func TestHidden(t *testing.T) {
	each(t, func(t *testing.T, f *field) {
		home := filepath.Join(filepath.Dir(f.workspace), "home")
		for path, text := range map[string]string{".ssh/id": "the secret", ".config/gh/hosts": "the secret", ".netrc": "the secret", ".config/other": "plain", ".config/gh/deeper/x": "the secret", "file": "plain", ".ssh2/file": "plain"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(home, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			f.write(filepath.Join(home, path), text)
		}
		if err := os.Symlink(filepath.Join(home, ".ssh/id"), filepath.Join(f.outside, "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(".ssh", filepath.Join(home, "way")); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{".ssh", ".ssh/id", ".config/gh", ".config/gh/deeper", ".netrc", ".nothing"} {
			f.policy.Hidden = append(f.policy.Hidden, filepath.Join(home, p))
		}
		for _, mode := range []string{"read-only", "workspace-write"} {
			f.policy.Mode = "workspace-write"
			if mode == "read-only" {
				f.policy.Mode = "read-only"
			}
			out := f.sh("cat " + home + "/.ssh/id " + home + "/.config/gh/hosts " + home + "/.netrc " + f.outside + "/link " + home + "/way/id; cp -r " + home + "/.ssh $TMPDIR/copy; cat $TMPDIR/copy/id")
			if strings.Contains(out.stdout, "secret") {
				t.Errorf("%s: read: %+v", mode, out)
			}
			out = f.sh("cat " + home + "/.config/other " + home + "/file " + home + "/.ssh2/file " + f.outside + "/file")
			if out.stdout != "plainplainplainas it was" {
				t.Errorf("%s: what is beside: %+v", mode, out)
			}
		}
	})
}
