package meter

// A memory.fill or memory.copy of a gigabyte is one instruction, and takes the
// better part of a second in which nobody looks at the clock and the collector
// waits. So metering has a function each in their place, which does chunk bytes
// at a time and looks at the counter before each. What does not lie in the
// memory is left to one instruction, which writes nothing and traps.
//
// memory.init can't be larger than the module, and tables have few entries:
// those stay as they are.

// chunk is how many bytes are filled or copied at a time: a multiple of 16, so
// that parts cost as much as the whole.
const chunk = 1 << 20

// The locals of both functions are their parameters: destination, value or
// source, size.
const (
	bulkTo = iota
	bulkFrom
	bulkSize
)

// bulkType is the type of both.
var bulkType = FuncType{Params: []ValueType{I32, I32, I32}}

// fill is the body of the function that does what memory.fill does.
func (in injected) fill(b []byte) []byte {
	b = append(b, 0) // no locals
	b = append(larger(b), opIf, 0x40)
	b = append(within(b, bulkTo), opIf, 0x40)
	b = in.payChunk(append(b, opLoop, 0x40))
	b = append(b, 0x20, bulkTo, 0x20, bulkFrom)
	b = append(appendS64(append(b, 0x41), chunk), opMisc, 11, 0)
	b = move(move(b, bulkTo, chunk), bulkSize, -chunk)
	b = append(larger(b), opBrIf, 0, opEnd)
	b = append(b, opEnd, opEnd)
	b = in.payRest(b)
	return append(b, 0x20, bulkTo, 0x20, bulkFrom, 0x20, bulkSize, opMisc, 11, 0, opEnd)
}

// copy is the body of the function that does what memory.copy does. As that
// does, it copies from the end if a part of the source would be written over.
func (in injected) copy(b []byte) []byte {
	b = append(b, 0) // no locals
	b = append(larger(b), opIf, 0x40)
	b = append(within(within(b, bulkTo), bulkFrom), 0x71, opIf, 0x40) // i32.and
	b = append(b, 0x20, bulkTo, 0x20, bulkFrom, 0x4d, opIf, 0x40)     // i32.le_u

	b = in.payChunk(append(b, opLoop, 0x40))
	b = append(b, 0x20, bulkTo, 0x20, bulkFrom)
	b = append(appendS64(append(b, 0x41), chunk), opMisc, 10, 0, 0)
	b = move(move(move(b, bulkTo, chunk), bulkFrom, chunk), bulkSize, -chunk)
	b = append(larger(b), opBrIf, 0, opEnd)

	b = in.payChunk(append(b, opElse, opLoop, 0x40))
	b = move(b, bulkSize, -chunk)
	b = append(b, 0x20, bulkTo, 0x20, bulkSize, 0x6a, 0x20, bulkFrom, 0x20, bulkSize, 0x6a) // i32.add
	b = append(appendS64(append(b, 0x41), chunk), opMisc, 10, 0, 0)
	b = append(larger(b), opBrIf, 0, opEnd)

	b = append(b, opEnd, opEnd, opEnd)
	b = in.payRest(b)
	return append(b, 0x20, bulkTo, 0x20, bulkFrom, 0x20, bulkSize, opMisc, 10, 0, 0, opEnd)
}

// larger says whether more than a chunk is left.
func larger(b []byte) []byte {
	b = append(b, 0x20, bulkSize)
	return append(appendS64(append(b, 0x41), chunk), 0x4b) // i32.gt_u
}

// within says whether the range that begins at a local lies in the memory.
func within(b []byte, from byte) []byte {
	b = append(b, 0x20, from, 0xad, 0x20, bulkSize, 0xad, 0x7c) // as u64, i64.add
	b = append(b, 0x3f, 0, 0xad, 0x42, 16, 0x86)                // memory.size, i64.shl
	return append(b, 0x58)                                      // i64.le_u
}

// move adds n to a local.
func move(b []byte, local byte, n int64) []byte {
	b = appendS64(append(b, 0x20, local, 0x41), n)
	return append(b, 0x6a, 0x21, local) // i32.add
}

func (in injected) payChunk(b []byte) []byte { return in.look(add(b, in.fuel, -chunk*unitsByte/16)) }

func (in injected) payRest(b []byte) []byte {
	b = appendU32(append(b, 0x23), in.fuel)
	b = append(b, 0x20, bulkSize, 0xad, 0x42, 4, 0x88, 0x7d) // as u64, >> 4, i64.sub
	return in.look(appendU32(append(b, 0x24), in.fuel))
}
