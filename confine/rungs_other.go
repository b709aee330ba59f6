//go:build !((linux || darwin) && (amd64 || arm64))

package confine

import "runtime"

// find has nothing to offer here: the rungs are made of Linux, where the system
// call filter is written for amd64 and arm64, and of macOS.
func find(Options) (rung, []Missing, error) {
	reason := "needs Linux or macOS on amd64 or arm64, this is " + runtime.GOOS + " on " + runtime.GOARCH
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
