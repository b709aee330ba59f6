//go:build linux && amd64

package run_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket32 asks for an internet socket by the 32-bit entry, whose calls have
// other numbers (socket is 359 in asm/unistd_32.h): int 0x80 in a few bytes of
// machine code of our own.
func socket32() error {
	code := []byte{
		0xb8, 0x67, 0x01, 0x00, 0x00, // mov eax, 359
		0xbb, unix.AF_INET, 0, 0, 0, // mov ebx, domain
		0xb9, unix.SOCK_STREAM, 0, 0, 0, // mov ecx, type
		0x31, 0xd2, // xor edx, edx
		0xcd, 0x80, // int 0x80
		0xc3, // ret
	}
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(page, code)
	entry := unsafe.Pointer(&page[0])
	value := &entry
	f := *(*func() int32)(unsafe.Pointer(&value)) // a func value points to its entry
	if r := f(); r < 0 {
		return unix.Errno(-r)
	}
	return nil
}
