package launch

import (
	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0 // none here
)

// archRules are the rules for calls that only this architecture has: none, it
// never had the old ones.
func archRules(confine.LaunchSpec) filter { return nil }

// archRenames are the older forms of renameat2.
var archRenames = []uint32{unix.SYS_RENAMEAT}
