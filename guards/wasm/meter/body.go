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

// mark is a place in code; what is inserted stands before code[at].
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
)

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
	// before it was set, or -1 once its value is counted.
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

func (v *validator) instruction() {
	at := v.at
	op := v.byte()
	if op == opMisc || op == opVector {
		v.prefixed(at, op)
		return
	}
	if op == opEnd {
		// Its mark stands behind it.
		v.finish()
		return
	}
	v.f.code = append(v.f.code, op)
	switch op {
	case opUnreachable:
		v.pay(costStep)
		v.jump()
	case 0x01: // nop
	case opBlock, opLoop, opIf:
		if op != opBlock { // which is no code
			v.fork(costStep)
		}
		params, results := v.blockType()
		if op == opIf {
			v.popType(I32)
		}
		v.popAll(params)
		v.enter(block{op: op, params: params, results: results, leader: v.current})
		v.pushAll(params)
		switch op {
		case opLoop:
			v.current = v.segment(-1)
			v.mark(markEnter, uint32(v.current))
			v.fork(costStep)
		case opIf:
			v.follow(v.current)
		}
	case opElse:
		b := v.leave()
		if b.op != opIf {
			fail(at, "an else is not in an if")
		}
		v.enter(block{op: opElse, params: b.params, results: b.results, targeted: b.targeted, leader: b.leader})
		v.pushAll(b.params)
		v.follow(b.leader)
		v.fork(costStep)
	case opBr:
		v.fork(costStep)
		v.popAll(v.target().label())
		v.jump()
	case opBrIf:
		v.fork(costStep)
		label := v.target().label()
		v.popType(I32)
		v.popAll(label)
		v.pushAll(label)
		v.follow(v.current)
	case opBrTable:
		v.branchTable()
	case opReturn:
		v.pay(costStep)
		v.popAll(v.blocks[0].results)
		v.jump()
	case opCall:
		at := v.at
		f := v.u32()
		v.checkFunc(at, f)
		if f < uint32(v.imports) {
			v.fork(costHost)
			v.f.code = appendU32(v.f.code, f)
		} else {
			v.fork(costCall)
			v.call(edge{index: f}, func() { v.f.code = appendU32(v.f.code, v.shift(f)) })
		}
		v.callType(v.types[v.funcs[f]])
	case opIndirect:
		v.fork(costIndirect)
		t := v.typeIndex(&v.reader)
		v.call(edge{true, t}, func() {
			v.f.code = appendU32(v.f.code, t)
			if at := v.at; v.table().Type != FuncRef {
				fail(at, "an indirect call goes through a table without functions")
			}
		})
		v.popType(I32)
		v.callType(v.types[t])
	case 0x1a: // drop
		v.pay(costStep)
		v.pop()
	case 0x1b: // select
		v.pay(costStep)
		v.popType(I32)
		a, b := v.pop(), v.pop()
		if a.isRef() || b.isRef() {
			fail(at, "a select of references needs its type")
		}
		if a != b && a != unknown && b != unknown {
			fail(at, "a select has %v and %v", b, a)
		}
		if a == unknown {
			a = b
		}
		v.push(a)
	case 0x1c: // select with a type
		v.pay(costStep)
		if v.u32() != 1 {
			fail(at, "a select must have one type")
		}
		t := v.valueType(&v.reader)
		v.f.code = append(v.f.code, 1, byte(t))
		v.popType(I32)
		v.popType(t)
		v.popType(t)
		v.push(t)
	case 0x20: // local.get
		v.pay(costStep)
		n := v.local()
		if e := v.epochs[n]; e >= 0 && e != v.epoch {
			v.saved++
			v.epochs[n] = -1
		}
		v.push(v.locals[n])
	case 0x21: // local.set
		v.pay(costStep)
		n := v.local()
		v.epochs[n] = v.epoch
		v.popType(v.locals[n])
	case 0x22: // local.tee
		v.pay(costStep)
		n := v.local()
		v.epochs[n] = v.epoch
		v.popType(v.locals[n])
		v.push(v.locals[n])
	case 0x23: // global.get
		v.pay(costStep)
		v.push(v.global().typ)
	case 0x24: // global.set
		v.pay(costStep)
		g := v.global()
		if !g.mutable {
			fail(at, "it sets a global that is constant")
		}
		v.popType(g.typ)
	case 0x25: // table.get
		v.pay(costStep)
		t := v.table()
		v.popType(I32)
		v.push(t.Type)
	case 0x26: // table.set
		v.pay(costStep)
		v.keep("it uses table.set")
		v.popType(v.table().Type)
		v.popType(I32)
	case 0x3f: // memory.size
		v.pay(costStep)
		v.needMemory()
		v.zero()
		v.push(I32)
	case 0x40: // memory.grow
		v.pay(costHost)
		v.needMemory()
		v.zero()
		v.popType(I32)
		v.push(I32)
		v.sized(len(v.f.code)-2, unitsPage)
	case 0x41: // i32.const
		v.pay(costStep)
		v.f.code = appendS64(v.f.code, v.signed(32))
		v.push(I32)
	case 0x42: // i64.const
		v.pay(costStep)
		v.f.code = appendS64(v.f.code, v.signed(64))
		v.push(I64)
	case 0x43: // f32.const
		v.pay(costStep)
		v.f.code = append(v.f.code, v.bytes(4)...)
		v.push(F32)
	case 0x44: // f64.const
		v.pay(costStep)
		v.f.code = append(v.f.code, v.bytes(8)...)
		v.push(F64)
	case 0xd0: // ref.null
		v.pay(costStep)
		t := v.refType(&v.reader)
		v.f.code = append(v.f.code, byte(t))
		v.push(t)
	case 0xd1: // ref.is_null
		v.pay(costStep)
		if t := v.pop(); !t.isRef() && t != unknown {
			fail(at, "ref.is_null of %v", t)
		}
		v.push(I32)
	case 0xd2: // ref.func
		v.pay(costHost)
		at := v.at
		f := v.u32()
		v.checkFunc(at, f)
		if !v.refs[f] {
			fail(at, "a reference to function %d is not declared", f)
		}
		v.taken[f] = true
		v.f.code = appendU32(v.f.code, v.shift(f))
		v.push(FuncRef)
	default:
		v.pay(costOf(op))
		v.apply(at, plain[op])
	}
}

