//go:build !linux

package spawn

import "syscall"

// stopSelf stops this process and returns when it is awake.
func stopSelf() { syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }
