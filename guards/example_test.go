package guards_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/guardproxy/guardproxy/guards"
)

// noForce denies a push that overwrites what others have pushed.
type noForce struct{}

func (noForce) Check(_ context.Context, c *guards.Call) guards.Verdict {
	if c.Shell == nil {
		return guards.Verdict{}
	}
	for _, argv := range c.Shell.Argv {
		if len(argv) > 1 && argv[0] == "git" && argv[1] == "push" {
			for _, w := range argv[2:] {
				if w == "--force" || w == "-f" {
					return guards.Verdict{Decision: guards.Deny, Reason: "push without --force, to a branch of your own"}
				}
			}
		}
	}
	return guards.Verdict{}
}

func ExampleChain() {
	chain := guards.Chain{
		{Name: "no-force", Guard: noForce{}, Match: guards.Match{Kinds: []string{"shell"}}},
	}
	out := chain.Check(context.Background(), &guards.Call{
		Name:      "bash",
		Arguments: json.RawMessage(`{"command":"git push --force"}`),
		Kind:      "shell",
		Shell:     &guards.Shell{Argv: [][]string{{"git", "push", "--force"}}},
	})
	fmt.Println(out.Decision, out.Cause)
	for _, v := range out.Deciding() {
		fmt.Printf("guard %s says: %s\n", v.Guard, v.Reason)
	}
	// Output:
	// deny policy
	// guard no-force says: push without --force, to a branch of your own
}
