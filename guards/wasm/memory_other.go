//go:build !linux

package wasm

import "errors"

// reserve takes no address space: the memory is on the Go heap.
func reserve(uint64) []byte { return nil }

func unreserve([]byte) {}

func newSharedImage([]byte) (copiedImage, error) { return nil, errors.ErrUnsupported }
