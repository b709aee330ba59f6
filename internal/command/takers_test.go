package command

import (
	"strings"
	"testing"
)

// A program that runs what stands in its arguments makes the command opaque,
// behind wrappers too; the same program used plainly doesn't.
func TestTakers(t *testing.T) {
	for _, tc := range []struct{ name, opaque, plain string }{
		{"unshare", `unshare -r <<< id`, `unshare -r ls`},
		{"unshare alone", `unshare -r`, `unshare -r -- ls`},
		{"nsenter", `nsenter -t 1 -m <<< id`, `nsenter -t 1 -m ls`},
		{"nsenter alone", `nsenter -t 1 -m`, `nsenter -t 1 ls`},
		{"chroot", `chroot /mnt <<< id`, `chroot /mnt ls`},
		{"chroot alone", `sudo chroot /mnt`, `sudo chroot /mnt ls`},
		{"chroot and a here-document", "chroot /mnt <<'E'\nid\nE", `chroot /mnt cat`},
		{"chrt", `chrt -f 1 su -c "$x"`, `chrt -f 1 ls`},
		{"taskset", `taskset 1 xargs id`, `taskset 1 ls`},
		{"ltrace", `ltrace xargs id`, `ltrace ls`},
		{"strace", `strace watch id`, `strace ls`},
		{"mksh", `mksh -T x -c id`, `mksh -c id`},
		{"noglob", `noglob eval id`, `ls noglob`},
		{"repeat", `repeat 2 eval id`, `ls repeat`},
		{"entr", `ls | entr -s id`, `ls entr`},
		{"hyperfine", `hyperfine 'id'`, `ls hyperfine`},
		{"nix-shell", `nix-shell --run id`, `nix-shell --version`},
		{"nix-shell with =", `nix-shell --run=id`, `nix-shell shell.nix`},
		{"crontab", `crontab -`, `crontab -l`},
		{"tmux", `tmux new 'id'`, `tmux ls`},
		{"tmux with options", `tmux -L x new-session -d id`, `tmux -V`},
		{"fakeroot", `fakeroot <<< id`, `fakeroot ls`},
		{"script", `script -c "$x" log`, `ls script`},
		{"ssh", `ssh host 'id'`, `ls ssh`},
		{"git alias", `git -c alias.x='!id' x`, `git -c user.name=x commit`},
		{"git settings", `git -c core.sshCommand=id fetch`, `git -c color.ui=never status`},
		{"git pager", `git -c core.pager=id log`, `git -c core.pager=cat log`},
		{"git in a directory", `git -C x -c core.fsmonitor=id status`, `git -C x status`},
		{"git rebase", `git rebase -x id main`, `git rebase main`},
		{"git bisect", `git bisect run id`, `git bisect start`},
		{"git submodule", `git submodule foreach id`, `git submodule update --init`},
		{"git config", `git config alias.x '!id'`, `git config user.name x`},
		{"git config read", `git config core.editor id`, `git config --get core.editor`},
		{"git clone", `git clone ext::id x`, `git clone https://example.com/x`},
		{"git commit", `git --exec-path=x commit`, `git commit -c HEAD`},
		{"awk system", `awk 'BEGIN{system("id")}'`, `awk '{print $1}'`},
		{"awk pipe", `awk '{print | "id"}'`, `awk '$1 || $2 {print $2}'`},
		{"awk getline", `gawk 'BEGIN{"id" | getline x}'`, `awk -F: '{print $1}' file`},
		{"vim", `vim -c '!id'`, `vim file`},
		{"vim +", `vim +'!id' file`, `vim +12 file`},
		{"ex", `ex file <<< '!id'`, `ex file`},
		{"find", `find . -exec id {} +`, `find . -name x`},
		{"find -ok", `sudo find . -ok id {} +`, `sudo find . -name x -delete`},
		{"fd", `fd -x id`, `fd pattern`},
		{"rg", `rg --pre id x`, `rg --pretty x`},
		{"man", `man -P id ls`, `man ls`},
		{"tar", `tar -xf a.tar --to-command=id`, `tar -xzf a.tar`},
		{"tar checkpoint", `tar cf x y --checkpoint-action=exec=id`, `tar cf x y --checkpoint`},
		{"tar in a cluster", `tar -xvI id -f a.tar`, `tar -xvf a.tar`},
		{"tar without a dash", `tar xIf id a.tar`, `tar xzf FILE.tar`},
		{"tar cut short", `tar --to-comm=id -xf a.tar`, `tar --to-stdout -xf a.tar`},
		{"rsync in a cluster", `rsync -ave id a b`, `rsync -avz --delete a b`},
		{"sort cut short", `sort --compress-prog id x`, `sort --check x`},
		{"scp in a cluster", `scp -qo ProxyCommand=id a b:`, `scp -r a b:`},
		{"fd in a cluster", `fd -HIx id`, `fd -HI x`},
		{"git rebase, attached", `git rebase -xid main`, `git rebase --onto a b`},
		{"git rebase, cut short", `git rebase --exe id main`, `git rebase --edit-todo`},
		{"git grep", `git grep -Oid x`, `git grep -n x`},
		{"git clone, attached", `git clone -ccore.fsmonitor=id a b`, `git clone --depth=1 a b`},
		{"git ls-remote, cut short", `git ls-remote --upload-p=id .`, `git ls-remote --heads .`},
		{"git behind its dashes", `git rebase -x id -- main`, `git grep x -- -O`},
		{"ip", `ip netns exec a id`, `ip netns list`},
		{"m4", `m4 <<< 'syscmd(id)'`, `m4 x.m4`},
		{"dc", `dc -e '!id'`, `dc -e '1 2 + p'`},
		{"sqlite3", `sqlite3 x '.shell id'`, `sqlite3 x 'select 1'`},
		{"psql", `psql -c '\! id'`, `psql -c 'select 1'`},
		{"lftp", `lftp -c '!id'`, `lftp host`},
		{"apt-get", `apt-get -o DPkg::Pre-Invoke::=id install y`, `apt-get install -y y`},
		{"go", `go test -exec id ./...`, `go test -run Exec ./...`},
		{"cargo", `cargo --config build.rustc-wrapper=id build`, `cargo build --release`},
		{"gcc", `gcc -wrapper id a.c`, `gcc -Wall a.c`},
		{"install", `install -s --strip-program=id a b`, `install -m 755 a b`},
		{"wget", `wget --use-askpass=id x`, `wget --user-agent=x y`},
		{"capsh", `capsh -- -c "$x"`, `ls capsh`},
		{"a taker behind a wrapper that is no common word", `torsocks git -c alias.x='!id' x`, `torsocks git status`},
		{"an interpreter behind one", `torsocks python3`, `torsocks python3 x.py`},
		{"another language behind one", `ssh-agent fish -c id`, `ssh-agent ls`},
		{"rsync", `rsync -e id a b`, `rsync -av a b`},
		{"split", `split --filter=id x`, `split -l 10 x`},
		{"sort", `sort --compress-program id x`, `sort -u x`},
		{"make", `make --eval='$(shell id)'`, `make -j4 test`},
		{"make from its input", `make -f - <<< 'all: ; id'`, `make -f Makefile`},
		{"gdb", `gdb -ex 'shell id'`, `gdb ./prog`},
		{"socat", `socat - EXEC:id`, `socat - TCP:localhost:80`},
		{"PAGER", `PAGER=id man ls`, `PAGER=cat man ls`},
		{"GIT_SSH_COMMAND", `GIT_SSH_COMMAND=id git fetch`, `GIT_TERMINAL_PROMPT=0 git fetch`},
		{"EDITOR by env", `env EDITOR=id git commit`, `env EDITOR=true git commit`},
		{"EDITOR exported", `export EDITOR=id; git commit`, `export EDITOR=vim; git commit`},
		{"MAKEFLAGS", `MAKEFLAGS=--eval=id make`, `MAKEFLAGS=-j4 make`},
		{"GIT_CONFIG", `GIT_CONFIG_COUNT=1 git status`, `git status`},
		{"behind wrappers", `sudo timeout 5 git -c alias.x='!id' x`, `sudo timeout 5 git status`},
		{"by path", `/usr/bin/awk 'BEGIN{system("id")}'`, `/usr/bin/awk '{print}'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if p := Parse(tc.opaque); !p.Opaque {
				t.Errorf("%s: not opaque", tc.opaque)
			}
			if p := Parse(tc.plain); p.Opaque {
				t.Errorf("%s: opaque, for no reason", tc.plain)
			}
		})
	}
}

// A command made of takers is not looked at in the square of their number.
func TestManyTakers(t *testing.T) {
	for _, word := range []string{"awk ", "su ", "git ", "find "} {
		if p := Parse("sudo " + strings.Repeat(word, maxTakers+1)); !p.Opaque || len(p.Argv) > 1+MaxWrappers {
			t.Errorf("%s: opaque %v, %d commands", word, p.Opaque, len(p.Argv))
		}
	}
}
