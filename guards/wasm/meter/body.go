package meter

// A function's body is validated by the algorithm of the core specification's
// appendix (A.3), with a stack of types and a stack of blocks, and encoded
// again on the way. Beside the code stand marks: the places where metering
// has something to insert once the whole function is known.
//
// What is paid for is a segment, a stretch of code that is entered at its top
// only. A segment begins at the function's entry, after each loop header, in
// each arm of an if, and where code goes on after a block, a br_if or a loop.
// Its leader is the segment that was left there: whoever comes to a segment
// has come through its leader, as often, so a small segment can be paid for
// there. That makes a guest pay for steps that it may then jump over, so how
// much of this a leader takes is bounded; and loops and functions have no
// leader, so nothing is run twice that was paid for once.

import "slices"

// function is a validated body.
type function struct {
	locals   []byte // encoded declarations of locals
	code     []byte
	marks    []mark
	segments []segment
	frame    int // estimated bytes of native stack
	calls    []edge
}

// mark is a place in code; what is inserted stands before code[at], or in the
// place of the instruction there.
type mark struct {
	at   int32
	kind markKind
	arg  uint32 // a segment; of calls an index in function.calls; of sized ones the units
}

type markKind uint8

const (
	markEnter  markKind = iota // pay for a segment and look at the counter
	markPay                    // pay for a segment
	markCall                   // before a call
	markReturn                 // after it
	markSized                  // pay by the operand on the stack
	markFill                   // in the place of a memory.fill
	markCopy                   // in the place of a memory.copy
)

// How many bytes those two take in code.
const sizeFill, sizeCopy = 3, 4

type segment struct {
	cost   uint32
	leader int32 // -1 if it has to be paid for at its own place
	taken  uint32
}

// edge is a call: of a function, or of any function of a type.
type edge struct {
	indirect bool
	index    uint32
}

// Costs, in units of about one simple instruction. Where control forks or
// merges, an engine may have to move every local that has changed: there, and
// at calls, locals are paid for, too (see validator.fork).
const (
	costStep     = 1
	costFork     = 32 // locals a unit
	costSlow     = 8  // divisions and roots
	costCall     = 4  // of a function of the module
	costIndirect = 8  // through a table
	costHost     = 64 // of the host, or of an instruction for which the engine leaves machine code
	costSized    = 4  // sized instructions, beside their size
	costValue    = 2  // each parameter and result of a call, past freeValues: they go through memory
	freeValues   = 8

	smallSegment = 6  // what a leader may pay for
	smallTotal   = 32 // and how much of this in all
)

// block is an entry of the stack of blocks.
type block struct {
	op          byte // block, loop, if or else; 0 for the function
	params      []ValueType
	results     []ValueType
	height      int // of the stack of types
	unreachable bool
	targeted    bool  // some branch goes to its label
	leader      int32 // the segment in which it began
}

func (b *block) label() []ValueType {
	if b.op == opLoop {
		return b.params
	}
	return b.results
}

// Opcodes with rules of their own.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opReturn      = 0x0f
	opCall        = 0x10
	opIndirect    = 0x11
	opMisc        = 0xfc
	opVector      = 0xfd
)

// validator is the state of one body's validation.
type validator struct {
	*module
	reader
	f       *function
	locals  []ValueType
	stack   []ValueType
	highest int
	blocks  []block
	// An engine saves what is needed after a call, and gives every value a
	// place of its own for it: saved counts these places, as far as a single
	// pass can see them. low is the height below which the stack has not been
	// since the last call; epochs tell for every local how many calls were
	// before it was set, or -1 once its value is counted. Calls that metering
	// or the engine make of other instructions count, too.
	saved, low, epoch int
	epochs            []int
	wide              bool // some value is a vector
	// current is the segment that is being read. Unreachable code has the
	// segment dead, which nothing pays for.
	current int32
	dead    int32
}

func (m *module) readCode(r *reader) {
	at := r.at
	n := r.count(m.lim.Functions, "function bodies")
	if n != len(m.funcs)-m.imports {
		fail(at, "it has %d functions and %d bodies", len(m.funcs)-m.imports, n)
	}
	m.info.Code = r.end - r.at
	m.functions = make([]function, n)
	v := validator{module: m}
	for i := range n {
		size := r.u32()
		if uint64(size) > uint64(m.lim.Body) {
			refuse("", "function %d has %d bytes, at most %d are allowed", m.imports+i, size, m.lim.Body)
		}
		v.reader = r.part(size)
		v.f = &m.functions[i]
		v.body(m.types[m.funcs[m.imports+i]], m.imports+i)
		m.info.LargestFn = max(m.info.LargestFn, int(size))
	}
}

