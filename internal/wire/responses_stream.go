package wire

import (
	"github.com/guardproxy/guardproxy/internal/tape"
	"github.com/guardproxy/guardproxy/internal/wire/sse"
)

type responsesStream struct {
	inert  Inert
	limits Limits
	t      tape.Tape
}

func (s *responsesStream) Holding() bool { return false }

func (s *responsesStream) Feed(ev *sse.Event) (Step, error) {
	return Step{}, refuse("event", "replies of this dialect can't be judged yet")
}

func (s *responsesStream) Release(rulings []Ruling) []byte { return nil }

func (r *Reply) responses(t *tape.Tape, inert Inert, l Limits) error {
	return refuse("reply", "replies of this dialect can't be judged yet")
}
