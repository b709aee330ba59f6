package run

import "golang.org/x/sys/unix"

// renameNumber is the call with two paths and no directories.
const renameNumber = unix.SYS_RENAME
