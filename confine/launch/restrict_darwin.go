//go:build amd64 || arm64

package launch

import "github.com/guardproxy/guardproxy/confine"

// restrict applies spec to this process, which sandbox-exec has confined
// already.
func restrict(spec confine.LaunchSpec) error { return restrictProfiled(spec) }
