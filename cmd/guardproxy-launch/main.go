// Command guardproxy-launch confines itself and becomes another command. It is
// started by guardproxy, inside the sandbox, with instructions that only
// guardproxy writes; there is nothing for a person to call.
//
// It is a program of its own because it starts several times faster than
// guardproxy re-executed, which does the same when this one is not installed
// beside it. Build it static, with CGO_ENABLED=0: inside the sandbox it needs
// nothing but itself.
package main

import (
	"fmt"
	"os"

	"github.com/guardproxy/guardproxy/confine/launch"
)

func main() {
	if launch.Is(os.Args) {
		launch.Main()
	}
	fmt.Fprintln(os.Stderr, "guardproxy: error: guardproxy-launch is started by guardproxy")
	fmt.Fprintln(os.Stderr, "guardproxy: hint: use guardproxy exec -- COMMAND")
	os.Exit(2)
}
