package cachecheck

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/internal/record"
)

// For all sessions, in each dialect: the way up adds no break, and is the same
// every time. 100 times 10 sessions each.
func TestTheRewriteIsProved(t *testing.T) {
	for _, dialect := range proofDialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			var requests, rewritten, pairs int
			rapid.Check(t, func(t *rapid.T) {
				for range 10 {
					rw := theRewrite(testRing)
					s := newSession(t, dialect)
					var xs []*record.Exchange
					for range rapid.IntRange(1, 5).Draw(t, "requests") {
						s.grow()
						xs = append(xs, s.exchange(rw))
					}
					p, err := Prove("s", strings.NewReader(asRecording(xs)), ProofOptions{Rewrite: rw, Fresh: []Rewrite{theRewrite(testRing), aFreshRewrite()}})
					if err != nil {
						t.Fatal(err)
					}
					if !p.Holds() || p.BreaksAdded+p.NonDeterministic+p.Unverifiable > 0 || len(p.Skipped) > 0 {
						t.Fatalf("%s\n%+v\n%+v\nin:  %s\nout: %s", p.Verdict(), p.Findings, p.Skipped, xs[max(0, firstLine(p)-2)].ClientBody, xs[max(0, firstLine(p)-2)].UpstreamBody)
					}
					requests, rewritten, pairs = requests+p.Requests, rewritten+p.Rewritten, pairs+p.Pairs
				}
			})
			t.Logf("%d requests, %d rewritten, %d pairs", requests, rewritten, pairs)
			if rewritten < requests/4 || pairs < requests/4 {
				t.Errorf("the sessions are too tame: %d requests, %d rewritten, %d pairs", requests, rewritten, pairs)
			}
		})
	}
}

// firstLine is the line of the first finding.
func firstLine(p *Proof) int {
	if len(p.Findings) == 0 {
		return 2
	}
	return p.Findings[0].Line
}