func (v *validator) body(t FuncType, index int) {
	v.readLocals(t, index)
	v.f.code = make([]byte, 0, v.end-v.at)
	v.stack, v.blocks = v.stack[:0], v.blocks[:0]
	v.highest, v.saved, v.low, v.epoch = 0, 0, 0, 0
	v.wide = slices.Contains(v.locals, V128)
	v.epochs = append(v.epochs[:0], make([]int, len(v.locals))...)
	v.current = v.segment(-1)
	v.dead = v.segment(-1)
	v.mark(markEnter, uint32(v.current))
	v.fork(0)
	v.enter(block{results: t.Results})
	for len(v.blocks) > 0 {
		v.instruction()
	}
	if !v.done() {
		fail(v.at, "function %d has bytes behind its end", index)
	}
	v.f.fold()
	v.f.frame = frameSize(len(v.locals)+v.highest+v.saved, v.wide)
}

func (v *validator) readLocals(t FuncType, index int) {
	v.locals = append(v.locals[:0], t.Params...)
	groups := v.count(v.lim.Body, "groups of locals")
	kept := uint32(0)
	var b []byte
	for range groups {
		at := v.at
		n := v.u32()
		t := v.valueType(&v.reader)
		if uint64(len(v.locals))+uint64(n) > uint64(v.lim.Locals) {
			fail(at, "function %d has more than %d locals", index, v.lim.Locals)
		}
		if n == 0 {
			continue
		}
		for range n {
			v.locals = append(v.locals, t)
		}
		kept++
		b = append(appendU32(b, n), byte(t))
	}
	if v.module.locals += len(v.locals); v.module.locals > maxLocals {
		refuse("", "its functions have more than %d locals in all", maxLocals)
	}
	v.f.locals = append(appendU32(nil, kept), b...)
}

// segment begins a new one.
func (v *validator) segment(leader int32) int32 {
	v.f.segments = append(v.f.segments, segment{leader: leader})
	return int32(len(v.f.segments) - 1)
}

// follow begins a segment that is paid for where it begins, or by its leader.
func (v *validator) follow(leader int32) {
	if leader == v.dead {
		v.current = v.dead
		return
	}
	v.current = v.segment(leader)
	v.mark(markPay, uint32(v.current))
}

func (v *validator) mark(kind markKind, arg uint32) { v.markAt(len(v.f.code), kind, arg) }

// markAt also stops a module that would become too large before it takes the
// memory for that.
func (v *validator) markAt(at int, kind markKind, arg uint32) {
	const least = 9 // bytes of the shortest sequence
	if v.growth += least; v.growth > (maxGrowth-1)*v.lim.Module {
		v.tooLarge()
	}
	v.f.marks = append(v.f.marks, mark{int32(at), kind, arg})
}

func (v *validator) pay(cost uint32) { v.f.segments[v.current].cost += cost }

// fork pays for a place where control forks or merges.
func (v *validator) fork(cost uint32) { v.pay(cost + uint32(len(v.locals))/costFork) }

// fold moves small segments to their leaders. Leaders stand before those that
// they lead, so this goes from the last to the first.
func (f *function) fold() {
	for i := len(f.segments) - 1; i >= 0; i-- {
		s := &f.segments[i]
		if s.leader < 0 || s.cost > smallSegment {
			continue
		}
		if l := &f.segments[s.leader]; l.taken+s.cost <= smallTotal {
			l.cost += s.cost
			l.taken += s.cost
			s.cost = 0
		}
	}
}

func (v *validator) push(t ValueType) {
	v.wide = v.wide || t == V128
	v.stack = append(v.stack, t)
	v.highest = max(v.highest, len(v.stack))
}

func (v *validator) pushAll(ts []ValueType) {
	v.step(len(ts))
	for _, t := range ts {
		v.push(t)
	}
}

// step counts work that the module's bytes don't bound.
func (v *validator) step(n int) {
	if v.work += n; v.work > maxWork {
		refuse("", "it is too laborious to validate")
	}
}

// pop takes a value of any type.
func (v *validator) pop() ValueType {
	b := &v.blocks[len(v.blocks)-1]
	if len(v.stack) == b.height {
		if !b.unreachable {
			fail(v.at, "the stack is empty")
		}
		return unknown
	}
	t := v.stack[len(v.stack)-1]
	v.stack = v.stack[:len(v.stack)-1]
	v.low = min(v.low, len(v.stack))
	return t
}

