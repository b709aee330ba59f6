package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// unreserve gives address space back. It can't fail for a whole mapping of ours;
// if it does, the mapping stays, which harms nobody.
func unreserve(room []byte) { _ = unix.Munmap(room) }

// sharedImage is an image in a file that exists in memory alone and can't be
// changed any more (memfd_create(2), fcntl(2) F_ADD_SEALS). Memories are
// private mappings of it.
//
//	memory   [ .... | hot | ........................ | hot | .......... ]
//	reset    drop     copy  drop                       copy  drop
//
// To drop a page costs little, but the next call that writes there has to get
// it again, by a fault. Guests write the same few pages in every call: their
// stack, their heap's beginning. So the first calls are looked at closely, and
// the pages that most of them wrote are hot: those are copied back and stay.
// All others are dropped, whether they were written or not. Each byte is in one
// of the two, so what is hot decides about time alone.
type sharedImage struct {
	fd   int
	n    uint64
	text []byte // the file, to be read

	plan atomic.Pointer[[]span] // nil while calls are looked at

	mu      sync.Mutex
	looked  int
	written []uint8 // by page: in how many of the calls
}

// span is a range of bytes in an image.
type span struct {
	from, to int
	hot      bool
}

// osPage is what the kernel drops at a time: a divisor of a guest's pages.
var osPage = unix.Getpagesize()

const (
	// looks is how many calls are looked at, and usual in how many of them a
	// hot page was written.
	looks, usual = 8, 4
	// A gap of up to nearPages between two hot pages is hot, too: a copy is
	// cheaper than another call to the kernel. Past mostHot pages there are
	// no hot ones: a guest that writes that much is slow in either way.
	nearPages, mostHot = 4, 512
)

func newSharedImage(b []byte) (im *sharedImage, err error) {
	if pageSize%osPage != 0 || len(b)%pageSize != 0 {
		return nil, unix.EINVAL
	}
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
	var zeroes [pageSize]byte
	for page := 0; page < len(b); page += pageSize {
		// A page that is all zero is a hole: it costs no memory.
		part := b[page:min(page+pageSize, len(b))]
		if bytes.Equal(part, zeroes[:len(part)]) {
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
	text, err := unix.Mmap(fd, 0, len(b), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	return &sharedImage{fd: fd, n: uint64(len(b)), text: text, written: make([]uint8, len(b)/osPage)}, nil
}

func (im *sharedImage) size() uint64 { return im.n }

func (im *sharedImage) attach(l *linear) error {
	if l.room == nil || l.size != im.n {
		return fmt.Errorf("a memory of %d bytes can't show an image of %d", l.size, im.n)
	}
	_, err := unix.MmapPtr(im.fd, 0, unsafe.Pointer(&l.room[0]), uintptr(im.n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return err
}

func (im *sharedImage) reset(l *linear) error {
	plan := im.plan.Load()
	if plan == nil {
		im.look(l.room[:im.n])
		return drop(l.room[:im.n])
	}
	for _, s := range *plan {
		if s.hot {
			copy(l.room[s.from:s.to], im.text[s.from:s.to])
		} else if err := drop(l.room[s.from:s.to]); err != nil {
			return err
		}
	}
	return nil
}

// drop gives up what was written; the next access finds what the file has
// (madvise(2), MADV_DONTNEED on a private file mapping).
func drop(b []byte) error { return unix.Madvise(b, unix.MADV_DONTNEED) }

// look notes which pages a call has written. After enough calls it makes the
// plan.
func (im *sharedImage) look(memory []byte) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.looked == looks {
		return // another call was looked at meanwhile
	}
	there := im.resident()
	for p := range im.written {
		if at := p * osPage; there[p]&1 != 0 && !bytes.Equal(memory[at:at+osPage], im.text[at:at+osPage]) {
			im.written[p]++
		}
	}
	if im.looked++; im.looked == looks {
		plan := planReset(im.written)
		im.plan.Store(&plan)
	}
}

// resident tells by page whether the file has it in memory (mincore(2)). A page
// that is not there was never touched, and to compare it would put it there. If
// the kernel does not tell, none is: then no page is hot.
func (im *sharedImage) resident() []byte {
	there := make([]byte, len(im.written))
	unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&im.text[0])), uintptr(im.n), uintptr(unsafe.Pointer(&there[0])))
	return there
}

// planReset covers all pages, each by one span.
func planReset(written []uint8) []span {
	var plan []span
	hot := 0
	for p := 0; p < len(written); {
		end := p
		if written[p] < usual {
			for end < len(written) && written[end] < usual {
				end++
			}
			if near := end-p <= nearPages && p > 0 && end < len(written); !near {
				plan = append(plan, span{p * osPage, end * osPage, false})
				p = end
				continue
			}
		}
		for end < len(written) && written[end] >= usual {
			end++
		}
		hot += end - p
		if n := len(plan); n > 0 && plan[n-1].hot {
			plan[n-1].to = end * osPage
		} else {
			plan = append(plan, span{p * osPage, end * osPage, true})
		}
		p = end
	}
	if hot > mostHot {
		return []span{{0, len(written) * osPage, false}}
	}
	return plan
}

func (im *sharedImage) close() error {
	return errors.Join(unix.Munmap(im.text), unix.Close(im.fd))
}
