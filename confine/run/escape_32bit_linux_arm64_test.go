//go:build linux && arm64

package run_test

// socket32: 32-bit calls take a 32-bit program here.
func socket32() error { return errNothing }
