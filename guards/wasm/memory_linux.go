package wasm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve takes address space for a guest's memory; nil when the kernel has
// none, and then the memory is on the Go heap.
func reserve(size uint64) []byte {
	if size == 0 {
		return nil
	}
	room, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	return room
}

func unreserve(room []byte) {
	if err := unix.Munmap(room); err != nil {
		panic(fmt.Sprintf("unmap the memory of a guest: %v", err)) // it was ours, whole
	}
}

// sharedImage is an image in a file that exists in memory alone and can't be
// changed any more (memfd_create(2), fcntl(2) F_ADD_SEALS).
type sharedImage struct {
	fd int
	n  uint64
}

func newSharedImage(b []byte) (im *sharedImage, err error) {
	fd, err := unix.MemfdCreate("guard", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.Ftruncate(fd, int64(len(b))); err != nil {
		return nil, err
	}
	for page := 0; page < len(b); page += pageSize {
		// A page that is all zero is a hole: it costs no memory.
		part := b[page:min(page+pageSize, len(b))]
		if zero(part) {
			continue
		}
		for done := 0; done < len(part); {
			n, err := unix.Pwrite(fd, part[done:], int64(page+done))
			if err != nil && err != unix.EINTR {
				return nil, err
			}
			done += max(n, 0)
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	return &sharedImage{fd, uint64(len(b))}, nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (im *sharedImage) size() uint64 { return im.n }

func (im *sharedImage) attach(l *linear) error {
	if l.room == nil || l.size != im.n {
		return fmt.Errorf("a memory of %d bytes can't show an image of %d", l.size, im.n)
	}
	_, err := unix.MmapPtr(im.fd, 0, unsafe.Pointer(&l.room[0]), uintptr(im.n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return err
}

// reset drops the pages that were written; the next access finds those of the
// file (madvise(2), MADV_DONTNEED on a private file mapping).
func (im *sharedImage) reset(l *linear) error {
	return unix.Madvise(l.room[:im.n], unix.MADV_DONTNEED)
}

func (im *sharedImage) close() error { return unix.Close(im.fd) }
