package launch

import (
	"golang.org/x/sys/unix"

	"github.com/guardproxy/guardproxy/confine"
)

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// __X32_SYSCALL_BIT: 64-bit registers with 32-bit pointers, same
	// architecture, other numbers.
	x32Bit = 0x40000000
)

// archRules are the rules for calls that only this architecture has.
func archRules(spec confine.LaunchSpec) filter {
	f := filter{
		calls(unix.EPERM, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB,
			unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL),
		bits(unix.SYS_CHMOD, 1, setIDs), bits(unix.SYS_CREAT, 1, setIDs), bits(unix.SYS_MKNOD, 1, setIDs),
		creating(unix.SYS_OPEN, 1, 2),
	}
	if spec.Landlock > 0 && spec.Landlock < 3 {
		f = append(f, values(unix.SYS_OPEN, 1, unix.O_ACCMODE|unix.O_TRUNC, unix.O_RDONLY|unix.O_TRUNC))
	}
	return f
}

// archRenames are the older forms of renameat2.
var archRenames = []uint32{unix.SYS_RENAME, unix.SYS_RENAMEAT}
