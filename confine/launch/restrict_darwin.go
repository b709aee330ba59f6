//go:build amd64 || arm64

package launch

import "github.com/guardproxy/guardproxy/confine"

// restrict applies spec to this process, which sandbox-exec has confined
// already.
func restrict(spec confine.LaunchSpec) error { return restrictProfiled(spec) }

// dieAsCommand does nothing here: a signal's action is set through the C
// library, and in the moment before execve Go's own stands.
func dieAsCommand() {}
