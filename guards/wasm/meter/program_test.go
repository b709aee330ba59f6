package meter

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/guardproxy/guardproxy/guards/wasm/internal/assemble"
)

// Random programs that end: loops count down, and calls hand a depth down. All
// their functions have the type (depth i32, x i32) -> i32. They count their own
// steps, in a global, so that what metering asks for can be held against what
// was really run.

const (
	progFuncs  = 4
	progSteps  = 0 // global: steps
	progGlobal = 1 // global: something to change
	stepSize   = 4 // instructions of a step's counting
)

// Locals of each function: its parameters, scratch, and a counter a depth of
// nesting.
const (
	localDepth, localX    = 0, 1
	localScratch          = 2 // three i32
	localLong             = 5 // two i64
	localCounter, maxNest = 7, 4
)

type program struct {
	t    *rapid.T
	nest int
	// labels are the open blocks, innermost last: whether a branch to it may
	// be generated. Loops are closed to branches: they must count down.
	labels []bool
	size   int
}

func (p *program) pick(n int) int { return rapid.IntRange(0, n-1).Draw(p.t, "pick") }

func cat(bs ...[]byte) []byte { return slices.Concat(bs...) }

func (p *program) expr(depth int) []byte {
	p.size++
	if depth <= 0 || p.size > 400 {
		switch p.pick(3) {
		case 0:
			return I("i32.const", int64(rapid.Int32().Draw(p.t, "const")))
		case 1:
			return I("local.get", int64(1+p.pick(4)))
		default:
			return I("global.get", progGlobal)
		}
	}
	sub := func() []byte { return p.expr(depth - 1) }
	switch p.pick(12) {
	case 0:
		return cat(sub(), sub(), I([]string{"i32.add", "i32.sub", "i32.mul", "i32.xor", "i32.and", "i32.rotl", "i32.lt_u"}[p.pick(7)]))
	case 1:
		return cat(sub(), sub(), I([]string{"i32.div_u", "i32.rem_u"}[p.pick(2)])) // may trap
	case 2:
		return cat(sub(), I("i32.const", 0x1fff), I("i32.and"), I("i32.load", 0, int64(p.pick(64))))
	case 3:
		return cat(sub(), sub(), sub(), I("select"))
	case 4:
		p.open(false)
		body := cat(p.stmts(1), sub(), sub(), I("br_if", 0))
		p.close()
		return cat(I("block", assemble.Result('i')), body, I("end"))
	case 5:
		c := sub()
		p.open(false)
		a := cat(p.stmts(1), sub())
		b := sub()
		p.close()
		return cat(c, I("if", assemble.Result('i')), a, I("else"), b, I("end"))
	case 6:
		return p.call(depth)
	case 7:
		return cat(sub(), I("i64.extend_i32_u"), I("local.get", localLong), I([]string{"i64.add", "i64.mul", "i64.rotl"}[p.pick(3)]), I("local.tee", localLong+1), I("i32.wrap_i64"))
	case 8:
		return I("memory.size")
	case 9:
		return cat(sub(), I("f64.convert_i32_s"), I("f64.sqrt"), I("f64.const", 3), I("f64.div"), I("i32.trunc_f64_s")) // may trap
	case 10:
		return cat(I("table.size", 0), sub(), I("i32.xor"))
	default:
		return cat(sub(), I("i32.eqz"))
	}
}

// call goes a depth down, directly or through the table.
func (p *program) call(depth int) []byte {
	arg := cat(I("local.get", localDepth), I("i32.const", 1), I("i32.sub"), p.expr(depth-2))
	var call []byte
	if p.pick(2) == 0 {
		call = I("call", int64(p.pick(progFuncs)))
	} else {
		call = cat(p.expr(0), I("i32.const", 3), I("i32.and"), I("call_indirect", 0, 0)) // entry 3 may be empty: a trap
	}
	return cat(I("local.get", localDepth), I("i32.eqz"), I("if", assemble.Result('i')), I("i32.const", 9), I("else"), arg, call, I("end"))
}

