//go:build linux || darwin

package run

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// maxStatus bounds what is read from a status pipe. Until the launcher has
// closed it, everything that writes there is ours.
const maxStatus = 64 << 10

// launcherStatus is what confine.LauncherPipe said. It is read after the
// command has ended. The first line decides: nothing that is said after "ready"
// can make the command not have run.
type launcherStatus struct {
	ready bool   // the launcher had confined itself
	exec  string // why the command could not be executed
	fatal string // why the launcher could not confine itself

	word string // what it says when it is ready, with the end of the line
	// closed once the launcher has done its part, and when nothing more is said
	atReady, atEnd chan struct{}
}

func (s *launcherStatus) read(r io.Reader) {
	defer close(s.atEnd)
	text := bufio.NewReader(io.LimitReader(r, maxStatus))
	first, _ := text.ReadString('\n')
	s.ready = first == s.word
	if s.ready || strings.HasPrefix(first, "exec: ") {
		close(s.atReady)
	}
	more, _ := io.ReadAll(text)
	first, rest, _ := strings.Cut(first+string(more), "\n")
	if s.ready {
		first, _, _ = strings.Cut(rest, "\n")
	} else {
		s.fatal, _ = strings.CutPrefix(first, "fatal: ")
	}
	if why, ok := strings.CutPrefix(first, "exec: "); ok {
		s.exec, s.fatal = why, ""
	}
}

// isReady says whether the launcher has done its part by now.
func (s *launcherStatus) isReady() bool {
	select {
	case <-s.atReady:
		return true
	default:
		return false
	}
}

// bwrapStatus is what confine.BubblewrapPipe said so far: a sequence of JSON
// objects, of which two members matter here.
type bwrapStatus struct {
	mu    sync.Mutex
	child int  // the sandbox's init, as this process sees it; 0 before it exists
	code  *int // of the command
}

func (s *bwrapStatus) read(r io.Reader) {
	for d := json.NewDecoder(io.LimitReader(r, maxStatus)); ; {
		var event struct {
			Child *int `json:"child-pid"`
			Code  *int `json:"exit-code"`
		}
		if d.Decode(&event) != nil {
			return
		}
		s.mu.Lock()
		if event.Child != nil && s.child == 0 { // never another: it gets signals
			s.child = *event.Child
		}
		if event.Code != nil {
			s.code = event.Code
		}
		s.mu.Unlock()
	}
}

// childPID is the sandbox's init, 0 if there is none, not yet or no more.
func (s *bwrapStatus) childPID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code != nil {
		return 0
	}
	return s.child
}

func (s *bwrapStatus) exitCode() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == nil {
		return 0, false
	}
	return *s.code, true
}