func (v *validator) popType(want ValueType) {
	if got := v.pop(); got != want && got != unknown {
		fail(v.at, "%v is on the stack where %v has to be", got, want)
	}
}

func (v *validator) popAll(ts []ValueType) {
	v.step(len(ts))
	for i := len(ts) - 1; i >= 0; i-- {
		v.popType(ts[i])
	}
}

// enter begins a block; its parameters are pushed by the caller.
func (v *validator) enter(b block) {
	if len(v.blocks) > v.lim.Nesting {
		fail(v.at, "blocks are nested more than %d deep", v.lim.Nesting)
	}
	b.height = len(v.stack)
	v.blocks = append(v.blocks, b)
}

// leave checks the values at a block's end and takes it from the stack.
func (v *validator) leave() block {
	b := v.blocks[len(v.blocks)-1]
	v.popAll(b.results)
	if len(v.stack) != b.height {
		fail(v.at, "%d values are left over at the end of a block", len(v.stack)-b.height)
	}
	v.blocks = v.blocks[:len(v.blocks)-1]
	return b
}

// jump begins unreachable code.
func (v *validator) jump() {
	b := &v.blocks[len(v.blocks)-1]
	v.stack = v.stack[:b.height]
	v.low = min(v.low, b.height)
	b.unreachable = true
	v.current = v.dead
}

// target reads a label's index.
func (v *validator) target() *block {
	at := v.at
	n := v.u32()
	if uint64(n) >= uint64(len(v.blocks)) {
		fail(at, "there is no label %d", n)
	}
	v.f.code = appendU32(v.f.code, n)
	b := &v.blocks[len(v.blocks)-1-int(n)]
	b.targeted = true
	return b
}

// blockType reads a block's type: nothing, one result, or a type's index.
func (v *validator) blockType() (params, results []ValueType) {
	at := v.at
	n := v.signed(33)
	v.f.code = appendS64(v.f.code, n)
	switch {
	case n == -64:
		return nil, nil
	case n < 0 && n > -64:
		one := reader{v.buf, at, v.at}
		if v.at-at != 1 {
			fail(at, "a block has an odd type")
		}
		return nil, []ValueType{v.valueType(&one)}
	case n < 0 || n >= int64(len(v.types)):
		fail(at, "there is no type %d", n)
	}
	t := v.types[n]
	return t.Params, t.Results
}

func (v *validator) local() uint32 {
	at := v.at
	n := v.u32()
	if uint64(n) >= uint64(len(v.locals)) {
		fail(at, "there is no local %d", n)
	}
	v.f.code = appendU32(v.f.code, n)
	return n
}

func (v *validator) global() global {
	at := v.at
	n := v.u32()
	if uint64(n) >= uint64(len(v.globals)) {
		fail(at, "there is no global %d", n)
	}
	v.f.code = appendU32(v.f.code, n)
	return v.globals[n]
}

func (v *validator) table() Table {
	at := v.at
	n := v.u32()
	if uint64(n) >= uint64(len(v.tables)) {
		fail(at, "there is no table %d", n)
	}
	v.f.code = appendU32(v.f.code, n)
	return v.tables[n]
}

func (v *validator) zero() {
	if at := v.at; v.byte() != 0 {
		fail(at, "a byte is reserved and not zero")
	}
	v.f.code = append(v.f.code, 0)
}

func (v *validator) needMemory() {
	if !v.memory {
		fail(v.at, "it uses a memory, and has none")
	}
}

// apply validates an instruction of the tables.
func (v *validator) apply(at int, s shape) {
	if s.sig == "" {
		fail(at, "the instruction %s is not known", spellOpcode(v.buf[at:v.at]))
	}
	if s.mem > 0 {
		v.needMemory()
		at := v.at
		align := v.u32()
		if align >= uint32(s.mem) {
			fail(at, "an access to memory is aligned to 2^%d bytes, more than its size", align)
		}
		v.f.code = appendU32(appendU32(v.f.code, align), v.u32())
	}
	if s.lanes > 0 {
		v.lane(s.lanes)
	}
	i := len(s.sig) - 1
	for ; s.sig[i] != ':'; i-- {
	}
	for j := i - 1; j >= 0; j-- {
		v.popType(letters[s.sig[j]])
	}
	for _, c := range []byte(s.sig[i+1:]) {
		v.push(letters[c])
	}
}

func (v *validator) lane(lanes byte) {
	at := v.at
	l := v.byte()
	if l >= lanes {
		fail(at, "there is no lane %d", l)
	}
	v.f.code = append(v.f.code, l)
}
