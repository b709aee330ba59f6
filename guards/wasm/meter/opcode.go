package meter

// The instructions whose operands, results and immediates can be told by a
// table (core specification 2.0, 5.4 and appendix A.7). What depends on
// indices, labels or the stack is in body.go. An opcode without an entry is
// refused: an unknown instruction can't be metered.

import "fmt"

// shape is what an instruction takes and gives, as "operands:results" with a
// letter a type: i i32, I i64, f f32, F f64, v v128.
type shape struct {
	sig string
	// mem is 1 + log2 of the natural alignment of an access to memory, which
	// has an alignment and an offset as immediates; 0 for other instructions.
	mem byte
	// lanes is the number that a lane index has to be below, 0 if there is none.
	lanes byte
}

var letters = [256]ValueType{'i': I32, 'I': I64, 'f': F32, 'F': F64, 'v': V128}

// The tables by prefix: none, 0xfc, 0xfd.
var plain, misc, vector [256]shape

func init() {
	set := func(t *[256]shape, sig string, ranges ...int) {
		for i := 0; i < len(ranges); i += 2 {
			for op := ranges[i]; op <= ranges[i+1]; op++ {
				if t[op].sig != "" {
					panic("an opcode has two entries")
				}
				t[op].sig = sig
			}
		}
	}
	p := func(sig string, ranges ...int) { set(&plain, sig, ranges...) }
	// Comparisons.
	p("i:i", 0x45, 0x45)
	p("ii:i", 0x46, 0x4f)
	p("I:i", 0x50, 0x50)
	p("II:i", 0x51, 0x5a)
	p("ff:i", 0x5b, 0x60)
	p("FF:i", 0x61, 0x66)
	// Arithmetic.
	p("i:i", 0x67, 0x69, 0xc0, 0xc1)
	p("ii:i", 0x6a, 0x78)
	p("I:I", 0x79, 0x7b, 0xc2, 0xc4)
	p("II:I", 0x7c, 0x8a)
	p("f:f", 0x8b, 0x91)
	p("ff:f", 0x92, 0x98)
	p("F:F", 0x99, 0x9f)
	p("FF:F", 0xa0, 0xa6)
	// Conversions.
	p("I:i", 0xa7, 0xa7)
	p("f:i", 0xa8, 0xa9, 0xbc, 0xbc)
	p("F:i", 0xaa, 0xab)
	p("i:I", 0xac, 0xad)
	p("f:I", 0xae, 0xaf)
	p("F:I", 0xb0, 0xb1, 0xbd, 0xbd)
	p("i:f", 0xb2, 0xb3, 0xbe, 0xbe)
	p("I:f", 0xb4, 0xb5)
	p("F:f", 0xb6, 0xb6)
	p("i:F", 0xb7, 0xb8)
	p("I:F", 0xb9, 0xba, 0xbf, 0xbf)
	p("f:F", 0xbb, 0xbb)
	// Memory.
	access := func(t *[256]shape, op int, sig string, align byte) {
		set(t, sig, op, op)
		t[op].mem = align + 1
	}
	for i, a := range []byte{2, 3, 2, 3, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2} {
		access(&plain, 0x28+i, []string{"i:i", "i:I", "i:f", "i:F", "i:i", "i:i", "i:i", "i:i", "i:I", "i:I", "i:I", "i:I", "i:I", "i:I"}[i], a)
	}
	for i, a := range []byte{2, 3, 2, 3, 0, 1, 0, 1, 2} {
		access(&plain, 0x36+i, []string{"ii:", "iI:", "if:", "iF:", "ii:", "ii:", "iI:", "iI:", "iI:"}[i], a)
	}

	// Saturating conversions.
	set(&misc, "f:i", 0, 1)
	set(&misc, "F:i", 2, 3)
	set(&misc, "f:I", 4, 5)
	set(&misc, "F:I", 6, 7)

	v := func(sig string, ranges ...int) { set(&vector, sig, ranges...) }
	for op, a := range []byte{4, 3, 3, 3, 3, 3, 3, 0, 1, 2, 3} {
		access(&vector, op, "i:v", a)
	}
	access(&vector, 11, "iv:", 4)
	access(&vector, 92, "i:v", 2)
	access(&vector, 93, "i:v", 3)
	for i := range 4 {
		access(&vector, 84+i, "iv:v", byte(i))
		access(&vector, 88+i, "iv:", byte(i))
		vector[84+i].lanes = 16 >> i
		vector[88+i].lanes = 16 >> i
	}
	// Splats and lanes.
	v("i:v", 15, 17)
	v("I:v", 18, 18)
	v("f:v", 19, 19)
	v("F:v", 20, 20)
	for i, sig := range []string{"v:i", "v:i", "vi:v", "v:i", "v:i", "vi:v", "v:i", "vi:v", "v:I", "vI:v", "v:f", "vf:v", "v:F", "vF:v"} {
		v(sig, 21+i, 21+i)
		vector[21+i].lanes = []byte{16, 16, 16, 8, 8, 8, 4, 4, 2, 2, 4, 4, 2, 2}[i]
	}
	// The rest, by what it takes. 154, 162, 165, 166, 175, 176, 178 to 180,
	// 187, 194, 197, 198, 207, 208, 210 to 212, 226 and 238 do not exist.
	v("vv:v", 14, 14, 35, 76, 78, 81, 101, 102, 110, 115, 118, 121, 123, 123,
		130, 130, 133, 134, 142, 147, 149, 153, 155, 159,
		174, 174, 177, 177, 181, 186, 188, 191,
		206, 206, 209, 209, 213, 223, 228, 235, 240, 247)
	v("v:v", 77, 77, 94, 98, 103, 106, 116, 117, 122, 122, 124, 129, 135, 138, 148, 148,
		160, 161, 167, 170, 192, 193, 199, 202, 224, 225, 227, 227, 236, 237, 239, 239, 248, 255)
	v("vvv:v", 82, 82)
	v("v:i", 83, 83, 99, 100, 131, 132, 163, 164, 195, 196)
	v("vi:v", 107, 109, 139, 141, 171, 173, 203, 205)
}

// spellOpcode writes an opcode with its prefix for people.
func spellOpcode(b []byte) string { return fmt.Sprintf("% x", b) }