func (p *program) open(branch bool) { p.labels = append(p.labels, branch) }
func (p *program) close()           { p.labels = p.labels[:len(p.labels)-1] }

// label is one of the blocks that end with nothing on the stack, -1 if none.
func (p *program) label() int64 {
	var may []int64
	for i := range p.labels {
		if p.labels[len(p.labels)-1-i] {
			may = append(may, int64(i))
		}
	}
	if len(may) == 0 {
		return -1
	}
	return may[p.pick(len(may))]
}

func step() []byte {
	return cat(I("global.get", progSteps), I("i64.const", 1), I("i64.add"), I("global.set", progSteps))
}

func (p *program) stmts(depth int) (b []byte) {
	for range p.pick(4) {
		b = cat(b, step(), p.stmt(depth))
	}
	return b
}

func (p *program) stmt(depth int) []byte {
	p.size++
	if depth <= 0 || p.size > 400 {
		return cat(p.expr(1), I("local.set", int64(localScratch+p.pick(3))))
	}
	small := func() []byte { return cat(p.expr(1), I("i32.const", 0x3ff), I("i32.and")) }
	switch p.pick(14) {
	case 0:
		return cat(p.expr(2), I("local.set", int64(1+p.pick(4))))
	case 1:
		return cat(small(), p.expr(2), I("i32.store"))
	case 2:
		return cat(p.expr(2), I("global.set", progGlobal))
	case 3: // a block that is left early, or not
		p.open(true)
		a := p.stmts(depth - 1)
		leave := cat(p.expr(1), I("br_if", p.label()))
		b := p.stmts(depth - 1)
		p.close()
		return cat(I("block"), a, leave, b, I("end"))
	case 4:
		c := p.expr(2)
		p.open(true)
		a, b := p.stmts(depth-1), p.stmts(depth-1)
		p.close()
		if p.pick(2) == 0 {
			return cat(c, I("if"), a, I("end"))
		}
		return cat(c, I("if"), a, I("else"), b, I("end"))
	case 5, 6: // a loop that counts down
		if p.nest >= maxNest {
			return nil
		}
		counter := int64(localCounter + p.nest)
		p.nest++
		p.open(false)
		body := p.stmts(depth - 1)
		again := cat(I("local.get", counter), I("i32.const", 1), I("i32.sub"), I("local.tee", counter), I("i32.const", 0), I("i32.gt_s"), I("br_if", 0))
		if p.pick(2) == 0 { // it goes on behind the branch
			again = cat(again, p.stmts(depth-1))
		}
		p.close()
		p.nest--
		return cat(I("i32.const", int64(1+p.pick(4))), I("local.set", counter), I("loop"), body, again, I("end"))
	case 7: // a switch
		arms := 1 + p.pick(4)
		b := []byte{}
		for range arms + 1 {
			b = cat(b, I("block"))
			p.open(true)
		}
		var labels []int64
		for range arms + 1 {
			labels = append(labels, int64(p.pick(arms+1)))
		}
		b = cat(b, p.expr(1), I("i32.const", 7), I("i32.and"), I("br_table", labels...))
		for range arms {
			p.close()
			b = cat(b, I("end"), p.stmts(depth-1))
			if p.pick(2) == 0 {
				b = cat(b, I("br", p.label()))
			}
		}
		p.close()
		return cat(b, I("end"))
	case 8:
		return cat(p.call(depth), I("local.set", int64(localScratch+p.pick(3))))
	case 9:
		return cat(small(), p.expr(1), small(), I("memory.fill"))
	case 10:
		return cat(small(), small(), small(), I("memory.copy"))
	case 11:
		return cat(small(), I("i32.const", int64(p.pick(4))), I("i32.const", int64(p.pick(5))), I("memory.init", 0)) // may trap
	case 12:
		switch p.pick(5) {
		case 0:
			return cat(I("i32.const", int64(p.pick(2))), I("memory.grow"), I("drop"))
		case 1:
			return cat(I("ref.func", int64(p.pick(progFuncs))), I("i32.const", int64(p.pick(2))), I("table.grow", 0), I("drop"))
		case 2:
			return cat(I("i32.const", int64(p.pick(3))), I("ref.func", int64(p.pick(progFuncs))), I("i32.const", 1), I("table.fill", 0))
		case 3:
			return cat(I("i32.const", 0), I("i32.const", 1), I("i32.const", 2), I("table.copy", 0, 0))
		default:
			return cat(I("i32.const", int64(p.pick(3))), I("ref.func", int64(p.pick(progFuncs))), I("table.set", 0))
		}
	default:
		if p.pick(3) == 0 {
			return cat(p.expr(1), I("return"))
		}
		return cat(I("local.get", localX), I("i64.extend_i32_u"), I("local.set", localLong))
	}
}

