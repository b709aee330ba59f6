//go:build linux && (amd64 || arm64)

package run_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
	"github.com/guardproxy/guardproxy/confine/run"
)

// Signals that come while the launcher is at work reach a process that is not the
// command yet, which may die of them or take no notice. What asks a command to
// end ends the call, and nothing is started anew; the rest waits for the command.
func TestSignalsBeforeTheCommand(t *testing.T) {
	realBwrap(t)
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		trap   string // of the launcher
		want   int
	}{
		{"the launcher dies of it", syscall.SIGTERM, "", 143},
		{"the launcher takes no notice", syscall.SIGTERM, "trap : TERM", 143},
		{"SIGINT", syscall.SIGINT, "", 130},
		{"SIGQUIT", syscall.SIGQUIT, "", 131},
		{"SIGHUP", syscall.SIGHUP, "trap : HUP", 129},
		{"the command gets it later", syscall.SIGUSR1, "trap : USR1", 138},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newField(t)
			base := filepath.Dir(f.workspace)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			inner, launcher := filepath.Join(base, "inner"), filepath.Join(base, "launcher")
			if out, err := exec.Command("cp", self, inner).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			up, on, ran := filepath.Join(f.workspace, "up"), filepath.Join(f.workspace, "on"), filepath.Join(f.workspace, "ran")
			for _, fifo := range []string{up, on} {
				if err := unix.Mkfifo(fifo, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f.write(launcher, "#!/bin/sh\n"+c.trap+"\necho up > "+up+"\nread line < "+on+"\nexec "+inner+" \"$@\"\n")
			for _, path := range []string{base, launcher, inner} {
				if err := os.Chmod(path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			signals := make(chan os.Signal)
			go func() {
				if text := f.read(up); text != "up\n" {
					t.Errorf("the launcher said %q", text)
				}
				signals <- c.signal
				if c.want == 138 {
					f.write(on, "on\n")
				}
			}()
			chain := confine.New(confine.Options{Launcher: launcher})
			var starts int
			got, err := run.Do(context.Background(), chain, []string{"sh", "-c", "touch ran; exec sleep 1000"}, f.policy,
				run.Options{Attempt: true, Signals: signals, Prepared: func(confine.Prepared) { starts++ }})
			if err != nil || got.ExitCode != c.want || starts != 1 || got.Canceled != (c.want != 138) {
				t.Errorf("%+v, %v; started %d times, want exit code %d of the first", got, err, starts, c.want)
			}
			if _, err := os.Lstat(ran); err == nil && got.Canceled {
				t.Error("the command ran")
			}
		})
	}
}