// costOf is the cost of an instruction of the first table.
func costOf(op byte) uint32 {
	switch {
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82, // div, rem
		op == 0x91, op == 0x95, op == 0x9f, op == 0xa3: // sqrt, div
		return costSlow
	}
	return costStep
}

// finish reads the end of a block.
func (v *validator) finish() {
	b := v.leave()
	if b.op == opIf && !slices.Equal(b.params, b.results) {
		fail(v.at, "an if without an else gives other values than it takes")
	}
	v.f.code = append(v.f.code, opEnd)
	if len(v.blocks) == 0 {
		return
	}
	v.pushAll(b.results)
	switch {
	case b.op == opBlock && !b.targeted:
		// Code goes on as if the block were not there.
	case b.op == opLoop && b.unreachable:
		v.current = v.dead
	default:
		v.follow(b.leader)
		v.fork(0)
	}
}

func (v *validator) branchTable() {
	v.fork(costIndirect)
	n := v.count(v.lim.Body, "labels in a table")
	v.f.code = appendU32(v.f.code, uint32(n))
	v.popType(I32)
	arity := -1
	var taken []ValueType
	for i := 0; i <= n; i++ {
		at := v.at
		label := v.target().label()
		if arity >= 0 && len(label) != arity {
			fail(at, "a table of labels has labels of %d and of %d values", arity, len(label))
		}
		arity = len(label)
		// All labels have to take what is on the stack, which stays until the
		// last one is read.
		taken = taken[:0]
		v.step(arity)
		for j := arity - 1; j >= 0; j-- {
			got := v.pop()
			if got != label[j] && got != unknown {
				fail(at, "%v is on the stack where a label takes %v", got, label[j])
			}
			taken = append(taken, got)
		}
		if i == n {
			break
		}
		for j := arity - 1; j >= 0; j-- {
			v.push(taken[j])
		}
	}
	v.jump()
}

// call encodes a call's operands between its marks.
func (v *validator) call(e edge, operands func()) {
	// The opcode was written: the mark before the call has to stand before it.
	n := uint32(len(v.f.calls))
	v.f.calls = append(v.f.calls, e)
	v.markAt(len(v.f.code)-1, markCall, n)
	operands()
	v.mark(markReturn, n)
}