func (p *program) module() []byte {
	m := &assemble.Module{Count: true}
	typ := m.Type("ii:i")
	if typ != 0 {
		panic("calls name type 0")
	}
	for range progFuncs {
		*p = program{t: p.t}
		m.Func("ii:i", "iiiIIiiii", p.stmts(3), step(), p.expr(3))
	}
	m.Memory(1, 3)
	m.Table('r', 4, 6)
	m.Funcs(0, 0, 1, 2)
	m.Elem([]byte{3, 0}, assemble.Vec([]byte{3})) // declares function 3
	m.Global('I', true, I("i64.const", 0))
	m.Global('i', true, I("i32.const", 5))
	m.PassiveData("data")
	m.Data(100, "hello")
	m.Export("memory", assemble.Memory, 0)
	m.Export("run", assemble.Func, 0)
	m.Export("steps", assemble.Global, progSteps)
	m.Export("global", assemble.Global, progGlobal)
	return m.Bytes()
}

// outcome is all that can be seen of a run.
func outcome(t *testing.T, h *host, module []byte, args ...uint64) (s string, steps int64) {
	m, done, err := start(t.Context(), h, module)
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	results, err := m.ExportedFunction("run").Call(t.Context(), args...)
	mem, _ := m.Memory().Read(0, m.Memory().Size())
	hash := fnv.New64()
	hash.Write(mem)
	steps = int64(m.ExportedGlobal("steps").Get())
	if g, ok := m.ExportedGlobal(FuelExport).(api.MutableGlobal); ok {
		h.used = h.granted - int64(g.Get())
	}
	return fmt.Sprintf("%v %s memory %d %x, global %d, %d steps", results, trapOf(err), len(mem), hash.Sum64(), m.ExportedGlobal("global").Get(), steps), steps
}

// For all programs: metered, they give the same results, memory and traps; and
// they pay for at least as much as they ran.
func TestMeteringKeepsMeaning(t *testing.T) {
	var ended, trapped int
	rapid.Check(t, func(rt *rapid.T) {
		module := (&program{t: rt}).module()
		out, err := meterAny(module, Limits{}.withDefaults())
		if err != nil {
			rt.Fatalf("refused: %v\n%x", err, module)
		}
		args := []uint64{uint64(rapid.IntRange(0, 3).Draw(rt, "depth")), uint64(rapid.Uint32().Draw(rt, "x"))}
		h := &host{left: 20_000_000}
		got, steps := outcome(t, h, out, args...)
		if h.why != nil {
			rt.Skip("it takes too long")
		}
		want, _ := outcome(t, &host{}, module, args...)
		if got != want {
			rt.Fatalf("metered: %s\nas it is: %s\n%x", got, want, module)
		}
		if h.used < steps*stepSize {
			rt.Fatalf("it paid %d for %d steps of %d instructions", h.used, steps, stepSize)
		}
		ended++
		if slices.Contains([]byte(want), 'w') {
			trapped++
		}
	})
	t.Logf("%d programs ended, %d of them with a trap", ended, trapped)
}
