//go:build linux && !amd64

package run

// renameNumber is of a call that this architecture does not have, or that no
// rung is written for.
const renameNumber = -1
