//go:build linux || darwin

package run

import (
	"sync"
	"syscall"
)

// signals sends to the process group of one call, as long as its number is
// surely still this call's: until the leader, ended or not, is reaped.
type signals struct {
	mu     sync.Mutex
	pid    int // the leader; set before anything is sent
	closed bool
}

// sendGroup signals the group and says whether there was one.
func (s *signals) sendGroup(sig syscall.Signal) bool {
	return s.sendOther(-s.pid, sig)
}

// sendOther signals pid, or the group -pid, of a process that can't outlive the
// leader.
func (s *signals) sendOther(pid int, sig syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && syscall.Kill(pid, sig) == nil
}

// last kills what is left of the group and ends the sending.
func (s *signals) last() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		syscall.Kill(-s.pid, syscall.SIGKILL)
	}
	s.closed = true
}
