package meter

// One instruction at a time: its operands and results on the stack of types,
// its immediates checked and encoded again, what it costs, and a mark where
// metering has something to insert. body.go has what they share.

import "slices"

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
			v.save()
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
		v.save()
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
	v.save()
	v.pay(costValue * uint32(max(0, len(t.Params)+len(t.Results)-freeValues)))
	v.pushAll(t.Results)
}

// save counts what an engine has to save here: at every call, be it one of the
// guest's, one that metering puts in or one by which the engine leaves machine
// code.
func (v *validator) save() {
	v.saved += len(v.stack) - v.low
	v.low = len(v.stack)
	v.epoch++
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
	v.save()
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
		v.save()
		v.pay(costSized)
		v.markAt(start, markCopy, 0)
	case 11: // memory.fill
		v.needMemory()
		v.zero()
		pop3()
		v.save()
		v.pay(costSized)
		v.markAt(start, markFill, 0)
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