func (v *validator) callType(t FuncType) {
	v.popAll(t.Params)
	v.saved += len(v.stack) - v.low
	v.low = len(v.stack)
	v.epoch++
	v.pushAll(t.Results)
}

// Units of a sized instruction's operand, in sixteenths: of a byte, a table's
// entry and a page of memory.
const (
	unitsByte  = 1
	unitsEntry = 8
	unitsPage  = 64 << 10
)

// sized marks an instruction that takes as long as its last operand says, and
// which was written at code[start]. What it costs is paid by a function that
// metering adds; it takes the operand from the stack and gives it back.
func (v *validator) sized(start int, units uint32) {
	v.pay(costSized)
	v.markAt(start, markSized, units)
}

func (v *validator) prefixed(at int, op byte) {
	start := v.at
	n := v.u32()
	if v.at-start != sizeU32(n) {
		// Allowed, and written by nobody; engines read it as something else.
		fail(at, "an opcode has more bytes than it needs")
	}
	v.f.code = appendU32(append(v.f.code, op), n)
	if n > 0xff {
		fail(at, "the instruction %s is not known", spellOpcode(v.buf[at:v.at]))
	}
	if op == opVector {
		v.pay(costStep)
		switch n {
		case 12: // v128.const
			v.f.code = append(v.f.code, v.bytes(16)...)
			v.push(V128)
		case 13: // i8x16.shuffle
			for range 16 {
				v.lane(32)
			}
			v.popType(V128)
			v.popType(V128)
			v.push(V128)
		default:
			v.apply(at, vector[n])
		}
		return
	}
	start = len(v.f.code) - 1 - sizeU32(n)
	var units uint32
	pop3 := func() {
		v.popType(I32)
		v.popType(I32)
		v.popType(I32)
	}
	switch n {
	case 8: // memory.init
		v.needMemory()
		v.segmentIndex(v.data, "data")
		v.zero()
		pop3()
		units = unitsByte
	case 9: // data.drop
		v.keep("it uses data.drop")
		v.segmentIndex(v.data, "data")
	case 10: // memory.copy
		v.needMemory()
		v.zero()
		v.zero()
		pop3()
		units = unitsByte
	case 11: // memory.fill
		v.needMemory()
		v.zero()
		pop3()
		units = unitsByte
	case 12: // table.init
		v.keep("it uses table.init")
		at := v.at
		e := v.segmentIndex(len(v.elems), "element")
		if t := v.table(); t.Type != v.elems[e].typ {
			fail(at, "a table of %v is filled with %v", t.Type, v.elems[e].typ)
		}
		pop3()
		units = unitsEntry
	case 13: // elem.drop
		v.keep("it uses elem.drop")
		v.segmentIndex(len(v.elems), "element")
	case 14: // table.copy
		v.keep("it uses table.copy")
		at := v.at
		if to, from := v.table(), v.table(); to.Type != from.Type {
			fail(at, "a table of %v is filled with %v", to.Type, from.Type)
		}
		pop3()
		units = unitsEntry
	case 15: // table.grow
		v.pay(costHost)
		v.keep("it uses table.grow")
		t := v.table()
		v.popType(I32)
		v.popType(t.Type)
		v.push(I32)
		units = unitsEntry
	case 16: // table.size
		v.table()
		v.push(I32)
	case 17: // table.fill
		v.keep("it uses table.fill")
		t := v.table()
		v.popType(I32)
		v.popType(t.Type)
		v.popType(I32)
		units = unitsEntry
	default:
		v.apply(at, misc[n])
	}
	v.pay(costStep)
	if units > 0 {
		v.sized(start, units)
	}
}

// segmentIndex reads the index of a data or element segment.
func (v *validator) segmentIndex(n int, what string) uint32 {
	at := v.at
	i := v.u32()
	if n < 0 {
		fail(at, "it uses data segments without announcing their number")
	}
	if uint64(i) >= uint64(n) {
		fail(at, "there is no %s segment %d", what, i)
	}
	v.f.code = appendU32(v.f.code, i)
	return i
}
