//go:build linux && (amd64 || arm64)

package run

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ReadyWhen makes the time that an unproven runner has until it is ready be over
// when something comes from the channel.
func ReadyWhen(t *testing.T, over <-chan time.Time) {
	before := readyLimit
	t.Cleanup(func() { readyLimit = before })
	readyLimit = func() (<-chan time.Time, func() bool) { return over, func() bool { return true } }
}

// ReceiveListener receives the descriptor of a listener through a socket.
func ReceiveListener(socket int) (int, error) { return receiveListener(socket) }

// AnswerCalls answers the calls that a listener holds with what judge returns,
// until no process is left that could make one.
func AnswerCalls(listener int, judge func(args [6]uint64) (val int64, errno unix.Errno)) {
	answerCalls(listener, func() bool { return false }, func(n notification) answer {
		val, errno := judge(n.args)
		return answer{val: val, errno: -int32(errno)}
	})
}
