package meter

// The reader of the binary format (core specification 2.0, chapter 5), and its
// opposite, the functions that append. Reading stops by a panic with an
// *Error, which vet catches: a decoder has a failure at every byte, and
// nothing sensible to do about it in between.

import (
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// reader walks over buf[at:end]; at is an offset in the module.
type reader struct {
	buf     []byte
	at, end int
}

// fail refuses the module, at an offset in it.
func fail(at int, format string, a ...any) {
	panic(&Error{Offset: at, msg: fmt.Sprintf(format, a...)})
}

// refuse refuses a well-formed module, with advice.
func refuse(hint, format string, a ...any) {
	panic(&Error{Offset: -1, msg: fmt.Sprintf(format, a...), hint: hint})
}

func (r *reader) done() bool { return r.at == r.end }

func (r *reader) byte() byte {
	if r.at >= r.end {
		fail(r.at, "it ends too early")
	}
	b := r.buf[r.at]
	r.at++
	return b
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.end-r.at) {
		fail(r.at, "%d bytes are announced, %d are left", n, r.end-r.at)
	}
	b := r.buf[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

// part is a reader of the next n bytes.
func (r *reader) part(n uint32) reader {
	start := r.at
	r.bytes(n)
	return reader{r.buf, start, r.at}
}

// u32 reads an unsigned number of at most 32 bits. The specification allows
// padding up to five bytes; more, or bits that would be lost, are malformed.
func (r *reader) u32() uint32 {
	start := r.at
	var v uint32
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			fail(start, "a number has more than 32 bits")
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// signed reads a signed number of width bits, 32, 33 or 64. Of the last byte
// that fits, the bits beyond the width repeat its sign.
func (r *reader) signed(width int) int64 {
	start := r.at
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if left := width - shift; left < 7 {
			// Of seven bits, left ones count; the top one of them is the sign.
			rest := int8(b<<1) >> left
			if b >= 0x80 || rest != 0 && rest != -1 {
				fail(start, "a number has more than %d bits", width)
			}
		}
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// count reads the length of a vector, at most limit. Each element takes a byte
// at least, so no count can ask for more memory than the module has bytes.
func (r *reader) count(limit int, what string) int {
	start := r.at
	n := r.u32()
	if uint64(n) > uint64(limit) {
		panic(&Error{Offset: start, msg: fmt.Sprintf("it has %d %s, at most %d are allowed", n, what, limit)})
	}
	if uint64(n) > uint64(r.end-r.at) {
		fail(start, "%d %s are announced, %d bytes are left", n, what, r.end-r.at)
	}
	return int(n)
}

func (r *reader) name(limit int) string {
	start := r.at
	n := r.u32()
	if uint64(n) > uint64(limit) {
		fail(start, "a name has %d bytes, at most %d are allowed", n, limit)
	}
	b := r.bytes(n)
	if !utf8.Valid(b) {
		fail(start, "a name is not valid UTF-8")
	}
	return string(b)
}

// limits reads a table's or memory's limits; unlimited if it has no maximum.
func (r *reader) limits(what string, most, unlimited uint32) (low, high uint32) {
	start := r.at
	switch flag := r.byte(); flag {
	case 0:
		low, high = r.u32(), unlimited
	case 1:
		low, high = r.u32(), r.u32()
	case 2, 3:
		fail(start, "a shared %s belongs to threads, which a guard can't have", what)
	case 4, 5:
		fail(start, "a 64-bit %s is not supported", what)
	default:
		fail(start, "the limits of a %s begin with %#x", what, flag)
	}
	if low > high || high > most {
		fail(start, "a %s from %d to %d can't be", what, low, high)
	}
	return low, high
}

func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte { return append(appendU32(b, uint32(len(s))), s...) }

// sizeU32 is the length of appendU32's result.
func sizeU32(v uint32) int { return max(1, (bits.Len32(v)+6)/7) }
