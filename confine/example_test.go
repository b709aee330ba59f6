package confine_test

import (
	"errors"
	"fmt"

	"github.com/guardproxy/guardproxy/confine"
)

// A confiner that finds no runner says so, for each rung, and runs nothing.
func ExampleChain_Confine() {
	chain := confine.New(confine.Options{Path: "/nowhere", Launcher: "/nowhere/guardproxy-launch"})
	_, err := chain.Confine([]string{"make", "test"}, confine.Policy{Mode: confine.ReadOnly, Workspace: "/"})
	var refused *confine.Refused
	if errors.As(err, &refused) {
		fmt.Println(refused)
	}
	// Output:
	// /: the workspace is the whole file system
}

// The ladder of modes.
func ExampleMode_Wider() {
	fmt.Println(confine.WorkspaceWrite.Wider(confine.ReadOnly), confine.ReadOnly.Wider(confine.ReadOnly))
	// Output: true false
}
