package confine

// What Landlock alone does not enforce, by ABI. The list follows the kernel's
// "Landlock: unprivileged access control" document: each ABI adds rights, and
// what has no right can't be denied.

// minLandlock is the oldest ABI that a rung of its own is built on: below it no
// file can be moved between directories, and truncation is not seen.
const minLandlock = 2

// maxLandlock is the newest ABI that the launcher knows how to enforce.
const maxLandlock = 11

// landlockMissing lists what a rung of Landlock and the system call filter
// leaves open. At ABI 2 truncation is missing in Landlock and closed by the
// filter, so it is not in the list.
func landlockMissing(abi int) []string {
	missing := []string{
		"metadata outside the writable roots: chmod, chown, times, extended attributes",
		"guarded places in the workspace can be changed while the command runs; they are put back afterwards",
		"other processes of the user are visible, and where they run can be changed",
		"what it started outlives a killed guardproxy",
	}
	if abi < 9 {
		missing = append(missing, "sockets in the file system can be connected to")
	}
	if abi < 6 {
		missing = append(missing, "signals to other processes of the user", "abstract sockets can be connected to")
	}
	if abi < 5 {
		missing = append(missing, "device ioctls")
	}
	return missing
}
