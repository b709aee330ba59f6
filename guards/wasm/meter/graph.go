package meter

// Which calls can recurse? Only these are paid for in native stack: without
// recursion, a module's deepest chain of calls is known, and most guards that
// are not written in Go don't recurse at all.
//
// The graph has a node for each defined function, and one for each type that
// is called through a table, whose successors are the functions of that type
// that a table can hold. A call can recurse if both of its ends are in the
// same strongly connected component. Between components a chain of calls only
// goes down, so what is not counted is at most the sum of the largest frames
// along the deepest path; if that is more than the limit, all calls are
// counted.

// frameSize estimates the native stack of one call of a function that holds
// so many values: what the engine saves around a call, and a word a value, or
// two for vectors.
func frameSize(values int, wide bool) int {
	if wide {
		values *= 2
	}
	return 96 + 8*values
}

// graph numbers nodes: first the defined functions, then types.
type graph struct {
	next      [][]int32
	component []int32 // in the order in which they were completed
	recursive []bool  // by component
}

// canonical maps every type to the first one that is equal to it: indirect
// calls compare types by structure.
func (m *module) canonical() []int32 {
	first := map[string]int32{}
	out := make([]int32, len(m.types))
	for i, t := range m.types {
		key := string(appendType(nil, t))
		if _, ok := first[key]; !ok {
			first[key] = int32(i)
		}
		out[i] = first[key]
	}
	return out
}

func (m *module) graph() *graph {
	n := len(m.functions)
	canonical := m.canonical()
	g := &graph{next: make([][]int32, n+len(m.types))}
	for i := range m.functions {
		for _, c := range m.functions[i].calls {
			g.next[i] = append(g.next[i], m.node(c, canonical))
		}
	}
	for f := range m.taken {
		if int(f) >= m.imports {
			t := n + int(canonical[m.funcs[f]])
			g.next[t] = append(g.next[t], int32(int(f)-m.imports))
		}
	}
	g.connect()
	return g
}

func (m *module) node(c edge, canonical []int32) int32 {
	if c.indirect {
		return int32(len(m.functions)) + canonical[c.index]
	}
	return int32(c.index) - int32(m.imports)
}

// connect finds the strongly connected components by Tarjan's algorithm,
// without recursion of its own. A component is completed after all that it
// leads to.
func (g *graph) connect() {
	n := len(g.next)
	g.component = make([]int32, n)
	index, low := make([]int32, n), make([]int32, n)
	for i := range index {
		index[i], g.component[i] = -1, -1
	}
	type frame struct{ node, edge int32 }
	var path []frame
	var open []int32
	count := int32(0)
	for root := range n {
		if index[root] >= 0 {
			continue
		}
		path = append(path, frame{int32(root), 0})
		for len(path) > 0 {
			f := &path[len(path)-1]
			v := f.node
			if f.edge == 0 {
				index[v], low[v] = count, count
				count++
				open = append(open, v)
			}
			if int(f.edge) < len(g.next[v]) {
				w := g.next[v][f.edge]
				f.edge++
				if index[w] < 0 {
					path = append(path, frame{w, 0})
				} else if g.component[w] < 0 {
					low[v] = min(low[v], index[w])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				p := path[len(path)-1].node
				low[p] = min(low[p], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			id := int32(len(g.recursive))
			size := 0
			for {
				w := open[len(open)-1]
				open = open[:len(open)-1]
				g.component[w] = id
				size++
				if w == v {
					break
				}
			}
			loop := size > 1
			for _, w := range g.next[v] {
				loop = loop || w == v
			}
			g.recursive = append(g.recursive, loop)
		}
	}
}

// counted says for every call whether it is paid for in native stack, as a
// function of the caller's node and the callee's.
func (m *module) counted() func(caller int, c edge) bool {
	g := m.graph()
	canonical := m.canonical()
	// Components are numbered from the bottom up.
	deepest := make([]int, len(g.recursive))
	frame := make([]int, len(g.recursive))
	members := make([][]int32, len(g.recursive))
	for v, c := range g.component {
		members[c] = append(members[c], int32(v))
		if v < len(m.functions) {
			frame[c] = max(frame[c], m.functions[v].frame)
		}
	}
	all := false
	for c := range deepest {
		below := 0
		for _, v := range members[c] {
			for _, w := range g.next[v] {
				if d := g.component[w]; int(d) != c {
					below = max(below, deepest[d])
				}
			}
		}
		deepest[c] = below + frame[c]
		all = all || deepest[c] > m.lim.Stack
	}
	return func(caller int, c edge) bool {
		return all || g.component[caller] == g.component[m.node(c, canonical)]
	}
}
