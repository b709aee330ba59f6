package wasm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/guards/wasm"
)

// A program that loads guards begins its main with wasm.CompilerMain.
func ExampleLoad() {
	ctx := context.Background()
	module, err := os.ReadFile("testdata/deny.wasm")
	if err != nil {
		panic(err)
	}
	g, err := wasm.Load(ctx, module, wasm.Options{Name: "nothing"})
	if err != nil {
		panic(err)
	}
	defer g.Close()

	chain := guards.Chain{{Name: "nothing", Guard: g}}
	out := chain.Check(ctx, &guards.Call{Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)})
	fmt.Println(out.Decision, out.Cause, out.Verdicts[0].Reason)
	// Output: deny policy not today
}
