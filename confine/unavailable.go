package confine

import (
	"slices"
	"strings"
)

// Unavailable says that no rung of the chain can confine a command on this
// machine. It is a reason not to run the command, never to run it bare.
type Unavailable struct {
	Rungs []Missing // in the order they were tried
}

// Missing is what one rung lacks.
type Missing struct {
	Runner string // "bubblewrap", "landlock" or "seatbelt"
	Reason string // what is missing or what failed
	Advice string // what to install or enable, "" if nothing can be done
}

func (e *Unavailable) Error() string {
	var b strings.Builder
	b.WriteString("no confinement is available")
	for i, r := range e.Rungs {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(r.Runner + ": " + r.Reason)
	}
	return b.String()
}

// Hint says what to install or enable for each rung.
func (e *Unavailable) Hint() string {
	var hints []string
	for _, r := range e.Rungs {
		if r.Advice != "" && !slices.Contains(hints, r.Advice) {
			hints = append(hints, r.Advice)
		}
	}
	return strings.Join(hints, ", or ")
}
