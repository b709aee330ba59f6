//go:build !(linux && (amd64 || arm64))

package confine

import "runtime"

// find has nothing to offer here: both rungs are made of Linux, and the system
// call filter is written for amd64 and arm64.
func find(Options) (rung, []Missing, error) {
	reason := "needs Linux on amd64 or arm64, this is " + runtime.GOOS + " on " + runtime.GOARCH
	return nil, nil, &Unavailable{Rungs: []Missing{
		{Runner: runBubblewrap, Reason: reason},
		{Runner: runLandlock, Reason: reason, Advice: "run the agent in a Linux container or virtual machine"},
	}}
}

func likely(Options) rung { return nil }

func diagnose(Options) (abi int, states []RungState) {
	_, _, err := find(Options{})
	for _, m := range err.(*Unavailable).Rungs {
		states = append(states, RungState{Runner: m.Runner, Reason: m.Reason, Improve: []string{m.Advice}})
	}
	return 0, states
}
