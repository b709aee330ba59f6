//go:build linux && (amd64 || arm64)

package launch

import (
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// A launcher that said "ready" is taken for the command: a signal does to it what
// it does to a program that has no handler for it.
func TestDieAsCommand(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1)
	defer signal.Reset(unix.SIGUSR1)
	signals := []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}
	before := map[unix.Signal]*action{}
	for _, s := range signals {
		before[s] = &action{}
		if !sigaction(s, nil, before[s]) {
			t.Fatalf("the action of %v can't be read", s)
		}
		defer sigaction(s, before[s], nil)
	}
	if before[unix.SIGQUIT].handler <= 1 || before[unix.SIGUSR1].handler <= 1 {
		t.Fatal("nothing handles signals yet")
	}
	sigaction(unix.SIGUSR2, &action{handler: 1}, nil) // SIG_IGN
	dieAsCommand()
	for _, s := range signals {
		var now action
		want := uintptr(0)
		if s == unix.SIGUSR2 || before[s].handler == 1 {
			want = 1
		}
		if sigaction(s, nil, &now); now.handler != want {
			t.Errorf("%v has the action %#x, want %#x", s, now.handler, want)
		}
	}
}
